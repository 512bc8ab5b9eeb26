"""`precall tune` as a user types it."""

import builtins
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from cli import launches
from precall.cli import app
from precall.tune.checkpoints import read

SMALL = ("--model", "mlp", "--batch-size", 8, "--device", "cpu")


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(app, ["tune", *map(str, words)])


def points_in(folder):
    np.save(folder / "points.npy", np.random.default_rng(0).normal(size=(200, 2)))
    return folder / "points.npy"


@pytest.fixture
def points(tmp_path):
    return points_in(tmp_path)


def test_a_run_leaves_all_that_is_needed(run, tmp_path):
    out = tmp_path / "runs" / "lam5"
    done = run("--data", "digits", "--steps", 6, "--lam", 5, "--seed", 3, "--out", out, *SMALL)
    assert done.exit_code == 0, done.output
    scores = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert list(scores) == ["precision", "recall", "density", "coverage"]
    checkpoints = {"checkpoint.safetensors", "checkpoint.previous.safetensors"}
    assert {*checkpoints, "log.csv", "run.json", "samples.npy", "samples.png"} == set(os.listdir(out))
    assert str(out / "checkpoint.safetensors") in done.stderr
    facts = json.loads((out / "run.json").read_text())
    assert facts["options"]["lam"] == 5
    assert facts["settings"]["batch_size"] == 8
    assert facts["seed"] == facts["settings"]["seed"] == 3
    assert "PRObjective(lam=5.0" in facts["objective"]
    assert set(facts["versions"]) == {"precall", "python", "torch", "lightning", "numpy"}
    assert facts["results"]["precision"]["n_real"] == 599
    samples = np.load(out / "samples.npy")
    assert (samples.shape, samples.dtype) == ((1000, 1, 8, 8), np.uint8)
    assert read(out / "checkpoint.safetensors")[1]["step"] == 6


