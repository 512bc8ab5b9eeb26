"""Classifier estimators: the paper's ensemble, cross-fitted classifiers, the auto panel, certificates and tests."""

import json
import multiprocessing
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from benchmarks import curve_error as benchmark, toys
from benchmarks.odd_families import PAIRS
from precall import assess
from precall.metrics.classifiers import calibration, held_out, simon as paper, stacking
from precall.metrics.classifiers.estimators import PANELS, auto, auto_of_pair, classify, classify_pair, cross_fitted
from precall.metrics.classifiers.folds import spread
from precall.metrics.classifiers.permutation import feature_p_value, permutation_p_value
from precall.metrics.classifiers.result import certified
from precall.metrics.classifiers.simon import simon_ensemble
from precall.metrics.inputs.features import Pair
from precall.metrics.members.panel import MEMBERS, PANEL, Panel, scored
from precall.metrics.members.views import Views, most_different, tasks_of, varies
from precall.metrics.scores.score import READ, read
from precall.theory.bands import upper_band
from precall.theory.hull import few_blocks, score_blocks
from precall.theory.spectrum import RatioSpectrum
from strategies import pairs as masses

LAM = np.tan(np.arange(1, 100) / 100 * np.pi / 2)


def error(spectrum, toy):
    gap = np.abs(spectrum.alpha(LAM) - toy.alpha(LAM))
    return np.mean(np.maximum(gap, gap / LAM))


def task_of(train, labels, test):
    """The task to train on `train`, with views that are fitted to these points, and the points to score."""
    x, training = np.concatenate([train, test]), np.arange(len(train) + len(test)) < len(train)
    x, fit = torch.from_numpy(x), torch.arange(len(train))
    rows = Views.fit(x, fit).rows(x)
    (task,) = tasks_of(rows, fit, np.append(labels, np.zeros(len(test), dtype=bool)), [training], training)
    return task, rows.part(torch.arange(len(train), len(x)))


def score_of(name, train, labels, test):
    """The log-ratios of `test` by a member that is trained on `train`."""
    task, rows = task_of(train, labels, test)
    (fitted,) = MEMBERS[name]([task], 0)
    return scored(fitted, rows)


@pytest.fixture(scope="module")
def dropping():
    """Real samples from three modes, fake samples from two of them: precision is about 1 and recall about 2/3."""
    toy = toys.mode_dropping(dim=2)
    real, fake = toy.sample(400, np.random.default_rng(0))
    return toy, real, fake[:300], auto(real=real, fake=fake[:300], seed=1)


@pytest.fixture
def few_permutations(monkeypatch):
    """199 permutations instead of 9,999: the test is exact for any number, and they take a fiftieth of the time."""
    monkeypatch.setattr("precall.metrics.classifiers.permutation._permutations", lambda n: 199)


@pytest.fixture
def no_search(monkeypatch):
    """No search for hidden axes, at which linear rules and naive Bayes do not look."""
    monkeypatch.setattr("precall.metrics.members.views.SEARCH_STEPS", 0)


# ---------------------------------------------------------------------------------------------------------- auto


def test_auto_finds_the_curve_and_does_not_exchange_precision_and_recall(dropping):
    toy, _, _, result = dropping
    assert error(result.spectrum, toy) < 0.03
    assert result.spectrum.alpha(20.0) > 0.93
    assert result.spectrum.beta(0.05) < 0.77


def test_auto_judges_every_sample(dropping):
    toy, real, fake, result = dropping
    assert result.log_ratio_real.shape == (400,)
    assert result.log_ratio_fake.shape == (300,)
    judged = np.concatenate([result.log_ratio_real, result.log_ratio_fake])
    assert np.isfinite(judged).all()
    # log p/q: about log(2/3) on the two common modes, large on the third
    truth = np.concatenate([toy.log_ratio(real), toy.log_ratio(fake)])
    common = truth < 0
    assert np.median(judged[common]) == pytest.approx(np.log(2 / 3), abs=0.15)
    assert np.median(judged[~common]) > 1.5


def test_auto_certificate_holds_and_the_two_sets_are_told_apart(dropping):
    toy, _, _, result = dropping
    assert np.all(toy.alpha(LAM) <= result.certificate.alpha(LAM))
    assert result.certificate.level == 0.95
    assert (result.certificate.n_real, result.certificate.n_fake) == (200, 150)
    assert result.certificate.alpha(1.0) < 0.95
    assert result.p_value < 0.001
    assert float(result.two_sample_test) == result.accuracy > 0.6
    assert result.accuracy in result.two_sample_test.interval


def test_auto_is_reproducible_and_reports_progress(dropping):
    _, real, fake, result = dropping
    calls = []
    again = classify("auto", real=real, fake=fake, seed=1, progress=lambda done, total: calls.append((done, total)))
    assert np.array_equal(again.log_ratio_real, result.log_ratio_real)
    assert again.certificate.alpha(1.0) == result.certificate.alpha(1.0)
    assert calls == [(k, len(PANEL)) for k in range(1, len(PANEL) + 1)]


def test_auto_says_who_was_heard(dropping):
    result = dropping[3]
    assert list(result.details["weights"]) == list(result.members) == list(PANEL)
    assert min(result.details["weights"].values()) >= 0
    assert result.members["boosting"].beta(0.05) < 0.75


def test_the_curve_is_that_of_its_held_out_scores(dropping):
    result = dropping[3]
    assert np.array_equal(result.held_out.spectrum().alpha(LAM), result.spectrum.alpha(LAM))
    part = result.held_out.rows(np.arange(0, 700, 2)).spectrum()
    assert 0 < np.abs(part.alpha(LAM) - result.spectrum.alpha(LAM)).max() < 0.15


