"""Scores of the fakes in the balls of the reals, from totals: those that do not need distances between fakes."""

from __future__ import annotations

from precall.metrics.neighbors import influence
from precall.metrics.neighbors.ball_sums import CopySums, SummedBalls
from precall.metrics.neighbors.scores import COPY_RATIO, cover_threshold
from precall.metrics.neighbors.successors import clipped_from_totals, clipped_mean, clipped_share
from precall.metrics.score import Interval, Score
from precall.theory import chance

Bounds = influence.Bounds


def one_way_values(balls: SummedBalls, clipped: SummedBalls, *, ideal: float) -> dict[str, float]:
    """Precision, density, coverage, recall cover and the clipped scores, without intervals.

    Args:
        balls: The balls of the reals, with the fakes in them.
        clipped: The same with radii of at most their median.
        ideal: Clipped density of the reals, before it is normalised.
    """
    k, n, m, inside = balls.k, len(balls.inside), balls.points, balls.inside[:, 0]
    coverage = float((inside >= 1).mean())
    expected = chance.expected_coverage(n_real=n, n_fake=m, k=k)
    return {
        "precision": float((m - balls.histogram[0]) / m),
        "density": float(inside.sum() / (k * m)),
        "coverage": coverage,
        "corrected_coverage": chance.chance_corrected(coverage, expected),
        "recall_cover": float((inside >= cover_threshold(k)).mean()),
        "clipped_density": min(1.0, clipped_mean(clipped.histogram, k) / ideal) if ideal else 0.0,
        "clipped_coverage": chance.inverted_clipped_coverage(clipped_share(balls), n_real=n, n_fake=m, k=k),
    }


def one_way_scores(
    balls: SummedBalls, clipped: SummedBalls, *, ideal: float, ties: str, level: float = 0.95
) -> dict[str, Score]:
    """`one_way_values` with intervals and chance levels; both are those of a sweep over all fakes at once.

    Args:
        balls: The balls of the reals, with the fakes in them.
        clipped: The same with radii of at most their median.
        ideal: Clipped density of the reals, before it is normalised.
        ties: "closed" or "open".
        level: Nominal coverage of the intervals.
    """
    k, n, m, required = balls.k, len(balls.inside), balls.points, cover_threshold(balls.k)
    values = one_way_values(balls, clipped, ideal=ideal)
    expected = chance.expected_coverage(n_real=n, n_fake=m, k=k)
    expected_cover = float(chance.expected_recall_cover(n_real=n, n_fake=m, k=required, k_prime=k))

    def share(name: str, trials: int, spread: influence.Spread) -> Bounds:
        return influence.share_interval(values[name], trials, spread, level)

    def score(name: str, bounds: Bounds, by_chance: float | None, **settings: float) -> Score:
        interval = Interval(*bounds, level, influence.COVERS)
        return Score(values[name], interval, by_chance, n, m, {**settings, "ties": ties})

    coverage = share("coverage", n, influence.share_of_balls(balls, 1))
    corrected = tuple(chance.chance_corrected(end, expected) for end in coverage)
    density = influence.rate_interval(values["density"], m, influence.density(balls), level)
    cover = share("recall_cover", n, influence.share_of_balls(balls, required))
    return {
        "precision": score("precision", share("precision", m, influence.share_of_members(balls)), None, k=k),
        "density": score("density", density, chance.expected_density(), k=k),
        "coverage": score("coverage", coverage, expected, k=k),
        "corrected_coverage": score("corrected_coverage", (corrected[0], corrected[1]), 0.0, k=k),
        "recall_cover": score("recall_cover", cover, expected_cover, k=required, k_prime=k),
        **clipped_from_totals(balls, clipped, ideal, ties),
    }


def copy_score(sums: CopySums, *, n_fake: int, expected: float | None, ties: str, level: float = 0.95) -> Score:
    """The share of near-copies with its interval.

    Args:
        sums: The near-copies.
        n_fake: Number of fakes.
        expected: Share of the reals that look like copies of another real; None if there are only two.
        ties: "closed" or "open".
        level: Nominal coverage of the interval.
    """
    share, n = sums.copies / n_fake, len(sums.changes)
    spread = influence.share_from_totals(share, n_fake, sums.changes, float(sums.moves))
    bounds = influence.share_interval(share, n_fake, spread, level)
    interval = Interval(*bounds, level, influence.COVERS)
    return Score(share, interval, expected, n, n_fake, {"threshold": COPY_RATIO, "ties": ties})
