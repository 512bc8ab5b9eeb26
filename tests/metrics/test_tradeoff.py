"""The trade-off over a knob: settings, envelopes, who is ahead, and the round trip through JSON."""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import precall
from benchmarks import tradeoff as benchmark
from precall.metrics.protocols.tradeoff import Ahead, Tradeoff, named
from precall.metrics.scores.record import RunRecord
from precall.metrics.scores.results import Assessment, Comparison, PerSample
from precall.metrics.scores.score import SLOPES, CurveIntervals, Interval, Score, read, readings
from precall.theory.spectrum import RatioSpectrum

pytestmark = pytest.mark.usefixtures("small_committee")

SCHEMA = Path(__file__).parents[2] / "docs" / "results.schema.json"


def setting(p, q, *, half=0.02, precision=(0.5, 0.1), recall=(0.5, 0.1), known=True):
    """An assessment with an exact curve, and intervals of the given half-widths."""
    spectrum = RatioSpectrum.from_masses(p=p, q=q)
    shares = spectrum.alpha(SLOPES) / np.minimum(1, SLOPES)
    intervals = CurveIntervals(SLOPES, shares - half, shares + half, 0.95, "the mean") if known else None
    scores = {
        name: Score(value, Interval(value - width, value + width, 0.95, "the mean"))
        for name, (value, width) in {"precision": precision, "recall": recall}.items()
    }
    scores |= {name: Score(value, chance=0.0) for name, value in readings(spectrum).items()}
    settings = {"metrics": [], "k": 5, "ties": "closed", "seed": 0, "dimension": 2, "versions": {}}
    record = RunRecord(n_real=100, n_fake=100, **settings)
    empty = PerSample(), PerSample()
    return Assessment("", "auto", {"auto": spectrum}, scores, None, *empty, record, curve_intervals=intervals)


def made(**models):
    names = {model: {value: f"{model}@{value:g}" for value in each} for model, each in models.items()}
    found = {names[model][value]: one for model, each in models.items() for value, one in each.items()}
    return Tradeoff({name: replace(one, name=name) for name, one in found.items()}, settings=names)


DROPS = ([0.5, 0.5], [1.0, 0.0])  # precise: one of two modes is never produced
INVENTS = ([1.0, 0.0], [0.5, 0.5])  # covers everything, and half of its samples are wrong
FAIR = ([0.5, 0.5], [0.4, 0.6])


def test_the_setting_for_a_slope_has_the_largest_alpha():
    found = made(ours={0.5: setting(*DROPS), 1.0: setting(*FAIR), 2.0: setting(*INVENTS)})
    # α(8) = 1, 1 and 0.5; α(1/8) = 1/16, 1/8 and 1/8; α(1) = 0.5, 0.9 and 0.5
    assert found.setting(lam=1).setting == 1.0
    assert found.setting(lam=1).score.value == pytest.approx(0.9)
    assert found.setting(lam=8).setting == 1.0  # as good as 0.5 there, and better at λ = 1
    assert found.setting(lam=8).alternatives == ("ours@0.5",)
    assert found.setting(lam=1).alternatives == ()


def test_the_slope_decides_between_precision_and_recall():
    found = made(ours={0.5: setting(*DROPS), 2.0: setting(*INVENTS)})
    assert found.setting(lam=4).setting == 0.5
    assert found.setting(lam=0.25).setting == 2.0


def test_a_recall_floor_is_reached_by_the_lower_end():
    low, enough = (0.65, 0.1), (0.65, 0.03)
    found = made(
        ours={
            0.5: setting(*FAIR, precision=(0.9, 0.05), recall=low),
            1.0: setting(*FAIR, precision=(0.8, 0.05), recall=enough),
            2.0: setting(*FAIR, precision=(0.5, 0.05), recall=(0.9, 0.02)),
        }
    )
    assert found.setting(recall=0.6).setting == 1.0
    assert found.setting(recall=0.5).setting == 0.5
    assert found.setting(recall=0.7).setting == 2.0
    too_high = r"no setting reaches a recall of 0.95: the best is ours@2 with 0.90 \[0.88, 0.92\]"
    with pytest.raises(ValueError, match=too_high):
        found.setting(recall=0.95)