# -------------------------------------------------------------------------------------------------------- members


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # the estimators silence it
@pytest.mark.parametrize("name", MEMBERS)
def test_every_member_tells_a_shifted_and_widened_model_from_the_data(name):
    """A larger score means more real, and the score is close to the true log-ratio."""
    rng = np.random.default_rng(3)
    real, fake = rng.normal(size=(1500, 3)), 0.5 + 2 * rng.normal(size=(900, 3))
    x, labels = np.concatenate([real[:1000], fake[:600]]), np.arange(1600) < 1000
    test = np.concatenate([real[1000:], fake[600:]])
    truth = 3 * np.log(2) - (test**2).sum(axis=1) / 2 + ((test - 0.5) ** 2).sum(axis=1) / 8
    score = score_of(name, x, labels, test)
    assert score.shape == (800,)
    spectrum = RatioSpectrum.from_scores(real=score[:500], fake=score[500:])
    exact = RatioSpectrum.from_log_ratios(real=truth[:500], fake=truth[500:])
    if name == "edges":  # it sees only points beyond the range of one class
        assert exact.alpha(1.0) < spectrum.alpha(1.0) < 0.95
    elif name in ("interactions", "thin"):  # without the columns themselves, or with one cut: the change of scale only
        assert exact.alpha(1.0) < spectrum.alpha(1.0) < exact.alpha(1.0) + 0.15
    elif name in ("linear", "discriminant"):  # the log-ratio is quadratic: a linear rule sees the shift only
        assert exact.alpha(1.0) + 0.2 < spectrum.alpha(1.0) < 0.93
    else:
        assert spectrum.alpha(1.0) == pytest.approx(exact.alpha(1.0), abs=0.07)
        assert np.mean(np.abs(np.clip(score, -4, 4) - np.clip(truth, -4, 4))) < 0.8


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # the estimators silence it
@pytest.mark.parametrize("name", MEMBERS)
def test_more_real_than_fake_samples_do_not_make_a_member_say_real(name):
    """P = Q with three times as many reals: the log-ratio is 0, while the log-odds are 1.1."""
    x = np.random.default_rng(4).normal(size=(1400, 2))
    score = score_of(name, x[:1200], np.arange(1200) < 900, x[1200:])
    assert np.median(score) == pytest.approx(0.0, abs=0.4)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # the estimators silence it
def test_modes_in_two_wide_columns_are_seen_beside_thirty_narrow_ones():
    """Standardised, the noise of thirty columns is as wide as the circle on which sixteen modes lie."""
    rng = np.random.default_rng(5)
    angles = 2 * np.pi * rng.integers(16, size=3000) / 16
    x = rng.normal(size=(3000, 32))
    x[:, :2] += 25 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    dropped = angles == 0
    x, dropped = x[~(dropped & (np.arange(3000) % 2 == 0))], dropped[~(dropped & (np.arange(3000) % 2 == 0))]
    labels = np.arange(3000)[~((angles == 0) & (np.arange(3000) % 2 == 0))] % 2 == 1  # only reals have the mode
    score = score_of("islands", x[::2], labels[::2], x[1::2])
    assert np.median(score[dropped[1::2]]) > 2
    assert np.abs(np.median(score[~dropped[1::2]])) < 0.3


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # the estimators silence it
def test_what_a_task_learns_does_not_depend_on_what_it_judges():
    rng = np.random.default_rng(0)
    train, labels, test = rng.normal(size=(200, 4)), np.arange(200) < 100, rng.normal(size=(50, 4))
    others = np.concatenate([test[:1], 1e3 * test[1:]])
    for name in MEMBERS:
        one, many = score_of(name, train, labels, test[:1]), score_of(name, train, labels, others)
        np.testing.assert_allclose(many[:1], one, rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # the estimators silence it
def test_constant_columns_and_wide_features_are_fine():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 600))
    x[:, 0] = 7.0
    x[:150, 1:4] += 2
    labels = (np.arange(300) < 150)[::2]
    _, rows = task_of(x[::2], labels, x[1::2])
    assert rows.points.shape[1] == 149  # 150 centred points span no more
    _, rows = task_of(rng.normal(size=(700, 600)), np.arange(700) < 350, x)
    assert rows.points.shape == (300, 512)
    for name in ("discriminant", "linear", "boosting"):
        score = score_of(name, x[::2], labels, x[1::2])
        assert score[:75].mean() > score[75:].mean() + 0.5


def test_auto_judges_few_samples_in_many_dimensions():
    """The folds have different numbers of points, so their points span different numbers of dimensions."""
    rng = np.random.default_rng(0)
    real, same, shifted = (rng.normal(mean, 1, (60, 520)) for mean in (0.0, 0.0, 0.3))
    assert auto(real=real, fake=same, seed=0).spectrum.area > 0.9
    assert auto(real=real, fake=shifted, seed=0).spectrum.area < 0.3


def test_a_rounded_column_is_screened_before_others():
    """The ranks of its values say nothing, and the last digits of 512 rows do."""
    rng = np.random.default_rng(7)
    x, labels = rng.normal(size=(2000, 80)), rng.permutation(2000) < 1000
    x[labels, 33] = x[labels, 33].round(3)
    masks = torch.from_numpy(np.stack([[labels, ~labels], [labels & (x[:, 0] > 0), ~labels & (x[:, 0] > 0)]]))
    assert most_different(torch.from_numpy(x), masks, 1).tolist() == [[33], [33]]


@pytest.mark.parametrize(("end", "seen"), [(1.0, False), (1.01, True)])
def test_an_end_that_the_classes_share_is_not_beyond_the_range_of_one(end, seen):
    real, fake = np.linspace(0, 1, 50), np.append(np.linspace(0, 0.99, 30), np.full(20, end))
    score = score_of("edges", np.append(real, fake)[:, None], np.arange(100) < 50, np.array([[1.5]]))
    assert (score[0] < 0) == seen


# --------------------------------------------------------------------------------------------------------- columns


def column_pairs():
    """Single columns of both classes: without ties, with frequent values, on a grid, rounded on one side, recurring."""
    rng = np.random.default_rng(11)
    normal = rng.normal(size=(2, 600))
    pool = rng.normal(size=150)
    return {
        "continuous": (normal[0], 1.5 * normal[1] + 0.3),
        "rectified": (np.maximum(normal[0], 0), np.maximum(normal[1] + 0.5, 0)),
        "counts": (rng.poisson(3, 600).astype(float), rng.poisson(4, 600).astype(float)),
        "rounded": (normal[0], normal[1].round(2)),
        "recurring": (normal[0], rng.choice(pool, 600)),
    }


