"""Boosted trees are those of scikit-learn: bins, splits, values, and when they stop; also for all tasks at once."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier

import plain_trees
from precall.metrics.members import trees
from precall.metrics.members.gaussians import shrunk
from precall.metrics.members.linear import discriminant
from precall.metrics.members.views import Ordered, Views, tasks_of

pytestmark = pytest.mark.usefixtures("plain")
HOW = {"learning_rate": trees.RATE, "max_leaf_nodes": trees.LEAVES, "max_bins": trees.BINS, "random_state": 0}


@pytest.fixture
def plain(monkeypatch):
    """Trees for all tasks at once grow on the CPU, by what the kernels compute."""
    monkeypatch.setattr(trees, "_tree", plain_trees.tree)


def made(n, seed=0):
    """A column of few values, one in tiny units, a constant one, and labels that depend on an interaction."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5)) * [1.0, 1.0, 1e-9, 0.0, 1.0]
    x[:, 1] = x[:, 1].round()
    return x, rng.random(n) < 1 / (1 + np.exp(-2 * x[:, 0] * x[:, 1] - x[:, 0]))


def scored(found, x):
    return found.log_ratio(SimpleNamespace(narrow=torch.from_numpy(x), columns=lambda _: torch.zeros(0, len(x))))


@pytest.mark.parametrize("n", [63, 400, 1001])
def test_the_bins_are_those_of_scikit_learn(n):
    x, y = made(n)
    theirs = HistGradientBoostingClassifier(max_iter=1, early_stopping=False, **HOW).fit(x, y)._bin_mapper
    edges = trees.bin_edges(torch.from_numpy(np.sort(x.T, axis=1)))
    for one, expected in zip(edges, theirs.bin_thresholds_, strict=True):
        np.testing.assert_allclose(one[one.isfinite()], expected, rtol=1e-12)
    bins = trees._bins(Ordered.of(torch.from_numpy(x.T.copy())), torch.arange(n))[1]
    np.testing.assert_array_equal(bins.T, theirs.transform(x))


@pytest.mark.parametrize("n", [130, 900])
def test_the_trees_are_those_of_scikit_learn_on_both_roads(n, monkeypatch):
    monkeypatch.setattr(trees, "TREES", 12)
    x, y = made(n)
    theirs = HistGradientBoostingClassifier(
        max_iter=12, early_stopping=False, l2_regularization=trees.RIDGE, **HOW
    ).fit(x, y)
    edges, bins = trees._bins(Ordered.of(torch.from_numpy(x.T.copy())), torch.arange(n))
    model = trees.boosted_trees()(max_iter=12, early_stopping=False, l2_regularization=trees.RIDGE, **HOW)
    model.edges = edges.numpy()
    one = model.fit(bins.numpy().T, y).trees(torch.arange(0), 0.0)
    real, everything = torch.from_numpy(y)[None], torch.ones(1, n, dtype=torch.bool)
    splits, values, stops = trees.grown(bins[None], real, everything, everything)
    assert stops == [12]
    start = trees._log_odds(real, everything)[0]
    other = trees.Trees(torch.arange(0), *trees._numbered(splits[:, 0], values[:, 0], edges), start)
    fresh = made(300, seed=1)[0]
    for at in (x, fresh):
        expected = theirs.decision_function(at)
        np.testing.assert_allclose(scored(one, at), expected, atol=1e-9)
        np.testing.assert_allclose(scored(other, at), expected, atol=1e-9)


def test_training_stops_as_in_scikit_learn():
    x, y = made(300)
    y = np.random.default_rng(1).permutation(y)  # nothing to learn
    model = HistGradientBoostingClassifier(max_iter=60, early_stopping=True, **HOW).fit(x, y)
    assert trees._stop(-model.validation_score_) == model.n_iter_ < 60
    assert trees._stop(-model.validation_score_[:5]) == 4


def test_all_tasks_at_once_find_what_each_one_finds_alone():
    """Other samples are held out for early stopping, so the log-ratios are alike, not equal."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(np.concatenate([rng.normal(size=(600, 3)), rng.normal(size=(500, 3)) * [2.0, 1.0, 1.0]]))
    real = np.arange(1100) < 600
    views = Views.fit(x, torch.arange(1100))
    tasks = tasks_of(
        views.rows(x), torch.arange(1100), real, [np.arange(1100) % 3 != k for k in range(3)], np.ones(1100, dtype=bool)
    )
    together, alone = trees.boosted_together(tasks, 0), trees.boosting(tasks, 0)
    for one, other, task in zip(together, alone, tasks, strict=True):
        at = partial(task.rows.part, torch.arange(0, 1100, 7))
        a, b = (found.log_ratio(at()).numpy() for found in (one, other))
        assert np.corrcoef(a, b)[0, 1] > 0.9
        assert abs(np.mean(a - b)) < 0.1


def test_the_edges_below_sorted_values_are_those_that_a_search_of_each_value_finds():
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.integers(-5, 6, size=(3, 90)) + 0.5 * (rng.random((3, 90)) < 0.3))
    edges, ordered = torch.tensor([[-9.0, -2.0, 0.0, 0.0, 3.5, np.inf]]).double().repeat(3, 1), Ordered.of(x)
    for right in (False, True):
        found = ordered.counted(torch.searchsorted(ordered.values, edges, right=not right))
        assert torch.equal(found, torch.searchsorted(edges, x, right=right))
    some = torch.tensor([7, 3, 60])
    assert torch.equal(ordered.some(some), x[:, some].sort(dim=1).values)


def test_the_discriminant_has_the_covariance_within_the_classes():
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(300, 4)) @ rng.normal(size=(4, 4)) + 3 * (np.arange(300) < 120)[:, None])
    rows, fit, real = Views.fit(x, torch.arange(300)).rows(x), torch.arange(300), np.arange(300) < 120
    (task,) = tasks_of(rows, fit, real, [rng.random(300) < 0.7], np.ones(300, dtype=bool))
    p, q = (rows.points[side].double() for side in (task.real, task.fake))
    within = torch.cat([p - p.mean(dim=0), q - q.mean(dim=0)])
    expected = torch.linalg.solve(shrunk(within.T @ within, len(within)), p.mean(dim=0) - q.mean(dim=0))
    torch.testing.assert_close(discriminant(task, 0).weights, expected, rtol=1e-10, atol=0)