def test_only_one_model_is_considered_on_request():
    found = made(ours={1.0: setting(*FAIR)}, theirs={1.0: setting(*DROPS)})
    assert found.setting(lam=1).model == "ours"
    assert found.setting(lam=1, model="theirs").name == "theirs@1"
    with pytest.raises(ValueError, match="`model` must be one of ours, theirs; got 'other'"):
        found.setting(lam=1, model="other")


@pytest.mark.parametrize("wanted", [{}, {"lam": 1, "recall": 0.5}])
def test_exactly_one_thing_is_wanted(wanted):
    with pytest.raises(ValueError, match="either `lam` or `recall`"):
        made(ours={1.0: setting(*FAIR)}).setting(**wanted)


@pytest.mark.parametrize("wanted", [{"lam": 0}, {"lam": -1}, {"lam": float("nan")}, {"recall": 1.1}])
def test_impossible_wishes_are_refused(wanted):
    with pytest.raises(ValueError, match=next(iter(wanted))):
        made(ours={1.0: setting(*FAIR)}).setting(**wanted)


def test_the_envelope_is_the_largest_alpha_of_all_settings():
    found = made(ours={0.5: setting(*DROPS), 2.0: setting(*INVENTS)})
    envelope = found.envelope("ours")
    each = [found[name].spectrum.alpha(envelope.lam) for name in ("ours@0.5", "ours@2")]
    np.testing.assert_array_equal(envelope.alpha, np.maximum(*each))
    np.testing.assert_allclose(envelope.beta, envelope.alpha / envelope.lam)
    assert envelope.setting[0] == 2.0
    assert envelope.setting[-1] == 0.5


def test_a_model_is_ahead_where_intervals_are_apart():
    found = made(ours={1.0: setting(*DROPS)}, theirs={1.0: setting(*INVENTS)})
    ranges = found.ahead()
    assert [one.model for one in ranges] == ["theirs", None, "ours"]
    assert ranges[0].low == SLOPES[0]
    assert ranges[-1].high == SLOPES[-1]
    assert ranges[1].low <= 1 <= ranges[1].high


def test_it_cannot_be_told_who_is_ahead_if_intervals_overlap_or_are_unknown():
    wide = made(ours={1.0: setting(*DROPS, half=0.4)}, theirs={1.0: setting(*INVENTS, half=0.4)})
    unknown = made(ours={1.0: setting(*DROPS, known=False)}, theirs={1.0: setting(*INVENTS, known=False)})
    for found in (wide, unknown):
        assert found.ahead() == (Ahead(SLOPES[0], SLOPES[-1], None),)
    assert unknown.setting(lam=4).alternatives == ("theirs@1",)


@pytest.mark.parametrize(("half", "ahead"), [(0.12, "theirs"), (0.125, None)])
def test_intervals_that_touch_overlap(half, ahead):
    """At λ = 1 the scores are 0.5 and 0.75."""
    closer = setting([0.5, 0.5], [0.25, 0.75], half=half)
    found = made(ours={1.0: setting(*DROPS, half=half)}, theirs={1.0: closer})
    assert next(one.model for one in found.ahead() if one.low <= 1 <= one.high) == ahead
    assert found.setting(lam=1).alternatives == (() if ahead else ("ours@1",))


def test_one_model_is_ahead_of_nobody():
    assert made(ours={1.0: setting(*FAIR)}).ahead() == ()


WRONG = [{}, {"ours": {}}, {"ours": np.zeros((9, 2))}, {"ours": {"hot": 1}}, {"ours": {True: 1}}]


@pytest.mark.parametrize("fake", WRONG)
def test_settings_are_numbers(fake):
    with pytest.raises(ValueError, match=r"`fake` must|a setting of 'ours' must be a number"):
        named(fake)


def test_settings_that_would_have_the_same_name_are_refused():
    for fake in ({"a": {1.0: 0, 1.0 + 1e-15: 1}}, {1: {1: 0}, "1": {1: 0}}):
        with pytest.raises(ValueError, match="each setting of a model once"):
            named(fake)


