"""Samples that occur many times: atoms of a law, and sets whose rows were repeated."""

import warnings

import numpy as np
import pytest
import torch

from precall import RatioSpectrum, assess
from precall.metrics.cells.moved import moved
from precall.metrics.classifiers.folds import FoldedSamples
from precall.metrics.inputs.features import Pair
from precall.metrics.inputs.records import first_equal_row, kept_together

N = 600


def masses(seed, k=60):
    return np.random.default_rng([seed, k]).dirichlet(np.ones(k), size=2)


def outcomes(kind, k=60):
    """The k rows of a discrete law: of one category, of a codebook, or of a table of several categories."""
    rng = np.random.default_rng(1)
    return {
        "one-hot": np.eye(k),
        "codebook": rng.normal(size=(k, 8)),
        "table": np.stack([np.arange(k) // 10, np.arange(k) % 10], axis=1).astype(float),
    }[kind]


def drawn(rows, law, seed):
    return rows[np.random.default_rng([seed, 2]).choice(len(rows), N, p=law)]


@pytest.mark.parametrize(("kind", "seed"), [("one-hot", 1), ("codebook", 1), ("table", 1)])
def test_a_law_of_recurring_rows_has_its_exact_curve(kind, seed):
    p, q = masses(seed)
    exact, rows = RatioSpectrum.from_masses(p=p, q=q), outcomes(kind)
    found = assess(real=drawn(rows, p, seed), fake=drawn(rows, q, seed + 10), metrics=("auto",))
    for name, truth in (("area", exact.area), ("tv", exact.total_variation)):
        score = found.scores[name]
        assert score.value == pytest.approx(truth, abs=0.1)
        assert kind == "table" or score.interval.low - 0.03 < truth < score.interval.high + 0.03
    assert "Indistinguishable" not in found.verdict


@pytest.mark.parametrize("kind", ["one-hot", "codebook"])
def test_two_samples_of_one_law_of_recurring_rows_do_not_differ(kind):
    p, _ = masses(3)
    rows = outcomes(kind)
    found = assess(real=drawn(rows, p, 4), fake=drawn(rows, p, 5), metrics=("auto", "c2st"))
    assert found.scores["area"].value > 0.97
    assert found.scores["c2st"].p_value > 0.01


def test_categories_without_a_common_one_are_disjoint():
    rows = np.eye(50)
    rng = np.random.default_rng(6)
    found = assess(real=rows[rng.integers(25, 50, N)], fake=rows[rng.integers(0, 25, N)], metrics=("auto",))
    assert found.scores["area"].interval.high < 0.05


@pytest.mark.parametrize(("side", "share"), [("real", 0.7), ("fake", 0.3)])
def test_a_few_rows_that_recur_in_one_set_alone_are_its_share(side, share):
    """As texts that a model says again and again."""
    rng = np.random.default_rng(7)
    sets = {"real": rng.normal(size=(1000, 5)), "fake": rng.normal(size=(1000, 5))}
    places, stock = rng.permutation(1000)[: int(share * 1000)], rng.normal(size=(20, 5)) + 3
    sets[side][places] = stock[rng.integers(20, size=len(places))]
    with pytest.warns(
        UserWarning, match=rf"^{side}: {len(places)} of 1,000 samples repeat each other \(20 different\)"
    ):
        found = assess(**sets, metrics=("auto", "c2st"))
    score = found.scores["invented" if side == "fake" else "missed"]
    assert score.value == pytest.approx(share, abs=0.05)
    assert score.interval.high - score.interval.low > 0.03  # not less than the noise of the share itself
    assert found.scores["c2st"].p_value < 0.01


@pytest.mark.parametrize("times", [3, 12])
def test_a_set_that_was_repeated_as_a_whole_is_named(times):
    rng = np.random.default_rng(8)
    fake = np.repeat(rng.normal(size=(120, 4)), times, axis=0)
    with pytest.warns(UserWarning, match="^fake: .* repeat each other .* `real` contains none"):
        found = assess(real=rng.normal(size=(400, 4)), fake=fake, metrics=("auto",))
    assert any("the model drew them" in one for one in found.protocol["notices"])
    assert found.verdict.startswith(f"Repeats: {100 * (times - 1) / times:.0f} % of its samples repeat another one.")


def test_nothing_is_said_of_rows_that_both_sets_repeat():
    p, q = masses(9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assess(real=drawn(outcomes("codebook"), p, 1), fake=drawn(outcomes("codebook"), q, 2), metrics=("fid",))


def together(real, fake):
    x = np.concatenate([real, fake])
    return kept_together(x, first_equal_row(x), np.arange(len(x)) < len(real))


def test_only_a_set_that_is_nearly_all_repeats_was_repeated():
    rng = np.random.default_rng(10)
    other, rows = rng.normal(size=(500, 3)), rng.normal(size=(40, 3))
    repeated = np.repeat(rows, 12, axis=0)
    for real, fake in ((repeated, other), (other, repeated)):
        assert (together(real, fake) != np.arange(980)).sum() == 40 * 11
    mixed = np.concatenate([repeated, rng.normal(size=(60, 3))])  # eight of nine rows
    assert np.array_equal(together(mixed, other), np.arange(1040))
    shared = np.concatenate([other, rows])  # each of these rows once in the other set
    assert np.array_equal(together(repeated, shared), np.arange(1020))


def test_a_rare_value_does_not_make_a_column_continuous():
    """Each one-hot row has the only 1 of its column; a column with other values in each row is continuous."""
    rows = np.repeat(np.eye(30), 12, axis=0)
    noise = np.repeat(np.random.default_rng(11).normal(size=(30, 1)), 12, axis=0)
    other = np.random.default_rng(12).normal(size=(400, 31))
    assert np.array_equal(together(rows, other[:, :30]), np.arange(760))
    assert not np.array_equal(together(np.concatenate([rows, noise], axis=1), other), np.arange(760))


def test_the_notice_counts():
    rng = np.random.default_rng(13)
    fake = np.concatenate([rng.normal(size=(70, 2)), np.repeat(rng.normal(size=(10, 2)), 3, axis=0)])
    with pytest.warns(UserWarning, match="^fake: 30 of 100 samples repeat each other .10 different."):
        assess(real=rng.normal(size=(100, 2)), fake=fake, metrics=("fid",))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_equal_rows_are_found_among_round_numbers(dtype):
    """Powers of two and small counts end in zeros as bits, so that different rows may share a number."""
    rng = np.random.default_rng(0)
    tables = [np.eye(5)[rng.integers(5, size=(600, 4))].reshape(600, -1), rng.choice([-1.0, 1.0], (600, 9))]
    tables += [2.0 ** rng.integers(-8, 8, size=(600, 2)), rng.poisson(3, size=(600, 2)), np.zeros((60, 3))]
    tables += [np.pad(rng.poisson(3, size=(60, 1)), ((0, 0), (1, 38)))]  # most columns are equal
    for table in tables:
        x, first = table.astype(dtype), {}
        expected = [first.setdefault((row + 0.0).tobytes(), i) for i, row in enumerate(x)]
        assert first_equal_row(x).tolist() == first_equal_row(torch.as_tensor(x)).tolist() == expected


@pytest.mark.parametrize("side", ["real", "fake"])
@pytest.mark.parametrize(("n", "d", "seed"), [(500, 32, 0), (600, 16, 0)])
def test_an_interval_holds_repeats_that_may_be_atoms(side, n, d, seed):
    """A quarter of one set are draws of 20 values: few occur ten times, and tv was .06 in [.03, .14]."""
    rng = np.random.default_rng(seed)
    sets = {"real": rng.normal(size=(n, d)), "fake": rng.normal(size=(n, d))}
    some = rng.uniform(size=n) < 0.25
    sets[side][some] = rng.normal(size=(20, d))[rng.integers(20, size=some.sum())]
    with pytest.warns(UserWarning, match=f"^{side}: "):
        scores = assess(**sets, metrics=("auto",)).scores
    assert scores["tv"].interval.low < 0.25 < scores["tv"].interval.high
    assert scores["area"].interval.low < 0.75
    assert scores["invented" if side == "fake" else "missed"].interval.high > 0.25


@pytest.mark.parametrize(("n", "m"), [(500, 1000), (150, 3000), (500, 500)])
def test_rows_of_a_discrete_law_do_not_count_as_repeats(n, m):
    """More samples of a survey repeat more often, and "repeats: 23 % of its samples" was said of its own law."""
    real, fake = (np.random.default_rng(size).integers(0, 5, (size, 4)).astype(float) for size in (n, m))
    samples = FoldedSamples.split(Pair(real, fake), folds=5, inner=3, seed=0)
    assert samples.repeats == (0.0, 0.0)
    assert samples.independent.all()


def test_a_law_with_rarer_rows_repeats_no_more_than_the_data():
    """The reals recur by nature; fakes of another law recur in rows which the reals have once or never."""
    rng = np.random.default_rng(0)
    real, fake = ((rng.random((500, 8)) < share).astype(float) for share in (0.05, 0.5))
    own, other = FoldedSamples.split(Pair(real, fake), folds=5, inner=3, seed=0).repeats
    assert other - own < max(0.1, own)


def test_a_part_that_recurs_is_repeated():
    rng = np.random.default_rng(0)
    real, fake = rng.normal(size=(500, 4)), np.repeat(rng.normal(size=(250, 4)), 2, axis=0)
    assert FoldedSamples.split(Pair(real, fake), folds=5, inner=3, seed=0).repeats == (0.0, 0.5)


@pytest.mark.parametrize("zeros", [(0.9, 0.7), (0.3, 0.5)])
def test_an_atom_that_comes_more_often_is_no_shift(zeros):
    """A column with more zeros has another mean and variance, and was called too narrow, too wide or shifted."""
    rng = np.random.default_rng(0)
    sides = [
        np.column_stack([rng.lognormal(1, 0.5, 900) * (rng.random(900) >= p), rng.normal(size=900)]) for p in zeros
    ]
    found = moved(Pair.checked(real=sides[0], fake=sides[1]))
    assert max(found.shift, found.narrow, found.wide) < 0.01
    assert 0.1 < found.cells < 0.25  # .2, less what chance shows


def test_an_atom_that_lies_elsewhere_has_moved():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 2)) * (rng.random(900) >= 0.25)[:, None]
    assert moved(Pair.checked(real=x, fake=0.5 * x + 0.1)).narrow > 0.1


def test_flags_alone_can_only_have_wrong_proportions():
    rng = np.random.default_rng(0)
    found = moved(Pair.checked(real=(rng.random((500, 6)) < 0.1) * 1.0, fake=(rng.random((500, 6)) < 0.35) * 1.0))
    assert (found.shift, found.narrow, found.wide, found.cells) == (0.0, 0.0, 0.0, 1.0)
