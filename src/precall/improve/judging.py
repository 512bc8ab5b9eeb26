"""`judge`: cross-fitted ratios of two sample sets, from which samples are selected, and `plan`: what budgets buy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from precall.improve.evidence import RatioSupport
from precall.improve.planning import RECALLS, Plan, of_assessment, planned
from precall.metrics.classifiers.estimators import classify
from precall.metrics.classifiers.result import ClassifierResult
from precall.metrics.inputs.features import device_of, same_dimension
from precall.metrics.inputs.sides import Side, side
from precall.metrics.members.panel import MEMBERS
from precall.metrics.pairs.centrality import centrality as neighbor_counts, ranks
from precall.metrics.scores.results import Assessment
from precall.metrics.tables.category_levels import with_shared_levels
from precall.progress import Progress, stage_of
from precall.theory import checks
from precall.theory.arrays import Array, to_numpy
from precall.theory.spectrum import RatioSpectrum
from precall.theory.tilts import weights

ESTIMATORS = ("auto", *MEMBERS)
REPEATED = 0.01  # note if the share of repeated fakes exceeds that of the data by more than this
INSIGNIFICANT = 0.05  # note if the p-value of the two-sample test is larger


@dataclass(frozen=True, eq=False)
class JudgedSamples:
    """The real and the fake samples with their spectrum and calibrated, cross-fitted log-ratios."""

    real: Side
    fake: Side
    result: ClassifierResult

    @cached_property
    def evidence(self) -> RatioSupport:
        """What the held-out ratios support about a selection."""
        return RatioSupport.of(self.result.held_out)

    @cached_property
    def plan(self) -> Plan:
        """The effect of each budget."""
        return planned(self.result.spectrum, self.evidence)

    def log_weights(self, centrality: float) -> tuple[Array, Array]:
        """How much more often than in the data real and fake samples like these are to occur, as logarithms."""
        real, fake = self.real.features, self.fake.features
        device = torch.device(device_of(real))
        counts = neighbor_counts(real, device)
        found = (ranks(one, like=counts) for one in (counts, neighbor_counts(real, device, fake)))
        with np.errstate(divide="ignore"):
            of_real, of_fake = (np.log(weights(low=low, high=high, lam=centrality)) for low, high in found)
        return of_real, of_fake


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
    checks.seed(seed)
    how: dict[str, Any] = {"encoder": encoder, "loaded": {}, "device": device}
    data = _samples(side("real", real, progress=stage_of(progress, "encode real"), **how), "real")
    model = _samples(side("fake", fake, reference=data, progress=stage_of(progress, "encode fake"), **how), "fake")
    same_dimension(real=data.features, fake=model.features)
    data, model = with_shared_levels(data, model)
    judging = stage_of(progress, estimator)
    return JudgedSamples(
        data, model, classify(estimator, real=data.features, fake=model.features, seed=seed, progress=judging)
    )


def plan(
    spectrum: RatioSpectrum | Assessment | None = None,
    budgets: Iterable[float] | None = None,
    *,
    real: object | None = None,
    fake: object | None = None,
    recalls: Iterable[float] = RECALLS,
) -> Plan:
    """Predict precision, recall and cost of optimal budgeted rejection at several budgets.

    For a spectrum, the numbers are exact: no rule with K draws per kept sample does better, at any λ. For samples, each
    number is a range: what the samples support, and what is possible at best.

    Args:
        spectrum: the known spectrum of the data and the model, or an assessment, whose classifiers then tell what its
            samples support. Leave it out to pass `real` and `fake`.
        budgets: K ≥ 1, mean number of draws per kept sample; by default up to the largest useful budget.
        real: the data, as in `assess`; the spectrum is then estimated with the metric "auto".
        fake: samples of the model, as in `assess`.
        recalls: recalls at which precision is tabulated.

    Example:
        >>> spectrum = RatioSpectrum.from_masses(p=[0.5, 0.3, 0.2], q=[0.2, 0.3, 0.5])
        >>> for outcome in plan(spectrum, recalls=[0.9]).outcomes:
        ...     round(outcome.budget, 3), str(outcome.precision[0]), str(outcome.area)
        (1.0, '0.450', '0.793')
        (1.5, '0.675', '0.927')
        (2.0, '0.900', '0.981')
        (2.5, '1.000', '1.000')

    References:
        Verine (2024), Thm 6.2.1 and 6.2.3; docs/theory.md, Rejection.
    """
    if spectrum is not None and not (real is None and fake is None):
        raise ValueError("pass either `spectrum`, or `real` and `fake`; got both.")
    if isinstance(spectrum, RatioSpectrum):
        return planned(spectrum, None, budgets, recalls)
    if spectrum is not None:
        return planned(*of_assessment(spectrum), budgets, recalls)
    if real is None or fake is None:
        raise ValueError("pass `spectrum`, or both `real` and `fake`, as in `plan(report)`.")
    judged = judge(real=real, fake=fake)
    return planned(judged.result.spectrum, judged.evidence, budgets, recalls)


def notes_on_samples(judged: JudgedSamples, centrality: float = 1.0) -> tuple[str, ...]:
    """Notes that depend on the two sample sets."""
    notes, p_value = [], judged.result.p_value
    if p_value > INSIGNIFICANT:
        effect = "the selection is mostly random" if centrality == 1 else "centrality alone decides"
        notes.append(
            f"the classifiers cannot distinguish `fake` from `real` (p = {p_value:.2g}), so {effect}. "
            "Pass more samples, or use another encoder."
        )
    repeated = _repeated(judged.fake)
    if repeated > _repeated(judged.real) + REPEATED:
        notes.append(
            f"{repeated:.0%} of the fakes have the same features as another one, so that the chosen samples repeat "
            "each other too. Remove duplicates first."
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
