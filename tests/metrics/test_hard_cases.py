"""Pairs on which a default answer is easily wrong: units, single columns, rounding, repeated rows, small modes."""

import numpy as np
import pytest
import torch

from precall import assess
from precall.metrics.classifiers.estimators import auto, classify
from precall.metrics.inputs.records import first_equal_row, independent_rows, kept_together, linked_rows
from precall.metrics.members.columns import share_values


def rng(*seed):
    return np.random.default_rng([*seed])


def gaussian(n, d, *seed):
    return rng(*seed).normal(size=(n, d))


@pytest.fixture(scope="module")
def shifted():
    return gaussian(120, 3, 0), gaussian(120, 3, 1) + np.eye(3)[0]


METRICS = ("auto", "linear", "clusters", "neighbors", "copies", "fid", "c2st")


@pytest.fixture(scope="module")
def in_units(shifted):
    real, fake = shifted
    return {
        (unit, origin): assess(real=real * unit + origin, fake=fake * unit + origin, metrics=METRICS)
        for unit, origin in ((1.0, 0.0), (1e-20, 0.0), (1e20, 0.0), (1.0, 1e8))
    }


@pytest.mark.parametrize("unit", [1e-20, 1e20])
def test_units_change_nothing(in_units, unit):
    plain, other = in_units[1.0, 0.0], in_units[unit, 0.0]
    assert other.verdict == plain.verdict
    for name, score in plain.scores.items():
        scale = unit**2 if name == "fid" else 1.0
        assert other.scores[name].value / scale == pytest.approx(score.value, abs=1e-6), name


def test_the_origin_changes_nothing_but_rounding(in_units):
    plain, other = in_units[1.0, 0.0], in_units[1.0, 1e8]
    for name, score in plain.scores.items():
        assert other.scores[name].value == pytest.approx(score.value, abs=1e-3), name


def test_disjoint_sets_are_disjoint_in_any_unit():
    real, fake = gaussian(100, 3, 2), gaussian(100, 3, 3) + 8
    for unit, origin in ((1e-8, 0.0), (1.0, 1e8)):
        one = assess(real=real * unit + origin, fake=fake * unit + origin, metrics=("auto", "c2st"))
        assert one.scores["area"].value < 0.02
        assert one.scores["tv"].value > 0.93
        assert one.verdict.kind == "far from the data"


def test_one_bimodal_column_among_two_hundred_is_seen():
    real, fake = gaussian(1000, 200, 4), gaussian(1000, 200, 5)
    sides = rng(6).choice([-0.95, 0.95], size=1000)  # the same mean and variance; the total variation is 0.41
    fake[:, 7] = sides + fake[:, 7] * np.sqrt(1 - 0.95**2)
    result = auto(real=real, fake=fake)
    assert result.p_value < 0.001
    assert result.spectrum.total_variation == pytest.approx(0.41, abs=0.06)


def test_a_shift_in_one_of_a_thousand_columns_is_seen():
    real, fake = gaussian(400, 1001, 7), gaussian(400, 1001, 8)
    fake[:, 500] += 6
    result = auto(real=real, fake=fake)
    assert result.spectrum.total_variation > 0.97
    assert result.spectrum.alpha(10.0) < 0.1


def test_the_common_part_of_two_cubes_is_found_in_many_dimensions():
    real, fake = rng(9).random((1128, 64)), rng(10).random((1128, 64)) + 1 - 0.2 ** (1 / 64)
    spectrum = auto(real=real, fake=fake).spectrum
    assert spectrum.alpha(10.0) == pytest.approx(0.2, abs=0.07)
    assert spectrum.beta(0.1) == pytest.approx(0.2, abs=0.07)


@pytest.mark.parametrize("spread", [1, 40, 1000])
def test_rounded_values_are_told_from_others(spread):
    real, fake = spread * gaussian(500, 1, 11), np.round(spread * gaussian(500, 1, 12))
    spectrum = auto(real=real, fake=fake).spectrum
    assert spectrum.alpha(10.0) < 0.1
    assert spectrum.beta(0.1) < 0.1


def test_a_grid_that_is_not_decimal_is_told_from_others_by_its_recurring_values():
    fake = np.round(gaussian(600, 2, 14) * 3) / 7
    assert auto(real=gaussian(600, 2, 13) * 3 / 7, fake=fake).spectrum.total_variation > 0.9


def one_column(x):
    return np.eye(x.shape[1])[0]


def columns_drawn(x, seed):
    return np.stack([rng(seed, j).choice(column, len(column)) for j, column in enumerate(x.T)], axis=1)


