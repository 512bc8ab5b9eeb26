"""Classifier estimates of the precision-recall curve: cross-fitted scores, calibrated ratios, certificates.

Any score that separates real from fake samples gives a curve on or above the true one; a better score gives a closer
curve. Every sample is scored by a model that was not trained on it. The held-out scores yield the spectrum and a
density ratio for each sample. One more split yields a certificate and a two-sample test. See docs/theory.md,
Classifiers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from precall.lazy import torch
from precall.metrics.assessing.run import Run
from precall.metrics.classifiers.calibration import calibrated
from precall.metrics.classifiers.folds import FEWEST, FoldedSamples
from precall.metrics.classifiers.held_out import HeldOutScores, plugged_in
from precall.metrics.classifiers.permutation import compared_rows, feature_p_value, permuted_rows
from precall.metrics.classifiers.result import OF_SCORES_AND_FEATURES, ClassifierResult, certified, certify
from precall.metrics.classifiers.stacking import stacked, stacking_weights, weighted
from precall.metrics.inputs.features import Pair
from precall.metrics.inputs.parallel import side_by_side
from precall.metrics.members.panel import INNER, MEMBERS, ROWS, Panel, TrainedPanel, scored
from precall.metrics.members.panel_members import convergence_not_required, nearest_modes, of_classifier
from precall.metrics.members.ranks import NormalScores
from precall.metrics.members.views import Seen
from precall.metrics.scores.metric import Found, Metric, curve_found
from precall.metrics.scores.score import CURVE_SCORES, ScoreInfo
from precall.progress import StageProgress
from precall.theory import checks
from precall.theory.arrays import Array, Index, Tensor
from precall.theory.spectrum import RatioSpectrum

PANELS = {"auto": ROWS, "auto_quick": 2000}  # most samples of each set that the panel is trained on, by estimator


def classify(
    name: str, *, real: object, fake: object, seed: int = 0, progress: StageProgress | None = None
) -> ClassifierResult:
    """Run the estimator of this name with its default settings: one of `PANELS`, or a single classifier (`MEMBERS`)."""
    return classify_pair(name, Pair.checked(real=real, fake=fake), seed=seed, progress=progress)


def classify_pair(name: str, pair: Pair, *, seed: int, progress: StageProgress | None = None) -> ClassifierResult:
    """`classify` for features that have been checked already."""
    checks.choice("name", name, (*PANELS, *MEMBERS))
    if name not in PANELS:
        return _cross_fitted(pair, name, 5, seed)
    return replace(auto_of_pair(pair, Panel(rows=PANELS[name]), seed, progress), name=name)


def cross_fitted(*, real: object, fake: object, classifier: object, folds: int = 5, seed: int = 0) -> ClassifierResult:
    """Curve of one classifier by K-fold cross-fitting: each fold is scored by the model trained on the others.

    The held-out scores of all folds together give `alpha(λ) = min_t λ P(s < t) + Q(s ≥ t)`. (Averaging one curve per
    fold would take the minimum over thresholds on K times fewer samples, with a larger downward bias.) The certificate
    and the test come from one more model, which is trained on a random half and scores the other half.

    Args:
        real: Real features, shape (n, d), n ≥ 50.
        fake: Fake features, shape (m, d), m ≥ 50.
        classifier: A name in `MEMBERS`, or any scikit-learn classifier with `decision_function` or `predict_proba`. A
            scikit-learn classifier gets the features as they are: use a pipeline with a scaler if it needs one.
        folds: K, the number of folds.
        seed: Seed of the folds and the members.

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
    return _cross_fitted(Pair.checked(real=real, fake=fake), classifier, folds, seed)


