"""The samples on the page: which are chosen, where they lie on the map, and how many bytes they take."""

import base64
import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from precall.metrics.assessing.assessment import assess
from precall.metrics.inputs.sides import Side
from precall.report import page
from precall.report.galleries import fitting, galleries
from precall.report.projection import MOST, sample_map
from precall.samples import open_samples

METRICS = ("linear", "neighbors", "copies")


def test_copies_are_the_samples_that_the_score_counts(pictured):
    shown = galleries(pictured)["copies"]
    assert {"0", "1", "2", "3", "4"} <= {entry["sample"]["id"] for entry in shown}
    assert all(entry["ratio"] < 0.5 for entry in shown)
    assert len(shown) == min(16, round(60 * pictured.scores["copies"].value))


def test_photographs_are_small_and_tiny_pictures_exact(pictured):
    image = galleries(pictured)["missed"][0]["sample"]["image"]
    kind, _, code = image.partition(";base64,")
    assert kind == "data:image/jpeg"
    assert len(code) < 8000
    assert Image.open(io.BytesIO(base64.b64decode(code))).size == (96, 96)
    tiny = np.random.default_rng(0).integers(0, 255, (60, 8, 8), dtype=np.uint8)
    real, fake = (Side(x.reshape(60, -1) / 255, open_samples(x), np.arange(60)) for x in (tiny, tiny // 4))
    shown = galleries(assess(real=real, fake=fake, metrics=METRICS))["missed"][0]["sample"]
    pixels = Image.open(io.BytesIO(base64.b64decode(shown["image"].partition(",")[2]))).convert("L")
    np.testing.assert_array_equal(np.asarray(pixels), tiny[int(shown["id"])])


def test_the_map_shows_the_first_two_principal_axes_of_the_data():
    rng = np.random.default_rng(0)
    real = rng.normal(size=(300, 6)) * [9, 4, 1, 1, 1, 1]
    one = assess(real=real, fake=real[:200] + np.array([0, 4, 0, 0, 0, 0]), metrics=("fid",))
    found = sample_map(one, {})
    total = np.var(real, axis=0).sum()
    assert found["explained"] == pytest.approx(np.linalg.eigvalsh(np.cov(real.T, ddof=0))[:-3:-1] / total, abs=1e-3)
    order = [int(i) for i in found["real"]["id"]]
    assert abs(np.corrcoef(found["real"]["x"], real[order, 0])[0, 1]) > 0.999
    assert abs(np.corrcoef(found["real"]["y"], real[order, 1])[0, 1]) > 0.999
    shift = np.mean(found["fake"]["y"]) - np.mean(found["real"]["y"])
    assert abs(shift) / np.ptp(found["real"]["x"]) == pytest.approx(4 / np.ptp(real[:, 0]), rel=0.15)
    assert max(*found["real"]["x"], *found["fake"]["x"]) <= 1000


@pytest.mark.parametrize("d", [1, 2, 400])
def test_any_number_of_columns_has_a_map(d):
    rng = np.random.default_rng(0)
    one = assess(real=rng.normal(size=(50, d)), fake=rng.normal(size=(40, d)), metrics=("fid",))
    found = sample_map(one, {})
    assert len(found["real"]["x"]) == 50
    assert np.isfinite(found["explained"]).all()
    assert sample_map(replace(one, sources={**one.sources, "fake": Side(np.empty((0, d)))}), {}) is None


def test_a_large_map_is_sampled_and_keeps_the_samples_of_the_galleries():
    rng = np.random.default_rng(0)
    one = assess(real=rng.normal(size=(5000, 2)), fake=rng.normal(size=(5000, 2)), metrics=("fid",))
    found = sample_map(one, {"fake": [4321, 7]})
    assert len(found["real"]["id"]) == len(found["fake"]["id"]) == MOST
    assert found["fake"]["n"] == 5000
    assert {"7", "4321"} <= set(found["fake"]["id"])
    assert len(set(found["fake"]["id"])) == MOST


def test_the_samples_of_the_galleries_are_on_the_map_with_their_nearest_ones():
    rng = np.random.default_rng(0)
    sides = [
        Side(x.reshape(len(x), -1) / 255.0, open_samples(x), np.arange(len(x)))
        for x in (rng.integers(0, top, (3000, 4, 4), dtype=np.uint8) for top in (255, 150))
    ]
    shown = galleries(assess(real=sides[0], fake=sides[1], metrics=METRICS))
    for gallery, side, other in (("missed", "real", "fake"), ("invented", "fake", "real")):
        for entry in shown[gallery]:
            assert entry["sample"]["id"] in shown["map"][side]["id"]
            assert entry["nearest"]["id"] in shown["map"][other]["id"]


def test_points_of_the_map_have_groups():
    rng = np.random.default_rng(0)
    real, fake = rng.normal(size=(60, 4)), rng.normal(3.0, 1.0, size=(50, 4))
    labels = {"real": ["b", "a", "only"] * 20, "fake": ["a", "b"] * 25}
    one = assess(real=real, fake=fake, metrics=("clusters",), groups=labels)
    found = sample_map(one, {})
    assert found["groups"] == ["a", "b", "only"]
    ids = {side: [int(i) for i in found[side]["id"]] for side in ("real", "fake")}
    for side in ("real", "fake"):
        assert [found["groups"][g] for g in found[side]["group"]] == [labels[side][i] for i in ids[side]]


def test_a_thinner_map_is_cut_in_every_list():
    rng = np.random.default_rng(0)
    one = assess(real=rng.normal(size=(160, 2)), fake=rng.normal(size=(160, 2)), metrics=("fid",))
    (cut,) = fitting([{"map": sample_map(one, {})}], 3000)
    fake = cut["map"]["fake"]
    assert len(fake["id"]) == len(fake["x"]) < 160


def test_ten_models_of_fifty_thousand_photographs_stay_below_five_megabytes(large):
    assert len(page.render(large)) < 5_000_000
    full = large["model 0"].galleries
    assert fitting([full], page.MOST_BYTES) == [full]
