"""k-means histograms."""

import numpy as np
import pytest

from precall.metrics.assessing.assessment import assess
from precall.metrics.cells import histograms as module
from precall.metrics.cells.histograms import kmeans_histograms
from precall.metrics.scores.score import bounded_interval
from precall.theory.spectrum import RatioSpectrum


def blobs(rng, weights, n, spread=0.1):
    centres = 10.0 * np.arange(len(weights))
    x = rng.choice(centres, size=n, p=weights)[:, None] + rng.normal(0, spread, (n, 1))
    return np.concatenate([x, rng.normal(0, spread, (n, 1))], axis=1)


def wide_modes(rng, weights, n, centres):
    """Modes in many columns, whose noise is as large in every column as the distance of the modes is in all of them."""
    return (centres[rng.choice(len(centres), n, p=weights)] + rng.normal(size=(n, centres.shape[1]))).astype(np.float32)


def test_principal_axes_of_many_columns_give_the_cells_of_all_columns(monkeypatch):
    """Two of four modes are dropped; k-means sees it on 24 principal axes as it does in 600 columns."""
    rng = np.random.default_rng(0)
    centres = 0.3 * rng.normal(size=(4, 600))
    real, fake = (wide_modes(rng, weights, 600, centres) for weights in ([0.25] * 4, [0.5, 0.5, 0, 0]))
    assert module._projected(real, 6 * 4).shape == (600, 24)
    projected = kmeans_histograms(real=real, fake=fake, n_clusters=4, repeats=3)
    monkeypatch.setattr(module, "_projected", lambda x, most: x)
    whole = kmeans_histograms(real=real, fake=fake, n_clusters=4, repeats=3)
    lam = np.array([0.25, 0.5, 1, 2, 4])
    np.testing.assert_allclose(projected.spectrum.alpha(lam), whole.spectrum.alpha(lam), atol=0.03)
    assert projected.spectrum.alpha(1.0) == pytest.approx(0.5, abs=0.03)


def test_many_cells_and_equal_rows_are_clustered_in_any_number_of_columns():
    x = np.random.default_rng(0).normal(size=(250, 600)).astype(np.float32)
    assert module._projected(x, 6 * 100) is x
    equal = kmeans_histograms(real=np.ones((60, 600)), fake=np.ones((60, 600)), n_clusters=1, repeats=1)
    assert equal.spectrum.area == 1


def test_separated_blobs_give_the_discrete_curve():
    """Cells = modes: the histogram curve is that of the mode weights; a dropped mode costs recall, not precision."""
    rng = np.random.default_rng(0)
    real, fake = blobs(rng, [0.5, 0.3, 0.2], 3000), blobs(rng, [0.9, 0.1, 0.0], 2000)
    found = kmeans_histograms(real=real, fake=fake, n_clusters=3, repeats=3)
    exact = RatioSpectrum.from_masses(p=[0.5, 0.3, 0.2], q=[0.9, 0.1, 0.0])
    lam = np.array([0.25, 0.5, 1, 2, 4])
    np.testing.assert_allclose(found.spectrum.alpha(lam), exact.alpha(lam), atol=0.03)
    assert found.spectrum.max_precision == 1.0
    assert found.spectrum.max_recall == pytest.approx(0.8, abs=0.03)


def test_units_do_not_matter():
    rng = np.random.default_rng(0)
    pair = {"real": rng.normal(size=(90, 3)), "fake": rng.normal(size=(80, 3))}
    plain = kmeans_histograms(**pair, repeats=2)
    for unit in (2.0**100, 2.0**-100, 2.0**200):
        scaled = kmeans_histograms(**{name: unit * x for name, x in pair.items()}, repeats=2)
        np.testing.assert_array_equal(scaled.labels_real, plain.labels_real)
    assert (
        kmeans_histograms(real=np.zeros((9, 2)), fake=np.zeros((9, 2)), n_clusters=1, repeats=1).labels_fake == 0
    ).all()


def test_the_curve_is_the_average_over_repeats():
    rng = np.random.default_rng(1)
    found = kmeans_histograms(
        real=rng.normal(size=(300, 3)), fake=rng.normal(0.5, 1, (200, 3)), n_clusters=8, repeats=4
    )
    each = [RatioSpectrum.from_counts(real=r, fake=f) for r, f in (found.counts(i) for i in range(4))]
    lam = np.exp(np.linspace(-3, 3, 9))
    np.testing.assert_allclose(found.spectrum.alpha(lam), np.mean([s.alpha(lam) for s in each], axis=0), atol=1e-12)
    assert found.labels_real.shape == (4, 300)
    assert found.labels_fake.shape == (4, 200)
    assert sum(found.counts(0)[1]) == 200


