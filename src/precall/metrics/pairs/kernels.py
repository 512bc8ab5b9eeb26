"""Sums over the polynomial kernel matrices of KID, read off the products of the tiles.

`KernelSums` reads the inner products of a sweep before they become distances, so that a sweep and KID together take one
pass over the pairs. This module imports torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from precall.metrics.tiles.clouds import Cloud, device_kind, ranges
from precall.metrics.tiles.cuda_steps import Polynomial, steps_for
from precall.metrics.tiles.distances import DOUBLE, Frame, Precision, frames, tiles
from precall.metrics.tiles.listing import Listing
from precall.theory.arrays import Array

AT_ONCE = {"cpu": 1 << 15, "accelerator": 1 << 24}  # kernel values that are computed at once: .25, 128 MiB

HALVES = 512  # number of columns from which half precision is enough
LEAST_VALUE, LARGEST_VALUE = 2.0**-40, 2.0**12  # of kernels that are summed in float32


@dataclass(frozen=True)
class Kernel:
    """The kernel `((x·y/d + 1)^degree − 1 − shift) / size`. The shift avoids cancellation in sums of squares."""

    degree: int  # degree of the polynomial
    dimension: int  # d, the number of columns
    shift: float  # A constant near the mean of the kernel
    size: float  # 1, or the largest value of the kernel if its square could overflow
    single: bool  # whether both sample sets are float32. Products are then computed in float32, otherwise in float64

    def __call__(self, u: Any, k: Any) -> Any:
        """Values of the kernel at u = x·y/d, written into `k`; both are arrays or both are tensors."""
        power(u, self.degree, k)
        k -= self.shift
        if self.size != 1:
            k /= self.size
        return k


def power(u: Any, degree: int, value: Any) -> Any:
    """(1 + u)^degree − 1, written into `value`, by Horner's rule: small u are not lost to the 1."""
    value[...] = u
    for term in range(degree - 1, 0, -1):
        value += math.comb(degree, term)
        value *= u
    return value


