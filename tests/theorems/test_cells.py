"""Merging cells by their mass, and what is said about histograms that are not."""

import numpy as np
import pytest

from experiments.common.coarse import coarsened
from precall.theory.spectrum import RatioSpectrum

P, Q = [0.05, 0.55, 0.3, 0.1], [0.0, 0.1, 0.1, 0.8]


@pytest.mark.parametrize(
    ("groups", "p", "q"),
    [
        (1, [1.0], [1.0]),
        (4, [0.6, 0.3, 0.1], [0.1, 0.1, 0.8]),  # the first two cells have their middle in the first quarter
        (6, P, Q),
    ],
)
def test_cells_are_merged_if_the_middles_of_their_mass_lie_in_the_same_part(groups, p, q):
    merged = coarsened(RatioSpectrum.from_masses(p=P, q=Q), groups)
    np.testing.assert_allclose(merged.p, p, atol=1e-12)
    np.testing.assert_allclose(merged.q, q, atol=1e-12)


@pytest.mark.parametrize("bad", ["real", "fake"])
def test_the_histogram_that_is_wrong_is_named(bad):
    counts = {"real": [1, 2], "fake": [3, 4], bad: [-1, 2]}
    with pytest.raises(ValueError, match=f"`{bad}`"):
        RatioSpectrum.from_counts(**counts)
