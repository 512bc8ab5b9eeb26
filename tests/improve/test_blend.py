"""Blends: the programme against hand calculation, the choice on samples, and the command."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from precall.cli import app
from precall.improve import blend
from precall.improve.blending import Ratios, _grouped, _Problem
from precall.theory.spectrum import RatioSpectrum

EVERY = np.ones(2, dtype=bool)


def exact(p, *models):
    """Ratios at three equally likely cells."""
    return Ratios(3 * np.array(p), 3 * np.array(models).T)


def test_the_best_weights_at_a_tie():
    ratios = exact([0.6, 0.4, 0.0], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5])
    v = ratios.best(1.0, 1.0, np.ones(2), EVERY)
    np.testing.assert_allclose(v, [0.6, 0.4], atol=1e-6)
    assert ratios.alpha(1.0, v) == pytest.approx(0.8)


def test_the_errors_of_single_groups_do_not_choose_the_weights():
    """Two models of one mode each: the best weights are the shares of the modes among the real samples."""
    errors = []
    for seed in range(12):
        rng, label = np.random.default_rng(seed), np.repeat([0, 1, 2], 1500)
        mode = np.where(label == 0, rng.random(4500) < 0.3, label == 2).astype(int)
        group, every = 8 * mode + rng.integers(8, size=4500), np.ones(4500, bool)
        ratios = Ratios(np.ones(4500), np.ones((4500, 2)))
        problem = _Problem(ratios, label, 0 * label, ["a", "b"], np.ones(2), 1.0, True, group)
        v = problem._best(1.0, every, every[:2])
        errors.append(abs(v[1] / v.sum() - mode[label == 0].mean()))
    assert np.mean(errors) < 0.005  # .008 if the counts themselves are fitted


def test_groups_with_the_same_shares_are_one():
    """Eight groups of each mode differ by chance alone; the modes differ."""
    rng, label = np.random.default_rng(0), np.repeat([0, 1, 2], 1500)
    mode = np.where(label == 0, rng.random(4500) < 0.3, label == 2).astype(int)
    ratios = np.array([[1.0, 2.0, 0.01], [0.4, 0.01, 2.0]])[mode] * np.exp(0.2 * rng.normal(size=(4500, 3)))
    group = _grouped(ratios, label, seed=0)
    assert len(np.unique(group[mode == 0])) == len(np.unique(group[mode == 1])) == 1
    assert group[mode == 0][0] != group[mode == 1][0]


def test_masses_that_sum_above_one_by_rounding_have_a_standard_error():
    sixths = np.full(6, 1 / 6)
    spectrum = RatioSpectrum.from_masses(p=sixths, q=sixths)
    assert spectrum.q.sum() > 1
    problem = _Problem(
        Ratios(sixths, sixths[:, None]), np.repeat([0, 1], 3), np.zeros(6), ["a"], sixths, 1.0, True, None
    )
    assert problem._standard_error(spectrum, 0.2) < 1


def test_a_budget_is_spent_where_it_pays():
    """Half of the second model is junk, so that it takes two of its draws for 0.4 of the data."""
    ratios = exact([0.6, 0.4, 0.0], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5])
    np.testing.assert_allclose(ratios.best(1.0, 2.0, np.ones(2), EVERY), [0.6, 0.8], atol=1e-6)
    dear = ratios.best(1.0, 1.0, np.array([1.0, 5.0]), EVERY)
    np.testing.assert_allclose(dear, [1.0, 0.0], atol=1e-6)


@pytest.fixture(scope="module")
def halves():
    """Two models that each miss one mode of the data."""
    rng = np.random.default_rng(0)
    modes = [rng.normal((shift, 0), 1, (n, 2)) for n, shift in ((420, -4), (180, 4), (600, -4), (600, 4))]
    return {"real": np.concatenate(modes[:2]), "fakes": {"left": modes[2], "right": modes[3]}}


def test_members_that_miss_different_modes_are_blended(halves):
    found = blend(**halves)
    assert found.weights["left"] == pytest.approx(0.7, abs=0.04)
    assert sum(found.weights.values()) == pytest.approx(1)
    assert found.predicted.alpha(1.0) > 0.87 > found.members["left"].alone > found.members["right"].alone
    assert found.members["left"].without == pytest.approx(found.members["right"].alone, abs=0.02)
    assert "left" in repr(found)
    json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.parametrize("seed", [5, 16])
def test_a_model_that_is_right_is_not_blended(seed):
    """Another one would only mend the errors of these samples: of seeds 5 to 16, it has a weight in 6 without the
    standard error, and in 2 with it."""
    rng = np.random.default_rng(seed)
    sides = [rng.normal(size=(300, 2)) + 6 * rng.integers(2, size=(300, 1)) for _ in range(2)]
    found = blend(real=sides[0], fakes={"right": sides[1], "half": rng.normal(size=(300, 2))}, seed=seed)
    assert found.weights == {"right": 1.0, "half": 0.0}


def test_a_slope_and_a_precision_move_the_weights(halves):
    precise = blend(**halves, precision_at_least=0.95)
    assert precise.lam > 1
    assert precise.predicted.alpha(precise.lam) == pytest.approx(0.95, abs=0.01)
    with_budget = blend(**halves, budget=2.0)
    assert with_budget.budget <= 2 + 1e-6
    assert {name: len(one) for name, one in with_budget.acceptance.items()} == {"left": 600, "right": 600}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"fakes": {"a": np.zeros((60, 2))}}, "at least two"),
        ({"lam": 0}, "`lam` must be positive"),
        ({"budget": 0.5}, "`budget` must be at least 1"),
        ({"costs": {"middle": 2.0}}, "`costs` must name models"),
        ({"costs": {"left": 9.0, "right": 9.0}, "budget": 2.0}, "must pay for one draw"),
    ],
)
def test_wrong_input_costs_a_sentence(halves, change, sentence):
    with pytest.raises(ValueError, match=sentence):
        blend(**{**halves, **change})


def test_the_command_prints_and_writes_the_blend(halves, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, x in (("real", halves["real"]), *halves["fakes"].items()):
        np.save(f"{name}.npy", x)
    words = ["improve", "--real", "real.npy", "--fake", "a=left.npy", "--fake", "right.npy", "--blend"]
    done = CliRunner().invoke(app, [*words, "--out", "blend.json"])
    assert done.exit_code == 0, done.output
    assert "best without it" in done.stdout
    saved = json.loads((tmp_path / "blend.json").read_text())
    assert set(saved["weights"]) == {"a", "right.npy"}
    assert CliRunner().invoke(app, words[:-1]).exit_code == 2
    assert CliRunner().invoke(app, [*words, "--plan"]).exit_code == 2
