"""Boosted trees on binned features: those of scikit-learn on the CPU, and the same for all tasks at once on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from precall.lazy import torch
from precall.metrics.inputs.parallel import side_by_side
from precall.metrics.members.views import NARROW, Ordered, Seen, Task
from precall.metrics.tiles import cuda_kernels as kernels
from precall.metrics.tiles.cuda_kernels import device_of, has_kernels, replayed
from precall.theory.arrays import Array, Tensor, to_numpy

TREES, RATE, LEAVES, BINS = 60, 0.15, 15, 63
RIDGE, FEWEST, LEAST = 1.0, 20, 1e-3  # of a leaf: what is added to its Σh, its fewest rows, its least Σh
SLOTS, ROWS = 16, 1024  # on a GPU: room for leaves, and rows that are listed together
HELD_OUT, PATIENCE, TOLERANCE = 0.1, 10, 1e-7  # training stops after PATIENCE trees that do not help the rows held out


@dataclass(frozen=True, eq=False)
class Trees:
    """Boosted trees with numbered nodes; a leaf is its own child."""

    columns: Tensor  # the columns beside the principal axes
    feature: Tensor  # which feature each node compares, shape (trees, nodes)
    threshold: Tensor  # the largest value that goes to the left child
    left: Tensor  # the left child
    right: Tensor  # the right child
    value: Tensor  # what a leaf adds to the log-ratio
    depth: Tensor  # number of comparisons down to the lowest leaf, shape ()
    offset: Tensor  # log-ratio without any tree, shape ()

    def log_ratio(self, rows: Seen) -> Tensor:
        x = torch.cat([rows.narrow.double(), rows.columns(self.columns).T.double()], dim=1)
        roots = torch.arange(0, self.feature.numel(), self.feature.shape[1], device=x.device)
        children = (torch.stack([self.right, self.left], dim=2) + roots[:, None, None]).flatten()
        feature, threshold, value = (one.flatten() for one in (self.feature, self.threshold, self.value))
        node = roots.repeat(len(x))  # of all rows and trees, numbered through
        for _ in range(int(self.depth)):
            compared = x.gather(1, feature.index_select(0, node).view(-1, len(roots))).flatten()
            node = children.index_select(0, 2 * node + (compared <= threshold.index_select(0, node)))
        return value.index_select(0, node).view(-1, len(roots)).sum(dim=1) + self.offset


def boosting(tasks: Sequence[Task], seed: int) -> list[Trees]:
    """Histogram-based gradient boosting with early stopping, on principal axes and single columns."""
    if has_kernels(tasks[0].rows.x.device):
        return boosted_together(tasks, seed)
    return side_by_side([partial(_boosted, task, seed) for task in tasks])


def _binned(task: Task) -> tuple[Tensor, Tensor, Tensor]:
    """The single columns, the edges of the bins of all features, (features, BINS − 1), and each row's bins."""
    columns = task.columns[:NARROW] if task.rows.x.shape[1] > NARROW else task.columns[:0]
    axes = task.rows.once("bins", lambda rows: _bins(rows.ordered, task.fit))
    if not len(columns):
        return columns, *axes
    edges, bins = _bins(Ordered.of(task.rows.columns(columns)), task.fit)
    return columns, torch.cat([axes[0], edges]), torch.cat([axes[1], bins])


def _bins(features: Ordered, fit: Tensor) -> tuple[Tensor, Tensor]:
    """Edges of the bins of each feature, found on the rows `fit` without labels, and the bin of every row."""
    edges = bin_edges(features.some(fit).double())
    beyond = torch.searchsorted(features.values.double(), edges, right=True)
    return edges, features.counted(beyond).to(torch.uint8)