def _cross_fitted(pair: Pair, classifier: object, folds: int, seed: int) -> ClassifierResult:
    samples = Panel(folds=folds).split(pair, seed)
    if isinstance(classifier, str):
        name = checks.choice("classifier", classifier, MEMBERS)
        member = MEMBERS[name]
    else:
        name, member = type(classifier).__name__, of_classifier(classifier)
    tasks = samples.fold_tasks(*samples.rows()) + samples.tasks(*samples.half_rows(), [~samples.held_out])
    tests = [*samples.fold_tests(), samples.index(samples.held_out)]
    with convergence_not_required():
        fitted = side_by_side([partial(member, tasks, seed)])[0]  # in one thread: steps are many and small
    parts = zip(fitted, tasks, tests, strict=True)
    *fold_scores, half_scores = (scored(one, task.rows.part(test)) for one, task, test in parts)
    scores = samples.pooled(fold_scores)
    log_ratio = calibrated(scores, samples.real, samples.fold)
    held_out = HeldOutScores(scores, samples.real, samples.fold, unit=samples.unit)
    settings = {"folds": folds, "seed": seed}
    proof = _certify(samples, half_scores)
    return _result(name, samples, held_out, held_out.spectrum(), log_ratio, proof, settings)


def auto(
    *, real: object, fake: object, folds: int = 5, seed: int = 0, progress: StageProgress | None = None
) -> ClassifierResult:
    """Curve of a stacked panel: eleven classifiers of different kinds, weighted by their fit to held-out samples.

    1. Every member estimates a log-ratio for every sample, by K-fold cross-fitting. Features are standardised, and
       projected to 512 principal axes if there are more dimensions; neither uses the labels.
    2. Non-negative logistic regression combines these log-ratios into one score. This step is cross-fitted, too.
    3. A monotone piecewise linear function, cross-fitted, calibrates the score into `log p/q` of every sample.
    4. The curve is computed by plugging in simpler ratios: a logistic line, or a few steps if a line does not fit. An
       unclear difference is shrunk, down to none; nothing is shrunk if the certificate shows that there is more.
    5. If models trained on fewer samples are clearly worse, the learning curve is extrapolated by its 1/n law.

    If a set has more than 20,000 samples, all of this is done with a random part of them, and the trained panel scores
    the others. For the certificate the whole procedure is run once more inside a random half of the samples, and the
    average of these inner models scores the other half: the band holds with probability 95 % for all λ simultaneously.
    The test of P = Q permutes the scores of this half. A second one permutes the labels of features of all samples that
    were computed without them. The p-value is twice the smaller of the two.

    `details["weights"]` of the result holds the weight of each member, and `panel` scores any other rows. Its error on
    pairs with known curves is in docs/how_well.md. See docs/theory.md, Classifiers.
    """
    return auto_of_pair(Pair.checked(real=real, fake=fake), Panel(folds=folds), seed, progress)


