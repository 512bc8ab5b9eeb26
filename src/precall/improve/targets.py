"""Sets to fine-tune on at a trade-off λ: `target` for a model, and `surplus` for a guide to sample away from.

The target follows the PR projection, the distribution nearest to the model that is right at slope λ: some draws are
kept, and some data are added. The surplus (q − λp)₊ holds the draws that are too many. Draws and data are chosen by
cross-fitted ratios. The mathematics is in docs/theory.md, The PR projection and Away from the surplus.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from precall.improve.judging import JudgedSamples, judge
from precall.improve.selection import Selection, concluded, systematic
from precall.metrics.scores.score import CurveIntervals, Interval
from precall.progress import Progress
from precall.theory import checks
from precall.theory.arrays import Array, Index
from precall.theory.projection import ProjectionRule, surplus_share

FEW = 20  # note if fewer draws are too many, or fewer data are missing, than this
RESOLVED = 0.75  # note if the ratios identify less than this share of what is wrong according to the curve


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
) -> Selection:
    """Choose the samples on which to fine-tune a model so that it becomes right at the trade-off λ.

    The set follows the PR projection: the distribution with `α(λ) = min(1, λ)` that is nearest to the model. With a
    large λ, draws that are too frequent are replaced by data. With a small λ, data that the model misses are added to
    its draws. Everything else stays as it is, and a model that fits the set exactly loses at no other slope. A model
    without the capacity to fit the set may lose.

    To assess the fine-tuned model, use real samples that were not used here.

    Args:
        real: the data, at least 50 samples in any form that `precall.assess` accepts.
        fake: draws of the model, at least 50 of them.
        lam: slope λ > 0. λ = 10 replaces draws that are more than 10 times as frequent as in the data. λ = 0.1 adds
            data that the model produces less than a tenth as often, up to a tenth of the set. λ = 1 mends everything.
        size: number of samples in the set; the largest possible number if None.
        estimator, encoder, seed, device, progress: as in `select`.

    Returns:
        The draws to keep and the data to add. Notes are also issued as warnings (`RatioWarning`).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> real, fake = rng.normal(size=(400, 2)), rng.normal(size=(400, 2))
        >>> fake[:100] += 5  # a quarter is invented
        >>> chosen = target(real=real, fake=fake, lam=10, estimator="linear")
        >>> invented = np.mean(chosen.indices < 100)
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


def surplus(
    *,
    real: Any,
    fake: Any,
    lam: float,
    estimator: str = "auto",
    encoder: Any = None,
    seed: int = 0,
    device: str | None = None,
    progress: Progress | None = None,
) -> Selection:
    """Choose the draws of a model that are too many at the slope λ, on which to train a guide.

    A draw is chosen with probability `(1 − λ r)₊`, where r is its calibrated ratio p/q. Fine-tune a copy of the model
    on these draws, and sample with `Guided(model, copy, weight)`. With λ = 10 the surplus is what the model invents; on
    images, a weight of 2 was good. With λ = 0.1 it is nearly every draw, except where the model misses the data; the
    weight was 3.

    To assess the guided model, use real samples that were not used here. The arguments are those of `target`. Notes are
    also issued as warnings (`RatioWarning`).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> real, fake = rng.normal(size=(400, 2)), rng.normal(size=(400, 2))
        >>> fake[:100] += 5  # a quarter is invented
        >>> found = surplus(real=real, fake=fake, lam=10, estimator="linear")
        >>> bool(np.mean(found.indices < 100) > 0.9), bool(90 < len(found) < 115)
        (True, True)

    References:
        docs/theory.md, Away from the surplus; Karras et al. (2024), on guiding a model by a worse version of itself.
    """
    checks.positive("lam", lam)
    judged = judge(
        real=real, fake=fake, estimator=estimator, encoder=encoder, seed=seed, device=device, progress=progress
    )
    return surplus_of(judged, lam=lam, seed=seed)


def target_of(judged: JudgedSamples, *, lam: float, size: int | None = None, seed: int = 0) -> Selection:
    """The target of samples whose ratios are known. Several λ can share them. The arguments are those of `target`."""
    lam, result, rng = checks.positive("lam", lam), judged.result, np.random.default_rng(seed)
    rule = ProjectionRule.at(lam, alpha=result.spectrum.alpha(lam))
    keep, add = rule.keep(result.log_ratio_fake), rule.add(result.log_ratio_real)
    largest = _largest(keep, add, rule.moved)
    n_kept, n_added = _counts(keep, add, rule.moved, _size(size, largest))
    interval = _interval(judged, lam, seed)
    return concluded(
        judged,
        "target",
        fake=_drawn(keep, n_kept, result.log_ratio_fake, rng),
        real=_drawn(add, n_added, result.log_ratio_real, rng),
        shuffle=rng,
        lam=lam,
        seed=seed,
        notes=_notes_on_target(keep, add, rule, interval),
        predicted=result.spectrum.projected(lam),
        largest=largest,
        interval=interval,
    )


def surplus_of(judged: JudgedSamples, *, lam: float, seed: int = 0) -> Selection:
    """The surplus of samples whose ratios are known. Several λ can share them. The arguments are those of `surplus`."""
    lam, result, rng = checks.positive("lam", lam), judged.result, np.random.default_rng(seed)
    share = surplus_share(result.log_ratio_fake, lam)
    if share.sum() < 1:
        raise ValueError(f"no draw is too many at λ = {lam:g}. Choose a smaller λ, or pass more samples.")
    interval = _interval(judged, lam, seed)
    return concluded(
        judged,
        "surplus",
        fake=_drawn(share, round(share.sum()), result.log_ratio_fake, rng),
        shuffle=rng,
        lam=lam,
        seed=seed,
        notes=_notes_on_surplus(float(share.sum()), lam, interval),
        predicted=None,
        interval=interval,
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


def _drawn(weights: Array, n: int, log_ratio: Array, rng: np.random.Generator) -> tuple[Index, Array]:
    """Choose n samples with probabilities proportional to `weights`, by systematic sampling along the ratio."""
    probabilities = np.minimum(1.0, weights * (n / float(weights.sum()))) if n else np.zeros_like(weights)
    by_ratio = np.lexsort((rng.permutation(weights.size), log_ratio))  # ties in random order
    return systematic(probabilities, by_ratio, rng), probabilities


def _interval(judged: JudgedSamples, lam: float, seed: int) -> Interval | None:
    found = CurveIntervals.gathered(judged.result.uncertainty(seed=seed)["intervals"])
    return None if found is None else found.at(lam, float(judged.result.spectrum.alpha(lam)))


def _notes_on_target(keep: Array, add: Array, rule: ProjectionRule, interval: Interval | None) -> tuple[str, ...]:
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


def _notes_on_surplus(found: float, lam: float, interval: Interval | None) -> tuple[str, ...]:
    """A note if these samples show little at this slope."""
    way_out = "Pass more samples, use another encoder, or choose a smaller λ."
    if interval is not None and interval.high >= 1 - 1e-9:
        return (f"these samples cannot show whether any draw is too many at λ = {lam:g}. {way_out}",)
    if found < FEW:
        return (f"the guide rests on few draws: about {found:.0f} are too many at λ = {lam:g}. {way_out}",)
    return ()
