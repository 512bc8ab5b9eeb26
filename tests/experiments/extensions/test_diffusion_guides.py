"""The experiment on guides of a diffusion model runs at a small size, and its published numbers support the docs."""

import json
from pathlib import Path

import numpy as np
import pytest

from experiments.common.selection import Setting, fine_tuning_rows
from experiments.common.stages import Files
from experiments.common.trade_off import beyond_the_line
from experiments.extensions.diffusion_guides import LINE, PLANS, lines_of
from precall.metrics.pairs.centrality import centrality

RESULTS = Path(__file__).parents[3] / "experiments" / "extensions" / "results"
PLAN = ["base", "real-0.5", "rejection-3", "base weak:2", "base surplus-10:1.5 free:2", "missed-0.1 base:2"]
PLAN += ["base surplus-10:1.5 reject:2", "base free:2 reject:2", "base free:2 reject:4"]


@pytest.mark.usefixtures("small_steps")
def test_smoke(run, tmp_path):
    (tmp_path / "plan").write_text("".join(f"3 {name}\n" for name in PLAN))
    words = ("--smoke", "--plan", tmp_path / "plan", "--work", tmp_path / "work", "--out", tmp_path)
    printed = run("extensions.diffusion_guides", *words)
    rows = json.loads((tmp_path / "diffusion_guides.json").read_text())["rows"]
    assert [(row["seed"], row["setting"]) for row in rows] == [(3, name) for name in PLAN]
    assert all(0 <= row["recall"] <= 1 and 0 <= row["linear"]["alpha(1)"] <= 1 for row in rows)
    assert all(name in printed for name in PLAN)
    sizes = {"draws.npz": 200, "draws base surplus-10:1.5.npz": 134, "draws base free:2.npz": 269}
    for name, size in sizes.items():  # at most 64 images are scored, at least 50
        with np.load(tmp_path / "work" / "seed-3" / name) as draws:
            assert len(draws["log_fake"]) == len(draws["features"]) == size
    trained = sorted(path.stem for path in (tmp_path / "work" / "seed-3").glob("*.pt"))
    assert trained == ["base", "missed-0.1", "surplus-10", "weak"]
    again = run("extensions.diffusion_guides", *words)
    assert "mean loss" in printed
    assert "mean loss" not in again  # nothing is trained twice


def test_steps_replace_those_of_the_data_and_name_the_results(run, tmp_path):
    (tmp_path / "plan").write_text("3 further\n")
    words = ("--plan", tmp_path / "plan", "--work", tmp_path / "work", "--out", tmp_path, "--steps", 3, 2)
    assert "base of seed 3: 3 steps" in run("extensions.diffusion_guides", "--smoke", "--kinds", "scores", *words)
    protocol = json.loads((tmp_path / "diffusion_guides-3.json").read_text())["protocol"]
    assert (protocol["base_steps"], protocol["tune_steps"]) == (3, 2)


def test_a_setting_is_read_from_its_name():
    both = Setting.of("base surplus-10:1.5 free:2 low:0.2 high:3")
    assert (both.main, both.guide, both.networks) == ("base", "surplus-10", ("base", "surplus-10"))
    assert (both.knobs.auto, both.knobs.free, both.knobs.low, both.knobs.high) == (1.5, 2, 0.2, 3)
    assert Setting.of("further").networks == ("further",)
    kept = Setting.of("base surplus-10:2 free:1.5 reject:3")
    assert (kept.source, kept.reject, kept.knobs.auto) == ("base surplus-10:2 free:1.5", 3, 2)
    short = Setting.of("rejection-2")
    assert (short.source, short.reject, short.networks) == ("base", 2, ("base",))
    assert Setting.of("further").knobs.auto == 1