@pytest.mark.parametrize("seed", [0, 1])
def test_rows_that_are_repeated_do_not_hide_values_that_recur(seed):
    """In training repeated rows meet each other, in a test never: tv was .23 with one seed, .66 with another."""
    real, fake = (np.repeat(gaussian(200, 2, one), 2, axis=0) for one in (60, 61))
    fake[:, 0] = rng(62, 0).permutation(fake[:, 0])
    found = auto(real=real, fake=fake, seed=seed)
    assert found.spectrum.total_variation > 0.9


COPIED = {  # fakes that are made from the real values, and have nearly the same distribution
    "one column shifted by 1e-8": lambda x: x + 1e-8 * one_column(x),
    "one column shifted by 1e-4": lambda x: x + 1e-4 * one_column(x),
    "one column shifted by 1e-2": lambda x: x + 1e-2 * one_column(x),
    "all columns shifted": lambda x: x + 1e-4,
    "one column scaled": lambda x: x * (1 + 1e-4 * one_column(x)),
    "all columns scaled": lambda x: x * 1.0001,
    "the same noise in each row": lambda x: x + 1e-4 * gaussian(1, x.shape[1], 50),
    "noise in one column": lambda x: x + 1e-4 * gaussian(len(x), 1, 51) * one_column(x),
    "one column replaced": lambda x: np.where(one_column(x) > 0, gaussian(*x.shape, 52), x),
    "half of the rows": lambda x: np.concatenate(
        [(x + 1e-4 * one_column(x))[::2], gaussian(len(x) // 2, x.shape[1], 53)]
    ),
    "columns permuted": lambda x: np.stack([rng(55, j).permutation(column) for j, column in enumerate(x.T)], axis=1),
    "columns drawn with replacement": lambda x: columns_drawn(x, 56),
}


@pytest.mark.parametrize("d", [1, 4, 64])
@pytest.mark.parametrize("kind", COPIED)
def test_values_copied_from_the_real_set_are_not_a_difference_in_a_column(d, kind):
    real = gaussian(200, d, 57)
    found = classify("marginals", real=real, fake=COPIED[kind](real))
    assert found.spectrum.area > 0.9
    assert found.p_value > 0.01


@pytest.mark.whole_panel  # more trees remember more
@pytest.mark.parametrize(
    ("d", "kind"), [(4, "one column shifted by 1e-4"), (4, "half of the rows"), (64, "columns drawn with replacement")]
)
def test_values_copied_from_the_real_set_are_not_a_difference(d, kind):
    real = gaussian(200, d, 57)
    one = assess(real=real, fake=COPIED[kind](real), metrics=("auto", "c2st"))
    assert one.scores["area"].value > 0.9
    assert one.scores["area"].interval.high == 1.0
    assert one.scores["c2st"].p_value > 0.001


def test_a_copy_does_not_hide_a_real_difference():
    real = gaussian(400, 4, 58)
    moved, independent = (auto(real=real, fake=x + one_column(x)) for x in (real, gaussian(400, 4, 59)))
    assert moved.p_value < 0.001
    assert moved.spectrum.total_variation == pytest.approx(0.38, abs=0.06)
    assert moved.spectrum.area == pytest.approx(independent.spectrum.area, abs=0.08)


@pytest.mark.parametrize("side", [True, False])
def test_values_that_recur_in_one_set_are_still_a_difference(side):
    """One set has 400 values only; in the other, half of the samples have these values and half have new ones."""
    values, x = gaussian(400, 1, 60)[:, 0], gaussian(900, 4, 61)
    few, half = x.copy(), x.copy()
    few[:, 0] = values[rng(62).integers(400, size=900)]
    half[::2, 0] = values[rng(63).integers(400, size=450)]
    half[:, 1:] = gaussian(900, 3, 64)
    real, fake = (few, half) if side else (half, few)
    result = auto(real=real, fake=fake)
    assert result.p_value < 0.01
    assert result.spectrum.area < 0.85


def shared(p, q):
    """Whether the samples p and q share too many values."""
    values = np.unique(np.concatenate([p, q]))
    counts = (torch.from_numpy((one[:, None] == values).sum(axis=0))[None] for one in (p, q))
    return bool(share_values(*counts))


def test_independent_samples_do_not_share_too_many_values_and_copies_do():
    x = gaussian(300, 1, 65)[:, 0]
    assert not shared(x, gaussian(300, 1, 66)[:, 0])
    assert shared(x, x)
    assert shared(x, np.repeat(x[:100], 3))
    assert shared(x, np.concatenate([x[:30], gaussian(270, 1, 67)[:, 0]]))
    zeros = np.where(rng(68).random(300) < 0.5, 0.0, x)
    assert shared(zeros, zeros)  # a frequent value does not hide the others
    for kinds in (30, 300, 3000):
        samples = [(rng(69, i).integers(kinds, size=300), rng(70, i).integers(kinds, size=200)) for i in range(50)]
        assert sum(shared(p, q) for p, q in samples) <= 5
        assert all(shared(p, p) for p, _ in samples[:5]) or kinds == 30  # all of 30 values have cells of their own


@pytest.mark.whole_panel  # more trees remember more
def test_repeated_rows_are_not_a_difference():
    real, fake = np.repeat(gaussian(150, 5, 15), 4, axis=0), np.repeat(gaussian(150, 5, 16), 4, axis=0)
    result = auto(real=real, fake=fake)
    assert result.details["identical_rows"] == 900
    assert result.spectrum.total_variation < 0.1
    assert result.certificate.alpha(1.0) > 0.9
    assert result.p_value > 0.05


def test_identical_rows_share_a_fold_and_a_half():
    x = np.repeat(gaussian(100, 2, 17), 3, axis=0)
    first, half = first_equal_row(x), np.arange(300) < 150
    assert np.array_equal(first, np.arange(300) // 3 * 3)
    assert np.array_equal(kept_together(x, first, half), first)
    assert independent_rows(first, half).sum() == 100


@pytest.mark.parametrize("side", [True, False])
def test_rows_repeated_in_one_set_only_count_once(side):
    """Each of 50 rows of one set occurs three times, and 100 rows of the other set once."""
    together = np.concatenate([np.arange(150) // 3 * 3, 150 + np.arange(100)])
    repeated = np.arange(250) < 150
    found = independent_rows(together, repeated if side else ~repeated)
    np.testing.assert_array_equal(found, ~repeated | (np.arange(250) % 3 == 0))


def test_rows_repeated_many_times_stay_together_and_those_of_a_table_of_categories_do_not():
    x = np.repeat(gaussian(40, 2, 26), 12, axis=0)
    first = first_equal_row(x)
    assert np.array_equal(kept_together(x, first, np.arange(480) < 240), first)
    table = rng(27).integers(3, size=(400, 2)).astype(float)
    assert np.array_equal(kept_together(table, first_equal_row(table), np.arange(400) < 200), np.arange(400))


def test_equal_rows_of_many_columns_do_not_differ():
    """They have no principal axis: 200 empty texts, or blank images, ended in a ZeroDivisionError."""
    one = assess(real=np.zeros((60, 300)), fake=np.zeros((60, 300)), metrics=["auto"])
    assert one.verdict.kind == "indistinguishable"


@pytest.mark.whole_panel  # more trees remember more
@pytest.mark.parametrize(("d", "noise"), [(1, 1e-6), (5, 1e-6), (64, 1e-2)])
def test_rows_repeated_with_a_little_noise_are_not_a_difference(d, noise):
    real, fake = (np.repeat(gaussian(150, d, 32, side), 4, axis=0) for side in (0, 1))
    real, fake = real + noise * gaussian(600, d, 33), fake + noise * gaussian(600, d, 34)
    one = assess(real=real, fake=fake, metrics=["auto"])
    assert one.classifiers["auto"].details["identical_rows"] > 850
    assert one.verdict.startswith(("Indistinguishable", "Close", "Cannot tell: no difference shows"))


def linked(real, fake):
    x, is_real = np.concatenate([real, fake]), np.arange(len(real) + len(fake)) < len(real)
    return int((linked_rows(x, np.arange(len(x)), is_real) != np.arange(len(x))).sum())


def test_rows_are_linked_only_if_they_were_repeated():
    grid = np.stack(np.meshgrid(np.arange(5.0), np.arange(5.0)), axis=-1).reshape(-1, 2)

    def modes(n, seed, shift=0.0):
        return grid[rng(seed).integers(25, size=n)] + 0.02 * gaussian(n, 2, seed, 1) + shift

    for d in (1, 2, 32):
        assert linked(gaussian(500, d, 35), gaussian(500, d, 36)) == 0
        assert linked(gaussian(500, d, 35), gaussian(500, d, 36) + 20) < 50
    assert linked(modes(500, 37), modes(500, 38)) == 0
    assert linked(modes(2000, 37), modes(2000, 38, 0.5)) == 0
    repeated = [np.repeat(gaussian(150, 5, 32, side), 4, axis=0) for side in (0, 1)]
    assert linked(*(one + 1e-6 * gaussian(600, 5, 33, i) for i, one in enumerate(repeated))) == 900  # 3 of 4 rows
    copied = gaussian(500, 5, 39)
    assert linked(copied, copied + 1e-6 * gaussian(500, 5, 40)) == 0  # copies between the sets: memorisation sees them


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_collapsed_generator_is_found(rows):
    fake = np.repeat(gaussian(rows, 3, 30), 300 // rows, axis=0)
    result = auto(real=gaussian(300, 3, 31), fake=fake)
    assert result.spectrum.total_variation > 0.95
    assert result.p_value < 0.01


def test_no_warning_of_a_member_reaches_the_user(recwarn):
    auto(real=gaussian(120, 5, 28), fake=gaussian(120, 5, 29))
    assert not recwarn.list


def test_rows_of_a_discrete_distribution_are_samples_of_their_own():
    x = rng(18).integers(10, size=(400, 1)).astype(float)
    together = kept_together(x, first_equal_row(x), np.arange(400) < 200)
    assert np.array_equal(together, np.arange(400))  # each value occurs often: it is an atom
    rare = rng(19).integers(300, size=(400, 1)).astype(float)
    together = kept_together(rare, first_equal_row(rare), np.arange(400) < 200)
    assert (together != np.arange(400)).any()
    assert independent_rows(together, np.arange(400) < 200).all()  # equal as often between the sets as within them


def test_one_extreme_value_does_not_hide_a_difference():
    real, fake = gaussian(300, 3, 20), gaussian(300, 3, 21) + np.eye(3)[0]
    real[0, 0] = 1e12
    assert auto(real=real, fake=fake).spectrum.total_variation == pytest.approx(0.38, abs=0.08)


def modes(n, among, of, *seed):
    centres = 6 * rng(99).normal(size=(of, 8))
    return centres[rng(*seed).choice(among, n)] + gaussian(n, 8, *seed, 1)


@pytest.mark.parametrize(("of", "n"), [(16, 700), (4, 100)])
def test_a_dropped_mode_is_named_or_the_verdict_says_less(of, n):
    said = [
        assess(real=modes(n, of, of, seed, 0), fake=modes(n, of - 1, of, seed, 1), metrics=("auto", "c2st")).verdict
        for seed in range(2)
    ]
    assert all(verdict.kind in ("drops", "differs", "cannot tell") for verdict in said), said
    assert any(verdict.kind == "drops" for verdict in said), said


@pytest.mark.parametrize("metric", ["cover", "clusters", "linear"])
def test_fresh_data_are_not_accused(metric):
    one = assess(real=gaussian(600, 4, 22), fake=gaussian(600, 4, 23), metrics=(metric, "c2st"))
    assert one.verdict.startswith("Indistinguishable")


def test_constant_columns_are_named():
    real, fake = gaussian(60, 4, 24), gaussian(60, 4, 25)
    real[:, 2] = fake[:, 2] = 7.0
    real[:, 3], fake[:, 3] = 1.0, 2.0  # constant on each side, but not the same
    one = assess(real=real, fake=fake, metrics=("neighbors",))
    assert one.protocol["constant_columns"] == [2]


def blobs(centres, spread, n, *seed):
    """Normal points around these centres."""
    return centres[rng(*seed).integers(len(centres), size=n)] + spread * gaussian(n, centres.shape[1], *seed, 1)


@pytest.mark.whole_panel
def test_the_interval_covers_how_much_wider_forty_cities_are():
    """A total variation of .56 had the interval [.24, .45]: the trees had not resolved the cities."""
    cities = rng(0).uniform(0, 10, size=(40, 2))
    found = assess(real=blobs(cities, 0.15, 1000, 70), fake=blobs(cities, 0.4, 1000, 71), metrics=("auto", "c2st"))
    assert 0.56 in found.scores["tv"].interval
    assert found.scores["tv"].value > 0.45
    assert found.verdict.kind == "invents"


def test_modes_that_are_wider_are_seen_by_adapted_mixtures():
    """All modes have the weights and centres that they should have."""
    modes = 12 * np.stack([np.cos(np.arange(6)), np.sin(np.arange(6))], axis=1)
    found = classify("islands", real=blobs(modes, 1.0, 1500, 73), fake=blobs(modes, 2.0, 1500, 74))
    assert 0.37 < found.spectrum.total_variation < 0.52


def test_modes_that_are_turned_are_seen_by_adapted_mixtures():
    """Neither the weights, nor the centres, nor the variances of the columns differ."""
    angles = 2 * np.pi * np.arange(12) / 12
    modes, turned = 12 * np.stack([np.cos(angles), np.sin(angles)], axis=1), np.array([[1.0, -0.98], [-0.98, 1.0]])

    def drawn(seed, covariance):
        one = rng(seed)
        return modes[one.integers(12, size=800)] + one.multivariate_normal([0, 0], covariance, size=800)

    real, fake = drawn(75, np.abs(turned)), drawn(175, turned)
    found = classify("islands", real=real, fake=fake)
    assert found.spectrum.total_variation > 0.75  # the truth is .87; it was .60
