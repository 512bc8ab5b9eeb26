"""What may not change a score, for every metric of the registry: units, origin, order, type, threads, processes, roles.

The values lie on a grid of step 2⁻¹⁶, so that float32 holds them exactly, and so does float64 after a shift by 10⁸.
A new metric is tested by all of this as soon as it is in the registry; a new score must say in `EXCHANGED` or
`ONE_SIDED` what becomes of it if real and fake exchange their roles.
"""

import json
import math
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
import torch

from committee import make_small
from precall import assess
from precall.metrics.assessing.registry import METRICS, SCORES
from precall.metrics.inputs import features
from precall.metrics.tiles import distances

N, M, D = 60, 52, 3
# metrics that take more than a second, which see fewer transformations
SLOW = {"auto", "auto_quick", "quadratic", "simon"}
# defined on the features as they are: a network without standardisation, a kernel with a scale or of angles, class
# probabilities
IN_THEIR_UNITS = {"simon", "kid", "is", "cmmd", "vendi"}
# look at single columns, or start from random directions
ON_COLUMNS = {"auto", "auto_quick", "boosting", "quadratic", "linear", "simon", "c2st", "is", "mind"}
# cut or start at random by the number of the row
SEEDED = {name for name, metric in METRICS.items() if metric.is_curve} | {"c2st", "mauve", "mind", "vendi"}
# sums over many values, whose order differs between NumPy and torch, or between tiles
SUMS = {"kid", "fid", "mind"}
# scores that exchange their values if real and fake do
EXCHANGED = {
    **{"precision": "recall", "precision_cover": "recall_cover", "symmetric_precision": "symmetric_recall"},
    **{"p_precision": "p_recall", "f8": "f1_8", "invented": "missed"},
    **{name: name for name in ("area", "tv", "fid", "sfid", "kid", "mind", "cmmd", "c2st", "mauve")},
}
EXCHANGED |= {second: first for first, second in EXCHANGED.items()}
# scores without a counterpart in the other direction
ONE_SIDED = {
    *("density", "coverage", "corrected_coverage", "realism", "clipped_density", "clipped_coverage", "copies"),
    *("memorized", "closer_to_train", "inception_score", "kad", "rke", "vendi"),
    *(info.name for info in METRICS["prompts"].scores),  # with prompts, see test_prompts
}


def on_grid(values):
    return np.round(values * 2**16) / 2**16


@cache
def sets():
    """Real, fake and held-out features: the fakes miss one of two modes, and invent nothing."""
    rng = np.random.default_rng(7)
    modes = np.where(np.arange(N) % 2, -3.0, 3.0)[:, None] * [1, 0, 0]
    one = np.full((M, 1), 3.0) * [1, 0, 0]
    return tuple(on_grid(rng.normal(size=(len(of), D)) + of) for of in (modes, one, modes))


@cache
def probabilities():
    rng = np.random.default_rng(8)
    weights = rng.integers(1, 2**16, size=(2, N, D)).astype(float)
    first = np.floor(weights / weights.sum(-1, keepdims=True) * 2**16) / 2**16
    return tuple(np.concatenate([one[:, :2], 1 - one[:, :2].sum(1, keepdims=True)], axis=1) for one in first)


def given(names):
    real, fake, holdout = sets()
    if names == ("is",):
        real, fake = probabilities()
    return {"real": real, "fake": fake, **({"holdout": holdout} if "memorization" in names else {})}


SINGLE = ("fid", "kid")  # float32 features enter some of their products as they are


def numbers(names, change=lambda x: x):
    """Value, interval and chance level of every score of some metrics, and the scores themselves."""
    return found(names, {name: change(values) for name, values in given(names).items()})


def found(names, inputs):
    """The numbers of an assessment. Alone, c2st judges with a small panel, because `auto` is tested as well."""
    with pytest.MonkeyPatch.context() as patch:
        if names == ("c2st",):
            make_small(patch)
        report = assess(**inputs, metrics=names)
    return {
        f"{name} {part}": number
        for name, score in report.scores.items()
        for part, number in (
            ("value", score.value),
            ("low", score.interval and score.interval.low),
            ("high", score.interval and score.interval.high),
            ("chance", score.chance),
        )
    }


@cache
def plain(*names):
    return numbers(names)


def assert_equal(found, expected, tolerance, scale=1.0):
    assert set(found) == set(expected)
    for name, number in expected.items():
        if number is None or tolerance == 0:
            assert found[name] == (number if number is None else number * scale), name
        else:
            assert found[name] == pytest.approx(number * scale, rel=tolerance, abs=tolerance * scale), name


def metrics(*, slow=True, without=frozenset()):
    return [
        name for name in METRICS if (slow or name not in SLOW) and name not in (*without, "sfid", "prompts")
    ]  # see test_presets


