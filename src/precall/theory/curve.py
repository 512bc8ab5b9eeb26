"""The precision-recall curve of two distributions: α(λ), β(λ), and everything else that is read off the curve.

`PrecisionRecall` holds the masses `p_i`, `q_i` of cells sorted by `q_i / p_i` and evaluates the curve exactly, at every
slope λ. `precall.theory.spectrum.RatioSpectrum` adds the ways to construct it, and the divergences and frontiers. The
mathematics is in docs/theory.md, The curve.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from typing import Self, overload

import numpy as np

from precall.printing import brief
from precall.theory import checks
from precall.theory.arrays import Array, Floats


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

    Each vertex is a set A of the points that are most likely real: `fake_accepted` is Q(A) and `real_accepted` is P(A).
    The region above the diagonal and below the vertices is the mode-collapse region of PacGAN, `(ε, δ) = (Q(A), P(A))`.
    """

    fake_accepted: Array
    real_accepted: Array

    @property
    def auc(self) -> float:
        """Area under the ROC: the probability that a real point ranks above a fake one (ties count half)."""
        return float(np.trapezoid(self.real_accepted, self.fake_accepted))


@dataclass(frozen=True, eq=False)
class PrecisionRecall:
    """Precision and recall from masses p (real) and q (fake) on cells sorted by `q_i / p_i`; both sum to 1."""

    p: Array
    q: Array

    def swapped(self) -> Self:
        """Return the same object with the roles of P and Q exchanged: precision becomes recall."""
        return type(self)(self.q[::-1], self.p[::-1])

    # ------------------------------------------------------------------------------------------ segments and ends

    @cached_property
    def _shared(self) -> tuple[Array, Array]:
        """Masses of the cells where both are positive (and their ratio is representable)."""
        with np.errstate(divide="ignore", over="ignore"):
            ratio = self.q / self.p
        shared = (ratio > 0) & np.isfinite(ratio)
        return self.p[shared], self.q[shared]

    @cached_property
    def breakpoints(self) -> Array:
        """Ratios `l_i = q_i / p_i` in (0, ∞), increasing: the slopes λ at which `alpha` bends."""
        p, q = self._shared
        return np.maximum.accumulate(q / p)

    @cached_property
    def _segments(self) -> tuple[Array, Array]:
        """`A_k`, `B_k` of `alpha(λ) = A_k + B_k λ` on `[l_k, l_{k+1}]`, with `l_0 = 0` and `l_{K+1} = ∞`."""
        p, q = self._shared
        return np.concatenate([[0.0], np.cumsum(q)]), np.concatenate([np.cumsum(p[::-1])[::-1], [0.0]])

    @property
    def max_precision(self) -> float:
        """`alpha(∞) = Q(supp P)`: the share of the model's mass that lies where there is data.

        Estimated from samples, it says how the estimator treats zeros, and nothing about the supports: a finite sample
        cannot show that the data has no mass somewhere. Read `alpha(10)` instead.
        """
        return min(1.0, float(self.q[self.p > 0].sum())) if (self.p == 0).any() else 1.0

    @property
    def max_recall(self) -> float:
        """`beta(0) = P(supp Q)`: the share of the data that the model can generate. For samples, read `beta(1/10)`."""
        return min(1.0, float(self.p[self.q > 0].sum())) if (self.q == 0).any() else 1.0

    @property
    def max_budget(self) -> float:
        """Largest useful rejection budget: the largest ratio p/q divided by its mean under the model, P(supp Q).

        It is 1 if the supports of data and model are disjoint.

        Example:
            >>> PrecisionRecall(p=np.array([0.5, 0.5]), q=np.array([0.125, 0.875])).max_budget
            4.0
        """
        if self.breakpoints.size == 0:
            return 1.0
        least = self.max_recall * float(self.breakpoints[0])  # precision at the largest recall, 1/M
        return max(1.0, 1 / max(least, 1 / sys.float_info.max))

    # ---------------------------------------------------------------------------------------- precision and recall

    @overload
    def alpha(self, lam: float) -> float: ...
    @overload
    def alpha(self, lam: Floats) -> Array: ...
    def alpha(self, lam: float | Floats) -> float | Array:
        """Precision at slopes λ in [0, ∞]: `alpha(λ) = Σ min(λ p_i, q_i)`, a float for a scalar.

        Concave, non-decreasing, at most min(1, λ); `alpha(0) = 0`, `alpha(∞) = max_precision`.

        References:
            Sajjadi et al. (2018), Thm 2; docs/theory.md, The curve.
        """
        lam = checks.nonnegative("lam", lam)
        A, B = self._segments
        k = np.searchsorted(self.breakpoints, lam, side="right")
        finite = np.where(np.isinf(lam), 0.0, lam)
        alpha = np.where(np.isinf(lam), self.max_precision, A[k] + B[k] * finite)  # α(λ) = A_k + B_k λ
        # the sums are exact up to rounding, which must not break alpha <= min(1, lam)
        return checks.like(lam, np.minimum(alpha, np.minimum(1.0, lam)))

    @overload
    def beta(self, lam: float) -> float: ...
    @overload
    def beta(self, lam: Floats) -> Array: ...
    def beta(self, lam: float | Floats) -> float | Array:
        """Recall at slope λ: `beta(λ) = Σ min(p_i, q_i/λ) = alpha(λ)/λ`.

        Non-increasing, at most min(1, 1/λ); `beta(0) = max_recall`, `beta(∞) = 0`. Argument and shape as in `alpha`.
        """
        lam = checks.nonnegative("lam", lam)
        A, B = self._segments
        k = np.searchsorted(self.breakpoints, lam, side="right")
        positive = np.where(lam > 0, lam, 1.0)
        beta = np.where(lam > 0, A[k] / positive + B[k], self.max_recall)  # β(λ) = A_k/λ + B_k
        return checks.like(lam, np.minimum(beta, 1 / np.maximum(1.0, lam)))

    @overload
    def precision(self, *, recall: float) -> float: ...
    @overload
    def precision(self, *, recall: Floats) -> Array: ...
    def precision(self, *, recall: float | Floats) -> float | Array:
        """Largest precision on the curve with at least this recall, in [0, 1]; 0 beyond `max_recall`.

        Example:
            >>> curve = PrecisionRecall(p=np.array([0.5, 0.3, 0.2]), q=np.array([0.2, 0.3, 0.5]))
            >>> curve.precision(recall=0.9)
            0.45
        """
        recall = checks.unit("recall", recall)
        A, B = self._segments
        if self.breakpoints.size == 0:
            return checks.like(recall, np.zeros_like(recall))
        at_breakpoint = np.concatenate([[self.max_recall], A[1:-1] / self.breakpoints[1:] + B[1:-1]])
        k = np.searchsorted(-np.minimum.accumulate(at_breakpoint), -recall, side="right")
        # β(λ) = A/λ + B = recall determines λ, and α = λ · recall = A · recall / (recall − B)
        reached = (k > 0) & (recall > B[k])
        alpha = np.where(reached, A[k] * recall / np.where(reached, recall - B[k], 1.0), 0.0)
        alpha = np.where(recall > 0, alpha, self.max_precision)
        return checks.like(recall, np.minimum(alpha, self.max_precision))

    @overload
    def recall(self, *, precision: float) -> float: ...
    @overload
    def recall(self, *, precision: Floats) -> Array: ...
    def recall(self, *, precision: float | Floats) -> float | Array:
        """Largest recall on the curve with at least this precision; 0 beyond `max_precision`. Shapes as `precision`."""
        wanted = checks.unit("precision", precision)
        return checks.like(wanted, np.asarray(self.swapped().precision(recall=wanted)))

    def curve(self, points: int | None = None) -> Curve:
        """The curve as arrays: at λ = 0, every breakpoint and ∞, or at `points` equal angles.

        Between breakpoints the curve is an arc of a hyperbola, `A/alpha + B/beta = 1`. Plot it on the equiangular grid
        `λ_i = tan(i π / (2 (m + 1)))`, i = 1…m (Sajjadi et al. 2018, eq. 7), and compute numbers from the spectrum.
        """
        if points is None:
            lam = np.concatenate([[0.0], self.breakpoints, [np.inf]])
        elif points < 1:
            raise ValueError(f"`points` must be at least 1; got {points}.")
        else:
            lam = np.tan(np.arange(1, points + 1) / (points + 1) * (np.pi / 2))  # Sajjadi et al. (2018), eq. 7
        return Curve(lam, self.alpha(lam), self.beta(lam))

    # -------------------------------------------------------------------------------------------------- summaries

    def f_score(self, s: float) -> float:
        """`max_λ F_s`, `F_s = (1 + s²) αβ/(s² α + β)`: exact, since the maximum is attained at a breakpoint.

        `s > 1` favours recall: `f_score(8)` stands for recall, `f_score(1/8)` for precision (Sajjadi's convention);
        `f_score(0) = max_precision`, `f_score(∞) = max_recall`.

        References:
            Sajjadi et al. (2018), section 3.4; docs/theory.md, F-scores.
        """
        s = float(checks.nonnegative("s", s))
        if self.breakpoints.size == 0:
            return 0.0
        lam, alpha = self.breakpoints, self.alpha(self.breakpoints)
        if s <= 1:
            return float(np.max((1 + s * s) * alpha / (1 + s * s * lam)))  # F_s with β = α/λ
        t = 1 / (s * s)  # divided by s², so that s = ∞ gives the limit instead of an overflow
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
        ends = B[0] * (B[0] * self.breakpoints[0]) + A[-1] * (A[-1] / self.breakpoints[-1])  # B₀² l₁ + A_m²/l_m
        A, B = A[1:-1], B[1:-1]
        # Σ B² (b − a) + 2AB log(b/a) + A² (1/a − 1/b); since A/a <= 1 and B b <= 1, no product overflows in this order
        inner = B * (B * (b - a)) + 2 * A * B * (np.log(b) - np.log(a)) + (A / a) * A * ((b - a) / b)
        return min(1.0, float(ends + inner.sum()) / 2)

    @property
    def total_variation(self) -> float:
        """`TV = ½ Σ |p_i − q_i| = 1 − alpha(1)`, in [0, 1]."""
        return float(np.abs(self.p - self.q).sum()) / 2

    @overload
    def pr_divergence(self, lam: float) -> float: ...
    @overload
    def pr_divergence(self, lam: Floats) -> Array: ...
    def pr_divergence(self, lam: float | Floats) -> float | Array:
        """PR-divergence `D_λ(P‖Q) = min(1, λ) − alpha(λ)`: how far precision at slope λ is from its maximum.

        References:
            Verine (2024), Def. 4.2.1; docs/theory.md, The PR-divergence.
        """
        lam = checks.nonnegative("lam", lam)
        return checks.like(lam, np.minimum(1.0, lam) - self.alpha(lam))

    # ----------------------------------------------------------------------------------- other names of the curve

    @overload
    def bayes_error(self, prior: float = 0.5) -> float: ...
    @overload
    def bayes_error(self, prior: Floats) -> Array: ...
    def bayes_error(self, prior: float | Floats = 0.5) -> float | Array:
        """Least error rate of any classifier of real and fake points: `(1 − π) alpha(π/(1 − π))`.

        `prior` is the share π of real points. At π = ½ the error is `(1 − TV)/2`.

        References:
            Simon et al. (2019), section 5; docs/theory.md, Other names of the curve.
        """
        prior = checks.unit("prior", prior)
        below = np.where(prior < 1, prior, 0.0)
        error = np.where(prior < 1, (1 - prior) * self.alpha(below / (1 - below)), 0.0)  # Σ min(π p, (1 − π) q)
        return checks.like(prior, error)

    @overload
    def hockey_stick(self, gamma: float) -> float: ...
    @overload
    def hockey_stick(self, gamma: Floats) -> Array: ...
    def hockey_stick(self, gamma: float | Floats) -> float | Array:
        """Hockey-stick divergence `E_γ(P‖Q) = Σ (p_i − γ q_i)₊ = 1 − beta(1/γ)`: data beyond γ ≥ 0 times the model.

        `E_γ(Q‖P) = 1 − alpha(γ)`, the mass of the model beyond γ times the data, is `swapped().hockey_stick(γ)`. `E_1`
        is the total variation, and `E_{e^ε}` the least δ of (ε, δ)-differential privacy in one direction.

        References:
            Sharma and Warsi (2013); docs/theory.md, Other names of the curve.
        """
        gamma = checks.nonnegative("gamma", gamma)
        with np.errstate(divide="ignore", over="ignore"):
            return checks.like(gamma, 1 - np.asarray(self.beta(1 / gamma)))

    def roc(self) -> Roc:
        """Optimal ROC with "real" as the positive class; also the boundary of the mode-collapse region."""
        return Roc(np.concatenate([[0.0], np.cumsum(self.q)]), np.concatenate([[0.0], np.cumsum(self.p)]))

    def mode_collapse_region(self) -> Array:
        """Vertices `(ε, δ) = (Q(A), P(A))` of the mode-collapse region, counter-clockwise, shape (2 m, 2).

        Some set A has mass δ under the data and only ε under the model. The region is convex and symmetric about (½,
        ½): its upper boundary is the ROC (Lin et al., 2018, PacGAN; Simon et al., 2019, section 5).
        """
        roc = self.roc()
        upper = np.stack([roc.fake_accepted, roc.real_accepted], axis=1)
        return np.concatenate([1 - upper[::-1], upper[::-1][1:-1]])

    @overload
    def trade_off(self, type_one: float) -> float: ...
    @overload
    def trade_off(self, type_one: Floats) -> Array: ...
    def trade_off(self, type_one: float | Floats) -> float | Array:
        """Trade-off function `T(P, Q)(x)`: the least share of fakes called real if a share x of reals is called fake.

        It is convex and non-increasing in x, and at most 1 − x; `alpha(λ) = min_x λ x + T(x)`.

        References:
            Dong et al. (2022), Gaussian differential privacy; docs/theory.md, Other names of the curve.
        """
        x = checks.unit("type_one", type_one)
        seen = self.p > 0
        fpr = np.concatenate([[1.0], 1 - np.cumsum(self.p[seen])])
        fpr[-1] = 0.0
        fnr = np.concatenate([[0.0], np.cumsum(self.q[seen])])
        return checks.like(x, np.interp(x, fpr[::-1], fnr[::-1]))

    @overload
    def privacy_profile(self, epsilon: float) -> float: ...
    @overload
    def privacy_profile(self, epsilon: Floats) -> Array: ...
    def privacy_profile(self, epsilon: float | Floats) -> float | Array:
        """Least δ for which P and Q are (ε, δ)-indistinguishable: `max(1 − alpha(e^ε), 1 − beta(e^−ε))`."""
        epsilon = checks.nonnegative("epsilon", epsilon)
        with np.errstate(over="ignore"):
            delta = np.maximum(1 - self.alpha(np.exp(epsilon)), 1 - self.beta(np.exp(-epsilon)))
        return checks.like(epsilon, delta)