def auto_of_pair(pair: Pair, panel: Panel, seed: int, progress: StageProgress | None) -> ClassifierResult:
    """`auto` with any panel, for features that have been checked already."""
    chosen = panel.sample(pair, seed)
    samples, folds = panel.split(pair.rows(*chosen), seed), panel.folds
    half, tested = ~samples.held_out, samples.real[samples.held_out & samples.independent]
    # each inner task is trained on two inner folds, and scores the third one and the whole held-out half
    inner = [half & (samples.inner != k) for k in range(INNER)]
    (rows, fit), (half_rows, half_fit) = side_by_side([samples.rows, samples.half_rows])
    tasks = samples.fold_tasks(rows, fit) + samples.tasks(half_rows, half_fit, inner)
    tests = samples.fold_tests() + [samples.index(~one) for one in inner]
    jobs: list[Callable[[], Any]] = [partial(panel.trained, tasks, tests, seed, progress)]
    jobs += [partial(feature_test, samples, rows, fit, seed), partial(permuted_rows, tested)]
    (fitted, by_member), of_features, permuted = side_by_side(jobs)
    log_ratios = np.column_stack([samples.pooled(scores[:folds]) for scores in by_member])
    scores = stacked(log_ratios, samples.real, samples.fold)
    inner_scores = _committee(samples, [np.column_stack([one[folds + k] for one in by_member]) for k in range(INNER)])
    sizes = ((1 - 1 / INNER) / 2, 1 - 1 / folds)
    held_out = HeldOutScores(scores, samples.real, samples.fold, inner_scores, *sizes, unit=samples.unit)
    committee = inner_scores[:, samples.held_out].mean(axis=0)
    jobs = [  # the longest first
        partial(_certify, samples, committee, permuted),
        partial(panel.combined, samples, rows.views, fitted, log_ratios, scores),
        held_out.log_ratios,
        held_out.excess,
    ]
    proof, trained, (log_ratio, simple), excess = side_by_side(jobs)
    weights = dict(zip(panel.members, trained.weights[:-1].round(3).tolist(), strict=True))
    used = {"real": len(chosen[0]), "fake": len(chosen[1])}
    settings = {"folds": folds, "seed": seed, "samples": used}
    spectrum = plugged_in(simple, samples.real, excess)
    result = _result("auto", samples, held_out, spectrum, log_ratio, proof, settings)
    p_value = min(1.0, 2 * min(result.p_value, of_features))
    columns, real = zip(panel.members, log_ratios.T, strict=True), samples.real
    members = {name: RatioSpectrum.from_scores(real=one[real], fake=one[~real]) for name, one in columns}
    curve = certified(result.spectrum, result.certificate)
    if curve is not result.spectrum:  # the difference is clear, so that nothing is shrunk
        curve = certified(replace(result.held_out, shrunk=False).spectrum(), result.certificate)
    details = {"weights": weights, **result.details}
    found = {"spectrum": curve, "p_value": p_value, "members": members, "panel": trained, "details": details}
    whole = replace(result, test=OF_SCORES_AND_FEATURES, **found)
    # the models of all folds take five times as long as one of them
    return _of_all(whole, trained if panel.rows == ROWS else replace(trained, models=trained.models[:1]), pair, chosen)


def _of_all(
    result: ClassifierResult, trained: TrainedPanel, pair: Pair, chosen: tuple[Index, Index]
) -> ClassifierResult:
    """The result with scores of all samples: those outside the chosen part are scored by the trained panel."""
    found: dict[str, Array] = {}
    for side, x, used in zip(("real", "fake"), (pair.real, pair.fake), chosen, strict=True):
        if len(used) < len(x):
            others = np.setdiff1d(np.arange(len(x)), used)
            scores = trained.scores(x[others])
            for name, of_others in ((f"scores_{side}", scores), (f"log_ratio_{side}", trained.calibrated(scores))):
                found[name] = np.empty(len(x))
                found[name][used], found[name][others] = getattr(result, name), of_others
    return replace(result, **found)  # type: ignore[arg-type]


def feature_test(samples: FoldedSamples, rows: Seen, fit: Tensor, seed: int) -> float:
    """P-value of the labels of features that were computed without them."""
    counted = np.flatnonzero(samples.independent)
    chosen = counted[compared_rows(samples.real[counted])]
    some = rows.part(torch.as_tensor(chosen, device=rows.x.device))
    normal = NormalScores.of_task(rows, fit)
    points, scores = some.points.double(), normal.of(some)
    i, j = torch.triu_indices(scores.shape[1], scores.shape[1], device=scores.device)
    columns = scores.T.float().contiguous()
    members = nearest_modes(some, fit, seed)
    blocks = [points, points**2, scores, (columns[i] * columns[j]).T, normal.summaries(some), members]
    return feature_p_value(blocks, samples.real[chosen])


def _committee(samples: FoldedSamples, log_ratios: list[Array]) -> Array:
    """Scores of the held-out half by each inner model, shape (models, samples); NaN for the training half."""
    half = ~samples.held_out
    inside = np.empty((half.sum(), log_ratios[0].shape[1]))
    outside = []
    for k, ratios in enumerate(log_ratios):
        tested = samples.inner[~(half & (samples.inner != k))]
        inside[samples.inner[half] == k] = ratios[tested == k]
        outside.append(ratios[tested < 0])
    weights = stacking_weights(inside, samples.real[half])
    scores = np.full((len(outside), len(half)), np.nan)
    scores[:, samples.held_out] = [weighted(ratios, weights) for ratios in outside]
    return scores