def test_same_seed_same_bits_and_another_seed_another_start():
    rng = np.random.default_rng(2)
    real, fake = rng.normal(size=(200, 4)), rng.normal(size=(200, 4))
    once, again, other = (kmeans_histograms(real=real, fake=fake, repeats=2, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(once.labels_real, again.labels_real)
    assert (once.labels_real != other.labels_real).any()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"n_clusters": 41}, "`n_clusters` must be between 1 and 40, the number of samples"),
        ({"repeats": 0}, "`repeats`"),
    ],
)
def test_wrong_arguments_cost_a_sentence(arguments, sentence):
    x = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match=sentence):
        kmeans_histograms(real=x, fake=x, **arguments)


# ----------------------------------------------------------------------------------------- intervals and chance levels


def test_intervals_cover_the_expected_scores_and_are_not_needlessly_wide():
    """Nominal 95 %: of 24 repetitions at least 19 must cover each score's mean (fewer has a chance of 0.1 %)."""
    rng, runs = np.random.default_rng(0), []
    for seed in range(24):
        real, fake = rng.normal(size=(150, 2)), rng.normal([1.5, 0], 1.0, size=(100, 2))
        runs.append(assess(real=real, fake=fake, metrics=("clusters", "mauve"), seed=seed).scores)
    for name in ("area", "f8", "f1_8", "tv", "invented", "missed", "mauve"):
        values, intervals = [run[name].value for run in runs], [run[name].interval for run in runs]
        assert sum(np.mean(values) in one for one in intervals) >= 19, name
        assert np.mean([one.high - one.low for one in intervals]) < 2 * 4 * np.std(values), name
        assert all("expectation" in one.covers and "bias" in one.covers for one in intervals)


def test_chance_is_what_equal_distributions_score():
    """The permutations of one strongly different pair predict the mean score of pairs of draws from the mixture."""
    rng = np.random.default_rng(1)

    def draw(n):
        return np.where(rng.random((n, 1)) < 0.5, rng.normal(size=(n, 2)), rng.normal([3.0, 0], 1.0, size=(n, 2)))

    different = assess(
        real=rng.normal(size=(120, 2)), fake=rng.normal([3.0, 0], 1.0, size=(120, 2)), metrics=("clusters", "mauve")
    ).scores
    same = [assess(real=draw(120), fake=draw(120), metrics=("clusters", "mauve"), seed=s).scores for s in range(12)]
    for name in ("area", "f8", "f1_8", "tv", "mauve"):
        values = [one[name].value for one in same]
        assert different[name].chance == pytest.approx(np.mean(values), abs=0.02 + np.std(values)), name
        assert abs(different[name].value - different[name].chance) > 0.2, name


@pytest.mark.parametrize(
    ("value", "half", "expected"),
    [
        (0.5, 0.1, (0.4, 0.6)),
        (0.0, 0.0, (0.0, 0.03)),  # nothing seen in 100 samples: up to 3 % may have been missed
        (1.0, 0.0, (0.97, 1.0)),
        (1e-16, 0.0, (0.0, 0.03)),
        (0.01, 0.5, (0.0, 0.51)),
    ],
)
def test_intervals_at_an_end_of_the_range_follow_the_rule_of_three(value, half, expected):
    interval = bounded_interval(value, half, low=0.0, high=1.0, n=100, covers="")
    assert (interval.low, interval.high) == pytest.approx(expected)


def test_resampling_keeps_the_sizes_and_the_cells():
    rng = np.random.default_rng(3)
    found = kmeans_histograms(
        real=rng.normal(size=(90, 2)), fake=rng.normal([9.0, 0], 1.0, size=(60, 2)), n_clusters=4, repeats=2
    )
    assert found.spectrum.area == 0
    assert all(one.area == 0 for one in found.resampled(3, rng))  # no cell is shared, so no bootstrap sample shares one
    assert all(one.area > 0.7 for one in found.permuted(3, rng))
    shared = found.labels_real[0], found.labels_fake[0]
    one = found.each()[0]
    assert one.alpha(0.5) == RatioSpectrum.from_counts(
        real=np.bincount(shared[0], minlength=4), fake=np.bincount(shared[1], minlength=4)
    ).alpha(0.5)


@pytest.mark.parametrize("offset", [0.0, 1e8])
@pytest.mark.parametrize("unit", [1.0, 1e-20, 1e20])
def test_units_and_origin_do_not_change_the_scores(unit, offset):
    rng = np.random.default_rng(4)
    real, fake = rng.normal(size=(150, 3)), rng.normal([1.0, 0, 0], 1.0, size=(150, 3))
    plain = assess(real=real, fake=fake, metrics=("clusters",)).scores
    moved = assess(real=unit * (real + offset), fake=unit * (fake + offset), metrics=("clusters",)).scores
    for name, score in plain.items():
        assert moved[name].value == pytest.approx(score.value, abs=1e-3 if offset else 1e-6)
