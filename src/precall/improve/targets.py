"""`target`: the set on which to fine-tune a model at a trade-off λ: which draws to keep, which data to add.

The set follows the PR projection, the distribution nearest to the model that is right at slope λ. Draws and data are
chosen by cross-fitted ratios. The mathematics is in docs/theory.md, The PR projection.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from precall.improve.ratio import RatioWarning
from precall.improve.selection import JudgedSamples, changes, judge, notes_on_samples, systematic
from precall.metrics.inputs import Side
from precall.metrics.score import CurveIntervals, Interval, plain, readings
from precall.progress import Progress
from precall.theory import checks
from precall.theory.arrays import Array, Index
from precall.theory.projection import ProjectionRule
from precall.theory.spectrum import RatioSpectrum

FEW = 20  # note if fewer draws are too many (λ ≥ 1), or fewer data are missing (λ < 1), than this
RESOLVED = 0.75  # note if the ratios identify less than this share of what is wrong according to the curve


@dataclass(frozen=True, slots=True)
class TargetRow:
    """Where one sample of the set comes from: "fake" or "real", its position there, and its id."""

    source: str
    index: int
    id: str


@dataclass(frozen=True, eq=False, repr=False)
class Target:
    """The set on which to fine-tune a model, and the curve that it would then have. It prints as three lines.

    Attributes:
        lam: the trade-off λ.
        kept: positions in `fake` of the draws to keep, increasing.
        added: positions in `real` of the data to add, increasing.
        keep_probability: probability of each draw to be kept, shape (n_fake,).
        add_probability: probability of each data point to be added, shape (n_real,).
        rows: origin of each sample of the set, in a random order.
        largest: largest size of the set that these samples allow without repeating one.
        spectrum_before: estimated spectrum of the model.
        predicted: its projection, which is the spectrum of a model that fits the set exactly.
        interval: interval of `spectrum_before.alpha(lam)`, or None if the estimator computes none.
        estimator: name of the classifiers that estimated the ratios.
        seed: seed of folds, classifiers and choice.
        notes: notes for the user, one sentence each; they are also issued as warnings.
        protocol: encoder and fingerprint of both sample sets, if samples were encoded.
    """

    lam: float
    kept: Index
    added: Index
    keep_probability: Array
    add_probability: Array
    rows: tuple[TargetRow, ...]
    largest: int
    spectrum_before: RatioSpectrum
    predicted: RatioSpectrum
    interval: Interval | None
    estimator: str
    seed: int
    notes: tuple[str, ...] = ()
    protocol: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"{self.summary}\n{self.precision}\npredicted, at best: {self.changes}"

    @property
    def summary(self) -> str:
        """How many draws are kept and how many data are added."""
        n, m = len(self.keep_probability), len(self.add_probability)
        parts = f"{len(self.kept):,} of {n:,} draws kept, {len(self.added):,} of {m:,} data added"
        return f"target for λ = {self.lam:g}: {parts}"

    @property
    def precision(self) -> str:
        """α(λ) of the model with its interval, and of the projection."""
        before, after = (one.alpha(self.lam) for one in (self.spectrum_before, self.predicted))
        known = "" if self.interval is None else f" [{self.interval.low:.3f}, {self.interval.high:.3f}]"
        return f"α({self.lam:g}): {before:.3f}{known} → {after:.3f}"

    @property
    def changes(self) -> str:
        """Scores of the curve of the model, and of a model that fits the set exactly."""
        return changes(self.spectrum_before, self.predicted)

    def to_dict(self) -> dict[str, Any]:
        """The target as JSON-compatible values: the origin of each row, and what is predicted."""
        known = self.interval
        return {
            "lam": self.lam,
            "size": len(self),
            "kept": len(self.kept),
            "added": len(self.added),
            "largest": self.largest,
            "alpha": self.spectrum_before.alpha(self.lam),
            "alpha_interval": None if known is None else [known.low, known.high],
            "before": readings(self.spectrum_before),
            "predicted": readings(self.predicted),
            "estimator": self.estimator,
            "seed": self.seed,
            "notes": list(self.notes),
            "protocol": plain(self.protocol),
            "rows": [asdict(row) for row in self.rows],
        }


def target(
    *,
    real: Any,
    fake: Any,
    lam: float,
    size: int | None = None,
    estimator: str = "auto",
    encoder: Any = None,
    seed: int = 0,
    device: str | None = None,
    progress: Progress | None = None,
) -> Target:
    """Choose the samples on which to fine-tune a model so that it becomes right at the trade-off λ.

    The set follows the PR projection: the distribution with `α(λ) = min(1, λ)` that is nearest to the model. With a
    large λ, draws that are too frequent are replaced by data. With a small λ, data that the model misses are added to
    its draws. Everything else stays as it is, and a model that fits the set exactly loses at no other slope. A model
    without the capacity to fit the set may lose.

    The choice depends on `real`. To assess the fine-tuned model, use real samples that were not used here.

    Args:
        real: the data, at least 50 samples in any form that `precall.assess` accepts.
        fake: draws of the model, at least 50 of them.
        lam: trade-off λ > 0. λ = 10 mends what the model invents, λ = 0.1 what it misses, and λ = 1 everything.
        size: number of samples in the set; the largest possible number if None.
        estimator: classifier that estimates the ratios: "auto", the stacked panel, or one of its members.
        encoder: encoder of samples that are not features, as in `precall.assess`.
        seed: seed of folds, classifiers and choice. The same seed gives the same set.
        device: where encoders and perceptrons run: "cpu", "cuda", "mps" or "auto", as in `precall.assess`.
        progress: called with (stage, done, total).

    Returns:
        The target. Its notes are also issued as warnings (`RatioWarning`).

    Raises:
        ValueError: If `size` is larger than the samples allow.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> real, fake = rng.normal(size=(400, 2)), rng.normal(size=(400, 2))
        >>> fake[:100] += 5  # a quarter is invented
        >>> chosen = target(real=real, fake=fake, lam=10, estimator="linear")
        >>> invented = np.mean(chosen.kept < 100)
        >>> len(chosen) > 300, bool(invented < 0.05), bool(0.15 < len(chosen.added) / len(chosen) < 0.3)
        (True, True, True)

    References:
        docs/theory.md, The PR projection; Madow (1949), on systematic sampling.
    """
    checks.positive("lam", lam)
    judged = judge(
        real=real, fake=fake, estimator=estimator, encoder=encoder, seed=seed, device=device, progress=progress
    )
    return target_of(judged, lam=lam, size=size, seed=seed)


def target_of(judged: JudgedSamples, *, lam: float, size: int | None = None, seed: int = 0) -> Target:
    """The target of samples whose ratios are known. Several λ can share them. The arguments are those of `target`."""
    lam, result, rng = checks.positive("lam", lam), judged.result, np.random.default_rng(seed)
    before = result.spectrum
    rule = ProjectionRule.at(lam, alpha=before.alpha(lam))
    keep, add = rule.keep(result.log_ratio_fake), rule.add(result.log_ratio_real)
    largest = _largest(keep, add, rule.moved)
    n_kept, n_added = _counts(keep, add, rule.moved, _size(size, largest))
    kept, keep_probability = draw_rows(keep, n_kept, result.log_ratio_fake, rng)
    added, add_probability = draw_rows(add, n_added, result.log_ratio_real, rng)
    interval = interval_at(judged, lam, seed)
    notes = (*notes_on_samples(judged), *_notes(keep, add, rule, interval))
    for note in notes:
        warnings.warn(note, RatioWarning, stacklevel=3)
    sides = {"fake": (judged.fake, kept), "real": (judged.real, added)}
    rows = [TargetRow(name, *place) for name, (one, chosen) in sides.items() for place in places(one, chosen)]
    return Target(
        lam=lam,
        kept=positions(judged.fake, kept),
        added=positions(judged.real, added),
        keep_probability=keep_probability,
        add_probability=add_probability,
        rows=tuple(rows[i] for i in rng.permutation(len(rows))),
        largest=largest,
        spectrum_before=before,
        predicted=before.projected(lam),
        interval=interval,
        estimator=result.name,
        seed=seed,
        notes=notes,
        protocol={name: one.protocol for name, (one, _) in sides.items() if one.protocol},
    )


def _largest(keep: Array, add: Array, moved: float) -> int:
    """The largest set in which a share `moved` is data, each sample at most once, with probabilities of at most one."""
    draws, data = float(keep.sum()), float(add.sum())
    by_draws = draws / (1 - moved) if moved < 1 else math.inf
    by_data = data / moved if moved > 0 else math.inf
    return int(min(by_draws, by_data, math.floor(draws) + math.floor(data)))


def _size(size: int | None, largest: int) -> int:
    wanted = largest if size is None else checks.count("size", size)
    if wanted > largest or wanted < 1:
        asked = "`size` must be at least 1" if size is None else f"`size` must be at most {largest:,}; got {wanted:,}"
        raise ValueError(f"{asked}: these samples allow a set of {largest:,} at this λ. Pass more draws and more data.")
    return wanted


def _counts(keep: Array, add: Array, moved: float, size: int) -> tuple[int, int]:
    """Numbers of draws and of data, which sum to `size`."""
    least, most = size - math.floor(keep.sum()), math.floor(add.sum())
    added = min(max(round(moved * size), least), most)
    return size - added, added


def draw_rows(weights: Array, n: int, log_ratio: Array, rng: np.random.Generator) -> tuple[Index, Array]:
    """Choose n samples with probabilities proportional to `weights`, by systematic sampling along the ratio."""
    total = float(weights.sum())
    probabilities = np.minimum(1.0, weights * (n / total)) if n else np.zeros_like(weights)
    by_ratio = np.lexsort((rng.permutation(weights.size), log_ratio))  # ties in random order
    return systematic(probabilities, by_ratio, rng), probabilities


def interval_at(judged: JudgedSamples, lam: float, seed: int) -> Interval | None:
    """The interval of α(λ)."""
    found = CurveIntervals.gathered(judged.result.uncertainty(seed=seed)["intervals"])
    return None if found is None else found.at(lam, float(judged.result.spectrum.alpha(lam)))


def positions(one: Side, rows: Index) -> Index:
    """Positions in the source; unreadable samples have no row."""
    return rows if one.samples is None else np.asarray(one.rows, dtype=np.intp)[rows]


def places(one: Side, rows: Index) -> list[tuple[int, str]]:
    """Position and id of each row."""
    sources = positions(one, rows).tolist()
    return [(at, one.identity(int(row))) for at, row in zip(sources, rows, strict=True)]


def _notes(keep: Array, add: Array, rule: ProjectionRule, interval: Interval | None) -> tuple[str, ...]:
    """Notes on what these samples can show at this slope."""
    notes, lam, best = [], rule.lam, min(1.0, rule.lam)
    way_out = "Pass more samples, use another encoder, or choose a λ closer to 1."
    if interval is not None and interval.high >= best * (1 - 1e-9):
        notes.append(
            f"these samples cannot show whether anything is wrong at λ = {lam:g}: the interval of α(λ) contains its "
            f"largest value, {best:g}. {way_out}"
        )
    # the surplus of the model (λ ≥ 1), or what it lacks (λ < 1): by the ratios, and by the curve
    found, share, what = 1 - keep, rule.moved, "draws are too many"
    if lam < 1:
        found, share, what = add, rule.moved / lam, "data are missing"
    if rule.moved > 0 and found.sum() < FEW:
        notes.append(
            f"the set rests on few samples: about {found.sum():.0f} of {found.size:,} {what} at λ = {lam:g}. {way_out}"
        )
    elif found.mean() < RESOLVED * share:
        notes.append(
            f"about {share:.0%} of the {what} at λ = {lam:g}, but the ratios identify only {found.mean():.0%}, so that "
            f"the set mends a part. {way_out}"
        )
    return tuple(notes)
