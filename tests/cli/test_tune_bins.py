"""`precall tune --bins`: one model for every λ."""

import json
import os

import numpy as np
import pytest
from typer.testing import CliRunner

from precall.cli import app
from precall.tune.checkpoints import read

SMALL = ("--data", "digits", "--model", "mlp", "--batch-size", 8, "--device", "cpu", "--bins", 3)


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(app, ["tune", *map(str, words)])


def facts(out):
    return json.loads((out / "run.json").read_text())


def test_one_training_serves_several_lams(run, tmp_path):
    out = tmp_path / "dial"
    done = run(*SMALL, "--steps", 4, "--lam", 0.1, "--lam", 10, "--out", out)
    assert done.exit_code == 0, done.output
    assert [line.split()[0] for line in done.stdout.splitlines() if "–" not in line.split()[0]] == ["λ", "0.1", "10"]
    kept = {"checkpoint.safetensors", "checkpoint.previous.safetensors", "log.csv", "run.json"}
    assert set(os.listdir(out)) == kept | {"dial.png", "lam-0.1", "lam-10"}
    assert set(os.listdir(out / "lam-10")) == {"samples.npy", "samples.png"}
    assert facts(out)["options"]["objective"] == "gan"
    assert set(facts(out)["results"]) == {"0.1", "10"}
    assert not np.array_equal(np.load(out / "lam-10" / "samples.npy"), np.load(out / "lam-0.1" / "samples.npy"))


def test_lam_may_change_after_the_training(run, tmp_path):
    out = tmp_path / "run"
    assert run(*SMALL, "--steps", 4, "--lam", 2, "--out", out).exit_code == 0
    trained = (out / "checkpoint.safetensors").read_bytes()
    first, before = np.load(out / "samples.npy"), facts(out)["results"]["2"]
    done = run("--resume", "--lam", 9, "--out", out)
    assert done.exit_code == 0, done.output
    assert (out / "checkpoint.safetensors").read_bytes() == trained
    assert not np.array_equal(first, np.load(out / "samples.npy"))
    assert facts(out)["options"]["lam"] == 9
    assert set(facts(out)["results"]) == {"2", "9"}
    assert run("--resume", "--lam", 2, "--out", out).exit_code == 0
    assert facts(out)["results"]["2"] == before
    assert run("--resume", "--lam", 1, "--lam", 2, "--steps", 5, "--out", out).exit_code == 0
    assert read(out / "checkpoint.safetensors")[1]["step"] == 5
    assert set(facts(out)["results"]) == {"1", "2"}  # 9 was measured before the last step


def test_an_encoder_of_the_user_must_be_named_again(run, tmp_path, monkeypatch):
    (tmp_path / "my_features.py").write_text(
        "def corners(images):\n    return [image[:2, :2, 0].ravel() for image in images]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    own, out = ("--bins-encoder", "my_features:corners"), tmp_path / "run"
    done = run(*SMALL, *own, "--steps", 2, "--out", out)
    assert done.exit_code == 0, done.output
    forgotten = run("--resume", "--steps", 3, "--out", out)
    assert forgotten.exit_code == 1
    assert "add: --bins-encoder my_features:corners" in forgotten.output
    assert run("--resume", "--steps", 3, *own, "--out", out).exit_code == 0


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--bins", 3, "--objective", "pr"), 2, "with --bins the loss is gan"),
        (("--bins", 3, "--model", "realnvp"), 1, "flows have none"),
        (("--bins", -1), 1, "`bins` must be at least 0"),
        (("--bins", 3, "--bins-encoder", "minilm"), 1, "encoder `minilm` accepts text; got images"),
        (("--bins-encoder", "pixels"), 2, "only --bins have an encoder"),
        (("--bins", 3, "--lam", -2), 1, "`lam` must lie between 0 and inf"),
    ],
)
def test_mistakes_cost_a_line_and_leave_nothing(run, tmp_path, words, status, said):
    done = run("--data", "digits", "--steps", 2, "--out", "x", *words)
    assert done.exit_code == status, done.output
    assert said in done.output
    assert not (tmp_path / "x").exists()