@pytest.mark.parametrize("name", column_pairs())
def test_columns_side_by_side_are_as_each_alone(name):
    """Vectorised over columns: the score is the sum of the scores of the single columns, up to the penalty."""
    real, fake = column_pairs()[name]
    others = np.random.default_rng(12).normal(size=(1200, 3))  # the same in both classes: they add nothing
    x = np.concatenate([real, fake])[:, None]
    labels = np.arange(1200) < 600
    alone = score_of("marginals", x[::2], labels[::2], x[1::2])
    beside = score_of("marginals", np.hstack([others, x])[::2], labels[::2], np.hstack([others, x])[1::2])
    assert np.abs(alone).max() > 0.3
    np.testing.assert_allclose(beside, alone, rtol=0.2, atol=0.02)
    assert np.corrcoef(beside, alone)[0, 1] > 0.999


def test_a_frequent_value_has_the_ratio_of_its_counts():
    """Half of the reals and one eighth of the fakes are 0, and the other values say nothing."""
    rng = np.random.default_rng(13)
    x = rng.normal(size=1600)
    x[:400], x[800:900] = 0.0, 0.0
    score = score_of("marginals", x[:, None], np.arange(1600) < 800, np.array([[0.0], [1.0], [-1.0]]))
    assert score[0] == pytest.approx(np.log(400.5 / 100.5), abs=0.05)
    np.testing.assert_allclose(score[1:], np.log(400.5 / 700.5), atol=0.05)


# ------------------------------------------------------------------------------------------------ the trained panel


@pytest.fixture(scope="module")
def rotated():
    """Data and a model with another covariance, and rows that neither was trained on."""
    rng = np.random.default_rng(14)
    return rng.normal(size=(500, 3)), rng.normal(size=(400, 3)) @ np.diag([2.0, 1.0, 0.5]), rng.normal(size=(300, 3))


def test_a_trained_panel_scores_other_rows(rotated):
    real, fake, new = rotated
    trained = auto_of_pair(Pair.checked(real=real, fake=fake), Panel(members=tuple(MEMBERS)), 1, None).panel
    truth = np.log(1.0) - (new**2).sum(axis=1) / 2 + ((new / [2.0, 1.0, 0.5]) ** 2).sum(axis=1) / 2
    assert np.corrcoef(np.clip(trained.log_ratio(new), -3, 3), np.clip(truth, -3, 3))[0, 1] > 0.85
    with pytest.raises(ValueError, match="`rows` must have 3 columns, as in training; got 2"):
        trained.log_ratio(new[:, :2])


def test_auto_reads_the_curve_off_a_part_and_scores_all(rotated, monkeypatch):
    real, fake, _ = rotated
    monkeypatch.setitem(PANELS, "auto_quick", 200)
    part = classify_pair("auto_quick", Pair.checked(real=real, fake=fake), seed=3)
    assert part.sizes == (200, 200)
    assert part.settings["samples"] == {"real": 200, "fake": 200}
    assert part.certificate.n_real + part.certificate.n_fake == 200  # half of them
    assert len(part.held_out.scores) == 400
    assert part.log_ratio_real.shape == (500,)
    assert np.isfinite(np.concatenate([part.log_ratio_real, part.log_ratio_fake, part.scores_fake])).all()
    used, _ = Panel(rows=200).sample(Pair.checked(real=real, fake=fake), 3)
    others = np.setdiff1d(np.arange(500), used)
    one_fold = replace(part.panel, models=part.panel.models[:1])
    np.testing.assert_array_equal(part.log_ratio_real[others], one_fold.log_ratio(real[others]))
    whole = classify_pair("auto", Pair.checked(real=real, fake=fake), seed=3)
    assert whole.settings["samples"] == {"real": 500, "fake": 400}
    assert np.corrcoef(part.log_ratio_fake, whole.log_ratio_fake)[0, 1] > 0.7


def test_a_panel_of_other_members_is_a_choice(rotated):
    real, fake, new = rotated
    trained = auto_of_pair(Pair.checked(real=real, fake=fake), Panel(members=("quadratic",)), 0, None).panel
    assert trained.members == ("quadratic",)
    assert len(trained.models) == 5
    assert np.isfinite(trained.log_ratio(torch.from_numpy(new))).all()


# ---------------------------------------------------------------------------------------------------- cross-fitting


def test_a_classifier_that_memorises_gains_nothing():
    """Under P = Q a tree fits its training points perfectly, but on other points it must find no difference."""
    tree, accuracy = DecisionTreeClassifier(random_state=0), []
    for seed in range(10):
        x = np.random.default_rng(seed).normal(size=(800, 3))
        result = cross_fitted(real=x[:400], fake=x[400:], classifier=tree, seed=seed)
        accuracy.append(np.mean(np.concatenate([result.scores_real > 0, result.scores_fake < 0])))
        assert result.certificate.alpha(1.0) == 1.0
        assert result.p_value > 1e-4
        assert np.isfinite(result.log_ratio_real).all()  # although its probabilities are 0 and 1
    assert result.name == "DecisionTreeClassifier"
    assert np.mean(accuracy) == pytest.approx(0.5, abs=0.02)


def test_unequal_sizes_do_not_tilt_the_ratio():
    rng = np.random.default_rng(2)
    result = cross_fitted(
        real=rng.normal(size=(250, 2)), fake=rng.normal(size=(1500, 2)) + 0.3, classifier="discriminant"
    )
    assert np.log(np.exp(result.log_ratio_fake).mean()) == pytest.approx(0.0, abs=0.1)  # E_Q[p/q] = 1
    assert result.spectrum.alpha(1.0) > 0.75


