"""The command line as a user types it."""

import json
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from precall.cli import app

QUICK = ["--metrics", "neighbors,clusters,fid"]


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    real = rng.normal(size=(120, 3))
    paths = {}
    for name, array in (("real", real), ("same", rng.normal(size=(110, 3))), ("far", real + 9)):
        paths[name] = tmp_path / f"{name}.npy"
        np.save(paths[name], array)
    return paths


def test_two_files_one_answer(run, files):
    done = run("assess", "--real", files["real"], "--fake", files["same"], "--fake", f"away={files['far']}", *QUICK)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["model", "precision", "recall", "density", "coverage", "fid", "area"]
    assert lines[1].startswith("same.npy")
    assert lines[2].startswith("away")
    assert "chance" in lines[3]


def test_json_on_stdout_is_the_assessment(run, files):
    done = run("assess", "--real", files["real"], "--fake", f"away={files['far']}", *QUICK, "--json", "--seed", 7)
    found = json.loads(done.stdout)
    assert found["models"]["away"]["scores"]["precision"]["value"] == 0
    assert found["models"]["away"]["protocol"]["seed"] == 7
    assert found["command"].startswith("precall")


def test_out_writes_page_json_and_picture_that_report_reads_again(run, files, tmp_path):
    out = tmp_path / "new" / "report"
    done = run("assess", "--real", files["real"], "--fake", f"away={files['far']}", *QUICK, "--out", out)
    assert done.exit_code == 0, done.output
    assert {path.name for path in out.iterdir()} == {"report.html", "results.json", "curves.png"}
    again = run("report", out / "results.json", "--out", tmp_path / "curves.svg")
    assert again.exit_code == 0, again.output
    assert again.stdout.startswith("away: ")
    assert (tmp_path / "curves.svg").read_text().lstrip().startswith("<?xml")


@pytest.mark.parametrize(
    ("gate", "status"),
    [(("--min-precision", 0.5), 3), (("--max-fid", 1), 3), (("--min-precision", 0), 0), (("--max-fid", 1e6), 0)],
)
def test_gates_decide_the_exit_status(run, files, gate, status):
    done = run("assess", "--real", files["real"], "--fake", files["far"], *QUICK, *gate)
    assert done.exit_code == status
    assert ("gate not met" in done.output) == (status == 3)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--real", "nowhere", "--fake", "nowhere"), 1, "must be a folder or file that exists"),
        (("--real", "{real}"), 2, "--fake"),
        (("--real", "{real}", "--fake", "{same}", "--rael", "x"), 2, "No such option"),
        (("--real", "{real}", "--fake", "{same}", "--metrics", "fdi"), 2, "unknown metric 'fdi'"),
        (("--real", "{real}", "--fake", "{same}", "--ties", "half"), 2, "half"),
        (("--real", "{real}", "--fake", "{same}", "--k", "500"), 1, "`k` must be a whole number"),
        (("--real", "{real}", "--fake", "{same}", "--fake", "{same}"), 2, "same name"),
        (("--real", "{real}", "--fake", "{same}", "--metrics", "fid", "--min-area", "1"), 1, "add its metric"),
    ],
)
def test_mistakes_cost_a_line_and_the_right_status(run, files, words, status, said):
    done = run("assess", *(word.format(**files) for word in words))
    assert done.exit_code == status, done.output
    assert said in done.output
    assert "Traceback" not in done.output


def test_debug_shows_the_traceback(run):
    done = run("--debug", "assess", "--real", "nowhere", "--fake", "nowhere")
    assert isinstance(done.exception, ValueError)


def test_folders_with_a_broken_image_fail_or_skip_as_asked(run, tmp_path):
    rng = np.random.default_rng(0)
    for side in ("real", "fake"):
        (tmp_path / side).mkdir()
        for i in range(12):
            Image.fromarray(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)).save(tmp_path / side / f"{i}.png")
    (tmp_path / "fake" / "broken.png").write_bytes(b"not a picture")
    words = (
        "assess",
        "--real",
        tmp_path / "real",
        "--fake",
        tmp_path / "fake",
        "--encoder",
        "pixels",
        "--metrics",
        "fid",
    )
    failed = run(*words)
    assert failed.exit_code == 1
    assert "broken.png" in failed.output
    skipped = run(*words, "--on-error", "skip")
    assert skipped.exit_code == 0, skipped.output
    assert "skipped 1 of 13" in skipped.output


def test_encode_writes_features_and_their_protocol(run, tmp_path):
    (tmp_path / "texts.txt").write_text("one line\nanother line\n")
    done = run("encode", tmp_path / "texts.txt", "--encoder", "ngrams", "--out", tmp_path / "features.npy")
    assert done.exit_code == 0, done.output
    assert np.load(tmp_path / "features.npy").shape == (2, 1024)
    assert json.loads((tmp_path / "features.json").read_text())["encoder"] == "ngrams"


def test_cite_names_the_papers(run):
    assert "Sajjadi et al. (2018)" in run("cite").stdout


def test_the_installed_command_answers():
    done = subprocess.run([sys.executable, "-m", "precall", "--help"], capture_output=True, text=True, check=True)
    assert "precall demo" in done.stdout
