"""Ratios: what a discriminator or classifier states, calibration, warnings."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from experiments.common.reliability import reliability
from precall.improve.calibration import RatioWarning, effective_sample_size
from precall.improve.ratio import Ratio, log_ratios
from precall.theory.divergences import divergence


def held_out(n=20_000, seed=0):
    """P = N(1, 1), Q = N(0, 1), so log p/q = x − 1/2."""
    rng = np.random.default_rng(seed)
    return {"real": rng.normal(1, 1, (n, 1)), "fake": rng.normal(0, 1, (n, 1))}


def exact(x):
    return x[:, 0] - 0.5


def rows():
    """Names of the table's rows that carry a ratio."""
    from precall.theory.divergences import DIVERGENCES

    return [name for name, row in DIVERGENCES.items() if not row.kinks] + ["amari:0.5", "amari:3"]


@pytest.mark.parametrize("name", rows())
def test_a_perfect_discriminator_of_any_row_states_the_ratio(name):
    """The logit w with a(w) = f'(u) comes back as log u."""
    w = np.linspace(-3, 3, 13)
    u = np.exp(divergence(name).log_ratio(w))
    assert np.allclose(divergence(name).activation(w), divergence(name).derivative(u))
    ratio = Ratio.from_discriminator(lambda x: x, name)
    assert ratio(w) == pytest.approx(np.log(u))


@pytest.mark.parametrize("name", ["tv", "pr:2"])
def test_rows_without_a_ratio_are_refused_at_once(name):
    with pytest.raises(ValueError, match="ratio"):
        Ratio.from_discriminator(lambda x: x, name)


def test_a_prior_in_training_is_taken_off():
    """With three real samples to one fake, the Bayes logit is log 3 p/q."""
    ratio = Ratio.from_discriminator(lambda x: exact(x) + math.log(3), prior=0.75)
    x = held_out(10)["real"]
    assert ratio(x) == pytest.approx(exact(x))


def test_a_module_judges_arrays_and_tensors_alike():
    torch.manual_seed(0)
    network = torch.nn.Linear(3, 1)
    ratio = Ratio.from_discriminator(network)
    x = np.random.default_rng(0).normal(size=(7, 3))
    answer = ratio(torch.as_tensor(x, dtype=torch.float32))
    assert answer.requires_grad
    assert answer.shape == (7,)
    assert isinstance(ratio(x), np.ndarray)
    assert ratio(x) == pytest.approx(answer.detach().numpy(), abs=1e-6)


def test_densities_give_the_exact_ratio():
    ratio = Ratio.from_densities(log_p=lambda x: -((x[:, 0] - 1) ** 2) / 2, log_q=lambda x: -(x[:, 0] ** 2) / 2)
    x = held_out(50)["fake"]
    assert ratio(x) == pytest.approx(exact(x))


def test_a_classifier_states_real_over_fake_whatever_its_prior():
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB

    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(1, 1, (30_000, 1)), rng.normal(0, 1, (10_000, 1))])
    real = np.arange(len(x)) < 30_000
    at = np.array([[-1.0], [0.5], [2.0]])
    for model in (LogisticRegression(), GaussianNB()):  # one with a decision function, one without
        ratio = Ratio.from_classifier(model.fit(x, real), prior=0.75)
        assert ratio(at) == pytest.approx(exact(at), abs=0.1)


def test_the_panel_is_distilled_into_a_network_that_can_be_saved(tmp_path):
    rng = np.random.default_rng(0)
    real, fake = rng.normal(size=(400, 3)), rng.normal((1, 0, 0), 1, (400, 3))
    ratio, x = Ratio.fitted(real=real, fake=fake, classifier="auto"), rng.normal(0.5, 1, (2000, 3))
    assert np.corrcoef(ratio(x), 0.5 - x[:, 0])[0, 1] > 0.95
    ratio.save(tmp_path / "a.ratio")
    np.testing.assert_array_equal(Ratio.load(tmp_path / "a.ratio")(x), ratio(x))
    with pytest.raises(ValueError, match="can be saved"):
        Ratio(lambda x: x).save(tmp_path / "b.ratio")
    whole = (tmp_path / "a.ratio").read_bytes()
    for damage in (b"", b"not a ratio", whole[:-8], whole.replace(b"precall ratio", b"another thing")):
        (tmp_path / "c.ratio").write_bytes(damage)
        with pytest.raises(ValueError, match=r"c\.ratio: "):
            Ratio.load(tmp_path / "c.ratio")


def test_an_unfitted_classifier_is_refused():
    from sklearn.linear_model import LogisticRegression

    with pytest.raises(ValueError, match="`classifier` must be fitted on two classes"):
        Ratio.from_classifier(LogisticRegression())


