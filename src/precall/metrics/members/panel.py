"""A panel: members of different kinds, trained together and combined into one log-ratio that scores any rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from precall.metrics.classifiers.calibration import calibration_of
from precall.metrics.classifiers.folds import FEWEST, FoldedSamples
from precall.metrics.classifiers.stacking import stacking_weights, weighted
from precall.metrics.inputs.features import Pair, as_features, as_tensor, check_count, tile_rows
from precall.metrics.inputs.parallel import side_by_side
from precall.metrics.members import columns, linear, panel_members, ranks, thin, trees
from precall.metrics.members.panel_members import Fitted, Member, convergence_not_required, each
from precall.metrics.members.views import Seen, Task, Views
from precall.progress import StageProgress
from precall.theory.arrays import Array, Index, Tensor, to_numpy

ROWS = 20_000  # most samples per set that a panel is trained on
FOLDS = 5
INNER = 3  # number of folds inside the training half of the certificate of `auto`
MEMBERS: dict[str, Member] = {  # by name, from the least to the most flexible
    "linear": each(linear.linear),
    "discriminant": each(linear.discriminant),
    "quadratic": each(panel_members.quadratic),
    "marginals": each(columns.marginals),
    "edges": each(columns.edges),
    "thin": each(thin.thin),
    "radial": panel_members.radial,
    "modes": partial(panel_members.modes, view="leading"),
    "islands": partial(panel_members.modes, view="white", own=True),
    "rank_quadratic": each(ranks.rank_quadratic),
    "interactions": ranks.interactions,
    "summaries": each(ranks.summaries),
    "boosting": trees.boosting,
}
PANEL = tuple(name for name in MEMBERS if name not in ("linear", "quadratic"))


@dataclass(frozen=True)
class Panel:
    """The choices of a panel."""

    members: tuple[str, ...] = PANEL  # names of its members, of those in `MEMBERS`
    rows: int = ROWS  # most samples of each set that it is trained on: a random part if there are more
    folds: int = FOLDS  # number of cross-fitting folds

    def sample(self, pair: Pair, seed: int) -> tuple[Index, Index]:
        """Indices of the samples of each set to train on, in their order; all of them if they are few enough."""
        rng = np.random.default_rng(seed)
        real, fake = (np.sort(rng.permutation(n)[: self.rows]) if n > self.rows else np.arange(n) for n in pair.sizes)
        return real, fake

    def split(self, pair: Pair, seed: int) -> FoldedSamples:
        """The samples of a pair in folds and halves."""
        for name, n in zip(("real", "fake"), pair.sizes, strict=True):
            check_count(name, n, FEWEST)
        return FoldedSamples.split(pair, folds=self.folds, inner=INNER, seed=seed)

    def trained(
        self, tasks: Sequence[Task], tests: Sequence[Tensor], seed: int, progress: StageProgress | None = None
    ) -> tuple[list[Sequence[Fitted]], list[list[Array]]]:
        """For each member, what it learnt from each task, and its log-ratios of the test rows of each task."""
        names = self.members[::-1]  # the slowest members start first
        # threads that start short computations on one device hinder each other
        parts = [names] if tasks[0].rows.x.is_cuda else [(name,) for name in names]
        jobs = [partial(_in_turn, part, tasks, tests, seed) for part in parts]
        with convergence_not_required():
            found = {name: one for part in side_by_side(jobs, progress) for name, one in part.items()}
        return [found[name][0] for name in self.members], [found[name][1] for name in self.members]

    def combined(
        self, samples: FoldedSamples, views: Views, fitted: Sequence[Sequence[Fitted]], log_ratios: Array, scores: Array
    ) -> TrainedPanel:
        """The trained panel, from what each member learnt from each fold, its cross-fitted log-ratios and scores."""
        weights = stacking_weights(log_ratios, samples.real)
        knots, values = calibration_of(scores, samples.real, samples.fold)
        models = tuple(tuple(one[k] for one in fitted) for k in range(self.folds))
        return TrainedPanel(self.members, views, models, weights, knots, values)


def _in_turn(
    names: Sequence[str], tasks: Sequence[Task], tests: Sequence[Tensor], seed: int
) -> dict[str, tuple[Sequence[Fitted], list[Array]]]:
    """What each of these members learnt from each task, and its log-ratios of the test rows."""
    found = {}
    for name in names:
        fitted = MEMBERS[name](tasks, seed)
        parts = zip(fitted, tasks, tests, strict=True)
        found[name] = fitted, [scored(one, task.rows.part(test)) for one, task, test in parts]
    return found


def scored(fitted: Fitted, rows: Seen) -> Array:
    """The log-ratios of the rows, in float64."""
    return np.asarray(to_numpy(fitted.log_ratio(rows)), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class TrainedPanel:
    """A trained panel: a log-ratio `log p/q` for any row."""

    members: tuple[str, ...]  # names of the members
    views: Views  # means, scales and axes of the features
    models: tuple[tuple[Fitted, ...], ...]  # for each fold, what each member learnt
    weights: Array  # weight of each member, and the offset
    knots: Array  # scores between which the calibration is linear; it is constant beyond them
    values: Array  # the log-ratio at each of them

    def log_ratio(self, rows: object) -> Array:
        """Calibrated log-ratio of each row: that of the mean score of the models of all folds."""
        return self.calibrated(self.scores(rows))

    def calibrated(self, scores: Array) -> Array:
        """The log-ratios of these scores."""
        return np.asarray(np.interp(scores, self.knots, self.values))

    def scores(self, rows: object) -> Array:
        """Mean score of each row over the models of all folds, block by block."""
        x = as_features("rows", rows, at_least=1)
        if x.shape[1] != len(self.views.mean):
            raise ValueError(f"`rows` must have {len(self.views.mean)} columns, as in training; got {x.shape[1]}.")
        step = tile_rows(x.shape[1])
        return np.concatenate([self._block(x[i : i + step]) for i in range(0, len(x), step)])

    def _block(self, x: Any) -> Array:
        rows = self.views.rows(as_tensor(x, self.views.mean.device))
        scores = [weighted(np.column_stack([scored(one, rows) for one in fold]), self.weights) for fold in self.models]
        return np.asarray(np.mean(scores, axis=0))
