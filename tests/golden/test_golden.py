"""Golden values: a reference implementation of Sajjadi et al. (2018), and textbook numbers worked by hand."""

import json
from pathlib import Path

import numpy as np
import pytest

from precall.theory.spectrum import RatioSpectrum

REFERENCE = json.loads((Path(__file__).parent / "prd_reference.json").read_text())


@pytest.mark.parametrize("case", REFERENCE["cases"], ids=lambda case: f"{len(case['real'])}-cells")
def test_curve_equals_the_reference_implementation(case):
    spectrum = RatioSpectrum.from_masses(p=case["real"], q=case["fake"])
    lam = np.tan(np.linspace(1e-10, np.pi / 2 - 1e-10, case["angles"]))
    np.testing.assert_allclose(spectrum.alpha(lam), case["precision"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(spectrum.beta(lam), case["recall"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("case", REFERENCE["cases"], ids=lambda case: f"{len(case['real'])}-cells")
def test_f_scores_are_those_of_the_reference_up_to_its_grid(case):
    """The reference takes the maximum over its angles: ours is over all slopes, so never below."""
    spectrum = RatioSpectrum.from_masses(p=case["real"], q=case["fake"])
    lam = np.tan(np.linspace(1e-10, np.pi / 2 - 1e-10, case["angles"]))
    for s, theirs in ((8, case["f8"]), (1 / 8, case["f1_8"])):
        grid = np.max((1 + s * s) * spectrum.alpha(lam) / (1 + s * s * lam))
        assert grid == pytest.approx(theirs, abs=1e-6)
        assert spectrum.f_score(s) >= theirs - 1e-7


def test_textbook_pair():
    spectrum = RatioSpectrum.from_masses(p=[0.5, 0.3, 0.2], q=[0.2, 0.3, 0.5])
    np.testing.assert_allclose(spectrum.alpha([0.5, 1, 2]), [0.45, 0.7, 0.9], atol=1e-12)
    assert spectrum.area == pytest.approx(0.7932581464, abs=1e-10)
    assert spectrum.f_score(1) == pytest.approx(0.7)
    assert spectrum.f_score(8) == pytest.approx(0.977443609, abs=1e-9)
    assert spectrum.f_score(1 / 8) == pytest.approx(0.977443609, abs=1e-9)