def test_the_two_sample_test_keeps_its_level(few_permutations, no_search):
    rng = np.random.default_rng(0)
    p_values = [
        cross_fitted(
            real=rng.normal(size=(60, 2)), fake=rng.normal(size=(90, 2)), classifier=GaussianNB(), folds=2
        ).p_value
        for _ in range(100)
    ]
    assert np.mean(np.array(p_values) <= 0.1) < 0.19  # three standard errors above 0.1
    assert np.mean(np.array(p_values) <= 0.5) > 0.25


def test_the_two_sample_test_has_power():
    rng = np.random.default_rng(0)
    far = cross_fitted(
        real=rng.normal(size=(60, 2)), fake=rng.normal(size=(90, 2)) + 2, classifier=GaussianNB(), folds=2
    )
    assert far.p_value < 0.001


def test_certificates_cover_in_at_least_95_percent_of_100_repetitions(few_permutations, no_search):
    """The band covers the true curve for all λ simultaneously, and it must not be so wide that it is useless."""
    toy, rng = toys.gaussian_shift(distance=1.5, dim=2), np.random.default_rng(5)
    truth, held, slack = toy.alpha(LAM), [], []
    for seed in range(100):
        real, fake = toy.sample(200, rng)
        band = cross_fitted(real=real, fake=fake, classifier="discriminant", folds=2, seed=seed).certificate
        held.append(np.all(truth <= band.alpha(LAM)))
        slack.append(band.alpha(1.0) - toy.alpha(1.0))
    assert np.mean(held) >= 0.95
    assert 0.1 < np.mean(slack) < 0.3


# --------------------------------------------------------------------------------------------------------- the paper


def test_simon_trains_on_one_of_each_pair_and_judges_the_other():
    rng = np.random.default_rng(0)
    training = paper.coin_flips(1000, 1000, rng)
    assert np.array_equal(training[:1000], ~training[1000:])
    assert 400 < training[:1000].sum() < 600
    real, fake = rng.normal(size=(800, 5)), rng.normal([1.5, 0, 0, 0, 0], 1, size=(900, 5))
    result = simon_ensemble(real=real, fake=fake, seed=3)
    judged_real, judged_fake = ~np.isnan(result.scores_real), ~np.isnan(result.scores_fake)
    assert np.array_equal(judged_real, ~judged_fake[:800])
    assert np.array_equal(judged_real, np.isfinite(result.log_ratio_real))
    alone = RatioSpectrum.from_scores(real=result.scores_real[judged_real], fake=result.scores_fake[judged_fake])
    assert np.array_equal(result.spectrum.alpha(LAM), alone.alpha(LAM))
    assert result.certificate.n_real == judged_real.sum()
    assert np.nanmean(result.scores_real) > np.nanmean(result.scores_fake)
    assert result.spectrum.alpha(1.0) == pytest.approx(toys.gaussian_shift(distance=1.5).alpha(1.0), abs=0.1)
    again = simon_ensemble(real=real, fake=fake, seed=3)
    assert np.array_equal(again.scores_real, result.scores_real, equal_nan=True)


# ---------------------------------------------------------------------------------------------------------- stacking


def test_stacking_recovers_the_log_ratio_from_unequal_classes():
    """P = N(1, 1), Q = N(0, 1): log p/q = x − 1/2. Columns of noise and of the wrong sign get no weight."""
    rng = np.random.default_rng(0)
    x, real = np.concatenate([rng.normal(1, 1, 3000), rng.normal(0, 1, 12000)]), np.arange(15000) < 3000
    columns = np.column_stack([2 * x, rng.normal(size=15000), -x])
    w = stacking.stacking_weights(columns, real)
    np.testing.assert_allclose(w, [0.5, 0.0, 0.0, -0.5], atol=0.06)


@pytest.mark.parametrize(
    "calibrate",
    [calibration.calibrated, lambda *scored: calibration.calibrated_smoothly(*scored)[0]],
    ids=["steps", "smooth"],
)
def test_calibration_finds_the_ratio_and_grows_with_the_score(calibrate):
    rng = np.random.default_rng(0)
    x, real = np.concatenate([rng.normal(1, 1, 4000), rng.normal(0, 1, 2000)]), np.arange(6000) < 4000
    fold = spread(real, 5, rng)
    log_ratio = calibrate(np.exp(x), real, fold)  # only the order of the scores is right
    middle = np.abs(x - 0.5) < 1.5
    assert np.mean(np.abs(log_ratio - (x - 0.5))[middle]) < 0.25
    one = np.flatnonzero(fold == 0)
    assert np.all(np.diff(log_ratio[one[np.argsort(x[one])]]) >= 0)


def test_samples_calibrated_together_are_calibrated_as_if_alone():
    """They differ in size, in ties and in the number of steps that their fits take."""
    rng, samples = np.random.default_rng(0), []
    for n, digits in ((3000, 6), (90, 6), (400, 0)):
        real = np.arange(n) < n // 3
        samples.append(((rng.normal(size=n) + 2 * real).round(digits), real, spread(real, 3, rng)))
    for one, together in zip(samples, calibration.smooth_calibrations(samples), strict=True):
        np.testing.assert_allclose(together, calibration.calibrated_smoothly(*one), rtol=1e-9, atol=1e-12)


def test_scores_between_two_blocks_belong_to_the_nearer_one():
    """Where a fold lies lower, half of it was read as the atom at −5: the next block began at 0, in the other folds."""
    rng = np.random.default_rng(0)
    real, fold = np.arange(1000) < 500, np.arange(1000) % 5
    scores = np.where(real, rng.uniform(size=1000), rng.uniform(0.1, 1.0, size=1000)) - 0.5 * (fold == 2)
    scores[rng.uniform(size=1000) < 0.3 * ~real] = -5
    steps = calibration.calibrated(scores, real, fold, few=True)
    assert (steps[scores > -1] > 0).all()
    assert (steps[scores == -5] < -2).all()


def test_calibration_does_not_use_a_samples_own_label():
    rng = np.random.default_rng(0)
    real = np.arange(400) < 200
    x = rng.normal(size=400) + 2 * real
    fold = spread(real, 4, rng)
    other = real.copy()
    other[fold == 2] = ~other[fold == 2]
    steps = partial(calibration.calibrated, few=True)
    for calibrate in (calibration.calibrated, lambda *a: calibration._piecewise([a])[1][0], steps, stacking_of):
        before, after = calibrate(x, real, fold), calibrate(x, other, fold)
        assert np.array_equal(before[fold == 2], after[fold == 2])
        assert not np.array_equal(before[fold != 2], after[fold != 2])


