"""One direction of the sweep: fakes in the balls of the reals, one piece of the fakes at a time.

The balls of the fakes, which recall needs, depend on all pairs of fakes. The balls of the reals do not, so that the
fakes can be counted in pieces, in any order and on any machine. Every comparison has the result of float64 brute force,
as in `sweep`, so the counts do not depend on how the fakes are cut. This module imports torch.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from torch import Tensor

from precall.metrics.neighbors.ball_scores import cover_threshold
from precall.metrics.neighbors.ball_sums import FakeCounts, Shortest
from precall.metrics.neighbors.copies import CopySums, Nearest, copy_ratios
from precall.metrics.neighbors.influence import BallSums
from precall.metrics.pairs.shortlists import Depth, Shortlist
from precall.metrics.pairs.tallies import Tally, given, kept
from precall.metrics.tiles.clouds import Cloud, check_range, common_centre, squared_distances
from precall.metrics.tiles.distances import Frame, tiles
from precall.metrics.tiles.tile import group_minima
from precall.theory.arrays import Counts

if TYPE_CHECKING:
    from precall.metrics.inputs.features import Features
    from precall.metrics.neighbors.sweep import Balls


def count_fakes(
    balls: Balls, clipped: Balls, fakes: Features, *, ties: str, first_row: int, gallery: int
) -> FakeCounts:
    """Count a piece of fakes in the balls of the reals.

    Args:
        balls: Balls of the reals, for one k.
        clipped: The same balls with clipped radii.
        fakes: Checked features, shape (m, d), m ≥ 1, on the device of the reals.
        ties: "closed" or "open".
        first_row: Index in the shard of the first of these fakes. The shard has index 0.
        gallery: Number of fakes in the lists of the least realistic ones and of the closest copies.
    """
    found = _Sweep(balls, clipped, fakes, ties)
    rows = np.arange(first_row, first_row + len(fakes))[None]
    reals, copy = found.nearest_reals(), balls.nearest
    ratios, nearest_real = copy_ratios(reals, copy), reals.index[None, :, 0]
    squared, index = found.nearest_fakes()
    lined = partial(Shortest.of, shard=0, row=rows, real=nearest_real, size=gallery)
    return FakeCounts(
        found.sums(found.plain),
        found.sums(found.clipped),
        CopySums.of(ratios, reals, copy),
        Shortest.of(squared, shard=0, row=index + first_row, real=np.arange(len(squared))[:, None]),
        lined(found.realism()[None]),
        lined(ratios[None]),
    )


class _Sweep:
    """All tiles of the reals and a piece of the fakes, read once."""

    def __init__(self, balls: Balls, clipped: Balls, fakes: Features, ties: str) -> None:
        self.balls, (k,) = balls, balls.k
        size = cover_threshold(k) + 1  # as many nearest fakes as the interval of recall cover needs
        own, other = balls.cloud, Cloud(fakes, size)
        self.own, self.other = own, other
        closed, settle = ties == "closed", partial(squared_distances, own, other)
        self.plain, self.clipped = (
            Tally(kept(own, one.squared_margins), closed, own, other) for one in (balls, clipped)
        )
        self.fakes = Shortlist(own.n, size, settle, own.device)
        self.reals = Shortlist(other.n, min(2, own.n), lambda fake, real: settle(real, fake), own.device)
        self.depth = Depth(self.plain.squared_radii[:, 0], float(np.median(balls.radii[:, 0])), other.n, settle)
        self._read(common_centre(own, other))

    def _read(self, centre: Tensor) -> None:
        frames = Frame(self.own, centre), Frame(self.other, centre)
        check_range("fake", frames[1].squared_norms)
        for tile in tiles(*frames):
            minima, turned = group_minima(tile.low), tile.transposed()
            for reader in (self.fakes, self.plain, self.clipped):
                reader.read(tile, minima)
            self.reals.read(turned, group_minima(turned.low))
            self.depth.read(tile)

    def sums(self, tally: Tally) -> BallSums:
        inside = tally.around > 0
        owner = self.own.position[tally.owner.where(inside, 0)]
        return BallSums.of(given(self.own, tally.inside), *(given(self.other, one) for one in (tally.around, owner)))

    def nearest_fakes(self) -> tuple[npt.NDArray[np.float64], Counts]:
        """Squared distances of the nearest fakes of each real, and their rows in the piece."""
        squared, index = self.fakes.result()
        return given(self.own, squared), given(self.own, self.other.position[index])

    def nearest_reals(self) -> Nearest:
        """The two nearest reals of each fake."""
        squared, index = self.reals.result()
        return Nearest(given(self.other, self.own.position[index]), np.sqrt(given(self.other, squared)))

    def realism(self) -> npt.NDArray[np.float64]:
        return given(self.other, self.depth.result()[0][:, 0].rsqrt())
