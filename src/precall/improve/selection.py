"""The better part of a finished heap of samples: optimal budgeted rejection with cross-fitted ratios.

Every fake is judged by classifiers that did not learn from it; the calibrated ratio p/q is then its chance to be kept,
up to the budget: `a = min(1, τ p/q)`. The mathematics is in docs/theory.md, Rejection.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from precall.improve.planning import Plan, plan
from precall.improve.ratio import RatioWarning, effective_sample_size, thinness
from precall.improve.rejection import largest_finite, ratios_of
from precall.metrics.classifiers.estimators import MEMBERS, classify
from precall.metrics.classifiers.result import ClassifierResult
from precall.metrics.features import same_dimension
from precall.metrics.inputs import Side, side
from precall.metrics.metric import readings
from precall.metrics.score import plain
from precall.progress import Progress, stage_of
from precall.theory import checks
from precall.theory.acceptance import obrs
from precall.theory.arrays import to_numpy
from precall.theory.checks import Array
from precall.theory.spectrum import RatioSpectrum

Index = npt.NDArray[np.intp]

ESTIMATORS = ("auto", *MEMBERS)
READINGS = {"area": "area", "f8": "F8 (recall)", "f1_8": "F1/8 (precision)", "tv": "total variation"}
FEW = 5  # so many ratios that carry half of the mass are worth a sentence
TWINS = 0.01  # share of repeated fakes, beyond that of the data, that is worth a sentence
DOUBT = 0.05  # p-value from which the two-sample test says that there is nothing to select by


@dataclass(frozen=True, eq=False)
class Judged:
    """Both sides, and what cross-fitted classifiers say about them.

    Attributes:
        real: the data.
        fake: the model's samples.
        result: spectrum and calibrated log-ratios.
    """

    real: Side
    fake: Side
    result: ClassifierResult

    @property
    def plan(self) -> Plan:
        """What each budget would buy."""
        return plan(self.result.spectrum)


@dataclass(frozen=True, eq=False)
class Choice:
    """Which of n draws are kept.

    Attributes:
        indices: the kept ones, increasing.
        acceptance: chance of each draw to be kept, shape (n,); they sum to the number kept.
        tau: slope τ of `a = min(1, τ r)`, r being the ratios as they were given; ∞ where every positive one is kept.
        notes: what a user should know, a sentence each.
    """

    indices: Index
    acceptance: Array
    tau: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """The samples to keep, and what that should do to the curve. Printed it is two lines.

    Attributes:
        indices: positions of the kept samples in `fake` as it was given, increasing.
        ids: their names: paths, lines, rows, or positions.
        acceptance: chance of each judged sample to be kept, shape (n_fake,).
        log_ratios: calibrated log p/q of each judged sample, shape (n_fake,).
        tau: slope τ of `a = min(1, τ p/q)`.
        budget: K asked for.
        spectrum_before: estimated spectrum of all samples.
        predicted: spectrum of the kept ones if the ratios were exact, `spectrum_before` refined: the best that can be.
        effective_sample_size: `(Σ r)²/Σ r²` of the ratios: how many samples would carry the mass at a large budget.
        n_real: number of real samples.
        n_fake: number of fakes that were judged.
        estimator: which classifiers judged.
        seed: seed of folds, classifiers and choice.
        notes: what a user should know, a sentence each; they were given as warnings, too.
        protocol: encoder and fingerprint of both sides, where samples were encoded.
    """

    indices: Index
    ids: tuple[str, ...]
    acceptance: Array
    log_ratios: Array
    tau: float
    budget: float
    spectrum_before: RatioSpectrum
    predicted: RatioSpectrum
    effective_sample_size: float
    n_real: int
    n_fake: int
    estimator: str
    seed: int
    notes: tuple[str, ...] = ()
    protocol: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        return f"kept {len(self):,} of {self.n_fake:,}\npredicted, at best: {self.changes}"

    @property
    def changes(self) -> str:
        """The curve's readings before and after, if the ratios were exact."""
        before, after = readings(self.spectrum_before), readings(self.predicted)
        return ", ".join(f"{word} {before[name]:.3f} → {after[name]:.3f}" for name, word in READINGS.items())

    @property
    def acceptance_rate(self) -> float:
        """Share of the fakes that is kept: 1/K up to rounding, or more where draws beyond it buy nothing."""
        return len(self) / self.n_fake

    @property
    def plan(self) -> Plan:
        """What other budgets would buy."""
        return plan(self.spectrum_before)

    def to_dict(self) -> dict[str, Any]:
        """The selection as JSON-ready values; the curves by their scores, the judged samples by their log-ratios."""
        simple = ("tau", "budget", "acceptance_rate", "effective_sample_size", "n_real", "n_fake", "estimator", "seed")
        return {
            "kept": len(self),
            **{name: plain(getattr(self, name)) for name in simple},
            "notes": list(self.notes),
            "before": readings(self.spectrum_before),
            "predicted": readings(self.predicted),
            "indices": self.indices.tolist(),
            "ids": list(self.ids),
            "log_ratios": plain(self.log_ratios),
            "acceptance": self.acceptance.tolist(),
            "protocol": plain(self.protocol),
        }