def bin_edges(ordered: Tensor) -> Tensor:
    """Edges between the distinct values of sorted features, or between quantiles if there are more than `BINS`."""
    low, high = ordered[:, :-1], ordered[:, 1:]
    place = (high > low).cumsum(dim=1)
    few = place[:, -1:] < BINS
    edges = torch.full((len(ordered), BINS), torch.inf, dtype=ordered.dtype, device=ordered.device)
    edges.scatter_(1, torch.where(few & (high > low), place - 1, BINS - 1), low + (high - low) / 2)
    at = torch.arange(1, BINS, device=ordered.device) * ordered.shape[1]  # the quantile k is at the rank k n/BINS
    low, high = ordered[:, (at + BINS - 1) // BINS - 1], ordered[:, at // BINS]
    return torch.where(few, edges[:, :-1], low + (high - low) / 2)


def _boosted(task: Task, seed: int) -> Trees:
    columns, edges, bins = _binned(task)
    model = boosted_trees()(
        max_iter=TREES,
        learning_rate=RATE,
        max_leaf_nodes=LEAVES,
        max_bins=BINS,
        l2_regularization=RIDGE,
        early_stopping=True,
        random_state=seed,
    )
    model.edges = to_numpy(edges)
    model.fit(to_numpy(bins[:, task.train].T), to_numpy(task.labels))
    trees: Trees = model.trees(columns, task.log_odds)
    return trees


@cache
def boosted_trees() -> Any:
    """Gradient boosting of scikit-learn for features that are binned already, with its trees as arrays."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    class BoostedTrees(HistGradientBoostingClassifier):  # type: ignore[misc]
        edges: Array

        def _bin_data(self, x: Any, *arguments: Any, **named: Any) -> Any:
            mapper = self._bin_mapper
            mapper.bin_thresholds_ = [one[np.isfinite(one)] for one in self.edges]
            mapper.n_bins_non_missing_ = np.array([len(one) + 1 for one in mapper.bin_thresholds_], dtype=np.uint32)
            mapper.is_categorical_ = np.zeros(len(self.edges), dtype=np.uint8)
            mapper.missing_values_bin_idx_ = mapper.n_bins - 1
            return np.asfortranarray(x, dtype=np.uint8)

        def trees(self, columns: Tensor, log_odds: float) -> Trees:
            nodes = [one[0].nodes for one in self._predictors]
            table = np.zeros((len(nodes), max(map(len, nodes))), dtype=nodes[0].dtype)
            for row, one in zip(table, nodes, strict=True):
                row[: len(one)] = one
            leaf, itself = table["is_leaf"] > 0, np.broadcast_to(np.arange(table.shape[1]), table.shape)
            arrays = (
                table["feature_idx"].astype(np.int64),
                table["num_threshold"].astype(np.float64),
                np.where(leaf, itself, table["left"].astype(np.int64)),
                np.where(leaf, itself, table["right"].astype(np.int64)),
                np.where(leaf, table["value"], 0.0),
                np.asarray(table["depth"].max().astype(np.int64)),
                np.asarray(self._baseline_prediction.ravel()[0] - log_odds),
            )
            return Trees(columns, *(torch.as_tensor(np.array(one), device=columns.device) for one in arrays))

    return BoostedTrees


def boosted_together(tasks: Sequence[Task], seed: int) -> list[Trees]:
    """The same trees for all tasks at once, where the samples are: each step is the same computation for every task."""
    columns, edges, bins = zip(*map(_binned, tasks), strict=True)
    widest = max(map(len, bins))  # features beyond those of a task have one bin: they are never split
    binned = torch.stack([torch.nn.functional.pad(one, (0, 0, 0, widest - len(one))) for one in bins])
    real, trained, held_out = (binned.new_zeros(len(tasks), binned.shape[2], dtype=torch.bool) for _ in range(3))
    generator = torch.Generator().manual_seed(seed)
    for row, task in enumerate(tasks):
        real[:, task.real] = True
        for side in (task.real, task.fake):
            order = side[torch.randperm(len(side), generator=generator).to(side.device)]
            cut = round(HELD_OUT * len(side))
            held_out[row, order[:cut]], trained[row, order[cut:]] = True, True
    splits, values, stops = grown(binned, real, trained, held_out)
    start, parts = _log_odds(real, trained), zip(tasks, columns, edges, strict=True)
    arrays = [
        [of, *_numbered(splits[: stops[i], i], values[: stops[i], i], at), start[i] - task.log_odds]
        for i, (task, of, at) in enumerate(parts)
    ]
    return [Trees(*each) for each in arrays]


def _log_odds(real: Tensor, trained: Tensor) -> Tensor:
    """Log-odds of "real" among the training rows of each task."""
    return ((real & trained).sum(dim=1).double() / trained.sum(dim=1)).logit()


def grown(bins: Tensor, real: Tensor, trained: Tensor, held_out: Tensor) -> tuple[Tensor, Tensor, list[int]]:
    """Splits (trees, tasks, LEAVES − 1, 4) and values of leaves (trees, tasks, LEAVES), and trees until a task stops.

    `bins` has the shape (tasks, features, rows), the others (tasks, rows). The values are Newton steps of the log-loss:
    `−Σg/(Σh + RIDGE)` in each leaf, where `g = σ(s) − y` and `h = σ(s)(1 − σ(s))` at the score s.
    """
    score = _log_odds(real, trained)[:, None].repeat(1, trained.shape[1])

    def one_tree() -> tuple[Tensor, Tensor, Tensor]:
        chance = score.sigmoid()
        slopes = torch.stack([chance - real.double(), chance * (1 - chance)], dim=2).float()
        node, sums, splits = _tree(bins, slopes, trained)
        values = -RATE * sums[..., 0] / (sums[..., 1] + RIDGE)
        score.add_(values.gather(1, node))
        return splits, values, _loss(score, real, held_out)

    found, losses, again = [], [_loss(score, real, held_out)], replayed(one_tree, bins.device)
    for k in range(1, TREES + 1):
        *tree, loss = (one.clone() for one in again())
        found.append(tree)
        losses.append(loss)
        if k % PATIENCE == 0 or k == TREES:
            stops = [_stop(one) for one in torch.stack(losses, dim=1).tolist()]
            if max(stops) < k:
                break
    splits, values = (torch.stack(one) for one in zip(*found, strict=True))
    return splits, values, stops


def _loss(score: Tensor, real: Tensor, rows: Tensor) -> Tensor:
    """Mean log-loss of these rows of each task."""
    losses = torch.nn.functional.softplus(torch.where(real, -score, score))
    return (losses * rows).sum(dim=1) / rows.sum(dim=1)


def _stop(losses: Sequence[float]) -> int:
    """Number of trees after which none of the last `PATIENCE` has helped; all of them if that never happens."""
    for k in range(PATIENCE, len(losses)):
        if min(losses[k - PATIENCE + 1 : k + 1]) >= losses[k - PATIENCE] - TOLERANCE:
            return k
    return len(losses) - 1


def _tree(bins: Tensor, slopes: Tensor, trained: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One tree per task, leaf by leaf where the gain is largest: each row's leaf, the sums of each leaf, the splits.

    The split k says: rows of the leaf `splits[k, 0]` whose bin of the feature `splits[k, 1]` is above `splits[k, 2]`
    move to the leaf k + 1, if `splits[k, 3]` is positive. A slope is two terms of 11 bits for the histograms.
    """
    (tasks, features, rows), blocks = bins.shape, -(-bins.shape[2] // ROWS)
    table, sums = (bins.new_empty(tasks, k, features, BINS + 1, dtype=torch.float64) for k in (3 * SLOTS, 3))
    gains, cuts = (bins.new_empty(tasks, SLOTS, features, dtype=kind) for kind in (torch.float64, torch.int32))
    listed, count = (bins.new_empty(tasks, size, dtype=torch.int32) for size in (blocks * ROWS, blocks))
    node, splits = (bins.new_zeros(tasks, size, dtype=torch.int64) for size in (rows, 4 * SLOTS))
    high = slopes.half()
    low = ((slopes - high) * 2048).half()
    terms = torch.cat([torch.stack([high, low], dim=3).flatten(2), torch.ones_like(high[..., :1])], dim=2)
    terms = torch.nn.functional.pad(terms, (0, 11))
    width, how = 1 << (features - 1).bit_length(), {"SLOTS": SLOTS, "SIZE": BINS + 1}
    rules = {"RIDGE": RIDGE, "FEWEST": FEWEST, "LEAST": LEAST}
    with device_of(node):
        for new in range(LEAVES):
            sizes = new, features, rows
            state = (gains, cuts, table, bins, trained, node, listed, count, splits)
            kernels.split[(tasks * blocks,)](*state, *sizes, WIDTH=width, ROWS=ROWS, **how)
            read = (bins, terms, listed, count, sums)
            kernels.histogram[(tasks * -(-features // 2),)](*read, *sizes[1:], SIZE=BINS + 1, ROWS=ROWS, STEP=64)
            found = (sums, table, splits, gains, cuts)
            kernels.gain[(tasks * features,)](*found, *sizes[:2], **rules, **how, enable_fp_fusion=False)
    leaves = table.view(tasks, SLOTS, 3, features, -1)[:, :LEAVES, :, 0].sum(dim=-1)
    return node, leaves, splits.view(tasks, SLOTS, 4)[:, 1:LEAVES]


def _numbered(splits: Tensor, values: Tensor, edges: Tensor) -> list[Tensor]:
    """The trees of one task as numbered nodes: feature, threshold, left, right, value and depth of `Trees`."""
    tree, width = torch.arange(len(splits), device=splits.device), 2 * LEAVES - 1
    left = torch.arange(width, device=splits.device).repeat(len(splits), 1)
    right, feature, bin_ = left.clone(), torch.zeros_like(left), torch.zeros_like(left)
    at, level = torch.zeros_like(left[:, :LEAVES]), torch.zeros_like(left[:, :LEAVES])
    for new in range(1, LEAVES):
        leaf, compared, cut, split = splits[:, new - 1].unbind(dim=1)
        node, split = at[tree, leaf], split > 0
        left[tree, node], right[tree, node] = (torch.where(split, one, node) for one in (2 * new - 1, 2 * new))
        feature[tree, node], bin_[tree, node] = compared, cut
        at[tree, leaf], at[:, new] = left[tree, node], torch.where(split, 2 * new, width - 1)
        level[tree, leaf] += split
        level[:, new] = level[tree, leaf] * split
    value = values.new_zeros(left.shape).scatter_(1, at, values)
    threshold = torch.nn.functional.pad(edges, (0, 2))[feature, bin_]  # of the last bins: no node splits there
    return [feature, threshold, left, right, value, level.max()]
