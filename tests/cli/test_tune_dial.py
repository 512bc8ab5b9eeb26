"""`precall tune` at several λ, with labels, another precision, and pictures that can be read."""

import json
import os
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from precall.cli import app
from precall.cli.tune import sentence
from precall.tune.checkpoints import read

SMALL = ("--model", "mlp", "--batch-size", 8, "--device", "cpu")


def named_lines(done):
    """The lines of a table without those of the intervals."""
    return [line for line in done.stdout.splitlines() if not line.startswith(" ")]


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(app, ["tune", *map(str, words)])


@pytest.fixture
def points(tmp_path):
    np.save(tmp_path / "points.npy", np.random.default_rng(0).normal(size=(200, 2)))
    return tmp_path / "points.npy"


def facts(out):
    return json.loads((out / "run.json").read_text())


@pytest.mark.usefixtures("drawn")
def test_several_lams_share_the_plain_steps(run, tmp_path):
    out = tmp_path / "dial"
    done = run("--data", "digits", "--steps", 20, "--lam", 0.1, "--lam", 10, "--out", out, *SMALL)
    assert done.exit_code == 0, done.output
    assert [line.split()[0] for line in named_lines(done)] == ["λ", "0.1", "10"]
    assert set(os.listdir(out)) == {"run.json", "dial.png", "plain", "lam-0.1", "lam-10"}
    steps = {name: read(out / name / "checkpoint.safetensors")[1]["step"] for name in ("plain", "lam-0.1", "lam-10")}
    assert steps == {"plain": 9, "lam-0.1": 11, "lam-10": 11}
    assert facts(out / "lam-10")["options"]["init"] == str(out / "plain")
    assert "PRObjective(lam=10.0, smoothing=1.0, form='log'" in facts(out / "lam-10")["objective"]
    assert set(facts(out)["results"]) == {"0.1", "10"}
    assert facts(out)["results"]["10"] == facts(out / "lam-10")["results"]
    with Image.open(out / "dial.png") as picture:
        assert min(picture.size) > 300


def test_a_dial_is_resumed_where_it_stopped(run, points, tmp_path, monkeypatch):
    from precall.tune.trainer import Trainer

    words, out = ("--data", points, "--steps", 10, "--lam", 0.1, "--lam", 10, *SMALL), tmp_path / "dial"
    assert run(*words, "--out", tmp_path / "whole").exit_code == 0
    fit, calls = Trainer.fit, []

    def interrupted(self, steps, progress=None):
        calls.append(steps)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return fit(self, steps, progress)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "fit", interrupted)
        stopped = run(*words, "--out", out)
    assert stopped.exit_code == 130
    assert f"resume with: precall tune --resume --out {out}" in stopped.output
    assert not (out / "dial.png").exists()
    done = run("--resume", "--out", out)
    assert done.exit_code == 0, done.output
    assert facts(out)["results"] == facts(tmp_path / "whole")["results"]


def steps_of(out):
    return {
        path.name: read(path / "checkpoint.safetensors")[1]["step"] for path in sorted(out.iterdir()) if path.is_dir()
    }


def test_a_dial_is_lengthened(run, points, tmp_path):
    words, out = ("--data", points, "--steps", 10, "--lam", 0.1, "--lam", 10, *SMALL), tmp_path / "dial"
    assert run(*words, "--out", out).exit_code == 0
    longer = run("--resume", "--steps", 13, "--out", out)
    assert longer.exit_code == 0, longer.output
    assert steps_of(out) == {"lam-0.1": 9, "lam-10": 9, "plain": 4}
    assert longer.output.count("planned for 6 steps, and the objective depends on that number") == 2
    assert facts(out)["options"]["steps"] == 13
    again = run("--resume", "--out", out)
    assert again.exit_code == 0, again.output
    assert "continued as planned" not in again.output
    shorter = run("--resume", "--steps", 12, "--out", out)
    assert shorter.exit_code == 1
    assert "--steps must be at least 13" in shorter.output


