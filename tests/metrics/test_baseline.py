"""Real against real: halves that share no sample, and scores near those of a perfect model."""

import numpy as np
import pytest

from precall.metrics.assessing import assessment, prepared
from precall.metrics.assessing.prepared import real_against_real
from precall.metrics.scores.results import Assessment

pytestmark = pytest.mark.usefixtures("small_committee")


def test_the_halves_are_disjoint_and_of_equal_size(monkeypatch):
    """A sample that were in both halves would be its own neighbour at distance zero."""
    data = np.random.default_rng(0).normal(size=(401, 3))
    seen = []
    monkeypatch.setattr(prepared, "fid_of_pair", lambda pair, level: seen.append(pair))
    found = real_against_real(data, k=5, ties="closed", seed=0)
    real, fake = ({tuple(row) for row in side} for side in (seen[0].real, seen[0].fake))
    assert len(real) == len(fake) == 200 == found["precision"].n_real == found["precision"].n_fake
    assert not real & fake


def test_scores_are_near_those_of_a_perfect_model():
    data = np.random.default_rng(0).normal(size=(2000, 4))
    found = real_against_real(data, k=5, ties="closed", seed=0)
    assert found["coverage"].value == pytest.approx(found["coverage"].chance, abs=0.03)
    assert found["density"].value == pytest.approx(1, abs=0.1)
    assert min(found["precision"].value, found["recall"].value) > 0.9
    assert found["fid"].value < 0.05


def test_large_data_is_sampled_and_small_data_has_none():
    data = np.random.default_rng(0).normal(size=(5200, 1))
    assert real_against_real(data, k=3, ties="open", seed=0)["recall"].n_real == 2500
    assert real_against_real(data[:10], k=5, ties="closed", seed=0) == {}


def test_the_default_metrics_bring_it_and_quick_ones_do_not():
    rng = np.random.default_rng(0)
    reference = assessment.Reference.fit(rng.normal(size=(120, 2)), seed=3)
    fake = rng.normal(size=(120, 2))
    assert reference.assess(fake, metrics="quick").baseline == {}
    one = reference.assess(fake, metrics=("auto",))
    assert one.baseline is reference.baseline
    assert one.baseline == real_against_real(reference.features, k=5, ties="closed", seed=3)
    assert Assessment.from_dict(one.to_dict()).baseline == one.baseline