def stacking_of(x, real, fold):
    return stacking.stacked(np.column_stack([x, x**3]), real, fold)


@given(masses())
def test_few_blocks_are_isotonic_blocks_put_together(pair):
    """Their edges are among those of the isotonic blocks, their ratio grows, their curve is on or above the hull's."""
    rng = np.random.default_rng(0)
    p, q = (m / m.sum() for m in map(np.asarray, pair))
    real, fake = rng.choice(len(p), 300, p=p).astype(float), rng.choice(len(q), 200, p=q).astype(float)
    all_of_them = score_blocks(real=real, fake=fake)
    few = few_blocks(all_of_them, len(real), len(fake))
    assert set(few.edges) <= set(all_of_them.edges)
    assert (few.p.sum(), few.q.sum()) == (pytest.approx(1.0), pytest.approx(1.0))
    assert np.all(np.diff(few.p / (few.p + few.q)) > 0)
    hull = RatioSpectrum.from_scores(real=real, fake=fake)
    assert np.all(RatioSpectrum.from_masses(p=few.p, q=few.q).alpha(LAM) >= hull.alpha(LAM) - 1e-12)


def stepped(rng, n, m):
    """Noisy scores of three modes, of which the model drops the last: the ratios are 2/3, 2/3 and ∞."""
    centres = np.concatenate([rng.integers(0, 3, n), rng.integers(0, 2, m)])
    return centres + 0.2 * rng.normal(size=n + m), np.arange(n + m) < n


def test_the_curve_is_read_from_a_line_or_from_steps_or_from_nothing():
    rng = np.random.default_rng(0)

    def sparing(scores, real):
        fold = spread(real, 5, rng)
        smooth, line = calibration.calibrated_smoothly(scores, real, fold)
        assert np.array_equal(line, calibration._piecewise([(scores, real, fold)])[0][0])
        return *calibration.calibrated_sparingly(scores, real, fold, smooth, line), smooth, line

    scores, real = stepped(rng, 3000, 1000)
    plain, shrinkage, smooth, line = sparing(scores, real)
    assert shrinkage > 0.99
    assert len(np.unique(plain)) <= 20 < len(np.unique(smooth))  # in five folds
    assert np.median(plain[scores < 1.3]) == pytest.approx(np.log(2 / 3), abs=0.1)
    assert np.median(plain[scores > 1.7]) > 5

    scores = np.concatenate([rng.normal(1, 1, 3000), rng.normal(0, 1, 1000)])
    plain, shrinkage, _, line = sparing(scores, real)
    assert np.array_equal(plain, line)
    assert shrinkage > 0.99

    nothing = [sparing(rng.normal(size=4000), real)[1] for _ in range(10)]
    assert sum(shrinkage == 0 for shrinkage in nothing) >= 7


def test_steps_give_the_curve_of_dropped_modes_better_than_a_smooth_calibration():
    truth = RatioSpectrum.from_masses(p=[2 / 3, 1 / 3], q=[1, 0])
    rng, errors = np.random.default_rng(0), []
    for _ in range(6):
        scores, real = stepped(rng, 1000, 1000)
        fold = spread(real, 5, rng)
        smooth, line = calibration.calibrated_smoothly(scores, real, fold)
        both = smooth, calibration.calibrated_sparingly(scores, real, fold, smooth, line)[0]
        errors.append([error(RatioSpectrum.from_log_ratios(real=r[real], fake=r[~real]), truth) for r in both])
    of_smooth, of_steps = np.mean(errors, axis=0)
    assert of_steps < 0.8 * of_smooth


def test_log_loss_weighs_both_classes_alike():
    """P = Q with nine reals per fake: classifying all samples as real must not count as a difference."""
    real = np.arange(1000) < 900
    none, tilted = (held_out.log_losses(np.full(1000, tilt), real).mean() for tilt in (0.0, 0.3))
    assert none == pytest.approx(np.log(2))
    assert tilted > none


@given(masses())
def test_a_curve_gives_its_spectrum_back(pair):
    spectrum = RatioSpectrum.from_masses(p=pair[0], q=pair[1])
    lam = np.unique(np.concatenate([[0.0], spectrum.breakpoints, [1e-5, 1.0, 1e5]]))
    back = RatioSpectrum.from_curve(lam=lam, alpha=np.asarray(spectrum.alpha(lam)))
    np.testing.assert_allclose(back.alpha(lam), spectrum.alpha(lam), atol=1e-7)
    assert back.max_recall == pytest.approx(spectrum.max_recall, abs=1e-7)


def test_the_learning_curve_is_extrapolated_only_where_it_still_falls():
    """Scores with noise of variance 0.2/n: the 1/n law removes most of the excess; equal scores are unchanged."""
    toy, rng = toys.gaussian_shift(distance=1.5), np.random.default_rng(0)
    x = np.concatenate(toy.sample(20_000, rng))[:, 0]
    real = np.arange(40_000) < 20_000

    def judged(n):
        spread = 1 + 0.2 / n
        return 1.5 * (0.75 - x - np.sqrt(0.2 / n) * rng.normal(size=x.size)) / spread

    small, large = [judged(0.4), judged(0.4)], judged(0.8)
    excess = held_out.learning_excess(small=small, large=large, real=real, growth=2.0, errors=2.0)
    raw = RatioSpectrum.from_scores(real=large[real], fake=large[~real])
    assert error(raw, toy) > 0.025
    assert error(held_out.lowered(raw, excess), toy) < 0.4 * error(raw, toy)
    slowly = held_out.learning_excess(small=small, large=large, real=real, growth=2 ** (1 / 3), errors=2.0)
    np.testing.assert_allclose(slowly, excess / (2 ** (1 / 3) - 1))
    assert held_out.learning_excess(small=[large], large=large, real=real, growth=2.0, errors=2.0) is None
    assert held_out.lowered(raw, None) is raw


