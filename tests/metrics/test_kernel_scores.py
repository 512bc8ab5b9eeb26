"""MIND, MMD with a Gaussian kernel, RKE and Vendi: against plain implementations and against closed forms."""

import numpy as np
import pytest

from precall.metrics.assessing.assessment import assess
from precall.metrics.distances.gaussian_kernel import diversity, mmd
from precall.metrics.distances.sliced_distance import DIRECTIONS, mind

pytestmark = pytest.mark.usefixtures("small_committee")

NEW = ("mind", "kad", "cmmd", "rke", "vendi")


@pytest.fixture(scope="module")
def sets():
    rng = np.random.default_rng(3)
    return 2 + rng.normal(size=(90, 5)), 2 + 1.5 * rng.normal(size=(60, 5)) + np.eye(5)[0]


def gaussian(x, y, width):
    return np.exp(-(np.linalg.norm(x[:, None] - y[None], axis=2) ** 2) / (2 * width**2))


def median_distance(x):
    return np.median(np.linalg.norm(x[:, None] - x[None], axis=2)[np.triu_indices(len(x), 1)])


def off_diagonal(k):
    return k[~np.eye(len(k), dtype=bool)].mean()


def test_mind_is_three_d_times_the_mean_wasserstein_distance_of_projections(sets):
    x, y = sets
    theta = np.random.default_rng(0).normal(size=(DIRECTIONS, 5))
    theta /= np.linalg.norm(theta, axis=1, keepdims=True)
    found = mind(real=x, fake=y)
    levels = (np.arange(180) + 0.5) / 180  # both 90 and 60 divide 180: every quantile is met exactly
    distances = [
        ((np.quantile(x @ t, levels, method="inverted_cdf") - np.quantile(y @ t, levels, method="inverted_cdf")) ** 2)
        for t in theta
    ]
    assert found.value == pytest.approx(15 * np.mean(distances), rel=1e-12)


def test_mind_of_gaussians_has_a_closed_form():
    """Projections of N(μ, s²I) are Gaussian: W₂² = (θ·δ)² + (s − 1)², so MIND = 3|δ|² + 3d (s − 1)²."""
    rng = np.random.default_rng(0)
    found = mind(real=rng.normal(size=(4000, 3)), fake=2 * rng.normal(size=(4000, 3)) + [1, 0, 0])
    assert found.value == pytest.approx(3 + 9, rel=0.08)
    assert 3 + 9 in found.interval


def test_mind_covers_its_expectation_and_knows_its_chance():
    rng, values, covered, by_chance = np.random.default_rng(1), [], [], []
    for _ in range(30):
        x, y = rng.normal(size=(2, 100, 3))
        by_chance.append([(one := mind(real=x, fake=y)).value, one.chance])
        shifted = mind(real=x, fake=1.3 * y + [0.7, 0, 0])
        values.append(shifted.value)
        covered.append((shifted.interval.low, shifted.interval.high))
    same, chance = np.mean(by_chance, axis=0)
    assert chance == pytest.approx(same, rel=0.15)
    assert np.mean([low <= np.mean(values) <= high for low, high in covered]) >= 0.88


def test_kad_and_cmmd_are_the_published_estimates(sets):
    x, y = sets
    width = median_distance(x)
    unbiased = off_diagonal(gaussian(x, x, width)) + off_diagonal(gaussian(y, y, width))
    unbiased -= 2 * gaussian(x, y, width).mean()
    assert mmd(real=x, fake=y).value == pytest.approx(100 * unbiased, rel=1e-9)
    u, v = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in sets)
    biased = gaussian(u, u, 10).mean() + gaussian(v, v, 10).mean() - 2 * gaussian(u, v, 10).mean()
    found = mmd(real=x, fake=y, kernel="cmmd")
    assert found.value == pytest.approx(1000 * biased, rel=1e-7)
    assert found.chance == pytest.approx(
        1000 * ((1 - off_diagonal(gaussian(u, u, 10))) / 90 + (1 - off_diagonal(gaussian(v, v, 10))) / 60), rel=1e-7
    )


