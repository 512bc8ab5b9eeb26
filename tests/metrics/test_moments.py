"""Moments, FID and KID: merges, closed forms, invariances, intervals."""

import re
import tracemalloc
from functools import reduce
from operator import add

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.linalg import sqrtm
from scipy.special import comb

from precall.metrics.assessing.assessment import Reference, assess
from precall.metrics.distances import frechet_distance, gaussian_kernel, kernel_distance as module
from precall.metrics.distances.frechet_distance import fid
from precall.metrics.distances.kernel_distance import kid
from precall.metrics.distances.moments import (
    Moments,
    _pareto_shape,
    degrees_of_freedom,
    gaussian_frontier,
    influence_quantile,
)
from precall.metrics.inputs import features as features_module
from precall.metrics.inputs.features import Pair
from precall.metrics.pairs import kernels
from precall.metrics.tiles import distances

seeds = st.integers(0, 2**32 - 1)


def correlated(rng, n, d, rank=None):
    """n samples in d dimensions with a random covariance of the given rank, and a random mean."""
    return rng.normal(size=(n, rank or d)) @ rng.normal(size=(rank or d, d)) + 3 * rng.normal(size=d)


def fid_by_sqrtm(P, Q):
    root = np.asarray(sqrtm(P.covariance @ Q.covariance))
    return np.sum((P.mean - Q.mean) ** 2) + np.trace(P.covariance + Q.covariance - 2 * root.real)


# ------------------------------------------------------------------------------------------------------------- moments