def squared(name, unit):
    """FID and MIND are measured in squared units; all others have none."""
    return unit**2 if name in ("fid", "mind") else 1.0


# --------------------------------------------------------------------------------------------- the features themselves


@pytest.mark.parametrize("name", metrics(without=IN_THEIR_UNITS))
def test_units_of_a_power_of_two_change_no_bit(name):
    assert_equal(numbers((name,), lambda x: x * 2.0**-40), plain(name), 0, squared(name, 2.0**-40))


@pytest.mark.parametrize("unit", [1e-20, 1e20])
@pytest.mark.parametrize("name", metrics(slow=False, without=IN_THEIR_UNITS))
def test_units_change_nothing_but_rounding(name, unit):
    assert_equal(numbers((name,), lambda x: x * unit), plain(name), 1e-12, squared(name, unit))


@pytest.mark.parametrize("name", metrics(slow=False, without=IN_THEIR_UNITS))
def test_the_origin_changes_nothing_but_rounding(name):
    """The covariances of FID magnify rounding errors; for `auto` see test_hard_cases.py."""
    assert_equal(numbers((name,), lambda x: x + 1e8), plain(name), 1e-6 if name == "fid" else 1e-12)


@pytest.mark.parametrize("name", metrics(without=ON_COLUMNS))
def test_a_rotation_changes_nothing_but_rounding(name):
    turn, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(D, D)))
    assert_equal(numbers((name,), lambda x: x @ turn), plain(name), 1e-9)


@pytest.mark.parametrize("name", metrics(slow=False))
def test_the_order_of_the_rows_changes_nothing_but_random_cuts(name):
    """Scores that cut or start at random keep to the intervals of each other."""
    rng = np.random.default_rng(4)
    mixed = numbers((name,), lambda x: x[rng.permutation(len(x))])
    if name not in SEEDED:
        assert_equal(mixed, plain(name), 1e-12)
    else:
        assert_overlapping(mixed, plain(name))


def assert_overlapping(found, expected, partner=lambda score: score):
    """Each interval meets the interval of its partner."""
    for score in {key.split()[0] for key in expected}:
        other = partner(score)
        assert found[f"{other} low"] <= expected[f"{score} high"], score
        assert found[f"{other} high"] >= expected[f"{score} low"], score


# ---------------------------------------------------------------------------------------------- how they are handed in


@pytest.mark.parametrize("name", metrics(slow=False))
def test_lists_of_float32_values_change_no_bit(name):
    assert_equal(numbers((name,), lambda x: x.astype(np.float32).tolist()), plain(name), 0)


@pytest.mark.parametrize("name", metrics(slow=False))
@pytest.mark.parametrize(
    "kind",
    [
        lambda x: np.asfortranarray(np.repeat(x, 2, axis=0))[::2],
        lambda x: torch.as_tensor(x),
        lambda x: torch.as_tensor(x, dtype=torch.float32),
    ],
    ids=["columns first, strided", "tensor", "float32 tensor"],
)
def test_arrays_and_tensors_of_the_same_values_give_the_same_bits(name, kind):
    tensor = isinstance(kind(np.zeros((1, D))), torch.Tensor)
    products = 1e-7 if kind(np.zeros((1, D))).dtype == torch.float32 and name in SINGLE else 1e-12
    assert_equal(numbers((name,), kind), plain(name), products if tensor and name in SUMS else 0)


@pytest.mark.parametrize("name", metrics(slow=False))
def test_one_side_in_float32_changes_no_bit(name):
    """The interval of FID is computed in the precision of the features, its value is not."""
    inputs = given((name,))
    inputs["fake"] = inputs["fake"].astype(np.float32)
    mixed, expected = found((name,), inputs), plain(name)
    assert_equal(mixed, expected, 1e-7 if name == "fid" else 0)
    assert [mixed[part] for part in mixed if part.endswith("value")] == [
        expected[part] for part in expected if part.endswith("value")
    ]


# --------------------------------------------------------------------------------------------- how they are computed


@pytest.mark.parametrize("name", metrics(slow=False))
def test_the_size_of_tiles_changes_nothing_but_the_order_of_sums(name, monkeypatch):
    expected = plain(name)
    monkeypatch.setattr(features, "TILE_VALUES", 7 * D)
    monkeypatch.setitem(distances.TILE_SIDES, "cpu", (16, 32))
    assert_equal(numbers((name,)), expected, 1e-12 if name in SUMS else 0)


# auto has members of the kinds that are left out
TOGETHER = tuple(
    name for name in METRICS if name not in ("is", "sfid", "prompts", "auto_quick", "boosting", "quadratic")
)
IN_A_PROCESS = """
import json, sys
from types import SimpleNamespace
sys.path[:0] = "tests/metrics", "tests"
import numpy, torch
torch.set_num_threads(2)
from committee import make_light
from test_metamorphic import TOGETHER, numbers
make_light(SimpleNamespace(setattr=setattr))
json.dump(numbers(TOGETHER, lambda x: x.astype(numpy.float32).tolist()), sys.stdout)
"""


