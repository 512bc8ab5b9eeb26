"""Classifier estimates of the precision-recall curve: cross-fitted scores, calibrated ratios, certificates.

Any score that tells real from fake certifies a curve on or above the true one; the better the score, the closer. Every
sample is judged by a model that did not see it. Three things are read off the held-out scores: the spectrum, a density
ratio for every sample, and, from one clean split, a certificate and a two-sample test. docs/theory.md, Classifiers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from precall.assess.panel import MEMBERS, of_classifier
from precall.assess.score import Interval, Score
from precall.assess.stacking import (
    calibrated,
    calibrated_smoothly,
    calibrated_sparingly,
    learning_excess,
    lowered,
    stacked,
    stacking_weights,
    weighted,
)
from precall.assess.tasks import Array, Floats, Labels, Samples, Task
from precall.telling import brief
from precall.theory import checks
from precall.theory.bounds import Certificate, upper_band
from precall.theory.spectrum import RatioSpectrum

Progress = Callable[[int, int], None]
SMALL = 1_000_000  # values of a training set
Index = npt.NDArray[np.intp]

LEVEL = 0.95
INNER = 3  # folds inside the training half of auto's certificate


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
        excess: what auto's learning curve takes off precision at `stacking.SLOPES`, or None.
        members: for auto, the spectrum of each member alone, from its cross-fitted scores.
    """

    name: str
    spectrum: RatioSpectrum
    log_ratio_real: Floats
    log_ratio_fake: Floats
    scores_real: Floats
    scores_fake: Floats
    certificate: Certificate
    accuracy: float
    p_value: float
    settings: Mapping[str, Any]
    excess: Floats | None = None
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
        return _plugged_in(real=picked[0], fake=picked[1], excess=self.excess)


def _plugged_in(*, real: Floats, fake: Floats, excess: Floats | None) -> RatioSpectrum:
    """Auto's reading of calibrated log-ratios; any other score counts by its order only."""
    return lowered(RatioSpectrum.from_log_ratios(real=real, fake=fake), excess)


def classify(name: str, *, real: Any, fake: Any, seed: int = 0, progress: Progress | None = None) -> ClassifierResult:
    """The estimator of this name: "auto", "simon", or a member of the panel (`MEMBERS`), with its default settings."""
    checks.choice("name", name, ("auto", "simon", *MEMBERS))
    if name == "auto":
        return auto(real=real, fake=fake, seed=seed, progress=progress)
    if name == "simon":
        from precall.assess.simon import simon

        return simon(real=real, fake=fake, seed=seed)
    return cross_fitted(real=real, fake=fake, classifier=name, seed=seed)


def cross_fitted(*, real: Any, fake: Any, classifier: Any, folds: int = 5, seed: int = 0) -> ClassifierResult:
    """Curve of one classifier by K-fold cross-fitting: each fold is scored by the model trained on the others.

    The held-out scores of all folds together give `alpha(λ) = min_t λ P(s < t) + Q(s ≥ t)`. (Averaging the folds' own
    curves instead takes a minimum over thresholds in each, on K times fewer samples, and is biased down more.) The
    certificate and the test come from one more model, trained on a random half and judging the other half.

    Args:
        real: real features, shape (n, d), n ≥ 50.
        fake: fake features, shape (m, d), m ≥ 50.
        classifier: a name of `MEMBERS`, or any scikit-learn classifier with `decision_function` or `predict_proba`. The
            latter gets the features as they are: put a scaler into its pipeline if it needs one.
        folds: K.
        seed: seeds the folds and the members.

    Example:
        >>> from sklearn.naive_bayes import GaussianNB
        >>> rng = np.random.default_rng(0)
        >>> real, fake = rng.normal(size=(500, 2)), 2 * rng.normal(size=(500, 2))
        >>> result = cross_fitted(real=real, fake=fake, classifier=GaussianNB())
        >>> round(result.spectrum.alpha(1.0), 2), result.certificate.alpha(1.0) > 0.53  # the truth is 0.53
        (0.47, True)

    References:
        Simon et al. (2019), Thm 5; docs/theory.md, Classifiers.
    """
    samples = Samples.checked(real=real, fake=fake, folds=folds, inner=INNER, seed=seed)
    if isinstance(classifier, str):
        name = checks.choice("classifier", classifier, MEMBERS)
        member, make = MEMBERS[name], Task.standardised
    else:
        name, member, make = type(classifier).__name__, of_classifier(classifier), Task
    tasks = [*samples.fold_tasks(make), samples.task(~samples.held_out, samples.held_out, make)]
    *fold_scores, half_scores = member(tasks, seed)
    scores = samples.pooled(fold_scores)
    log_ratio = calibrated(scores, samples.real, samples.fold)
    return _result(name, samples, scores, log_ratio, half_scores.astype(np.float64), {"folds": folds, "seed": seed})


