"""Held-out scores: the curve that is computed from them, its intervals, and its chance levels.

Resampling repeats everything that comes after training: the calibration, the choice between its forms, and the
extrapolation of the learning curve. What resampling keeps fixed, the training, is added as a variance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from precall.metrics.classifiers.calibration import calibrated_smoothly, calibrated_sparingly, smooth_calibrations
from precall.metrics.inputs.parallel import side_by_side
from precall.metrics.scores.score import COUNTS, FAR, READ, SEEN, Interval, interval_within, over, read
from precall.theory.arrays import Array, Flags, Index
from precall.theory.logistic import log_losses
from precall.theory.spectrum import RatioSpectrum

BOOTSTRAPS = 12
PERMUTATIONS = 8
MANY = 10_000  # samples from which computations take longer than handing Python from thread to thread
GIVEN_TRAINING = "the expectation of this score at these sample sizes, given the trained classifier"
COVERS = "the true score: sampling, training, and on the worse side what a better classifier may find"
UNSEEN = 1.1  # how much farther an interval reaches on the worse side (benchmarks.ablation, coverage)
ESTIMATED, SLOW = (1.0, 2.0), (1 / 3, 1.0)  # of the learning curve: power of 1/n, and errors that a gain must exceed
SLOPES = np.concatenate([[0.0], np.geomspace(1e-4, 1e4, 801)])  # slopes λ at which the learning curve is extrapolated


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """Scores of samples by models that were not trained on them."""

    scores: Array  # score of each sample; larger means more real
    real: Flags  # whether each sample is real
    fold: Index  # fold of each sample, for the calibration
    inner: Array | None = None  # scores by models of smaller training sets, (models, n), or NaN; None: order only
    n_inner: float = 0.0  # size of these training sets, relative to all samples
    n_outer: float = 1.0  # size of the training sets of `scores`, relative to all samples
    shrunk: bool = True  # whether an unclear difference is shrunk towards none
    unit: Index | None = None  # the unit of each sample, which is resampled as a whole; None if every sample is one
    uncounted: float = 0.0  # shares of both sets, added, that were left out because they repeat other samples

    def log_ratios(self, known: tuple[Array, Array] | None = None) -> tuple[Array, Array]:
        """Calibrated log-ratios of the samples, and simpler ones for the curve; `known` is the smooth calibration."""
        smooth, line = known or calibrated_smoothly(self.scores, self.real, self.fold)
        simple, shrinkage = calibrated_sparingly(self.scores, self.real, self.fold, smooth, line)
        return smooth, shrinkage * simple if self.shrunk else simple

    def excess(self, rate: float = ESTIMATED[0], errors: float = ESTIMATED[1]) -> Array | None:
        """The correction by the learning curve, or None."""
        if self.inner is None:
            return None
        scored = ~np.isnan(self.inner[0])
        small, growth = list(self.inner[:, scored]), (self.n_outer / self.n_inner) ** rate
        return learning_excess(
            small=small, large=self.scores[scored], real=self.real[scored], growth=growth, errors=errors
        )

    @cached_property
    def worst(self) -> RatioSpectrum:
        """The curve, not shrunk, if classifiers still learn as slowly as local rules do (`SLOW`)."""
        return plugged_in(replace(self, shrunk=False).log_ratios()[1], self.real, self.excess(*SLOW))

    def spectrum(self, known: tuple[Array, Array] | None = None) -> RatioSpectrum:
        """The curve: from calibrated ratios (see `log_ratios`) and the learning curve, or from the order of scores."""
        if self.inner is None:
            return RatioSpectrum.from_scores(real=self.scores[self.real], fake=self.scores[~self.real])
        return plugged_in(self.log_ratios(known)[1], self.real, self.excess())

    def resolved(self, spectrum: RatioSpectrum) -> dict[str, float]:
        """Invented and missed mass by the order of the scores, at the largest λ that they resolve.

        There `SEEN` samples of the other set would lie among that mass (see `Evidence.plateau`).
        """
        real, fake = self.scores[self.real], self.scores[~self.real]
        ordered = RatioSpectrum.from_scores(real=real, fake=fake)
        beyond = (real, 1 - spectrum.alpha(FAR)), (fake, 1 - spectrum.beta(1 / FAR))
        most = [max(FAR, len(others) * share / SEEN) for others, share in beyond]
        return {"invented": float(1 - ordered.alpha(most[0])), "missed": float(1 - ordered.beta(1 / most[1]))}

    def rows(self, rows: Index | Flags) -> HeldOutScores:
        """The scores of some samples."""
        inner = None if self.inner is None else self.inner[:, rows]
        unit = None if self.unit is None else self.unit[rows]
        return replace(
            self, scores=self.scores[rows], real=self.real[rows], fold=self.fold[rows], inner=inner, unit=unit
        )

    def resampled(self, *, seed: int) -> list[dict[str, float]]:
        """The scores and points of the curves of bootstrap samples, not shrunk.

        If the curve shows no difference because none is clear, they show how large a difference would go unnoticed.
        """
        rng = np.random.default_rng(seed)
        unshrunk = replace(self, shrunk=False, fold=self.fold % 3)  # three folds are faster than five
        return _read_all([unshrunk.rows(self._bootstrap(rng)) for _ in range(BOOTSTRAPS)])

    def intervals(
        self, values: Mapping[str, float], drawn: list[dict[str, float]], *, failed: bool = False
    ) -> dict[str, Interval]:
        """Intervals of the curve's scores and points: a bootstrap of the samples, plus the variance of training.

        `values` and `drawn` have the scores and points of the curve and of bootstrap samples, by the names in `READ`.
        A score s counts as its angle `asin √s`: that of a share of n samples has the variance 1/4n, whatever the share
        is, and no variance is smaller. An interval starts from `values` or, where they lie farther out, from the mean
        of the draws, since an unclear difference was shrunk in `values`. On the worse side it also starts from the
        `worst` curve, and reaches `UNSEEN` times as far: a classifier may miss a difference, but finds none where there
        is none. Repeats that were left out may be draws of a few values that the other set has never. If an estimate
        `failed` and was replaced by its certificate, a bound on one side only, that side extends to the end of the
        range.
        """
        from scipy.special import stdtrit

        n = int(min(self.real.sum(), (~self.real).sum())) if self.unit is None else len(np.unique(self.unit))
        counts = np.array([COUNTS.get(info.name, 1.0) for info in READ])
        (value, slow), draws = _angles([values, values if self.inner is None else read(self.worst)]), _angles(drawn)
        variance = np.maximum(draws.var(axis=0, ddof=1) + self.training_variance, counts / (4 * n))
        lower = np.array([info.better == "lower" for info in READ])
        worse = np.sin(value) ** 2 + np.where(lower, self.uncounted, -self.uncounted)
        worse = np.arcsin(np.sqrt(np.clip(worse, 0.0, 1.0)))
        slow = np.where(lower, np.maximum(value, slow), np.minimum(value, slow))
        starts = np.stack([value, worse, slow, value if failed else draws.mean(axis=0)])
        first, last = starts.min(axis=0), starts.max(axis=0)
        covers, reach = (GIVEN_TRAINING, 1.0) if self.inner is None else (COVERS, np.inf if failed else UNSEEN)
        half = stdtrit(BOOTSTRAPS - 1, 0.975) * np.sqrt(variance)
        ends = first - np.where(lower, 1.0, reach) * half, last + np.where(lower, reach, 1.0) * half
        shares = (np.sin(np.clip(end, 0, np.pi / 2)) ** 2 for end in ends)
        return {
            info.name: interval_within(*of, low=info.low, high=info.high, n=n / count, covers=covers)
            for info, count, *of in zip(READ, counts, *shares, strict=True)
        }

    def chance(self, *, seed: int) -> dict[str, float]:
        """Scores of the curve under P = Q: their mean over permutations of the labels."""
        rng = np.random.default_rng(seed)
        halves = replace(self, fold=self.fold % 2)  # the calibration has nothing to find; two folds are faster
        permuted = [replace(halves, real=self._permuted(rng)) for _ in range(PERMUTATIONS)]
        return over(_read_all(permuted), np.mean)

    def _bootstrap(self, rng: np.random.Generator) -> Index:
        """Rows of a bootstrap sample of each class, or of the units."""
        if self.unit is not None:
            order = np.argsort(self.unit, kind="stable")
            rows = np.split(order, np.flatnonzero(np.diff(self.unit[order])) + 1)
            return np.concatenate([rows[i] for i in rng.integers(len(rows), size=len(rows))])
        sides = (np.flatnonzero(self.real), np.flatnonzero(~self.real))
        return np.concatenate([rng.choice(side, len(side)) for side in sides])

    def _permuted(self, rng: np.random.Generator) -> Flags:
        """The labels, permuted at random; if there are units, inside each of them."""
        if self.unit is None:
            return rng.permutation(self.real)
        permuted = np.empty_like(self.real)
        permuted[np.lexsort((rng.random(len(self.real)), self.unit))] = self.real[np.argsort(self.unit, kind="stable")]
        return permuted

    @cached_property
    def training_variance(self) -> Array:
        """Variance of the angle of each score that is due to training: that between the inner models, times their size.

        Variances of estimates fall as 1/n, and the inner models are trained on fewer samples.
        """
        if self.inner is None:
            return np.zeros(len(READ))
        scored = ~np.isnan(self.inner[0])
        rows = replace(self.rows(scored), inner=None, shrunk=False)
        alone = [replace(rows, scores=scores[scored]) for scores in self.inner]
        ratios = [one.log_ratios(known)[1] for one, known in zip(alone, _calibrated(alone), strict=True)]
        found = _angles([read(plugged_in(one, rows.real, None)) for one in ratios])
        return np.asarray(found.var(axis=0, ddof=1) * self.n_inner / self.n_outer)


def plugged_in(log_ratio: Array, real: Flags, excess: Array | None) -> RatioSpectrum:
    """Spectrum of calibrated log-ratios, lowered by the excess of the learning curve."""
    return lowered(RatioSpectrum.from_log_ratios(real=log_ratio[real], fake=log_ratio[~real]), excess)


def _calibrated(samples: Sequence[HeldOutScores]) -> list[tuple[Array, Array]]:
    """The smooth calibration of each of these samples."""
    return smooth_calibrations([(one.scores, one.real, one.fold) for one in samples])


def _read_all(drawn: Sequence[HeldOutScores]) -> list[dict[str, float]]:
    """The scores and the points of each curve. Few samples are read in turn: threads would wait for each other."""
    known = [None] * len(drawn) if drawn[0].inner is None else _calibrated(drawn)
    jobs = [partial(lambda one, of: read(one.spectrum(of)), *each) for each in zip(drawn, known, strict=True)]
    return [job() for job in jobs] if len(drawn[0].real) < MANY else side_by_side(jobs)


def _angles(drawn: Sequence[Mapping[str, float]]) -> Array:
    """The angle `asin √s` of every reading s: the variance of a share does not depend on the share there."""
    return np.asarray(np.arcsin(np.sqrt(np.clip([[one[info.name] for info in READ] for one in drawn], 0.0, 1.0))))


def learning_excess(*, small: Sequence[Array], large: Array, real: Flags, growth: float, errors: float) -> Array | None:
    """Estimated distance of the score's curve above the true curve at each of `SLOPES`; None if there is no clear gain.

    With curves from training sets of two sizes, `α(n) = α + a n^−r` gives `α(n_large) − α = (α(n_small) − α(n_large)) /
    (g − 1)` with the growth `g = (n_large/n_small)^r`. Estimation errors decrease at the rate r = 1, those of local
    rules far more slowly. Both curves are computed on the same samples, on which neither model was trained. The
    difference is multiplied by the positive part of `1 − (e s/D)²`, where D is the gain in log-loss from the larger
    set, s its standard error, and e the number of `errors`.
    """
    gain = np.mean([log_losses(score, real) for score in small], axis=0) - log_losses(large, real)
    mean, error = gain.mean(), errors * gain.std() / np.sqrt(len(gain))
    if mean <= error:
        return None
    factor = (1 - (error / mean) ** 2) / (growth - 1)  # (1 − (e s/D)²)/(g − 1)
    curves = [RatioSpectrum.from_scores(real=s[real], fake=s[~real]).alpha(SLOPES) for s in (large, *small)]
    return np.asarray(factor * (np.mean(curves[1:], axis=0) - curves[0]))


def lowered(spectrum: RatioSpectrum, excess: Array | None) -> RatioSpectrum:
    """The spectrum of the curve lowered by `excess` at `SLOPES` and then made concave."""
    if excess is None:
        return spectrum
    alpha = np.clip(spectrum.alpha(SLOPES) - excess, 0.0, np.minimum(1.0, SLOPES))
    return RatioSpectrum.from_curve(lam=SLOPES, alpha=alpha)
