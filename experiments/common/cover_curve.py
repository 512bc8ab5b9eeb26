"""Precision-recall cover at given slopes, with its tie term: the theorem behind the metric `cover`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from precall.metrics.neighbors.scores import Neighborhoods
from precall.theory import checks
from precall.theory.arrays import Array, Counts
from precall.theory.chance import expected_recall_cover


@dataclass(frozen=True, eq=False)
class CoverCurve:
    """A precision-recall curve estimated from k-NN balls. All arrays have the shape of `lam`.

    Attributes:
        lam: The slopes λ.
        precision_cover: PC, the share of fakes whose ball contains enough reals; estimates Q(λp ≥ q).
        recall_cover: RC, the share of reals whose ball contains enough fakes; estimates P(q ≥ λp).
        ties: Share of reals whose ball contains exactly the required number of fakes; estimates P(λp = q).
        chance: E[alpha] under P = Q at these sample sizes.
        k: k', the number of neighbours that defines a ball.
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
        """Precision at slope λ, PC + λ RC − λ ties. It is not clipped: noise may lift it above min(1, λ)."""
        return self.precision_cover + self.lam * (self.recall_cover - self.ties)

    @property
    def beta(self) -> Array:
        """Recall at slope λ, alpha / λ (NaN or ∞ at λ = 0). It is not clipped."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.alpha / self.lam


def cover_curve(*, lam: npt.ArrayLike, fakes_in_ball: Counts, reals_in_ball: Counts, k: int) -> CoverCurve:
    """Compute the precision-recall curve from precision-recall cover, including the tie term.

        alpha(λ) = PC_{k'/λ, k'} + λ RC_{λk', k'} − λ ties,        k' = `k`

    A ball of k' fakes has mass k'/M under Q, so λp ≥ q there requires k'N/(λM) reals. A ball of k' reals has mass k'/N
    under P, so q ≥ λp there requires λk'M/N fakes. A ball with exactly the required number has λp = q and would count
    on both sides. `ties` is the share of reals with such a ball, and it is subtracted once. The result is the error of
    a single test, "real if λp ≥ q": its error on fakes plus λ times its error on reals. Required numbers are rounded if
    they are within a relative distance of 1e-9 of an integer, so that λ = 0.07 and k' = 100 require 7.

    The limit is alpha(λ) as k' → ∞ with k'/N, k'/M → 0. At finite k' the counts are noisy: under P = Q, N = M and λ = 1
    the expectation, reported as `chance`, is about 1 − 0.28/√k' instead of 1. Values are not clipped to [0, min(1, λ)].

    Args:
        lam: Slopes λ ≥ 0, finite: a number or an array.
        fakes_in_ball: Number of fakes in the k'-NN ball of each real, shape (N,).
        reals_in_ball: Number of reals in the k'-NN ball of each fake, shape (M,).
        k: k', the number of neighbours that defines a ball.

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
        reals = _near_integers_rounded(k * sizes["n_real"] / (lam * sizes["n_fake"]))  # k'N/(λM)
    fakes = _near_integers_rounded(lam * k * sizes["n_fake"] / sizes["n_real"])  # λk'M/N
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


def cover_curve_of(found: Neighborhoods, lam: npt.ArrayLike, k: int | None = None) -> CoverCurve:
    """The curve at slopes `lam` from the counts of a sweep with k' = `k`, which may be omitted if there is only one."""
    (level,) = found.k if k is None else (k,)
    column = found.k.index(level)
    counts = {"fakes_in_ball": found.fakes_in_ball[:, column], "reals_in_ball": found.reals_in_ball[:, column]}
    return cover_curve(lam=lam, k=level, **counts)


def expected_precision_cover(*, n_real: int, n_fake: int, k: Any, k_prime: int) -> Any:
    """E[PC_{k,k'}] under P = Q: as `expected_recall_cover` with real and fake exchanged.

    Example:
        >>> round(float(expected_precision_cover(n_real=500, n_fake=1000, k=1, k_prime=5)), 4)
        0.869

    References:
        Cheema and Urner (2023), Def. 2; docs/theory.md, Neighbours.
    """
    return expected_recall_cover(n_real=n_fake, n_fake=n_real, k=k, k_prime=k_prime)


def _share_at_least(counts: Counts, required: Array) -> Array:
    """mean_i 1{counts_i ≥ required}, for every entry of `required`."""
    return np.asarray(1 - np.searchsorted(np.sort(counts), required) / len(counts))


def _near_integers_rounded(numbers: Array) -> Array:
    """Round numbers within a relative distance of 1e-9 of an integer: rounding errors in λ moved them."""
    rounded = np.round(numbers)
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(numbers - rounded) <= 1e-9 * np.maximum(rounded, 1), rounded, numbers)