# ------------------------------------------------------------------------------------------------------- the edges


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"real": np.ones((49, 2)), "fake": np.ones((80, 2)), "classifier": "linear"}, "`real` must hold at least 50"),
        (
            {"real": np.ones((60, 2)), "fake": np.ones((80, 3)), "classifier": "linear"},
            "same dimension; got real 2, fake 3",
        ),
        (
            {"real": np.ones((60, 2)), "fake": np.ones((80, 2)), "classifier": "svm"},
            "`classifier` must be one of linear",
        ),
        (
            {"real": np.ones((60, 2)), "fake": np.ones((80, 2)), "classifier": "linear", "folds": 1},
            "`folds` must be between",
        ),
    ],
)
def test_errors_name_the_argument(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        cross_fitted(**arguments)


def test_unknown_estimators_are_refused():
    with pytest.raises(ValueError, match="`name` must be one of auto, auto_quick, linear"):
        classify("oracle", real=np.ones((60, 2)), fake=np.ones((60, 2)))


def test_the_curve_of_a_million_scores_is_exact_and_quick():
    """It takes the time of some sorts, on any machine; .3 s on an ordinary one."""
    import time

    rng = np.random.default_rng(0)
    real, fake = rng.normal(1, 1, 500_000), rng.normal(0, 1, 500_000)
    RatioSpectrum.from_scores(real=real[:10], fake=fake[:10])  # imports
    start = time.process_time()
    spectrum = RatioSpectrum.from_scores(real=real, fake=fake)
    middle = time.process_time()
    for _ in range(3):
        np.sort(np.concatenate([real, fake]))
    assert middle - start < 20 * (time.process_time() - middle)
    assert spectrum.alpha(1.0) == pytest.approx(toys.gaussian_shift(distance=1.0).alpha(1.0), abs=3e-3)


@pytest.mark.smoke
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_the_benchmark_runs_and_jobs_change_no_error(capsys, tmp_path, monkeypatch):
    """The processes are forks of this one, because the imports of a new one take longer than the work."""
    fork = multiprocessing.get_context("fork")
    monkeypatch.setattr("benchmarks.pool.multiprocessing.get_context", lambda method=None: fork)
    for name, value in benchmark.ONE_THREAD.items():  # what `--jobs` sets for its processes, restored after the test
        monkeypatch.setenv(name, value)
    benchmark.main(["--smoke", "--out", str(tmp_path / "one.json")])
    printed = capsys.readouterr()
    assert "| mode dropping | 2 |" in printed.out
    assert "1/1 after" in printed.err
    benchmark.main(["--from-json", str(tmp_path / "one.json")])
    assert "| **auto** |" in capsys.readouterr().out
    benchmark.main(["--smoke", "--jobs", "2", "--out", str(tmp_path / "two.json")])
    one, two = (json.loads((tmp_path / name).read_text()) for name in ("one.json", "two.json"))
    timeless = [[{**row, "seconds": None} for row in rows] for rows in (one, two)]
    assert timeless[0] == timeless[1]


def test_the_benchmarks_table_has_its_order_and_counts_bad_pairs():
    """Rows in any order give the same table; on two of three pairs auto is worse than 1.5 × the best member."""

    def rows(pair, dim, seed, auto_error):
        errors = dict.fromkeys([*benchmark.FIXED, *MEMBERS], 0.3) | {"modes": 0.1, "auto": auto_error}
        about = {"pair": pair, "dim": dim, "n": 2000, "seed": seed, "seconds": 1.0}
        return [{**about, "estimator": name, "error": error} for name, error in errors.items()]

    draws = [rows("same", 1, 0, 0.1), rows("mode dropping", 8, 0, 0.2), rows("mode dropping", 1, 1, 0.3)]
    draws += [rows("mode dropping", 1, 0, 0.1), rows("mode dropping", 8, 1, 0.3)]
    every = [row for draw in draws for row in draw]
    table = benchmark.markdown(every)
    assert table == benchmark.markdown(every[::-1])
    keys = [line.split(" | ")[:2] for line in table.splitlines() if line.startswith(("| mode", "| same"))]
    assert keys == [["| mode dropping", "1, 8"], ["| same", "1"]]
    assert "| mode dropping | 1, 8 | 0.2250/0.3000 |" in table
    assert "| best member | 0.1000 |" in table
    assert "| 2,000 | 0.61 (20-means) | 2 of 3 |" in table


# ------------------------------------------------------------------------------------------ units, origin, and the test


@pytest.mark.parametrize(("unit", "origin"), [(1e-8, 0.0), (1e-20, 0.0), (1e20, 0.0), (1.0, 1e8)])
def test_units_and_origin_change_nothing(unit, origin):
    """Features in nanometres, or far from 0, once made disjoint sets "indistinguishable"."""
    rng = np.random.default_rng(0)
    real, fake = rng.normal(size=(200, 3)), rng.normal(size=(200, 3)) + 8
    plain = cross_fitted(real=real, fake=fake, classifier="linear")
    moved = cross_fitted(real=unit * real + origin, fake=unit * fake + origin, classifier="linear")
    assert plain.spectrum.area < 0.01
    assert moved.p_value == plain.p_value < 0.001
    assert moved.spectrum.area == pytest.approx(plain.spectrum.area, abs=1e-6 if origin == 0 else 1e-3)


def test_a_single_constant_column_is_no_difference():
    """Its scale of 1e-300 was squared to 0, and the eigenvalues of NaN do not converge."""
    found = assess(real=np.zeros((100, 1)), fake=np.zeros((100, 1)), metrics=("auto_quick", "c2st"))
    assert found.scores["area"].value == pytest.approx(1.0)


def test_a_column_of_rounding_errors_is_constant():
    x = np.array([[0.1, 3.0], [0.1 + 2e-17, 3.0], [0.1 - 2e-17, 3.0 + 1e-12]])
    assert varies(x.min(axis=0), x.max(axis=0)).tolist() == [False, True]
    x = x.astype(np.float32)
    assert varies(x.min(axis=0), x.max(axis=0)).tolist() == [False, False]


def test_the_permutation_test_has_its_level_for_any_scores(few_permutations):
    """P(p ≤ a) ≤ a when labels are exchangeable, for skewed and for tied scores."""
    rng = np.random.default_rng(0)
    for scores in (rng.exponential(size=60) ** 3, rng.integers(0, 2, 60).astype(float), np.zeros(60)):
        labels = np.arange(60) < 20
        p = np.array([permutation_p_value(scores, rng.permutation(labels), seed=i) for i in range(200)])
        for level in (0.05, 0.2):
            assert (p <= level).mean() < level + 3 * np.sqrt(level * (1 - level) / 200)
    assert permutation_p_value(np.zeros(60), labels) == 1.0


@pytest.mark.whole_panel
def test_the_permutation_test_is_one_sided():
    labels = np.arange(400) < 100
    assert permutation_p_value(np.where(labels, 1.0, -1.0), labels) == pytest.approx(1 / 10_000)
    assert permutation_p_value(np.where(labels, -1.0, 1.0), labels) == 1.0


def test_the_test_of_features_has_its_level_for_any_features():
    rng = np.random.default_rng(0)
    labels = np.arange(90) < 30
    blocks = [rng.normal(size=(90, 5)), rng.exponential(size=(90, 40)) ** 3, np.eye(7)[rng.integers(0, 7, 90)]]
    blocks = [torch.as_tensor(one) for one in blocks]
    p = np.array([feature_p_value(blocks, rng.permutation(labels), seed=i) for i in range(200)])
    for level in (0.05, 0.2):
        assert (p <= level).mean() < level + 3 * np.sqrt(level * (1 - level) / 200)
    assert feature_p_value([torch.zeros(90, 2)], labels) == 1.0


def test_the_test_of_features_is_exact():
    """With one feature and two values, its p-value is that of Fisher's test on both sides, up to permutations."""
    from scipy.stats import hypergeom

    labels, feature = np.arange(60) < 30, torch.zeros(60, 1)
    feature[:14], feature[30:36] = 1.0, 1.0  # 14 of the reals and 6 of the fakes
    expected = 2 * hypergeom(60, 20, 30).sf(13)
    assert feature_p_value([feature], labels) == pytest.approx(expected, abs=4 * np.sqrt(expected / 999))


def test_the_test_of_features_sees_a_small_shift_of_many_columns_in_few_samples():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 100)) + 0.15 * (np.arange(200) < 100)[:, None]
    assert feature_p_value([torch.as_tensor(x)], np.arange(200) < 100) < 0.01


