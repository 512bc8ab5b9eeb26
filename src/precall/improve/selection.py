"""`select`: keep the better part of a finished set of samples, by optimal budgeted rejection with cross-fitted ratios.

Every fake is evaluated by classifiers that were not trained on it. Its calibrated ratio p/q determines the probability
that it is kept, `a = min(1, τ p/q)`, with τ set by the budget. With a centrality other than 1, the data in which
central samples are more or less frequent take the place of the data. See docs/theory.md, Rejection and Bins.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from precall.improve.calibration import RatioWarning, concentration, effective_sample_size, relative_ratios
from precall.improve.judging import JudgedSamples, judge, notes_on_samples
from precall.improve.planning import Plan, Range
from precall.improve.rejection import largest_finite, ratios_of
from precall.metrics.inputs.sides import Side
from precall.metrics.scores.score import Interval, plain, readings
from precall.progress import Progress
from precall.theory import checks
from precall.theory.acceptance import obrs
from precall.theory.arrays import Array, Index
from precall.theory.spectrum import RatioSpectrum

READINGS = {"area": "area", "f8": "F8 (recall)", "f1_8": "F1/8 (precision)", "tv": "total variation"}
FEW = 5  # note if this many ratios carry half of the mass


@dataclass(frozen=True, eq=False)
class Choice:
    """The kept draws among n: their increasing indices, and the probability of each draw to be kept.

    `tau` is the slope τ of `a = min(1, τ r)`, for the ratios r as given; ∞ if every positive ratio is kept.
    """

    indices: Index
    acceptance: Array
    tau: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChosenRow:
    """Where a chosen sample comes from: "fake" or "real", its position there, and its id (a path, line or row)."""

    source: str
    index: int
    id: str


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """Samples chosen by their ratios: those to keep, to fine-tune a model on, or to train a guide on.

    Attributes:
        purpose: "kept" (from `select`), "target" (from `target`) or "surplus" (from `surplus`).
        lam: slope λ of a target or a surplus; 1 if kept.
        rows: origin of each chosen sample: in the order of `fake` if kept, otherwise in a random order.
        acceptance: probability of each fake sample to be chosen, shape (n_fake,).
        acceptance_real: probability of each real sample to be added, shape (n_real,); zeros except for a target.
        log_ratios: calibrated log p/q of each fake sample, shape (n_fake,).
        spectrum_before: estimated spectrum of all samples.
        predicted: spectrum of the kept samples at best, or of a model that fits the target exactly. None for a surplus.
        notes: notes for the user, one sentence each; they are also issued as warnings.
        protocol: encoder and fingerprint of both sample sets, if samples were encoded.
        tau: slope τ of `a = min(1, τ p/q)`, if kept.
        centrality: how much more often central samples are kept; 1 for the proportions of the data.
        supported: lower end of the range up to `predicted`, as the samples support it; None if it is not known.
        largest: largest size of the target that these samples allow without repeating one.
        interval: interval of α(λ) of all samples, for a target or a surplus, if the estimator computes one.
    """

    purpose: Literal["kept", "target", "surplus"]
    lam: float
    rows: tuple[ChosenRow, ...]
    acceptance: Array
    acceptance_real: Array
    log_ratios: Array
    spectrum_before: RatioSpectrum
    predicted: RatioSpectrum | None
    estimator: str
    seed: int
    notes: tuple[str, ...] = ()
    protocol: Mapping[str, Any] = field(default_factory=dict)
    budget: float | None = None
    tau: float | None = None
    centrality: float = 1.0
    supported: RatioSpectrum | None = None
    plan: Plan | None = None
    largest: int | None = None
    interval: Interval | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        lines = [self.summary]
        if self.purpose != "kept":
            known = "" if self.interval is None else f" [{self.interval.low:.3f}, {self.interval.high:.3f}]"
            alpha = self.spectrum_before.alpha(self.lam)
            lines.append(f"α({self.lam:g}): {alpha:.3f}{known}; a perfect model has {min(1.0, self.lam):g}")
        how = "predicted" if self.supported is not None else "predicted, at best"
        return "\n".join([*lines, *([] if self.predicted is None else [f"{how}: {self.changes}"])])

    @property
    def summary(self) -> str:
        """How many samples are chosen, in one line."""
        draws = f"{len(self.indices):,} of {self.n_fake:,}"
        if self.purpose == "kept":
            return f"kept {draws}" + ("" if self.centrality == 1 else f" with centrality {self.centrality:g}")
        data = f" kept, {len(self.added):,} of {self.n_real:,} data added" if self.purpose == "target" else ""
        return f"{self.purpose} at λ = {self.lam:g}: {draws} draws{data}"

    @property
    def changes(self) -> str:
        """Scores of the curve before and as predicted, as in "area 0.612 → 0.701–0.745"; empty for a surplus."""
        if self.predicted is None:
            return ""
        ends = [readings(one) for one in (self.supported or self.predicted, self.predicted)]
        old, new = readings(self.spectrum_before), {name: Range(*(one[name] for one in ends)) for name in READINGS}
        return ", ".join(f"{word} {old[name]:.3f} → {new[name]}" for name, word in READINGS.items())

    @cached_property
    def indices(self) -> Index:
        """Positions of the chosen samples in `fake`, increasing."""
        return np.sort([row.index for row in self.rows if row.source == "fake"]).astype(np.intp)

    @cached_property
    def added(self) -> Index:
        """Positions in `real` of the data to add, increasing; none except for a target."""
        return np.sort([row.index for row in self.rows if row.source == "real"]).astype(np.intp)

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the chosen samples: paths, lines, rows or positions."""
        return tuple(row.id for row in self.rows)

    @property
    def n_real(self) -> int:
        """Number of real samples."""
        return len(self.acceptance_real)

    @property
    def n_fake(self) -> int:
        """Number of fake samples."""
        return len(self.acceptance)

    @property
    def acceptance_rate(self) -> float:
        """Share of the fakes that is chosen. If kept: 1/K up to rounding, or more if a larger K improves nothing."""
        return len(self.indices) / self.n_fake

    @property
    def effective_sample_size(self) -> float:
        """`(Σ r)²/Σ r²` of the ratios: the number of samples that carry the mass at large budgets."""
        return effective_sample_size(self.log_ratios)

    def to_dict(self) -> dict[str, Any]:
        """The selection as JSON-compatible values; what does not belong to its purpose is None."""
        simple = ["purpose", "lam", "centrality", "budget", "tau", "largest", "acceptance_rate"]
        simple += ["effective_sample_size", "n_real", "n_fake", "estimator", "seed"]
        arrays = ("indices", "ids", "log_ratios", "acceptance", "notes", "protocol")
        known = self.interval
        return {
            "size": len(self),
            "kept": len(self.indices),
            "added": len(self.added),
            **{name: plain(getattr(self, name)) for name in simple},
            "alpha": self.spectrum_before.alpha(self.lam),
            "alpha_interval": None if known is None else [known.low, known.high],
            "before": readings(self.spectrum_before),
            "supported": None if self.supported is None else readings(self.supported),
            "predicted": None if self.predicted is None else readings(self.predicted),
            **{name: plain(getattr(self, name)) for name in arrays},
            "rows": [asdict(row) for row in self.rows],
        }


