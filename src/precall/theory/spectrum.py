"""The ratio spectrum of two distributions, and everything that is read off it.

Two distributions compare only through their likelihood ratio. A `RatioSpectrum` holds the masses `p_i`, `q_i` of cells
sorted by `q_i / p_i`; every curve, score, divergence, frontier and refinement is an exact functional of it, O(m) after
one O(m log m) sort. The mathematics is in docs/theory.md.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from precall.printing import brief
from precall.theory import checks
from precall.theory.checks import Array
from precall.theory.hull import score_blocks

if TYPE_CHECKING:
    from precall.theory.divergences import Divergence
    from precall.theory.frontiers import Frontier


STEEPEST = 1e300  # ratios beyond it count as this one: their f would overflow before it meets its tiny mass


@brief
@dataclass(frozen=True, eq=False)
class Curve:
    """Points of a precision-recall curve by increasing λ: `alpha` is precision, `beta` recall, `alpha = lam · beta`."""

    lam: Array
    alpha: Array
    beta: Array


@brief
@dataclass(frozen=True, eq=False)
class Roc:
    """Vertices of the optimal ROC with "real" as the positive class, from (0, 0) to (1, 1).

    Each vertex is a set A of the points most likely real: `fake_accepted` is Q(A), `real_accepted` is P(A). The region
    above the diagonal and below the vertices is the mode-collapse region of PacGAN, `(ε, δ) = (Q(A), P(A))`.
    """

    fake_accepted: Array
    real_accepted: Array

    @property
    def auc(self) -> float:
        """Area under the ROC: the probability that a real point looks more real than a fake one (ties count half)."""
        return float(np.trapezoid(self.real_accepted, self.fake_accepted))


@dataclass(frozen=True, eq=False)
class DivergenceWeights:
    """An f-divergence as a mixture of PR-divergences: `D_f = ∫ weight(λ) D_λ dλ + Σ mass · D_λ0` over the atoms.

    Attributes:
        lam: slopes λ, shape (m,).
        weight: density `λ⁻³ f″(1/λ)` at each λ: how much the divergence cares for that trade-off.
        pr_divergence: `D_λ(P‖Q)` at each λ: how much there is to pay.
        atoms: pairs (λ0, mass) where f has a kink at 1/λ0.
    """

    lam: Array
    weight: Array
    pr_divergence: Array
    atoms: tuple[tuple[float, float], ...]


@brief
@dataclass(frozen=True, eq=False)
class RatioSpectrum:
    """Masses of two distributions on cells sorted by `q_i / p_i`: P is the data, Q the model.

    Build one with `from_masses`, `from_counts`, `from_scores` or `from_log_ratios`; the constructor itself takes masses
    that are already sorted and merged.

    Attributes:
        p: real masses, shape (m,), sum 1. A cell the model misses has `q = 0` and stands first.
        q: fake masses, shape (m,), sum 1. A cell the model invents has `p = 0` and stands last.

    Example:
        >>> spectrum = RatioSpectrum.from_masses(p=[0.5, 0.3, 0.2], q=[0.2, 0.3, 0.5])
        >>> round(spectrum.alpha(2.0), 12), round(spectrum.area, 10), round(spectrum.f_score(8), 9)
        (0.9, 0.7932581464, 0.977443609)
    """

    p: Array
    q: Array

    # ------------------------------------------------------------------------------------------------ constructors

    @classmethod
    def from_masses(cls, *, p: Any, q: Any) -> RatioSpectrum:
        """Spectrum of two discrete distributions on the same cells.

        Cells with equal ratio are merged and cells without mass dropped: no reading can tell. Masses must sum to 1 (to
        1e-6) and are then divided by their sum, so that rounding does not leak into the curve; for raw counts call
        `from_counts`.

        Args:
            p: real masses, shape (m,).
            q: fake masses, shape (m,).

        Raises:
            ValueError: on negative, NaN, infinite or all-zero masses, other sums than 1, or unequal lengths.
        """
        p, q = checks.probabilities("p", p), checks.probabilities("q", q)
        checks.same_length(p=p, q=q)
        return cls._sorted(p / p.sum(), q / q.sum())

    @classmethod
    def from_counts(cls, *, real: Any, fake: Any) -> RatioSpectrum:
        """Spectrum of two histograms: non-negative counts on the same cells, each divided by its sum.

        Example:
            >>> RatioSpectrum.from_counts(real=[50, 50, 0], fake=[30, 0, 10]).max_recall
            0.5
        """
        real, fake = checks.masses("real", real), checks.masses("fake", fake)
        checks.same_length(real=real, fake=fake)
        return cls._sorted(real / real.sum(), fake / fake.sum())

    @classmethod
    def from_scores(cls, *, real: Any, fake: Any) -> RatioSpectrum:
        """Spectrum certified by a classifier's held-out scores: `alpha(λ) = min_t λ P(s < t) + Q(s ≥ t)` for every λ.

        The blocks of `precall.theory.hull.score_blocks` are the cells. The population curve of any score lies on or
        above the true one; this estimate is a minimum over thresholds and therefore biased down: for a statement
        with confidence use `precall.theory.bounds`.

        Args:
            real: scores of held-out real samples, larger meaning more real, shape (n,). Infinite scores are fine.
            fake: scores of held-out fake samples, shape (m,).

        Example:
            >>> spectrum = RatioSpectrum.from_scores(real=[1.0, 2.0, 3.0, 4.0], fake=[0.0, 1.0, 2.0, 3.0])
            >>> spectrum.alpha(1.0)
            0.75

        References:
            Simon et al. (2019), Thm 5 and Algorithm 1; docs/theory.md, Classifiers.
        """
        blocks = score_blocks(real=real, fake=fake)
        return cls._sorted(blocks.p, blocks.q)

    @classmethod
    def from_log_ratios(cls, *, fake: Any, real: Any = None) -> RatioSpectrum:
        """Monte-Carlo spectrum from known log-ratios `log p(x)/q(x)` at samples.

        With samples of both, each is a cell weighted under the pooled sample (balance heuristic): `p_i = u/(n u + m)`,
        `q_i = 1/(n u + m)`. These weights are bounded, so infinite log-ratios (disjoint supports) are fine. With fake
        samples alone, `q_i = 1/m` and `p_i ∝ u_i`: this calibrates the ratio to mean one under the model and so takes
        P(q = 0) to be zero. Either way the masses are divided by their sum, which differs from 1 by O(1/√n).

        Args:
            fake: log-ratios at samples of Q, shape (m,).
            real: log-ratios at samples of P, shape (n,), or None.

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
    def from_curve(cls, *, lam: Any, alpha: Any) -> RatioSpectrum:
        """Spectrum of the least concave curve on or above the points (λ, α), constant after the last.

        A bend of `alpha` at λ is a cell of ratio `q/p = λ`; its real mass is the drop of the slope there. What is
        missing from one is missed by the model (q = 0) or invented (p = 0).

        Args:
            lam: slopes, increasing from 0, shape (m,).
            alpha: values in [0, min(1, λ)], shape (m,).

        Example:
            >>> RatioSpectrum.from_curve(lam=[0.0, 0.5, 2.0], alpha=[0.0, 0.5, 0.8]).alpha(1.25)
            0.65

        References:
            docs/theory.md, The curve.
        """
        from scipy.optimize import isotonic_regression

        lam, alpha = checks.vector("lam", lam), checks.vector("alpha", alpha)
        slopes = isotonic_regression(np.diff(alpha) / np.diff(lam), weights=np.diff(lam), increasing=False).x
        slopes = np.append(np.clip(slopes, 0.0, 1.0), 0.0)
        p = -np.diff(slopes)
        q = p * lam[1:]
        missed, invented = max(0.0, 1 - p.sum()), max(0.0, 1 - q.sum())
        p, q = np.concatenate([p, [missed, 0.0]]), np.concatenate([q, [0.0, invented]])
        return cls.from_counts(real=p, fake=q)  # rounding only: both sum to 1

    @classmethod
    def from_dict(cls, saved: Mapping[str, object]) -> RatioSpectrum:
        """Restore the spectrum that `to_dict` wrote, with the same masses to the last bit.

        Args:
            saved: the masses "p" and "q", sorted by `q/p`; other keys are ignored.

        Raises:
            ValueError: if the masses are missing, negative, not finite or of unequal lengths, do not sum to 1 (to
                1e-6), leave a cell without mass, or are not sorted by `q/p`.

        Example:
            >>> spectrum = RatioSpectrum.from_masses(p=[0.5, 0.3, 0.2], q=[0.2, 0.3, 0.5])
            >>> RatioSpectrum.from_dict(spectrum.to_dict()).area == spectrum.area
            True
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
    def mean(cls, spectra: Sequence[RatioSpectrum], weights: Any = None) -> RatioSpectrum:
        """Spectrum whose curve is the weighted average of the curves: the concatenation of the weighted cells.

        One operation for k-means repeats, cross-fit folds and shards: `alpha(λ) = Σ_j w_j alpha_j(λ)` for every λ.

        Args:
            spectra: at least one spectrum.
            weights: masses that sum to 1, one per spectrum; equal when None.
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

    # ---------------------------------------------------------------------------------------------- new from old

    def swapped(self) -> RatioSpectrum:
        """The spectrum with the roles of P and Q exchanged: precision becomes recall."""
        return RatioSpectrum(self.q[::-1], self.p[::-1])

    def refined(self, budget: float) -> RatioSpectrum:
        """Spectrum after optimal budgeted rejection: `q̃ = min(K q, κ p)`, with κ such that it sums to one.

        Its curve is `alpha_K(λ) = min(1, K alpha(λ/K))`, the best any law with `q̃ ≤ K q` can reach at every λ.

        Args:
            budget: K ≥ 1, mean draws of the model per kept sample.

        References:
            Verine (2024), Thm 6.2.1 and 6.2.3; docs/theory.md, Rejection.
        """
        from precall.theory.acceptance import refined_masses

        return self._sorted(self.p, refined_masses(self.p, self.q, checks.budget(budget)))

    def coarsened(self, cells: Any) -> RatioSpectrum:
        """Spectrum of coarser cells; precision rises or stays at every λ (data processing).

        Args:
            cells: either the number of groups, of neighbouring ratios and about equal mass (p + q)/2, or one integer
                label per cell, in the order of `p` and `q`: cells with equal label are merged.
        """
        if np.ndim(cells) == 0:
            if int(cells) < 1:
                raise ValueError(f"`cells` must be at least 1; got {cells}.")
            middle = np.cumsum(self.p + self.q) - (self.p + self.q) / 2
            labels = np.minimum((middle / 2 * int(cells)).astype(np.intp), int(cells) - 1)
        else:
            checks.same_length(cells=(given := np.asarray(cells)), p=self.p)
            labels = np.unique(given, return_inverse=True)[1]
        p, q = (np.bincount(labels, masses).astype(np.float64) for masses in (self.p, self.q))
        return self._sorted(p, q)

    # -------------------------------------------------------------------------------------------- the PR curve

    @cached_property
    def _shared(self) -> tuple[Array, Array]:
        """Masses of the cells where both are positive (and their ratio is representable)."""
        with np.errstate(divide="ignore", over="ignore"):
            ratio = self.q / self.p
        shared = (ratio > 0) & np.isfinite(ratio)
        return self.p[shared], self.q[shared]

    @cached_property
    def breakpoints(self) -> Array:
        """The ratios `l_i = q_i / p_i` in (0, ∞), increasing: where `alpha` changes slope."""
        p, q = self._shared
        return np.maximum.accumulate(q / p)

    @cached_property
    def _segments(self) -> tuple[Array, Array]:
        """`A_k`, `B_k` of `alpha(λ) = A_k + B_k λ` on `[l_k, l_{k+1}]`, with `l_0 = 0` and `l_{K+1} = ∞`."""
        p, q = self._shared
        return np.concatenate([[0.0], np.cumsum(q)]), np.concatenate([np.cumsum(p[::-1])[::-1], [0.0]])

    @property
    def max_precision(self) -> float:
        """`alpha(∞) = Q(supp P)`: the share of the model's mass that lies where there is data."""
        return min(1.0, float(self.q[self.p > 0].sum())) if (self.p == 0).any() else 1.0

    @property
    def max_recall(self) -> float:
        """`beta(0) = P(supp Q)`: the share of the data that lies where the model can reach."""
        return min(1.0, float(self.p[self.q > 0].sum())) if (self.q == 0).any() else 1.0

    @property
    def max_budget(self) -> float:
        """The largest ratio p/q over its mean under the model, P(supp Q): a larger budget buys nothing.

        1 where data and model share nothing.

        Example:
            >>> RatioSpectrum.from_masses(p=[0.5, 0.5], q=[0.125, 0.875]).max_budget
            4.0

        References:
            docs/theory.md, Rejection.
        """
        if self.breakpoints.size == 0:
            return 1.0
        least = self.max_recall * float(self.breakpoints[0])  # precision at the largest recall, 1/M
        return max(1.0, 1 / max(least, 1 / sys.float_info.max))

    def alpha(self, lam: Any) -> Any:
        """Precision at slope λ: `alpha(λ) = Σ min(λ p_i, q_i)`.

        Concave, non-decreasing, at most min(1, λ); `alpha(0) = 0`, `alpha(∞) = max_precision`.

        Args:
            lam: slope(s) in [0, ∞], scalar or array.

        Returns:
            Precision, a float for a scalar, else an array of the same shape.

        References:
            Sajjadi et al. (2018), Thm 2; docs/theory.md, The curve.
        """
        lam = checks.nonnegative("lam", lam)
        A, B = self._segments
        k = np.searchsorted(self.breakpoints, lam, side="right")
        finite = np.where(np.isinf(lam), 0.0, lam)
        alpha = np.where(np.isinf(lam), self.max_precision, A[k] + B[k] * finite)
        # the sums are exact up to rounding, which must not break alpha <= min(1, lam)
        return checks.like(lam, np.minimum(alpha, np.minimum(1.0, lam)))

    def beta(self, lam: Any) -> Any:
        """Recall at slope λ: `beta(λ) = Σ min(p_i, q_i/λ) = alpha(λ)/λ`.

        Non-increasing, at most min(1, 1/λ); `beta(0) = max_recall`, `beta(∞) = 0`. Arguments and shape as `alpha`.
        """
        lam = checks.nonnegative("lam", lam)
        A, B = self._segments
        k = np.searchsorted(self.breakpoints, lam, side="right")
        positive = np.where(lam > 0, lam, 1.0)
        beta = np.where(lam > 0, A[k] / positive + B[k], self.max_recall)
        return checks.like(lam, np.minimum(beta, 1 / np.maximum(1.0, lam)))

    def precision(self, *, recall: Any) -> Any:
        """Largest precision on the curve with at least this recall; 0 beyond `max_recall`.

        Args:
            recall: in [0, 1], scalar or array.

        Example:
            >>> spectrum = RatioSpectrum.from_masses(p=[0.5, 0.3, 0.2], q=[0.2, 0.3, 0.5])
            >>> spectrum.precision(recall=0.9)
            0.45
        """
        recall = checks.unit("recall", recall)
        A, B = self._segments
        if self.breakpoints.size == 0:
            return checks.like(recall, np.zeros_like(recall))
        at_breakpoint = np.concatenate([[self.max_recall], A[1:-1] / self.breakpoints[1:] + B[1:-1]])
        k = np.searchsorted(-np.minimum.accumulate(at_breakpoint), -recall, side="right")
        # beta(lam) = A/lam + B = recall gives lam, and alpha = lam * recall
        reached = (k > 0) & (recall > B[k])
        alpha = np.where(reached, A[k] * recall / np.where(reached, recall - B[k], 1.0), 0.0)
        alpha = np.where(recall > 0, alpha, self.max_precision)
        return checks.like(recall, np.minimum(alpha, self.max_precision))

    def recall(self, *, precision: Any) -> Any:
        """Largest recall on the curve with at least this precision; 0 beyond `max_precision`. Shapes as `precision`."""
        return self.swapped().precision(recall=checks.unit("precision", precision))

    def curve(self, points: int | None = None) -> Curve:
        """The curve as arrays: at λ = 0, every breakpoint and ∞, or on `points` equal angles.

        Between breakpoints the curve is an arc of a hyperbola, `A/alpha + B/beta = 1`: plot the equiangular grid
        `λ_i = tan(i π / (2 (m + 1)))`, i = 1…m (Sajjadi et al. 2018, eq. 7), and read numbers off the spectrum.

        Args:
            points: number of angles m, or None for the exact vertices.
        """
        if points is None:
            lam = np.concatenate([[0.0], self.breakpoints, [np.inf]])
        elif points < 1:
            raise ValueError(f"`points` must be at least 1; got {points}.")
        else:
            lam = np.tan(np.arange(1, points + 1) / (points + 1) * (np.pi / 2))
        return Curve(lam, self.alpha(lam), self.beta(lam))

    def f_score(self, s: float) -> float:
        """`max_λ F_s`, `F_s = (1 + s²) αβ/(s² α + β)`: exact, since the maximum is attained at a breakpoint.

        `s > 1` weighs recall: `f_score(8)` stands for recall, `f_score(1/8)` for precision (Sajjadi's convention);
        `f_score(0) = max_precision`, `f_score(∞) = max_recall`.

        References:
            Sajjadi et al. (2018), section 3.4; docs/theory.md, F-scores.
        """
        s = float(checks.nonnegative("s", s))
        if self.breakpoints.size == 0:
            return 0.0
        lam, alpha = self.breakpoints, self.alpha(self.breakpoints)
        if s <= 1:
            return float(np.max((1 + s * s) * alpha / (1 + s * s * lam)))
        t = 1 / (s * s)  # divided by s² so that s = ∞ is the limit, not an overflow
        return float(np.max((t + 1) * alpha / (t + lam)))

    @property
    def area(self) -> float:
        """Area under the precision-recall curve, `½ ∫ beta(λ)² dλ`, in closed form; 1 iff P = Q.

        References:
            docs/theory.md, Area; docs/errata.md, VER-44.
        """
        if self.breakpoints.size == 0:
            return 0.0
        A, B = self._segments
        a, b = self.breakpoints[:-1], self.breakpoints[1:]
        ends = B[0] * (B[0] * self.breakpoints[0]) + A[-1] * (A[-1] / self.breakpoints[-1])
        A, B = A[1:-1], B[1:-1]
        # A/a <= 1 and B b <= 1, so this order of the products never overflows
        inner = B * (B * (b - a)) + 2 * A * B * (np.log(b) - np.log(a)) + (A / a) * A * ((b - a) / b)
        return min(1.0, float(ends + inner.sum()) / 2)

    # ----------------------------------------------------------------------------------- other names of the curve

    def roc(self) -> Roc:
        """The optimal ROC, "real" being the positive class; also the frontier of the mode-collapse region."""
        return Roc(np.concatenate([[0.0], np.cumsum(self.q)]), np.concatenate([[0.0], np.cumsum(self.p)]))

    def mode_collapse_region(self) -> Array:
        """Vertices `(ε, δ) = (Q(A), P(A))` of the mode-collapse region, counter-clockwise, shape (2 m, 2).

        A pair inside says: some set A holds δ of the data and only ε of the model. The region is convex and symmetric
        about (½, ½) (complements), so it has the ROC as its upper and the reflected ROC as its lower boundary.

        References:
            Lin et al. (2018), PacGAN; Simon et al. (2019), section 5.
        """
        roc = self.roc()
        upper = np.stack([roc.fake_accepted, roc.real_accepted], axis=1)
        return np.concatenate([1 - upper[::-1], upper[::-1][1:-1]])

    def trade_off(self, type_one: Any) -> Any:
        """Trade-off function `T(P, Q)(x)`: least share of fakes called real when at most x of the reals is called fake.

        Convex and non-increasing, at most 1 − x; `alpha(λ) = min_x λ x + T(x)`.

        Args:
            type_one: x in [0, 1], scalar or array.

        References:
            Dong et al. (2022), Gaussian differential privacy; docs/theory.md, Other names of the curve.
        """
        x = checks.unit("type_one", type_one)
        seen = self.p > 0
        fpr = np.concatenate([[1.0], 1 - np.cumsum(self.p[seen])])
        fpr[-1] = 0.0
        fnr = np.concatenate([[0.0], np.cumsum(self.q[seen])])
        return checks.like(x, np.interp(x, fpr[::-1], fnr[::-1]))

    def privacy_profile(self, epsilon: Any) -> Any:
        """Least δ for which P and Q are (ε, δ)-indistinguishable: `max(1 − alpha(e^ε), 1 − beta(e^−ε))`.

        Args:
            epsilon: ε ≥ 0, scalar or array.
        """
        epsilon = checks.nonnegative("epsilon", epsilon)
        with np.errstate(over="ignore"):
            return np.maximum(1 - self.alpha(np.exp(epsilon)), 1 - self.beta(np.exp(-epsilon)))

    @property
    def total_variation(self) -> float:
        """`TV = ½ Σ |p_i − q_i| = 1 − alpha(1)`, in [0, 1]."""
        return float(np.abs(self.p - self.q).sum()) / 2

    # --------------------------------------------------------------------------------- divergences and frontiers

    def pr_divergence(self, lam: Any) -> Any:
        """`D_λ(P‖Q) = min(1, λ) − alpha(λ)`: what precision at slope λ falls short of. Arguments and shape as `alpha`.

        References:
            Verine (2024), Def. 4.2.1; docs/theory.md, The PR-divergence.
        """
        lam = checks.nonnegative("lam", lam)
        return checks.like(lam, np.minimum(1.0, lam) - self.alpha(lam))

    def divergence(self, name: str | Divergence) -> float:
        """`D_f(P‖Q) = Σ q_i f(p_i/q_i)`, with `f(0)` on invented cells and `f'(∞) P(q = 0)` on missed ones; may be ∞.

        Args:
            name: a name such as "kl", "js", "chi2", "amari:0.5", "pr:2", or a `Divergence`.

        Example:
            >>> spectrum = RatioSpectrum.from_masses(p=[0.5, 0.5, 0.0], q=[0.5, 0.25, 0.25])
            >>> round(spectrum.divergence("kl"), 6), spectrum.divergence("reverse_kl")
            (0.346574, inf)
        """
        from precall.theory.divergences import divergence

        f = divergence(name)
        both = (self.p > 0) & (self.q > 0)
        p, q = self.p[both], self.q[both]
        missed, invented = float(self.p[self.q == 0].sum()), float(self.q[self.p == 0].sum())
        # a mass of zero must not meet an infinite coefficient
        ends = (f.at_infinity * missed if missed else 0.0) + (f.at_zero * invented if invented else 0.0)
        with np.errstate(over="ignore"):
            u = np.minimum(p / q, STEEPEST)
            return float(np.sum(np.where(u < STEEPEST, q * f.f(u), p * (f.f(u) / u)))) + ends

    def divergence_weights(self, name: str | Divergence, lam: Any = None) -> DivergenceWeights:
        """Which trade-offs a divergence pays for: `D_f = ∫ λ⁻³ f″(1/λ) D_λ(P‖Q) dλ` (plus atoms at kinks of f).

        Args:
            name: as in `divergence`.
            lam: slopes to report, shape (m,); by default 201 from 10⁻³ to 10³, evenly in log λ.

        References:
            Verine (2024), Thm 4.3.1; docs/theory.md, Mixtures of PR-divergences.
        """
        from precall.theory.divergences import divergence

        f = divergence(name)
        lam = np.geomspace(1e-3, 1e3, 201) if lam is None else checks.nonnegative("lam", checks.vector("lam", lam))
        # a slope jump s of f at u0 adds s u0 D_{1/u0}
        atoms = tuple((1 / u0, jump * u0) for u0, jump in f.kinks)
        return DivergenceWeights(lam, f.weight(lam), self.pr_divergence(lam), atoms)

    def frontier(self, order: float, side: str = "exclusive", points: int = 101) -> Frontier:
        """Rényi divergence frontier of any order in [0, ∞]; order ∞, exclusive, is the precision-recall curve.

        Args:
            order: Rényi order.
            side: "exclusive" (the best common part) or "inclusive" (the best common cover).
            points: number of weights.

        References:
            Djolonga et al. (2020), Prop. 1 (corrected: docs/errata.md, DJO-4); docs/theory.md, Frontiers.
        """
        from precall.theory.frontiers import frontier

        return frontier(self.p, self.q, order=order, side=side, points=points)

    def mauve(self, c: float = 5.0) -> float:
        """MAUVE: the area under the inclusive order-1 frontier, losses scaled by `c`; in (0, 1], 1 iff P = Q.

        References:
            Pillutla et al. (2021); docs/theory.md, Frontiers.
        """
        from precall.theory.frontiers import mauve

        return mauve(self.p, self.q, c=c)

    def to_dict(self) -> dict[str, list[float]]:
        """The masses as plain lists; `from_dict` restores the spectrum to the last bit."""
        return {"p": self.p.tolist(), "q": self.q.tolist()}


def pooled_weights(log_u: Array, n: int, m: int) -> tuple[Array, Array]:
    """`p/(n p + m q)` and `q/(n p + m q)` at points of log-ratio `log_u`, pooled from n real and m fake ones."""
    return np.exp(-np.logaddexp(np.log(n), np.log(m) - log_u)), np.exp(-np.logaddexp(np.log(n) + log_u, np.log(m)))
