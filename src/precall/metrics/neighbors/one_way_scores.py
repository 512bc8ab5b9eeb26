"""Scores of the fakes in the balls of the reals, from totals: those that do not need distances between fakes."""

from __future__ import annotations

from precall.metrics.neighbors import influence
from precall.metrics.neighbors.ball_sums import CopySums, SummedBalls
from precall.metrics.neighbors.scores import COPY_RATIO, cover_threshold
from precall.metrics.neighbors.successors import clipped_from_totals
from precall.metrics.score import Interval, Score
from precall.theory import chance

Bounds = influence.Bounds


def one_way_scores(
    balls: SummedBalls, clipped: SummedBalls, *, ideal: float, ties: str, level: float = 0.95
) -> dict[str, Score]:
    """Precision, density, coverage, recall cover and the clipped scores, with their intervals.

    The values and the intervals are those of a sweep over all fakes at once.

    Args:
        balls: The balls of the reals, with the fakes in them.
        clipped: The same with radii of at most their median.
        ideal: Clipped density of the reals, before it is normalised.
        ties: "closed" or "open".
        level: Nominal coverage of the intervals.
    """
    k, n, m = balls.k, len(balls.inside), balls.points
    required, inside = cover_threshold(k), balls.inside[:, 0]
    expected = chance.expected_coverage(n_real=n, n_fake=m, k=k)
    expected_cover = float(chance.expected_recall_cover(n_real=n, n_fake=m, k=required, k_prime=k))

    def score(value: float, bounds: Bounds, by_chance: float | None, **settings: float) -> Score:
        interval = Interval(*bounds, level, influence.COVERS)
        return Score(value, interval, by_chance, n, m, {**settings, "ties": ties})

    def share_of_balls(needed: int) -> tuple[float, Bounds]:
        value = float((inside >= needed).mean())
        return value, influence.share_interval(value, n, influence.share_of_balls(balls, needed), level)

    precision = float((m - balls.histogram[0]) / m)
    members = influence.share_interval(precision, m, influence.share_of_members(balls), level)
    density = float(inside.sum() / (k * m))
    coverage, ends = share_of_balls(1)
    corrected = [chance.chance_corrected(value, expected) for value in (coverage, *ends)]
    return {
        "precision": score(precision, members, None, k=k),
        "density": score(
            density,
            influence.rate_interval(density, m, influence.density(balls), level),
            chance.expected_density(),
            k=k,
        ),
        "coverage": score(coverage, ends, expected, k=k),
        "corrected_coverage": score(corrected[0], (corrected[1], corrected[2]), 0.0, k=k),
        "recall_cover": score(*share_of_balls(required), expected_cover, k=required, k_prime=k),
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
