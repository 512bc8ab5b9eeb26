"""A run over samples that are all in this process."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from precall.metrics.cells.histograms import Clusters, cells_of_pair
from precall.metrics.classifiers.estimators import AUTO_QUICK, classify_pair
from precall.metrics.distances.kernel_distance import KID, kernel_of
from precall.metrics.inputs.features import Features, Pair, check_k, device_of, uniform_rows
from precall.metrics.inputs.notices import notices
from precall.metrics.inputs.parallel import go_on, side_by_side
from precall.metrics.inputs.sides import Side
from precall.metrics.neighbors import sweep
from precall.metrics.neighbors.metrics import CLIPPED
from precall.metrics.neighbors.successors import clipped_scores
from precall.metrics.pairs.probabilistic import NEIGHBOR, SoftSupport, soft_supports
from precall.metrics.scores.metric import QUICK
from precall.metrics.tables.category_levels import named_category_codes
from precall.metrics.tables.column_drift import ColumnDrift, column_drift
from precall.metrics.tables.table_notices import table_notices
from precall.progress import Progress, StageProgress, stage_of
from precall.theory.arrays import Array, Index, to_numpy

if TYPE_CHECKING:
    from precall.metrics.assessing.run import Sums
    from precall.metrics.classifiers.result import ClassifierResult
    from precall.metrics.distances.moments import Moments
    from precall.metrics.neighbors.scores import Neighborhoods
    from precall.metrics.pairs.kernels import Kernel, KernelSums
    from precall.metrics.protocols.presets import Preset
    from precall.metrics.scores.score import Score

MOST = 20_000  # samples of each side that the curve and the k-NN scores of a quick assessment are computed from


@dataclass(eq=False)
class WholeRun:
    """The readings of two sample sets in this process (see `Run`).

    Attributes:
        real: The data.
        fake: The model's samples.
        balls_of_reals: Computes the balls of the reals, with the sums of a kernel, if a reference keeps them.
        unseen: Samples that the model has not seen, or None.
        sampled: Whether a quick assessment may read its curve and its k-NN scores from a part of many samples.
        preset: The protocol of a published evaluation, or None.
        progress: Called with (stage, done, total).
    """

    name: str
    metrics: Sequence[str]
    real: Side
    fake: Side
    k: int
    ties: str
    seed: int
    balls_of_reals: Callable[[Kernel | None], sweep.Balls] | None = None
    unseen: Side | None = None
    sampled: bool = True
    preset: Preset | None = None
    progress: Progress | None = None
    influences: Callable[[str, Any], Array] | None = None
    classifiers: dict[str, ClassifierResult] = field(default_factory=dict)

    @cached_property
    def pair(self) -> Pair:
        """Checked features of both sides."""
        real, fake = self.real.prompted, self.fake.prompted
        drawn = real is not None and fake is not None and real.drawn
        units = (real.number, fake.number) if drawn and real is not None and fake is not None else None
        kept_real, kept_fake = self.kept
        return Pair(kept_real.features, kept_fake.features, units)

    @cached_property
    def kept(self) -> tuple[Side, Side]:
        """The sides that `pair` has: all samples, or `MOST` random ones of each side for the metrics of "quick"."""
        sizes = len(self.real.features), len(self.fake.features)
        quick = AUTO_QUICK.name in self.metrics and set(self.metrics) <= set(QUICK)
        if not (self.sampled and quick) or min(sizes) <= MOST or self.real.prompted:
            return self.real, self.fake
        real, fake = uniform_rows(sizes, MOST, self.seed)
        return self.real.taking(real), self.fake.taking(fake)

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of real and of fake samples."""
        return self.pair.sizes

    @property
    def totals(self) -> tuple[int | None, int | None]:
        """The same; None for statistics of an unknown number of samples."""
        return self.real.n, self.fake.n

    @property
    def holdout(self) -> Features | None:
        """Features of samples that the model has not seen, or None."""
        return None if self.unseen is None else self.unseen.features

    @property
    def class_probabilities(self) -> tuple[Features, int | None]:
        """The output `classes` of the encoder or, if it has none, the features; and the size of parts."""
        rows = self.fake.outputs.get("classes", self.fake.features)
        return rows, None if self.preset is None else self.preset.part

    def fitted(self, side: str, output: str | None = None) -> Features | Moments:
        """Features of an output of the encoder, or stored statistics.

        Statistics that lie beside the samples of a `.npz` are used if the preset says so. They are those of the whole
        data set, of which the samples may be a part.
        """
        one = {"real": self.real, "fake": self.fake}[side]
        stored = one.stored_statistics(output) if self.preset is not None and self.preset.stored else None
        return stored or one.moments or (one.features if output is None else one.output(output))

    # ---------------------------------------------------------------------------------------------------- pairs

    @cached_property
    def neighborhoods(self) -> Neighborhoods:
        """The k-nearest-neighbour sweep over all pairs."""
        check_k(self.k, n_real=self.sizes[0], n_fake=self.sizes[1])
        real, fake = side_by_side([lambda: self.real_balls, lambda: self.fake_balls], libraries=["torch"])
        stage = self.stage("neighbors")
        how: dict[str, Any] = {"progress": stage, "sums": self._between, "with_clipped": CLIPPED.name in self.metrics}
        return sweep.cross_balls(real, fake, ties=self.ties, **how)

    @cached_property
    def real_balls(self) -> sweep.Balls:
        """The k-NN balls of the real samples."""
        if self.balls_of_reals is not None and self.kept[0] is self.real:
            return self.balls_of_reals(self._read_kernel)
        stage = self.stage("real balls")
        return sweep.balls_around(self.pair.real, k=self.k, progress=stage, kernel=self._read_kernel)

    @cached_property
    def fake_balls(self) -> sweep.Balls:
        """The k-NN balls of the fake samples."""
        stage = self.stage("fake balls")
        return sweep.balls_around(self.pair.fake, k=self.k, progress=stage, kernel=self._read_kernel)

    def ball_scores(self) -> Mapping[str, Score]:
        """Every score of the sweep. If that is one of a part of the samples, the settings say of how many."""
        found = self.neighborhoods.scores(self.k)
        part = {"rows": MOST} if self.kept != (self.real, self.fake) else {}
        return {name: replace(score, settings={**score.settings, **part}) for name, score in found.items()}

    def clipped_scores(self) -> Mapping[str, Score]:
        """The scores of balls of the reals of at most the median radius."""
        return clipped_scores(self.neighborhoods, self.k)

    def classified(self, name: str, pair: Pair) -> ClassifierResult:
        """The result of the classifier estimator of this name for another pair of samples."""
        return classify_pair(name, pair, seed=self.seed)

    def swept(self, k: int, real: Index | None = None, fake: Index | None = None) -> Neighborhoods:
        """A sweep with another k, over all samples or over a subsample given by row indices."""
        pair = self.pair if real is None or fake is None else self.pair.rows(real, fake)
        return sweep.sweep_pair(pair, k=k, ties=self.ties)

    @cached_property
    def soft_supports(self) -> tuple[SoftSupport, SoftSupport]:
        """The soft supports of the reals and of the fakes. They need four neighbours, whatever k is."""
        balls = self.real_balls, self.fake_balls
        if self.k + 2 <= NEIGHBOR < min(self.sizes):
            balls = sweep.balls_around(self.pair.real, k=NEIGHBOR), sweep.balls_around(self.pair.fake, k=NEIGHBOR)
        return soft_supports(real=balls[0], fake=balls[1], progress=self.stage("soft supports"))

    @cached_property
    def kernel(self) -> Kernel:
        """The kernel of KID."""
        return kernel_of(self.pair.together())

    @property
    def _read_kernel(self) -> Kernel | None:
        """The kernel if KID is requested: a sweep then reads its sums off the products that it computes anyway."""
        return self.kernel if KID.name in self.metrics else None

    @cached_property
    def _between(self) -> KernelSums | None:
        from precall.metrics.pairs.kernels import KernelSums

        return None if self._read_kernel is None else KernelSums(self._read_kernel)

    @property
    def kernel_sums(self) -> Sequence[Sums]:
        """Sums of the kernel, from the sweep if there is one."""
        from precall.metrics.pairs.kernels import kernel_sums

        swept = [self.real_balls.sums, self.fake_balls.sums, self._between] if "neighborhoods" in vars(self) else []
        if None in swept or not swept:
            pair = self.pair.together()
            swept = list(kernel_sums(self.kernel, pair.real, pair.fake))
        return [one.result() for one in swept if one is not None]

    # ------------------------------------------------------------------------------------------ cells and columns

    @cached_property
    def clusters(self) -> Clusters:
        """Histograms over k-means cells of both sets."""
        self.report("clusters")
        return cells_of_pair(self.pair, seed=self.seed)

    @property
    def drift(self) -> ColumnDrift | None:
        """The drift of each column, if both sides are tables."""
        plan = self.real.table
        if plan is None or self.fake.table is None:
            return None
        real, fake = to_numpy(self.real.features), to_numpy(self.fake.features)
        found = named_category_codes(self.real, self.fake)
        named = {name for name, column in plan["columns"].items() if plan["rows_shown"] and not column["private"]}
        return column_drift(
            real=real,
            fake=fake,
            columns=plan["columns"],
            levels={name: codes for name, (codes, _) in found.items()},
            names={name: names for name, (_, names) in found.items() if name in named},
            seed=self.seed,
        )

    # -------------------------------------------------------------------------------------------------- protocol

    @property
    def sources(self) -> Mapping[str, Side]:
        """The sides of `pair` by name."""
        return {"real": self.kept[0], "fake": self.kept[1]}

    @property
    def about(self) -> Mapping[str, Any]:
        """The sides, and notices about their samples."""
        sides = {"real": self.real, "fake": self.fake, **({} if self.unseen is None else {"holdout": self.unseen})}
        said = self._notices(sides)
        return {
            **({} if self.unseen is None else {"n_holdout": self.unseen.n}),
            "dimension": self.pair.dimension,
            "constant_columns": self.pair.constant_columns(),
            "device": device_of(self.pair.fake),
            **{of: one.protocol for of, one in sides.items() if one.protocol},
            **({} if self.real.prompted is None else {"prompts": self.real.prompted.about}),
            **({} if self.real.table is None else {"contains": self.real.contents()}),
            **({"notices": said} if said else {}),
        }

    def _notices(self, sides: Mapping[str, Side]) -> list[str]:
        """Notices about the samples, which are issued as warnings too."""
        from precall.samples.sampleset import SampleWarning

        found = notices(sides) + ([] if self.real.table is None else table_notices(self.real, self.fake, "fake"))
        found += [] if self.real.prompted is None else self.real.prompted.about.get("notes", [])
        if self.kept != (self.real, self.fake):
            found.append(f"the curve and the k-NN scores are those of {MOST:,} random samples of each side (quick).")
        for one in found:
            warnings.warn(one, SampleWarning, stacklevel=2)
        return found

    # -------------------------------------------------------------------------------------------------- progress

    def stage(self, name: str) -> StageProgress:
        """The progress callback of one stage. It also ends the stage if the assessment was interrupted."""
        report = stage_of(self.progress, name)

        def advance(done: int, total: int) -> None:
            go_on()
            if report is not None:
                report(done, total)

        return advance

    def report(self, stage: str) -> None:
        """Report that a stage without steps has begun."""
        self.stage(stage)(0, 1)
