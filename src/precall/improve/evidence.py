"""What held-out ratios support about rejection: what the model never produces, and what a selection would realise.

Data that no draw resembles get a large but finite ratio, as if a large budget would produce them; and selection by
estimated ratios loses a part of the gain. `RatioSupport` bounds both, from ratios that were not trained on the samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from precall.metrics.classifiers.calibration import calibrated_smoothly
from precall.metrics.classifiers.held_out import HeldOutScores
from precall.theory.acceptance import obrs
from precall.theory.arrays import Array
from precall.theory.spectrum import RatioSpectrum

UNSEEN = -math.log(0.05)  # 95 % upper bound on the expected number of what is not among the draws
PLATEAU = 0.5, 0.7  # parts of the mass beyond `RESOLVED`, or beyond a quarter of the largest ratio, that must remain
RESOLVED = 2.0  # largest ratio beyond which mass is counted
SHARED = 0.5  # errors that the models share, as a part of those in which they differ (benchmarks/plans.py)
DEVIATIONS = 2.0  # standard errors of α(1) between the estimate and either end of a range


@dataclass(frozen=True)
class Unsupported:
    """The mass of one sample set where the other set has no samples."""

    share: float  # estimate; 0 if the mass beyond a ratio keeps falling with the ratio, as for a shifted model
    low: float  # 95 % lower bound of the mass (Clopper and Pearson)
    bound: float  # 95 % upper bound on the mass of the other distribution there


def unsupported(high: Array, other: Array) -> Unsupported:
    """The mass of one sample set beyond all ratios that the other set supports.

        M(λ) = sup_t F(t) − λ G(t),    F(t), G(t): shares of the two sets with a log-ratio above t

    is the mass beyond λ times the other density. The samples resolve it up to the λ at which three of the other samples
    would be expected there. Mass is never produced if a part of M(2), or of M at a quarter of this λ, remains there;
    otherwise it is only rare. It is counted down to where the samples show that the rest is produced.
    """
    from scipy.stats import beta, gamma

    n, m = len(high), len(other)
    edges = np.sort(other)[::-1]
    above = np.append(n - np.searchsorted(np.sort(high), edges, side="right"), n) / n  # F where G is 0, 1/m, …, 1
    count = np.arange(m + 1)
    beyond = float((above / (1 + count / UNSEEN)).max())  # solves M(λ) = λ · UNSEEN/m
    quarter = beyond * m / UNSEEN / 4
    remaining = above - quarter * count / m
    excess, sure = above - min(quarter, RESOLVED) * count / m, int(remaining.argmax())
    if beyond < min(PLATEAU[0] * excess.max(), PLATEAU[1] * remaining[sure]):
        return Unsupported(0.0, 0.0, 1.0)
    produced = np.nan_to_num(gamma.ppf(0.05, np.maximum(count - sure, 0))) / m  # 95 % lower bound of the mass below
    excess[quarter * produced > above - above[sure]] = 0.0
    share, inside = float(excess.max()), int(excess.argmax())
    hits = round(share * n)
    low = float(beta.ppf(0.05, hits, n - hits + 1)) if hits else 0.0
    return Unsupported(share, low, float(beta.ppf(0.95, inside + 1, m - inside)) if inside < m else 1.0)


@dataclass(frozen=True, eq=False)
class RatioSupport:
    """Held-out log p/q of both sample sets, and of the fakes by other models, which check what a selection realises.

    The `checks` are NaN where their model was trained.
    """

    real: Array
    fake: Array
    checks: tuple[Array, ...]

    @classmethod
    def of(cls, held_out: HeldOutScores) -> RatioSupport:
        """The evidence of held-out scores. The models of smaller training sets check those of larger ones."""
        real, log_ratio = held_out.real, held_out.log_ratios()[0]
        checks = []
        for scores in () if held_out.inner is None else held_out.inner:
            scored = ~np.isnan(scores)
            one = np.full(len(scores), np.nan)
            one[scored] = calibrated_smoothly(scores[scored], real[scored], held_out.fold[scored])[0]
            checks.append(one[~real])
        return cls(log_ratio[real], log_ratio[~real], tuple(checks) or (log_ratio[~real],))

    @cached_property
    def never_produced(self) -> Unsupported:
        """The mass of the data that the model never produces."""
        return unsupported(self.real, self.fake)

    @cached_property
    def invented(self) -> Unsupported:
        """The mass of the model where there are no data."""
        return unsupported(-self.fake, -self.real)

    @property
    def max_budget(self) -> float:
        """M, the largest ratio of the draws divided by their mean: a selection with a larger budget keeps as many."""
        return float(1 / np.exp(self.fake - self.fake.max()).mean())

    def weights(self, budget: float) -> Array:
        """q̃/q at the fake samples after rejection by their ratios, of mean one, shape (m,)."""
        ratios = np.exp(self.fake - self.fake.max())
        acceptance = np.asarray(obrs(ratios=ratios, budget=budget)(ratios))
        return np.asarray(acceptance / acceptance.mean())

    @lru_cache(maxsize=64)  # noqa: B019 - an evidence lives as long as its plan
    def realised(self, budget: float) -> RatioSpectrum:
        """Estimated spectrum of the data and of the kept samples: q̃ by the ratios of the selection, p by the others."""
        weights, p, q = self.weights(budget), [], []
        for log_ratio in self.checks:
            scored = ~np.isnan(log_ratio)
            p.append(capped(np.exp(log_ratio[scored]), 1 - self.never_produced.share) / scored.sum())
            q.append(weights[scored] / weights[scored].sum())
        covered, kept = (np.concatenate(side) / len(self.checks) for side in (p, q))
        return RatioSpectrum.from_masses(p=np.append(covered, max(0.0, 1 - covered.sum())), q=np.append(kept, 0.0))

    def standard_error(self, budget: float) -> float:
        """Standard error of α(1) after rejection."""
        weights, ratio = self.weights(budget), np.exp(self.fake)
        above = ratio > weights
        share = min(1.0, float(np.mean(ratio * above)) + self.never_produced.share)  # P(p > q̃)
        of_fake = float(np.where(above, weights, 0.0).var()) / len(self.fake)
        return math.sqrt(of_fake + share * (1 - share) / len(self.real))

    def disagreement(self, budget: float) -> float:
        """How much lower α(1) is by the ratios of other models than by those of the selection; may be negative."""
        alone = float(np.minimum(np.exp(self.fake), self.weights(budget)).mean())
        return alone - float(self.realised(budget).alpha(1.0))

    @lru_cache(maxsize=64)  # noqa: B019
    def supported(self, budget: float) -> RatioSpectrum:
        """The lower end: `realised`, less some standard errors and a part of the models' disagreement."""
        spectrum, gap = self.realised(budget), self.disagreement(budget)
        lower = DEVIATIONS * self.standard_error(budget) + max(SHARED * gap, -gap)
        apart = min(1.0, lower / max(float(spectrum.alpha(1.0)), 1e-12))
        p, q = (1 - apart) * spectrum.p, (1 - apart) * spectrum.q
        return RatioSpectrum.from_masses(p=[*p, apart, 0.0], q=[*q, 0.0, apart])

    def at_best(self, spectrum: RatioSpectrum, budget: float) -> RatioSpectrum:
        """The upper end: the refined `spectrum` or `realised`, with some standard errors more in common."""
        refined = max((spectrum.refined(budget), self.realised(budget)), key=lambda one: float(one.alpha(1.0)))
        room = 1 - float(refined.alpha(1.0))
        common = min(1.0, DEVIATIONS * self.standard_error(budget) / room) if room > 0 else 0.0
        p, q = (np.append((1 - common) * side, common) for side in (refined.p, refined.q))
        by = np.argsort(q / np.maximum(p, 1e-300))  # the largest ratios first: `low` of their mass is never produced
        p[by] -= (lost := np.clip(self.never_produced.low - np.cumsum(p[by]) + p[by], 0, p[by]))
        return RatioSpectrum.from_masses(p=[*p, lost.sum()], q=[*q, 0.0])


def capped(ratios: Array, mean: float) -> Array:
    """The ratios, the largest of them lowered to a common value if their mean exceeds `mean`."""
    if ratios.mean() <= mean:
        return ratios
    order = np.sort(ratios)
    rest = np.arange(order.size, 0, -1)
    below = np.append(0.0, np.cumsum(order)[:-1])
    k = int(np.argmax(below + rest * order > mean * order.size))  # the cap lies between the ratios k − 1 and k
    return np.asarray(np.minimum(ratios, (mean * order.size - below[k]) / rest[k]))
