"""One direction of the sweep: fakes in the balls of the reals, one piece of the fakes at a time.

Recall needs the balls of the fakes, which depend on all pairs of fakes. The balls of the reals do not, so that the
fakes can be counted in pieces, in any order and on any machine, with the same counts. This module imports torch.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from precall.metrics.neighbors.ball_scores import CopySums, Nearest, copy_ratios, cover_threshold
from precall.metrics.neighbors.ball_sums import FakeCounts, Shortest
from precall.metrics.neighbors.influence import BallSums
from precall.metrics.pairs.blocks import CrossPlan
from precall.metrics.pairs.shortlists import Shortlist
from precall.metrics.pairs.tallies import BallReader, given_lists
from precall.metrics.tiles.clouds import Cloud, group_minima
from precall.metrics.tiles.distances import frames, tiles

if TYPE_CHECKING:
    from precall.metrics.inputs.features import Features
    from precall.metrics.neighbors.sweep import Balls


def count_fakes(
    balls: Balls, clipped: Balls, fakes: Features, *, ties: str, first_row: int, gallery: int
) -> FakeCounts:
    """Count a piece of fakes, on the device of the reals, in the balls of the reals for one k.

    `first_row` is the index of the first of these fakes in its shard, and `gallery` the length of the lists of extreme
    fakes.
    """
    k, own = balls.k[0], balls.cloud
    # as many nearest fakes as the interval of recall cover needs
    plan = CrossPlan((k,), (k, k + 1, k + 2), ties, cover_threshold(k) + 1, (float(balls.medians[0]),))
    other = Cloud(fakes, plan.kept)
    reader = BallReader((own, balls.squared_margins), other, plan, clipped.squared_margins)
    (depth,), settle = reader.depths(), reader.tally.settle
    nearest = Shortlist(other.n, min(2, own.n), lambda fake, real: settle(real, fake), own.device)
    for tile in tiles(*frames(own, other)):
        reader.read(tile)
        nearest.read(tile.transposed(), group_minima(tile.transposed().low))
        depth.read(tile)
    around, to_real = reader.result(), given_lists(nearest.result(), other, own)
    small, realism = reader.clipped(around.nearest), given_lists(depth.result(), other, own)
    assert small is not None
    reals = Nearest(to_real.index, np.sqrt(to_real.values))
    ratios, rows = copy_ratios(reals, balls.nearest), np.arange(first_row, first_row + len(fakes))[None]
    lined = partial(Shortest.of, shard=0, row=rows, real=reals.index[None, :, 0], size=gallery)
    found, owners = around.nearest, np.arange(len(around.inside))[:, None]
    with np.errstate(divide="ignore"):
        realisms = 1 / np.sqrt(realism.values[None, :, 0])
    balls_of, clipped_of = (BallSums.of(one.inside, one.around, one.owner) for one in (around, small))
    return FakeCounts(
        balls_of,
        clipped_of,
        CopySums.of(ratios, reals, balls.nearest),
        Shortest.of(found.values, shard=0, row=found.index + first_row, real=owners),
        lined(realisms),
        lined(ratios[None]),
    )