@given(seed=seeds, n=st.integers(2, 40), d=st.integers(1, 5), offset=st.sampled_from([0.0, 1e3]))
def test_merged_shards_equal_one_pass(seed, n, d, offset):
    rng = np.random.default_rng(seed)
    x = correlated(rng, n, d) + offset
    shards = [shard for shard in np.split(x, np.sort(rng.integers(0, n + 1, 3))) if len(shard)]
    merged, whole = reduce(add, map(Moments.of, shards)), Moments.of(x)
    assert merged.n == whole.n == n
    np.testing.assert_allclose(merged.mean, whole.mean, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(merged.scatter, whole.scatter, rtol=1e-10, atol=1e-10 * np.abs(whole.scatter).max())


def test_covariance_is_numpys(monkeypatch):
    monkeypatch.setattr(features_module, "TILE_VALUES", 20)
    x = correlated(np.random.default_rng(0), 57, 4) + 100
    np.testing.assert_allclose(Moments.of(x).covariance, np.cov(x, rowvar=False), rtol=1e-10)


def test_every_kind_of_input_gives_the_same_moments(tmp_path):
    x = correlated(np.random.default_rng(0), 50, 3).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    wanted = Moments.of(x.astype(np.float64))
    for same in (x, np.load(tmp_path / "x.npy", mmap_mode="r"), torch.from_numpy(x), x.tolist()):
        got = Moments.of(same)
        np.testing.assert_allclose(got.scatter, wanted.scatter, rtol=1e-12)
        assert got.scatter.dtype == np.float64


def test_stored_statistics_round_trip():
    moments = Moments.of(correlated(np.random.default_rng(0), 30, 4))
    again = Moments.from_statistics(moments.mean, moments.covariance, moments.n)
    np.testing.assert_allclose(again.scatter, moments.scatter, rtol=1e-12)


# ----------------------------------------------------------------------------------------------------------------- FID


@given(seed=seeds, d=st.integers(1, 8))
def test_fid_is_the_sqrtm_formula(seed, d):
    rng = np.random.default_rng(seed)
    x, y = correlated(rng, d + 30, d), correlated(rng, d + 20, d)
    wanted = fid_by_sqrtm(Moments.of(x), Moments.of(y))
    assert fid(real=x, fake=y).value == pytest.approx(wanted, rel=1e-6)
    assert fid(real=Moments.of(x), fake=Moments.of(y)).value == pytest.approx(wanted, rel=1e-6)


@given(seed=seeds, d=st.integers(1, 6), zeros=st.integers(0, 6))
def test_fid_of_aligned_gaussians_is_closed_form(seed, d, zeros):
    """Diagonal covariances commute: FID = |δ|² + Σ (√λ − √μ)², also if they are singular, and in any rotation."""
    rng = np.random.default_rng(seed)
    a, b = rng.exponential(size=(2, d))
    a[: min(zeros, d)] = 0
    shift = rng.normal(size=d)
    frame = np.linalg.qr(rng.normal(size=(d, d)))[0]
    real = Moments.from_statistics(np.zeros(d), frame @ np.diag(a) @ frame.T, n=10)
    fake = Moments.from_statistics(frame @ shift, frame @ np.diag(b) @ frame.T, n=10)
    wanted = shift @ shift + np.sum((np.sqrt(a) - np.sqrt(b)) ** 2)
    assert fid(real=real, fake=fake).value == pytest.approx(wanted, rel=1e-7, abs=1e-7)


@given(seed=seeds, n=st.integers(2, 8), m=st.integers(2, 40), d=st.integers(3, 12), rank=st.integers(1, 3))
def test_fid_with_fewer_samples_than_dimensions(seed, n, m, d, rank):
    """Against the nuclear norm of the product of centred data matrices, which needs no covariance at all."""
    rng = np.random.default_rng(seed)
    x, y = correlated(rng, n, d, rank), correlated(rng, m, d)
    X, Y = (x - x.mean(0)) / np.sqrt(n - 1), (y - y.mean(0)) / np.sqrt(m - 1)
    nuclear = np.linalg.svd(X @ Y.T, compute_uv=False).sum()
    wanted = np.sum((x.mean(0) - y.mean(0)) ** 2) + np.sum(X**2) + np.sum(Y**2) - 2 * nuclear
    score = fid(real=x, fake=y)
    assert score.value == pytest.approx(wanted, rel=1e-6)
    assert np.isfinite([score.interval.low, score.interval.high]).all()
    assert fid(real=Moments.of(x), fake=Moments.of(y)).value == pytest.approx(wanted, rel=1e-5)


def test_few_samples_need_no_large_matrix():
    """20 samples of 4000 pixels: the covariance alone would take 128 MB."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 4000)), rng.normal(size=(15, 4000)) + 1
    tracemalloc.start()
    score = fid(real=x, fake=y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6
    assert score.value > 4000


@given(seed=seeds, n=st.integers(2, 20), m=st.integers(2, 20), d=st.integers(1, 6))
def test_fid_is_symmetric_and_invariant(seed, n, m, d):
    rng = np.random.default_rng(seed)
    x, y = correlated(rng, n, d), correlated(rng, m, d)
    frame, origin = np.linalg.qr(rng.normal(size=(d, d)))[0], rng.normal(size=d)
    value = fid(real=x, fake=y)
    swapped = fid(real=y, fake=x)
    moved = fid(real=2 * x @ frame + origin, fake=2 * y @ frame + origin)
    assert value.value >= 0
    assert swapped.value == pytest.approx(value.value, rel=1e-6)
    assert swapped.interval.low == pytest.approx(value.interval.low, rel=1e-4, abs=1e-6)
    assert swapped.interval.high == pytest.approx(value.interval.high, rel=1e-4)
    assert moved.value == pytest.approx(4 * value.value, rel=1e-6)


@given(seed=seeds, n=st.integers(2, 20), d=st.integers(1, 25))
def test_fid_of_a_set_with_itself_is_zero(seed, n, d):
    x = correlated(np.random.default_rng(seed), n, d)
    score = fid(real=x, fake=x)
    assert 0 <= score.value <= 1e-6 * np.var(x) * d
    assert score.interval.high <= 1e-5 * np.var(x) * d


@pytest.mark.parametrize(("n", "m"), [(40, 60), (60, 40), (4, 60), (60, 5), (4, 3)])
def test_fid_without_an_interval_is_the_same_distance(n, m):
    rng = np.random.default_rng(0)
    pair = Pair(correlated(rng, n, 7), correlated(rng, m, 7, 3))
    both, alone = (frechet_distance.fid_of_pair(pair, level=level) for level in (0.95, None))
    assert alone.value == pytest.approx(both.value, rel=1e-9)
    assert alone.interval is None
    assert (alone.n_real, alone.n_fake, alone.settings) == (n, m, both.settings)


def test_constant_features_leave_the_means():
    x, y = np.zeros((5, 3)), np.tile([1.0, 2.0, 2.0], (7, 1))
    for real, fake in ((x, y), (Moments.of(x), Moments.of(y))):
        assert fid(real=real, fake=fake).value == 9.0


def test_a_dead_feature_does_not_hurt():
    """A constant column makes every covariance singular; the result must be the same as without it."""
    rng = np.random.default_rng(0)
    x, y = correlated(rng, 40, 3), correlated(rng, 30, 3)
    dead = [np.insert(z, 1, 0.0, axis=1) for z in (x, y)]
    assert fid(real=dead[0], fake=dead[1]).value == pytest.approx(fid(real=x, fake=y).value, rel=1e-9)


def delete_one(statistic, x):
    values = np.array([statistic(np.delete(x, i, axis=0)) for i in range(len(x))])
    return (len(x) - 1) / len(x) * np.sum((values - values.mean()) ** 2)


@pytest.mark.parametrize(("d", "n", "m"), [(3, 150, 90), (12, 90, 150)])
def test_fid_variance_is_that_of_the_jackknife(d, n, m, monkeypatch):
    """The closed-form influences against deleting each sample in turn, one side at a time and both."""
    monkeypatch.setattr(frechet_distance, "influence_quantile", lambda level, variances, degrees: 1.959964)
    rng = np.random.default_rng(d)
    x = rng.exponential(size=(n, d)) * np.linspace(1, 3, d)
    y = rng.normal(size=(m, d)) + 0.5
    by_real = delete_one(lambda part: fid(real=Moments.of(part), fake=Moments.of(y)).value, x)
    by_fake = delete_one(lambda part: fid(real=Moments.of(x), fake=Moments.of(part)).value, y)
    for real, fake, variance in ((x, Moments.of(y), by_real), (Moments.of(x), y, by_fake), (x, y, by_real + by_fake)):
        score = fid(real=real, fake=fake)
        # the interval is symmetric for the distance: its ends are (√value ± z sd / (2 √value))²
        deviation = (np.sqrt(score.interval.high) - np.sqrt(score.interval.low)) * np.sqrt(score.value) / 1.959964
        assert deviation**2 == pytest.approx(variance, rel=0.12)


@pytest.mark.parametrize(
    ("d", "n", "m", "shift", "least"),
    [(4, 200, 100, 0.5, 0.90), (4, 100, 50, 0.0, 0.94), (1, 60, 60, 0.0, 0.94), (20, 15, 30, 0.3, 0.90)],
    ids=["apart", "equal", "one dimension", "fewer samples than dimensions"],
)
def test_fid_interval_covers_the_mean_estimate(d, n, m, shift, least):
    rng = np.random.default_rng(1)
    scale = np.linspace(1, 0.3, d)
    draw = lambda size, at: rng.normal(size=(size, d)) * scale + at  # noqa: E731
    scores = [fid(real=draw(n, 0.0), fake=draw(m, shift)) for _ in range(400)]
    mean = np.mean([score.value for score in scores])
    assert least <= np.mean([mean in score.interval for score in scores]) <= 1


def test_fid_interval_says_what_it_covers():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 2)), rng.normal(size=(40, 2)) + 1
    both, one = fid(real=x, fake=y), fid(real=Moments.of(x), fake=y)
    assert "real and fake samples; not its bias" in both.interval.covers
    assert "draws of the fake samples" in one.interval.covers
    assert one.interval.high - one.interval.low < both.interval.high - both.interval.low
    assert fid(real=Moments.of(x), fake=Moments.of(y)).interval is None
    wide = fid(real=x, fake=y, level=0.99)
    assert wide.interval.low < both.interval.low < both.interval.high < wide.interval.high


def test_fid_and_kid_of_tensors_are_those_of_arrays():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 5)).astype(np.float32), rng.normal(size=(40, 5)) + 1
    for score in (fid, kid):
        arrays = score(real=x, fake=y)
        for real, fake in ((torch.from_numpy(x), torch.from_numpy(y)), (x, torch.from_numpy(y))):
            tensors = score(real=real, fake=fake)
            assert tensors.value == pytest.approx(arrays.value, rel=1e-10)
            assert tensors.interval.low == pytest.approx(arrays.interval.low, rel=1e-8)


def test_gaussian_frontier_of_features():
    """Its ends are the two Kullback-Leibler divergences of the fitted Gaussians; at the end of P no recall is lost."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(400, 1)), 3 * rng.normal(size=(300, 1)) + 2
    frontier = gaussian_frontier(real=x, fake=Moments.of(y), points=5)
    v, w, gap = x.var(ddof=1), y.var(ddof=1), (x.mean() - y.mean()) ** 2
    p_from_q = (v / w + gap / w - 1 - np.log(v / w)) / 2
    assert frontier.recall_loss[0] == pytest.approx(0, abs=1e-12)
    assert frontier.precision_loss[0] == pytest.approx(p_from_q)


# ----------------------------------------------------------------------------------------------------------------- KID


def kid_by_pairs(x, y, degree):
    """The definition, pair by pair."""
    k = lambda a, b: (a @ b / len(a) + 1) ** degree  # noqa: E731
    within = lambda z: np.mean([k(a, b) for i, a in enumerate(z) for j, b in enumerate(z) if i != j])  # noqa: E731
    return within(x) + within(y) - 2 * np.mean([k(a, b) for a in x for b in y])


@given(seed=seeds, n=st.integers(2, 9), m=st.integers(2, 9), d=st.integers(1, 4), degree=st.integers(1, 4))
@settings(max_examples=30)
def test_kid_is_the_mean_over_pairs(seed, n, m, d, degree):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(n, d)), rng.normal(size=(m, d)) + 1
    wanted = kid_by_pairs(x, y, degree)
    assert kid(real=x, fake=y, degree=degree).value == pytest.approx(wanted, rel=1e-9, abs=1e-9)
    assert (kid(real=x, fake=y).interval is None) == (min(n, m) < 4)


