"""`assess` from the user's point of view: the results, the verdicts, and the errors for wrong inputs."""

import inspect
import json
import pickle
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

import precall
from experiments.common.cover_curve import cover_curve_of
from precall.metrics.assessing import prepared
from precall.metrics.assessing.assessment import Reference, assess
from precall.metrics.assessing.requests import AssessArguments, Request
from precall.metrics.distances.moments import Moments
from precall.metrics.inputs import sides
from precall.metrics.neighbors import sweep as neighbors
from precall.metrics.scores.record import RunRecord
from precall.metrics.scores.results import Assessment, PerSample
from precall.metrics.scores.score import Interval, Score, readings
from precall.metrics.scores.verdict import Moved

pytestmark = pytest.mark.usefixtures("small_committee")

RECORD = RunRecord(n_real=9, n_fake=9, metrics=[], k=5, ties="closed", seed=0, dimension=2, versions={})
QUICK = ("neighbors", "copies", "clusters", "linear", "fid", "kid", "c2st")


@pytest.fixture(scope="module")
def modes():
    """Three modes in four dimensions: `dropped` has two of them, `invented` has all three and one more."""
    rng = np.random.default_rng(0)

    def draw(centres, n):
        return rng.normal(0, 0.3, (n, 4)) + 4 * np.eye(4)[rng.choice(centres, n)]

    return {"real": draw([0, 1, 2], 300), "dropped": draw([0, 1], 240), "invented": draw([0, 1, 2, 3], 280)}


@pytest.fixture(scope="module")
def compared(modes):
    fakes = {name: modes[name] for name in ("dropped", "invented")}
    return assess(real=modes["real"], fake=fakes, metrics=QUICK)


def test_dropping_costs_recall_and_inventing_costs_precision(compared):
    dropped, invented = compared["dropped"], compared["invented"]
    assert dropped.scores["precision"].value > 0.9 > 0.75 > dropped.scores["recall"].value
    assert invented.scores["recall"].value > 0.9 > 0.85 > invented.scores["precision"].value
    assert dropped.scores["clusters_f1_8"].value > 0.9 > 0.8 > dropped.scores["clusters_f8"].value
    assert invented.scores["clusters_f8"].value > 0.9 > 0.85 > invented.scores["clusters_f1_8"].value
    assert dropped.verdict.startswith("Drops modes")
    assert invented.verdict.startswith("Invents")


def found(p, q, *, p_value=0.001, half=0.004, **others):
    """An assessment of a curve that is known exactly, with short intervals."""
    spectrum = precall.RatioSpectrum.from_masses(p=p, q=q)
    scores = {
        name: Score(value, Interval(max(0.0, value - half), min(1.0, value + half), 0.95, "all"), chance=0.0)
        for name, value in readings(spectrum).items()
    }
    scores["c2st"] = Score(0.6, p_value=p_value)
    return Assessment("fake", "auto", {"auto": spectrum}, scores | others, None, PerSample(), PerSample(), RECORD)


def test_the_verdict_names_missed_and_invented_mass_with_its_interval_and_what_it_rests_on():
    one = found([0.3, 0.1, 0.4, 0.2, 0.0], [0.02, 0.008, 0.172, 0.6, 0.2])
    assert one.verdict == (
        "Both drops modes (about 32 % [31 %, 32 %] of the data, or more) "
        "and invents (about 20 % [20 %, 20 %] of its samples, or more) (auto, p = 0.001)."
    )
    assert found([0.9, 0.1], [1.0, 0.0]).verdict.startswith("Drops modes: it produces about 10 %")
    assert found([1.0, 0.0], [0.9, 0.1]).verdict.startswith("Invents: about 10 %")