@pytest.mark.parametrize("dim", [2, 32])
def test_a_mode_of_four_that_is_dropped_is_seen_in_a_hundred_samples(dim):
    centres = np.pad(7 * np.array([[1, 0], [0, 1], [-1, 0], [0, -1]]), ((0, 0), (0, dim - 2)))
    p_values = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        real, fake = (centres[rng.integers(k, size=100)] + rng.normal(size=(100, dim)) for k in (4, 3))
        p_values.append(auto(real=real, fake=fake, seed=seed).p_value)
    assert max(p_values) < 0.02


def test_few_samples_with_a_large_ratio_reject():
    """Six per cent of the reals lie where the model never goes, and the other scores say nothing."""
    rng = np.random.default_rng(0)
    labels = np.arange(1000) < 500
    scores = rng.normal(-0.05, 0.1, 1000)
    scores[:30] = 4.0
    assert permutation_p_value(scores, labels) < 0.001


@pytest.mark.parametrize("seed", range(3))
def test_a_small_dropped_mode_is_named(seed):
    """One mode of sixteen: 6 % of the data."""
    rng = np.random.default_rng(seed)
    centres = 6 * np.random.default_rng(99).normal(size=(16, 8))
    real, fake = (centres[rng.integers(k, size=1000)] + rng.normal(size=(1000, 8)) for k in (16, 15))
    found = assess(real=real, fake=fake, metrics=("boosting", "c2st"))
    assert found.scores["c2st"].p_value < 0.01
    assert not found.verdict.startswith("Indistinguishable")


def test_a_change_of_scale_is_not_overruled_by_a_linear_test():
    """Without a classifier among the metrics, a linear test once called a total variation of .5 indistinguishable."""
    rng = np.random.default_rng(0)
    found = assess(real=rng.normal(size=(300, 2)), fake=2.5 * rng.normal(size=(300, 2)), metrics=("clusters", "c2st"))
    assert found.scores["c2st"].p_value < 0.01
    assert not found.verdict.startswith("Indistinguishable")


def test_the_quick_panel_sees_shifts_scales_and_dropped_modes(few_permutations):
    rng = np.random.default_rng(1)
    wide, modes = rng.normal(size=(250, 64)), rng.integers(4, size=250)[:, None]
    pairs = {
        "shift": (wide, rng.normal(size=(250, 64)) + 0.3),
        "scale": (wide, 1.3 * rng.normal(size=(250, 64))),
        "drop": (rng.normal(6 * modes, 1.0, (250, 2)), rng.normal(6 * (modes % 3), 1.0, (250, 2))),
    }
    for name, (real, fake) in pairs.items():
        assert classify("auto_quick", real=real, fake=fake).p_value <= 0.01, name


def test_an_estimate_above_its_certificate_is_lowered_and_its_intervals_reach_the_end():
    rng = np.random.default_rng(0)
    s, real = rng.normal(size=400), np.arange(400) < 200
    band = upper_band(real=s[real] + 1.5, fake=s[~real])
    curve = certified(RatioSpectrum.from_counts(real=[1.0], fake=[1.0]), band)  # P = Q, which the band excludes
    assert curve.total_variation == pytest.approx(1 - band.alpha(1.0), abs=0.02)  # the band is not concave
    scores = held_out.HeldOutScores(s, real, np.arange(400) % 5, np.tile(s, (3, 1)), 0.3, 0.8)
    values, drawn = read(curve), scores.resampled(seed=0)
    failed = scores.intervals(values, drawn, failed=True)["tv"]
    assert failed.high == 1.0
    assert 0 < failed.low < values["tv"]  # draws are not lowered, so their distance from the estimate says nothing


