"""The odd pairs: two halves, and published curves that agree with the densities."""

import numpy as np
import pytest

from benchmarks import odd_families
from benchmarks.odd_families import DEVELOPMENT, JUDGING, LAM, PAIRS


def test_the_halves_are_disjoint_and_complete():
    assert {*DEVELOPMENT} | {*JUDGING} == {*PAIRS} == {*odd_families.published()}
    assert not {*DEVELOPMENT} & {*JUDGING}
    assert len(JUDGING) >= 25


@pytest.mark.parametrize("name", PAIRS)
def test_published_curves_agree_with_few_samples_of_the_densities(name, monkeypatch):
    """The standard error of α at 4,000 samples of each is at most .006."""
    monkeypatch.setattr(odd_families, "DRAWS", 4000)
    monkeypatch.setattr(odd_families, "CHUNK", 4000)
    pair = PAIRS[name]
    again = pair.computed_truth()
    np.testing.assert_allclose(again["alpha"], pair.truth["alpha"], atol=0.03)
    assert again["area"] == pytest.approx(pair.truth["area"], abs=0.04)
    assert pair.truth["tv"] == pytest.approx(1 - np.interp(1.0, LAM, pair.truth["alpha"]), abs=1e-3)


def test_samples_have_the_requested_number():
    for pair in PAIRS.values():
        real, fake = pair.sample(30, np.random.default_rng(0))
        assert len(real) == len(fake) == 30
        assert real.shape == fake.shape