def select(
    *,
    real: Any,
    fake: Any,
    budget: float,
    estimator: str = "auto",
    encoder: Any = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Selection:
    """Keep about one in K of a model's samples, so that precision rises as far as K allows at every λ.

    A fake is kept with probability `a = min(1, τ r)`, r being its calibrated ratio p/q and τ such that round(n/K) of n
    are kept. Systematic sampling along the ratio keeps exactly that many while each one's chance is exactly a. Where K
    is beyond M, the largest ratio over the mean one, dropping more buys nothing: n/M are kept, and a note says so.

    The largest recall does not change, since nothing new is made. The kept samples were chosen with the help of
    `real`: to judge them, take real samples that were not used here.

    Args:
        real: the data; anything `precall.assess` takes, at least 50 samples.
        fake: a model's samples, at least 50 of them.
        budget: K ≥ 1, samples spent on each kept one.
        estimator: who judges: "auto", the stacked panel, or one of its members, which is quicker.
        encoder: how to encode samples that are not features, as in `precall.assess`.
        seed: seed of folds, classifiers and choice: same seed, same samples.
        progress: called with (stage, done, total).

    Returns:
        The selection. Its notes are given as warnings (`RatioWarning`), too.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> real, fake = rng.normal(size=(400, 2)), rng.normal(size=(400, 2)) + [1.5, 0.0]
        >>> kept = select(real=real, fake=fake, budget=2, estimator="linear")
        >>> len(kept), bool(fake[kept.indices, 0].mean() < 1.1 < 1.4 < fake[:, 0].mean())
        (200, True)

    References:
        Verine (2024), Thm 6.2.1; Madow (1949), on systematic sampling; docs/theory.md, Rejection.
    """
    K = checks.budget(budget)
    judged = judge(real=real, fake=fake, estimator=estimator, encoder=encoder, seed=seed, progress=progress)
    return selection(judged, budget=K, seed=seed)


def judge(
    *,
    real: Any,
    fake: Any,
    estimator: str = "auto",
    encoder: Any = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Judged:
    """Encode both sides where needed, and give every sample a ratio that it had no part in; arguments as `select`."""
    checks.choice("estimator", estimator, ESTIMATORS)
    loaded: dict[str, Any] = {}
    data = _samples(
        side("real", real, encoder=encoder, loaded=loaded, progress=stage_of(progress, "encode real")), "real"
    )
    encoding = stage_of(progress, "encode fake")
    model = _samples(side("fake", fake, encoder=encoder, reference=data, loaded=loaded, progress=encoding), "fake")
    same_dimension(real=data.features, fake=model.features)
    judging = stage_of(progress, estimator)
    return Judged(
        data, model, classify(estimator, real=data.features, fake=model.features, seed=seed, progress=judging)
    )


def selection(judged: Judged, *, budget: float, seed: int = 0) -> Selection:
    """The selection for a budget, from sides that are judged already: several budgets need one judgement."""
    result, fake = judged.result, judged.fake
    choice = choose(log_ratios=result.log_ratio_fake, budget=budget, seed=seed)
    notes = (*_doubts(judged), *choice.notes)
    for note in notes:
        warnings.warn(note, RatioWarning, stacklevel=3)
    n = len(result.log_ratio_fake)
    return Selection(
        indices=choice.indices if fake.samples is None else np.asarray(fake.rows, dtype=np.intp)[choice.indices],
        ids=tuple(fake.identity(int(row)) for row in choice.indices),
        acceptance=choice.acceptance,
        log_ratios=result.log_ratio_fake,
        tau=choice.tau,
        budget=checks.budget(budget),
        spectrum_before=result.spectrum,
        predicted=result.spectrum.refined(n / len(choice.indices)),
        effective_sample_size=effective_sample_size(result.log_ratio_fake),
        n_real=len(result.log_ratio_real),
        n_fake=n,
        estimator=result.name,
        seed=seed,
        notes=notes,
        protocol={name: one.protocol for name, one in (("real", judged.real), ("fake", fake)) if one.protocol},
    )


def choose(*, log_ratios: Any, budget: float, seed: int = 0) -> Choice:
    """Which draws optimal budgeted rejection keeps, given their log-ratios: exactly so many, each with its chance.

    Args:
        log_ratios: log p/q up to a constant, of draws of the model, in [−∞, ∞], shape (n,).
        budget: K ≥ 1; round(n/K) are kept, or the least number above n/M where K is beyond M.
        seed: seed of the choice.

    Example:
        >>> choice = choose(log_ratios=np.log([0.2, 0.8, 1.0, 2.0]), budget=2)
        >>> choice.acceptance.round(3).tolist(), len(choice.indices)
        ([0.1, 0.4, 0.5, 1.0], 2)

    References:
        Verine (2024), Thm 6.2.1; Madow (1949), on systematic sampling.
    """
    log_r, K = checks.vector("log_ratios", log_ratios, infinite=True), checks.budget(budget)
    n, rng = log_r.size, np.random.default_rng(seed)
    wanted = max(1, round(n / K))
    if K > 1 and log_r.min() == log_r.max():
        note = f"all {n:,} ratios are equal, so no sample is better than another: {wanted:,} are kept at random."
        acceptance = np.full(n, wanted / n)
        return Choice(systematic(acceptance, rng.permutation(n), rng), acceptance, wanted / n, (note,))
    shares = _shares(log_r)
    fewest = math.ceil(float(shares.sum()) * (1 - 1e-12))  # n/M: there the rule is plain rejection
    kept = max(wanted, fewest)
    shift = largest_finite(log_r)  # ratios matter up to a factor only
    ratios = ratios_of(log_r, shift)
    rule = obrs(ratios=ratios, budget=n / kept)
    acceptance = np.asarray(rule(ratios))
    with np.errstate(over="ignore"):
        tau = float(rule.tau * np.exp(-shift))
    by_ratio = np.lexsort((rng.permutation(n), log_r))  # ties in random order
    return Choice(systematic(acceptance, by_ratio, rng), acceptance, tau, _thoughts(log_r, shares, kept, wanted, K))


def systematic(probabilities: Array, order: Index, rng: np.random.Generator) -> Index:
    """Systematic sampling: as many as the probabilities sum to (a whole number), each included with its own.

    The probabilities are laid end to end in `order`, and every unit step from one random start is a hit: of any stretch
    of the order, the expected number is hit to within one. Those of probability 1 are hit whatever the start.

    Args:
        probabilities: in [0, 1], shape (n,), with a whole sum.
        order: a permutation of 0, …, n − 1.
        rng: gives the start.

    Returns:
        The positions that were hit, increasing.

    References:
        Madow (1949), On the theory of systematic sampling.
    """
    sure = np.flatnonzero(probabilities >= 1)
    order = order[(probabilities[order] < 1) & (probabilities[order] > 0)]
    hits = round(float(probabilities[order].sum()))
    ends = np.cumsum(probabilities[order])
    if hits:
        ends *= hits / ends[-1]  # rounding only
        ends[-1] = np.inf
    hit = order[np.searchsorted(ends, rng.random() + np.arange(hits), side="right")]
    return np.sort(np.concatenate([sure, hit]))


def _thoughts(log_r: Array, shares: Array, kept: int, wanted: int, K: float) -> tuple[str, ...]:
    """What the ratios alone have to say about a choice."""
    notes, n = [], shares.size
    if kept > wanted:
        notes.append(
            f"{kept:,} of {n:,} samples are kept, not {wanted:,}: the largest ratio is {n / shares.sum():.3g} times "
            f"the mean one, and a budget beyond that ({K:g}) buys nothing."
        )
    if n > 2 * FEW and (thin := thinness(log_r, FEW)) is not None:
        notes.append(f"{thin} Lower the budget, or judge with more samples.")
    return tuple(notes)


def _doubts(judged: Judged) -> tuple[str, ...]:
    """What the two sides have to say about their ratios."""
    notes, p_value = [], judged.result.p_value
    if p_value > DOUBT:
        notes.append(
            f"the classifiers cannot tell `fake` from `real` (p = {p_value:.2g}), so what is kept follows chance more "
            "than quality. Pass more samples, or another encoder."
        )
    twins = _repeated(judged.fake)
    if twins > _repeated(judged.real) + TWINS:
        notes.append(
            f"{twins:.0%} of the fakes repeat the features of another one, and were judged by classifiers that had "
            "seen it. Drop repetitions first."
        )
    return tuple(notes)


def _repeated(one: Side) -> float:
    """Share of the rows that are equal to an earlier one."""
    features = np.ascontiguousarray(to_numpy(one.features))
    return 1 - len({hash(row.tobytes()) for row in features}) / len(features)


def _shares(log_r: Array) -> Array:
    """Ratios over the largest one; where some are infinite, 1 for them and 0 for the others."""
    top = log_r.max()
    return np.asarray(np.exp(log_r - top) if np.isfinite(top) else log_r == top, dtype=np.float64)


def _samples(found: Side, name: str) -> Side:
    if found.moments is not None:
        raise ValueError(f"`{name}` must hold samples; got statistics (mu, sigma). Pass the samples themselves.")
    return found