def test_the_verdict_follows_from_the_test_and_from_chance():
    p, q = [0.9, 0.1], [1.0, 0.0]
    assert found(p, q, p_value=0.06).verdict.kind == "cannot tell"  # the intervals exclude chance
    assert found(p, q, p_value=0.06, half=0.1).verdict.kind == "indistinguishable"
    assert found(p, q, p_value=0.06, half=0.2).verdict.kind == "cannot tell"  # the intervals allow for much
    wide = found(p, q, half=0.2)  # the total variation is not clear
    assert wide.verdict.startswith("Differs from the data, but more samples are needed to say how: up to 30 %")
    untested = {name: score for name, score in wide.scores.items() if name != "c2st"}
    assert replace(wide, scores=untested).verdict.startswith("Cannot tell: no difference shows, but up to 30 %")
    likely = {name: replace(score, chance=score.value) for name, score in found(p, q).scores.items()}
    assert replace(wide, scores={**likely, "c2st": wide.scores["c2st"]}).verdict.startswith("Close")


@pytest.mark.parametrize(
    ("between", "said"),
    [(0.25, "Wrong proportions: "), (0.05, "Wrong shape: "), (None, "Wrong shape: ")],
)
def test_the_verdict_tells_wrong_proportions_from_a_wrong_shape_and_from_closeness(between, said):
    verdict = replace(found([0.8, 0.2], [0.5, 0.5]), moved=Moved(0.0, 0.0, 0.0, between)).verdict
    assert verdict.startswith(said)
    assert "about 30 % [30 %, 30 %] of its samples would have to move" in verdict
    assert found([0.8, 0.2], [0.75, 0.25]).verdict.startswith("Close to the data")


def test_the_verdict_heeds_a_holdout():
    memorized = Score(0.06, Interval(0.04, 0.08, 0.95, "all"), p_value=0.002)
    said = found([1.0], [1.0], memorized=memorized, copies=Score(0.9, chance=0.1)).verdict
    assert said == "Copies: about 6 % [4 %, 8 %] of its samples are copies of the training data (holdout, p = 0.002)."
    innocent = replace(memorized, p_value=0.3)
    assert not found([1.0], [1.0], memorized=innocent, copies=Score(0.9, chance=0.1)).verdict.startswith("Copies")


def test_fresh_data_in_few_dimensions_are_not_called_copies():
    rng = np.random.default_rng(0)
    fresh = assess(real=rng.normal(size=(300, 2)), fake=rng.normal(size=(300, 2)), metrics=("linear", "copies"))
    assert fresh.scores["copies"].value > 0.2
    assert fresh.scores["copies"].chance == pytest.approx(0.25, abs=0.08)
    assert not fresh.verdict.startswith("Copies")
    copied = replace(fresh, scores={**fresh.scores, "copies": Score(0.7, chance=0.25)})
    assert copied.verdict.startswith("Copies: 60 % of its samples nearly coincide with a real sample.")
    for chance in (0.95, 1.0):  # data with many duplicates
        other = replace(fresh, scores={**fresh.scores, "copies": Score(1.0, chance=chance)})
        assert not other.verdict.startswith("Copies")


def test_every_score_carries_an_interval_around_it_that_says_what_it_covers(compared):
    for one in compared.values():
        for name, score in one.scores.items():
            assert score.interval is not None, name
            assert score.interval.low <= score.value <= score.interval.high, name
            assert score.interval.covers, name
            assert (score.n_real, score.n_fake) != (None, None), name


def test_chance_levels_stand_beside_the_scores(compared):
    scores = compared["dropped"].scores
    assert scores["density"].chance == 1
    assert 0.9 < scores["coverage"].chance < 1
    assert scores["c2st"].chance == 0.5


def test_the_best_estimator_gives_the_curve_and_the_certificate_bounds_it(compared):
    one = compared["dropped"]
    assert one.estimator == "linear"  # clusters were requested as well, but a classifier has priority
    assert set(one.spectra) == {"linear", "clusters"}
    reading = one.curve.precision(recall=0.5)
    assert reading.interval.low == 0 <= reading.value <= reading.interval.high <= 1
    assert reading.interval.high == one.certificate.precision(recall=0.5)
    points = one.curve.points(51)
    assert (points["alpha_upper"] >= one.certificate.alpha(points["lam"]) - 1e-12).all()
    assert one.curve.recall(precision=0.5).settings == {"precision": 0.5}