def test_mmd_of_gaussians_has_a_closed_form_that_the_interval_covers():
    """E k over N(μ, 2I) in d dimensions is (σ²/(σ² + 2))^{d/2} exp(−|μ|²/(2(σ² + 2)))."""
    rng, width, hits = np.random.default_rng(0), 1.5, 0
    base = (width**2 / (width**2 + 2)) ** 1.5
    truth = 2 * base * (1 - np.exp(-1 / (2 * (width**2 + 2))))
    for _ in range(40):
        found = mmd(real=rng.normal(size=(150, 3)), fake=rng.normal(size=(150, 3)) + np.eye(3)[0], kernel=width)
        hits += truth in found.interval
    assert hits >= 36
    same = [mmd(real=rng.normal(size=(60, 3)), fake=rng.normal(size=(60, 3)), kernel="cmmd") for _ in range(40)]
    assert np.mean([one.value for one in same]) == pytest.approx(np.mean([one.chance for one in same]), rel=0.2)


def test_rke_and_vendi_are_those_of_the_kernel_matrix(sets):
    x, y = sets
    found = diversity(real=x, fake=y)
    k = gaussian(y, y, median_distance(x) / 3)
    assert found["rke"].value == pytest.approx(1 / (k**2).mean(), rel=1e-9)
    u = y / np.linalg.norm(y, axis=1, keepdims=True)
    eigenvalues = np.linalg.eigvalsh(u @ u.T / len(u)).clip(1e-300)
    assert found["vendi"].value == pytest.approx(np.exp(-(eigenvalues * np.log(eigenvalues)).sum()), rel=1e-9)


def test_vendi_of_few_samples_in_many_dimensions():
    """The same eigenvalues from the other matrix: with zeros appended, and with rows repeated."""
    x = np.random.default_rng(5).normal(size=(12, 30))
    few, wide = diversity(real=x, fake=x)["vendi"], diversity(real=x, fake=np.repeat(x, 5, axis=0))["vendi"]
    assert few.value == pytest.approx(wide.value, rel=1e-9)
    assert 1 < few.value <= 12


def test_diversity_counts_modes_and_its_chance_is_that_of_the_data():
    rng = np.random.default_rng(0)
    centres = 50 * np.eye(8)
    real, few = (centres[rng.integers(top, size=400)] + 0.01 * rng.normal(size=(400, 8)) for top in (8, 3))
    found = diversity(real=real, fake=few)
    assert found["vendi"].value == pytest.approx(3, rel=0.02)
    assert found["vendi"].chance == pytest.approx(8, rel=0.02)
    assert found["rke"].value == pytest.approx(3, rel=0.02)
    assert found["rke"].chance == pytest.approx(8, rel=0.05)


def test_diversity_covers_its_expectation_and_knows_its_chance():
    rng = np.random.default_rng(2)
    drawn = [diversity(real=rng.normal(size=(250, 4)), fake=rng.normal(size=(150, 4))) for _ in range(60)]
    for name in ("rke", "vendi"):
        scores = [one[name] for one in drawn]
        mean = np.mean([one.value for one in scores])
        assert np.mean([one.chance for one in scores]) == pytest.approx(mean, rel=0.03)
        assert np.mean([mean in one.interval for one in scores]) >= 0.88


def test_they_are_metrics_on_every_road(sets, tmp_path):
    x, y = sets
    whole = assess(real=x, fake=y, metrics=NEW)
    assert set(whole.scores) == set(NEW)
    assert all(one.interval is not None and one.chance is not None for one in whole.scores.values())
    for name, one in zip(("real", "fake"), sets, strict=True):
        np.save(tmp_path / f"{name}.npy", one)
    shards = assess(real=f"{tmp_path}/real.npy", fake=f"{tmp_path}/fake.npy", metrics=NEW, work=tmp_path / "work")
    assert {name: one.value for name, one in shards.scores.items()} == pytest.approx(
        {name: one.value for name, one in whole.scores.items()}, rel=1e-6
    )


def test_what_cannot_be_compared_is_refused(sets):
    x, _ = sets
    with pytest.raises(ValueError, match="rows of zeros"):
        diversity(real=x, fake=np.vstack([x, 0 * x[:1]]))
    with pytest.raises(ValueError, match="positive width"):
        mmd(real=x, fake=x, kernel=-1.0)