def test_a_plan_that_ends_in_dots_may_grow(tmp_path):
    plan = tmp_path / "plan"
    options = type("Options", (), {"plan": plan})
    plan.write_text("0 base\n1 base free:2\n0 base\n...\n")
    lines, grows = lines_of(options)
    assert ([(seed, setting.name) for seed, setting in lines], grows) == ([(0, "base"), (1, "base free:2")], True)
    plan.write_text("0 base\n")
    assert not lines_of(options)[1]
    assert Files(tmp_path).features(0, lines[1][1]).name == "base free:2.npy"


RATIOS = {"log_real": np.log([0.01, 0.5, 20.0, 400.0]), "log_fake": np.log([0.02, 0.05, 0.5, 20.0])}
OTHERS = {"central": np.array([3.0, 9.0, 5.0, 1.0]), "labels": np.array([0, 0, 1, 1])}


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("surplus-10", {4: 0.8, 5: 0.5}),  # (1 − 10 r)₊ of the draws, which come after the data
        ("surplus-0.1", {4: 0.998, 5: 0.995, 6: 0.95}),
        ("common-10", {0: 1.0, 1: 0.2, 2: 0.005, 3: 0.00025}),  # min(1, 1/(10 r)) of the data
        ("missed-0.1", {0: 0.175, 1: 0.175, 2: 0.175 + 0.3 * 40 / 42, 3: 0.175 + 0.3 * 2 / 42}),
    ],
)
def test_rows_have_the_frequencies_of_their_weights(name, weights):
    rows = fine_tuning_rows(name, **RATIOS, **OTHERS, n=40_000)
    found = np.bincount(rows, minlength=8) / len(rows)
    expected = np.zeros(8)
    expected[list(weights)] = np.array(list(weights.values())) / sum(weights.values())
    np.testing.assert_allclose(found, expected, atol=0.01)


def test_the_most_central_images_of_each_class_are_kept():
    assert fine_tuning_rows("central-0.5", **RATIOS, **OTHERS, n=10).tolist() == [1, 2]
    assert fine_tuning_rows("further", **RATIOS, **OTHERS, n=10).tolist() == [0, 1, 2, 3]


def test_a_draw_is_as_central_as_it_would_be_among_the_images():
    rng = np.random.default_rng(0)
    x, draws = rng.normal(size=(400, 5)), rng.normal(size=(50, 5))
    among = [centrality(np.vstack([x, draw]), "cpu")[-1] for draw in draws]  # one by one, as the last image
    assert centrality(x, "cpu", draws).tolist() == among
    assert np.ptp(among) > 25
    assert centrality(x, "cpu", draws + 100).sum() == 0


def test_the_middle_of_a_cloud_is_central():
    x = np.random.default_rng(0).normal(size=(400, 20)).astype(np.float32)
    counts = centrality(x, "cpu")
    assert counts.sum() == 400 * 25
    norms = np.linalg.norm(x, axis=1)
    assert counts[norms < np.median(norms)].mean() > 2 * counts[norms > np.median(norms)].mean()


EQUAL = "diffusion_guides-fashion-mnist-2500"  # three seeds that were trained for equally many steps
EQUAL_SETTINGS = ("base", "further", "base surplus-10:2", "base surplus-0.1:3", "base free:1.5")
GUIDES = [("base surplus-10:2", "alpha(10)"), ("base surplus-0.1:3", "beta(0.1)")]  # at their own slope
NAMES = {"cifar-10": "diffusion_guides", "fashion-mnist": "diffusion_guides-fashion-mnist"}


@pytest.fixture(scope="module", params=NAMES)
def found(request):
    """The data, and what was published."""
    return request.param, json.loads((RESULTS / f"{NAMES[request.param]}.json").read_text())


