"""The estimator of Sajjadi et al.: histograms over k-means cells of the pooled samples, which give a spectrum.

The cells raise the curve (data processing inequality) and sampling noise lowers it (Jensen's inequality). These two
biases have opposite signs, so the estimate is neither an upper nor a lower bound. See docs/theory.md, Histograms. MAUVE
is computed from histograms of the same kind.

Intervals come from a bootstrap of the samples in fixed cells, to which the variance of k-means is added. The values
expected under P = Q come from permutations of the samples in the same cells, since k-means does not use the labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from precall.metrics.classifiers.views import WIDTH, principal_axes
from precall.metrics.features import Features, Pair, device_of, float64, tiles
from precall.metrics.kmeans import kmeans
from precall.metrics.metric import Card, Found, Metric, curve_found
from precall.metrics.parallel import side_by_side
from precall.metrics.score import CURVE_SCORES, READ, Interval, Score, ScoreInfo, bounded_interval, read, readings
from precall.printing import brief
from precall.theory import checks
from precall.theory.arrays import Array, to_numpy
from precall.theory.mauve import mauve_variance
from precall.theory.smoothing import SMOOTHING
from precall.theory.spectrum import RatioSpectrum

if TYPE_CHECKING:
    from scipy.sparse import csr_array
    from torch import Tensor

    from precall.metrics.run import Run

CellLabels = npt.NDArray[np.int32]
Read = Callable[[RatioSpectrum], Mapping[str, float]]
CELLS, REPEATS = 20, 10  # of the metric "clusters", as in Sajjadi et al.
RESAMPLES = 50  # bootstrap samples per interval, and permutations per expectation under P = Q
STARTS = 10  # k-means starts per run, of which the best is kept
AXES_PER_CELL = 6  # principal axes per cell on which k-means runs if there are more columns, and more than `WIDTH`
AXES_ROWS = 8192  # rows from which these axes are computed
COVERS = "the expectation of this score at these sample sizes, clustering included; its bias is not covered"


@brief
@dataclass(frozen=True, eq=False)
class Clusters:
    """Histograms of real and fake samples over k-means cells, repeated from several starts.

    Attributes:
        spectrum: The concatenated spectra of the repeats; its curve is the average of their curves.
        labels_real: Cell of each real sample in each repeat, shape (repeats, n).
        labels_fake: Cell of each fake sample in each repeat, shape (repeats, m).
        n_clusters: Number of cells.
        seed: Seed of the k-means starts.
    """

    spectrum: RatioSpectrum
    labels_real: CellLabels
    labels_fake: CellLabels
    n_clusters: int
    seed: int

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

    def smoothed(self, smoothing: str) -> RatioSpectrum:
        """The spectrum with smoothed cell probabilities: "krichevsky-trofimov" or "good-turing"."""
        estimate = SMOOTHING[checks.choice("smoothing", smoothing, SMOOTHING)]
        masses = (map(estimate, self.counts(repeat)) for repeat in range(len(self.labels_real)))
        return RatioSpectrum.mean([RatioSpectrum.from_masses(p=p, q=q) for p, q in masses])

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of real and of fake samples."""
        return self.labels_real.shape[1], self.labels_fake.shape[1]

    def counts(self, repeat: int = 0) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Real and fake counts per cell in one repeat, each of shape (n_clusters,)."""
        real, fake = self.labels_real[repeat], self.labels_fake[repeat]
        return np.bincount(real, minlength=self.n_clusters), np.bincount(fake, minlength=self.n_clusters)


def kmeans_histograms(
    *,
    real: object,
    fake: object,
    n_clusters: int = 20,
    repeats: int = 10,
    seed: int = 0,
    smoothing: str | None = None,
) -> Clusters:
    """Spectrum of the histograms of `real` and `fake` over k-means cells of their union.

    The two sets may differ in size; every sample has the same weight in the clustering. k-means runs `repeats` times
    from seeded starts, and the curves are averaged. If there are more than 512 columns, and more than six per cell, it
    runs on six principal axes of the union per cell. In trials the scores then changed by less than their standard
    deviation between repeats. Tensors on an accelerator stay there, with all their columns.

    Args:
        real: Features of the data, shape (n, d).
        fake: Features of the model's samples, shape (m, d).
        n_clusters: Number of cells; Sajjadi et al. use 20.
        repeats: Number of k-means runs whose curves are averaged; Sajjadi et al. use 10.
        seed: Seed of the starts; the same seed gives the same result.
        smoothing: How counts become probabilities: by "krichevsky-trofimov" (add ½), by "good-turing", or None for
            relative frequencies. Smoothed cells are never empty, so divergences are finite.

    Returns:
        The spectrum, with the cell of every sample.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> real, fake = rng.normal(size=(400, 2)), rng.normal(size=(300, 2))
        >>> found = kmeans_histograms(real=real, fake=fake + [9, 0], n_clusters=5, repeats=2)
        >>> found.spectrum.area
        0.0

    References:
        Sajjadi et al. (2018), section 3.3; Liu et al. (2021) for the smoothing.
    """
    if smoothing is not None:
        checks.choice("smoothing", smoothing, SMOOTHING)
    pair = Pair.checked(real=real, fake=fake)
    found = histograms_of_pair(pair, n_clusters=n_clusters, repeats=repeats, seed=seed)
    return found if smoothing is None else replace(found, spectrum=found.smoothed(smoothing))


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


def centres_of_cells(features: Features, *, n_clusters: int = 20, seed: int = 0) -> Array:
    """Centres of the k-means cells of one sample set, for cells that do not depend on other samples.

    Args:
        features: Checked features, shape (n, d).
        n_clusters: Number of cells, at most n.
        seed: Seed of the starts.

    Returns:
        The mean of each cell, shape (n_clusters, d). An empty cell repeats the first centre.

    Example:
        >>> x = np.array([[0.0], [0.2], [5.0], [5.4]])
        >>> np.sort(centres_of_cells(x, n_clusters=2), axis=0).ravel()
        array([0.1, 5.2])
    """
    (labels,) = _labels(Pair(features, features[:0]), n_clusters, 1, seed, STARTS)
    sums, start = np.zeros((n_clusters, features.shape[1])), 0
    for tile in tiles(features):
        rows = to_numpy(tile)
        sums += np.eye(n_clusters)[:, labels[start : start + len(rows)]] @ rows
        start += len(rows)
    counts = np.bincount(labels, minlength=n_clusters)[:, None]
    centres = sums / np.maximum(counts, 1)
    return np.where(counts > 0, centres, centres[(counts > 0).argmax()])


def _union(pair: Pair, n_clusters: int) -> Tensor:
    """The rows of both sets on which k-means runs."""
    import torch

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

    The cells do not change. Centring keeps the digits that float32 would lose to an offset, and scaling keeps squares
    from overflowing.
    """
    parts = np.array_split(x, max(1, x.shape[1] // 256), axis=1)
    centre = x[0] + np.concatenate([(part - part[0]).mean(axis=0) for part in parts])
    centred = np.subtract(x, centre, out=x)
    scaled = np.ldexp(centred, -np.frexp(max(centred.max(), -centred.min()))[1], out=centred)
    return np.asarray(scaled, dtype=np.float32)


def _scaled_on_device(pair: Pair) -> Tensor:
    """`_scaled` of both sets, on their device."""
    import torch

    x = torch.cat([torch.as_tensor(float64(one)) for one in (pair.real, pair.fake)])
    centred = x - x.mean(0)
    return torch.ldexp(centred, -torch.frexp(centred.abs().max())[1]).float()


def _projected(x: npt.NDArray[np.float32], most: int) -> npt.NDArray[np.float32]:
    """`x` on its `most` leading principal axes if it has many more columns; otherwise `x` itself.

    The best k cells on r axes have at most 1 + O(k/r) times the within-cell variance of the best cells on all columns.

    References:
        Cohen et al. (2015), Dimensionality reduction for k-means clustering and low rank approximation.
    """
    if x.shape[1] <= max(WIDTH, most):
        return x
    import torch

    axes = principal_axes(torch.from_numpy(x[:: -(-len(x) // AXES_ROWS)]), most).numpy()
    return np.asarray(x @ axes if axes.size else x[:, :1], dtype=np.float32)  # equal rows have no axes


# ---------------------------------------------------------------------------------------- intervals and chance levels


def histogram_intervals(
    found: Clusters,
    values: Mapping[str, float],
    read: Read,
    infos: Sequence[ScoreInfo],
    *,
    clustering: Mapping[str, float],
    seed: int,
) -> dict[str, Interval]:
    """Intervals of scores of histograms: a bootstrap in fixed cells, plus the variance of the clustering.

    Args:
        found: The histograms.
        values: The scores, by name.
        read: Reads the scores off a spectrum.
        infos: The ranges of the scores.
        clustering: Variance of each score that is due to k-means.
        seed: Seed of the bootstrap.
    """
    from scipy.special import stdtrit

    rng = np.random.default_rng(seed)
    sampling = _variances([read(one) for one in found.resampled(RESAMPLES, rng)])
    quantile = float(stdtrit(RESAMPLES - 1, 0.975))
    return {
        info.name: bounded_interval(
            values[info.name],
            quantile * float(np.sqrt(sampling[info.name] + clustering[info.name])),
            low=info.low,
            high=info.high,
            n=min(found.sizes),
            covers=COVERS,
        )
        for info in infos
    }


def expected_if_same(found: Clusters, read: Read, *, seed: int) -> dict[str, float]:
    """Mean of each score over permutations of all samples in the same cells: its expectation under P = Q."""
    rng = np.random.default_rng(seed)
    draws = [read(one) for one in found.permuted(RESAMPLES, rng)]
    return {name: float(np.mean([draw[name] for draw in draws])) for name in draws[0]}


def _variances(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: float(np.var([one[name] for one in scores], ddof=1)) for name in scores[0]}


def _compute(run: Run) -> Found:
    run.report("clusters")
    run.clusters = histograms_of_pair(run.pair, n_clusters=min(CELLS, run.sizes[0]), repeats=REPEATS, seed=run.seed)
    return curve_of(run.clusters)


def curve_of(found: Clusters) -> Found:
    """The curve of the histograms, with intervals and the values expected under P = Q."""
    seed, values, repeats = found.seed, read(found.spectrum), len(found.labels_real)
    # The average over the repeats has 1/repeats of their variance. It counts three times, because the cells also move
    # with the samples, which the bootstrap keeps fixed; in simulations this was enough except for tails like 1/x³.
    clustering = {name: 3 * v / repeats for name, v in _variances([read(one) for one in found.each()]).items()}
    intervals = histogram_intervals(found, values, read, READ, clustering=clustering, seed=seed)
    chance = expected_if_same(found, readings, seed=seed)
    settings = {
        "estimator": "clusters",
        "n_clusters": found.n_clusters,
        "repeats": repeats,
    }
    return curve_found(found, found.spectrum, intervals=intervals, chance=chance, settings=settings)


def _mauve(run: Run) -> Found:
    """MAUVE with one cell per ten samples and one k-means run, as in the original.

    The variance of k-means comes from further runs with a single start each.
    """
    run.report("mauve")
    cells = max(2, min(run.sizes) // 10)
    found = histograms_of_pair(run.pair, n_clusters=cells, repeats=1, seed=run.seed)
    others = histograms_of_pair(run.pair, n_clusters=cells, repeats=4, seed=run.seed, starts=1)
    sampling = mauve_variance(*(counts.astype(np.float64) for counts in found.counts()))
    clustering = _variances([_read_mauve(one) for one in others.each()])["mauve"]
    value, half = found.spectrum.mauve(), 1.96 * float(np.sqrt(sampling + clustering))
    interval = bounded_interval(value, half, low=0.0, high=1.0, n=min(run.sizes), covers=COVERS)
    chance = expected_if_same(found, _read_mauve, seed=run.seed)["mauve"]
    return Found({"mauve": Score(value, interval, chance, *run.sizes, {"n_clusters": cells, "c": 5})})


def _read_mauve(spectrum: RatioSpectrum) -> dict[str, float]:
    return {"mauve": spectrum.mauve()}


CLUSTERS = Metric(
    name="clusters",
    reads="histograms over 20 k-means cells, averaged over ten starts (Sajjadi et al.)",
    scores=CURVE_SCORES,
    interval="bootstrap in fixed cells and variance of k-means: the expectation at these sample sizes, not the bias",
    compute=_compute,
    default=True,
    is_curve=True,
    card=Card(
        measures="The whole precision-recall curve of two histograms: both sets are counted in the k-means cells of "
        "their union. It shows whether the model reaches all clusters of the data, and in which proportions.",
        formula=r"\hat\alpha(\lambda) = \sum_{c} \min(\lambda \hat p_c, \hat q_c)",
        symbols="$\\hat p_c$ and $\\hat q_c$ are the shares of the real and of the fake samples in cell $c$; the "
        "curves of ten k-means runs are averaged.",
        chance="For area, F8 and F1/8 near 1, for the others near 0. At finite sample sizes precall reports the mean "
        "over permutations of the labels in the same cells.",
        protocol="Number of cells (20), number of k-means runs (10), encoder, numbers of samples and seed.",
        limits="Differences within a cell are invisible, which raises the curve. Few samples per cell lower it. The "
        "estimate is neither an upper nor a lower bound.",
        misleads="A model with the right clusters and blurred samples looks perfect. In many dimensions the cells "
        "follow the main directions only, and most differences lie within cells.",
        papers=("Sajjadi et al. (2018)",),
    ),
)
MAUVE = Metric(
    name="mauve",
    reads="area under the inclusive Kullback-Leibler frontier over n/10 k-means cells",
    scores=(ScoreInfo("mauve", "MAUVE", 0.0, 1.0, "higher", "MAUVE; 1 only if the histograms agree", "page"),),
    interval="delta method in fixed cells and variance of k-means: the expectation at these sample sizes, not the bias",
    compute=_mauve,
    card=Card(
        measures="How close two sets are in both directions: the area under the frontier of Kullback-Leibler "
        "divergences to their mixtures. It was proposed for generated text.",
        formula=r"\text{frontier} = \left\{ \left( e^{-5\,\mathrm{KL}(Q \Vert R_w)}, "
        r"e^{-5\,\mathrm{KL}(P \Vert R_w)} \right) : R_w = w P + (1 - w) Q \right\}",
        symbols="$P$ and $Q$ are the histograms of the real and of the fake samples, 5 is the scaling constant of the "
        "paper.",
        chance="Less than 1: small histograms differ by chance. precall reports the mean over permutations of the "
        "labels.",
        protocol="Number of cells (one per ten samples), scaling constant (5), encoder and numbers of samples.",
        limits="One number mixes precision and recall. The value depends strongly on the number of samples, because "
        "the number of cells does.",
        misleads="Values from different sample sizes or encoders are not comparable, even roughly.",
        papers=("Pillutla et al. (2021)",),
    ),
)