def test_a_dial_lengthened_before_its_last_run_began_is_the_same(run, points, tmp_path):
    words, out = ("--data", points, "--steps", 10, "--lam", 0.1, "--lam", 10, *SMALL), tmp_path / "dial"
    for name in ("whole", "dial"):
        assert run(*words, "--out", tmp_path / name).exit_code == 0
    shutil.rmtree(out / "lam-10")
    for name in ("whole", "dial"):
        assert run("--resume", "--steps", 12, "--out", tmp_path / name).exit_code == 0
    assert facts(out)["results"] == facts(tmp_path / "whole")["results"]
    assert facts(out / "lam-10")["options"]["planned_steps"] == 6


def test_a_dial_may_be_moved_and_one_of_its_runs_lengthened(run, points, tmp_path):
    words, out = ("--data", points, "--steps", 10, "--lam", 10, "--lam", 0.1, *SMALL), tmp_path / "dial"
    assert run(*words, "--out", out).exit_code == 0
    done = run("--resume", "--steps", 8, "--out", out / "lam-0.1")
    assert done.exit_code == 0, done.output
    moved = out.rename(tmp_path / "moved")
    (moved / "lam-10" / "checkpoint.safetensors").unlink()  # as if it had been killed at its start
    (moved / "lam-10" / "checkpoint.previous.safetensors").unlink()
    done = run("--resume", "--out", moved)
    assert done.exit_code == 0, done.output
    assert read(moved / "lam-0.1" / "checkpoint.safetensors")[1]["step"] == 8
    assert read(moved / "lam-10" / "checkpoint.safetensors")[1]["step"] == 6
    assert facts(moved)["results"]["0.1"] == facts(moved / "lam-0.1")["results"]
    assert [line.split()[:2] for line in named_lines(done)] == [["λ", "steps"], ["0.1", "8"], ["10", "6"]]
    assert f"lengthen the shorter ones with: precall tune --resume --steps 12 --out {moved}" in done.output
    equal = run("--resume", "--steps", 12, "--out", moved)
    assert steps_of(moved) == {"lam-0.1": 8, "lam-10": 8, "plain": 4}
    assert "steps" not in equal.stdout


def test_each_lam_of_a_flow_is_a_run_of_its_own(run, points, tmp_path):
    words = ("--data", points, "--model", "realnvp", "--device", "cpu", "--steps", 2, "--lam", 5, "--lam", 0.5)
    done = run(*words, "--out", tmp_path / "dial")
    assert done.exit_code == 0, done.output
    assert not (tmp_path / "dial" / "plain").exists()
    assert [line.split()[0] for line in named_lines(done)] == ["λ", "0.5", "5"]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--lam", 2, "--lam", 2), 1, "each given once"),
        (("--lam", 2, "--lam", -2), 1, "`lam.1` must lie between 0 and inf"),
        (("--lam", 2, "--lam", 3, "--objective", "gan"), 2, "gan has no λ"),
        (("--labels", "nowhere.txt"), 1, "`labels` must not be a file for `digits`, which has its own"),
        (("--labels", "data", "--model", "realnvp"), 1, "flows have none"),
        (("--precision", "fp8"), 2, "fp8"),
        (("--checkpoint-every", -1), 1, "`checkpoint_every` must be at least 0"),
    ],
)
def test_mistakes_cost_a_line_and_leave_nothing(run, tmp_path, words, status, said):
    done = run("--data", "digits", "--steps", 2, "--out", "x", *words)
    assert done.exit_code == status, done.output
    assert said in done.output
    assert not (tmp_path / "x").exists()


def score(low, high):
    return SimpleNamespace(interval=SimpleNamespace(low=low, high=high))


def test_the_sentence_claims_only_what_the_intervals_show():
    low, high = (0.1, 0.2), (0.5, 0.6)

    def of(*ends):
        return {
            lam: {"precision": score(*p), "recall": score(*r)} for lam, (p, r) in zip((10.0, 0.1), ends, strict=True)
        }

    assert sentence(of((high, low), (low, high))).startswith("precision rises and recall falls from λ = 0.1 to 10")
    assert "cannot tell whether precision rises," in sentence(of((low, low), (high, high)))
    assert "cannot tell whether recall falls," in sentence(of((high, (0.1, 0.55)), (low, high)))
    assert "cannot tell whether precision rises and recall falls," in sentence(of((low, high), (high, low)))