def test_encode_comes_before_the_classifier():
    from sklearn.naive_bayes import GaussianNB

    x = np.concatenate([held_out(2000)["real"], held_out(2000)["fake"]])
    model = GaussianNB().fit(x, np.arange(len(x)) < 2000)
    images = np.zeros((3, 2, 2, 1)) + np.array([0.0, 0.5, 2.0])[:, None, None, None]
    by_hand = Ratio.from_classifier(model)(images[:, 0, 0])
    assert Ratio.from_classifier(model, encode=lambda x: x.mean(axis=(1, 2)))(images) == pytest.approx(by_hand)


def test_fitted_on_samples_alone_it_finds_the_order():
    ratio = Ratio.fitted(**held_out(5000))
    fresh = held_out(5000, seed=1)
    assert fresh["real"][:, 0].mean() > fresh["fake"][:, 0].mean()
    assert reliability(ratio, **fresh)["error"] < 0.04
    at = ratio(np.array([[-1.0], [0.5], [2.0]]))
    assert at == pytest.approx([-1.5, 0.0, 1.5], abs=0.5)


def test_calibration_undoes_an_over_confident_score():
    ratio = Ratio(lambda x: 4 * exact(x) - 2).calibrated(**held_out())
    at = np.linspace(-1.5, 2.5, 9)[:, None]
    assert ratio(at) == pytest.approx(exact(at), abs=0.25)


def test_calibration_undoes_a_monotone_distortion():
    bent = Ratio(lambda x: np.cbrt(exact(x)))
    at, truth = np.array([[-0.5], [0.5], [1.5]]), [-1.0, 0.0, 1.0]
    assert bent.calibrated(**held_out())(at) == pytest.approx(truth, abs=0.25)
    assert bent.calibrated(**held_out())(np.array([[-1.5]]))[0] < -1.75


def test_isotonic_has_mean_one_and_is_finite_where_a_block_has_one_kind_only():
    sides = {"real": np.array([[1.0], [2.0], [3.0]]), "fake": np.array([[-1.0], [0.0], [2.0]])}
    ratio = Ratio(exact).calibrated(**sides)
    assert np.isfinite(ratio(np.array([[-9.0], [9.0]]))).all()
    many = held_out(5000)
    assert np.exp(Ratio(exact).calibrated(**many)(many["fake"])).mean() == pytest.approx(1, abs=0.02)


def test_calibrations_compose_and_keep_the_score():
    ratio = Ratio(lambda x: 4 * exact(x))
    twice = ratio.calibrated(**held_out()).calibrated(**held_out())
    at = np.array([[0.0], [1.0]])
    assert twice(at) == pytest.approx(exact(at), abs=0.25)
    assert twice.score(at) == pytest.approx(4 * exact(at))


def test_calibrated_tensors_stay_tensors():
    ratio = Ratio(exact).calibrated(**held_out(2000))
    at = torch.tensor([[0.0], [1.0]])
    assert ratio(at).numpy() == pytest.approx(ratio(at.numpy()))


def test_reliability_of_the_truth_and_of_a_wrong_ratio():
    good, flat = (reliability(Ratio(lambda x, a=a: a * exact(x)), **held_out()) for a in (1, 0.2))
    assert good["error"] < 0.02
    assert flat["error"] > 0.2
    assert sum(good["observed"]) == pytest.approx(1)
    assert sum(good["fake"]) == pytest.approx(1)
    assert len(good["edges"]) == 10
    # real samples crowd into the upper blocks, fake ones into the lower
    assert good["observed"][-1] > 0.15 > 0.05 > good["observed"][0]
    assert good["fake"][0] > 0.15 > 0.05 > good["fake"][-1]


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=30))
def test_effective_sample_size_is_between_one_and_n(values):
    size = effective_sample_size(values)
    r = np.exp(values)
    assert size == pytest.approx(r.sum() ** 2 / (r**2).sum())
    assert 1 - 1e-9 <= size <= len(values) + 1e-9
    assert effective_sample_size(np.add(values, 700.0)) == pytest.approx(size)  # no scale, no overflow


def test_infinite_ratios_count_alone():
    assert effective_sample_size([0.0, np.inf, np.inf]) == 2


def test_ratios_that_rest_on_few_samples_are_warned_of():
    with pytest.warns(RatioWarning, match="effective sample size of"):
        reliability(Ratio(lambda x: 6 * exact(x)), **held_out())


ERRORS = {
    "nan": (lambda: log_ratios(lambda x: x * np.nan, np.zeros(3)), "`ratio` must not return NaN; got 3"),
    "shape": (lambda: log_ratios(lambda x: np.zeros((3, 2)), np.zeros(3)), "`ratio` must return one number per sample"),
    "prior": (lambda: Ratio.from_discriminator(exact, prior=1.0), "`prior` must be strictly between 0 and 1"),
    "few": (lambda: Ratio.fitted(**held_out(20)), "`real` must hold at least 100 samples"),
    "row": (lambda: Ratio.from_discriminator(exact, "wasserstein"), "`divergence` must be one of"),
}


@pytest.mark.parametrize(("call", "sentence"), ERRORS.values(), ids=ERRORS.keys())
def test_errors_name_the_argument(call, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        call()
    assert "\n" not in str(caught.value)
