"""Real samples with the work on them done once: assessments of encoded samples against them, also by group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from precall.metrics.assessing.registry import METRICS
from precall.metrics.assessing.requests import Groups, Request, check_groups
from precall.metrics.assessing.whole_run import WholeRun, assessed
from precall.metrics.classifiers.estimators import AUTO
from precall.metrics.copies.memorization import MEMORIZATION
from precall.metrics.distances.frechet_distance import fid_of_pair
from precall.metrics.inputs.features import Features, Pair, uniform_rows
from precall.metrics.inputs.parallel import side_by_side
from precall.metrics.inputs.sides import Side
from precall.metrics.neighbors.metrics import NEIGHBORS
from precall.metrics.neighbors.sweep import Balls, balls_around, sweep_pair
from precall.metrics.protocols.preset_run import NEEDED, normalised_sides, reported
from precall.metrics.protocols.presets import Preset
from precall.metrics.protocols.stability import score_trends
from precall.metrics.scores.groups import FairnessGap, GroupRows, fairness, split_groups
from precall.metrics.scores.record import OneSided
from precall.metrics.scores.results import Assessment
from precall.metrics.scores.score import Score
from precall.progress import Progress, stage_of

if TYPE_CHECKING:
    from precall.metrics.pairs.kernels import Kernel

NOT_IN_GROUPS = ("is", MEMORIZATION.name)  # metrics that are for all samples only
HALF = 2500  # reals per half that are compared: the scores change little beyond, but the time grows with the square


@dataclass(frozen=True, eq=False)
class PreparedReals:
    """The features of the data and their k-NN balls, which are computed when first needed and then kept."""

    side: Side = field(repr=False)  # the real features, and the samples behind them
    request: Request
    holdout: Side | None = field(default=None, repr=False)  # features of samples that the models have not seen, or None
    swept: dict[Kernel | None, Balls] = field(default_factory=dict, repr=False)  # the k-NN balls so far

    @property
    def k(self) -> int:
        """Number of neighbours that define a ball."""
        return self.request.k

    @property
    def ties(self) -> str:
        """ "closed" or "open"."""
        return self.request.ties

    @property
    def seed(self) -> int:
        """Seed of everything random."""
        return self.request.seed

    @property
    def preset(self) -> Preset | None:
        """The protocol of a published evaluation, or None."""
        return self.request.protocol

    @property
    def features(self) -> Features:
        """The real features, shape (n, d)."""
        return self.side.features

    @property
    def settings(self) -> dict[str, Any]:
        """k, ties and seed."""
        return {"k": self.k, "ties": self.ties, "seed": self.seed}

    def balls(self, kernel: Kernel | None = None) -> Balls:
        """The k-NN balls of the real samples, with the sums of a kernel, computed when first needed and then kept."""
        if kernel is None:
            kernel = next(iter(self.swept), None)  # the balls are the same with any kernel
        if kernel not in self.swept:
            stage = stage_of(self.request.progress, "real balls")
            self.swept[kernel] = balls_around(self.features, k=self.k, progress=stage, kernel=kernel)
        return self.swept[kernel]

    @cached_property
    def baseline(self) -> dict[str, Score]:
        """Scores of one half of the data against the other, computed when first needed and then kept."""
        return real_against_real(self.features, **self.settings)

    def assessed(
        self, fake: Side, names: Sequence[str], name: str, groups: Groups | None, progress: Progress | None
    ) -> Assessment:
        """The assessment with its baseline, its scores at other k and n, and its groups."""
        rows = None if groups is None else self._split(fake, names, groups)  # first: it may refuse them
        overall_of = partial(self._assess, fake, names, name, progress, sampled=groups is None)
        if AUTO.name not in names:
            overall = overall_of()
        else:  # beside the panel, halves and subsamples take little time
            pair = Pair(self.features, fake.features)
            trends_of = lambda: score_trends(pair, **self.settings) if NEIGHBORS.name in names else {}  # noqa: E731
            jobs: list[Callable[[], Any]] = [overall_of, lambda: self.baseline, trends_of]
            found, baseline, trends = side_by_side(jobs)
            overall = replace(found, baseline=baseline, stability=trends)
        return overall if rows is None else self._with_groups(overall, fake, names, *rows)

    def by_preset(
        self, fake: Side, names: Sequence[str], name: str, groups: Groups | None, progress: Progress | None
    ) -> Assessment:
        """The scores of the preset; those that need an output that the encoder does not have are left out and named."""
        assert self.preset is not None
        kept = [metric for metric in names if metric not in NEEDED or NEEDED[metric] in fake.outputs]
        real, prepared = normalised_sides(self.preset, real=self.side, fake=fake)
        found = replace(self, side=real).assessed(prepared, kept, name, groups, progress)
        return reported(self.preset, found, [metric for metric in names if metric not in kept])

    def _assess(
        self, fake: Side, names: Sequence[str], name: str, progress: Progress | None, *, sampled: bool = True
    ) -> Assessment:
        how: dict[str, Any] = {"unseen": self.holdout, "sampled": sampled, "preset": self.preset, "progress": progress}
        run = WholeRun(name, names, self.side, fake, **self.settings, balls_of_reals=self.balls, **how)
        return assessed(run, [METRICS[metric] for metric in names])

    def _split(self, fake: Side, names: Sequence[str], groups: Groups) -> tuple[GroupRows, dict[str, Any]]:
        """The rows of each group, and the group of each row of both sides."""
        if set(groups) != {"real", "fake"}:
            raise ValueError(f"`groups` must map 'real' and 'fake' to labels; got {', '.join(map(repr, groups))}.")
        pair = Pair(self.features, fake.features)
        labels = {"real": self.side.of_rows(groups["real"]), "fake": fake.of_rows(groups["fake"])}
        split = split_groups(labels["real"], labels["fake"], *pair.sizes)
        metrics = [METRICS[name] for name in names if name not in NOT_IN_GROUPS]
        check_groups([pair.rows(*rows) for rows in split.rows.values()], metrics)
        return split, labels

    def _with_groups(
        self, overall: Assessment, fake: Side, names: Sequence[str], split: GroupRows, labels: Mapping[str, Any]
    ) -> Assessment:
        """The overall assessment, with one assessment per group and the largest gap between their curves."""
        pair, metrics = Pair(self.features, fake.features), [name for name in names if name not in NOT_IN_GROUPS]
        real, synthetic = (replace(one, group=labels[side]) for side, one in overall.samples.items())
        named = {label: f"{overall.name}: {label}" for label in split.rows}
        each = {label: self._of_group(pair.rows(*split.rows[label]), metrics, named[label]) for label in named}
        gap = None if overall.estimator is None or len(each) < 2 else self._gap(pair, split, each, overall.estimator)
        alone = OneSided(only_real=list(split.only_real), only_fake=list(split.only_fake))
        record = replace(overall.record, groups=alone)
        return replace(overall, real=real, fake=synthetic, groups=each, fairness=gap, record=record)

    def _gap(self, pair: Pair, split: GroupRows, each: Mapping[Any, Assessment], estimator: str) -> FairnessGap:
        """The largest gaps between the groups, with as many samples of each: curves of fewer samples are lower."""
        n_real, n_fake = (min(map(len, side)) for side in zip(*split.rows.values(), strict=True))
        found = dict(each)
        for label, (real, fake) in split.rows.items():
            if (len(real), len(fake)) != (n_real, n_fake):
                real = real[uniform_rows((len(real), 0), n_real, self.seed)[0]]
                fake = fake[uniform_rows((0, len(fake)), n_fake, self.seed)[1]]
                found[label] = self._of_group(pair.rows(real, fake), [estimator], str(label))
        curves = {label: one.spectra[estimator] for label, one in found.items()}
        return fairness(curves, {label: one.curve_intervals for label, one in found.items()})

    def _of_group(self, pair: Pair, metrics: Sequence[str], name: str) -> Assessment:
        """Assess one group; k is reduced if the group has too few samples."""
        k = max(1, min(self.k, *(n - 1 for n in pair.sizes)))
        data = PreparedReals(Side(pair.real), replace(self.request, k=k, preset=None, progress=None))
        return data._assess(Side(pair.fake), metrics, name, None)


def real_against_real(features: Features, *, k: int, ties: str, seed: int) -> dict[str, Score]:
    """Scores of two disjoint random halves of the data, as if one were the model.

    They show what a perfect model would get with as many samples as a half has. Only scores that take little time are
    computed: precision, recall, density, coverage, and FID without an interval.
    """
    half = min(HALF, len(features) // 2)
    if half <= max(k, 2):
        return {}
    rows = np.random.default_rng(seed).permutation(len(features))
    pair = Pair(features, features).rows(np.sort(rows[:half]), np.sort(rows[half : 2 * half]))
    scores = sweep_pair(pair, k=k, ties=ties).scores(k)
    found = {name: scores[name] for name in ("precision", "recall", "density", "coverage")}
    return found | {"fid": fid_of_pair(pair, level=None)}
