"""The intervals of the k-NN scores: exact leave-one-out changes, and simulated coverage of the expected score."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from precall.metrics.assessing.assessment import assess
from precall.metrics.neighbors import influence
from precall.metrics.neighbors.sweep import sweep, within
from precall.metrics.pairs.probabilistic import soft_supports
from precall.theory.chance import ball_count_law, expected_recall_cover

PIXELS = load_digits().data


def digits(rng, n, m):
    """Some held-out digits against others: whole numbers with many ties."""
    order = rng.permutation(len(PIXELS))
    return PIXELS[order[:n]], PIXELS[order[n : n + m]]


def dropped(rng, n, m):
    """One of four modes is missing."""
    centres = rng.integers(0, 4, (n, 1)), rng.integers(0, 3, (m, 1))
    return rng.normal(size=(n, 4)) + 6 * centres[0], rng.normal(size=(m, 4)) + 6 * centres[1]


PAIRS = {
    "flat": lambda rng, n, m: (rng.normal(size=(n, 2)), rng.normal(size=(m, 2)) * [1.0, 0.6] + [0.5, 0]),
    "shifted": lambda rng, n, m: (rng.normal(size=(n, 64)), rng.normal(size=(m, 64)) + 0.25),
    "dropped": dropped,
    "same": lambda rng, n, m: (rng.normal(size=(n, 16)), rng.normal(size=(m, 16))),
    "inside": lambda rng, n, m: (rng.normal(size=(n, 8)), 0.6 * rng.normal(size=(m, 8))),
    "digits": digits,
}
REPETITIONS = 25


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("flat", (200, 200)),
        ("shifted", (200, 200)),
        ("dropped", (200, 200)),
        ("same", (200, 200)),
        ("inside", (400, 100)),
        ("digits", (400, 179)),
    ],
)
def test_intervals_cover_the_expected_score(name, sizes):
    """Nominal 95 %: at least 19 of 25 must cover (chance of fewer: 0.02 %), at no more than twice the needed width."""
    rng = np.random.default_rng(0)
    runs = [sweep(**dict(zip(("real", "fake"), PAIRS[name](rng, *sizes), strict=True)), k=5).scores()]
    for _ in range(REPETITIONS - 1):
        real, fake = PAIRS[name](rng, *sizes)
        runs.append(sweep(real=real, fake=fake, k=5).scores())
    for score in runs[0]:
        values = np.array([run[score].value for run in runs])
        ends = np.array([(run[score].interval.low, run[score].interval.high) for run in runs])
        covered = ((ends[:, 0] <= values.mean()) & (values.mean() <= ends[:, 1])).sum()
        assert covered >= 19, f"{score}: {covered} of {REPETITIONS}"
        if 0.05 < values.mean() < 0.95 or score == "density":
            assert np.diff(ends, axis=1).mean() < 2 * np.subtract(*np.quantile(values, [0.99, 0.01])), score


@pytest.mark.parametrize("name", ["flat", "shifted", "dropped"])
def test_intervals_of_soft_supports_cover_the_expected_score(name):
    rng, runs = np.random.default_rng(0), []
    for _ in range(REPETITIONS):
        real, fake = (within(samples, k=4) for samples in PAIRS[name](rng, 200, 150))
        runs.append(soft_supports(real=real, fake=fake))
    for one in zip(*runs, strict=True):
        values, intervals = np.array([support.mean for support in one]), [support.interval() for support in one]
        assert sum(values.mean() in interval for interval in intervals) >= 20
        width = np.mean([interval.high - interval.low for interval in intervals])
        assert width < 1.6 * 2 * 1.96 * values.std(ddof=1)


def test_an_interval_at_the_boundary_has_a_length():
    rng = np.random.default_rng(1)
    inside = sweep(real=rng.normal(size=(400, 3)), fake=0.1 * rng.normal(size=(100, 3)), k=5).scores()
    assert inside["precision"].value == 1
    assert 0.9 < inside["precision"].interval.low < 0.99
    apart = sweep(real=rng.normal(size=(400, 3)), fake=rng.normal(size=(100, 3)) + 50, k=5).scores()
    for name in ("precision", "recall", "density", "coverage"):
        assert apart[name].value == apart[name].interval.low == 0
        assert 0.005 < apart[name].interval.high < 0.1


@pytest.mark.parametrize(("n", "k"), [(2, 1), (3, 1), (4, 2), (7, 5), (8, 5), (40, 25)])
def test_few_samples_have_intervals_too(n, k):
    rng = np.random.default_rng(n)
    scores = assess(
        real=rng.normal(size=(n, 2)), fake=rng.normal(size=(n + 1, 2)), metrics=("neighbors", "copies"), k=k
    )
    for name, score in scores.scores.items():
        assert score.interval.low <= score.value <= score.interval.high, name
        assert score.interval.low < score.interval.high, name
        assert "expectation of this score at these sample sizes" in score.interval.covers


# ---------------------------------------------------------------------------------------------- leave-one-out changes


def without(samples, i):
    return np.delete(samples, i, axis=0)


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(3)
    return rng.normal(size=(40, 3)), rng.normal(size=(30, 3)) * [1.5, 1, 0.5]


def variance(changes):
    return (1 - 1 / len(changes)) * ((changes - changes.mean()) ** 2).sum()


def test_changes_of_density_and_covers_equal_those_of_fresh_sweeps(small):
    real, fake = small
    found = sweep(real=real, fake=fake, k=7)
    margins = found.margins_real[0]
    alone = [sweep(real=without(real, i), fake=fake, k=7) for i in range(len(real))]
    gained = margins.inside[:, 1] - margins.inside[:, 0]
    changes = np.bincount(margins.neighbors[:, :7].ravel(), np.repeat(gained, 7), len(real)) - margins.inside[:, 0]
    np.testing.assert_array_equal(changes, [one.fakes_in_ball.sum() - found.fakes_in_ball.sum() for one in alone])
    lost = [found.fakes_in_ball[:, 0] >= 2 for _ in fake] - np.array(
        [sweep(real=real, fake=without(fake, j), k=7).fakes_in_ball[:, 0] >= 2 for j in range(len(fake))], int
    )
    exactly = margins.nearest[margins.inside[:, 0] == 2, :2]
    np.testing.assert_array_equal(np.bincount(exactly.ravel(), minlength=len(fake)), lost.sum(axis=1))


def test_changes_of_precision_are_close_to_those_of_fresh_sweeps():
    """They differ for fakes that are covered anew by one of several enlarged balls, or kept by one."""
    rng = np.random.default_rng(3)
    real, fake = rng.normal(size=(80, 20)), rng.normal(size=(70, 20)) + 0.2
    found = sweep(real=real, fake=fake, k=2)
    margins = found.margins_real[0]
    truth = np.array([sweep(real=without(real, i), fake=fake, k=2).precision() for i in range(len(real))])
    spread = influence.share_of_members(margins).variance - influence.binomial(found.precision(), len(fake)).variance
    lost, won = margins.lost, np.repeat(np.arange(len(real)), margins.won)
    gained = np.bincount(margins.neighbors[won, :2].ravel(), minlength=len(real))
    assert np.corrcoef(gained - lost, truth)[0, 1] > 0.9
    assert lost.sum() > 5 < gained.sum()
    assert spread + (lost + gained).sum() / len(fake) ** 2 == pytest.approx(variance(truth), rel=0.4)


def test_joint_changes_equal_those_of_fresh_sweeps(small):
    real, fake = small[0][:10], small[1][:10]
    found = sweep(real=real, fake=fake, k=3)
    margins = found.margins_real[0]

    def total(*left_out):
        return sweep(real=np.delete(real, left_out, axis=0), fake=fake, k=3).fakes_in_ball.sum()

    none, one = total(), [total(i) for i in range(10)]
    pairs = [none - one[i] - one[j] + total(i, j) for i in range(10) for j in range(i)]
    counts = margins.inside
    joint = influence.joint_changes(margins, counts[:, 1] - counts[:, 0], counts[:, 2] - counts[:, 1])
    assert joint == np.square(pairs).sum() > 0


def points_inside(real, fake, k):
    """Whether the k-NN ball of each real contains each fake, from the matrices of all distances."""
    radii = np.sort(np.linalg.norm(real[:, None] - real, axis=2), axis=1)[:, k]
    return np.linalg.norm(real[:, None] - fake, axis=2) <= radii[:, None]


def test_the_variance_of_density_has_a_part_of_the_balls_and_one_of_the_points(small):
    """Density is the number of pairs of a ball and a point inside it, divided by k m; pairs are counted anew."""
    (real, fake), k = small, 7
    margins, inside = sweep(real=real, fake=fake, k=k).margins_real[0], points_inside(real, fake, k)
    alone = np.array([points_inside(without(real, i), fake, k).sum() for i in range(len(real))], dtype=float)
    gained, later = (points_inside(real, fake, k + i).sum(axis=1) - margins.inside[:, i - 1] for i in (1, 2))
    noise = inside.sum() + k * gained.sum()  # a pair has a point that may be drawn or not
    joint = influence.joint_changes(margins, gained, later) - k * (k + 1) / 2 * (gained + later).sum()
    balls = influence.jackknife(alone, noise=noise, joint=joint).variance / (k * len(fake)) ** 2
    points = np.var(inside.sum(axis=0) / k, ddof=1) / len(fake)
    assert influence.density(margins).variance == pytest.approx(balls + points, rel=1e-9)
    assert 0.1 < balls / points < 10


@pytest.mark.parametrize("required", [1, 2])
def test_the_variance_of_a_cover_has_a_part_of_the_points(required):
    """The number of balls with enough points is counted anew without each point, and without each pair of points."""
    rng = np.random.default_rng(0)
    (n, m), k = (120, 20), 10
    real, fake = rng.normal(size=(n, 2)), 0.5 * rng.normal(size=(m, 2))
    margins, inside = sweep(real=real, fake=fake, k=k).margins_real[0], points_inside(real, fake, k)

    def enough(*left_out):
        return float((np.delete(inside, left_out, axis=1).sum(axis=1) >= required).sum())

    one = np.array([enough(j) for j in range(m)])
    joint = [enough() - one[i] - one[j] + enough(i, j) for i in range(m) for j in range(i)]
    exactly, one_more = ((inside.sum(axis=1) == count).sum() for count in (required, required + 1))
    drawn = exactly * required * (required - 1) / 2 + one_more * (required + 1) * required / 2
    noise = {"noise": float(exactly * required), "joint": np.square(joint).sum() - drawn}
    points = influence.jackknife(one - enough(), **noise).variance / n**2
    at_least = influence.binomial(enough() / n, n).variance
    assert points > 0.2 * at_least
    assert influence.points_of_balls(margins, required).variance == pytest.approx(points, rel=1e-9)
    assert influence.share_of_balls(margins, required).variance >= at_least + points


@pytest.mark.parametrize("crowd", [True, False])
def test_the_owner_of_a_single_ball_is_known(crowd):
    rng = np.random.default_rng(5)
    shape = (50, 2) if crowd else (3000, 2)
    real, fake = rng.normal(size=shape), 1.5 * rng.normal(size=shape)
    margins = sweep(real=real, fake=fake, k=1).margins_real[0]
    inside = np.linalg.norm(real[:, None] - fake, axis=2) <= np.sqrt(
        np.square(np.linalg.norm(real - real[margins.neighbors[:, 0]], axis=1))
    )[:, None] * (1 + 1e-12)
    single = inside.sum(axis=0) == 1
    np.testing.assert_array_equal(margins.lost, inside[:, single].sum(axis=1))
    assert margins.histogram[0] == (~inside.any(axis=0)).sum()
    assert single.sum() > 5


def test_copies_by_chance_are_known_for_one_neighbour():
    """Fresh data in the plane: a quarter seem copies, and as many are expected, also with k = 1."""
    rng = np.random.default_rng(6)
    score = assess(real=rng.random((1000, 2)), fake=rng.random((1000, 2)), metrics=("copies",), k=1).scores["copies"]
    assert score.value == pytest.approx(0.25, abs=0.05)
    assert score.chance == pytest.approx(score.value, abs=0.05)


# ------------------------------------------------------------------------------------------------- the curve of cover


@pytest.mark.parametrize(("n", "m", "k"), [(9, 7, 1), (30, 50, 12), (400, 90, 5)])
def test_the_law_of_counts_has_the_known_tails(n, m, k):
    law = ball_count_law(centres=n, others=m, k=k)
    tails = law[::-1].cumsum()[::-1]
    np.testing.assert_allclose(
        tails, expected_recall_cover(n_real=n, n_fake=m, k=np.arange(m + 1), k_prime=k), atol=1e-9
    )


@pytest.mark.parametrize(("n", "m", "d"), [(300, 300, 2), (600, 250, 10)])
def test_the_curve_of_cover_has_its_chance_level(n, m, d):
    """Of the same law: every reading is near its chance level, although it is far from its ideal value."""
    rng = np.random.default_rng(n)
    runs = [
        assess(real=rng.normal(size=(n, d)), fake=rng.normal(size=(m, d)), metrics=("cover",)).scores for _ in range(5)
    ]
    assert set(runs[0]) == {"area", "f8", "f1_8", "tv", "invented", "missed"}
    for name, score in runs[0].items():
        assert np.mean([run[name].value for run in runs]) == pytest.approx(score.chance, abs=0.035), name
        assert sum(run[name].chance in run[name].interval for run in runs) >= 3, name
    assert runs[0]["tv"].chance > 0.1
    assert runs[0]["tv"].settings["k_prime"] == int(np.sqrt(min(n, m)))


def test_the_curve_of_cover_sees_a_dropped_mode_beyond_chance():
    real, fake = dropped(np.random.default_rng(7), 500, 500)
    missed = assess(real=real, fake=fake, metrics=("cover",)).scores["missed"]
    assert missed.interval.low > missed.chance + 0.1
    assert missed.value == pytest.approx(0.25, abs=0.08)
