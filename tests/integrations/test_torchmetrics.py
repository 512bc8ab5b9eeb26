"""In a loop, merged, and over two processes, the metrics give the values of `precall.assess`."""

import pickle
import subprocess

import numpy as np
import pytest
import torch
from torchmetrics import MetricCollection

from integrations import two_processes
from integrations.two_processes import MAKE, SHARES, fed, samples
from precall.integrations.torchmetrics import (
    FrechetDistance,
    NearestNeighborScores,
    PRCurve,
    ReferenceScores,
)
from precall.metrics.assessing.assessment import Reference, assess


def same(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", MAKE)
def test_batches_give_what_assess_gives(name):
    real, fake = samples()
    found = fed(MAKE[name](), real, fake).compute()
    scores = assess(real=real, fake=fake, metrics=(name,), k=4).scores
    shared = found.keys() & scores.keys()
    assert len(shared) == {"neighbors": 4, "fid": 1, "clusters": 4}[name]
    for score in shared:
        assert float(found[score]) == pytest.approx(scores[score].value, rel=1e-5, abs=1e-6), score


def test_precision_and_recall_are_not_exchanged():
    found = fed(NearestNeighborScores(), *samples()).compute()
    assert found["precision"] > 0.9 > 0.75 > found["recall"]
    curve = fed(PRCurve(), *samples()).compute()
    assert curve["f1_8"] > 0.9 > 0.8 > curve["f8"]
    assert curve["alpha"][-1] > 0.9 > 0.8 > curve["beta"][0]


@pytest.mark.parametrize("name", MAKE)
def test_merged_states_are_one_state(name):
    real, fake = samples()
    first, second = fed(MAKE[name](), real[:50], fake[:80]), fed(MAKE[name](), real[50:], fake[80:])
    second.merge_state(first)  # the incoming state goes first
    same(second.compute(), fed(MAKE[name](), real, fake).compute())


@pytest.mark.parametrize("name", MAKE)
def test_reset_forgets_and_pickles_remember(name):
    real, fake = samples()
    metric = fed(MAKE[name](), real, fake)
    expected = metric.compute()
    same(pickle.loads(pickle.dumps(metric)).compute(), expected)
    metric.reset()
    nothing_yet = pytest.raises(ValueError, match=r"real samples (so far|are needed)")
    with nothing_yet, pytest.warns(UserWarning, match="before the"):
        metric.compute()
    same(fed(metric, real, fake).compute(), expected)


def test_a_collection_names_every_score():
    collection = MetricCollection([NearestNeighborScores(), FrechetDistance(dimension=3)])
    found = fed(collection, *samples()).compute()
    assert set(found) == {"precision", "recall", "density", "coverage", "fid"}


def test_the_spectrum_is_that_of_the_curve():
    metric = fed(PRCurve(), *samples())
    found = metric.compute()
    np.testing.assert_allclose(metric.spectrum().alpha(found["lam"].numpy()), found["alpha"].numpy(), rtol=1e-5)


def test_double_precision_is_kept_where_asked_for():
    """In float32 these samples are all equal."""
    real = 1e8 + torch.arange(8, dtype=torch.float64)[:, None]
    metric = NearestNeighborScores(k=1).set_dtype(torch.float64)
    found = fed(metric, real, real + 100).compute()
    assert found["precision"] == 0
    assert found["precision"].dtype == torch.float64


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: NearestNeighborScores(k=0), "`k` must be a whole number of at least 1"),
        (lambda: NearestNeighborScores(ties="half"), "`ties` must be one of closed, open"),
        (lambda: PRCurve(estimator="fid"), "`estimator` must be one of auto"),
        (lambda: NearestNeighborScores().update(torch.ones(3), real=True), "`features` must be a matrix"),
        (
            lambda: NearestNeighborScores().update(torch.tensor([[float("nan")]]), real=True),
            "`features` must be finite",
        ),
        (lambda: FrechetDistance(dimension=2).update(torch.ones(3, 3), real=True), "must have dimension 2; got 3"),
        (
            lambda: fed(NearestNeighborScores(), torch.ones(3, 3), torch.ones(3, 2)),
            "must have dimension 3, as before; got 2",
        ),
        (lambda: fed(NearestNeighborScores(), torch.ones(3, 3), torch.ones(0, 3)).compute(), "no fake samples so far"),
    ],
)
def test_a_mistake_costs_one_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.fixture(scope="module")
def found_by(tmp_path_factory, python):
    """The results of both processes."""
    out = tmp_path_factory.mktemp("processes") / "found"
    command = [*python("lightning.fabric"), two_processes.__file__, out]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [torch.load(f"{out}.{rank}", weights_only=True) for rank in (0, 1)]


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("share", SHARES)
def test_two_processes_give_the_value_of_one(found_by, share, name):
    expected = fed(MAKE[name](), *samples()).compute()
    for found in found_by:
        same(found[f"{share} {name}"], expected)


@pytest.mark.parametrize("share", SHARES)
def test_two_processes_sum_their_sketches(found_by, share):
    """The idle process has sketched nothing; it has the scores of all fakes nevertheless."""
    real, fake = samples()
    expected = Reference.fit(real).sketch(fake).scores
    for found in found_by:
        scores = found[f"{share} reference"]
        assert "recall" not in scores
        for name, value in scores.items():
            assert float(value) == pytest.approx(expected[name].value, rel=1e-5, abs=1e-6), name


def test_scores_against_fixed_data_keep_no_features():
    """The states have one size, however many batches there are, and they are merged by addition."""
    real, fake = samples()
    metric = ReferenceScores(reference=Reference.fit(real, k=4))
    before = {name: value.shape for name, value in metric.metric_state.items()}
    for batch in fake.split(7):
        metric.update(batch)
    assert {name: value.shape for name, value in metric.metric_state.items()} == before
    found, swept = metric.compute(), assess(real=real, fake=fake, metrics=("neighbors", "copies", "fid"), k=4).scores
    for name in ("precision", "density", "coverage", "recall_cover", "copies", "fid"):
        assert float(found[name]) == pytest.approx(swept[name].value, rel=1e-5, abs=1e-6), name
    halves = [ReferenceScores(reference=metric.reference) for _ in range(2)]
    for half, part in zip(halves, (fake[:30], fake[30:]), strict=True):
        half.update(part)
    halves[0].merge_state(halves[1])
    same(halves[0].compute(), found)
    same(pickle.loads(pickle.dumps(metric)).compute(), found)
    with pytest.raises(ValueError, match="the data are fixed"):
        metric.update(real, real=True)
    metric.reset()
    metric.update(fake[:1])
    with pytest.raises(ValueError, match="at least 2 fakes"):
        metric.compute()
