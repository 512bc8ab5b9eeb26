"""Sides that were stored in different floating-point types are compared in the coarser one, and the result says so."""

import numpy as np
import pytest
import torch

from benchmarks.one_answer import answer
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
        (np.round(20 * X[0]), 20 * X[1]),  # whole numbers are no type of storage
        (np.sign(X[0]), X[1]),
        (np.zeros((50, 3)), X[1][:50, :3]),
        (rounded(X[0], torch.float16), 1e6 * X[1]),  # float16 ends at 65,504
    ],
    ids=["equal", "whole numbers", "signs", "zeros", "too large"],
)
def test_other_sides_stay_as_they_are(real, fake):
    one, other = Side(real).on_one_grid(Side(fake))
    assert one.features is real
    assert other.features is fake


def law_in(kind, of, rng):
    """One law in one type: ordinary values, prices of two decimals, or times in seconds."""
    z = rng.normal(size=(400, 4))
    return {"ordinary": z, "prices": np.round(z, 1) + 0.99, "times": 1e7 + 50 * z}[of].astype(kind)


@pytest.mark.parametrize(("of", "named"), [("ordinary", False), ("prices", False), ("times", True)])
def test_double_and_single_numbers_of_one_law_do_not_differ(of, named, recwarn):
    """Values of float32 are apart by 1 at 1e7, and no price in float64 equals the same price in float32."""
    rng = np.random.default_rng(2)
    found = assess(real=law_in(np.float64, of, rng), fake=law_in(np.float32, of, rng), metrics=("auto", "c2st"))
    assert found.verdict.kind in ("indistinguishable", "cannot tell")
    assert found.scores["area"].interval.high == 1.0
    assert ("mixed storage" in found.verdict.kinds) == named
    assert any("the values were rounded to float32" in str(one.message) for one in recwarn) == named


def test_storage_is_a_finding_and_not_a_difference():
    with pytest.warns(SampleWarning, match="fake: the values were rounded|real: the values were rounded"):
        found = assess(real=X[0], fake=rounded(X[1], torch.float16), metrics=("auto", "c2st"))
    same, storage = found.verdict.kinds
    assert same in ("indistinguishable", "cannot tell")
    assert storage == "mixed storage"
    assert "Mixed storage: one side was rounded to float16" in found.verdict
    assert found.scores["area"].interval.high == 1.0


@pytest.mark.parametrize("road", ["shards", "sketch"])
def test_storage_is_a_finding_on_every_road(road):
    """Shards and sketches compared half precision with single: "invents 55 %" beside "indistinguishable"."""
    found = answer(road, X[0][:, :6], rounded(X[1][:, :6], torch.float16))
    assert found.verdict.kind in ("indistinguishable", "cannot tell")
    assert "mixed storage" in found.verdict.kinds
    assert any("the values were rounded to float16" in one for one in found.record.notices)