def test_no_interval_is_shorter_than_that_of_a_share_of_the_samples():
    s, real = np.repeat([2.0, -2.0], 100), np.repeat([True, False], 100)  # every draw has the same scores
    scores = held_out.HeldOutScores(s, real, np.arange(200) % 5, np.tile(s, (3, 1)), 0.3, 0.8)
    values = dict.fromkeys((info.name for info in READ), 0.5)
    interval = scores.intervals(values, scores.resampled(seed=0))["tv"]
    assert interval.high - interval.low > 2 * 1.96 * np.sqrt(0.25 / 100)


def held_out_scores(shift, n=200, seed=0):
    """Scores of n samples of each set, of which those of the reals are larger by a shift, and three inner models."""
    rng = np.random.default_rng(seed)
    real = np.repeat([True, False], n)
    s = 0.3 * (rng.normal(size=(4, 2 * n)) + shift * real)
    return held_out.HeldOutScores(s[0], real, np.arange(2 * n) % 5, s[1:], 0.3, 0.8)


def test_an_interval_contains_what_was_shrunk():
    """An unclear difference is shrunk towards none. Its resamples, which are not, show how large it may be."""
    scores = held_out_scores(0.12)
    values, drawn = read(scores.spectrum()), scores.resampled(seed=0)
    hidden = np.mean([one["tv"] for one in drawn]) - values["tv"]
    as_seen = read(replace(scores, shrunk=False).spectrum())
    reached, expected = (scores.intervals(start, drawn)["tv"].high for start in (values, as_seen))
    assert hidden > 0.03
    assert reached == pytest.approx(expected, abs=0.01)


def test_an_interval_reaches_farther_where_learning_still_gains():
    """Models of fewer samples are noisier; if they were as good, nothing would be left to learn."""
    rng, scores = np.random.default_rng(1), held_out_scores(2.0, n=1000)
    noisy = scores.scores + 0.6 * rng.normal(size=(3, 2000))
    learnt = replace(scores, inner=np.tile(scores.scores, (3, 1)))
    learning = replace(scores, inner=noisy)
    values, drawn = read(learnt.spectrum()), learnt.resampled(seed=0)
    for name, sign in (("tv", 1), ("area", -1)):
        ends = [one.intervals(values, drawn)[name] for one in (learnt, learning)]
        start = read(learning.worst)[name] - values[name]
        assert sign * start > 0.05
        learnt_end, learning_end = (one.high if sign > 0 else one.low for one in ends)
        assert sign * (learning_end - learnt_end) > 0.7 * sign * start


def test_training_varies_though_the_difference_is_shrunk_to_none():
    scores = held_out_scores(0.0)
    assert scores.log_ratios()[1].std() == 0
    assert dict(zip((info.name for info in READ), scores.training_variance, strict=True))["tv"] > 0


def test_training_varies_less_with_more_samples():
    scores = held_out_scores(1.0)
    larger = replace(scores, n_inner=0.6)  # inner models of twice the size that vary as much
    assert larger.training_variance == pytest.approx(2 * scores.training_variance)


def test_an_interval_has_the_shape_of_that_of_a_share():
    """Draws of .15 ± .05 show that something is missed: .15 ± 2.2 · .05 · (1 + 40/n) would not, at n = 100."""
    scores = held_out_scores(1.0, n=100)
    spread = np.linspace(-1, 1, held_out.BOOTSTRAPS) / np.std(np.linspace(-1, 1, held_out.BOOTSTRAPS), ddof=1)
    drawn = [{info.name: 0.15 + 0.05 * one for info in READ} for one in spread]
    found = scores.intervals(dict.fromkeys(drawn[0], 0.15), drawn)
    assert 0.02 < found["missed"].low < 0.15 - 0.05
    assert found["missed"].high - 0.15 > 1.5 * (0.15 - found["missed"].low)  # a better classifier may find more
    assert found["share at 1"].low == pytest.approx(1 - interval_of_the_rest(scores, drawn).high)


def interval_of_the_rest(scores, drawn):
    """The interval of the total variation where the share at 1 is 1 − the total variation, in all draws."""
    rest = [{name: 1 - value for name, value in one.items()} for one in drawn]
    return scores.intervals(dict.fromkeys(drawn[0], 0.85), rest)["tv"]


def test_where_nothing_is_missed_a_third_sample_of_the_model_would_hide_it():
    """One fake counts as three reals at λ = 3: three unseen fakes in n may hide 9/n of the data."""
    scores = replace(held_out_scores(0.0), scores=np.zeros(400), inner=np.zeros((3, 400)))
    nothing = {info.name: info.high if info.better == "higher" else info.low for info in READ}
    found = scores.intervals(nothing, [nothing] * held_out.BOOTSTRAPS)
    assert found["missed"].high == pytest.approx(9 / 200)
    assert found["share at 4"].low == pytest.approx(1 - 9 / 200)
    assert found["share at 1"].low >= 1 - 9 / 200


def test_the_curve_is_that_of_the_rows_that_count():
    """Repeated rows were left out of intervals and tests, but counted in the curve, which lay beyond its interval."""
    rng = np.random.default_rng(3)
    fake = np.repeat(rng.normal(1.0, 1.0, size=(50, 2)), 3, axis=0)
    found = classify("auto_quick", real=rng.normal(size=(150, 2)), fake=fake)
    assert found.details["repeats_left_out"] == 100
    assert read(found.spectrum) == pytest.approx(read(certified(found.held_out.spectrum(), found.certificate)))


def test_dependence_of_many_columns_is_seen():
    pair = PAIRS["Clayton copula, uniform, d=5"]
    found = assess(**dict(zip(("real", "fake"), pair.sample(800, np.random.default_rng(3)), strict=True)),
                   metrics=("auto",)).scores["area"]  # fmt: skip
    assert pair.truth["area"] in found.interval
    assert found.value < 0.95  # without `summaries`: .98
