"""Scores in the trackers that people use, by their own calls; with the real packages where these are installed."""

import numpy as np
import pytest

import precall
from precall.integrations.loggers import log_to


@pytest.fixture(scope="module")
def found():
    x = np.random.default_rng(0).normal(size=(2, 80, 2))
    return precall.assess(real=x[0], fake=x[1], metrics=("clusters", "fid"))


def test_mlflow_keeps_scores_and_the_figure(found, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(f"file:{tmp_path / 'runs'}")
    with mlflow.start_run() as run:
        log_to(mlflow, found, step=3)
    (kept,) = mlflow.MlflowClient().get_metric_history(run.info.run_id, "precall/fid")
    assert (kept.step, kept.value) == (3, pytest.approx(found.fid.value))
    assert list((tmp_path / "runs").rglob("curves-3.png"))


def test_wandb_keeps_scores_offline(found, tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = wandb.init(project="p", dir=str(tmp_path))
    log_to(run, found, step=2)
    run.finish()
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