def test_the_published_rows_are_of_these_settings(found):
    data, results = found
    settings, explored = PLANS[data]
    lines = [(row["seed"], row["setting"]) for row in results["rows"]]
    assert lines == [(seed, name) for seed in (0, 1, 2) for name in settings] + [(0, name) for name in explored]
    beyond = {name: pytest.approx(of, abs=2e-4) for name, of in beyond_the_line(results["rows"], LINE).items()}
    assert results["recall beyond classifier-free guidance"] == beyond


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_published_dial_turns(found, seed):
    rows = {row["setting"]: row for row in found[1]["rows"] if row["seed"] == seed}
    line = [rows[name] for name in LINE]
    assert sorted(line, key=lambda row: row["precision"]) == line
    assert sorted(line, key=lambda row: -row["recall"]) == line
    assert line[-1]["precision"] - line[0]["precision"] > 0.15
    assert line[0]["recall"] - line[-1]["recall"] > 0.19
    assert found[1]["recall beyond classifier-free guidance"]["base surplus-10:2"][str(seed)] > 0.03


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", ["diffusion_guides", EQUAL])
@pytest.mark.parametrize(("setting", "score"), GUIDES)
def test_the_published_guides_mend_at_every_slope(name, seed, setting, score):
    published = json.loads((RESULTS / f"{name}.json").read_text())
    rows = {row["setting"]: row["linear"] for row in published["rows"] if row["seed"] == seed and "linear" in row}
    control, guided = rows["further"], rows[setting]
    assert all(guided[name] > control[name] + control["half_width"][name] for name in control["half_width"])
    assert guided[score] - rows["base"][score] > (1 - rows["base"][score]) / 3


@pytest.mark.parametrize(
    ("name", "seed"), [("fashion-mnist-auto", 0), ("fashion-mnist-auto", 1), ("fashion-mnist-auto", 2), ("4000", 0)]
)
@pytest.mark.parametrize(("setting", "score"), GUIDES)
def test_the_published_guides_mend_by_auto_too(name, seed, setting, score):
    published = json.loads((RESULTS / f"diffusion_guides-{name}.json").read_text())
    rows = {row["setting"]: row["auto"] for row in published["rows"] if row["seed"] == seed and "auto" in row}
    control, guided = rows["further"], rows[setting]
    assert all(guided["low"][slope] > control["high"][slope] for slope in control["high"])
    assert guided[score] - rows["base"][score] > (1 - rows["base"][score]) / 2


def test_the_published_guides_of_equal_training_exceed_classifier_free_guidance_in_both_scores():
    published = json.loads((RESULTS / f"{EQUAL}.json").read_text())
    rows = {(row["seed"], row["setting"]): row for row in published["rows"]}
    assert list(rows) == [
        *((seed, name) for seed in (0, 1, 2) for name in EQUAL_SETTINGS),
        (1, "base free:2"),
        (0, "real-1"),
    ]
    assert (published["protocol"]["base_steps"], published["protocol"]["tune_steps"]) == (2500, 400)
    for guide, seed in ((guide, seed) for guide in EQUAL_SETTINGS[2:4] for seed in (0, 1, 2)):
        guided, knob = rows[seed, guide], rows[seed, "base free:1.5"]
        assert guided["precision"] - knob["precision"] > 0.03
        assert guided["recall"] - knob["recall"] > np.hypot(*(row["half_width"]["recall"] for row in (guided, knob)))


def test_recall_is_compared_at_equal_precision():
    line = [{"seed": 0, "setting": name, "precision": i / 4, "recall": 1 - i / 4} for i, name in enumerate(LINE)]
    other = {"seed": 0, "setting": "other", "precision": 0.6, "recall": 0.5}
    assert beyond_the_line([*line, other], LINE) == {"other": {"0": pytest.approx(0.1)}}
    assert beyond_the_line([*line, {**other, "precision": 1.1}], LINE) == {}


def test_precision_is_compared_at_equal_recall():
    line = [{"seed": 0, "setting": name, "precision": i / 4, "recall": 1 - i / 8} for i, name in enumerate(LINE)]
    rows = [*line, {"seed": 0, "setting": "other", "precision": 0.6, "recall": 0.75}]
    assert beyond_the_line(rows, LINE) == {"other": {"0": pytest.approx(0.05)}}
    assert beyond_the_line(rows, LINE, score="precision", at="recall") == {"other": {"0": pytest.approx(0.1)}}
