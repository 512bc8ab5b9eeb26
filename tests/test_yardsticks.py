"""The benchmarks that judge the estimators: sanity checks, interval coverage, and families with known curves."""

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import gamma

from benchmarks import coverage, curve_error, pool, sanity, sanity_checks as shapes
from benchmarks.families import FAMILIES, Family, simulated
from benchmarks.sanity_checks import CHECKS

ROOT = Path(__file__).parents[1]
LAM = np.tan(np.arange(1, 40) / 40 * np.pi / 2)


# ------------------------------------------------------------------------------------------------------------ the pool


@dataclass(frozen=True)
class Square:
    number: int
    log: str


def squared(task):
    with open(task.log, "a") as log:
        log.write(f"{task.number}\n")
    if task.number == 3:
        raise ArithmeticError("three")
    time.sleep(0.01)
    return [{**asdict(task), "square": task.number**2}]


def options(**given):
    return argparse.Namespace(**{"jobs": 1, "minutes": None, "out": None, **given})


def test_a_run_continues_where_it_stopped_and_survives_a_failure(tmp_path, capsys):
    log, out = str(tmp_path / "log"), tmp_path / "rows.json"
    rows = pool.completed([Square(i, log) for i in range(3)], squared, options(out=out))
    assert [row["square"] for row in rows] == [0, 1, 4]
    rows = pool.completed([Square(i, log) for i in range(5)], squared, options(out=out))
    assert [row["square"] for row in rows] == [row["square"] for row in json.loads(out.read_text())] == [0, 1, 4, 16]
    assert Path(log).read_text().split() == ["0", "1", "2", "3", "4"]  # finished tasks are not repeated
    assert "three" in capsys.readouterr().err


def test_a_time_limit_leaves_a_complete_file(tmp_path):
    log, out = str(tmp_path / "log"), tmp_path / "rows.json"
    pool.completed([Square(i + 10, log) for i in range(1000)], squared, options(out=out, minutes=0.2 / 60))
    assert 0 < len(json.loads(out.read_text())) < 100


