"""Scores in the trackers that people use, by their own calls; with the real packages where these are installed."""

import sys
from unittest.mock import MagicMock

import numpy as np
import pytest
from typer.testing import CliRunner

import precall
from precall.cli import app
from precall.integrations.loggers import log_to


@pytest.fixture(scope="module")
def found():
    x = np.random.default_rng(0).normal(size=(2, 80, 2))
    return precall.assess(real=x[0], fake=x[1], metrics=("clusters", "fid"))


def test_mlflow_keeps_scores_and_the_figure(found, tmp_path, monkeypatch):
    import mlflow

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(f"file:{tmp_path / 'runs'}")
    with mlflow.start_run() as run:
        log_to(mlflow, found, step=3)
    (kept,) = mlflow.MlflowClient().get_metric_history(run.info.run_id, "precall/fid")
    assert (kept.step, kept.value) == (3, pytest.approx(found.fid.value))
    assert list((tmp_path / "runs").rglob("curves-3.png"))


def test_wandb_keeps_scores_offline(found, tmp_path, monkeypatch):
    import wandb

    monkeypatch.setenv("WANDB_MODE", "offline")
    # jobs of W&B Launch are not for precall, and to import what they need takes longer than the rest
    monkeypatch.setattr("wandb.sdk.wandb_run.Run._detect_and_apply_job_inputs", lambda run: None, raising=False)
    run = wandb.init(project="p", dir=str(tmp_path), settings=wandb.Settings(x_save_requirements=False))
    log_to(run, found, step=2)
    run.finish()
    wandb.teardown()  # its service has then written all
    (kept,) = tmp_path.rglob("*.wandb")
    assert b"precall/fid" in kept.read_bytes()
    assert list(tmp_path.rglob("media/images/precall/*.png"))


class Module:
    """The functions of `mlflow` that are called."""

    def __init__(self):
        self.seen = []

    def log_metrics(self, metrics, step):
        self.seen.append(("metrics", sorted(metrics)[0], step))

    def log_figure(self, figure, artifact_file):
        self.seen.append(("figure", artifact_file))


class Experiment:
    """The methods of a Comet experiment that are called; the figure comes second."""

    def __init__(self):
        self.seen = []

    def log_metrics(self, dic, *, step):
        self.seen.append(("metrics", sorted(dic)[0], step))

    def log_figure(self, figure_name, figure, *, step):
        self.seen.append(("figure", figure_name, step))

    def log_html(self, html):
        raise AssertionError


def test_each_tracker_is_called_in_its_own_way(found):
    module, experiment = Module(), Experiment()
    log_to(module, found, step=1)
    log_to(experiment, found, step=1)
    assert module.seen == [("metrics", "precall/area", 1), ("figure", "precall/curves-1.png")]
    assert experiment.seen == [("metrics", "precall/area", 1), ("figure", "precall/curves", 1)]
    with pytest.raises(ValueError, match="a SummaryWriter, a W&B run, `mlflow`"):
        log_to(object(), found, step=1)


# ---------------------------------------------------------------------------------------------------- --log


@pytest.fixture
def assess(tmp_path, monkeypatch):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    for seed, name in enumerate(("real", "fake")):
        np.save(tmp_path / f"{name}.npy", np.random.default_rng(seed).normal(size=(60, 2)))
    given = ["assess", "--real", str(tmp_path / "real.npy"), "--fake", f"ours={tmp_path / 'fake.npy'}"]
    return lambda *words: CliRunner().invoke(app, [*given, "--metrics", "clusters,fid", *words])


def stand_in(monkeypatch, name, records):
    """A library of this name that records its calls; each of them returns the library."""
    seen, made = [], MagicMock(spec=[*records, "__enter__", "__exit__"])
    made.__enter__.return_value, made.__exit__.return_value = made, None
    for key in records:
        getattr(made, key).side_effect = lambda *a, _k=key, **k: seen.append((_k, *a, *k.values())) or made
    made.__spec__ = object()  # as find_spec wants it
    monkeypatch.setitem(sys.modules, name, made)
    return seen


CALLS = {
    "wandb": ("wandb", ("init", "Artifact", "add_file", "log_artifact", "log", "Image"), "add_file"),
    "mlflow": (
        "mlflow",
        ("set_experiment", "start_run", "log_metrics", "log_figure", "log_artifact"),
        "log_artifact",
    ),
    "comet": ("comet_ml", ("Experiment", "log_metrics", "log_figure", "log_html", "log_asset", "end"), "log_asset"),
}


@pytest.mark.parametrize("tracker", CALLS)
def test_the_command_line_logs_scores_page_and_samples(tracker, assess, tmp_path, monkeypatch):
    library, records, keeps = CALLS[tracker]
    seen = stand_in(monkeypatch, library, records)
    done = assess("--log", f"{tracker}:mine", "--samples", str(tmp_path / "samples.csv"))
    assert done.exit_code == 0, done.output
    assert "mine" in seen[0]
    values = next(call[1] for call in seen if call[0] in ("log", "log_metrics"))
    assert {"precall/ours/fid", "precall/ours/area"} <= set(values)
    kept = [str(call[1]).rsplit("/", 1)[-1] for call in seen if call[0] == keeps]
    assert kept == ["report.html", "samples.csv"]


def test_the_command_line_logs_to_tensorboard(assess, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    done = assess("--log", f"tensorboard:{tmp_path / 'runs'}")
    assert done.exit_code == 0, done.output
    kept = EventAccumulator(str(tmp_path / "runs")).Reload().Tags()
    assert "precall/ours/fid" in kept["scalars"]
    assert kept["images"] == ["precall/curves"]


@pytest.mark.parametrize(
    ("target", "said"),
    [("nowhere:x", "expected wandb:project"), ("wandb", "expected"), ("comet:x", "is not installed")],
)
def test_a_tracker_that_is_not_there_is_refused_before_the_work(target, said, assess, monkeypatch):
    monkeypatch.setattr("precall.integrations.loggers.find_spec", lambda name: None)
    done = assess("--log", target)
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())