def test_log_sends_the_numbers_of_the_training_to_a_tracker(run, points, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    target = f"tensorboard:{tmp_path / 'logs'}"
    assert run("--data", points, "--steps", 4, "--log", target, "--out", tmp_path / "run", *SMALL).exit_code == 0
    found = EventAccumulator(str(tmp_path / "logs" / "run")).Reload()
    rows = [line.split(",") for line in (tmp_path / "run" / "log.csv").read_text().split()]
    logged = {(int(step), name): float(value) for step, name, value in rows}
    scalars = {
        (e.step, tag): e.value for tag in found.Tags()["scalars"] if tag != "hp_metric" for e in found.Scalars(tag)
    }
    assert scalars == pytest.approx(logged, rel=1e-5)
    done = run("--data", points, "--log", "nowhere:x", "--out", tmp_path / "other", *SMALL)
    assert done.exit_code == 2
    assert "expected wandb:project" in done.output
    assert not (tmp_path / "other").exists()


def test_json_is_run_json_and_assessments_and_tensorboard_are_as_asked(run, points, tmp_path):
    out = tmp_path / "run"
    words = ("--data", points, "--steps", 4, "--assess-every", 2, "--tensorboard", "--json", "--out", out, *SMALL)
    done = run(*words, "--objective", "obrs", "--budget", 3)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == json.loads((out / "run.json").read_text())
    assert "budget=3.0" in json.loads(done.stdout)["objective"]
    assert (out / "samples-0000002.png").exists()
    assert any(name.startswith("events.out") for name in os.listdir(out / "tensorboard" / "run"))
    logged = {line.split(",")[1] for line in (out / "log.csv").read_text().splitlines()}
    assert {"precision", "recall", "generator_loss"} <= logged
    samples = np.load(out / "samples.npy")
    assert (samples.shape, samples.dtype) == ((1000, 2), np.float64)


def test_unknown_data_is_refused_before_heavy_imports(run, monkeypatch):
    monkeypatch.setattr("precall.tune.processes.on_device", lambda *_: pytest.fail("Lightning was imported"))
    done = run("--data", "nowhere", "--out", "x")
    assert done.exit_code == 1
    assert "or a path that exists; got `nowhere`" in done.output


def test_a_folder_with_something_in_it_is_refused(run, points, tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    done = run("--data", points, "--steps", 1, "--out", out, *SMALL)
    assert done.exit_code == 1
    assert "must be new or empty" in done.output
    assert os.listdir(out) == ["notes.txt"]


def bits(out):
    tensors, facts = read(out / "checkpoint.safetensors")
    return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}, facts


@pytest.fixture
def one_thread():
    """The bits of a sum depend on who adds what."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def interrupted_at(step, monkeypatch):
    """Ctrl-C right after that step."""
    from precall.tune.trainer import Trainer

    after = Trainer._after

    def once(self, row, total, progress):
        after(self, row, total, progress)
        if self.step == step:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Trainer, "_after", once)


def steps_taken(monkeypatch):
    """The steps that trainers take from now on."""
    from precall.tune.trainer import Trainer

    one_step, taken = Trainer.one_step, []

    def noted(self, objective):
        taken.append(self.step)
        return one_step(self, objective)

    monkeypatch.setattr(Trainer, "one_step", noted)
    return taken


@pytest.mark.usefixtures("one_thread")
def test_interrupted_and_resumed_ends_in_the_same_bits(run, points, tmp_path, monkeypatch):
    words = ("--data", points, "--steps", 6, "--lam", 0.2, "--model", "realnvp", "--device", "cpu")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert run(*words, "--out", whole).exit_code == 0
    with monkeypatch.context() as patch:
        interrupted_at(3, patch)
        stopped = run(*words, "--out", parts)
    assert stopped.exit_code == 130
    assert f"interrupted at step 3 of 6; resume with: precall tune --resume --out {parts}" in stopped.output
    assert read(parts / "checkpoint.safetensors")[1]["step"] == 3
    with monkeypatch.context() as patch:
        taken = steps_taken(patch)
        done = run("--resume", "--out", parts)
    assert done.exit_code == 0, done.output
    assert taken == [3, 4, 5]
    assert bits(parts) == bits(whole)
    assert (parts / "log.csv").read_text() == (whole / "log.csv").read_text()


def test_a_resumed_run_is_the_same_run(run, points, tmp_path):
    out = tmp_path / "run"
    assert run("--data", points, "--steps", 2, "--lam", 4, "--out", out, *SMALL).exit_code == 0
    assert run("--resume", "--lam", 4, "--out", out).exit_code == 0
    done = run("--resume", "--lam", 5, "--out", out)
    assert done.exit_code == 1
    assert "--lam must be 4.0, as when" in done.output
    assert "got 5.0" in done.output
    nothing = run("--resume", "--out", tmp_path / "nothing")
    assert nothing.exit_code == 1
    assert "no run to resume" in nothing.output


def test_fine_tuning_can_be_resumed_without_the_first_run(run, points, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    flow = ("--data", points, "--model", "realnvp", "--device", "cpu", "--steps", 2)
    assert run(*flow, "--objective", "likelihood", "--out", first).exit_code == 0
    start = first / "checkpoint.safetensors"
    done = run(*flow, "--lam", 8, "--init", start, "--out", second)
    assert done.exit_code == 0, done.output
    assert json.loads((second / "run.json").read_text())["settings"]["warmup"] == 0
    start.unlink()
    assert run("--resume", "--out", second).exit_code == 0


def test_fine_tuning_from_the_precise_end(run, points, tmp_path):
    plain, narrow = tmp_path / "plain", tmp_path / "narrow"
    assert run("--data", points, "--steps", 2, "--out", plain, *SMALL).exit_code == 0
    words = ("--data", points, "--steps", 2, *SMALL, "--init")
    done = run(*words, plain / "checkpoint.safetensors", "--truncation", 0.5, "--out", narrow)
    assert done.exit_code == 0, done.output
    assert json.loads((narrow / "run.json").read_text())["settings"]["truncation"] == 0.5
    forgotten = run(*words, narrow / "checkpoint.safetensors", "--out", tmp_path / "third")
    assert forgotten.exit_code == 1
    assert "Set `truncation` to 0.5" in forgotten.output
    assert not (tmp_path / "third").exists()


@pytest.fixture
def my_networks(tmp_path, monkeypatch):
    """A module with a network, in the working directory, which is not searched."""
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place not in ("", str(tmp_path))])
    monkeypatch.delitem(sys.modules, "my_networks", raising=False)
    (tmp_path / "my_networks.py").write_text(
        "from torch import nn\n"
        "class Mine(nn.Module):\n"
        "    classes, latent_shape = 0, (3,)\n"
        "    def __init__(self, shape):\n"
        "        super().__init__()\n"
        "        self.net = nn.Linear(3, *shape)\n"
        "    def forward(self, z, labels=None):\n"
        "        return self.net(z)\n"
    )
    return tmp_path


def test_the_working_directory_is_searched_only_on_request(run, points, my_networks, monkeypatch):
    words = ("--data", points, "--steps", 2, "--generator", "my_networks:Mine", "--out", my_networks / "run")
    refused = run(*words)
    assert refused.exit_code == 1
    assert "No module named 'my_networks'" in refused.output
    assert "set PYTHONPATH=. first" in refused.output
    monkeypatch.syspath_prepend(my_networks)  # what PYTHONPATH=. does
    done = run(*words)
    assert done.exit_code == 0, done.output
    assert json.loads((my_networks / "run" / "run.json").read_text())["parameters"]["generator"] == 8


def test_own_networks_are_given_again(run, points, my_networks, monkeypatch):
    monkeypatch.syspath_prepend(my_networks)
    out, own = my_networks / "run", ("--generator", "my_networks:Mine")
    with monkeypatch.context() as patch:
        interrupted_at(1, patch)
        stopped = run("--data", points, "--steps", 3, *own, "--out", out)
    assert f"resume with: precall tune --resume --out {out} --generator my_networks:Mine" in stopped.output
    forgotten = run("--resume", "--out", out)
    assert forgotten.exit_code == 1
    assert "add: --generator my_networks:Mine" in forgotten.output
    assert run("--resume", *own, "--out", out).exit_code == 0


def test_a_run_that_stops_says_why(run, points, tmp_path, monkeypatch):
    from precall.tune.watch import TrainingStopped, Watch

    def stop(self, row, step):
        raise TrainingStopped("the discriminator has collapsed. Lower `discriminator_lr`.")

    monkeypatch.setattr(Watch, "read", stop)
    done = run("--data", points, "--steps", 2, "--out", tmp_path / "run", *SMALL)
    assert done.exit_code == 1
    assert "precall: the discriminator has collapsed" in done.output


def test_without_lightning_one_sentence(run, points, tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **others):
        if name.startswith("lightning"):
            raise ImportError(name)
        return real(name, *rest, **others)

    monkeypatch.setattr(builtins, "__import__", without)
    done = run("--data", points, "--out", tmp_path / "run")
    assert done.exit_code == 1
    assert "training requires Lightning" in done.output


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--out", "x"), 2, "pass the data"),
        (("--data", "digits"), 2, "--out"),
        (("--data", "digts", "--out", "x"), 1, "must be one of 8-gaussians"),
        (("--data", "digits", "--model", "gan", "--out", "x"), 2, "gan"),
        (("--data", "digits", "--objective", "gan", "--lam", 2, "--out", "x"), 2, "gan has no λ"),
        (("--data", "digits", "--budget", 2, "--out", "x"), 2, "only the objective obrs"),
        (("--data", "digits", "--lam", -1, "--out", "x"), 1, "`lam` must lie between 0 and inf"),
        (("--data", "digits", "--steps", 0, "--out", "x"), 1, "`steps` must be"),
        (("--data", "digits", "--device", "abacus", "--out", "x"), 1, "--device must be available"),
        (("--data", "digits", "--init", "none", "--out", "x"), 1, "there is no such file"),
        (("--data", "digits", "--model", "conv", "--objective", "likelihood", "--out", "x"), 1, "requires a flow"),
    ],
)
def test_mistakes_cost_a_line_and_leave_nothing(run, tmp_path, words, status, said):
    done = run(*words)
    assert done.exit_code == status, done.output
    assert said in done.output
    assert "Traceback" not in done.output
    assert not (tmp_path / "x").exists()


@pytest.fixture(scope="module")
def launched(tmp_path_factory, python):
    """The folders of the runs that had processes of their own."""
    out = tmp_path_factory.mktemp("launched")
    # without coverage.py, which cannot write its file to a full disk either
    environment = {name: value for name, value in os.environ.items() if name != "COVERAGE_PROCESS_CONFIG"}
    command = [*python("lightning.fabric"), launches.__file__, out]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_real_interrupt_keeps_a_checkpoint(launched, name):
    """Ctrl-C or SIGTERM in a real process, wherever it falls."""
    assert (launched / name / "status").read_text() == "130"
    assert "resume with: precall tune --resume --out" in " ".join((launched / name / "said").read_text().split())
    assert 0 < read(launched / name / "run" / "checkpoint.safetensors")[1]["step"] < 100_000


@pytest.mark.parametrize(
    ("name", "steps", "folders"),
    [("shared", 3, ["."]), ("resumed", 6, ["."]), ("dial", None, ["plain", "lam-0.1", "lam-10"])],
)
def test_two_processes_train_as_one(launched, name, steps, folders):
    """Each takes half of every batch, with the draws of one process that has the whole batch."""
    one, two = (launched / f"{name} {'of' if name == 'dial' else 'by'} {n}" for n in (1, 2))
    assert [(place / "status").read_text() for place in (one, two)] == ["0", "0"], (two / "said").read_text()
    for folder in folders:
        places = [place / "run" / folder for place in (one, two)]
        weights, facts = zip(*(read(place / "checkpoint.safetensors") for place in places), strict=True)
        assert facts[0]["step"] == facts[1]["step"] == (steps or facts[0]["step"]) > 0
        names = [name for name in weights[0] if name.startswith(("generator/", "discriminator/", "average/"))]
        assert len(names) > 10
        for each in names:
            torch.testing.assert_close(weights[0][each], weights[1][each], atol=1e-5, rtol=1e-4)
        logs = [[line.split(",") for line in (place / "log.csv").read_text().splitlines()] for place in places]
        assert [row[:2] for row in logs[0]] == [row[:2] for row in logs[1]]
    results = [json.loads((place / "run" / "run.json").read_text())["results"] for place in (one, two)]
    assert results[0].keys() == results[1].keys() == ({"0.1", "10"} if name == "dial" else results[0].keys())


def test_an_interrupt_ends_both_processes_with_a_checkpoint(launched):
    assert (launched / "two" / "status").read_text() == "130"
    assert (launched / "two" / "left").read_text() == ""
    assert 0 < read(launched / "two" / "run" / "checkpoint.safetensors")[1]["step"] < 100_000


def test_a_process_that_is_killed_ends_the_other_with_a_sentence(launched):
    assert (launched / "lost" / "status").read_text() == "1"
    assert (launched / "lost" / "left").read_text() == ""
    assert "process 2 of 2 stopped: it was killed" in " ".join((launched / "lost" / "said").read_text().split())


def test_a_batch_must_be_divisible(run, points, tmp_path):
    done = run("--data", points, "--steps", 1, "--batch-size", 9, "--processes", 2, "--out", tmp_path / "run")
    assert done.exit_code == 1
    assert "must be a multiple of the number of processes, 2; got 9" in " ".join(done.output.split())
    assert not (tmp_path / "run").exists()


# ------------------------------------------------------------------------------------------------------- trust


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a finished run, which tests must not change."""
    place = tmp_path_factory.mktemp("trained")
    words = ("--data", points_in(place), "--steps", 2, "--out", place / "run", *SMALL)
    assert CliRunner().invoke(app, ["tune", *map(str, words)]).exit_code == 0
    return place / "run"


@pytest.fixture
def finished(trained, tmp_path):
    """The folder of a finished run."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


def rewritten(out, **options):
    facts = json.loads((out / "run.json").read_text())
    facts["options"] |= options
    (out / "run.json").write_text(json.dumps(facts))


@pytest.mark.parametrize("name", ["generator", "discriminator"])
@pytest.mark.parametrize("path", ["os:system", "evil:Network", "precall.tune.models.mlp:MLPGenerator"])
def test_a_run_folder_chooses_no_code(run, finished, tmp_path, name, path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'owned')!r}, 'w').close()")
    called = []
    monkeypatch.setattr(os, "system", called.append)
    rewritten(finished, **{name: path})
    done = run("--resume", "--out", finished)
    assert done.exit_code == 1
    assert f"add: --{name} {path}" in done.output
    assert "evil" not in sys.modules
    assert not called
    assert not (tmp_path / "owned").exists()


def test_what_is_no_network_costs_a_sentence(run, points, tmp_path):
    for path in ("math:sqrt", "os:getcwd", "builtins:print"):
        done = run("--data", points, "--steps", 1, "--generator", path, "--out", tmp_path / "run")
        assert done.exit_code == 1
        assert "the network" in done.output
        assert not (tmp_path / "run").exists()


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        "1",
        "{",
        '{"options": null}',
        '{"options": {}}',
        '{"options": []}',
        DEEP,
        "\x00",
        "9" * 5000,
    ],
    ids=str,
)
def test_a_run_json_that_is_none_costs_a_sentence(run, finished, text):
    (finished / "run.json").write_text(text)
    done = run("--resume", "--out", finished)
    assert done.exit_code == 1
    assert "must describe a run as precall wrote it" in done.output
    assert len(done.output) < 1000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("data", 3),
        ("data", None),
        ("data", "x" * 10_000),
        ("model", "os:system"),
        ("model", []),
        ("objective", None),
        ("objective", "wgan"),
        ("lam", "5"),
        ("lam", float("inf")),
        ("lam", float("nan")),
        ("lam", -1),
        ("lam", True),
        ("budget", 0.5),
        ("steps", 0),
        ("steps", 1e3),
        ("steps", 10**4000),
        ("batch_size", 10**10),
        ("seed", -1),
        ("seed", 2**80),
        ("seed", None),
        ("truncation", 2),
        ("init", {"a": 1}),
        ("generator", ["os:system"]),
        ("assess_every", -5),
        ("planned_steps", "many"),
        ("lam", []),
        ("lam", [2.0, 2.0]),
        ("lam", [1.0, -1.0]),
        ("lam", [float(i) for i in range(1, 30)]),
        ("checkpoint_every", -1),
        ("labels", 3),
        ("precision", "fp8"),
        ("more", 1),
    ],
)
def test_every_option_of_a_run_json_is_checked(run, finished, name, value):
    rewritten(finished, **{name: value})
    done = run("--resume", "--out", finished)
    assert done.exit_code == 1
    assert "must describe a run as precall wrote it" in done.output
    assert not isinstance(done.exception, Exception)
    assert len(done.output) < 1000


@pytest.mark.usefixtures("one_thread")
def test_a_run_killed_before_its_first_checkpoint_can_be_resumed(run, points, tmp_path, monkeypatch):
    from precall.tune import checkpoints

    words, out = ("--data", points, "--steps", 2, "--objective", "obrs", *SMALL), tmp_path / "run"

    def killed(*_):
        raise SystemExit(9)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "keep", killed)
        run(*words, "--out", out)
    assert os.listdir(out) == ["run.json"]
    done = run("--resume", "--out", out)
    assert done.exit_code == 0, done.output
    assert run(*words, "--out", tmp_path / "whole").exit_code == 0
    assert bits(out) == bits(tmp_path / "whole")


def test_a_run_killed_while_it_wrote_its_first_file_can_be_started(run, points, tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    (out / "run.json.123-abcdef01.tmp").write_text("{")
    assert "Start it without --resume" in run("--resume", "--out", out).output
    assert run("--data", points, "--steps", 1, "--out", out, *SMALL).exit_code == 0


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    "words", [("--objective", "obrs"), ("--model", "realnvp", "--objective", "likelihood"), ("--objective", "gan")]
)
def test_a_lengthened_run_equals_a_longer_one_where_nothing_depends_on_its_length(run, points, tmp_path, words):
    given = ("--data", points, "--batch-size", 8, "--device", "cpu", *words)
    given = given if "--model" in words else (*given, "--model", "mlp")
    assert run(*given, "--steps", 3, "--out", tmp_path / "parts").exit_code == 0
    longer = run("--resume", "--steps", 5, "--out", tmp_path / "parts")
    assert longer.exit_code == 0, longer.output
    assert run(*given, "--steps", 5, "--out", tmp_path / "whole").exit_code == 0
    if "likelihood" in words:  # the learning rates of this recipe depend on the number of steps
        assert "the learning rates depend on that number" in longer.output
        assert read(tmp_path / "parts" / "checkpoint.safetensors")[1]["step"] == 5
    else:
        assert "depend on that number" not in longer.output
        assert bits(tmp_path / "parts") == bits(tmp_path / "whole")
    shorter = run("--resume", "--steps", 4, "--out", tmp_path / "parts")
    assert shorter.exit_code == 1
    assert "--steps must be at least 5" in shorter.output
    assert run("--resume", "--out", tmp_path / "parts").exit_code == 0


def test_a_damaged_checkpoint_is_named_and_replaced(run, finished):
    path = finished / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x77")
    done = run("--resume", "--out", finished)
    assert done.exit_code == 0, done.output
    assert "checkpoint.safetensors.damaged" in done.output
    assert "The run continues from checkpoint.previous.safetensors" in done.output
    assert read(path)[1]["step"] == 2


@pytest.mark.parametrize("size", [300, 20_000])
def test_a_full_disk_costs_a_sentence(launched, size):
    place = launched / f"full {size}"
    assert (place / "status").read_text() == "1"
    said = (place / "said").read_text()
    assert "Traceback" not in said
    assert said.startswith("precall: ")
    assert not [name for name in os.listdir(place / "run") if name.endswith((".tmp", ".safetensors"))]