def test_verdicts_on_samples_point_at_the_missed_and_the_invented(modes, compared):
    missed = modes["real"][:, 2] > 2
    real = compared["dropped"].samples["real"]
    assert np.median(real.log_ratio[missed]) > np.median(real.log_ratio[~missed])
    assert real.member[~missed].mean() > 0.8 > 0.1 > real.member[missed].mean()
    invented = modes["invented"][:, 3] > 2
    fake = compared["invented"].samples["fake"]
    assert np.median(fake.log_ratio[invented]) < np.median(fake.log_ratio[~invented])
    assert fake.member[~invented].mean() > 0.8 > 0.1 > fake.member[invented].mean()
    assert fake.realism.shape == fake.copy_ratio.shape == fake.cluster.shape == (280,)


def test_same_seed_same_numbers(modes):
    once, again = (
        assess(real=modes["real"], fake=modes["dropped"], metrics=("clusters", "linear", "neighbors"), seed=3)
        for _ in range(2)
    )
    assert once.to_dict() == again.to_dict()


def test_a_reference_is_fitted_once_and_agrees_with_assess(modes, compared, monkeypatch):
    reference = Reference.fit(modes["real"])
    calls = []
    around = neighbors.balls_around
    for place in (neighbors, prepared):
        monkeypatch.setattr(place, "balls_around", lambda x, **how: calls.append(len(x)) or around(x, **how))
    found = [reference.assess(modes[name], metrics=("neighbors",)) for name in ("dropped", "invented")]
    assert calls.count(300) == 1  # the real balls were not computed again
    for one, name in zip(found, ("dropped", "invented"), strict=True):
        assert one.scores["recall"] == compared[name].scores["recall"]


def test_the_verdict_does_not_contradict_the_certificate():
    """One value of 1e12 spoils the curve, whose total variation is 0; the held-out scores still separate the sets."""
    rng = np.random.default_rng(0)
    real = np.concatenate([rng.normal(size=(300, 4)), np.full((1, 4), 1e12)])
    one = assess(real=real, fake=rng.normal(size=(300, 4)) + 3, metrics=("auto", "c2st"))
    assert one.certificate.alpha(1.0) < 0.3
    assert not one.verdict.startswith(("Close", "Indistinguishable"))


def test_each_sample_names_its_nearest_on_the_other_side():
    rng = np.random.default_rng(3)
    real, fake = rng.normal(size=(80, 2)), rng.normal(2.0, 1.0, size=(30, 2))
    distances = np.linalg.norm(real[:, None] - fake, axis=2)
    one = assess(real=real, fake=fake, metrics=("neighbors", "copies"))
    np.testing.assert_array_equal(one.samples["real"].nearest, distances.argmin(axis=1))
    np.testing.assert_array_equal(one.samples["fake"].nearest, distances.argmin(axis=0))


def test_no_neighbours_are_sought_where_none_are_asked_for(modes, monkeypatch):
    monkeypatch.setattr(neighbors, "balls_around", lambda *a, **kw: pytest.fail("a sweep that was not requested"))
    assert assess(real=modes["real"], fake=modes["dropped"], metrics=("fid",)).fid.value > 1


def test_results_are_json_with_the_protocol_that_made_them(compared):
    saved = json.loads(json.dumps(compared.to_dict(), allow_nan=False))
    one = saved["models"]["dropped"]
    assert saved["schema"] == 3
    assert one["scores"]["precision"]["settings"] == {"k": 5, "ties": "closed"}
    assert one["protocol"]["n_real"] == 300
    assert one["protocol"]["n_fake"] == 240
    assert one["protocol"]["seed"] == 0
    assert one["protocol"]["versions"]["precall"] == precall.__version__
    assert len(one["certificate"]["alpha"]) == len(one["curves"]["linear"]["alpha"]) == 201


