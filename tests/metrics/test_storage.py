"""Sides that were stored in different floating-point types are compared in the coarser one, and the result says so."""

import numpy as np
import pytest
import torch

from precall import assess
from precall.metrics.inputs.sides import Side
from precall.samples.sampleset import SampleWarning

X = np.random.default_rng(0).normal(size=(2, 400, 64)).astype(np.float32)


def rounded(x, kind):
    return torch.as_tensor(x).to(kind).to(torch.float32).numpy()


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("coarse", ["real", "fake"])
def test_the_finer_side_is_rounded_to_the_coarser_type(kind, coarse):
    sides = {"real": X[0], "fake": X[1]}
    sides[coarse] = rounded(sides[coarse], kind)
    found = dict(zip(("real", "fake"), Side(sides["real"]).on_one_grid(Side(sides["fake"])), strict=True))
    fine = "fake" if coarse == "real" else "real"
    np.testing.assert_array_equal(found[fine].features, rounded(sides[fine], kind))
    assert found[coarse].features is sides[coarse]


@pytest.mark.parametrize(
    ("real", "fake"),
    [
        (X[0], X[1]),
        (X[0], np.random.default_rng(1).normal(size=(300, 64))),  # float64: nobody can see the difference
        (np.round(20 * X[0]), 20 * X[1]),  # whole numbers are no type of storage
        (np.sign(X[0]), X[1]),
        (np.zeros((50, 3)), X[1][:50, :3]),
        (rounded(X[0], torch.float16), 1e6 * X[1]),  # float16 ends at 65,504
    ],
    ids=["equal", "double", "whole numbers", "signs", "zeros", "too large"],
)
def test_other_sides_stay_as_they_are(real, fake):
    one, other = Side(real).on_one_grid(Side(fake))
    assert one.features is real
    assert other.features is fake


def test_storage_is_a_finding_and_not_a_difference():
    with pytest.warns(SampleWarning, match="fake: the values were rounded|real: the values were rounded"):
        found = assess(real=X[0], fake=rounded(X[1], torch.float16), metrics=("auto", "c2st"))
    same, storage = found.verdict.kinds
    assert same in ("indistinguishable", "cannot tell")
    assert storage == "mixed storage"
    assert "Mixed storage: one side was rounded to float16" in found.verdict
    assert found.scores["area"].interval.high == 1.0
