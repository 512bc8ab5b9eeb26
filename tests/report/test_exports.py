"""Tables for papers and spreadsheets, test reports, and runs over time."""

import csv
import io
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import precall
from precall.cli import app
from precall.metrics.scores.gates import Gate
from precall.metrics.scores.results import Comparison
from precall.metrics.scores.score import Interval, Score
from precall.report import exports, folder


@pytest.fixture(scope="module")
def found():
    x = np.random.default_rng(0).normal(size=(2, 80, 2))
    made = precall.assess(real=x[0], fake={"a_1": x[1], "=b|": x[1] + 3}, metrics=("neighbors", "fid"))
    return Comparison(made.assessments, (Gate("recall", "min", 0.5), Gate("fid", "max", 1.0)))


def test_rows_have_every_score_with_its_interval(found):
    rows = list(csv.DictReader(io.StringIO(exports.as_csv(found))))
    assert [row["model"] for row in rows] == ["a_1", "'=b|"]  # no formula of a spreadsheet
    score = found["a_1"].scores["recall"]
    assert float(rows[0]["recall"]) == score.value
    assert float(rows[0]["recall_high"]) == score.interval.high


def test_a_frame_has_one_row_per_model(found):
    pytest.importorskip("pandas")
    frame = found.to_frame()
    assert frame.loc["a_1", "fid"] == found["a_1"].fid.value
    assert list(found["a_1"].to_frame().index) == ["a_1"]


def test_tables_are_escaped(found):
    assert r"| =b\| |" in exports.as_markdown(found)
    assert r"a\_1 &" in exports.as_latex(found)


def test_a_model_card_is_yaml(found):
    yaml = pytest.importorskip("yaml")
    (first, _) = yaml.safe_load(exports.as_model_card(found))["model-index"]
    metrics = {one["type"]: one["value"] for one in first["results"][0]["metrics"]}
    assert metrics["recall"] == found["a_1"].scores["recall"].value


def test_gates_are_test_cases(found):
    suite = ET.fromstring(exports.as_junit(found))
    failed = [case.get("classname") for case in suite if case.find("failure") is not None]
    assert failed == ["=b|", "=b|"]
    assert (suite.get("tests"), suite.get("failures")) == ("4", "2")


def test_forbidden_kinds_are_test_cases(found):
    forbidden = replace(found, gates=(), fail_on=found["a_1"].verdict.kinds)
    suite = ET.fromstring(exports.as_junit(forbidden))
    assert [case.get("name") for case in suite[:2]] == ["verdict", "verdict"]
    assert suite[0].find("failure").get("message") == ", ".join(found["a_1"].verdict.kinds)


@pytest.mark.parametrize("suffix", sorted(exports.EXPORTS))
def test_the_command_writes_them(found, suffix, tmp_path):
    folder.write(found, tmp_path / "report")
    out = tmp_path / f"table{suffix}"
    done = CliRunner().invoke(app, ["report", str(tmp_path / "report"), "--out", str(out)])
    assert done.exit_code == 0
    assert "recall" in out.read_text()


def test_history_marks_regressions_and_widens_intervals(found, tmp_path):
    def run(value):
        interval = Interval(value - 0.01, value + 0.01, 0.95, "it")
        return Comparison({"m": precall_like(found["a_1"], {"recall": Score(value, interval)})})

    said = exports.history({"step1": run(0.5), "step2": run(0.7), "step3": run(0.6)}).splitlines()
    assert "!" not in said[2] + said[3]
    assert said[4].endswith("!")
    first, third = (float(line.split("[")[1].split(",")[0]) for line in (said[2], said[4]))
    assert 0.5 - first < 0.6 - third
    runs = tmp_path / "[runs]*"  # no pattern
    for name in ("10", "9"):
        folder.write(found, runs / name)
    done = CliRunner().invoke(app, ["report", str(runs), "--history"])
    assert done.exit_code == 0
    listed = [line.split()[0] for line in done.output.splitlines()]
    assert [word for word in listed if word.isdigit()][:2] == ["9", "10"]
    assert {"a_1", "=b|"} <= set(listed)
    assert max(map(len, done.output.splitlines())) <= 80


def precall_like(one, scores):
    from dataclasses import replace

    return replace(one, scores=scores)
