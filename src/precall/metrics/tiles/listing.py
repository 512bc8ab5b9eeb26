"""All pairs of two sample sets that can matter for a k-NN quantity, as a list: the sweep on a GPU.

Kernels (`cuda_kernels`) compute the products in half precision and keep only two things of them:

1. a *threshold* for each sample that at least `size` others are below: the size-th smallest of the minima of upper
   bounds over groups of columns. A random part of the columns is enough;
2. the *list* of pairs whose lower bound is below a threshold or a radius of one of its samples.

A list has some tens of pairs per sample. Whatever its bounds leave open is decided by exact float64 distances of listed
pairs, so that all results equal those of float64 brute force. Lists can grow too long: if distances are tied, if bounds
are wider than the distances (tight clusters far from the centre), or if thousands of points share a ball. Then there is
no list, and the tile path is taken. This module imports torch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from precall.metrics.tiles.bounds import LARGEST, ROUNDINGS, Both, Halves, halves
from precall.metrics.tiles.clouds import Cloud, Pairs, common_centre, ranges, ratio

if TYPE_CHECKING:
    from precall.metrics.tiles.cuda_steps import CudaSteps, Polynomial

FEW, MANY = 4, 8  # the part of the columns from which thresholds come: 1/4 for many neighbours, 1/8 for few
GROUP = 64  # largest number of columns that share a minimum
MINIMA = 1 << 28  # group minima that are held at once: 1 GiB
ROOM = (8, 128)  # pairs per sample and neighbour that a list has room for, at the first and at the second attempt
MOST = 1 << 28  # pairs that a list may have: 3 GiB
SMALLEST_WEIGHT = 2.0**-120


class Listing:
    """Two sample sets, prepared for lists of pairs. If both are the same set, each pair is listed once, with i < j."""

    def __init__(self, steps: CudaSteps, left: Cloud, right: Cloud) -> None:
        self.steps, self.left, self.right = steps, left, right
        self.centre = common_centre(left, right)
        first = steps.rounded(left, self.centre)
        self.sides = halves(first, first if left is right else steps.rounded(right, self.centre), left.dimension)
        self.unit = self.sides[0].unit  # of the factors' bounds; everything else is in units of the samples

    def rests(self) -> Both:
        """What the factors leave out, so that products have the accuracy of float32."""
        clouds = (self.left,) if self.left is self.right else (self.left, self.right)
        rests: list[Any] = [self.steps.rounded(cloud, self.centre, rest=True).rest for cloud in clouds]
        return rests[0], rests[-1]

    def thresholds(self, of: int, size: int, radii: Tensor | None = None) -> Tensor:
        """Squared distances that at least `size` samples of the other set are within, one per sample of side `of`."""
        rows, others = self.sides[of], self.sides[1 - of]
        n, m = len(rows.scale), len(others.scale)
        part = min(m, max(-(-m // (FEW if size > FEW else MANY)), 4 * GROUP * size))
        group = GROUP
        while group > 2 and part // group < 4 * size:
            group //= 2
        chosen = spread(m, part // group, group, rows.scale.device)
        weights = _weights(radii, others, self.unit)[:, chosen].contiguous()
        if part // group < size:
            return torch.full((len(weights), n), torch.inf, dtype=torch.float64, device=rows.scale.device)
        found = []
        for some in ranges(n, max(1, MINIMA * group // (part * len(weights)))):
            minima = self.steps.minima(rows, others, weights, chosen, some=slice(*some), group=group)
            found.append(minima.topk(size, dim=2, largest=False).values[..., -1])
        reach = torch.cat(found, 1).double() * (1 + 4 * ROUNDINGS)
        reach[0] *= self.unit
        return reach

    def pairs(
        self, limits: Both, neighbors: int, ratios: Both | None = None, polynomial: Polynomial | None = None
    ) -> Pairs | None:
        """The pairs with d² ≤ limit_i or d² ≤ limit_j or d² ≤ radius_i² · ratio_j, and a few more; None if too many.

        They are in no order. `ratios` holds the radius_i² and the ratio_j, several of each. The sums of a `polynomial`
        are computed with the list.
        """
        left, right = self.sides
        bounds = left.limit(limits[0]), right.limit(limits[1])
        factors = bounds[0][None][:0], bounds[1][None][:0]
        if ratios is not None:
            # a radius of 0 counts: a point at the centre of such a ball is on its boundary
            squared = left.limit(ratios[0]).clamp(min=SMALLEST_WEIGHT)
            factors = torch.where(ratios[0] < 0, -1.0, squared), ratios[1].clamp(max=LARGEST * 8).float()
        for room in ROOM:
            space = room * (len(left.scale) + len(right.scale)) // 2 * (16 + neighbors)
            every = len(left.scale) * len(right.scale)
            found = self.steps.collect(left, right, bounds, factors, min(max(2 * every, 4096), space, MOST), polynomial)
            if found is not None:
                return self._bounded(*found)
        return None

    def _bounded(self, i: Tensor, j: Tensor, low: Tensor) -> Pairs:
        low = low.double() * self.unit
        return Pairs(i, j, low, low + 2 * (self.sides[0].slack[i] + self.sides[1].slack[j]))


def spread(m: int, groups: int, size: int, device: torch.device) -> Tensor:
    """Random numbers below m, all different, group by group: each group and all of them are spread evenly.

    So are groups of columns, whatever the order of the samples: near samples are rarely in the same group.
    """
    part = groups * size
    strata = torch.arange(part, device=device).view(size, groups).T.flatten()
    first = strata * m // part
    inside = torch.rand(part, dtype=torch.float64, generator=torch.Generator(device).manual_seed(0), device=device)
    return first + (inside * ((strata + 1) * m // part - first)).long()


def _weights(radii: Tensor | None, others: Halves, unit: float) -> Tensor:
    """1 for every sample, and unit/r² for every ball, ∞ for those that do not count or have radius 0."""
    ones = torch.ones((1, len(others.scale)), device=others.scale.device)
    if radii is None:
        return ones
    weights = (unit * (1 + ROUNDINGS) / radii.T).float()
    return torch.cat([ones, torch.where(radii.T > 0, weights, torch.inf)])


def needed(pairs: Pairs, limits: Both, ratios: Both) -> Pairs:
    """Those of a longer list that these limits require (see `Listing.pairs`)."""
    low, i, j = pairs.low, pairs.i, pairs.j
    near = (low <= limits[0][i]) | (low <= limits[1][j])
    for radii, times in zip(*ratios, strict=True):
        near |= low <= radii[i] * times[j]
    return pairs.only(near)


def nearest(
    steps: CudaSteps, left: Cloud, right: Cloud, pairs: Pairs, size: int, radii: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The `size` smallest d² of each sample of `left` over its listed pairs, in order, and their indices."""
    if radii is not None:
        pairs = pairs.only(radii[pairs.j] >= 0)
        low, high = (ratio(bound, radii[pairs.j]) for bound in (pairs.low, pairs.high))
        pairs = replace(pairs, low=low - low.abs() * 2.0**-40, high=high * (1 + 2.0**-40))
    # nothing whose lower bound exceeds the size-th smallest upper bound can be among the smallest
    limit = steps.smallest(pairs.starts(left.n), pairs.high, size)[0][:, -1]
    pairs = pairs.only(pairs.low <= limit[pairs.i])
    exact = steps.settle(left, right, pairs.i, pairs.j)
    if radii is not None:
        exact = ratio(exact, radii[pairs.j])
    values, places = steps.smallest(pairs.starts(left.n), exact, size)
    return values, torch.cat([pairs.j, pairs.j.new_full((1,), -1)])[places]  # place −1 is the last one
