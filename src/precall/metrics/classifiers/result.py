"""The result of a classifier estimator: curve, density ratios, certificate and two-sample test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from precall.metrics.classifiers.held_out import SLOPES, HeldOutScores
from precall.metrics.classifiers.permutation import log_e_value, permutation_p_value, unit_p_value
from precall.metrics.inputs.parallel import side_by_side
from precall.metrics.scores.score import Interval, Score, read
from precall.printing import brief
from precall.theory.arrays import Array, Flags, Index
from precall.theory.bands import Certificate, upper_band
from precall.theory.spectrum import RatioSpectrum

if TYPE_CHECKING:
    from precall.metrics.members.panel import TrainedPanel

LEVEL = 0.95
OF_SCORES = "permutation of held-out scores, one-sided"
OF_SCORES_AND_FEATURES = f"{OF_SCORES}, and of the labels of features of all samples: twice the smaller p-value"


@brief
@dataclass(frozen=True, eq=False)
class ClassifierResult:
    """What the held-out scores of a classifier show about two sample sets."""

    name: str  # name of the estimator
    spectrum: RatioSpectrum  # the curve, as a spectrum
    log_ratio_real: Array  # calibrated log p/q of each real sample; NaN for the training samples of `simon`
    log_ratio_fake: Array  # the same for the fake samples, shape (m,)
    scores_real: Array  # held-out scores, shape (n,); larger means more real. NaN as above
    scores_fake: Array  # the same for the fake samples, shape (m,)
    certificate: Certificate  # simultaneous 95 % upper band on precision, from samples not used for training
    accuracy: float  # balanced accuracy on these samples, ½ P(real | real) + ½ P(fake | fake) of the predictions
    p_value: float  # probability under P = Q of scores that separate the samples at least as well
    settings: Mapping[str, Any]  # the choices that change the numbers
    held_out: HeldOutScores = field(repr=False)  # what the curve, its intervals and its chance levels are computed from
    members: Mapping[str, RatioSpectrum] = field(default_factory=dict, repr=False)  # of members of `auto` alone
    test: str = OF_SCORES  # what was permuted for the p-value
    panel: TrainedPanel | None = field(default=None, repr=False)  # for `auto`; it scores any other rows
    details: Mapping[str, Any] = field(default_factory=dict)  # repeats, and for `auto` the weights of the members
    log_e: float = 0.0  # logarithm of an e-value of P = Q from the same samples (see `log_e_value`)

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of real and of fake samples that it was computed from."""
        used = self.settings.get("samples", {"real": len(self.scores_real), "fake": len(self.scores_fake)})
        return used["real"], used["fake"]

    @property
    def two_sample_test(self) -> Score:
        """The classifier two-sample test: balanced accuracy, with the p-value of a permutation test.

        The interval (Hoeffding's inequality) covers the accuracy of this trained classifier on new samples.
        """
        n, m, settings = self.certificate.n_real, self.certificate.n_fake, {"classifier": self.name, "test": self.test}
        half = np.sqrt(np.log(2 / (1 - LEVEL)) / 2 * (1 / n + 1 / m)) / 2  # ½ √(½ log(2/δ) (1/n + 1/m))
        covers = "the balanced accuracy of this trained classifier on new samples"
        interval = Interval(max(0.0, self.accuracy - half), min(1.0, self.accuracy + half), LEVEL, covers)
        return Score(self.accuracy, interval, 0.5, n, m, settings, self.p_value)

    @property
    def failed(self) -> bool:
        """Whether the curve is kept from being too high by its certificate only (see `certified`)."""
        most = self.certificate.alpha(SLOPES)
        return bool((self.spectrum.alpha(SLOPES) > most - 1e-9)[most < np.minimum(1.0, SLOPES)].any())

    def uncertainty(self, *, seed: int) -> dict[str, Any]:
        """Intervals, bootstrap draws, chance levels and settings of the curve, as `curve_found` takes them."""
        of = self.held_out
        jobs: list[Callable[[], Any]] = [partial(of.resampled, seed=seed), partial(of.chance, seed=seed)]
        drawn, chance, _ = side_by_side([*jobs, lambda: of.training_variance])
        return {
            "intervals": of.intervals(read(self.spectrum), drawn, failed=self.failed),
            "draws": drawn,
            "chance": chance,
            "settings": {"estimator": self.name, **self.settings},
            "details": {**self.details, "resolved": of.resolved(self.spectrum)},
        }


def certified(spectrum: RatioSpectrum, certificate: Certificate) -> RatioSpectrum:
    """The curve, lowered to its certificate wherever it lies above: such an estimate has failed."""
    alpha, most = spectrum.alpha(SLOPES), certificate.alpha(SLOPES)
    if (alpha <= most).all():
        return spectrum
    return RatioSpectrum.from_curve(lam=SLOPES, alpha=np.minimum(alpha, most))


def certify(
    scores: Array, real: Flags, counted: Flags | None = None, unit: Index | None = None, permuted: Index | None = None
) -> dict[str, Any]:
    """Certificate, accuracy and p-value from the scores of samples that were not used for training."""
    s, of_data = (scores, real) if counted is None else (scores[counted], real[counted])
    called = s > 0
    return {
        "certificate": upper_band(real=s[of_data], fake=s[~of_data], level=LEVEL),
        "accuracy": float(called[of_data].mean() + (~called[~of_data]).mean()) / 2,
        "log_e": log_e_value(s[of_data], s[~of_data]),
        "p_value": permutation_p_value(s, of_data, permuted) if unit is None else unit_p_value(scores, real, unit),
    }
