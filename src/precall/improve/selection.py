"""`select`: keep the better part of a finished set of samples, by optimal budgeted rejection with cross-fitted ratios.

Every fake is evaluated by classifiers that were not trained on it. Its calibrated ratio p/q determines the probability
that it is kept, `a = min(1, τ p/q)`, with τ set by the budget. At a trade-off λ ≠ 1, the data in which central samples
are more or less frequent take the place of the data. The mathematics is in docs/theory.md, Rejection and Bins.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from precall.improve.planning import Plan, plan
from precall.improve.ratio import RatioWarning, concentration, effective_sample_size, relative_ratios
from precall.improve.rejection import largest_finite, ratios_of
from precall.metrics.category_levels import with_shared_levels
from precall.metrics.classifiers.estimators import classify
from precall.metrics.classifiers.panel import MEMBERS
from precall.metrics.classifiers.result import ClassifierResult
from precall.metrics.features import device_of, same_dimension
from precall.metrics.inputs import Side, side
from precall.metrics.neighbors.centrality import centrality, ranks
from precall.metrics.score import plain, readings
from precall.progress import Progress, stage_of
from precall.theory import checks
from precall.theory.acceptance import obrs
from precall.theory.arrays import Array, Index, to_numpy
from precall.theory.spectrum import RatioSpectrum
from precall.theory.tilts import weights

ESTIMATORS = ("auto", *MEMBERS)
READINGS = {"area": "area", "f8": "F8 (recall)", "f1_8": "F1/8 (precision)", "tv": "total variation"}
FEW = 5  # note if this many ratios carry half of the mass
REPEATED = 0.01  # note if the share of repeated fakes exceeds that of the data by more than this
INSIGNIFICANT = 0.05  # note if the p-value of the two-sample test is larger


@dataclass(frozen=True, eq=False)
class JudgedSamples:
    """The real and the fake samples with their cross-fitted ratios.

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
        """The effect of each budget."""
        return plan(self.result.spectrum)

    def log_weights(self, lam: float) -> tuple[Array, Array]:
        """How much more often than in the data real and fake samples like these are to occur at λ, as logarithms."""
        real, fake = self.real.features, self.fake.features
        device = torch.device(device_of(real))
        counts = centrality(real, device)
        found = (ranks(one, like=counts) for one in (counts, centrality(real, device, fake)))
        with np.errstate(divide="ignore"):
            of_real, of_fake = (np.log(weights(low=low, high=high, lam=lam)) for low, high in found)
        return of_real, of_fake


@dataclass(frozen=True, eq=False)
class Choice:
    """The kept draws among n.

    Attributes:
        indices: indices of the kept draws, increasing.
        acceptance: probability of each draw to be kept, shape (n,). They sum to the number of kept draws.
        tau: slope τ of `a = min(1, τ r)`, for the ratios r as given; ∞ if every positive ratio is kept.
        notes: notes for the user, one sentence each.
    """

    indices: Index
    acceptance: Array
    tau: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """The samples to keep, and the predicted change of the precision-recall curve. It prints as two lines.

    Attributes:
        indices: positions of the kept samples in `fake`, increasing.
        ids: names of the kept samples: paths, lines, rows or positions.
        acceptance: probability of each sample to be kept, shape (n_fake,).
        log_ratios: calibrated log p/q of each sample, shape (n_fake,).
        tau: slope τ of `a = min(1, τ p/q)`.
        budget: requested K.
        lam: trade-off λ.
        spectrum_before: estimated spectrum of all samples.
        predicted: spectrum of the kept samples if the ratios were exact, `spectrum_before` refined. It is the best
            possible outcome.
        effective_sample_size: `(Σ r)²/Σ r²` of the ratios: the number of samples that carry the mass at large budgets.
        n_real: number of real samples.
        n_fake: number of fake samples.
        estimator: name of the classifiers that estimated the ratios.
        seed: seed of folds, classifiers and choice.
        notes: notes for the user, one sentence each; they are also issued as warnings.
        protocol: encoder and fingerprint of both sample sets, if samples were encoded.
    """

    indices: Index
    ids: tuple[str, ...]
    acceptance: Array
    log_ratios: Array
    tau: float
    budget: float
    lam: float
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
        towards = "" if self.lam == 1 else f" at λ = {self.lam:g}"
        return f"kept {len(self):,} of {self.n_fake:,}{towards}\npredicted, at best: {self.changes}"

    @property
    def changes(self) -> str:
        """Scores of the curve before and after selection, if the ratios were exact."""
        return changes(self.spectrum_before, self.predicted)

    @property
    def acceptance_rate(self) -> float:
        """Share of the fakes that is kept: 1/K up to rounding, or more if a larger K brings no further improvement."""
        return len(self) / self.n_fake

    @property
    def plan(self) -> Plan:
        """The effect of other budgets."""
        return plan(self.spectrum_before)

    def to_dict(self) -> dict[str, Any]:
        """The selection as JSON-compatible values, with the scores of the curves and the log-ratios of the samples."""
        simple = (
            "tau",
            "budget",
            "lam",
            "acceptance_rate",
            "effective_sample_size",
            "n_real",
            "n_fake",
            "estimator",
            "seed",
        )
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


