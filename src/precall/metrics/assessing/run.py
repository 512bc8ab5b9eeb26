"""What a metric may ask of a run: readings of two sample sets, wherever these lie.

    whole_run     all samples in this process
    sharded       samples in shards, through an engine
    sketch        saved sums of samples that are gone

Readings that merge (moments, counts in balls, cells, sums of a kernel) are folded over all samples on every road.
Whatever cannot merge, such as a trained classifier, is computed from `Run.pair`: all samples where they are in this
process, and else a uniform sample of them. The sizes beside a score state how many samples it was computed from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from precall.metrics.inputs.features import Features, Pair
from precall.progress import StageProgress
from precall.theory.arrays import Array, Index

if TYPE_CHECKING:
    from precall.metrics.cells.histograms import Clusters
    from precall.metrics.classifiers.result import ClassifierResult
    from precall.metrics.distances.moments import Moments
    from precall.metrics.inputs.sides import Side
    from precall.metrics.neighbors.scores import Neighborhoods
    from precall.metrics.pairs.kernels import Kernel
    from precall.metrics.pairs.probabilistic import SoftSupport
    from precall.metrics.scores.score import Score
    from precall.metrics.tables.column_drift import ColumnDrift

Sums = tuple[Array, Array, float]
"""Row sums, column sums and the sum of squares of a kernel matrix."""


class Run(Protocol):
    """Readings of one model against the data; each is computed once, when a metric first needs it."""

    name: str  # the model's name
    metrics: Sequence[str]  # names of the requested metrics. Work for one of them may serve another
    k: int  # number of neighbours that define a ball
    ties: str  # "closed" or "open"
    seed: int  # seed of everything random
    classifiers: dict[str, ClassifierResult]  # their results so far; a metric that trains one adds it here

    @property
    def totals(self) -> tuple[int | None, int | None]:
        """Number of all real and of all fake samples; None where it is not known."""

    @property
    def pair(self) -> Pair:
        """Features of both sides in this process: all of them, or a uniform sample."""

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of real and of fake samples in `pair`."""

    @property
    def holdout(self) -> Features | None:
        """Features of samples that the model has not seen, or None."""

    @property
    def class_probabilities(self) -> tuple[Features, int | None]:
        """Class probabilities of the fakes, and the size of the parts that the Inception Score is averaged over."""

    def fitted(self, side: str, output: str | None = None) -> Features | Moments:
        """What a Fréchet distance is computed from: features of an output of the encoder, or their moments."""

    @property
    def influences(self) -> Callable[[str, Any], Array] | None:
        """Computes the influences of all samples of a side on FID; None if `fitted` returns the features."""

    def ball_scores(self) -> Mapping[str, Score]:
        """The scores of `neighbors` and `copies`: all of them, or those that need no distances between fakes."""

    def clipped_scores(self) -> Mapping[str, Score]:
        """The scores of balls with clipped radii."""

    @property
    def neighborhoods(self) -> Neighborhoods:
        """The k-nearest-neighbour sweep over all pairs."""

    @property
    def soft_supports(self) -> tuple[SoftSupport, SoftSupport]:
        """The soft supports of the reals and of the fakes."""

    def classified(self, name: str, pair: Pair) -> ClassifierResult:
        """The result of the classifier estimator of this name for another pair of samples."""

    def swept(self, k: int, real: Index | None = None, fake: Index | None = None) -> Neighborhoods:
        """A sweep over `pair` with another k, or over a part of it given by row indices."""

    @property
    def kernel(self) -> Kernel:
        """The kernel of KID."""

    @property
    def kernel_sums(self) -> Sequence[Sums]:
        """Sums of the kernel within the reals, within the fakes and between them."""

    @property
    def clusters(self) -> Clusters:
        """Histograms over k-means cells of both sets."""

    @property
    def drift(self) -> ColumnDrift | None:
        """The drift of each column, if both sides are tables."""

    @property
    def sources(self) -> Mapping[str, Side]:
        """The features and the samples behind them, by side; empty if they are not in this process."""

    @property
    def about(self) -> Mapping[str, Any]:
        """What the protocol says about the samples of this run, in addition to its settings."""

    @property
    def stage(self) -> Callable[[str], StageProgress]:
        """The progress callback of a stage, by its name."""

    def report(self, stage: str) -> None:
        """Report that a stage without steps has begun."""
