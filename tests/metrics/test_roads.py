"""One question has one answer: whatever road the samples come, a metric computes the same from the same samples."""

from types import SimpleNamespace

import numpy as np
import pytest

from precall import Reference, assess, merge_sketches
from precall.metrics.assessing import registry
from precall.metrics.scores.metric import Found, Metric, curve_found
from precall.metrics.scores.score import INFINITY, Score, ScoreInfo, readings
from precall.theory.spectrum import RatioSpectrum

pytestmark = pytest.mark.usefixtures("small_committee")

RNG = np.random.default_rng(0)
REAL, FAKE = RNG.normal(size=(300, 5)), 0.8 * RNG.normal(size=(260, 5)) + 0.3
ROADS = ("whole", "reference file", "shards", "sketch")


@pytest.fixture
def gap(monkeypatch):
    """A metric that somebody adds: the distance of the means, and a curve of one column."""

    def compute(run):
        real, fake = run.pair.to_numpy()
        spectrum = RatioSpectrum.from_scores(real=real[:, 0], fake=fake[:, 0])
        nothing = dict.fromkeys(readings(spectrum))
        curve = curve_found(run, spectrum, intervals=nothing, chance=nothing, settings={})
        distance = Score(float(np.linalg.norm(real.mean(0) - fake.mean(0))), n_real=len(real), n_fake=len(fake))
        return Found({**curve.scores, "gap": distance}, curve.spectrum)

    info = ScoreInfo("gap", "gap", 0.0, INFINITY, "lower", "distance of the means")
    metric = Metric("gap", "distance of the means", (info,), "none", compute, is_curve=True)
    monkeypatch.setitem(registry.METRICS, "gap", metric)
    monkeypatch.setattr(registry, "ESTIMATORS", (*registry.ESTIMATORS, "gap"))
    return metric


def by(road, folder, metrics):
    """The assessment of the same samples on one road."""
    if road == "whole":
        return assess(real=REAL, fake=FAKE, metrics=metrics)
    if road == "reference file":
        return Reference.load(Reference.fit(REAL).save(folder / "data.precall")).assess(FAKE, metrics=metrics)
    if road == "shards":
        real, fake = np.array_split(REAL, 4), np.array_split(FAKE, 3)
        return assess(real=real, fake=fake, metrics=metrics, work=folder / "work")
    reference = Reference.fit(REAL)
    return merge_sketches(reference.sketch(part) for part in np.array_split(FAKE, 3)).assessment(metrics=metrics)


@pytest.mark.parametrize("road", ROADS)
def test_a_new_metric_works_on_every_road(gap, road, tmp_path):
    found = by(road, tmp_path, ("gap", "fid"))
    whole = by("whole", tmp_path, ("gap", "fid"))
    assert found.estimator == "gap"
    assert found.scores["gap"].value == pytest.approx(whole.scores["gap"].value, rel=1e-12)
    assert (found.scores["gap"].n_real, found.scores["gap"].n_fake) == (300, 260)
    assert found.spectrum.area == pytest.approx(whole.spectrum.area, abs=1e-12)
    assert "gap" in repr(found.scores) or found.scores["gap"]


@pytest.mark.parametrize("road", ROADS)
def test_readings_that_merge_give_equal_scores_on_every_road(road, tmp_path):
    metrics = ("neighbors", "clipped", "copies", "fid")
    found, whole = (by(one, tmp_path, metrics).scores for one in (road, "whole"))
    shared = [name for name in whole if name in dict(found)]
    assert {"precision", "density", "coverage", "copies", "fid", "clipped_density"} <= set(shared)
    for name in shared:
        assert found[name].value == pytest.approx(whole[name].value, rel=1e-10), name
        assert (found[name].n_real, found[name].n_fake) == (300, 260)


def test_a_run_that_lacks_a_reading_says_which(tmp_path):
    with pytest.raises(ValueError, match="distances between fakes, which a sketch does not hold"):
        by("sketch", tmp_path, ("symmetric",))
    assert SimpleNamespace(**vars(by("shards", tmp_path, ("symmetric",)).scores["symmetric_recall"])).n_real == 300
