"""The ratio spectrum of two distributions: how it is constructed, and what is computed from it.

Two distributions are compared only through their likelihood ratio. A `RatioSpectrum` holds the masses `p_i`, `q_i` of
cells sorted by `q_i / p_i`. Every curve, score, divergence, frontier and refinement is an exact functional of it, in
O(m) after one O(m log m) sort. What is read off the precision-recall curve is in `precall.theory.curve`. The
mathematics is in docs/theory.md.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from precall.printing import brief
from precall.theory import checks
from precall.theory.acceptance import refined_masses
from precall.theory.arrays import Array
from precall.theory.curve import PrecisionRecall
from precall.theory.divergences import divergence
from precall.theory.f_divergence import Divergence
from precall.theory.frontiers import Frontier, frontier
from precall.theory.hull import score_blocks
from precall.theory.mauve import mauve
from precall.theory.projection import projected_masses

STEEPEST = 1e300  # larger ratios count as this one: their f would overflow before it is multiplied by its tiny mass


@brief
@dataclass(frozen=True, eq=False)
class RatioSpectrum(PrecisionRecall):
    """Masses of two distributions on cells sorted by `q_i / p_i`: P is the data, Q the model.

    Construct one with `from_masses`, `from_counts`, `from_scores` or `from_log_ratios`; the constructor itself takes
    masses that are already sorted and merged.

    Attributes:
        p: real masses, shape (m,), sum 1. A cell that the model misses has `q = 0` and comes first.
        q: fake masses, shape (m,), sum 1. A cell that the model invents has `p = 0` and comes last.

    Example:
        >>> spectrum = RatioSpectrum.from_masses(p=[0.5, 0.3, 0.2], q=[0.2, 0.3, 0.5])
        >>> round(spectrum.alpha(2.0), 12), round(spectrum.area, 10), round(spectrum.f_score(8), 9)
        (0.9, 0.7932581464, 0.977443609)
    """

    # ------------------------------------------------------------------------------------------------ constructors

    @classmethod
    def from_masses(cls, *, p: ArrayLike, q: ArrayLike) -> RatioSpectrum:
        """Spectrum of two discrete distributions on the same cells, of masses p (real) and q (fake).

        Cells with equal ratio are merged and cells without mass are dropped, which changes no result. Masses must sum
        to 1 (to 1e-6). They are then divided by their sum, so that rounding does not affect the curve; for raw counts
        call `from_counts`.
        """
        real, fake = checks.probabilities("p", p), checks.probabilities("q", q)
        checks.same_length(p=real, q=fake)
        return cls._sorted(real / real.sum(), fake / fake.sum())

    @classmethod
    def from_counts(cls, *, real: ArrayLike, fake: ArrayLike) -> RatioSpectrum:
        """Spectrum of two histograms: non-negative counts on the same cells, each divided by its sum.

        Example:
            >>> RatioSpectrum.from_counts(real=[50, 50, 0], fake=[30, 0, 10]).max_recall
            0.5
        """
        real, fake = checks.masses("real", real), checks.masses("fake", fake)
        checks.same_length(real=real, fake=fake)
        return cls._sorted(real / real.sum(), fake / fake.sum())

    @classmethod
    def from_scores(cls, *, real: ArrayLike, fake: ArrayLike) -> RatioSpectrum:
        """Spectrum of a classifier's held-out scores: `alpha(λ) = min_t λ P(s < t) + Q(s ≥ t)` for every λ.

        The cells are the blocks of `precall.theory.hull.score_blocks`. The population curve of any score, larger
        meaning more real, lies on or above the true one. This estimate is a minimum over thresholds and is therefore
        biased downwards: for a statement with confidence use `precall.theory.bands`.

        Example:
            >>> RatioSpectrum.from_scores(real=[1.0, 2.0, 3.0, 4.0], fake=[0.0, 1.0, 2.0, 3.0]).alpha(1.0)
            0.75

        References:
            Simon et al. (2019), Thm 5 and Algorithm 1; docs/theory.md, Classifiers.
        """
        blocks = score_blocks(real=real, fake=fake)
        return cls._sorted(blocks.p, blocks.q)

    @classmethod
    def from_log_ratios(cls, *, fake: ArrayLike, real: ArrayLike | None = None) -> RatioSpectrum:
        """Monte-Carlo spectrum from known log-ratios `log p(x)/q(x)` at samples.

        With samples of both distributions, each sample is a cell, weighted under the pooled sample (balance heuristic):
        `p_i = u/(n u + m)`, `q_i = 1/(n u + m)`. These weights are bounded, so infinite log-ratios (disjoint supports)
        are allowed. With fake samples alone, `q_i = 1/m` and `p_i ∝ u_i`: the ratio is calibrated to mean one under the
        model, which assumes that P(q = 0) is zero. In both cases the masses are divided by their sum, which differs
        from 1 by O(1/√n).

        Example:
            >>> RatioSpectrum.from_log_ratios(fake=[-np.inf, 0.0], real=[0.0, np.inf]).alpha(1.0)
            0.5
        """
        fake = checks.vector("fake", fake, infinite=True)
        if real is None:
            checks.vector("fake", np.where(fake == -np.inf, 0, fake))
            u = np.exp(fake - fake.max()) if np.isfinite(fake.max()) else np.zeros_like(fake)
            u = checks.masses("fake", u)
            return cls._sorted(u / u.sum(), np.full(fake.size, 1 / fake.size))
        real = checks.vector("real", real, infinite=True)
        p, q = pooled_weights(np.concatenate([real, fake]), real.size, fake.size)
        p, q = checks.masses("real", p), checks.masses("fake", q)
        return cls._sorted(p / p.sum(), q / q.sum())

    @classmethod
    def from_curve(cls, *, lam: ArrayLike, alpha: ArrayLike) -> RatioSpectrum:
        """Spectrum of the least concave curve on or above the points (λ, α), constant after the last.

        A bend of `alpha` at λ is a cell of ratio `q/p = λ`; its real mass is the drop of the slope there. Mass that is
        then missing from 1 is data that the model misses (q = 0) or model mass that is invented (p = 0). The slopes
        increase from 0.
        """
        from scipy.optimize import isotonic_regression

        lam, alpha = checks.vector("lam", lam), checks.vector("alpha", alpha)
        slopes = isotonic_regression(np.diff(alpha) / np.diff(lam), weights=np.diff(lam), increasing=False).x
        slopes = np.append(np.clip(slopes, 0.0, 1.0), 0.0)
        p = -np.diff(slopes)
        q = p * lam[1:]
        missed, invented = max(0.0, 1 - p.sum()), max(0.0, 1 - q.sum())
        p, q = np.concatenate([p, [missed, 0.0]]), np.concatenate([q, [0.0, invented]])
        return cls.from_counts(real=p, fake=q)  # both sum to 1 up to rounding

    @classmethod
    def from_dict(cls, saved: Mapping[str, object]) -> RatioSpectrum:
        """Restore the spectrum that `to_dict` wrote, with the same masses to the last bit.

        Raises:
            ValueError: if the masses are missing, negative, not finite or of unequal lengths, do not sum to 1 (to
                1e-6), leave a cell without mass, or are not sorted by `q/p`.
        """
        p, q = (checks.probabilities(name, checks.entry(saved, name)) for name in ("p", "q"))
        checks.same_length(p=p, q=q)
        if ((p == 0) & (q == 0)).any():
            raise ValueError("`p` and `q` must not both be 0 in a cell. Use `from_masses`, which drops empty cells.")
        with np.errstate(divide="ignore", over="ignore"):
            ratio = np.minimum(q / p, STEEPEST)
        # merging cells of equal ratio may move the ratio by a few units in the last place
        if (ratio[1:] < ratio[:-1] * (1 - 1e-9) - sys.float_info.min).any():
            raise ValueError("`p` and `q` must be sorted by q/p. Use `from_masses`, which sorts the cells.")
        return cls(p, q)

    @classmethod
    def mean(cls, spectra: Sequence[RatioSpectrum], weights: ArrayLike | None = None) -> RatioSpectrum:
        """Spectrum whose curve is the average of the curves, with weights that sum to 1: the weighted cells together.

        This one operation serves k-means repeats, cross-fitting folds and shards: `alpha(λ) = Σ_j w_j alpha_j(λ)`.
        """
        if len(spectra) == 0:
            raise ValueError("`spectra` must hold at least one RatioSpectrum; got none.")
        w = np.full(len(spectra), 1 / len(spectra)) if weights is None else checks.probabilities("weights", weights)
        checks.same_length(spectra=np.empty(len(spectra)), weights=w)
        p = np.concatenate([wj * spectrum.p for wj, spectrum in zip(w, spectra, strict=True)])
        q = np.concatenate([wj * spectrum.q for wj, spectrum in zip(w, spectra, strict=True)])
        return cls._sorted(p / p.sum(), q / q.sum())

    @classmethod
    def _sorted(cls, p: Array, q: Array) -> RatioSpectrum:
        """Sort cells by q/p, merge ties, drop empty cells."""
        kept = (p > 0) | (q > 0)
        p, q = p[kept], q[kept]
        with np.errstate(divide="ignore", over="ignore"):
            ratio = q / p
        order = np.argsort(ratio, kind="stable")
        ratio, p, q = ratio[order], p[order], q[order]
        starts = np.flatnonzero(np.concatenate([[True], ratio[1:] > ratio[:-1]]))
        return cls(np.add.reduceat(p, starts), np.add.reduceat(q, starts))

    # -------------------------------------------------------------------------------------------- derived spectra

    def refined(self, budget: float) -> RatioSpectrum:
        """Spectrum after optimal budgeted rejection with K ≥ 1: `q̃ = min(K q, κ p)`, with κ such that it sums to one.

        Its curve is `alpha_K(λ) = min(1, K alpha(λ/K))`, the best that any distribution with `q̃ ≤ K q` can reach at
        every λ (Verine, 2024, Thm 6.2.1 and 6.2.3; docs/theory.md, Rejection).
        """
        return self._sorted(self.p, refined_masses(self.p, self.q, checks.budget(budget)))

    def projected(self, lam: float) -> RatioSpectrum:
        """Spectrum of the PR projection: the distribution nearest to the model that is right at slope λ in [0, ∞].

        It has `alpha(λ) = min(1, λ)`, and no smaller precision or recall at any other slope. No distribution with this
        `alpha(λ)` is nearer to the model in total variation; the distance is `pr_divergence(λ)` of this spectrum. A
        large λ replaces what the model invents, a small λ adds what it misses. λ = 1 gives the data, λ = 0 the model
        itself.
        """
        return self._sorted(self.p, projected_masses(self.p, self.q, lam))

    # --------------------------------------------------------------------------------- divergences and frontiers

    def divergence(self, name: str | Divergence) -> float:
        """`D_f(P‖Q) = Σ q_i f(p_i/q_i)`, with `f(0)` on invented cells and `f'(∞) P(q = 0)` on missed ones; may be ∞.

        Args:
            name: a name such as "kl", "js", "chi2", "amari:0.5", "pr:2", or a `Divergence`.

        Example:
            >>> spectrum = RatioSpectrum.from_masses(p=[0.5, 0.5, 0.0], q=[0.5, 0.25, 0.25])
            >>> round(spectrum.divergence("kl"), 6), spectrum.divergence("reverse_kl")
            (0.346574, inf)
        """
        f = divergence(name)
        both = (self.p > 0) & (self.q > 0)
        p, q = self.p[both], self.q[both]
        missed, invented = float(self.p[self.q == 0].sum()), float(self.q[self.p == 0].sum())
        # f'(∞) P(q = 0) + f(0) Q(p = 0); a mass of zero must not be multiplied by an infinite coefficient
        ends = (f.at_infinity * missed if missed else 0.0) + (f.at_zero * invented if invented else 0.0)
        with np.errstate(over="ignore"):
            u = np.minimum(p / q, STEEPEST)
            return float(np.sum(np.where(u < STEEPEST, q * f.f(u), p * (f.f(u) / u)))) + ends

    def frontier(self, order: float, side: str = "exclusive", points: int = 101) -> Frontier:
        """Rényi divergence frontier of any order in [0, ∞]; the exclusive one of order ∞ is the precision-recall curve.

        References:
            Djolonga et al. (2020), Prop. 1 (corrected: docs/errata.md, DJO-4); docs/theory.md, Frontiers.
        """
        return frontier(self.p, self.q, order=order, side=side, points=points)

    def mauve(self, c: float = 5.0) -> float:
        """MAUVE: the area under the inclusive order-1 frontier, losses scaled by `c`; in (0, 1], 1 iff P = Q."""
        return mauve(self.p, self.q, c=c)

    def to_dict(self) -> dict[str, list[float]]:
        """The masses as plain lists; `from_dict` restores the spectrum to the last bit."""
        return {"p": self.p.tolist(), "q": self.q.tolist()}


def pooled_weights(log_u: Array, n: int, m: int) -> tuple[Array, Array]:
    """`p/(n p + m q)` and `q/(n p + m q)` at points of log-ratio `log_u`, pooled from n real and m fake samples."""
    return np.exp(-np.logaddexp(np.log(n), np.log(m) - log_u)), np.exp(-np.logaddexp(np.log(n) + log_u, np.log(m)))
