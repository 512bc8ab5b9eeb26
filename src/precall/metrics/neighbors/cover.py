"""The precision-recall curve read from counts in k-NN balls: precision-recall cover over all slopes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from precall.theory import checks
from precall.theory.arrays import Array, Counts
from precall.theory.chance import expected_precision_cover, expected_recall_cover


@dataclass(frozen=True, eq=False)
class CoverCurve:
    """The precision-recall curve as k-NN balls see it; arrays of the shape of `lam`.

    Attributes:
        lam: The slopes λ.
        precision_cover: PC, share of fakes whose ball holds enough reals: estimates Q(λp ≥ q).
        recall_cover: RC, share of reals whose ball holds enough fakes: estimates P(q ≥ λp).
        ties: Share of reals whose ball holds exactly enough fakes: estimates P(λp = q).
        chance: E[alpha] under P = Q at these sample sizes.
        k: k', the neighbours that define a ball.
        n_real: Number of real samples.
        n_fake: Number of fake samples.
    """

    lam: Array
    precision_cover: Array
    recall_cover: Array
    ties: Array
    chance: Array
    k: int
    n_real: int
    n_fake: int

    @property
    def alpha(self) -> Array:
        """Precision at slope λ, PC + λ RC − λ ties. Not clipped: noise may carry it above min(1, λ)."""
        return self.precision_cover + self.lam * (self.recall_cover - self.ties)

    @property
    def beta(self) -> Array:
        """Recall at slope λ, alpha / λ (NaN or ∞ at λ = 0). Not clipped."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.alpha / self.lam


def cover_curve(*, lam: npt.ArrayLike, fakes_in_ball: Counts, reals_in_ball: Counts, k: int) -> CoverCurve:
    """The precision-recall curve from precision-recall cover, tie term included.

        alpha(λ) = PC_{k'/λ, k'} + λ RC_{λk', k'} − λ ties,        k' = `k`

    A ball of k' fakes has mass k'/M, so λp ≥ q there asks for k'N/(λM) reals; a ball of k' reals asks for λk'M/N fakes
    to have q ≥ λp. A ball with exactly that many says λp = q and would count on both sides: `ties` is the share of
    reals with such a ball, and is taken off once. What is left is one test, "real where λp ≥ q": its error on fakes
    plus λ times its error on reals. Asked-for numbers within 1e-9 (relatively) of a whole one are that whole one, so
    that λ = 0.07 and k' = 100 ask for 7.

    The limit k' → ∞ with k'/N, k'/M → 0 is alpha(λ). At finite k' counts are noisy: under P = Q, N = M and λ = 1 the
    expectation, reported as `chance`, is about 1 − 0.28/√k' instead of 1. Nothing is clipped to [0, min(1, λ)].

    Args:
        lam: Slopes λ ≥ 0, finite: a number or an array.
        fakes_in_ball: Fakes in the ball of each real's k' nearest other reals, shape (N,).
        reals_in_ball: Reals in the ball of each fake's k' nearest other fakes, shape (M,).
        k: k', the neighbours that define a ball.

    Returns:
        The curve at `lam`.

    Example:
        >>> counts = {"fakes_in_ball": np.array([0, 1, 2, 3]), "reals_in_ball": np.array([2, 2, 0, 0])}
        >>> curve = cover_curve(lam=[0.5, 1.0], k=2, **counts)
        >>> curve.precision_cover, curve.recall_cover, curve.ties
        (array([0. , 0.5]), array([0.75, 0.5 ]), array([0.25, 0.25]))
        >>> curve.alpha
        array([0.25, 0.75])

    References:
        Cheema and Urner (2023), Def. 2; Verine (2024), Thm 4.3.3 with its tie term (docs/errata.md, VER-34).
    """
    lam = checks.nonnegative("lam", lam, infinite=False)
    sizes = {"n_real": len(fakes_in_ball), "n_fake": len(reals_in_ball)}
    with np.errstate(divide="ignore"):
        reals = _whole(k * sizes["n_real"] / (lam * sizes["n_fake"]))
    fakes = _whole(lam * k * sizes["n_fake"] / sizes["n_real"])
    more_fakes = np.floor(fakes) + 1
    recall_cover = _share_at_least(fakes_in_ball, fakes)
    return CoverCurve(
        lam=lam,
        precision_cover=_share_at_least(reals_in_ball, reals),
        recall_cover=recall_cover,
        ties=recall_cover - _share_at_least(fakes_in_ball, more_fakes),
        chance=expected_precision_cover(k=reals, k_prime=k, **sizes)
        + lam * expected_recall_cover(k=more_fakes, k_prime=k, **sizes),
        k=k,
        **sizes,
    )


def _share_at_least(counts: Counts, wanted: Array) -> Array:
    """mean_i 1{counts_i ≥ wanted}, for every entry of `wanted`."""
    return np.asarray(1 - np.searchsorted(np.sort(counts), wanted) / len(counts))


def _whole(numbers: Array) -> Array:
    """Numbers within 1e-9 (relatively) of a whole one as that whole one: what rounding in λ moved."""
    whole = np.round(numbers)
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(numbers - whole) <= 1e-9 * np.maximum(whole, 1), whole, numbers)
