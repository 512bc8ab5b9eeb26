"""`precall tradeoff`: the table, the recommendation, the folder, and what is refused before anything is computed."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from precall.cli import app


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Data, and samples that are too narrow at 0.5 and too wide at 2."""
    rng = np.random.default_rng(0)
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    np.save("real.npy", rng.normal(size=(200, 2)))
    for name, scale in {"narrow": 0.5, "right": 1.0, "wide": 2.0}.items():
        np.save(f"{name}.npy", scale * rng.normal(size=(200, 2)))
    return tmp_path


ALL = ["--fake", "ours@2=wide.npy", "--fake", "ours@0.5=narrow.npy", "--fake", "theirs@1=right.npy"]


def run(*words):
    return CliRunner().invoke(app, ["tradeoff", "--real", "real.npy", "--metrics", "clusters", *map(str, words)])


def test_table_recommendation_and_folder(files):
    done = run(*ALL, "--lam", 1, "--recall", 0.9, "--out", "report")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines if re.match(r"\w+$|  [\d.]+ ", line)] == [
        "ours",
        "0.5",
        "2",
        "theirs",
        "1",
    ]
    assert any(line.startswith("For λ = 1, use theirs at 1: α(1) = ") for line in lines)
    assert any(line.startswith("For a recall of at least 0.9, use theirs at 1: precision = ") for line in lines)
    assert '"knob":{"models":[{"name":"ours"' in (files / "report" / "report.html").read_text()
    again = CliRunner().invoke(app, ["report", "report", "--out", "page.html"])
    assert again.stdout.splitlines()[0] == lines[0]
    assert '"knob":{"models":[{"name":"ours"' in (files / "page.html").read_text()


def test_settings_are_kept_in_the_cache(files):
    run(*ALL)
    assert "results from the cache" in run(*ALL).stderr
    more = run(*ALL, "--fake", "ours@1=right.npy")
    assert "results of ours@0.5, ours@2, theirs@1 from the cache" in more.stderr


def test_json_is_all_that_is_printed(files):
    done = run(*ALL, "--lam", 1, "--json")
    found = json.loads(done.stdout)
    assert set(found) == {"schema", "models", "tradeoff", "command"}
    assert "use theirs at 1" in done.stderr


def test_a_recall_that_no_setting_reaches_is_a_gate_that_is_not_met(files):
    done = run("--fake", "ours@0.5=narrow.npy", "--recall", 0.99)
    assert done.exit_code == 3
    assert "gate not met: no setting reaches a recall of 0.99: the best is ours@0.5" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--fake", "ours=wide.npy"), "expected model@setting=path"),
        (("--fake", "ours@hot=wide.npy"), "expected model@setting=path"),
        (("--fake", "ours@nan=wide.npy"), "expected model@setting=path"),
        (("--fake", "@1=wide.npy"), "expected model@setting=path"),
        (("--fake", "ours@1=wide.npy", "--fake", "ours@1.0=right.npy"), "given twice"),
        (("--fake", "ours@1=wide.npy", "--lam", 0), "expected a positive number; got 0"),
        (("--fake", "ours@1=wide.npy", "--lam", "inf"), "expected a positive number; got inf"),
        (("--fake", "ours@1=wide.npy", "--recall", 1.2), "expected a number between 0 and 1; got 1.2"),
        (("--fake", "ours@1=wide.npy", "--metrics", "fid"), "expected an estimator of the curve"),
        (("--fake", "ours@1=wide.npy", "--key", "x"), "none of the sources has names"),
    ],
)
def test_usage_is_checked_first(files, words, said):
    done = run(*words)
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())