def _result(
    name: str,
    samples: FoldedSamples,
    held_out: HeldOutScores,
    spectrum: RatioSpectrum,
    log_ratio: Array,
    proof: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> ClassifierResult:
    """The result from cross-fitted scores and what `_certify` returns; its curve counts repeated rows once, too."""
    real, unit = samples.real, samples.unit
    left_out, counted = 0 if unit is not None else int((~samples.independent).sum()), held_out
    if left_out:
        shares = [float((~samples.independent[side]).mean()) for side in (real, ~real)]
        counted = replace(held_out.rows(samples.independent), uncounted=sum(shares))
    repeats: dict[str, Any] = {"repeats_left_out": left_out} if left_out else {}
    if unit is None and any(samples.repeats):
        repeats["repeated"] = dict(zip(("real", "fake"), samples.repeats, strict=True))
    return ClassifierResult(
        name=name,
        spectrum=counted.spectrum() if left_out else spectrum,
        log_ratio_real=log_ratio[real],
        log_ratio_fake=log_ratio[~real],
        scores_real=held_out.scores[real],
        scores_fake=held_out.scores[~real],
        settings=settings,
        details={"identical_rows": samples.identical, **repeats},
        held_out=counted,
        **proof,
    )


def _certify(samples: FoldedSamples, scores: Array, permuted: Index | None = None) -> dict[str, Any]:
    """Certificate, accuracy and p-value from scores of the held-out half."""
    out, unit = samples.held_out, samples.unit
    return certify(scores, samples.real[out], samples.independent[out], None if unit is None else unit[out], permuted)


def _curve(name: str, run: Run) -> Found:
    """Compute the curve of the estimator of this name."""
    found = run.classifiers[name] = classify_pair(name, run.pair, seed=run.seed, progress=run.stage(name))
    return curve_found(found, found.spectrum, **found.uncertainty(seed=run.seed))


def _two_sample_test(run: Run) -> Found:
    """The test of the first classifier that was computed, or of the quick panel if there is none."""
    found = next(iter(run.classifiers.values()), None)
    test = found or classify_pair("auto_quick", run.pair, seed=run.seed, progress=run.stage("c2st"))
    return Found({"c2st": test.two_sample_test})


def _estimator(name: str, reads: str, *, default: bool = False) -> Metric:
    return Metric(
        name,
        reads,
        CURVE_SCORES,
        "bootstrap of the samples with a new calibration; for `auto` plus the variance of training",
        partial(_curve, name),
        default=default,
        is_curve=True,
        fewest=FEWEST,
        shares="classifiers",
    )


AUTO = _estimator("auto", "a stacked panel of eleven classifiers, cross-fitted and calibrated", default=True)
AUTO_QUICK = _estimator("auto_quick", "`auto` with at most 2,000 samples of each set")
BOOSTING = _estimator("boosting", "gradient-boosted trees, cross-fitted")
QUADRATIC = _estimator("quadratic", "the log-ratio of two Gaussians with shrunken covariances, cross-fitted")
LINEAR = _estimator("linear", "ridge logistic regression, cross-fitted")
C2ST = Metric(
    name="c2st",
    reads="classifier two-sample test on held-out samples; with the p-value of a permutation test",
    scores=(ScoreInfo("c2st", "two-sample accuracy", 0.0, 1.0, "lower", "balanced accuracy; 0.5 if P = Q", "page"),),
    interval="Hoeffding: the accuracy of this trained classifier on new samples",
    compute=_two_sample_test,
    needs="the first classifier among the metrics; `auto_quick` if there is none",
    default=True,
    fewest=FEWEST,
    shares="classifiers",
)