def test_blocks_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(23, 3)), rng.normal(size=(17, 3)) + 1
    whole = kid(real=x, fake=y)
    monkeypatch.setitem(distances.TILE_SIDES, "cpu", (16, 16))
    monkeypatch.setitem(kernels.AT_ONCE, "cpu", 5)
    blocks = kid(real=x, fake=y)
    assert blocks.value == pytest.approx(whole.value, rel=1e-12)
    assert blocks.interval.high == pytest.approx(whole.interval.high, rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.filterwarnings("ignore:.* samples repeat each other")
def test_kid_from_the_products_of_the_sweep_is_kid_of_its_own_pass(dtype):
    """With rows that occur once, and with rows that occur so often that the sweep keeps only some of them."""
    rng = np.random.default_rng(0)
    real, fake = rng.normal(size=(70, 5)).astype(dtype), (rng.normal(size=(60, 5)) + 0.5).astype(dtype)
    tolerance = 1e-6 if dtype == np.float32 else 1e-11
    for fakes in (fake, np.concatenate([fake, np.repeat(fake[:3], 20, axis=0)])):
        scores = assess(real=real, fake=fakes, metrics=("neighbors", "kid")).scores
        without = assess(real=real, fake=fakes, metrics=("neighbors",)).scores
        assert all(scores[name].value == score.value for name, score in without.items())
        together, alone = scores["kid"], kid(real=real, fake=fakes)
        wanted = kid_by_pairs(real.astype(np.float64), fakes.astype(np.float64), 3)
        for score in (together, alone):
            assert score.value == pytest.approx(wanted, rel=tolerance)
            assert score.interval.high == pytest.approx(alone.interval.high, rel=tolerance)
            assert (score.n_real, score.n_fake) == (70, len(fakes))


def test_balls_of_the_data_are_swept_once_for_all_models():
    rng = np.random.default_rng(0)
    reference = Reference.fit(rng.normal(size=(50, 3)))
    for metrics in (("neighbors", "kid"), ("neighbors",), ("kid", "copies")):
        reference.assess(rng.normal(size=(40, 3)) + 1, metrics=metrics)
    assert len(reference.swept) == 1


def test_kid_keeps_its_digits_far_from_the_origin():
    """Features near 300 with spread 0.01: kernel values near 7e14, their residuals 1e-14 of that."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 1)), rng.normal(size=(60, 1))
    far = kid(real=300 + 0.01 * x, fake=300 + 0.01 * y, degree=1)
    near = kid(real=0.01 * x, fake=0.01 * y, degree=1)  # a linear kernel sees only the difference of means
    assert far.value == pytest.approx(near.value, rel=1e-4)
    assert far.interval.high - far.interval.low == pytest.approx(near.interval.high - near.interval.low, rel=1e-2)


@pytest.mark.parametrize("unit", [2.0**-66, 2.0**66, 2.0**100])
def test_kid_in_extreme_units(unit):
    """A linear kernel measures in squares of the unit; a cubic one in sixth powers if the unit is large."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 3)), rng.normal(size=(50, 3)) + 1
    scores = kid(real=unit * x, fake=unit * y, degree=1), kid(real=x, fake=y, degree=1)
    assert scores[0].value / unit**2 == pytest.approx(scores[1].value, rel=1e-9)
    assert scores[0].interval.high / unit**2 == pytest.approx(scores[1].interval.high, rel=1e-9)
    cubic = kid(real=unit * x, fake=unit * y)
    leading = 3 * scores[1].value * unit**2 if unit < 1 else kid_of_cubes(x, y) * unit**6
    assert cubic.value == pytest.approx(leading, rel=1e-9)
    assert cubic.interval.low < cubic.value < cubic.interval.high
    assert len(str(cubic)) < 40


def kid_of_cubes(x, y):
    """The MMD with the kernel (x·y/d)³, by pairs."""
    k = lambda a, b: (a @ b.T / a.shape[1]) ** 3  # noqa: E731
    within = lambda z: (k(z, z).sum() - np.trace(k(z, z))) / (len(z) * (len(z) - 1))  # noqa: E731
    return within(x) + within(y) - 2 * k(x, y).mean()


def test_kid_that_no_number_can_hold_is_refused():
    with pytest.raises(ValueError, match="Divide both sets by the same number"):
        kid(real=1e60 * np.random.default_rng(0).normal(size=(9, 2)), fake=np.ones((9, 2)))


def test_kid_of_float32_features_is_that_of_the_same_numbers_in_float64():
    rng = np.random.default_rng(0)
    for offset in (0, 1000):
        x, y = (offset + rng.normal(size=(300, 40)).astype(np.float32) for _ in range(2))
        exact = kid(real=x.astype(np.float64), fake=y.astype(np.float64))
        assert kid(real=x, fake=y).value == pytest.approx(exact.value, abs=1e-6 * (exact.interval.high - exact.value))


def true_kid(first, second):
    """Σ_j C(3, j) (E X^j − E Y^j)² in one dimension, from the moments E X, E X², E X³ of each."""
    return sum(comb(3, j) * (a - b) ** 2 for j, (a, b) in enumerate(zip(first, second, strict=True), start=1))


@pytest.mark.parametrize(
    ("n", "m", "shift", "least"),
    [(100, 60, 0.0, 0.95), (100, 60, 0.3, 0.88), (60, 100, 1.0, 0.88)],
    ids=["equal", "near", "far"],
)
def test_kid_interval_covers_the_true_kid(n, m, shift, least):
    """Normal against shifted normal, one dimension: E (s + Z)^j is s, s² + 1, s³ + 3 s."""
    truth = true_kid((0, 1, 0), (shift, shift**2 + 1, shift**3 + 3 * shift))
    rng = np.random.default_rng(0)
    scores = [kid(real=rng.normal(size=(n, 1)), fake=rng.normal(size=(m, 1)) + shift) for _ in range(100)]
    values = np.array([score.value for score in scores])
    assert abs(values.mean() - truth) < 4 * values.std() / np.sqrt(len(values))
    assert least <= np.mean([truth in score.interval for score in scores]) <= 1


def test_kid_variance_is_that_of_fresh_draws():
    """If P and Q are far apart, the projections dominate the variance; under P = Q the residuals do (√3 too wide)."""
    rng = np.random.default_rng(0)
    for shift, low, high in ((1.0, 0.8, 1.25), (0.0, 2.0, 4.0)):
        scores = [kid(real=rng.normal(size=(80, 16)), fake=rng.normal(size=(120, 16)) + shift) for _ in range(100)]
        estimated = np.mean([((s.interval.high - s.interval.low) / (2 * 1.959964)) ** 2 for s in scores])
        assert low < estimated / np.var([s.value for s in scores]) < high


def test_residuals_are_those_of_the_additive_fit():
    """Against least squares on the off-diagonal and on the full kernel matrix."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(7, 2)), rng.normal(size=(6, 2))
    kernel = lambda a, b: (a @ b.T / 2 + 1) ** 3  # noqa: E731
    i, j = np.triu_indices(7, 1)
    design = np.eye(7)[i] + np.eye(7)[j]  # the constant is in its span
    k = kernel(x, x)[i, j]
    left = k - design @ np.linalg.lstsq(design, k, rcond=None)[0]
    sums = [one.result() for one in kernels.kernel_sums(module.kernel_of(Pair(x, y)), x, y)]
    assert gaussian_kernel._residual_within(sums[0][0], sums[0][2]) == pytest.approx(left @ left / (7 * 4 / 2))
    between = kernel(x, y)
    left = between - between.mean(0) - between.mean(1, keepdims=True) + between.mean()
    assert gaussian_kernel._residual_between(*sums[2]) == pytest.approx(np.sum(left**2) / (6 * 5))


def test_kid_expects_nothing_of_equal_sets():
    rng = np.random.default_rng(0)
    score = kid(real=rng.normal(size=(300, 8)), fake=rng.normal(size=(200, 8)))
    assert score.chance == 0
    assert 0 in score.interval
    assert (score.n_real, score.n_fake) == (300, 200)


# ------------------------------------------------------------------------------------------------------------ quantiles


def test_the_quantile_is_students_if_the_variance_is_uncertain():
    rng = np.random.default_rng(0)
    assert degrees_of_freedom(rng.normal(size=100_000)) == pytest.approx(100_000, rel=0.05)  # n for normal influences
    assert degrees_of_freedom(np.append(np.zeros(99), 1.0)) == pytest.approx(2.0, rel=0.05)  # one sample is everything
    assert degrees_of_freedom(np.zeros(9)) == np.inf
    assert influence_quantile(0.95, [1.0], [5.0]) == pytest.approx(2.5706, abs=1e-4)
    assert influence_quantile(0.95, [1.0, 0.0], [5.0, 2.0]) == pytest.approx(2.5706, abs=1e-4)
    assert influence_quantile(0.95, [1.0, 1.0], [np.inf, np.inf]) == pytest.approx(1.959964)
    assert influence_quantile(0.95, [0.0], [np.inf]) == pytest.approx(1.959964)


@pytest.mark.parametrize("score", [fid, kid])
def test_intervals_cover_the_mean_score_of_skewed_features(score):
    """Log-normal features: at least 84 of 100 intervals must cover (fewer has a chance below 1 % at 92 %)."""
    rng = np.random.default_rng(1)
    scores = [
        score(real=np.exp(0.7 * rng.normal(size=(200, 3))), fake=np.exp(0.7 * rng.normal(size=(150, 3)) + 0.2))
        for _ in range(100)
    ]
    expected = np.mean([one.value for one in scores])
    assert sum(expected in one.interval for one in scores) >= 84
    assert np.mean([one.interval.high - one.interval.low for one in scores]) < 8 * np.std([one.value for one in scores])


# -------------------------------------------------------------------------------------------------------------- errors

X = np.random.default_rng(0).normal(size=(6, 2))
BAD = {
    "fid dimension": (lambda: fid(real=X, fake=X[:, :1]), "`real` and `fake` must have the same dimension; got real 2"),
    "fid one": (lambda: fid(real=X, fake=X[:1]), "`fake` must hold at least 2 samples; got 1"),
    "fid one moment": (lambda: fid(real=Moments.of(X[:1]), fake=X), "`real` must hold at least 2 samples; got 1"),
    "fid nan": (lambda: fid(real=X * np.nan, fake=X), "`real` must be finite; row 0"),
    "fid level": (lambda: fid(real=X, fake=X, level=95), "`level` must be strictly between 0 and 1; got 95"),
    "kid dimension": (lambda: kid(real=X[:, :1], fake=X), "`real` and `fake` must have the same dimension"),
    "kid degree": (lambda: kid(real=X, fake=X, degree=0), "`degree` must be a whole number of at least 1; got 0"),
    "kid half degree": (lambda: kid(real=X, fake=X, degree=1.5), "`degree` must be a whole number"),
    "merge": (lambda: Moments.of(X) + Moments.of(X[:, :1]), "must have the same dimension; got 2 and 1"),
    "covariance": (lambda: Moments.of(X[:1]).covariance, "A covariance needs at least 2 samples"),
    "empty": (lambda: Moments.of(X[:0]), "`features` must hold at least 1 sample"),
    "sigma shape": (lambda: Moments.from_statistics([0, 0], [[1.0]], 5), "`sigma` must have shape (2, 2)"),
    "sigma skew": (lambda: Moments.from_statistics([0, 0], [[1, 1], [0, 1]], 5), "`sigma` must be symmetric"),
    "n": (lambda: Moments.from_statistics([0], [[1]], 1), "`n` must be a whole number of at least 2"),
    "sigma indefinite": (
        lambda: fid(real=Moments.from_statistics([0, 0], [[1, 0], [0, -1]], 5), fake=X),
        "A covariance must have no negative eigenvalue; got a smallest eigenvalue of -1 and a largest of 1. Pass",
    ),
}


@pytest.mark.parametrize(("call", "sentence"), BAD.values(), ids=BAD.keys())
def test_bad_input_raises_one_clear_sentence(call, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("score", [fid, kid])
def test_no_interval_if_outliers_decide(score):
    rng = np.random.default_rng(0)
    real = rng.normal(size=(1000, 8))
    heavy = score(real=real, fake=rng.standard_t(2, size=(1000, 8)))
    assert heavy.interval is None
    assert "outliers" in heavy.settings["interval"]
    light = score(real=real, fake=1.5 * rng.normal(size=(1000, 8)))
    assert light.interval is not None
    assert "interval" not in light.settings


@pytest.mark.parametrize("shape", [0.0, 0.25, 1.0])
def test_the_shape_of_a_tail_is_recovered(shape):
    from scipy.stats import genpareto

    values = np.sort(genpareto(shape).rvs(4000, random_state=0))
    assert _pareto_shape(values) == pytest.approx(shape, abs=0.06)