def test_pages_are_replaced_between_their_markers_only(tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "page.md"
    page.write_text("before\n<!-- begin: it -->\nold\n<!-- end: it -->\nafter\n")
    monkeypatch.setattr(pool, "ROOT", tmp_path)
    pool.insert("docs/page.md", "it", "new")
    assert page.read_text() == "before\n<!-- begin: it -->\n\nnew\n\n<!-- end: it -->\nafter\n"
    with pytest.raises(ValueError, match="must contain"):
        pool.insert("docs/page.md", "other", "new")


# ---------------------------------------------------------------------------------------------------- the sanity checks


def test_the_oracle_counts_the_true_modes():
    """Check 4: at first both sets have ten modes; at the end the fakes have one, with ten times the density."""
    at = {x: sanity.oracle(sanity.Task(4, "d=8", x, 7, "")) for x in (0.0, 1.0)}
    assert at[0.0] == (1.0, 1.0)
    assert at[1.0][0] == pytest.approx(min(1, 10 * at[1.0][1]), abs=1e-9)
    assert at[1.0][1] == pytest.approx(0.1, abs=0.03)


@pytest.mark.parametrize(
    ("shape", "holds", "fails"),
    [
        (shapes.bell, [0, 0.5, 1, 0.4, 0.05], [0, 0.5, 0.8, 1, 0.05]),
        (shapes.falling, [1, 0.95, 0.5, 0.2], [1, 0.5, 0.4, 0.85]),
        (shapes.rising, [0.2, 0.3, 0.95, 1], [1, 0.9, 0.3, 0.2]),
        (shapes.flat, [0.5, 0.54, 0.5], [0.5, 0.56, 0.5]),
        (shapes.converging, [0.9, 0.7, 0.21, 0.2, 0.2], [0.2, 0.2, 0.2, 0.2, 0.3]),
        (shapes.ends(0.0), [0.04, 0.9, 0.0], [0.0, 0.9, 0.06]),
        (shapes.ends(1.0, 0.0), [1, 0.3, 0.97], [1, 0.3, 0.0]),
        (shapes.lost(2), [1, 0.95, 0.89, 0], [1, 0.95, 0.91, 0]),
    ],
)
def test_shapes(shape, holds, fails):
    assert shape(np.arange(len(holds)), np.array(holds))
    assert not shape(np.arange(len(fails)), np.array(fails))


def test_all_fifteen_checks_are_there_and_can_be_drawn():
    assert {number for number, _ in CHECKS} == set(range(1, 16))
    for check in CHECKS.values():
        grid = check.grid(5)
        assert {check.values[0], check.values[-1], *check.kept} <= set(grid)
        assert len(check.grid(51)) == len(check.values)
        for x in (grid[0], grid[len(grid) // 2]):
            real, fake = check.draw(x, np.random.default_rng(0))
            assert real.ndim == 2
            assert real.shape[1] == fake.shape[1]
            assert np.isfinite(real).all()
            assert np.isfinite(fake).all()
        assert all(name[:2] in ("F ", "D ") for name in check.criteria)


def test_the_geometry_of_the_solids():
    rng = np.random.default_rng(0)
    assert np.linalg.norm(shapes.ball(rng, 2000), axis=1).max() <= 0.8
    x = shapes.torus(rng, 2000)
    from_axis = np.hypot(x[:, 0], x[:, 1])
    assert np.hypot(from_axis - 1, x[:, 2]).max() <= 0.1
    real, fake = CHECKS[8, "d=8"].draw(10_000, rng)
    inside = ((fake <= 1) & (fake >= 0)).all(axis=1).mean()
    assert abs(inside - 0.2) < 0.02
    assert len(real) == 10_000
    assert len(CHECKS[9, "d=8"].draw(100, rng)[0]) == 1000


def ideal(number, case, reading):
    """Rows of a check whose scores are given by a function of the parameter."""
    grid = CHECKS[number, case].grid(9)
    return [
        {"check": number, "case": case, "x": x, "seed": s, "scores": {"a": reading(x)}} for x in grid for s in (0, 1)
    ]


def test_ideal_scores_pass_and_constant_ones_fail():
    good = sanity.judged(sanity.means(ideal(1, "d=1", lambda x: [np.exp(-(x**2)), np.exp(-(x**2))])))
    assert len(good) == 6
    assert all(one.met for one in good)
    bad = sanity.judged(sanity.means(ideal(1, "d=1", lambda x: [1.0, 0.0])))
    assert {one.criterion for one in bad if one.met} == {"F one in the middle", "D zero at both ends"}


def test_what_a_density_ratio_excludes_is_marked_and_shown():
    rows = ideal(3, "d=1", lambda s: [float(s == 1), float(s == 1)])
    for row in rows:
        row["scores"] = {"auto: α(10), β(1/10)": row["scores"]["a"], "precision, recall": row["scores"]["a"]}
    found = sanity.means(rows)
    marked = {(one.pair, one.criterion) for one in sanity.judged(found) if one.by_definition}
    assert marked == {("auto: α(10), β(1/10)", f"F {name}") for name in ("one at the smallest scale", "falling")}
    text = sanity.markdown(found)
    assert "α(10), β(1/10) does not meet: 3 F one at the smallest scale [by definition] (d=1)." in text
    assert "| 3. scale | 6/6 | 6/8 |" in text
    assert "| **auto: α(10), β(1/10)** (named beforehand) | 100 % (2/2) |" in text
    assert "| precision, recall | 50 % (2/4) |" in text


def test_unfinished_settings_are_not_judged():
    rows = [row for row in ideal(1, "d=8", lambda x: [1.0, 1.0]) if row["x"] < 3]
    assert sanity.judged(sanity.means(rows)) == []


def test_every_ball_pair_of_the_registry_is_found():
    pairs = set(sanity.ball_pairs().values())
    assert {("precision", "recall"), ("density", "coverage"), ("precision_cover", "recall_cover")} <= pairs
    assert {"auto", "clusters", "neighbors"} <= set(sanity.default_metrics())


# --------------------------------------------------------------------------------------------------------- the families


@pytest.fixture(autouse=True)
def fewer_draws(monkeypatch):
    """A quarter of the draws of the benchmark: the standard error of a simulated curve is then at most .0016."""
    monkeypatch.setattr("benchmarks.families.DRAWS", 100_000)


@pytest.mark.smoke
@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_families_are_pairs_with_curves(family: Family):
    rng = np.random.default_rng(0)
    real, fake = family.sample_real(300, rng), family.sample_fake(family.fakes(300), rng)
    assert real.shape == (300, family.dim)
    assert fake.shape == (family.fakes(300), family.dim)
    alpha = family.alpha(LAM)
    assert (np.diff(alpha) > -0.003).all()  # an average over samples changes its form at λ = 1
    assert (np.diff(alpha / LAM) < 0.003).all()
    assert ((alpha >= 0) & (alpha <= np.minimum(1, LAM) + 1e-9)).all()


@pytest.mark.parametrize(
    ("name", "log_ratio"),
    [
        ("pareto columns", lambda x: 5 * np.log(1.5 / 2.2) + 0.7 * np.log(x).sum(axis=1)),
        ("poisson counts", lambda x: x.sum(axis=1) * np.log(3 / 3.6) + 6),
        ("sign of a product", lambda x: np.where(x[:, 0] * x[:, 1] > 0, np.log(1.8), np.log(0.2))),
    ],
)
def test_exact_curves_agree_with_simulated_ones(name, log_ratio):
    family = FAMILIES[name]
    assert np.abs(simulated(family.sample_real, family.sample_fake, log_ratio)(LAM) - family.alpha(LAM)).max() < 0.004


@pytest.mark.parametrize("name", ["student columns", "mixed table", "correlated", "interpolated", "shaped clusters"])
def test_both_halves_of_a_simulated_curve_meet(name):
    """At λ = 1 the averages over P and over Q agree only if the log-ratio is that of the samples."""
    below, above = FAMILIES[name].alpha(np.array([1 - 1e-9, 1 + 1e-9]))
    assert abs(below - above) < 0.004


def test_pareto_samples_have_the_stated_exponents():
    x = FAMILIES["pareto columns"].sample_real(20_000, np.random.default_rng(0))
    assert abs(np.log(x).sum(axis=1).mean() - gamma(5, scale=1 / 1.5).mean()) < 0.05


def test_families_of_unequal_sizes_are_measured(monkeypatch):
    sizes = []
    monkeypatch.setattr(
        curve_error, "auto_rows", lambda truth, real, fake, seed: sizes.append((len(real), len(fake))) or []
    )
    rows = curve_error.rows_of(curve_error.Case(400, "few fakes, mode dropped", 8, 0))
    assert sizes == [(400, 80)]
    assert {row["estimator"] for row in rows} == set(curve_error.ESTIMATORS) > {"20-means", "cover", "simon"}
    assert all(0 < row["error"] < 0.3 for row in rows)


def test_all_families_and_toys_are_cases():
    given = options(smoke=False, only=["toys", "families"], n=[100, 500], seeds=[2, 1], dims=[1, 8], first_seed=5)
    cases = curve_error.cases_of(given)
    assert len(cases) == len(set(cases)) == 3 * (14 + len(FAMILIES))
    assert [case.n for case in cases if case.pair == "same"] == [500, 500, 100, 100, 100, 100]
    assert all(case.truth.dim == case.dim for case in cases)


def test_the_families_have_a_table_of_their_own():
    path = ROOT / "benchmarks" / "results" / curve_error.PUBLISHED["families"]
    rows = json.loads(path.read_text())
    assert len({row["pair"] for row in rows}) >= 10


# ------------------------------------------------------------------------------------------------------------- coverage


def replicates(rng, count, *, width):
    value = rng.normal(0.5, 0.01, count)
    return [[v, v - width, v + width] for v in value]


def test_coverage_and_width_of_correct_intervals():
    found = coverage.covered("precision", replicates(np.random.default_rng(0), 4000, width=0.0196), 1000)
    assert abs(found["coverage"] - 0.95) < 0.02
    assert abs(found["relative_width"] - 1) < 0.05
    assert not found["boundary"]
    assert coverage.fault({**found, "pair": "scale", "given": False}) == ""


@pytest.mark.parametrize(
    ("width", "fault"), [(0.01, "covers too rarely"), (0.03, "covers too often"), (0.025, ""), (0.0196, "")]
)
def test_faults_are_named(width, fault):
    found = coverage.covered("precision", replicates(np.random.default_rng(0), 4000, width=width), 1000)
    assert coverage.fault({**found, "pair": "scale", "given": False}) == fault


def test_the_upper_limit_is_waived_where_a_score_is_at_its_boundary():
    constant = coverage.covered("tv", [[1.0, 0.9, 1.0]] * 150, 200)
    assert constant["boundary"]
    assert constant["coverage"] == 1
    assert constant["relative_width"] is None
    assert coverage.fault({**constant, "pair": "disjoint", "given": False}) == ""
    assert coverage.fault({**constant, "boundary": False, "pair": "disjoint", "given": False}) == "covers too often"
    wide = {**constant, "relative_width": 3.0, "pair": "same", "given": False}
    assert coverage.fault(wide) == "too wide (P = Q)"


def test_few_replicates_are_not_judged():
    few = coverage.covered("tv", [[0.5, 0.6, 0.7]] * 50, 200)
    about = {"part": "quick", "score": "tv", "pair": "scale", "n": 200, "given": False}
    assert few["coverage"] == 0
    assert coverage.fault({**about, **few}) == ""
    assert "| not judged, 50 runs |" in coverage.markdown([{**about, **few}])
    assert coverage.fault({**about, **few, "replicates": 100}) == "covers too rarely"


def test_missing_intervals_are_counted():
    found = coverage.covered("clusters_area", [[0.5, None, None], [0.5, 0.4, 0.6], [0.5, 0.4, 0.6]], 200)
    assert (found["replicates"], found["missing"]) == (2, 1)


def test_alarms_and_power_are_counted():
    row = {"part": "alarms", "estimator": "linear", "pair": "d=2", "n": 60}
    said = ["Indistinguishable from the data."] * 80 + ["Close to the data."] * 5 + ["Invents: about 9 %."] * 15
    (found,) = coverage.summaries([{**row, "seed": i, "verdict": one} for i, one in enumerate(said)])
    assert (found["alarms"], found["close"], found["replicates"]) == (20, 5, 100)
    assert found["p_value"] < 1e-6
    assert "| linear | **20.0 %** |" in coverage.markdown([found])
    alike = [found, {**found, "estimator": "knn"}, {**found, "estimator": "mlp", "alarms": 5, "p_value": 0.5}]
    assert "| linear, knn | **20.0 %** |" in coverage.markdown(alike)
    assert "| mlp | 5.0 % |" in coverage.markdown(alike)
    power = {**row, "part": "power", "pair": "6 % dropped, d=2"}
    said = [
        "Drops modes: about 6 %",
        "Both drops modes (about 6 %) and invents",
        "Close to the data.",
        "Cannot tell: …",
    ]
    (found,) = coverage.summaries([{**power, "seed": i, "verdict": one} for i, one in enumerate(said)])
    assert "| 6 % dropped, d=2 | 60 | 2 of 4 | 3 of 4 |" in coverage.markdown([found])
    assert coverage.summaries([found]) == [found]


def test_replicates_are_spread_evenly_over_the_pairs():
    given = options(smoke=False, only=["auto", "power", "alarms"], sizes=(200, 1000), seeds=3, alarms=2, first_seed=0)
    tasks = coverage.tasks_of(given)
    auto = [task for task in tasks if task.part == "auto"]
    assert [task.n for task in auto] == [200] * 33 + [1000] * 33
    assert len({task.pair for task in auto[:11]}) == 11
    assert len(set(tasks)) == len(tasks)
    for task in tasks:
        real, fake = coverage.draw_of(task)(60, np.random.default_rng(0))
        assert real.shape[1] == fake.shape[1]


def test_the_dropped_modes_have_the_stated_mass():
    draw, sizes = coverage.POWER["6 % dropped, d=2"]
    real, fake = draw(20_000, np.random.default_rng(0))
    from scipy.spatial import cKDTree

    far = cKDTree(fake).query(real)[0] > 3
    assert sizes == (1000,)
    assert abs(far.mean() - 1 / 16) < 0.01


def test_intervals_that_cover_too_rarely_are_named():
    about = {"part": "quick", "score": "tv", "pair": "scale", "n": 200, "given": False, "boundary": False}
    rows = [{**about, "replicates": 100, "coverage": share, "relative_width": 1.5} for share in (0.8, 1.0, 0.95)]
    text = coverage.markdown(rows)
    assert "| tv | quick | 80–100 (91.7) | 1.50 | 2 of 3 |" in text
    assert "| covers too rarely | 1 | tv, scale, n = 200: 80.0 ± 4.0 % |" in text
    assert "| covers too often | 1 |  |" in text