@pytest.fixture(scope="module")
def gaussians():
    """A model that is too narrow at 0.5 and too wide at 2, and one that is shifted."""
    rng = np.random.default_rng(0)
    draw = lambda: rng.normal(size=(300, 2))  # noqa: E731
    fake = {"ours": {t: t * draw() for t in (2, 0.5, 1)}, "theirs": {1: 2 + draw()}}
    return precall.tradeoff(real=draw(), fake=fake, metrics=("clusters",))


def test_samples_become_a_trade_off(gaussians):
    assert list(gaussians) == ["ours@0.5", "ours@1", "ours@2", "theirs@1"]
    assert list(gaussians.of("ours")) == [0.5, 1.0, 2.0]
    assert gaussians.setting(lam=1).name == "ours@1"
    precisions = [one.scores["precision"].value for one in gaussians.of("ours").values()]
    recalls = [one.scores["recall"].value for one in gaussians.of("ours").values()]
    assert precisions[0] > 0.95 > 0.85 > precisions[2]
    assert recalls[0] < 0.85 < 0.95 < recalls[2]
    assert "ours" in {one.model for one in gaussians.ahead()} <= {"ours", None}


def test_a_misspelt_setting_of_assess_is_refused():
    with pytest.raises(TypeError, match="sead"):
        precall.tradeoff(real=np.zeros((60, 2)), fake={"m": {1: np.zeros((60, 2))}}, sead=1)


def test_every_setting_is_an_ordinary_assessment():
    rng = np.random.default_rng(1)
    real, fake = rng.normal(size=(2, 100, 2))
    one = precall.tradeoff(real=real, fake={"m": {1: fake}}, metrics=("clusters",), seed=3)["m@1"]
    plain = precall.assess(real=real, fake={"m@1": fake}, metrics=("clusters", "neighbors"), seed=3)["m@1"]
    assert one.to_dict() == plain.to_dict()


def test_a_curve_is_needed():
    with pytest.raises(ValueError, match="estimator of the curve"):
        precall.tradeoff(real=np.zeros((60, 2)), fake={"m": {1: np.zeros((60, 2))}}, metrics=("fid",))


def test_it_is_saved_and_loaded(gaussians, tmp_path):
    from precall.report import folder

    folder.write(gaussians, tmp_path / "report", command="precall tradeoff")
    saved = json.loads((tmp_path / "report" / "results.json").read_text())
    jsonschema.validate(saved, json.loads(SCHEMA.read_text()))
    loaded = precall.load(tmp_path / "report")
    assert isinstance(loaded, Tradeoff)
    assert loaded.to_dict() == gaussians.to_dict()
    assert repr(loaded) == repr(gaussians)
    assert loaded.setting(lam=0.5) == gaussians.setting(lam=0.5)
    assert (tmp_path / "report" / "tradeoff.png").read_bytes().startswith(b"\x89PNG")


def test_a_plain_report_in_the_same_folder_leaves_nothing_of_the_knob(gaussians, tmp_path):
    from precall.report import folder

    folder.write(gaussians, tmp_path)
    folder.write(Comparison({"a": gaussians["ours@1"]}), tmp_path)
    assert not (tmp_path / "tradeoff.png").exists()
    assert not isinstance(precall.load(tmp_path), Tradeoff)


def test_damaged_settings_are_refused(gaussians, tmp_path):
    saved = gaussians.to_dict()
    saved["tradeoff"]["settings"]["ours"].pop()
    (tmp_path / "results.json").write_text(json.dumps(saved))
    with pytest.raises(ValueError, match="must name each of its assessments once"):
        precall.load(tmp_path)


def test_the_table_names_the_settings_and_who_is_ahead(gaussians):
    lines = repr(gaussians).splitlines()
    blocks = [line for line in lines if line in ("ours", "theirs")]
    assert blocks == ["ours", "theirs"]
    first = [line.split()[0] for line in lines if line.startswith("  ") and line.split()[0] in ("0.5", "1", "2")]
    assert first == ["0.5", "1", "2", "1"]
    assert any(line.endswith("ours is ahead") for line in lines)
    unsure = made(ours={1.0: setting(*DROPS, half=0.4)}, theirs={1.0: setting(*INVENTS, half=0.4)})
    assert repr(unsure).splitlines()[-1] == "λ 0.016 to 64: cannot tell, intervals overlap"