class KernelSums:
    """Row sums, column sums and the sum of squares of a kernel matrix, in float64.

    Within one sample set, pairs of a sample with itself are left out, and the column sums are the row sums. A sample
    that represents several equal input rows counts as often.
    """

    row_weight: Tensor
    column_weight: Tensor

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def start(self, left: Frame, right: Frame) -> Precision:
        """Prepare to read the products of left × right; returns the precision in which they must be computed."""
        self._prepare(left.cloud, right.cloud, left.centre)
        precision = Precision.of(left, right)
        return precision if self.kernel.single and precision.roundoff == 0 else DOUBLE

    def polynomial(self, listing: Listing) -> Polynomial | None:
        """The sums, to be computed with the pairs of a listing; None if the accuracy of its products is not enough.

        Products have the accuracy of float32, or of half precision in many dimensions, where independent rounding
        errors average out and move KID by less than 1 % of its standard error. This is not enough if the samples are
        float64, or if values of the kernel are too large or too small for float32.
        """
        lengths = torch.stack([side.squared_norms.max() for side in listing.sides]).sqrt()
        reach = float(lengths.max() + listing.centre.norm())
        degree, d, shift = self.kernel.degree, self.kernel.dimension, self.kernel.shift
        largest = (1 + reach**2 / d) ** degree - 1 + abs(shift)
        if not (self.kernel.single and self.kernel.size == 1 and LEAST_VALUE < largest < LARGEST_VALUE):
            return None
        self._prepare(listing.left, listing.right, listing.centre)
        # as fine as fits: no sum may reach 2⁶³
        totals = [len(side.stand_in) * largest for side in (self.left, self.right)]
        fine, coarse = (2.0 ** (62 - math.ceil(math.log2(most))) for most in (max(totals), totals[0] * totals[1]))
        terms, weights = (self.row_terms, self.column_terms), (self.row_weight, self.column_weight)
        return Polynomial(degree, d, shift, (fine, coarse), terms, weights, None if d >= HALVES else listing.rests())

    def take(self, listing: Listing, found: Polynomial | None) -> None:
        """Take the sums that were computed with a listing; if there are none, read tiles."""
        if found is None:
            for _ in tiles(*frames(listing.left, listing.right), products=self):
                pass
            return
        self.rows, self.columns, self.squares = found.rows, found.columns, found.squares
        if listing.left is listing.right and listing.left.weight is not None:
            self._add_copies(listing.left)

    def _add_copies(self, cloud: Cloud) -> None:
        """Add the pairs of different input rows that one kept row represents."""
        u = torch.cat([rows.square().sum(1) / self.kernel.dimension for rows in cloud.blocks()])
        values, others = self.kernel(u, u.clone()), self.row_weight - 1
        self.rows += others * values
        self.squares += float((self.row_weight * others) @ values**2)

    def _prepare(self, left: Cloud, right: Cloud, centre: Tensor) -> None:
        self.left, self.right, d = left, right, self.kernel.dimension
        # x·y = z·w + z·c + w·c + c·c, with z = x − c and w = y − c
        self.row_terms = _along_centre(left, centre) / d
        self.column_terms = (_along_centre(right, centre) + centre @ centre) / d
        self.rows = torch.zeros_like(self.row_terms)
        self.columns = self.rows if left is right else torch.zeros_like(self.column_terms)
        self.row_weight, self.column_weight = left.weights(), right.weights()
        self.squares = 0.0

    def read(self, products: Tensor, rows: slice, columns: slice) -> None:
        """Add a tile of −2 z·w, which is left unchanged."""
        (height, width), within = (part.stop - part.start for part in (rows, columns)), self.rows is self.columns
        step = min(height, max(1, AT_ONCE[device_kind(products.device)] // width))
        memory = torch.empty((2, step, width), dtype=torch.float64, device=products.device)
        products, memory, row_terms, column_terms = map(_array, (products, memory, self.row_terms, self.column_terms))
        for start, stop in ranges(height, step):
            here, (u, k) = slice(rows.start + start, rows.start + stop), memory[:, : stop - start]
            u[...] = products[start:stop, :width]
            u *= -0.5 / self.kernel.dimension
            u += column_terms[columns]
            u += row_terms[here, None]
            self.kernel(u, k)
            if within and rows == columns:
                self._leave_out_diagonal(k[:, start:stop], here)
            else:
                _array(self.columns)[columns] += _array(self.row_weight)[here] @ k
            self._add(k, here, columns, 2 if within and rows != columns else 1)

    def _leave_out_diagonal(self, k: Any, here: slice) -> None:
        """Set the pairs of a sample with itself to 0; those with equal input rows that it represents are added."""
        weight, diagonal = _array(self.row_weight)[here], list(range(len(k)))
        values = k[diagonal, diagonal]
        _array(self.rows)[here] += (weight - 1) * values
        self.squares += float((weight * (weight - 1)) @ values**2)
        k[diagonal, diagonal] = 0

    def _add(self, k: Any, here: slice, columns: slice, times: int) -> None:
        rows, row_weight, column_weight = map(_array, (self.rows, self.row_weight, self.column_weight))
        rows[here] += k @ column_weight[columns]
        k *= k
        self.squares += times * float(row_weight[here] @ (k @ column_weight[columns]))

    def result(self) -> tuple[Array, Array, float]:
        """The row sums and column sums of all input samples, and the sum of squares."""
        return self.left.expanded(self.rows), self.right.expanded(self.columns), self.squares


def _array(tensor: Any) -> Any:
    """A tensor of the CPU as an array in the same memory, because NumPy is twice as fast there on small pieces."""
    return tensor.numpy() if tensor.device.type == "cpu" else tensor


def _along_centre(cloud: Cloud, centre: Tensor) -> Tensor:
    """(x − c)·c of every row."""
    return torch.cat([(rows - centre) @ centre for rows in cloud.blocks()])


def kernel_sums(kernel: Kernel, real: Any, fake: Any) -> tuple[KernelSums, KernelSums, KernelSums]:
    """Sums of the kernel within the reals, within the fakes and between them, without a sweep."""
    x, y = Cloud(real, 0), Cloud(fake, 0)
    return _read(kernel, x, x), _read(kernel, y, y), _read(kernel, x, y)


def _read(kernel: Kernel, left: Cloud, right: Cloud) -> KernelSums:
    sums, steps = KernelSums(kernel), steps_for(left)
    if steps is not None:
        listing = Listing(steps, left, right)
        if (polynomial := sums.polynomial(listing)) is not None:
            nothing = [torch.full_like(side.slack, -torch.inf) for side in listing.sides]
            listing.pairs((nothing[0], nothing[1]), 0, polynomial=polynomial)
        sums.take(listing, polynomial)
        return sums
    for _ in tiles(*frames(left, right), products=sums):
        pass
    return sums
