"""Cells that are frozen on the data: counts of shards add up, and the curve is read off the added counts.

The cells of each repeat are those of one half of the reals, and the other half is counted in them. Reals that had
formed their own cells would fill them more evenly than fresh samples of the same law, and the curve would show a
difference where there is none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from precall.metrics.features import Features, tiles
from precall.metrics.score import CURVE_SCORES, Interval, Score, bounded_interval, readings
from precall.theory.arrays import Array, Counts, Index, to_numpy
from precall.theory.spectrum import RatioSpectrum

CELLS = "frozen on the reference: formed by one half of the reals, in which the other half and the fakes are counted"
RESAMPLES = 50  # bootstrap samples per interval, and draws per expectation under P = Q
COVERS = (
    "the expectation of this score at these sample sizes in these cells, which are frozen on the reference; its bias "
    "is not covered"
)


@dataclass(frozen=True, eq=False)
class FrozenCells:
    """Voronoi cells of fixed centres, in several repeats.

    Attributes:
        centres: Centres of the cells, shape (repeats, cells, d).
        origin: A point near the samples, which is subtracted from them before squares are computed, shape (d,).

    Example:
        >>> cells = FrozenCells(np.array([[[0.0], [4.0]]]), np.zeros(1))
        >>> cells.counts(np.array([[1.0], [1.5], [9.0]]))
        array([[2, 1]])
    """

    centres: Array
    origin: Array

    def counts(self, rows: npt.NDArray[np.floating]) -> Counts:
        """Number of rows whose nearest centre is that of each cell, shape (repeats, cells)."""
        return np.stack([self._counts(rows, repeat) for repeat in range(len(self.centres))])

    def held_out(self, features: Features, seed: int) -> Counts:
        """The counts of the reals that did not form the cells: in each repeat the second of the `halves`."""
        parts = (features[half] for _, half in halves(len(features), len(self.centres), seed))
        return np.stack(
            [
                np.sum([self._counts(to_numpy(tile), repeat) for tile in tiles(part)], axis=0)
                for repeat, part in enumerate(parts)
            ]
        )

    def _counts(self, rows: npt.NDArray[np.floating], repeat: int) -> Counts:
        centres = self.centres[repeat]
        return np.bincount(self._nearest(rows, centres), minlength=len(centres))

    def _nearest(self, rows: npt.NDArray[np.floating], centres: Array) -> npt.NDArray[np.intp]:
        """Index of the nearest centre of each row; equally near ones go to the lower index.

        Rounding in the matrix product depends on how the rows are cut into pieces, so a row whose two nearest centres
        are closer together than the rounding error is decided by sums over that row alone.
        """
        x, c = rows - self.origin, centres - self.origin
        squares = (c * c).sum(1)
        values = squares - 2 * (x @ c.T)  # |x − c|² − |x|²
        if len(centres) == 1:
            return np.zeros(len(x), dtype=np.intp)
        least = np.partition(values, 1, axis=1)[:, :2]
        slack = 8 * (x.shape[1] + 8) * np.finfo(np.float64).eps * (_squared_norms(x) + squares.max())
        nearest: npt.NDArray[np.intp] = values.argmin(1)
        for row in np.flatnonzero(least[:, 1] - least[:, 0] <= slack):
            nearest[row] = _squared_norms(x[row] - c).argmin()
        return nearest


def halves(n: int, repeats: int, seed: int) -> list[tuple[Index, Index]]:
    """Random halves of n samples, one pair of sorted indices per repeat: one forms the cells, the other is counted.

    Example:
        >>> [len(half) for half in halves(7, 1, 0)[0]]
        [3, 4]
    """
    rng = np.random.default_rng(seed)
    orders = (rng.permutation(n) for _ in range(repeats))
    return [(np.sort(order[: n // 2]), np.sort(order[n // 2 :])) for order in orders]


def _squared_norms(x: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->i", x, x))


def histogram_spectrum_of_counts(real: Counts, fake: Counts) -> RatioSpectrum:
    """The average over the repeats (rows) of the spectra of two histograms."""
    return RatioSpectrum.from_counts(real=real.ravel(), fake=fake.ravel())


def cell_scores(real: Counts, fake: Counts, *, seed: int) -> dict[str, Score]:
    """The scores of the curve, with intervals and their expectation under P = Q.

    A bootstrap draws the counts of each repeat anew. The repeats count the same samples, and the dependence between
    them is not in the counts, so the standard deviation of the average is bounded by the average of their standard
    deviations.

    Args:
        real: Counts of the reals, shape (repeats, cells).
        fake: Counts of the fakes, in the same cells.
        seed: Seed of the bootstrap.
    """
    rng = np.random.default_rng(seed)
    n_real, n_fake = int(real[0].sum()), int(fake[0].sum())
    spread = _spread([[_redrawn(pair, rng) for _ in range(RESAMPLES)] for pair in zip(real, fake, strict=True)])
    by_chance = [readings(_same_law(real, fake, rng)) for _ in range(RESAMPLES)]
    settings = {
        "estimator": "clusters",
        "n_clusters": real.shape[1],
        "repeats": len(real),
        "cells": CELLS,
    }
    values = readings(histogram_spectrum_of_counts(real, fake))

    def interval(name: str, low: float, high: float) -> Interval:
        return bounded_interval(values[name], spread[name], low=low, high=high, n=min(n_real, n_fake), covers=COVERS)

    return {
        info.name: Score(
            values[info.name],
            interval(info.name, info.low, info.high),
            float(np.mean([one[info.name] for one in by_chance])),
            n_real,
            n_fake,
            settings,
        )
        for info in CURVE_SCORES
    }


def _redrawn(pair: tuple[Counts, Counts], rng: np.random.Generator) -> dict[str, float]:
    """The scores of a bootstrap sample of each set, in the cells of one repeat."""
    real, fake = (rng.multinomial(counts.sum(), counts / counts.sum()) for counts in pair)
    return readings(RatioSpectrum.from_counts(real=real, fake=fake))


def _same_law(real: Counts, fake: Counts, rng: np.random.Generator) -> RatioSpectrum:
    """The spectrum of two sets of these sizes, both drawn from the cells of all samples, in each repeat."""
    pooled = (real + fake) / (real + fake).sum(axis=1, keepdims=True)
    drawn = (np.stack([rng.multinomial(one[0].sum(), p) for p in pooled]) for one in (real, fake))
    return histogram_spectrum_of_counts(*drawn)


def _spread(draws: list[list[dict[str, float]]]) -> dict[str, float]:
    """Half-widths: Student's quantile times the average over the repeats of the standard deviations."""
    from scipy.special import stdtrit

    quantile = float(stdtrit(RESAMPLES - 1, 0.975))
    deviations = [{name: float(np.std([one[name] for one in row], ddof=1)) for name in row[0]} for row in draws]
    return {name: quantile * float(np.mean([one[name] for one in deviations])) for name in deviations[0]}