def test_groups_give_an_assessment_each_and_the_gap_between_them(modes):
    """Group "b" of the fakes lacks a mode that group "a" has."""
    real, fake = modes["real"], np.concatenate([modes["invented"][:200], modes["dropped"][:200]])
    labels = np.where(np.arange(300) % 2, "a", "b"), np.repeat(["a", "b"], 200)
    one = assess(real=real, fake=fake, metrics=("clusters",), groups={"real": labels[0], "fake": labels[1]})
    assert set(one.groups) == {"a", "b"}
    recalls = {label: group.spectrum.f_score(8) for label, group in one.groups.items()}
    assert recalls["a"] > 0.9 > 0.8 > recalls["b"]
    assert one.fairness.recall.better == "a"
    assert one.fairness.recall.worse == "b"
    json.dumps(one.to_dict(), allow_nan=False)


def test_the_room_is_the_verb(modes):
    one = precall.assess(real=modes["real"], fake=modes["dropped"], metrics=("fid",))
    assert one.fid.value > 1
    assert precall.metrics.neighbors.sweep.sweep is neighbors.sweep
    with pytest.raises(ValueError, match="there is no curve"):
        _ = one.spectrum


def test_tensors_and_memory_maps_give_the_same_numbers(modes, tmp_path):
    np.save(tmp_path / "real.npy", modes["real"])
    mapped = np.load(tmp_path / "real.npy", mmap_mode="r")
    expected = assess(real=modes["real"], fake=modes["dropped"], metrics=("neighbors", "fid"))
    for real, fake in ((mapped, modes["dropped"]), (torch.tensor(modes["real"]), torch.tensor(modes["dropped"]))):
        found = assess(real=real, fake=fake, metrics=("neighbors", "fid"))
        assert found.scores["precision"].value == expected.scores["precision"].value
        assert found.fid.value == pytest.approx(expected.fid.value, rel=1e-9)


def test_samples_that_are_not_features_are_encoded_and_kept_for_the_page(tmp_path, monkeypatch):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path))
    texts = [f"the cat number {i} sat on the mat" for i in range(60)]
    other = [f"stock {i} fell by {i % 7} percent" for i in range(60)]
    one = assess(real=texts, fake=other, metrics=("neighbors",), encoder="ngrams")
    assert one.scores["precision"].value == 0
    assert one.sources["fake"].show(3) == other[3]
    assert one.protocol["real"]["encoder"] == "ngrams"


def test_rows_of_a_table_show_no_more_than_the_user_allows(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("real", "fake"):
        rows = "\n".join(f"{rng.normal():.3f},{rng.choice(['red', 'blue'])}" for _ in range(60))
        (tmp_path / f"{name}.csv").write_text("number,colour\n" + rows)
    paths = {name: str(tmp_path / f"{name}.csv") for name in ("real", "fake")}
    hidden = assess(**paths, metrics=("neighbors",)).sources["fake"].samples
    shown = assess(**paths, metrics=("neighbors",), show_rows=True).sources["fake"].samples
    assert hidden.describe(0) == "row 1"
    assert "colour=" in shown.describe(0)
    (tmp_path / "fake.csv").write_text("number\n" + "1.5\n2.5\n" * 30)
    with pytest.raises(ValueError, match=r"fake\.csv: .*colour"):
        assess(**paths, metrics=("neighbors",))


def test_an_encoder_is_loaded_once_for_all_sides(tmp_path, monkeypatch):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path))
    names = []
    load = sides.load_encoder
    monkeypatch.setattr(sides, "load_encoder", lambda name, **kw: names.append(name) or load(name, **kw))
    texts = [f"text {i} of many" for i in range(30)]
    assess(real=texts, fake={"a": texts[:20], "b": texts[10:]}, metrics=("fid",), encoder="ngrams")
    pictures = np.random.default_rng(0).integers(0, 255, (20, 4, 4, 3), dtype=np.uint8)
    assess(real=pictures, fake=pictures[:10], metrics=("fid",))
    assert names == ["ngrams", "efficientnet"]