def changes(before: RatioSpectrum, after: RatioSpectrum) -> str:
    """Scores of two curves, as in "area 0.612 → 0.745"."""
    old, new = readings(before), readings(after)
    return ", ".join(f"{word} {old[name]:.3f} → {new[name]:.3f}" for name, word in READINGS.items())


def select(
    *,
    real: Any,
    fake: Any,
    budget: float,
    lam: float = 1.0,
    estimator: str = "auto",
    encoder: Any = None,
    seed: int = 0,
    device: str | None = None,
    progress: Progress | None = None,
) -> Selection:
    """Keep about one in K of a model's samples, so that precision increases as much as K allows at every λ.

    A fake is kept with probability `a = min(1, τ r)`, where r is its calibrated ratio p/q and τ is such that round(n/K)
    of n samples are kept. Systematic sampling along the ratio keeps exactly this number, and each sample exactly with
    its probability a. If K exceeds M, the largest ratio divided by the mean ratio, dropping more samples brings no
    improvement. Then n/M samples are kept, and a note reports it.

    The maximum recall does not change, since no samples are created. The selection depends on `real`. To assess the
    kept samples, use real samples that were not used here.

    Args:
        real: the data, at least 50 samples in any form that `precall.assess` accepts.
        fake: the model's samples, at least 50 of them.
        budget: K ≥ 1, number of samples per kept sample.
        lam: trade-off λ. At λ = 1 the kept samples resemble the data. λ = 3 also prefers central samples, as if the
            data had the fifth of the samples that are near neighbours of most others three times as often: more
            precision, less recall. λ = 0.3 prefers the others. A large budget lets λ have a larger effect.
        estimator: classifier that estimates the ratios: "auto", the stacked panel, or one of its members, which is
            faster.
        encoder: encoder of samples that are not features, as in `precall.assess`.
        seed: seed of folds, classifiers and choice. The same seed gives the same samples.
        device: where encoders, perceptrons and neighbours run: "cpu", "cuda", "mps" or "auto", as in `precall.assess`.
        progress: called with (stage, done, total).

    Returns:
        The selection. Its notes are also issued as warnings (`RatioWarning`).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> real, fake = rng.normal(size=(400, 2)), rng.normal(size=(400, 2)) + [1.5, 0.0]
        >>> kept = select(real=real, fake=fake, budget=2, estimator="linear")
        >>> len(kept), bool(fake[kept.indices, 0].mean() < 1.1 < 1.4 < fake[:, 0].mean())
        (200, True)

    References:
        Verine (2024), Thm 6.2.1; Madow (1949), on systematic sampling; docs/theory.md, Rejection.
    """
    K, lam = checks.budget(budget), checks.positive("lam", lam)
    judged = judge(
        real=real, fake=fake, estimator=estimator, encoder=encoder, seed=seed, device=device, progress=progress
    )
    return selection(judged, budget=K, lam=lam, seed=seed)


def judge(
    *,
    real: Any,
    fake: Any,
    estimator: str = "auto",
    encoder: Any = None,
    seed: int = 0,
    device: str | None = None,
    progress: Progress | None = None,
) -> JudgedSamples:
    """Encode both sample sets if necessary, and estimate cross-fitted ratios. The arguments are those of `select`."""
    checks.choice("estimator", estimator, ESTIMATORS)
    how: dict[str, Any] = {"encoder": encoder, "loaded": {}, "device": device}
    data = _samples(side("real", real, progress=stage_of(progress, "encode real"), **how), "real")
    model = _samples(side("fake", fake, reference=data, progress=stage_of(progress, "encode fake"), **how), "fake")
    same_dimension(real=data.features, fake=model.features)
    data, model = with_shared_levels(data, model)
    judging = stage_of(progress, estimator)
    return JudgedSamples(
        data, model, classify(estimator, real=data.features, fake=model.features, seed=seed, progress=judging)
    )


def selection(judged: JudgedSamples, *, budget: float, lam: float = 1.0, seed: int = 0) -> Selection:
    """The selection for a budget and λ. Several can share the same judged samples."""
    result, fake = judged.result, judged.fake
    choice, predicted = _chosen(judged, budget, seed) if lam == 1 else _tilted(judged, budget, lam, seed)
    notes = (*notes_on_samples(judged, lam), *choice.notes)
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
        lam=lam,
        spectrum_before=result.spectrum,
        predicted=predicted,
        effective_sample_size=effective_sample_size(result.log_ratio_fake),
        n_real=len(result.log_ratio_real),
        n_fake=n,
        estimator=result.name,
        seed=seed,
        notes=notes,
        protocol={name: one.protocol for name, one in (("real", judged.real), ("fake", fake)) if one.protocol},
    )


def _chosen(judged: JudgedSamples, budget: float, seed: int) -> tuple[Choice, RatioSpectrum]:
    """The choice towards the data, and the spectrum of the kept samples if the ratios were exact."""
    log_r, spectrum = judged.result.log_ratio_fake, judged.result.spectrum
    choice = choose(log_ratios=log_r, budget=budget, seed=seed)
    return choice, spectrum.refined(len(log_r) / len(choice.indices))


