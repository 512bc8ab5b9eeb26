"""The discriminator of the public code of PR-GANs, for reproduction."""

from __future__ import annotations

import math
from dataclasses import dataclass

from precall.theory.divergences import ChiSquared
from precall.theory.elementwise import Number, functions

LEAST = 1e-6  # the smallest ratio, so that its logarithm has a slope of 0 there and not none


@dataclass(frozen=True)
class LinearChiSquared(ChiSquared):
    """χ² with a linear discriminator, cut off at −2: T = max(w, −2), so that r = 1 + w/2.

    Where w < −2 the ratio is 0 and has no slope. The row "chi2" of the divergences has a slope everywhere.

    Example:
        >>> [round(float(LinearChiSquared().conjugate_of_logit(w)), 6) for w in (2.0, -9.0)]  # T + T²/4
        [3.0, -1.0]

    References:
        Verine (2024), Tab. 5.1 and docs/errata.md, VER-39.
    """

    name = "linear_chi2"

    def activation(self, w: Number) -> Number:
        """max(w, −2)."""
        return functions(w).clip(w, -2.0, math.inf)

    def log_ratio(self, w: Number) -> Number:
        """log(1 + w/2)."""
        xp = functions(w)
        return xp.log(xp.clip(1 + w / 2, LEAST, math.inf))