def select(
    *,
    real: Any,
    fake: Any,
    budget: float,
    centrality: float = 1.0,
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

    The maximum recall does not change. To assess the kept samples, use real samples that were not used here.

    Args:
        real: the data, at least 50 samples in any form that `precall.assess` accepts.
        fake: the model's samples, at least 50 of them.
        budget: K ≥ 1, number of samples per kept sample.
        centrality: at 1 the kept samples resemble the data. 3 also prefers central samples, as if the data had the
            fifth of the samples that are near neighbours of most others three times as often: more precision, less
            recall. 0.3 prefers the others. A large budget lets it have a larger effect.
        estimator: classifier that estimates the ratios: "auto", the stacked panel, or one of its members, which is
            faster.
        encoder: encoder of samples that are not features, as in `precall.assess`.
        seed: seed of folds, classifiers and choice. The same seed gives the same samples.

    The notes of the selection are also issued as warnings (`RatioWarning`).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> real, fake = rng.normal(size=(400, 2)), rng.normal(size=(400, 2)) + [1.5, 0.0]
        >>> kept = select(real=real, fake=fake, budget=2, estimator="linear")
        >>> len(kept), bool(fake[kept.indices, 0].mean() < 1.1 < 1.4 < fake[:, 0].mean())
        (200, True)

    References:
        Verine (2024), Thm 6.2.1; Madow (1949), on systematic sampling; docs/theory.md, Rejection.
    """
    K, centrality = checks.budget(budget), checks.positive("centrality", centrality)
    judged = judge(
        real=real, fake=fake, estimator=estimator, encoder=encoder, seed=seed, device=device, progress=progress
    )
    return selection(judged, budget=K, centrality=centrality, seed=seed)


def selection(judged: JudgedSamples, *, budget: float, centrality: float = 1.0, seed: int = 0) -> Selection:
    """The selection for a budget and a centrality. Several can share the same judged samples."""
    supported = None
    if centrality == 1:
        log_r = judged.result.log_ratio_fake
        choice = choose(log_ratios=log_r, budget=budget, seed=seed)
        supported, predicted = judged.plan.refined(len(log_r) / len(choice.indices))
    else:
        choice, predicted = _tilted(judged, budget, centrality, seed)
    return concluded(
        judged,
        "kept",
        fake=(choice.indices, choice.acceptance),
        lam=1.0,
        centrality=centrality,
        seed=seed,
        notes=choice.notes,
        predicted=predicted,
        supported=supported,
        plan=judged.plan,
        budget=checks.budget(budget),
        tau=choice.tau,
    )


def concluded(
    judged: JudgedSamples,
    purpose: Literal["kept", "target", "surplus"],
    *,
    fake: tuple[Index, Array],
    real: tuple[Index, Array] | None = None,
    shuffle: np.random.Generator | None = None,
    lam: float,
    notes: tuple[str, ...],
    **facts: Any,
) -> Selection:
    """The result of a choice: the chosen rows of `fake` and of `real`, each with the probabilities of all rows."""
    result, sides = judged.result, {"fake": judged.fake, "real": judged.real}
    added, probabilities = (np.empty(0, np.intp), np.zeros(len(result.log_ratio_real))) if real is None else real
    rows = [ChosenRow("fake", *place) for place in _places(judged.fake, fake[0])]
    rows += [ChosenRow("real", *place) for place in _places(judged.real, added)]
    notes = (*notes_on_samples(judged, facts.get("centrality", 1.0)), *notes)
    for note in notes:
        warnings.warn(note, RatioWarning, stacklevel=4)
    return Selection(
        purpose=purpose,
        lam=lam,
        rows=tuple(rows if shuffle is None else (rows[i] for i in shuffle.permutation(len(rows)))),
        acceptance=fake[1],
        acceptance_real=probabilities,
        log_ratios=result.log_ratio_fake,
        spectrum_before=result.spectrum,
        estimator=result.name,
        notes=notes,
        protocol={name: known for name, one in sides.items() if (known := one.record.to_dict())},
        **facts,
    )


def _places(one: Side, rows: Index) -> list[tuple[int, str]]:
    """Position in the source, in which unreadable samples count, and id of each row."""
    positions = rows if one.samples is None else np.asarray(one.rows, dtype=np.intp)[rows]
    return [(at, one.identity(int(row))) for at, row in zip(positions.tolist(), rows, strict=True)]


def _tilted(judged: JudgedSamples, budget: float, centrality: float, seed: int) -> tuple[Choice, RatioSpectrum]:
    """The choice towards the data with central samples more often, and the predicted spectrum.

    The kept samples have the ratio `p/q̃ = r · E_Q[a]/a`.
    """
    (of_real, of_fake), result = judged.log_weights(centrality), judged.result
    choice = choose(log_ratios=result.log_ratio_fake + of_fake, budget=budget, seed=seed)
    log_rate = math.log(choice.acceptance.mean())
    with np.errstate(divide="ignore"):
        log_tau = np.log(choice.tau)
        real = result.log_ratio_real - np.minimum(0, log_tau + result.log_ratio_real + of_real) + log_rate
        kept = (result.log_ratio_fake - np.log(choice.acceptance))[choice.indices] + log_rate
    return choice, RatioSpectrum.from_log_ratios(real=real, fake=kept)


def choose(*, log_ratios: npt.ArrayLike, budget: float, seed: int = 0) -> Choice:
    """Choose an exact number of draws by optimal budgeted rejection, given their log-ratios.

    The log-ratios may have any constant added. round(n/K) draws are kept, or n/M rounded up if K exceeds M.
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
    """Systematic sampling (Madow, 1949): increasing positions, each with its probability (sum: a whole number)."""
    # the probabilities are laid end to end in `order`; every unit step from one random start selects an element
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
