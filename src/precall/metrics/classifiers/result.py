"""The result of a classifier estimator: curve, density ratios, certificate and two-sample test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from precall.metrics.score import Interval, Score, read
from precall.printing import brief
from precall.theory.arrays import Array, Flags, Index
from precall.theory.bands import Certificate, upper_band
from precall.theory.logistic import CAP
from precall.theory.spectrum import RatioSpectrum

if TYPE_CHECKING:
    from precall.metrics.classifiers.held_out import HeldOutScores

LEVEL = 0.95
OF_SCORES = "permutation of held-out scores, one-sided"
OF_SCORES_AND_CELLS = f"{OF_SCORES}, and of the labels in cells of all samples: twice the smaller p-value"
VALUES = 4_000_000  # scores that are permuted in all: about a fifth of a second


@brief
@dataclass(frozen=True, eq=False)
class ClassifierResult:
    """What the held-out scores of a classifier show about two sample sets.

    Attributes:
        name: Name of the estimator.
        spectrum: The curve, as a spectrum.
        log_ratio_real: Calibrated log-ratio `log p/q` of each real sample, shape (n,). It is finite, or NaN for the
            training samples of `simon`; cross-fitted estimators score all samples.
        log_ratio_fake: The same for the fake samples, shape (m,).
        scores_real: Held-out scores, shape (n,); larger means more real. NaN as above.
        scores_fake: The same for the fake samples, shape (m,).
        certificate: Simultaneous 95 % upper band on precision for all λ, from samples that no part of its score was
            trained on.
        accuracy: Balanced accuracy on the samples of the certificate, ½ P(real | real) + ½ P(fake | fake) of the
            predictions.
        p_value: Probability under P = Q of scores that separate the samples at least as well, by permutation.
        settings: The choices that change the numbers; for `auto` also the weights of the members.
        held_out: The held-out scores that the curve, its intervals and its chance levels are computed from.
        members: For `auto`, the spectrum of each member alone, from its cross-fitted scores.
        test: What was permuted for the p-value.
    """

    name: str
    spectrum: RatioSpectrum
    log_ratio_real: Array
    log_ratio_fake: Array
    scores_real: Array
    scores_fake: Array
    certificate: Certificate
    accuracy: float
    p_value: float
    settings: Mapping[str, Any]
    held_out: HeldOutScores = field(repr=False)
    members: Mapping[str, RatioSpectrum] = field(default_factory=dict, repr=False)
    test: str = OF_SCORES

    @property
    def two_sample_test(self) -> Score:
        """The classifier two-sample test: see `tested`."""
        n, m = self.certificate.n_real, self.certificate.n_fake
        return tested(self.name, accuracy=self.accuracy, p_value=self.p_value, n=n, m=m, test=self.test)

    def uncertainty(self, *, seed: int) -> dict[str, Any]:
        """Intervals of the scores and points of the curve, chance levels and settings, as `curve_found` takes them."""
        return {
            "intervals": self.held_out.intervals(read(self.spectrum), seed=seed),
            "chance": self.held_out.chance(seed=seed),
            "settings": {"estimator": self.name, **self.settings},
        }


def tested(classifier: str, *, accuracy: float, p_value: float, n: int, m: int, test: str) -> Score:
    """A classifier two-sample test: balanced accuracy, with the p-value of a permutation test in `settings`.

    The interval (Hoeffding's inequality) covers the accuracy of this trained classifier on new samples.

    Args:
        classifier: Name of the classifier.
        accuracy: Balanced accuracy on held-out samples.
        p_value: P-value from the same samples.
        n: Number of real held-out samples.
        m: Number of fake held-out samples.
        test: What was permuted.
    """
    settings = {"classifier": classifier, "p_value": p_value, "test": test}
    half = np.sqrt(np.log(2 / (1 - LEVEL)) / 2 * (1 / n + 1 / m)) / 2  # ½ √(½ log(2/δ) (1/n + 1/m))
    covers = "the balanced accuracy of this trained classifier on new samples"
    interval = Interval(max(0.0, accuracy - half), min(1.0, accuracy + half), LEVEL, covers)
    return Score(accuracy, interval, 0.5, n, m, settings)


def certify(scores: Array, real: Flags, counted: Flags | None = None, unit: Index | None = None) -> dict[str, Any]:
    """Certificate, accuracy and p-value from the scores of samples that were not used for training.

    Args:
        scores: Held-out scores.
        real: Whether each sample is real.
        counted: Which samples are independent of each other; None for all.
        unit: The unit that was drawn, of each sample, for the p-value; None if every sample is one.
    """
    s, of_data = (scores, real) if counted is None else (scores[counted], real[counted])
    called = s > 0
    return {
        "certificate": upper_band(real=s[of_data], fake=s[~of_data], level=LEVEL),
        "accuracy": float(called[of_data].mean() + (~called[~of_data]).mean()) / 2,
        "p_value": permutation_p_value(s, of_data) if unit is None else unit_p_value(scores, real, unit),
    }


def permutation_p_value(scores: Array, real: Flags, seed: int = 0) -> float:
    """P-value of the hypothesis P = Q, from scores of samples that were not used for training.

        T = mean of s over the reals,    p = (1 + #{permutations with T* ≥ T}) / (1 + number of permutations)

    Under P = Q the labels are exchangeable given the scores, so the test is exact for any classifier, any two sizes and
    any number of permutations. If s is a log-ratio, n T is the log-likelihood of the labels up to a constant, since
    log σ(s) − log σ(−s) = s. A few samples with a large ratio then count for much, which a threshold at 0 would lose:
    if 6 % of the modes are dropped, 94 % of the samples carry no information about it.

    Args:
        scores: Held-out scores, larger meaning more real, shape (n,); clipped to ±`CAP`.
        real: Whether each sample is real.
        seed: Seed of the permutations.

    References:
        Lopez-Paz and Oquab (2017); Phipson and Smyth (2010) on the 1 in numerator and denominator.
    """
    s, n = np.clip(scores, -CAP, CAP), int(real.sum())
    rng = np.random.default_rng(seed)
    drawn = np.array([rng.permutation(s)[:n].sum() for _ in range(_permutations(len(s)))])
    rounding = 1e-9 * np.abs(s).sum()  # sums of equal scores in another order are equal
    return _share_as_large(drawn, s[real].sum() - rounding)


def unit_p_value(scores: Array, real: Flags, unit: Index, seed: int = 0) -> float:
    """P-value of the hypothesis P = Q, from scores of samples in units, such as answers to prompts, of both sides.

        T = Σ_u D_u,    D_u = mean of s over the reals of unit u − mean over its fakes

    Under P = Q the sides of a unit can be exchanged, so the signs of the D_u are random. The test is exact for as many
    reals as fakes per unit, and for many units otherwise.

    Args:
        scores: Held-out scores, larger meaning more real; clipped to ±`CAP`.
        real: Whether each sample is real.
        unit: The unit of each sample; each has samples of both sides.
        seed: Seed of the signs.
    """
    s, (_, place) = np.clip(scores, -CAP, CAP), np.unique(unit, return_inverse=True)
    means = [np.bincount(place[side], s[side]) / np.bincount(place[side]) for side in (real, ~real)]
    difference = means[0] - means[1]
    rng = np.random.default_rng(seed)
    drawn = np.array([rng.choice((-1.0, 1.0), len(difference)) @ difference for _ in range(_permutations(len(s)))])
    return _share_as_large(drawn, difference.sum() - 1e-9 * np.abs(difference).sum())


def cell_p_value(cells: Sequence[Index], real: Flags, seed: int = 0) -> float:
    """P-value of the hypothesis P = Q, from cells of all samples that were found without the labels.

        T = Σ (r_c − n_c f)² / n_c    over the cells c of all partitions, with n_c samples, r_c of them real

    f is the share of reals. No classifier is trained, so all samples count, and the labels are exchangeable given the
    cells: the test by permutation is exact. It sees dropped, invented and reweighted modes in a hundred samples.

    Args:
        cells: Partitions of the samples: the cell of each sample, shape (n,).
        real: Whether each sample is real.
        seed: Seed of the permutations.
    """
    joint, joint_cell = np.unique(np.column_stack(cells), axis=0, return_inverse=True)
    member = np.hstack([np.eye(partition.max() + 1)[partition] for partition in joint.T])
    totals, reals = (np.bincount(joint_cell[some], minlength=len(joint)) for some in (slice(None), real))
    # permuted labels fall into the cells by the multivariate hypergeometric law
    drawn = np.random.default_rng(seed).multivariate_hypergeometric(totals, real.sum(), size=_permutations(len(real)))
    sizes = np.maximum(totals @ member, 1)
    statistics = ((np.vstack([reals, drawn]) @ member - sizes * real.mean()) ** 2 / sizes).sum(axis=1)
    return _share_as_large(statistics[1:], statistics[0] * (1 - 1e-9))


def _permutations(n: int) -> int:
    """Number of permutations of n values."""
    return int(np.clip(VALUES // n, 999, 9999))


def _share_as_large(drawn: Array, observed: float) -> float:
    """p = (1 + number of permutations that reach the observed value) / (1 + number of permutations)."""
    return float((1 + (drawn >= observed).sum()) / (1 + len(drawn)))
