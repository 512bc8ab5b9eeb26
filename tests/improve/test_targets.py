"""The set on which to fine-tune: exact numbers and probabilities, its law, and notes where samples cannot tell."""

import json
import warnings

import numpy as np
import pytest
from scipy.stats import norm

from precall.improve import target
from precall.improve.calibration import RatioWarning
from precall.improve.judging import judge
from precall.improve.targets import target_of
from precall.theory.projection import projected_masses

QUICK = "linear"


def flawed(n=1000, invented=0.15, missed=0.2, seed=0):
    """A model that invents a part of its draws (the first rows) and misses a part of the data (the first rows)."""
    rng = np.random.default_rng(seed)
    real, fake = rng.normal(size=(n, 2)), rng.normal(size=(n, 2))
    real[: round(missed * n), 0] -= 6
    fake[: round(invented * n)] += 6
    return real, fake


@pytest.fixture(scope="module")
def judged():
    real, fake = flawed()
    return judge(real=real, fake=fake, estimator=QUICK)


def test_a_large_lam_replaces_what_is_invented(judged):
    chosen = target_of(judged, lam=10)
    assert np.mean(chosen.indices < 150) < 0.02
    assert len(chosen.indices) == pytest.approx(850, abs=15)
    assert len(chosen.added) / len(chosen) == pytest.approx(0.15, abs=0.01)
    assert np.mean(chosen.added < 200) == pytest.approx(0.2, abs=0.05)  # data of all kinds, as λ is large
    assert chosen.predicted.alpha(10) == pytest.approx(1)
    assert chosen.notes == ()


def test_a_small_lam_adds_what_is_missed(judged):
    chosen = target_of(judged, lam=0.2)
    assert np.mean(chosen.added < 200) > 0.95
    assert len(chosen.added) / len(chosen) == pytest.approx(0.2 * 0.2, abs=0.01)
    assert np.mean(chosen.indices < 150) == pytest.approx(0.15, abs=0.02)  # what is invented stays
    assert chosen.predicted.beta(0.2) == pytest.approx(1)
    assert chosen.predicted.alpha(10) == pytest.approx(0.85, abs=0.03)


def test_lam_one_gives_the_data(judged):
    chosen = target_of(judged, lam=1)
    real, fake = flawed()
    drawn = np.concatenate([fake[chosen.indices], real[chosen.added]])
    assert np.mean(drawn[:, 0] < -3) == pytest.approx(0.2, abs=0.03)
    assert np.mean(drawn[:, 1] > 3) < 0.01


def test_the_number_is_exact_and_each_sample_has_its_probability(judged):
    for lam in (0.2, 1.0, 10.0):
        for size in (1, 10, 333):
            chosen = target_of(judged, lam=lam, size=size)
            assert len(chosen) == size == len(chosen.indices) + len(chosen.added)
            assert chosen.acceptance.sum() == pytest.approx(len(chosen.indices))
            assert chosen.acceptance_real.sum() == pytest.approx(len(chosen.added))
            assert max(chosen.acceptance.max(), chosen.acceptance_real.max()) <= 1
        largest = target_of(judged, lam=lam)
        assert len(largest) == largest.largest
        assert len(set(largest.indices.tolist())) == len(largest.indices)
        assert len(set(largest.added.tolist())) == len(largest.added)


def test_a_size_beyond_the_samples_is_refused(judged):
    largest = target_of(judged, lam=10).largest
    with pytest.raises(ValueError, match=f"`size` must be at most {largest:,}; got {largest + 1:,}.*Pass more draws"):
        target_of(judged, lam=10, size=largest + 1)
    with pytest.raises(ValueError, match="whole number"):
        target_of(judged, lam=10, size=0)


@pytest.mark.parametrize("lam", [0.0, -1.0, np.inf, np.nan])
def test_wrong_slopes_are_refused(judged, lam):
    with pytest.raises(ValueError, match="`lam` must"):
        target_of(judged, lam=lam)