def _tilted(judged: JudgedSamples, budget: float, lam: float, seed: int) -> tuple[Choice, RatioSpectrum]:
    """The same towards the data in the proportions of λ; the kept samples have the ratio `p/q̃ = r · E_Q[a]/a`."""
    (of_real, of_fake), result = judged.log_weights(lam), judged.result
    choice = choose(log_ratios=result.log_ratio_fake + of_fake, budget=budget, seed=seed)
    log_rate = math.log(choice.acceptance.mean())
    with np.errstate(divide="ignore"):
        log_tau = np.log(choice.tau)
        real = result.log_ratio_real - np.minimum(0, log_tau + result.log_ratio_real + of_real) + log_rate
        kept = (result.log_ratio_fake - np.log(choice.acceptance))[choice.indices] + log_rate
    return choice, RatioSpectrum.from_log_ratios(real=real, fake=kept)


def choose(*, log_ratios: npt.ArrayLike, budget: float, seed: int = 0) -> Choice:
    """Choose an exact number of draws by optimal budgeted rejection, given their log-ratios.

    Args:
        log_ratios: log p/q up to a constant, of draws of the model, in [−∞, ∞], shape (n,).
        budget: K ≥ 1; round(n/K) draws are kept, or n/M rounded up if K exceeds M.
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
        note = f"all {n:,} ratios are equal, so no sample is better than another; {wanted:,} are kept at random."
        acceptance = np.full(n, wanted / n)
        return Choice(systematic(acceptance, rng.permutation(n), rng), acceptance, wanted / n, (note,))
    shares = relative_ratios(log_r)
    fewest = math.ceil(float(shares.sum()) * (1 - 1e-12))  # n/M, at which the rule is plain rejection
    kept = max(wanted, fewest)
    shift = largest_finite(log_r)  # ratios matter only up to a factor
    ratios = ratios_of(log_r, shift)
    rule = obrs(ratios=ratios, budget=n / kept)
    acceptance = np.asarray(rule(ratios))
    with np.errstate(over="ignore"):
        tau = float(rule.tau * np.exp(-shift))
    by_ratio = np.lexsort((rng.permutation(n), log_r))  # ties in random order
    notes = _notes_on_ratios(log_r, shares, kept, wanted, K)
    return Choice(systematic(acceptance, by_ratio, rng), acceptance, tau, notes)


def systematic(probabilities: Array, order: Index, rng: np.random.Generator) -> Index:
    """Systematic sampling: a fixed number of elements, each with its own inclusion probability.

    The probabilities are laid end to end in `order`, and every unit step from one random start selects an element. In
    any contiguous part of the order, the number of selected elements differs from its expectation by less than one.
    Elements of probability 1 are always selected.

    Args:
        probabilities: inclusion probabilities in [0, 1], shape (n,), whose sum is a whole number.
        order: a permutation of 0, …, n − 1.
        rng: random generator of the start.

    Returns:
        Positions of the selected elements, increasing.

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


def _notes_on_ratios(log_r: Array, shares: Array, kept: int, wanted: int, K: float) -> tuple[str, ...]:
    """Notes that depend on the ratios alone."""
    notes, n = [], shares.size
    if kept > wanted:
        notes.append(
            f"{kept:,} of {n:,} samples are kept instead of {wanted:,}: the largest ratio is {n / shares.sum():.3g} "
            f"times the mean ratio, and a larger budget (here {K:g}) brings no improvement."
        )
    if n > 2 * FEW and (sentence := concentration(log_r, FEW)) is not None:
        notes.append(f"{sentence} Lower the budget, or pass more samples.")
    return tuple(notes)


def notes_on_samples(judged: JudgedSamples, lam: float = 1.0) -> tuple[str, ...]:
    """Notes that depend on the two sample sets."""
    notes, p_value = [], judged.result.p_value
    if p_value > INSIGNIFICANT:
        effect = "the selection is mostly random" if lam == 1 else "centrality alone decides"
        notes.append(
            f"the classifiers cannot distinguish `fake` from `real` (p = {p_value:.2g}), so {effect}. "
            "Pass more samples, or use another encoder."
        )
    repeated = _repeated(judged.fake)
    if repeated > _repeated(judged.real) + REPEATED:
        notes.append(
            f"{repeated:.0%} of the fakes have the same features as another one, so that classifiers were trained on "
            "copies of the samples they evaluate. Remove duplicates first."
        )
    return tuple(notes)


def _repeated(one: Side) -> float:
    """Share of the rows that are equal to an earlier row."""
    features = np.ascontiguousarray(to_numpy(one.features))
    return 1 - len({hash(row.tobytes()) for row in features}) / len(features)


def _samples(found: Side, name: str) -> Side:
    if found.moments is not None:
        raise ValueError(f"`{name}` must hold samples; got statistics (mu, sigma). Pass the samples themselves.")
    return found
