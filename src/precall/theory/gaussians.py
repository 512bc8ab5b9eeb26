"""Order-1 frontiers of two Gaussians, in closed form (docs/theory.md, Frontiers)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from precall.theory import checks
from precall.theory.arrays import Array
from precall.theory.frontiers import SIDES, Frontier


def gaussian_frontier(
    *,
    real_mean: ArrayLike,
    real_cov: ArrayLike,
    fake_mean: ArrayLike,
    fake_cov: ArrayLike,
    side: str = "exclusive",
    points: int = 101,
) -> Frontier:
    """Order-1 frontier of two Gaussians in closed form, where R is also a Gaussian.

    Exclusive: R mixes the natural parameters, `S_R⁻¹ = w S_Q⁻¹ + (1 − w) S_P⁻¹`; this is the exact frontier over all
    distributions. Inclusive: R mixes the moments, `m_R = w m_Q + (1 − w) m_P`,
    `S_R = w S_Q + (1 − w) S_P + w(1 − w) δδᵀ`; this is the frontier over *Gaussian* R only, and the plain mixture
    `w Q + (1 − w) P` has smaller losses. The covariances must be symmetric and positive definite; the weights w of Q
    are equally spaced.

    Example:
        >>> curve = gaussian_frontier(real_mean=[0.0], real_cov=[[1.0]], fake_mean=[2.0], fake_cov=[[1.0]], points=3)
        >>> curve.precision_loss.tolist(), curve.recall_loss.tolist()
        ([2.0, 0.5, 0.0], [0.0, 0.5, 2.0])

    References:
        Djolonga et al. (2020), Prop. 4 (corrected: docs/errata.md, DJO-7); docs/theory.md, Frontiers.
    """
    delta, s = _whitened(real_mean, real_cov, fake_mean, fake_cov)
    side, w = checks.choice("side", side, SIDES), np.linspace(0, 1, checks.points(points))[:, None]
    if side == "exclusive":
        variance = s / (w + (1 - w) * s)  # S_R⁻¹ = w S_Q⁻¹ + (1 − w) S_P⁻¹, Djolonga et al. (2020), Prop. 4
        mean = variance * w * delta / s
        precision_loss, recall_loss = _kl(mean - delta, variance, s), _kl(mean, variance, np.ones_like(s))
    else:
        precision_loss, recall_loss = _moment_losses(delta, s, w)
    return Frontier(1.0, side, np.maximum(precision_loss, 0.0), np.maximum(recall_loss, 0.0), weight=w[:, 0])


def _whitened(
    real_mean: ArrayLike, real_cov: ArrayLike, fake_mean: ArrayLike, fake_cov: ArrayLike
) -> tuple[Array, Array]:
    """Coordinates in which P = N(0, I) and Q = N(delta, diag s): whiten P, then rotate to the axes of Q."""
    from scipy.linalg import solve_triangular

    mean_p, mean_q = checks.vector("real_mean", real_mean), checks.vector("fake_mean", fake_mean)
    checks.same_length(real_mean=mean_p, fake_mean=mean_q)
    root_p = _cholesky("real_cov", real_cov, mean_p.size)
    root_q = _cholesky("fake_cov", fake_cov, mean_p.size)
    half = solve_triangular(root_p, root_q, lower=True)
    axes, scales, _ = np.linalg.svd(half)
    return np.asarray(axes.T @ solve_triangular(root_p, mean_q - mean_p, lower=True)), np.asarray(scales**2)


def _cholesky(name: str, cov: ArrayLike, dim: int) -> Array:
    """Lower Cholesky factor of a covariance, which must be symmetric and positive definite."""
    cov = checks.numbers(name, cov)
    if cov.shape != (dim, dim):
        raise ValueError(f"`{name}` must have shape ({dim}, {dim}), since its mean has {dim} entries; got {cov.shape}.")
    if not np.allclose(cov, cov.T, rtol=1e-6, atol=1e-12 * np.abs(cov).max()):
        raise ValueError(f"`{name}` must be symmetric; it differs from its transpose by {np.abs(cov - cov.T).max():g}.")
    try:
        return np.asarray(np.linalg.cholesky((cov + cov.T) / 2))
    except np.linalg.LinAlgError:
        raise ValueError(
            f"`{name}` must be positive definite; got smallest eigenvalue {np.linalg.eigvalsh(cov)[0]:.3g}. "
            "Use more samples than dimensions, fewer dimensions, or add a small multiple of the identity."
        ) from None


def _kl(delta: Array, variance: Array, of: Array) -> Array:
    """`KL(N(·, diag variance) ‖ N(·, diag of))` with means delta apart, over the last axis."""
    ratio = variance / of
    return np.asarray((ratio - 1 - np.log(ratio) + delta**2 / of).sum(axis=-1) / 2)


def _moment_losses(delta: Array, s: Array, w: Array) -> tuple[Array, Array]:
    """`KL(P‖R)` and `KL(Q‖R)` for `R = N(w δ, V + w(1−w) δδᵀ)`, `V = w s + 1 − w` (Sherman-Morrison)."""
    V, k = w * s + (1 - w), w[:, 0] * (1 - w[:, 0])
    norm = np.sum(delta**2 / V, axis=-1)  # δᵀ V⁻¹ δ
    log_det = np.log(V).sum(axis=-1) + np.log1p(k * norm)

    def loss(variance: Array, shift: Array) -> Array:
        trace = np.sum(variance / V, axis=-1) - k * np.sum(variance * delta**2 / V**2, axis=-1) / (1 + k * norm)
        distance = shift**2 * norm / (1 + k * norm)
        return np.asarray((trace + distance - s.size + log_det - np.log(variance).sum()) / 2)

    return loss(np.ones_like(s), w[:, 0]), loss(s, 1 - w[:, 0])