# ------------------------------------------------------------------------------------------------------- options


def test_networks_are_given_the_labels_on_request(run, tmp_path):
    for labels, classes in (("data", 10), ("none", 0)):
        out = tmp_path / labels
        done = run("--data", "digits", "--steps", 2, "--labels", labels, "--out", out, *SMALL)
        assert done.exit_code == 0, done.output
        assert facts(out)["options"]["labels"] == labels
        assert facts(out)["parameters"]["generator"] == 16 * 128 + 128 * classes + 128 + 129 * 128 + 129 * 64
        assert run("--resume", "--out", out).exit_code == 0


def test_samples_have_classes_in_the_proportions_of_the_data(run, points, tmp_path, monkeypatch):
    from precall.tune.trainer import Trainer

    (tmp_path / "labels.txt").write_text("rare\n" * 20 + "often\n" * 180)
    sample, drawn = Trainer.sample, []

    def noted(self, n, **others):
        drawn.append(others["labels"])
        return sample(self, n, **others)

    monkeypatch.setattr(Trainer, "sample", noted)
    done = run("--data", points, "--labels", "labels.txt", "--steps", 2, "--out", tmp_path / "run", *SMALL)
    assert done.exit_code == 0, done.output
    assert np.mean(drawn[0]) == pytest.approx(0.1, abs=0.03)  # of "rare"


def test_checkpoints_come_at_their_interval(run, points, tmp_path, monkeypatch):
    from precall.tune import checkpoints

    keep, steps = checkpoints.keep, []

    def noted(out, tensors, facts):
        steps.append(facts["step"])
        keep(out, tensors, facts)

    monkeypatch.setattr(checkpoints, "keep", noted)
    words = ("--data", points, "--steps", 5, *SMALL)
    assert run(*words, "--checkpoint-every", 2, "--out", tmp_path / "often").exit_code == 0
    assert steps == [0, 2, 4, 5]
    steps.clear()
    assert run(*words, "--checkpoint-every", 0, "--out", tmp_path / "once").exit_code == 0
    assert steps == [0, 5]


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # a CPU without bf16 falls back to slower code
def test_precision_reaches_the_arithmetic(run, points, tmp_path):
    samples = {}
    for precision in ("fp32", "bf16"):
        out = tmp_path / precision
        done = run("--data", points, "--steps", 2, "--precision", precision, "--out", out, *SMALL)
        assert done.exit_code == 0, done.output
        samples[precision] = np.load(out / "samples.npy")
    assert facts(tmp_path / "bf16")["settings"]["precision"] == "bf16-mixed"
    difference = np.abs(samples["bf16"] - samples["fp32"]).max()
    assert 0 < difference < 0.1


def test_a_folder_of_a_run_can_be_tuned(run, points, tmp_path):
    words = ("--data", points, "--steps", 2, *SMALL)
    assert run(*words, "--objective", "gan", "--out", tmp_path / "plain").exit_code == 0
    done = run(*words, "--lam", 3, "--init", tmp_path / "plain", "--out", tmp_path / "tuned")
    assert done.exit_code == 0, done.output
    assert facts(tmp_path / "tuned")["objective"].endswith("first=None, first_steps=0)")
    assert run("--resume", "--out", tmp_path / "tuned").exit_code == 0


def test_small_images_are_enlarged_with_lines_between(run, tmp_path):
    assert run("--data", "digits", "--steps", 2, "--out", tmp_path / "run", *SMALL).exit_code == 0
    picture = np.asarray(Image.open(tmp_path / "run" / "samples.png"))
    assert picture.shape == (520, 520)
    assert (picture[48::52] == 127).all()  # the lines
    assert (picture[:, 51::52] == 127).all()
    samples = np.load(tmp_path / "run" / "samples.npy")
    assert np.abs(picture[3:48:6, 3:48:6].astype(int) - samples[0, 0]).max() <= 1