def test_statistics_stand_in_for_samples_in_fid(modes, tmp_path):
    expected = assess(real=modes["real"], fake=modes["dropped"], metrics=("fid",)).fid
    statistics = {"mu": modes["real"].mean(0), "sigma": np.cov(modes["real"], rowvar=False)}
    np.savez(tmp_path / "counted.npz", **statistics, n=300)
    np.savez(tmp_path / "bare.npz", **statistics)
    for real, n_real in (
        (str(tmp_path / "counted.npz"), 300),
        (tmp_path / "bare.npz", None),
        (Moments.of(modes["real"]), 300),
    ):
        one = assess(real=real, fake=modes["dropped"], metrics=("fid",))
        assert one.fid.value == pytest.approx(expected.value, rel=1e-9)
        assert (one.fid.n_real, one.protocol["n_real"]) == (n_real, n_real)
        assert "fake samples" in one.fid.interval.covers  # the statistics are treated as fixed
        json.dumps(one.to_dict(), allow_nan=False)
        one.to_html(tmp_path / "page.html")
    both = assess(real=tmp_path / "bare.npz", fake=tmp_path / "counted.npz", metrics=("fid",))
    assert both.fid.value == pytest.approx(0, abs=1e-6)
    assert both.fid.interval is None
    with pytest.raises(ValueError, match=r"`fake` holds statistics .* got metrics clusters, kid"):
        assess(real=modes["real"], fake=tmp_path / "bare.npz", metrics=("fid", "kid", "clusters"))
    with pytest.raises(ValueError, match="`groups` needs samples"):
        assess(real=tmp_path / "bare.npz", fake=modes["real"], metrics=("fid",), groups={})


def test_cover_spectrum_is_the_cover_curve_made_concave(modes):
    found = neighbors.sweep(real=modes["real"], fake=modes["dropped"], k=20)
    lam = np.geomspace(0.1, 10, 31)
    assert (found.cover_spectrum().alpha(lam) <= cover_curve_of(found, lam).alpha + 1e-9).all()
    assert found.cover_spectrum().f_score(1 / 8) > 0.9 > 0.8 > found.cover_spectrum().f_score(8)


def test_inception_score_and_mauve_by_name(modes):
    probabilities = np.random.default_rng(0).dirichlet(np.ones(5), 80)
    one = assess(real=probabilities, fake=probabilities[:40], metrics=("is", "mauve"))
    assert 1 <= one.scores["inception_score"].value <= 5
    assert 0 < one.scores["mauve"].value <= 1


def test_an_assessment_survives_pickling(compared):
    again = pickle.loads(pickle.dumps(compared["dropped"].scores))
    assert again == compared["dropped"].scores


