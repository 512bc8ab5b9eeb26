"""The result of a sweep over pairs: counts in k-NN balls, and every score that is computed from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from precall.metrics.neighbors import influence
from precall.metrics.neighbors.ball_scores import (
    BallScores,
    CopySums,
    Nearest,
    copy_ratios,
    copy_score,
    cover_threshold,
    expected_copies,
    medians,
)
from precall.metrics.neighbors.cover import cover_spectrum
from precall.metrics.neighbors.influence import BallTotals
from precall.metrics.scores.score import COVERS, Interval, Score
from precall.printing import brief
from precall.theory import checks
from precall.theory.arrays import Array, Counts, Flags
from precall.theory.spectrum import RatioSpectrum

N = TypeVar("N", bound=np.generic)

NO_INTERVAL = "none: many fakes have exactly this value"  # what the settings of a score say in place of it


@brief
@dataclass(frozen=True, eq=False)
class Neighborhoods:
    """Counts of samples in k-NN balls, with every score that is computed from them.

    Column c of the arrays below belongs to `k[c]`. The methods take one of these k; it may be omitted if there is only
    one. "Inside" means d ≤ rad if `ties` is "closed" and d < rad if it is "open". A sample is never its own neighbour.
    """

    k: tuple[int, ...]  # numbers of neighbours that define a ball, in increasing order
    ties: str  # "closed" or "open"
    radii_real: Array  # rad_k(X_i), the distance from each real to its k-th nearest other real, shape (N, len(k))
    radii_fake: Array  # rad_k(Y_j), the same among fakes, shape (M, len(k))
    fakes_in_ball: Counts  # number of fakes inside the ball of each real, shape (N, len(k))
    balls_over_fake: Counts  # number of balls of reals that contain each fake, shape (M, len(k))
    reals_in_ball: Counts  # number of reals inside the ball of each fake, shape (M, len(k))
    balls_over_real: Counts  # number of balls of fakes that contain each real, shape (N, len(k))
    realisms: Array  # realism of each fake, shape (M, len(k))
    real_to_real: Nearest  # nearest other reals of each real
    real_to_fake: Nearest  # nearest fakes of each real
    fake_to_real: Nearest  # nearest reals of each fake
    fake_to_fake: Nearest  # nearest other fakes of each fake
    margins_real: tuple[BallTotals, ...]  # balls of the reals with one and two more neighbours, one entry per k
    margins_fake: tuple[BallTotals, ...]  # the same for the balls of the fakes
    next_realisms: Array  # realism of each fake without the ball that determines it, shape (M, len(k))
    realism_balls: Counts  # index of the real whose ball determines the realism of each fake, shape (M, len(k))
    margins_clipped: tuple[BallTotals, ...] = ()  # the same for radii of at most their median, if requested

    @property
    def n_real(self) -> int:
        return len(self.radii_real)

    @property
    def n_fake(self) -> int:
        return len(self.radii_fake)

    def members_fake(self, k: int | None = None) -> Flags:
        """Whether each fake is inside the ball of some real, shape (M,): the terms of improved precision."""
        return np.asarray(self._column(self.balls_over_fake, k) > 0)

    def members_real(self, k: int | None = None) -> Flags:
        """Whether each real is inside the ball of some fake, shape (N,): the terms of improved recall."""
        return np.asarray(self._column(self.balls_over_real, k) > 0)

    def precision(self, k: int | None = None) -> float:
        """Improved precision, mean_j 1{∃i: d(Y_j, X_i) ≤ rad_k(X_i)}, in [0, 1]: share of fakes that look real."""
        return float(self.members_fake(k).mean())  # Kynkäänniemi et al. (2019), eq. 2

    def recall(self, k: int | None = None) -> float:
        """Improved recall, mean_i 1{∃j: d(X_i, Y_j) ≤ rad_k(Y_j)}, in [0, 1]: precision with exchanged roles."""
        return float(self.members_real(k).mean())  # 1/N Σ_i f(X_i, Y), eq. 2

    def density(self, k: int | None = None) -> float:
        """Density, Σ_ij 1{d(Y_j, X_i) ≤ rad_k(X_i)} / (k M), in [0, N/k].

        Its expectation is 1 under P = Q. Values far above 1 are not errors: in high dimension, a fake near the centre
        of the data is inside nearly every ball.
        """
        # Naeem et al. (2020), eq. 3
        return float(self._column(self.fakes_in_ball, k).sum() / (self._level(k) * self.n_fake))

    def coverage(self, k: int | None = None) -> float:
        """Coverage, mean_i 1{∃j: d(Y_j, X_i) ≤ rad_k(X_i)}, in [0, 1]; it equals the recall cover RC_{1,k}.

        Its expectation under P = Q, `chance.expected_coverage`, is less than 1 (Naeem et al., 2020, eq. 4;
        docs/errata.md, VER-19 and VER-23).
        """
        return self.recall_cover(1, k)

    def recall_cover(self, k: float, k_prime: int | None = None) -> float:
        """Recall cover RC_{k,k'}: the share of reals whose k'-NN ball contains at least k fakes, in [0, 1]."""
        # Cheema and Urner (2023), Def. 2
        return float((self._column(self.fakes_in_ball, k_prime) >= checks.nonnegative("k", k)).mean())

    def precision_cover(self, k: float, k_prime: int | None = None) -> float:
        """Precision cover PC_{k,k'}: the share of fakes whose k'-NN ball contains at least k reals, in [0, 1]."""
        return float((self._column(self.reals_in_ball, k_prime) >= checks.nonnegative("k", k)).mean())

    def cover_spectrum(self, k: int | None = None) -> RatioSpectrum:
        """Spectrum from the counts in k-NN balls. See `precall.metrics.neighbors.cover.cover_spectrum`."""
        return cover_spectrum(
            fakes_in_ball=self._column(self.fakes_in_ball, k),
            reals_in_ball=self._column(self.reals_in_ball, k),
            k=self._level(k),
        )

    def realism(self, k: int | None = None) -> Array:
        """Realism of each fake, max_i rad_k(X_i) / d(Y_j, X_i) over the reals with at most median radius, shape (M,).

        It is at least 1 if the fake is inside one of these balls or on its boundary. It is ∞ if the fake equals the
        centre of a ball with a positive radius. A fake at the centre of a ball of radius 0 counts as on the boundary.

        References:
            Kynkäänniemi et al. (2019), eq. 3.
        """
        return np.asarray(self._column(self.realisms, k))

    def copy_ratios(self) -> Array:
        """Copy ratio d(Y_j, X) / d(X, X') of each fake Y_j, shape (M,).

        X is the real nearest to Y_j, and X' is the real nearest to X. A value far below 1 means that the fake is closer
        to a real sample than real samples are to each other. The ratio of an exact copy is 0.
        """
        return copy_ratios(self.fake_to_real, self.real_to_real)

    def intervals(self, k: int | None = None, level: float = 0.95) -> dict[str, Interval]:
        """Confidence intervals of all scalar scores by name, from the influence of each sample on the counts.

        Realism has none if many fakes have exactly the median: the median of such values jumps from run to run.
        """
        found = {name: score.interval for name, score in self.scores(k, level).items()}
        return {name: interval for name, interval in found.items() if interval is not None}

    def tables(self, k: int | None = None, level: float = 0.95) -> tuple[BallScores, BallScores]:
        """The scores of the fakes in the balls of the reals, and of the reals in the balls of the fakes."""
        column = self.k.index(self._level(k))
        if (column, level) not in self._tables:
            of_real, of_fake = self.margins_real[column], self.margins_fake[column]
            both = BallScores(of_real, self.ties, level), BallScores(of_fake, self.ties, level, exchanged=True)
            self._tables[column, level] = both
        return self._tables[column, level]

    @cached_property
    def _tables(self) -> dict[tuple[int, float], tuple[BallScores, BallScores]]:
        """What `tables` has returned: several metrics read the same scores."""
        return {}

    def scores(self, k: int | None = None, level: float = 0.95) -> dict[str, Score]:
        """All scalar scores by name, with their intervals and their expectation under P = Q if it is known.

        The expectation is included if it is the same for every distribution, and for `copies`, where it is estimated
        from the data. Precision cover and recall cover require k'/3 samples with k' = `k`, as in Cheema and Urner, and
        at least one. Realism is the median over the fakes.
        """
        k_prime, (reals, fakes) = self._level(k), self.tables(k, level)
        copies = CopySums.of(self.copy_ratios(), self.fake_to_real, self.real_to_real)
        expected = expected_copies(self.real_to_real)
        return reals.table() | {
            "recall": fakes.members,
            "precision_cover": fakes.cover(cover_threshold(k_prime)),
            "realism": self._median_realism(k_prime, level),
            "copies": copy_score(copies, n_fake=self.n_fake, expected=expected, ties=self.ties, level=level),
        }

    def _median_realism(self, k: int, level: float) -> Score:
        column, distance = self.k.index(k), self.real_to_real.distance
        margins, radii = self.margins_real[column], self.radii_real[:, column]
        with np.errstate(divide="ignore", invalid="ignore"):
            growth = np.where(radii > 0, distance[:, min(margins.k, distance.shape[1] - 1)] / radii, 1.0)
        fakes = (self.realisms[:, column], self.next_realisms[:, column], self.realism_balls[:, column])
        bounds = influence.BallValues(margins, growth, *fakes).median_interval(level)
        interval = None if bounds is None else Interval(*bounds, level, COVERS)
        settings = {"k": k, "ties": self.ties} | ({"interval": NO_INTERVAL} if interval is None else {})
        return Score(float(medians(self.realism(k))), interval, None, self.n_real, self.n_fake, settings)

    def _level(self, k: int | None) -> int:
        if k is None and len(self.k) == 1:
            return self.k[0]
        if k not in self.k:
            computed = ", ".join(map(str, self.k))
            raise ValueError(f"`k` must be one of {computed}; got {k}. Pass it to `sweep(k=…)` as well.")
        return int(k)

    def _column(self, values: npt.NDArray[N], k: int | None) -> npt.NDArray[N]:
        return values[:, self.k.index(self._level(k))]