def auto(*, real: Any, fake: Any, folds: int = 5, seed: int = 0, progress: Progress | None = None) -> ClassifierResult:
    """Curve of a stacked panel: ten classifiers of different kinds, weighed by how well they judge held-out samples.

    1. Every member of `MEMBERS` gives every sample a log-ratio, K-fold cross-fitted, standardised (and projected to
       512 principal axes where there are more dimensions) on the training folds.
    2. Non-negative logistic regression on these stacks them into one score, itself cross-fitted.
    3. A monotone piecewise linear curve, cross-fitted, calibrates the score into the `log p/q` of every sample.
    4. The curve is that of calibrated ratios, plugged in: there is no minimum over thresholds for noise to lower. These
       ratios are plainer than the samples': a logistic line; a few steps where a line does not do; 1 where no
       difference shows.
    5. Where models trained on fewer samples do clearly worse, the learning curve is extrapolated by its 1/n law.

    The certificate needs a score that is independent of the samples it is read on. So the whole procedure, weights and
    all, is run once more inside a random half of the samples, and its committee of inner models judges the other half:
    the band then holds with 95 % for all λ at once, whatever the members do. (Folds cannot be pooled for this: each
    one's model has seen the others' samples, and bounds that allow for it are no tighter than half the samples are.)

    Args:
        real: real features, shape (n, d), n ≥ 50.
        fake: fake features, shape (m, d), m ≥ 50.
        folds: K.
        seed: seeds folds, halves and members; same seed, same numbers.
        progress: called with (members done, number of members).

    Returns:
        The result; `settings["weights"]` says who was heard.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> result = auto(real=rng.normal(size=(300, 2)), fake=rng.normal(size=(300, 2)) + [1.0, 0.0])
        >>> abs(result.spectrum.alpha(1.0) - 0.617) < 0.05, result.certificate.alpha(1.0) > 0.617
        (True, True)

    References:
        docs/theory.md, Classifiers; docs/curve_error.md for its error on pairs with known curves.
    """
    samples = Samples.checked(real=real, fake=fake, folds=folds, inner=INNER, seed=seed)
    half = ~samples.held_out
    # each inner task judges all that it does not learn from: its own inner fold and the whole second half
    inner = [half & (samples.inner != k) for k in range(INNER)]
    tasks = samples.fold_tasks(Task.standardised) + [samples.task(rows, ~rows, Task.standardised) for rows in inner]
    judged = list(_judgements(tasks, seed, progress))
    log_ratios = np.column_stack([samples.pooled(scores[:folds]) for scores in judged])
    scores = stacked(log_ratios, samples.real, samples.fold)
    committee = _committee(samples, [np.column_stack([scores[folds + k] for scores in judged]) for k in range(INNER)])
    excess = learning_excess(
        small=committee,
        large=scores[samples.held_out],
        real=samples.real[samples.held_out],
        n_small=(1 - 1 / INNER) / 2,
        n_large=1 - 1 / folds,
    )
    weights = stacking_weights(log_ratios, samples.real)[:-1].round(3).tolist()
    settings = {"folds": folds, "seed": seed, "weights": dict(zip(MEMBERS, weights, strict=True))}
    log_ratio = calibrated_smoothly(scores, samples.real, samples.fold)
    plugged = calibrated_sparingly(scores, samples.real, samples.fold, log_ratio)
    spectrum = _plugged_in(real=plugged[samples.real], fake=plugged[~samples.real], excess=excess)
    result = _result("auto", samples, scores, log_ratio, np.mean(committee, axis=0), settings)
    return replace(result, spectrum=spectrum, excess=excess, members=_member_spectra(log_ratios, samples.real))


def _member_spectra(log_ratios: Floats, real: Labels) -> dict[str, RatioSpectrum]:
    columns = zip(MEMBERS, log_ratios.T, strict=True)
    return {name: RatioSpectrum.from_scores(real=score[real], fake=score[~real]) for name, score in columns}


def _judgements(tasks: list[Task], seed: int, progress: Progress | None) -> Iterator[list[Array]]:
    """What every member says about every task."""
    from threadpoolctl import threadpool_limits

    # small problems spread over threads take longer, much longer where another core is busy
    small = tasks[0].train.size < SMALL
    for done, member in enumerate(MEMBERS.values(), start=1):
        with threadpool_limits(1 if small else None):
            judged = member(tasks, seed)
        yield judged
        if progress is not None:
            progress(done, len(MEMBERS))


def _committee(samples: Samples, log_ratios: list[Floats]) -> list[Floats]:
    """Scores of the second half by each inner model of the first, stacked with weights of the first half alone."""
    half = ~samples.held_out
    inside = np.empty((half.sum(), log_ratios[0].shape[1]))
    outside = []
    for k, judged in enumerate(log_ratios):
        tested = samples.inner[~(half & (samples.inner != k))]
        inside[samples.inner[half] == k] = judged[tested == k]
        outside.append(judged[tested < 0])
    weights = stacking_weights(inside, samples.real[half])
    return [weighted(judged, weights) for judged in outside]


def _result(
    name: str,
    samples: Samples,
    scores: Floats,
    log_ratio: Floats,
    held_out_scores: Floats,
    settings: Mapping[str, Any],
) -> ClassifierResult:
    """Everything that is read off cross-fitted scores and off the scores of the held-out half."""
    real = samples.real
    certified = certify(held_out_scores, samples.real[samples.held_out])
    return ClassifierResult(
        name=name,
        spectrum=RatioSpectrum.from_scores(real=scores[real], fake=scores[~real]),
        log_ratio_real=log_ratio[real],
        log_ratio_fake=log_ratio[~real],
        scores_real=scores[real],
        scores_fake=scores[~real],
        settings=settings,
        **certified,
    )


def certify(scores: Floats, real: Labels) -> dict[str, Any]:
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
