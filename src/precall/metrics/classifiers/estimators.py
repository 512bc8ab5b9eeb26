"""Classifier estimates of the precision-recall curve: cross-fitted scores, calibrated ratios, certificates.

Any score that separates real from fake samples gives a curve on or above the true one; a better score gives a closer
curve. Every sample is scored by a model that was not trained on it. The held-out scores yield the spectrum and a
density ratio for each sample. One more split yields a certificate and a two-sample test. See docs/theory.md,
Classifiers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from precall.metrics.classifiers import columns, panel
from precall.metrics.classifiers.calibration import calibrated
from precall.metrics.classifiers.folds import FEWEST, FoldedSamples
from precall.metrics.classifiers.held_out import HeldOutScores, plugged_in
from precall.metrics.classifiers.mlp import mlp
from precall.metrics.classifiers.result import (
    OF_SCORES,
    OF_SCORES_AND_CELLS,
    ClassifierResult,
    cell_p_value,
    certify,
    tested,
)
from precall.metrics.classifiers.stacking import stacked, stacking_weights, weighted
from precall.metrics.classifiers.tasks import Matrix, Member, Task, Views, each
from precall.metrics.features import Pair, check_count, device_of
from precall.metrics.metric import Card, Found, Metric, curve_found
from precall.metrics.parallel import side_by_side
from precall.metrics.score import CURVE_SCORES, Score, ScoreInfo
from precall.progress import StageProgress
from precall.theory import checks
from precall.theory.arrays import Array, Flags
from precall.theory.logistic import CAP
from precall.theory.spectrum import RatioSpectrum

if TYPE_CHECKING:
    from precall.metrics.run import Run

QUICK = ("linear", "quadratic", "knn", "boosting")  # the test if no classifier was requested
QUICK_SAMPLES = 4000  # most samples per set for that test
INNER = 3  # number of folds inside the training half of the certificate of `auto`
MEMBERS: dict[str, Member] = {  # by name, from the least to the most flexible
    "linear": each(panel.logistic),
    "sparse": each(columns.sparse),
    "discriminant": each(panel.discriminant),
    "quadratic": each(panel.quadratic),
    "diagonal": each(panel.diagonal),
    "marginals": each(columns.marginals),
    "edges": each(columns.edges),
    "radial": each(panel.radial),
    "contrast": each(panel.contrast),
    "modes": each(panel.modes),
    "islands": each(panel.islands),
    "knn": each(panel.neighbors),
    "boosting": each(panel.boosting),
    "mlp": mlp,
}


def classify(
    name: str, *, real: object, fake: object, seed: int = 0, progress: StageProgress | None = None
) -> ClassifierResult:
    """Run the estimator of this name with its default settings: "auto", or a member of the panel (`MEMBERS`)."""
    return classify_pair(name, Pair.checked(real=real, fake=fake), seed=seed, progress=progress)


def classify_pair(name: str, pair: Pair, *, seed: int, progress: StageProgress | None = None) -> ClassifierResult:
    """`classify` for features that have been checked already."""
    checks.choice("name", name, ("auto", *MEMBERS))
    return _auto(pair, 5, seed, progress) if name == "auto" else _cross_fitted(pair, name, 5, seed)


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
    samples = folded(pair, folds, seed)
    if isinstance(classifier, str):
        name = checks.choice("classifier", classifier, MEMBERS)
        member, views, half_views = MEMBERS[name], samples.views(), samples.half_views()
    else:
        name, member = type(classifier).__name__, panel.of_classifier(classifier)
        views = half_views = Views.plain(samples.x)
    half = samples.half_tasks(half_views, [~samples.held_out])
    tasks = side_by_side(samples.fold_tasks(views) + half)
    with panel.convergence_not_required():
        *fold_scores, half_scores = member(tasks, seed)
    scores = samples.pooled(fold_scores)
    log_ratio = calibrated(scores, samples.real, samples.fold)
    held_out = HeldOutScores(scores, samples.real, samples.fold, unit=samples.unit)
    settings = {"folds": folds, "seed": seed}
    return _result(name, samples, held_out, held_out.spectrum(), log_ratio, half_scores.astype(np.float64), settings)


def auto(
    *, real: object, fake: object, folds: int = 5, seed: int = 0, progress: StageProgress | None = None
) -> ClassifierResult:
    """Curve of a stacked panel: fourteen classifiers of different kinds, weighted by their fit to held-out samples.

    1. Every member of `MEMBERS` estimates a log-ratio for every sample, by K-fold cross-fitting. Features are
       standardised, and projected to 512 principal axes if there are more dimensions; neither uses the labels.
    2. Non-negative logistic regression combines these log-ratios into one score. This step is cross-fitted, too.
    3. A monotone piecewise linear function, cross-fitted, calibrates the score into `log p/q` of every sample.
    4. The curve is computed by plugging in calibrated ratios. There is no minimum over thresholds, which noise would
       lower. The ratios for the curve are simpler than those of the samples: a logistic line, or a few steps if a line
       does not fit. An unclear difference is shrunk, down to none.
    5. If models trained on fewer samples are clearly worse, the learning curve is extrapolated by its 1/n law.

    The certificate needs a score that is independent of the samples on which it is evaluated. Therefore the whole
    procedure, weights and axes included, is run once more inside a random half of the samples, and the average of these
    inner models scores the other half. The band then holds with probability 95 % for all λ simultaneously, whatever the
    members are. (The folds cannot be pooled for this purpose: each model was trained on samples of the other folds, and
    bounds that account for this are no tighter than those from half of the samples.)

    The test of P = Q permutes the scores of the same half. A second one permutes the labels of all samples in the
    components of the mixtures, which were fitted without labels: it sees a dropped mode in fewer samples. The p-value
    is twice the smaller of the two.

    Args:
        real: Real features, shape (n, d), n ≥ 50.
        fake: Fake features, shape (m, d), m ≥ 50.
        folds: K, the number of folds.
        seed: Seed of folds, halves and members; the same seed gives the same numbers.
        progress: Called with (members done, number of members).

    Returns:
        The result; `settings["weights"]` holds the weight of each member.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> result = auto(real=rng.normal(size=(300, 2)), fake=rng.normal(size=(300, 2)) + [1.0, 0.0])
        >>> abs(result.spectrum.alpha(1.0) - 0.617) < 0.05, result.certificate.alpha(1.0) > 0.617
        (True, True)

    References:
        docs/theory.md, Classifiers; docs/how_well.md for its error on pairs with known curves.
    """
    return _auto(Pair.checked(real=real, fake=fake), folds, seed, progress)


def _auto(pair: Pair, folds: int, seed: int, progress: StageProgress | None) -> ClassifierResult:
    samples = folded(pair, folds, seed)
    half = ~samples.held_out
    # each inner task scores all samples that it is not trained on: its own inner fold and the whole held-out half
    inner = [half & (samples.inner != k) for k in range(INNER)]
    views, half_views = side_by_side([samples.views, samples.half_views])
    tasks = side_by_side(samples.fold_tasks(views) + samples.half_tasks(half_views, inner))
    by_member = _scores_by_member(tasks, seed, progress)
    log_ratios = np.column_stack([samples.pooled(scores[:folds]) for scores in by_member])
    scores = stacked(log_ratios, samples.real, samples.fold)
    inner_scores = _committee(samples, [np.column_stack([one[folds + k] for one in by_member]) for k in range(INNER)])
    weights = stacking_weights(log_ratios, samples.real)[:-1].round(3).tolist()
    settings = {"folds": folds, "seed": seed, "weights": dict(zip(MEMBERS, weights, strict=True))}
    sizes = ((1 - 1 / INNER) / 2, 1 - 1 / folds)
    held_out = HeldOutScores(scores, samples.real, samples.fold, inner_scores, *sizes, unit=samples.unit)
    log_ratio, simple = held_out.log_ratios()
    spectrum = plugged_in(simple, samples.real, held_out.excess())
    committee = inner_scores[:, samples.held_out].mean(axis=0)
    result = _result("auto", samples, held_out, spectrum, log_ratio, committee, settings)
    p_value = min(1.0, 2 * min(result.p_value, cell_test(samples, views)))
    members = _member_spectra(log_ratios, samples.real)
    return replace(result, p_value=p_value, test=OF_SCORES_AND_CELLS, members=members)


def cell_test(samples: FoldedSamples, views: Views) -> float:
    """P-value of the labels in the components of the mixtures that were fitted to all samples without their labels."""
    counted = samples.independent
    cells = [views.made[name][counted].argmax(axis=1) for name in ("modes", "islands")]
    return cell_p_value(cells, samples.real[counted])


def folded(pair: Pair, folds: int, seed: int) -> FoldedSamples:
    for name, n in zip(("real", "fake"), pair.sizes, strict=True):
        check_count(name, n, FEWEST)
    device = device_of(pair.real)
    return FoldedSamples.split(*pair.to_numpy(), folds=folds, inner=INNER, seed=seed, device=device, units=pair.units)


def _member_spectra(log_ratios: Array, real: Flags) -> dict[str, RatioSpectrum]:
    columns = zip(MEMBERS, log_ratios.T, strict=True)
    return {name: RatioSpectrum.from_scores(real=score[real], fake=score[~real]) for name, score in columns}


def _scores_by_member(tasks: list[Task], seed: int, progress: StageProgress | None) -> list[list[Matrix]]:
    """For each member, its scores of the test points of every task. The slowest members start first."""
    jobs = [partial(member, tasks, seed) for member in reversed(MEMBERS.values())]
    with panel.convergence_not_required():
        return side_by_side(jobs, progress)[::-1]


def _committee(samples: FoldedSamples, log_ratios: list[Matrix]) -> Array:
    """Scores of the held-out half by each inner model, stacked with weights fitted to the training half only.

    Shape (inner models, samples); NaN for the samples of the training half.
    """
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
    certified_scores: Array,
    settings: Mapping[str, Any],
) -> ClassifierResult:
    """The result from cross-fitted scores of all samples and from scores of the held-out half for the certificate."""
    real, out, unit = samples.real, samples.held_out, samples.unit
    left_out = 0 if unit is not None else int((~samples.independent).sum())
    repeats = {"repeats_left_out": left_out} if left_out else {}
    return ClassifierResult(
        name=name,
        spectrum=spectrum,
        log_ratio_real=log_ratio[real],
        log_ratio_fake=log_ratio[~real],
        scores_real=held_out.scores[real],
        scores_fake=held_out.scores[~real],
        settings={**settings, "identical_rows": samples.identical, **repeats},
        held_out=held_out.rows(samples.independent) if unit is None else held_out,
        **certify(certified_scores, real[out], samples.independent[out], None if unit is None else unit[out]),
    )


def _curve(name: str, run: Run) -> Found:
    """Compute the curve of the estimator of this name."""
    found = run.classifiers[name] = classify_pair(name, run.pair, seed=run.seed, progress=run.stage(name))
    return curve_found(run, found.spectrum, **found.uncertainty(seed=run.seed))


def _two_sample_test(run: Run) -> Found:
    """The test of the first classifier that was computed, or a quick one if there is none."""
    found = next(iter(run.classifiers.values()), None)
    return Found({"c2st": quick_test(run.pair, seed=run.seed) if found is None else found.two_sample_test})


def quick_test(pair: Pair, *, seed: int) -> Score:
    """Two-sample test by the mean log-ratio of a few members of different kinds, trained on one half of the samples.

    No single classifier is enough: a linear one, for example, cannot see a change of scale. At most `QUICK_SAMPLES`
    samples of each set are used.
    """
    rng = np.random.default_rng(seed)
    real, fake = (np.sort(rng.permutation(n)[:QUICK_SAMPLES]) for n in pair.sizes)
    samples = folded(pair.rows(real, fake), 2, seed)
    task = samples.half_views().task(~samples.held_out, samples.held_out, samples.real)
    scores = side_by_side([partial(MEMBERS[name], [task], seed) for name in QUICK])
    log_ratios = [np.clip(score[0], -CAP, CAP) for score in scores]
    counted = samples.independent[samples.held_out]
    is_real = samples.real[samples.held_out][counted]
    found = certify(np.mean(log_ratios, axis=0)[counted], is_real)
    n, m = int(is_real.sum()), int((~is_real).sum())
    name, accuracy, p_value = " + ".join(QUICK), found["accuracy"], found["p_value"]
    return tested(name, accuracy=accuracy, p_value=p_value, n=n, m=m, test=OF_SCORES)


RESAMPLED = "bootstrap of the samples with a new calibration; for `auto` plus the variance of training"


def _estimator(
    name: str, reads: str, *, measures: str, limits: str, misleads: str, papers: tuple[str, ...], default: bool = False
) -> Metric:
    return Metric(
        name,
        reads,
        CURVE_SCORES,
        RESAMPLED,
        partial(_curve, name),
        default=default,
        is_curve=True,
        fewest=FEWEST,
        shares="classifiers",
        card=Card(
            measures=measures,
            formula=r"\hat\alpha(\lambda) = \sum_b \min(\lambda p_b, q_b)",
            symbols="$p_b$ and $q_b$ are the shares of the real and of the fake samples in block $b$ of the "
            "calibrated, held-out classifier score.",
            chance="For area, F8 and F1/8 near 1, for the others near 0. At finite sample sizes precall reports the "
            "mean over permutations of the labels.",
            protocol="Encoder, numbers of samples and seed. Identical rows stay in one fold and count once.",
            limits=limits,
            misleads=misleads,
            papers=papers,
        ),
    )


SIMON_2019 = ("Simon et al. (2019)", "Sajjadi et al. (2018)")
AUTO = _estimator(
    "auto",
    "a stacked panel of fourteen classifiers, cross-fitted and calibrated",
    measures="The whole precision-recall curve. Fourteen classifiers of different kinds learn to tell real from fake "
    "samples, a weighted combination of them is calibrated to a density ratio, and every score is read off this ratio.",
    limits="No classifier detects every difference. A difference that all members miss raises the curve. The estimate "
    "is not a bound; the certificate is. With a few hundred samples the intervals are wide.",
    misleads="It detects differences that no person would notice. If only one side was rounded, resized or "
    "compressed, the classifiers find the trace and the scores drop. Near-copies within one set, such as frames of "
    "one video, make two samples of the same distribution look different.",
    papers=SIMON_2019,
    default=True,
)
MLP = _estimator(
    "mlp",
    "a multilayer perceptron with two hidden layers, cross-fitted",
    measures="The whole precision-recall curve, from one smooth non-linear classifier.",
    limits="From a few hundred samples it learns little, and the curve is too high.",
    misleads="If the features differ in scale only, it fails in many dimensions. In our benchmark (d = 64 and 512, "
    "2,000 samples) its error was as large as that of a linear classifier, which cannot see such a difference.",
    papers=SIMON_2019,
)
BOOSTING = _estimator(
    "boosting",
    "gradient-boosted trees, cross-fitted",
    measures="The whole precision-recall curve, from decision trees. Trees suit tables and differences in few columns.",
    limits="Trees split one feature at a time, so they learn rotated or distributed differences slowly.",
    misleads="It hardly finds a small shift that is spread over many features, and the curve is then too high.",
    papers=SIMON_2019,
)
KNN = _estimator(
    "knn",
    "a k-nearest-neighbour classifier, cross-fitted",
    measures="The whole precision-recall curve, from the share of real samples among the neighbours of each sample.",
    limits="All features count equally in the distance. Irrelevant features hide the relevant ones.",
    misleads="In many dimensions distances become similar, and the curve is too high.",
    papers=SIMON_2019,
)
QUADRATIC = _estimator(
    "quadratic",
    "the log-ratio of two Gaussians with shrunken covariances, cross-fitted",
    measures="The whole precision-recall curve, under the assumption that differences lie in means and covariances.",
    limits="It is exact for Gaussians and blind to differences beyond the second moments.",
    misleads="A model that drops modes but keeps mean and covariance looks perfect.",
    papers=SIMON_2019,
)
LINEAR = _estimator(
    "linear",
    "ridge logistic regression, cross-fitted",
    measures="The whole precision-recall curve, from differences of the means only. It is the quickest classifier "
    "curve.",
    limits="It is blind to differences of scale and shape.",
    misleads="A model with the right mean and half the spread looks perfect.",
    papers=SIMON_2019,
)
C2ST = Metric(
    name="c2st",
    reads="classifier two-sample test on held-out samples; `settings` has the p-value of a permutation test",
    scores=(ScoreInfo("c2st", "two-sample accuracy", 0.0, 1.0, "lower", "balanced accuracy; 0.5 if P = Q", "page"),),
    interval="Hoeffding: the accuracy of this trained classifier on new samples",
    compute=_two_sample_test,
    needs="the first classifier among the metrics; a quick panel of four if there is none",
    default=True,
    fewest=FEWEST,
    shares="classifiers",
    card=Card(
        measures="Whether a classifier can tell held-out real from held-out fake samples at all. The p-value comes "
        "from permutations of the held-out scores; `auto` also permutes the labels in clusters of all samples and "
        "reports twice the smaller p-value. Either way it exceeds no level more often than it may, at any sample size.",
        formula=r"\text{c2st} = \tfrac12 \left( P(s \ge t) + Q(s < t) \right)",
        symbols="$s$ is the score of a classifier that was trained on the other half of the samples, $t$ its "
        "threshold.",
        chance="0.5",
        protocol="Which classifier was used (`settings` names it), numbers of samples, encoder and seed.",
        limits="It says whether the two sets differ, not how or how much. The accuracy is that of one classifier.",
        misleads="With many samples even a negligible difference is significant. Read the p-value together with `tv` "
        "or `area`, which measure how large the difference is.",
        papers=("Lopez-Paz and Oquab (2017)",),
    ),
)
