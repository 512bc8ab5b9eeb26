"""What a classifier's held-out scores say about a pair: curve, ratios, certificate and two-sample test."""

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
    """What a classifier's held-out scores say about the pair.

    Attributes:
        name: the estimator.
        spectrum: the curve, as a spectrum.
        log_ratio_real: calibrated log-ratio `log p/q` of every real sample, shape (n,), finite; NaN where the sample
            trained the only model there is (the paper's estimator; cross-fitting judges all).
        log_ratio_fake: the same for the fake samples, shape (m,).
        scores_real: held-out scores, larger meaning more real, shape (n,); NaN as above.
        scores_fake: the same for the fake samples, shape (m,).
        certificate: simultaneous 95 % upper band on precision for all λ, from samples no part of its score has seen.
        accuracy: balanced accuracy on the certificate's samples, ½ P(called real | real) + ½ P(called fake | fake).
        p_value: chance of so many real samples among those called real, or more, if P = Q.
        settings: the choices that change the numbers, and for auto the members' weights.
        excess: what auto's learning curve takes off precision at `learning_curve.SLOPES`, or None.
        members: for auto, the spectrum of each member alone, from its cross-fitted scores.
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
        """The classifier two-sample test: balanced accuracy with its exact one-sided p-value in `settings`.

        The interval (Hoeffding) is for the accuracy of this very classifier on new samples.
        """
        n, m = self.certificate.n_real, self.certificate.n_fake
        settings = {"classifier": self.name, "p_value": self.p_value, "test": "Fisher, one-sided"}
        half = np.sqrt(np.log(2 / (1 - LEVEL)) / 2 * (1 / n + 1 / m)) / 2  # Hoeffding
        covers = "the balanced accuracy of this very classifier on new samples"
        interval = Interval(max(0.0, self.accuracy - half), min(1.0, self.accuracy + half), LEVEL, covers)
        return Score(self.accuracy, interval, 0.5, n, m, settings)

    def spectrum_of(self, real: Index, fake: Index) -> RatioSpectrum:
        """The curve of some of the samples, read from the scores they already have: what resampling asks for.

        For auto from the samples' own ratios: the plainer ones its curve is read from may be equal for all samples, and
        would then show no spread.
        """
        auto = self.name == "auto"
        values = (self.log_ratio_real, self.log_ratio_fake) if auto else (self.scores_real, self.scores_fake)
        picked = [side[index][~np.isnan(side[index])] for side, index in zip(values, (real, fake), strict=True)]
        if not auto:
            return RatioSpectrum.from_scores(real=picked[0], fake=picked[1])
        return plugged_in(real=picked[0], fake=picked[1], excess=self.excess)


def plugged_in(*, real: Array, fake: Array, excess: Array | None) -> RatioSpectrum:
    """Auto's reading of calibrated log-ratios; any other score counts by its order only."""
    return lowered(RatioSpectrum.from_log_ratios(real=real, fake=fake), excess)


def certify(scores: Array, real: Flags) -> dict[str, Any]:
    """Certificate, accuracy and p-value from scores of samples that the score has not seen.

    The p-value is Fisher's: given how many samples are called real (score above 0), the number of real ones among them
    is hypergeometric if P = Q, whatever the classifier and the two sizes.
    """
    from scipy.stats import hypergeom

    called = scores > 0
    hits, n, m = int((called & real).sum()), int(real.sum()), int((~real).sum())
    return {
        "certificate": upper_band(real=scores[real], fake=scores[~real], level=LEVEL),
        "accuracy": float(called[real].mean() + (~called[~real]).mean()) / 2,
        "p_value": float(hypergeom.sf(hits - 1, n + m, n, int(called.sum()))),
    }
