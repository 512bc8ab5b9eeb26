"""Histograms of two sample sets over k-means cells of their union (Sajjadi et al.), which give a spectrum.

The cells raise the curve (data processing inequality) and sampling noise lowers it (Jensen's inequality). These two
biases have opposite signs, so the estimate is neither an upper nor a lower bound. See docs/theory.md, Histograms.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from precall.lazy import torch
from precall.metrics.cells.kmeans import kmeans
from precall.metrics.inputs.features import Pair, device_of, float64
from precall.metrics.inputs.parallel import side_by_side
from precall.metrics.members.views import WIDTH, principal_axes
from precall.printing import brief
from precall.theory.arrays import Tensor
from precall.theory.spectrum import RatioSpectrum

if TYPE_CHECKING:
    from scipy.sparse import csr_array

CellLabels = npt.NDArray[np.int32]
CELLS, REPEATS = 20, 10  # of the metric "clusters", as in Sajjadi et al.
STARTS = 10  # k-means starts per run, of which the best is kept
AXES_PER_CELL = 6  # principal axes per cell on which k-means runs if there are more columns, and more than `WIDTH`
AXES_ROWS = 8192  # rows from which these axes are computed


@brief
@dataclass(frozen=True, eq=False)
class Clusters:
    """Histograms of real and fake samples over k-means cells, repeated from several starts."""

    spectrum: RatioSpectrum  # the concatenated spectra of the repeats; its curve is the average of their curves
    labels_real: CellLabels  # cell of each real sample in each repeat, shape (repeats, n)
    labels_fake: CellLabels  # cell of each fake sample in each repeat, shape (repeats, m)
    n_clusters: int  # number of cells
    seed: int  # seed of the k-means starts

    def resampled(self, draws: int, rng: np.random.Generator) -> Iterator[RatioSpectrum]:
        """The spectra of bootstrap samples of both sets, in the same cells."""
        sides = [(_membership(one, self.n_clusters), one.shape[1]) for one in (self.labels_real, self.labels_fake)]
        for _ in range(draws):
            real, fake = (cells @ np.bincount(rng.integers(n, size=n), minlength=n) for cells, n in sides)
            yield RatioSpectrum.from_counts(real=real, fake=fake)

    def permuted(self, draws: int, rng: np.random.Generator) -> Iterator[RatioSpectrum]:
        """The spectra of two sets of these sizes, drawn without replacement from all samples, in the same cells."""
        cells, n = _membership(np.hstack([self.labels_real, self.labels_fake]), self.n_clusters), self.sizes[0]
        counts = cells.sum(axis=1)
        for _ in range(draws):
            real = cells @ np.bincount(rng.permutation(sum(self.sizes))[:n], minlength=sum(self.sizes))
            yield RatioSpectrum.from_counts(real=real, fake=counts - real)

    def each(self) -> list[RatioSpectrum]:
        """The spectrum of each repeat."""
        return [
            histogram_spectrum(real[None], fake[None])
            for real, fake in zip(self.labels_real, self.labels_fake, strict=True)
        ]

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of real and of fake samples."""
        return self.labels_real.shape[1], self.labels_fake.shape[1]

    def counts(self, repeat: int = 0) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Real and fake counts per cell in one repeat, each of shape (n_clusters,)."""
        real, fake = self.labels_real[repeat], self.labels_fake[repeat]
        return np.bincount(real, minlength=self.n_clusters), np.bincount(fake, minlength=self.n_clusters)


def kmeans_histograms(
    *, real: object, fake: object, n_clusters: int = 20, repeats: int = 10, seed: int = 0
) -> Clusters:
    """Spectrum of the histograms of `real` and `fake` over k-means cells of their union.

    The two sets may differ in size; every sample has the same weight in the clustering. k-means runs `repeats` times
    from seeded starts, and the curves are averaged (Sajjadi et al. use 20 cells and 10 repeats). If there are more than
    512 columns, and more than six per cell, it runs on six principal axes of the union per cell. In trials the scores
    then changed by less than their standard deviation between repeats. Tensors on an accelerator stay there.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> real, fake = rng.normal(size=(400, 2)), rng.normal(size=(300, 2))
        >>> kmeans_histograms(real=real, fake=fake + [9, 0], n_clusters=5, repeats=2).spectrum.area
        0.0

    References:
        Sajjadi et al. (2018), section 3.3.
    """
    pair = Pair.checked(real=real, fake=fake)
    return histograms_of_pair(pair, n_clusters=n_clusters, repeats=repeats, seed=seed)


def cells_of_pair(pair: Pair, *, seed: int) -> Clusters:
    """The histograms of the metric "clusters"."""
    return histograms_of_pair(pair, n_clusters=min(CELLS, pair.sizes[0]), repeats=REPEATS, seed=seed)


def histograms_of_pair(pair: Pair, *, n_clusters: int, repeats: int, seed: int, starts: int = STARTS) -> Clusters:
    """`kmeans_histograms` for features that have been checked already, with the best of `starts` k-means starts."""
    n_real, total = pair.sizes[0], sum(pair.sizes)
    if not 1 <= n_clusters <= total:
        raise ValueError(
            f"`n_clusters` must be between 1 and {total}, the number of samples; got {n_clusters}. Request fewer."
        )
    if repeats < 1:
        raise ValueError(f"`repeats` must be at least 1; got {repeats}.")
    labels = _labels(pair, n_clusters, repeats, seed, starts)
    labels_real, labels_fake = labels[:, :n_real], labels[:, n_real:]
    return Clusters(histogram_spectrum(labels_real, labels_fake), labels_real, labels_fake, n_clusters, seed)


def _labels(pair: Pair, n_clusters: int, repeats: int, seed: int, starts: int) -> CellLabels:
    """The cell of each sample in each repeat of k-means on both sets together."""
    union = _union(pair.together(), n_clusters)
    seeds = np.random.SeedSequence(seed).generate_state(repeats)
    return np.stack(side_by_side([partial(kmeans, union, n_clusters, int(one), starts) for one in seeds]))


def _union(pair: Pair, n_clusters: int) -> Tensor:
    """The rows of both sets on which k-means runs."""
    if device_of(pair.real) != "cpu":
        return _scaled_on_device(pair)
    return torch.from_numpy(_projected(_scaled(np.concatenate(pair.to_numpy())), AXES_PER_CELL * n_clusters))


def histogram_spectrum(labels_real: CellLabels, labels_fake: CellLabels) -> RatioSpectrum:
    """Average over the repeats (rows) of the spectra of two sets of cell labels: their cells side by side."""
    cells = int(max(labels_real.max(), labels_fake.max())) + 1
    real, fake = (
        np.bincount(_side_by_side(labels, cells), minlength=len(labels) * cells)
        for labels in (labels_real, labels_fake)
    )
    return RatioSpectrum.from_counts(real=real, fake=fake)


def _side_by_side(labels: CellLabels, cells: int) -> npt.NDArray[np.int32]:
    """The labels of all repeats, one after the other, with cells of their own."""
    return np.asarray(labels + cells * np.arange(len(labels), dtype=np.int32)[:, None]).ravel()


def _membership(labels: CellLabels, cells: int) -> csr_array:
    """Which samples (columns) are in which cell of which repeat (rows): times numbers of copies, it counts samples."""
    from scipy.sparse import csr_array

    samples = np.tile(np.arange(labels.shape[1], dtype=np.int32), len(labels))
    ones, shape = np.ones(labels.size, dtype=np.intp), (len(labels) * cells, labels.shape[1])
    return csr_array((ones, (_side_by_side(labels, cells), samples)), shape=shape)


def _scaled(x: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float32]:
    """`x` centred, and scaled to [−1, 1] by a power of two, in place, since it may fill a good part of the memory.

    The cells do not change, float32 keeps the digits that it would lose to an offset, and no square overflows.
    """
    parts = np.array_split(x, max(1, x.shape[1] // 256), axis=1)
    centre = x[0] + np.concatenate([(part - part[0]).mean(axis=0) for part in parts])
    centred = np.subtract(x, centre, out=x)
    scaled = np.ldexp(centred, -np.frexp(max(centred.max(), -centred.min()))[1], out=centred)
    return np.asarray(scaled, dtype=np.float32)


def _scaled_on_device(pair: Pair) -> Tensor:
    """`_scaled` of both sets, on their device."""
    x = torch.cat([torch.as_tensor(float64(one)) for one in (pair.real, pair.fake)])
    centred = x - x.mean(0)
    return torch.ldexp(centred, -torch.frexp(centred.abs().max())[1]).float()


def _projected(x: npt.NDArray[np.float32], most: int) -> npt.NDArray[np.float32]:
    """`x` on its `most` leading principal axes if it has many more columns; otherwise `x` itself.

    The best k cells on r axes have at most 1 + O(k/r) times the within-cell variance of the best (Cohen et al., 2015).
    """
    if x.shape[1] <= max(WIDTH, most):
        return x
    axes = principal_axes(torch.from_numpy(x[:: -(-len(x) // AXES_ROWS)]), most).numpy()
    return np.asarray(x @ axes if axes.size else x[:, :1], dtype=np.float32)  # equal rows have no axes
