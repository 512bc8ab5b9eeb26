"""How far computed squared distances are from the true ones, in every arithmetic that the sweep uses.

Let z = x − c and w = y − c for a centre c. A matrix product computes z·w from rounded factors z′, w′. With relative
rounding errors ‖z − z′‖ ≤ r‖z‖ and ‖w − w′‖ ≤ s‖w‖, and with sums of d products of which each addition has a relative
error of at most u,

    |fl(z′·w′) − z·w| ≤ (r + (1 + r)s + (1 + r)(1 + s)γ) ‖z‖‖w‖,     γ = a u / (1 − a u)

for a additions. Since 2‖z‖‖w‖ ≤ ‖z‖² + ‖w‖², the error of ‖z‖² + ‖w‖² − 2 z·w is at most ε‖z‖² + ε‖w‖², where ε is the
parenthesis (`relative_error`). Each sample has its own slack ε‖z‖²: subtracting the slack of both samples from a
computed distance gives a lower bound, and adding it gives an upper bound.

| factors | r, s | u | a |
|---|---|---|---|
| float64, float32 | 2⁻⁵³, 2⁻²⁴: the rounding of z | the same | d + 30 |
| TF32, bfloat16 | 2⁻¹⁰, 2⁻⁷ | 2⁻²⁴ | d + 30 |
| half precision | *measured*: max ‖z − z′‖/‖z‖, about 2⁻¹² | 2⁻²³: tensor cores truncate | 5d/4 + 64 |

In half precision each row has a scale of its own, a power of two, which is undone after the product, so that an outlier
does not push other rows to the end of the range. The 30 further additions of the first two lines cover the roundings of
the norms and of the bounds themselves. In half precision a further 2⁻²⁰ covers them, and an absolute term covers
underflow. Tensor cores align up to 16 products and a sum and truncate each of them: 17 errors per 16 products, 5 per 4
on the oldest (Higham, 2002, §3.1; Fasi et al., 2021).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

ROUNDINGS = 2.0**-20  # of norms and bounds in float32, relative to the squared norms
UNDERFLOW = 2.0**-100  # relative to the largest squared norm of both sets
LARGEST = 2.0**120  # limit in float32 that exceeds every squared distance

Both: TypeAlias = tuple[Tensor, Tensor]  # of the rows and of the columns


def relative_error(left: float, right: float, additions: float, unit: float) -> float:
    """ε of this module."""
    gamma = additions * unit / (1 - additions * unit)
    return left + (1 + left) * right + (1 + left) * (1 + right) * gamma


@dataclass(frozen=True, eq=False)
class Halves:
    """The factors of a sample set in half precision, and what is needed to bound d² from their products.

    The bounds are in units of `unit`: low_i + low_j − 2 scale_i scale_j (values_i · values_j) is a lower bound of d²,
    and the same with `high` an upper bound.
    """

    values: Tensor  # z′ with each row divided by its scale, shape (n, d padded to whole steps), float16
    scale: Tensor  # A power of two for each row, shape (n,)
    low: Tensor  # ‖z‖² less its slack
    high: Tensor  # ‖z‖² plus its slack
    squared_norms: Tensor  # ‖z‖² in float64, in units of the samples
    slack: Tensor  # slack of each row in float64, in units of the samples
    unit: float  # A power of four, at least the largest squared norm of both sets, in units of the samples

    def limit(self, squared: Tensor) -> Tensor:
        """Limits of d², given in units of the samples: at least as large, and no larger than `LARGEST`."""
        return (squared / self.unit * (1 + ROUNDINGS)).clamp(max=LARGEST).float()


@dataclass(frozen=True, eq=False)
class Rounded:
    """A sample set in half precision."""

    values: Tensor  # z′ with the largest value of each row between 2¹⁴ and 2¹⁵, padded to whole steps, float16
    exponent: Tensor  # power of two by which each row is multiplied to get z′, shape (n,)
    squared_norms: Tensor  # ‖z‖² in float64
    squared_errors: Tensor  # ‖z − z′‖² in float64
    rest: Tensor | None = None  # 2¹¹(z − z′) with the same powers of two, float16; None if it is not needed

    def largest(self) -> tuple[float, float]:
        """The largest ‖z‖², and the largest ‖z − z′‖/‖z‖."""
        norms = self.squared_norms
        relative = (self.squared_errors / norms).nan_to_num_(0.0)  # 0/0 for a sample at the centre
        norm, error = torch.stack([norms, relative]).amax(1).tolist()
        return norm, error**0.5 * (1 + ROUNDINGS)


def halves(first: Rounded, second: Rounded, dimension: int) -> tuple[Halves, Halves]:
    """The factors of two sets for their products with each other."""
    one, other = first.largest(), second.largest()
    epsilon = relative_error(one[1], other[1], 1.25 * dimension + 64, 2.0**-23) + ROUNDINGS
    exponent = (math.frexp(max(one[0], other[0]))[1] + 1) // 2
    found = _halves(first, epsilon, exponent)
    return found, found if second is first else _halves(second, epsilon, exponent)


def _halves(rounded: Rounded, epsilon: float, exponent: int) -> Halves:
    unit, norms = 4.0**exponent, rounded.squared_norms
    slack = epsilon * norms + UNDERFLOW * unit * (norms > 0)
    scale = torch.exp2((rounded.exponent - exponent).double()).float()
    low, high = (((norms + side * slack) / unit).float() for side in (-1, 1))
    return Halves(rounded.values, scale, low, high, norms, slack, unit)