def test_the_same_seed_gives_the_same_set(judged):
    one, again, other = (target_of(judged, lam=10, size=400, seed=seed) for seed in (0, 0, 1))
    assert one.rows == again.rows != other.rows
    assert {row.source for row in one.rows[:50]} == {"fake", "real"}  # shuffled
    assert sorted(row.index for row in one.rows if row.source == "real") == one.added.tolist()


def test_the_set_follows_the_projection():
    """The set has the masses of the projection in every cell, where the model itself differs from them."""
    rng = np.random.default_rng(0)
    real, fake = rng.normal(0, 1, (4000, 1)), rng.normal(1, 1, (4000, 1))
    edges = np.array([-np.inf, -1, 0, 0.5, 1, 2, np.inf])
    fine = np.linspace(-6, 7, 2001)
    p, q = (np.diff(norm.cdf(fine, loc=at)) for at in (0, 1))
    middle = (fine[1:] + fine[:-1]) / 2
    sides = judge(real=real, fake=fake, estimator=QUICK)
    for lam in (0.4, 3.0):
        chosen = target_of(sides, lam=lam)
        drawn = np.concatenate([fake[chosen.indices], real[chosen.added]])[:, 0]
        t = projected_masses(p / p.sum(), q / q.sum(), lam)
        expected = np.histogram(middle, edges, weights=t)[0]
        found = np.histogram(drawn, edges)[0] / len(drawn)
        np.testing.assert_allclose(found, expected, atol=0.022)
        assert np.abs(np.histogram(fake[:, 0], edges)[0] / 4000 - expected).max() > 0.03


def test_it_says_where_the_samples_cannot_tell():
    rng = np.random.default_rng(0)
    same = rng.normal(size=(2, 60, 2))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        chosen = target(real=same[0], fake=same[1], lam=10, estimator=QUICK)
    assert tuple(str(one.message) for one in seen if one.category is RatioWarning) == chosen.notes
    assert any("cannot distinguish" in note for note in chosen.notes)
    assert any("cannot show whether anything is wrong at λ = 10" in note for note in chosen.notes)
    assert chosen.interval.high == 1


def test_it_says_that_a_set_rests_on_few_samples():
    real, fake = flawed(n=300, invented=0.04, missed=0)
    with pytest.warns(RatioWarning, match=r"rests on few samples: about \d+ of 300 draws are too many at λ = 20"):
        target(real=real, fake=fake, lam=20, estimator=QUICK)


def test_it_says_that_the_ratios_resolve_a_part(judged):
    with pytest.warns(RatioWarning, match=r"about 15% of the draws are too many at λ = 200, but the ratios identify"):
        target_of(judged, lam=200)


def test_it_prints_and_saves_what_it_predicts(judged):
    chosen = target_of(judged, lam=10)
    lines = repr(chosen).splitlines()
    assert (
        lines[0]
        == f"target at λ = 10: {len(chosen.indices)} of 1,000 draws kept, {len(chosen.added)} of 1,000 data added"
    )
    assert lines[1].startswith("α(10): 0.85")
    assert lines[1].endswith("a perfect model has 1")
    saved = json.loads(json.dumps(chosen.to_dict()))
    assert saved["rows"][0].keys() == {"source", "index", "id"}
    assert saved["alpha_interval"][0] < saved["alpha"] < saved["alpha_interval"][1] < 0.9
    assert saved["predicted"]["area"] > saved["before"]["area"]


def test_positions_count_samples_that_were_left_out():
    """Rows refer to the source, of which a part could not be read."""
    real, fake = flawed(n=120)
    from precall.samples.opening import open_samples

    texts = open_samples([f"{x:.2f} {y:.2f}" for x, y in real])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RatioWarning)
        chosen = target(real=texts, fake=open_samples([f"{x:.2f} {y:.2f}" for x, y in fake]), lam=1, estimator=QUICK)
    assert all(row.id == str(row.index) for row in chosen.rows)
    assert set(chosen.protocol) == {"real", "fake"}