X = np.random.default_rng(1).normal(size=(40, 3))
WRONG = {
    "nan": ({"fake": np.where(X > 2, np.nan, X)}, "`fake` must be finite"),
    "one sample": ({"real": X[:1]}, "`real` must hold at least 2 samples"),
    "k": ({"k": 40}, "`k` must be a whole number between 1 and n_real - 1 = 39; got 40"),
    "k fake": ({"fake": X[:6], "k": 7}, "`k` must be a whole number between 1 and n_fake - 1 = 5; got 7"),
    "k fraction": ({"k": 2.5}, "`k` must be a whole number"),
    "dimension": ({"fake": X[:, :2]}, "`real` and `fake` must have the same dimension"),
    "dtype": ({"real": X.astype(complex)}, "`real` must hold real numbers"),
    "metric": ({"metrics": ("neighbours",)}, "`metrics` must be one of auto"),
    "no metric": ({"metrics": ()}, "`metrics` must name at least one"),
    "ties": ({"ties": "half"}, "`ties` must be one of closed, open"),
    "engine": ({"engine": "cloud"}, "`engine` must be one of local"),
    "no model": ({"fake": {}}, "`fake` must hold at least one model"),
    "groups": ({"groups": {"real": ["a"] * 40}}, "`groups` must map 'real' and 'fake' to labels"),
    "groups by name": ({"groups": "sex"}, "`groups` must map 'real' and 'fake' to labels; got str"),
    "sparse": ({"real": csr_array(X)}, "`source` must be dense; got a sparse csr_array. Pass `source.toarray"),
    "few for a curve": ({"metrics": ("auto",)}, "at least 50 samples; got 40. `auto` needs them; with fewer, pass"),
    "group of one": ({"groups": {"real": ["a"] * 39 + ["b"], "fake": ["a"] * 40}}, "b"),
    "file": ({"real": "no/such/folder"}, "must be a folder or file that exists"),
}


@pytest.mark.parametrize(("change", "sentence"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_input_costs_one_sentence(change, sentence):
    arguments = {"real": X, "fake": X + 0.1, "metrics": ("neighbors",)} | change
    with pytest.raises(ValueError, match=sentence.replace("(", r"\(")) as caught:
        assess(**arguments)
    assert "\n" not in str(caught.value)


def test_a_score_requested_as_a_metric_names_its_metric():
    with pytest.raises(ValueError, match="coverage is a score of the metric 'neighbors'"):
        assess(real=X, fake=X, metrics=("coverage",))


def test_type_checkers_see_the_arguments_that_a_request_has():
    declared = {one.name: one.type for one in fields(Request)}
    assert {name: hint.__forward_arg__ for name, hint in AssessArguments.__annotations__.items()} == declared
    assert list(inspect.signature(assess).parameters) == ["real", "fake", *declared]
    with pytest.raises(TypeError, match=r"assess\(\) got an unexpected keyword argument 'neighbours'"):
        assess(real=np.eye(3), fake=np.eye(3), neighbours=3)
    with pytest.raises(TypeError, match=r"fit\(\) got an unexpected keyword argument 'groups'"):
        Reference.fit(np.eye(3), groups={})


def test_the_record_of_a_run_keeps_what_other_versions_wrote(compared):
    saved = json.loads(json.dumps(compared["dropped"].to_dict()))
    saved["protocol"] |= {"of_another_version": [1], "real": {"encoder": "ngrams", "shards": 3}}
    found = Assessment.from_dict(saved)
    assert found.record.n_real == 300
    assert (found.record.real.encoder, found.encoder) == ("ngrams", "ngrams")
    assert found.to_dict()["protocol"] == saved["protocol"] == RunRecord.from_dict(found.protocol).to_dict()


def test_results_of_schema_2_have_their_p_values_and_details_where_they_belong():
    new = Score(0.1, None, 0.0, 9, 8, {"test": "permutation"}, 0.002, {"visible": 1.0, "identical_rows": 3})
    old = new.to_dict()
    old["settings"] |= {"p_value": old.pop("p_value"), **old.pop("details")}
    assert Score.from_dict(old) == Score.from_dict(new.to_dict()) == new


@pytest.mark.usefixtures("small_committee")
def test_what_was_found_is_not_among_the_settings():
    """With another seed of the data, the settings of every score are the same."""

    def settings(seed):
        rng = np.random.default_rng(seed)
        real, fake, holdout = rng.normal(size=(3, 120, 3))
        found = assess(real=real, fake=np.concatenate([fake, fake[:9]]), holdout=holdout)
        return {name: score.settings for name, score in found.scores.items()}

    assert settings(0) == settings(1)
