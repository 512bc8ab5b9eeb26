"""Memorisation: are the fakes closer to the training samples than to samples that the model has never seen?

A model that generalises does not know which sample is in the training set and which in a holdout of the same law, so
these labels are exchangeable given the fakes. Copies break this symmetry. Identical and nearly identical rows
("twins") form one record: a training record, a holdout record, or both. Permutations exchange the labels of the
records that are not both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from precall.lazy import torch
from precall.metrics.assessing.run import Run
from precall.metrics.copies.close_fakes import BOTH, HOLDOUT, PERMUTATIONS, TRAIN, CloseFakes
from precall.metrics.inputs.features import Features, Pair, as_features, same_dimension
from precall.metrics.inputs.records import twin_records
from precall.metrics.neighbors.ball_scores import Nearest
from precall.metrics.scores.metric import Found, Metric
from precall.metrics.scores.score import Interval, Score, ScoreInfo, normal_quantile
from precall.theory import checks
from precall.theory.arrays import Array, Counts, is_tensor, to_numpy

LISTED = 16  # number of nearest samples kept per sample
MOST_LISTED = 64  # the same if one set is much smaller than the other
NEIGHBOURS = 3  # neighbours of each row that show whether training samples and holdout are of one law
TEST = "permutation of the labels training and holdout (exact)"
COPIES_COVERED = (
    "the share of the model's samples that are copies, over fresh draws of all samples; copies of samples that have a "
    "twin in the holdout are assumed to be as frequent as others"
)


def memorization(
    *, real: object, fake: object, holdout: object, seed: int = 0, level: float = 0.95
) -> dict[str, Score]:
    """Compare the distances of the fakes to the training samples with their distances to a holdout.

    Let d_T and d_H be the distances of a fake to its nearest training and its nearest holdout sample. A fake is close
    to the training set if d_T ≤ t d_H, and close to the holdout if d_H ≤ t d_T, with t = 1/2, or less if more than
    1/24 of the fakes would be close to the holdout. Without copies both are equally frequent (after correction for
    sizes), so the excess estimates the number of copies:

        memorized = (Σ 1{d_T ≤ t d_H} − Σ 1{d_H ≤ t d_T} (n)_b/(h)_b) / (m v)

    Here n and h are the numbers of training and holdout records, b is the number of records within d/t of the fake, and
    (n)_b = n (n − 1) … (n − b + 1). A copy of a training sample that has a twin in the holdout is not visible. v is the
    share of training samples whose copies are visible.

    The p-value of `memorized` is that of an exact test, which recomputes the excess with permuted labels and gives the
    closest fakes the most weight. The fakes need not be independent of each other. A holdout of another law than the
    training samples looks like copying; `holdout_p_value` is that of an exact test of this, by nearest neighbours.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> train, holdout, fake = rng.normal(size=(3, 500, 8))
        >>> fake[:50] = train[:50] + 0.01
        >>> scores = memorization(real=train, fake=fake, holdout=holdout)
        >>> print(scores["memorized"], scores["memorized"].p_value)
        0.10 [0.08, 0.13] 0.001

    References:
        Phipson and Smyth (2010), for the p-value; Jiralerspong et al. (2023), for the gap; docs/theory.md,
        Memorisation.
    """
    level = checks.level("level", level)
    train, held, fakes = as_features("real", real), as_features("holdout", holdout), as_features("fake", fake)
    same_dimension(real=train, fake=fakes)
    same_dimension(real=train, holdout=held)
    return _scores(Closest.of(train, held, fakes), seed, level)


@dataclass(frozen=True, eq=False)
class Closest:
    """The distinct rows of both sets (the pool), the records that they form, and the nearest rows of every sample."""

    in_train: Counts  # number of training samples that equal each row of the pool, shape (p,)
    in_holdout: Counts  # number of holdout samples that equal each row of the pool, shape (p,)
    record: Counts  # the record of each row: rows that are twins have the same one, shape (p,)
    within: Nearest  # the nearest other rows of each row
    of_fakes: Nearest  # the nearest rows of each fake

    @classmethod
    def of(cls, train: Features, holdout: Features, fake: Features) -> Closest:
        """Compute the neighbours of checked features in two exact passes."""
        from precall.metrics.tiles.clouds import Cloud

        pool, n = _stacked(train, holdout), len(train)
        pair = Pair(fake, pool).together()
        fake, pool = pair.real, pair.fake
        distinct = Cloud(pool, 0)
        rows = pool[distinct.position if is_tensor(pool) else to_numpy(distinct.position)]
        row_of = to_numpy(distinct.stand_in)
        if len(rows) < 2:
            raise ValueError("`real` and `holdout` must hold at least two different rows; got one row, repeated.")
        wanted = round(LISTED * len(pool) / (2 * min(n, len(holdout))))  # nearly every list has some of the smaller set
        size = min(wanted, MOST_LISTED, len(rows) - 1, len(fake))
        within, _ = _listed(rows, None, size)
        of_fakes, _ = _listed(fake, rows, size)
        in_train, in_holdout = (np.bincount(one, minlength=len(rows)) for one in (row_of[:n], row_of[n:]))
        return cls(in_train, in_holdout, twin_records(within.index, within.distance), within, of_fakes)

    @property
    def n_fake(self) -> int:
        """Number of fakes."""
        return len(self.of_fakes.index)

    @cached_property
    def owner(self) -> Counts:
        """Which sets each record is in: TRAIN, HOLDOUT or BOTH."""
        owner = np.zeros(self.record.max() + 1, dtype=np.int64)
        np.bitwise_or.at(owner, self.record, TRAIN * (self.in_train > 0) + HOLDOUT * (self.in_holdout > 0))
        return owner

    @cached_property
    def near(self) -> Counts:
        """The records of the nearest rows of each fake, shape (m, K)."""
        return np.asarray(self.record[self.of_fakes.index])

    @cached_property
    def counts(self) -> tuple[int, int]:
        """Number of training and of holdout records, without those that are both."""
        return int((self.owner == TRAIN).sum()), int((self.owner == HOLDOUT).sum())

    @property
    def train_share(self) -> float:
        """Share of training records among those that are in one set only."""
        return self.counts[0] / max(1, sum(self.counts))


def _stacked(train: Features, holdout: Features) -> Features:
    """Training and holdout samples in one matrix."""
    pair = Pair(train, holdout).together()
    train, holdout = pair.real, pair.fake
    if is_tensor(train) and is_tensor(holdout):
        return torch.cat([train, holdout])
    return np.concatenate([train, holdout])


def _listed(rows: Features, others: Features | None, size: int) -> list[Nearest]:
    """The nearest others of each row and the nearest rows of each other, or the nearest rows within one set."""
    from precall.metrics.pairs.tallies import read_within
    from precall.metrics.tiles.clouds import Cloud

    own = Cloud(rows, size)
    lists = read_within(own, own if others is None else Cloud(others, size), size)
    return [Nearest(one.index, np.sqrt(one.values)) for one in lists]


def _visible(closest: Closest, close: CloseFakes, t: float) -> tuple[Array, float]:
    """The share of training samples whose copies would be close, at the distance of each candidate and at distance 0.

    A copy at the distance r of a training sample, relative to that of its K-th neighbour, is visible if r ≤ t d_H/d_K.
    """
    rows = np.flatnonzero(closest.in_train)
    distance, sets = closest.within.distance[rows], closest.owner[closest.record[closest.within.index[rows]]]
    held = (sets & HOLDOUT) > 0
    nearest = np.where(held.any(1), distance[np.arange(len(rows)), held.argmax(1)], distance[:, -1])
    alone = closest.owner[closest.record[rows]] == TRAIN
    reach = np.where(alone, t * nearest / distance[:, -1], -1.0)
    order, weight = np.argsort(reach), closest.in_train[rows]
    below = np.concatenate([[0], np.cumsum(weight[order])]) / weight.sum()
    last = closest.of_fakes.distance[close.fakes, -1]
    relative = closest.of_fakes.distance[close.fakes, 0] / np.where(last > 0, last, 1.0)
    return 1 - below[np.searchsorted(reach[order], relative, side="left")], float(weight[alone].sum() / weight.sum())


def _memorized(closest: Closest, seed: int, level: float) -> Score:
    """The share of copies, with its interval and its test."""
    close = CloseFakes.of(closest.of_fakes.distance, closest.near, closest.owner)
    found = close.judged(closest.owner)
    visible, most = _visible(closest, close, found.t)
    # A candidate too far away to be visible as a copy of most training samples is noise.
    weight = np.where(visible >= most / 2, 1 / np.maximum(visible, 1e-9), 0.0) if most > 0 else np.zeros(len(visible))
    share = float((weight * found.train).sum() - (weight * found.holdout).sum()) / closest.n_fake
    value = min(1.0, max(0.0, share))
    noise = _noise(weight * found.holdout, close)
    details = {
        "holdout_p_value": _of_one_law(closest, seed),
        "ratio": found.t,
        "close_to_train": int(found.train.sum()),
        "close_to_holdout": int((found.holdout > 0).sum()),
        "identical_rows": int(closest.in_train[closest.in_holdout > 0].sum()),
        "visible": most,
    }
    interval = _share_interval(share, noise / closest.n_fake**2, most, closest.n_fake, level)
    return replace(_score(closest, value, interval, 0.0, close.p_value(closest.owner, seed)), details=details)


def _of_one_law(closest: Closest, seed: int) -> float:
    """The exact p-value that training and holdout records are of one law: how often neighbours are of the same set."""
    index = closest.within.index[:, :NEIGHBOURS]
    a, b = np.repeat(closest.record, index.shape[1]), closest.record[index.ravel()]
    kept = (a != b) & (closest.owner[a] != BOTH) & (closest.owner[b] != BOTH)
    pure = closest.owner != BOTH
    place = np.cumsum(pure) - 1
    a, b, labels = place[a[kept]], place[b[kept]], closest.owner[pure] == TRAIN
    rng, observed = np.random.default_rng(seed), int((labels[a] == labels[b]).sum())
    permuted = (rng.permutation(labels) for _ in range(PERMUTATIONS))
    reached = sum(int((one[a] == one[b]).sum()) >= observed for one in permuted)
    return (1 + reached) / (1 + PERMUTATIONS)


def _noise(holdout: Array, close: CloseFakes) -> float:
    """Variance of the number of fresh fakes close to training records, and of its estimate; one more fake is added."""
    factor = max(float(close.factor[1]), 1e-9)
    return _clustered(holdout, close.near[:, 0]) * (1 + 1 / factor) + (1 + factor) * max(1.0, factor)


def _share_interval(share: float, noise: float, visible: float, m: int, level: float) -> Interval:
    """Interval for a share of m fakes that are seen with probability `visible`, with the noise of the holdout added."""
    if visible == 0:
        return Interval(0.0, 1.0, level, COPIES_COVERED)
    z, s = normal_quantile(level), min(1.0, max(0.0, share * visible))
    variance = s * (1 - s) / m + noise * visible**2
    low = s - z * np.sqrt(variance)
    # Wilson's upper end: (s + z²/2m + z √(variance + z²/4m²)) / (1 + z²/m)
    high = (s + z * z / (2 * m) + z * np.sqrt(variance + z * z / (4 * m * m))) / (1 + z * z / m)
    low, high = (float(np.clip(end / visible, 0, 1)) for end in (low, high))
    return Interval(low, high, level, COPIES_COVERED)


def _clustered(values: Array, cluster: Counts) -> float:
    """Σ over clusters of the squared sum of their values: the variance if fakes near the same record go together."""
    return float((np.bincount(cluster, values) ** 2).sum()) if len(values) else 0.0


def _closer_to_train(closest: Closest, seed: int, level: float) -> Score:
    """The share of fakes whose closest record is a training record, with its interval and its test."""
    pure, share = closest.owner != BOTH, closest.train_share
    tied = closest.of_fakes.distance <= closest.of_fakes.distance[:, :1]
    weight = tied / tied.sum(1, keepdims=True)
    held = np.where(pure, closest.owner == TRAIN, share)
    each = (weight * held[closest.near]).sum(1)
    fakes_of = np.bincount(closest.near.ravel(), weight.ravel(), minlength=len(pure))[pure]
    rng, labels = np.random.default_rng(seed), closest.owner[pure] == TRAIN
    observed = fakes_of @ labels
    reached = sum(fakes_of @ rng.permutation(labels) >= observed - 1e-9 for _ in range(PERMUTATIONS))
    value, m = float(each.mean()), closest.n_fake
    half = normal_quantile(level) * np.sqrt(_clustered(each - value, closest.near[:, 0])) / m
    covers = "the expectation of the share at these sizes, over fresh draws of all samples"
    interval = Interval(float(max(0.0, value - half)), float(min(1.0, value + half)), level, covers)
    return _score(closest, value, interval, share, (1 + int(reached)) / (1 + PERMUTATIONS))


def _score(closest: Closest, value: float, interval: Interval, chance: float, p_value: float) -> Score:
    settings = {"test": TEST, "permutations": PERMUTATIONS, "n_holdout": int(closest.in_holdout.sum())}
    return Score(value, interval, chance, int(closest.in_train.sum()), closest.n_fake, settings, p_value)


def _scores(closest: Closest, seed: int, level: float) -> dict[str, Score]:
    return {"memorized": _memorized(closest, seed, level), "closer_to_train": _closer_to_train(closest, seed, level)}


def _compute(run: Run) -> Found:
    run.report("memorization")
    assert run.holdout is not None  # `Reference.assess` checks it
    return Found(_scores(Closest.of(run.pair.real, run.holdout, run.pair.fake), run.seed, 0.95))


CLOSER = "share of fakes closest to a training sample"
MEMORIZATION = Metric(
    name="memorization",
    reads="distances of the fakes to training samples, compared with distances to a holdout",
    scores=(
        ScoreInfo("memorized", "memorized", 0.0, 1.0, "lower", "share of fakes that copy a training sample", "table"),
        ScoreInfo("closer_to_train", "closer to train", 0.0, 1.0, "lower", CLOSER),
    ),
    interval="normal and Wilson, with the noise of the holdout: the share of copies; the expectation at these sizes",
    compute=_compute,
    needs="a holdout (`holdout=`, `--holdout`), and is then always computed",
)
