"""The result of a classifier estimator: curve, density ratios, certificate and two-sample test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from precall.metrics.classifiers.learning_curve import lowered
from precall.metrics.score import Interval, Score
from precall.printing import brief
from precall.theory.arrays import Array, Flags, Index
from precall.theory.bands import Certificate, upper_band
from precall.theory.spectrum import RatioSpectrum

LEVEL = 0.95


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
        p_value: Probability under P = Q of at least as many real samples among those classified as real.
        settings: The choices that change the numbers; for `auto` also the weights of the members.
        excess: For `auto`, the correction by the learning curve that is subtracted from precision at
            `learning_curve.SLOPES`, or None.
        members: For `auto`, the spectrum of each member alone, from its cross-fitted scores.
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
    excess: Array | None = None
    members: Mapping[str, RatioSpectrum] = field(default_factory=dict, repr=False)

    @property
    def two_sample_test(self) -> Score:
        """The classifier two-sample test: balanced accuracy, with the exact one-sided p-value in `settings`.

        The interval (Hoeffding's inequality) covers the accuracy of this trained classifier on new samples.
        """
        n, m = self.certificate.n_real, self.certificate.n_fake
        settings = {"classifier": self.name, "p_value": self.p_value, "test": "Fisher, one-sided"}
        half = np.sqrt(np.log(2 / (1 - LEVEL)) / 2 * (1 / n + 1 / m)) / 2  # ½ √(½ log(2/δ) (1/n + 1/m))
        covers = "the balanced accuracy of this trained classifier on new samples"
        interval = Interval(max(0.0, self.accuracy - half), min(1.0, self.accuracy + half), LEVEL, covers)
        return Score(self.accuracy, interval, 0.5, n, m, settings)

    def spectrum_of(self, real: Index, fake: Index) -> RatioSpectrum:
        """The spectrum of a subsample, given by row indices, from the existing scores; resampling uses it.

        For `auto`, the log-ratios of the samples are used. The simpler ratios behind its curve may be equal for all
        samples, and would then show no variation.
        """
        auto = self.name == "auto"
        values = (self.log_ratio_real, self.log_ratio_fake) if auto else (self.scores_real, self.scores_fake)
        picked = [side[index][~np.isnan(side[index])] for side, index in zip(values, (real, fake), strict=True)]
        if not auto:
            return RatioSpectrum.from_scores(real=picked[0], fake=picked[1])
        return plugged_in(real=picked[0], fake=picked[1], excess=self.excess)


def plugged_in(*, real: Array, fake: Array, excess: Array | None) -> RatioSpectrum:
    """Spectrum of calibrated log-ratios, as `auto` uses them; of other scores, only the order is used."""
    return lowered(RatioSpectrum.from_log_ratios(real=real, fake=fake), excess)


def certify(scores: Array, real: Flags) -> dict[str, Any]:
    """Certificate, accuracy and p-value from the scores of samples that were not used for training.

    The p-value is that of Fisher's exact test. Given the number of samples classified as real (score above 0), the
    number of real samples among them is hypergeometric under P = Q, for any classifier and any two sizes.
    """
    from scipy.stats import hypergeom

    called = scores > 0
    hits, n, m = int((called & real).sum()), int(real.sum()), int((~real).sum())
    return {
        "certificate": upper_band(real=scores[real], fake=scores[~real], level=LEVEL),
        "accuracy": float(called[real].mean() + (~called[~real]).mean()) / 2,
        "p_value": float(hypergeom.sf(hits - 1, n + m, n, int(called.sum()))),
    }
