"""Monte Carlo estimate of the spectrum if both log-densities are known (flows, toys), with its sampling error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from precall.metrics.scores.score import Interval
from precall.theory import checks
from precall.theory.checks import Array
from precall.theory.spectrum import RatioSpectrum, pooled_weights


@dataclass(frozen=True, eq=False)
class Densities:
    """Spectrum from exact log-ratios at samples of both distributions.

    Attributes:
        spectrum: The spectrum; each sample is a cell with its weight in the pooled sample.
        log_ratio_real: log p/q at the real samples, shape (n,).
        log_ratio_fake: log p/q at the fake samples, shape (m,).
    """

    spectrum: RatioSpectrum
    log_ratio_real: Array
    log_ratio_fake: Array

    def interval(self, lam: float, level: float = 0.95) -> Interval:
        """Normal interval of `alpha(λ)` at one slope, for the Monte Carlo error of both samples (delta method).

        Args:
            lam: A slope in (0, ∞).
            level: Nominal coverage.
        """
        from scipy.stats import norm

        lam = float(checks.nonnegative("lam", lam, infinite=False))
        alpha = self.spectrum.alpha(lam)
        half = norm.isf((1 - checks.level("level", level)) / 2) * self._standard_error(lam)
        return Interval(
            max(0.0, alpha - half), min(1.0, lam, alpha + half), level, "alpha(λ) at this λ, given the densities"
        )

    def _standard_error(self, lam: float) -> float:
        """Standard error of alpha(λ) by the delta method.

        The influence of sample i on `Σ min(λ p_i/Σp, q_i/Σq)` is `min(λ p_i, q_i) − A q_i − λ B p_i`, where
        alpha = A + B λ.
        """
        n, m = self.log_ratio_real.size, self.log_ratio_fake.size
        variance = 0.0
        A, B = (float(part.sum()) for part in self._clipped(lam))
        for log_u, size in ((self.log_ratio_real, n), (self.log_ratio_fake, m)):
            p, q = pooled_weights(log_u, n, m)
            variance += size * float(np.var(np.minimum(lam * p, q) - A * q - B * lam * p, ddof=1))
        return float(np.sqrt(variance))

    def _clipped(self, lam: float) -> tuple[Array, Array]:
        """The masses q of cells with q ≤ λp, and the masses p of cells with λp < q."""
        p, q = self.spectrum.p, self.spectrum.q
        return q[q <= lam * p], p[lam * p < q]


def known_densities(*, real: Any, fake: Any, log_p: Callable[[Any], Any], log_q: Callable[[Any], Any]) -> Densities:
    """Spectrum of a model with a known density against data with a known density.

    Args:
        real: Samples of P, in any form that `log_p` and `log_q` accept.
        fake: Samples of Q.
        log_p: Function that returns the log-density of the data at samples, shape (n,); −∞ outside its support.
        log_q: Function that returns the log-density of the model at samples.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=10_000), rng.normal(1, 1, size=10_000)
        >>> found = known_densities(real=x, fake=y, log_p=lambda t: -t**2 / 2, log_q=lambda t: -(t - 1) ** 2 / 2)
        >>> round(found.spectrum.alpha(1.0), 2)  # exactly 0.617
        0.62
    """
    ratios = {
        name: checks.vector(f"log_p({name}) - log_q({name})", np.subtract(log_p(x), log_q(x)), infinite=True)
        for name, x in (("real", real), ("fake", fake))
    }
    return Densities(RatioSpectrum.from_log_ratios(**ratios), ratios["real"], ratios["fake"])