def test_another_process_with_two_threads_and_lists_gives_the_same_bits(pytestconfig, monkeypatch):
    """All metrics in one assessment, where they share work, and each of them alone in this process."""
    for library in ("OMP", "OPENBLAS", "MKL"):
        monkeypatch.setenv(f"{library}_NUM_THREADS", "2")
    monkeypatch.setenv("PYTHONHASHSEED", "123")
    command = [sys.executable, "-c", IN_A_PROCESS]
    done = subprocess.run(command, cwd=pytestconfig.rootpath, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    together = json.loads(done.stdout)
    for name in TOGETHER:
        if name in ("c2st", "memorization"):  # c2st takes the classifier of the first curve
            continue
        prefix = f"{name}_" if METRICS[name].is_curve and name != "auto" else ""
        alone = plain(name)
        assert_equal({key: together[prefix + key] for key in alone}, alone, 1e-12 if name in SUMS else 0)


# --------------------------------------------------------------------------------------- exchanged and repeated samples


def test_every_score_says_what_an_exchange_does_to_it():
    assert set(EXCHANGED) | ONE_SIDED == set(SCORES)
    assert not set(EXCHANGED) & ONE_SIDED


def exchangeable():
    """Metrics with such scores; the interval of `simon` holds for its one split only, which an exchange changes."""
    return [
        name
        for name in METRICS
        if {info.name for info in METRICS[name].scores} - ONE_SIDED and name not in ("simon", "sfid", "prompts")
    ]


@pytest.mark.parametrize("name", exchangeable())
def test_exchanging_real_and_fake_exchanges_the_scores(name):
    """Exactly, unless a random cut goes with the row number: then within the intervals."""
    real, fake, _ = sets()
    scores = {info.name for info in METRICS[name].scores} - ONE_SIDED
    exchanged = found((name,), {"real": fake, "fake": real})
    if name in SEEDED:
        kept = {key: number for key, number in plain(name).items() if key.split()[0] in scores}
        return assert_overlapping(exchanged, kept, EXCHANGED.__getitem__)
    for score in scores:
        for part in ("value", "low", "high", "chance"):
            number = plain(name)[f"{score} {part}"]
            expected = number if number is None else pytest.approx(number, rel=1e-12, abs=1e-12)
            assert exchanged[f"{EXCHANGED[score]} {part}"] == expected, score


def test_the_samples_are_so_unlike_that_an_exchange_shows():
    """Otherwise the test above could not fail."""
    for first, second in (("precision", "recall"), ("precision_cover", "recall_cover")):
        assert abs(plain("neighbors")[f"{first} value"] - plain("neighbors")[f"{second} value"]) > 0.1
    for name in ("clusters", "local_kde", "linear"):
        assert plain(name)["missed value"] > plain(name)["invented value"] + 0.15


COUNTED_PER_FAKE = {
    "neighbors": ("precision", "density", "coverage", "realism"),
    **{"copies": ("copies",), "probabilistic": ("p_precision",), "is": ("inception_score",)},
}


@pytest.mark.parametrize("name", COUNTED_PER_FAKE)
@pytest.mark.filterwarnings("ignore:.* samples repeat each other")
def test_fakes_that_all_occur_twice_change_no_share_of_fakes(name):
    inputs = given((name,))
    doubled = assess(**{**inputs, "fake": np.repeat(inputs["fake"], 2, axis=0)}, metrics=(name,))
    for score in COUNTED_PER_FAKE[name]:
        assert doubled.scores[score].value == pytest.approx(plain(name)[f"{score} value"], rel=1e-12)


@pytest.mark.parametrize("name", ["neighbors", "symmetric"])
@pytest.mark.filterwarnings("ignore:.* samples repeat each other")
def test_samples_that_all_occur_twice_have_the_same_balls_with_twice_as_many_neighbours(name):
    """The ball that reaches k of n points reaches the point's own copy and 2k others of 2n."""
    k = 4
    single = assess(**given((name,)), metrics=(name,), k=k).scores
    twice = {side: np.repeat(rows, 2, axis=0) for side, rows in given((name,)).items()}
    double = assess(**twice, metrics=(name,), k=2 * k + 1).scores
    for score in ("precision", "recall", "coverage", "symmetric_precision", "symmetric_recall"):
        if score in single:
            assert double[score].value == single[score].value, score
    if name == "neighbors":
        assert double["density"].value == pytest.approx(single["density"].value * 2 * k / (2 * k + 1), rel=1e-12)
        assert not math.isclose(double["density"].value, single["density"].value)
