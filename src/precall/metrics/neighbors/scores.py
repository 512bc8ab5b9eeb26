"""What a sweep over pairs found: counts in k-NN balls, and every score that is read from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from precall.metrics.neighbors.cover import CoverCurve, cover_curve
from precall.metrics.score import Score
from precall.printing import brief
from precall.theory import chance, checks
from precall.theory.arrays import Array, Counts, Flags
from precall.theory.spectrum import RatioSpectrum

N = TypeVar("N", bound=np.generic)

COPY_RATIO = 0.5  # nearer to a real than half the way to that real's nearest other: no other real can be as near


@dataclass(frozen=True, eq=False)
class Nearest:
    """The nearest samples of each sample, from near to far; ties go to the lower index.

    Attributes:
        index: Which samples, shape (n, m).
        distance: How far they are, shape (n, m).
    """

    index: Counts
    distance: Array


@brief
@dataclass(frozen=True, eq=False)
class Neighborhoods:
    """Who lies in whose k-NN ball, and every score that is read from it.

    Column c of the arrays below belongs to `k[c]`. The methods take one of those k, or none where there is only one.
    "Inside" is d ≤ rad where `ties` is "closed" and d < rad where it is "open"; a sample is never its own neighbour.

    Attributes:
        k: Neighbours that define a ball, increasing.
        ties: "closed" or "open".
        radii_real: rad_k(X_i), distance from each real to its k-th nearest other real, shape (N, len(k)).
        radii_fake: rad_k(Y_j), the same among fakes, shape (M, len(k)).
        fakes_in_ball: Fakes inside the ball around each real, shape (N, len(k)).
        balls_over_fake: Balls around reals that each fake is inside of, shape (M, len(k)).
        reals_in_ball: Reals inside the ball around each fake, shape (M, len(k)).
        balls_over_real: Balls around fakes that each real is inside of, shape (N, len(k)).
        realisms: Realism of each fake, shape (M, len(k)).
        real_to_real: Nearest other reals of each real.
        real_to_fake: Nearest fakes of each real.
        fake_to_real: Nearest reals of each fake.
        fake_to_fake: Nearest other fakes of each fake.
    """

    k: tuple[int, ...]
    ties: str
    radii_real: Array
    radii_fake: Array
    fakes_in_ball: Counts
    balls_over_fake: Counts
    reals_in_ball: Counts
    balls_over_real: Counts
    realisms: Array
    real_to_real: Nearest
    real_to_fake: Nearest
    fake_to_real: Nearest
    fake_to_fake: Nearest

    @property
    def n_real(self) -> int:
        """N, number of real samples."""
        return len(self.radii_real)

    @property
    def n_fake(self) -> int:
        """M, number of fake samples."""
        return len(self.radii_fake)

    def members_fake(self, k: int | None = None) -> Flags:
        """Which fakes are inside the ball of some real: those that improved precision counts, shape (M,)."""
        return np.asarray(self._column(self.balls_over_fake, k) > 0)

    def members_real(self, k: int | None = None) -> Flags:
        """Which reals are inside the ball of some fake: those that improved recall counts, shape (N,)."""
        return np.asarray(self._column(self.balls_over_real, k) > 0)

    def precision(self, k: int | None = None) -> float:
        """Improved precision, mean_j 1{∃i: d(Y_j, X_i) ≤ rad_k(X_i)}, in [0, 1].

        The share of fakes that look real. One outlying real has a large ball and can make many fakes pass.

        References:
            Kynkäänniemi et al. (2019), eq. 2.
        """
        return float(self.members_fake(k).mean())

    def recall(self, k: int | None = None) -> float:
        """Improved recall, mean_i 1{∃j: d(X_i, Y_j) ≤ rad_k(Y_j)}, in [0, 1].

        The share of reals within reach of the fakes: precision with the roles exchanged.

        References:
            Kynkäänniemi et al. (2019), eq. 2.
        """
        return float(self.members_real(k).mean())

    def density(self, k: int | None = None) -> float:
        """Density, Σ_ij 1{d(Y_j, X_i) ≤ rad_k(X_i)} / (k M), in [0, N/k].

        How many balls of reals hold a fake, against k; its expectation is 1 under P = Q. Values far above 1 are no
        error: in high dimension a fake near the middle of the data is inside nearly every ball.

        References:
            Naeem et al. (2020), eq. 3.
        """
        return float(self._column(self.fakes_in_ball, k).sum() / (self._level(k) * self.n_fake))

    def coverage(self, k: int | None = None) -> float:
        """Coverage, mean_i 1{∃j: d(Y_j, X_i) ≤ rad_k(X_i)}, in [0, 1]; it is RC_{1,k}.

        The share of reals with a fake in their ball. Under P = Q it comes to `chance.expected_coverage`, not to 1.

        References:
            Naeem et al. (2020), eq. 4; docs/errata.md, VER-19 and VER-23.
        """
        return self.recall_cover(1, k)

    def corrected_coverage(self, k: int | None = None) -> float:
        """(coverage − E) / (1 − E), with E the expectation under P = Q: 0 for fresh data, negative below, at most 1.

        References:
            docs/theory.md, Neighbours.
        """
        expected = chance.expected_coverage(n_real=self.n_real, n_fake=self.n_fake, k=self._level(k))
        return chance.chance_corrected(self.coverage(k), expected)

    def recall_cover(self, k: float, k_prime: int | None = None) -> float:
        """Recall cover RC_{k,k'}, the share of reals whose ball of k' other reals holds at least k fakes, in [0, 1].

        Args:
            k: Fakes asked for.
            k_prime: k', neighbours that define a ball: one of the swept.

        References:
            Cheema and Urner (2023), Def. 2.
        """
        return float((self._column(self.fakes_in_ball, k_prime) >= checks.nonnegative("k", k)).mean())

    def precision_cover(self, k: float, k_prime: int | None = None) -> float:
        """Precision cover PC_{k,k'}, the share of fakes whose ball of k' other fakes holds at least k reals, in [0, 1].

        Args:
            k: Reals asked for.
            k_prime: k', neighbours that define a ball: one of the swept.

        References:
            Cheema and Urner (2023), Def. 2.
        """
        return float((self._column(self.reals_in_ball, k_prime) >= checks.nonnegative("k", k)).mean())

    def cover_curve(self, lam: npt.ArrayLike, k: int | None = None) -> CoverCurve:
        """The precision-recall curve at slopes `lam`, from precision-recall cover with k' = `k`: see `cover_curve`."""
        return cover_curve(
            lam=lam,
            fakes_in_ball=self._column(self.fakes_in_ball, k),
            reals_in_ball=self._column(self.reals_in_ball, k),
            k=self._level(k),
        )

    def cover_spectrum(self, k: int | None = None) -> RatioSpectrum:
        """Spectrum from the counts in k-NN balls: each sample is scored by its local ratio, real over fake.

        A ball of k' reals (mass k'/N) that holds c fakes (mass c/M) gives the ratio (k'/N)/(c/M). A ball of k' fakes
        that holds c reals gives (c/N)/(k'/M). The hull of these scores is the cover curve made concave; its threshold
        at 1/λ is that of `cover_curve`.
        """
        k_prime, scale = self._level(k), self.n_fake / self.n_real
        with np.errstate(divide="ignore"):
            real = k_prime * scale / self._column(self.fakes_in_ball, k)
        return RatioSpectrum.from_scores(real=real, fake=self._column(self.reals_in_ball, k) * scale / k_prime)

    def realism(self, k: int | None = None) -> Array:
        """Realism of each fake, max_i rad_k(X_i) / d(Y_j, X_i) over the reals with at most median radius, shape (M,).

        At least 1 where the fake is inside (or on) one of those balls; ∞ where it equals their centre, unless that
        ball has radius 0: then it lies on the boundary, 1.

        References:
            Kynkäänniemi et al. (2019), eq. 3.
        """
        return np.asarray(self._column(self.realisms, k))

    def copy_ratios(self) -> Array:
        """d(Y_j, X) / d(X, X'), with X the real nearest to the fake Y_j and X' the real nearest to X, shape (M,).

        Far below 1 means closer to a training sample than the training samples are to each other; 0 is a copy.
        """
        nearest, distance = self.fake_to_real.index[:, 0], self.fake_to_real.distance[:, 0]
        return _copy_ratios(distance, self.real_to_real.distance[nearest, 0])

    def copies(self, threshold: float = COPY_RATIO) -> float:
        """Share of fakes whose copy ratio is below the threshold, in [0, 1]: memorised samples.

        Args:
            threshold: The largest ratio that is not a copy, more than 0.
        """
        if not checks.numbers("threshold", threshold) > 0:
            raise ValueError(f"`threshold` must be more than 0; got {threshold:g}.")
        return float((self.copy_ratios() < threshold).mean())

    def expected_copies(self) -> float | None:
        """What `copies` comes to for fresh data: the share of reals that seem copies of another real.

        For a threshold t ≤ ½ that is about tᵈ, with d the dimension the data really fill: a quarter in the plane. None
        where a single neighbour was kept of each.
        """
        index, distance = self.real_to_real.index, self.real_to_real.distance
        if index.shape[1] < 2:
            return None
        nearest = index[:, 0]
        ours = index[nearest, 0] == np.arange(self.n_real)  # then its nearest other is the second
        ratios = _copy_ratios(distance[:, 0], distance[nearest, ours.astype(np.intp)])
        return float((ratios < COPY_RATIO).mean())

    def scores(self, k: int | None = None) -> dict[str, Score]:
        """The scalar scores by name, each with its expectation under P = Q where that holds for every law, or the data
        tell it (copies).

        Precision and recall cover ask for a third of k' = `k` samples, as Cheema and Urner do, and at least for 1.
        Realism is the median over the fakes.
        """
        k_prime = self._level(k)
        wanted = max(1, k_prime // 3)
        n_real, n_fake = self.n_real, self.n_fake
        expected_coverage = chance.expected_coverage(n_real=n_real, n_fake=n_fake, k=k_prime)
        expected_pc = chance.expected_precision_cover(n_real=n_real, n_fake=n_fake, k=wanted, k_prime=k_prime)
        expected_rc = chance.expected_recall_cover(n_real=n_real, n_fake=n_fake, k=wanted, k_prime=k_prime)

        def score(value: float, expected: float | None = None, **settings: float) -> Score:
            return Score(value, None, expected, n_real, n_fake, {**settings, "ties": self.ties})

        return {
            "precision": score(self.precision(k_prime), k=k_prime),
            "recall": score(self.recall(k_prime), k=k_prime),
            "density": score(self.density(k_prime), chance.expected_density(), k=k_prime),
            "coverage": score(self.coverage(k_prime), expected_coverage, k=k_prime),
            "corrected_coverage": score(self.corrected_coverage(k_prime), 0.0, k=k_prime),
            "precision_cover": score(self.precision_cover(wanted, k_prime), expected_pc, k=wanted, k_prime=k_prime),
            "recall_cover": score(self.recall_cover(wanted, k_prime), expected_rc, k=wanted, k_prime=k_prime),
            "realism": score(float(np.median(self.realism(k_prime))), k=k_prime),
            "copies": score(self.copies(), self.expected_copies(), threshold=COPY_RATIO),
        }

    def to_dict(self) -> dict[str, Any]:
        """Every score for every k, as JSON-ready values."""
        scores = {str(k): {name: score.to_dict() for name, score in self.scores(k).items()} for k in self.k}
        return {"n_real": self.n_real, "n_fake": self.n_fake, "k": list(self.k), "ties": self.ties, "scores": scores}

    def _level(self, k: int | None) -> int:
        if k is None and len(self.k) == 1:
            return self.k[0]
        if k not in self.k:
            swept = ", ".join(map(str, self.k))
            raise ValueError(f"`k` must be one of the swept {swept}; got {k}. Pass it to `sweep(k=…)` as well.")
        return int(k)

    def _column(self, values: npt.NDArray[N], k: int | None) -> npt.NDArray[N]:
        return values[:, self.k.index(self._level(k))]


def _copy_ratios(distance: Array, other: Array) -> Array:
    """distance / other; 0 where a sample is found again."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(distance == 0, 0.0, distance / other)