def test_the_page_has_every_setting_and_escapes_names():
    found = made(**{"<b>ours": {1.0: setting(*FAIR), 2.0: setting(*DROPS)}})
    from precall.report import page

    (model,) = page.page_data(found)["knob"]["models"]
    assert (model["name"], [one["name"] for one in model["settings"]]) == ("<b>ours", ["1", "2"])
    assert model["settings"][0]["scores"]["recall"]["value"] == found["<b>ours@1"].scores["recall"].value
    np.testing.assert_allclose(model["y"], found.envelope("<b>ours").alpha)
    assert "<b>ours" not in page.render(found)


def test_the_figure_has_a_path_and_an_envelope_for_each_model(gaussians):
    along, envelopes = gaussians.plot().axes
    assert [line.get_label() for line in envelopes.get_lines()] == ["ours", "theirs"]
    assert [text.get_text() for text in along.texts] == ["0.5", "1", "2", "1"]


def test_intervals_of_the_curve_agree_with_those_of_its_scores(gaussians):
    """The total variation is 1 − α(1), so both come from the same resamples."""
    one = gaussians["ours@2"]
    at_one = one.curve_intervals.at(1.0, one.spectrum.alpha(1.0))
    tv = one.scores["tv"].interval
    assert at_one.low == pytest.approx(1 - tv.high)
    assert at_one.high == pytest.approx(1 - tv.low)
    missed = one.scores["missed"].interval  # 1 − β(1/3), and α = β/3 there
    between = one.curve_intervals.at(1 / 3, one.spectrum.alpha(1 / 3))
    assert 3 * between.low == pytest.approx(1 - missed.high, abs=0.01)


def test_a_classifier_knows_the_intervals_of_its_curve():
    rng = np.random.default_rng(0)
    one = precall.assess(real=rng.normal(size=(200, 2)), fake=rng.normal(size=(200, 2)) + 1, metrics=("linear",))
    tv = one.scores["tv"].interval
    assert one.curve_intervals.at(1.0, one.spectrum.alpha(1.0)).high == pytest.approx(1 - tv.low)


def test_points_of_a_curve_are_shares_of_their_maximum():
    found = read(RatioSpectrum.from_masses(p=[0.5, 0.5], q=[0.25, 0.75]))
    assert found["share at 0.5"] == 1.0
    assert found["share at 1.189"] == pytest.approx(0.25 + 0.5 * 2**0.25)


# ----------------------------------------------------------------------------------------------------- the benchmark


@pytest.mark.parametrize("temperature", [0.5, 1.0])
@pytest.mark.parametrize("lam", [0.5, 3.0])
def test_the_exact_curve_of_the_benchmark_is_that_of_its_densities(temperature, lam):
    rng = np.random.default_rng(0)
    s, m = benchmark.WIDTH * temperature, benchmark.SHIFT
    x = rng.normal(size=(200_000, benchmark.DIM)) * s
    x[:, 0] += m
    log_p = -(x**2).sum(axis=1) / 2
    x[:, 0] -= m
    log_q = -(x**2).sum(axis=1) / (2 * s * s) - benchmark.DIM * np.log(s)
    alpha = np.minimum(1, lam * np.exp(log_p - log_q))  # α(λ) = E_Q min(1, λ p/q)
    assert benchmark.exact_alpha(temperature, lam) == pytest.approx(alpha.mean(), abs=4 * alpha.std() / np.sqrt(len(x)))


def test_the_published_recommendations_have_little_regret():
    rows = json.loads((Path(benchmark.__file__).parent / "results" / "tradeoff.json").read_text())
    assert len({row["run"] for row in rows}) >= benchmark.RUNS // 2  # the file can be extended
    for lam in benchmark.SLOPES:
        regrets = [row["regret"] for row in rows if row["lam"] == lam]
        assert np.mean(np.array(regrets) <= benchmark.TOLERATED) >= 0.95, lam
