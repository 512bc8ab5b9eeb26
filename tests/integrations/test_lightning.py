"""The callback in a real training loop, and results in real and mock loggers."""

import importlib
import subprocess
import sys

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from lightning.pytorch.loggers import TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.tensorboard import SummaryWriter

from integrations import two_trainers
from precall.integrations.lightning import AssessSamples
from precall.integrations.loggers import log_to
from precall.metrics.assessing.assessment import assess

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*number of training batches"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec"),
]
REAL = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))


class Half(pl.LightningModule):
    """Samples the right half plane only: high precision, but half of the data is missed."""

    def __init__(self):
        super().__init__()
        self.shift = torch.nn.Parameter(torch.zeros(1))
        self.draws = torch.Generator().manual_seed(1)

    def training_step(self, batch, index):
        return (self.shift - 1).square().sum()

    def validation_step(self, batch, index):
        pass

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def sample(self, n):
        z = torch.randn(n, 2, generator=self.draws)
        return torch.stack([z[:, 0].abs(), z[:, 1]], 1)


def trainer(tmp_path, *callbacks, **options):
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    options = {"logger": False, "accelerator": "cpu", "max_epochs": 2} | quiet | options
    return pl.Trainer(default_root_dir=tmp_path, callbacks=list(callbacks), **options)


def loader(rows=REAL):
    return DataLoader(TensorDataset(rows, torch.zeros(len(rows))), batch_size=64)


def test_scores_are_logged_after_each_validation_epoch(tmp_path):
    callback = AssessSamples(n=250, metrics=("neighbors", "fid", "clusters"))
    run = trainer(tmp_path, callback)
    run.fit(Half(), loader(), loader())
    logged = run.callback_metrics
    assert logged["precall/precision"] > 0.85 > 0.75 > logged["precall/recall"]
    found = callback.assessment
    assert (found.protocol["n_real"], found.protocol["n_fake"]) == (250, 250)
    for name, score in found.scores.items():
        assert float(logged[f"precall/{name}"]) == pytest.approx(score.value, rel=1e-5), name


def test_the_callback_gives_what_assess_gives_on_the_same_samples(tmp_path):
    drawn = []

    def sample(module, n):
        drawn.append(module.sample(n))
        return drawn[-1]

    callback = AssessSamples(n=200, sample=sample, features=lambda x: 3 * x, metrics=("neighbors",))
    trainer(tmp_path, callback).validate(Half(), loader(), verbose=False)
    expected = assess(real=3 * REAL[:200], fake=3 * drawn[0], metrics=("neighbors",))
    assert callback.assessment.scores == expected.scores


def test_a_score_can_be_monitored(tmp_path):
    """The sanity check before training is not a validation epoch."""
    drawn = []
    callback = AssessSamples(n=100, sample=lambda module, n: drawn.append(n) or module.sample(n))
    stop = pl.callbacks.EarlyStopping("precall/recall", mode="max", patience=0, min_delta=1.0)
    run = trainer(tmp_path, callback, stop, max_epochs=9, num_sanity_val_steps=2)
    run.fit(Half(), loader(), loader())
    assert run.current_epoch == 2  # no epoch is better than the first by 1
    assert drawn == [100, 100]


def test_a_module_that_cannot_sample_costs_one_sentence(tmp_path):
    class Mute(Half):
        sample = None

    with pytest.raises(ValueError, match=r"must have a method `sample\(n\)`; got Mute"):
        trainer(tmp_path, AssessSamples(n=50)).validate(Mute(), loader(), verbose=False)


@pytest.fixture(scope="module")
def trainers(tmp_path_factory, python):
    """The results of both processes."""
    out = tmp_path_factory.mktemp("processes") / "found"
    command = [*python("lightning.pytorch"), two_trainers.__file__, out]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [torch.load(f"{out}.{rank}", weights_only=True) for rank in (0, 1)]


def test_two_processes_assess_all_samples_of_both(trainers):
    for found in trainers:
        assert set(map(tuple, found["real"].tolist())) == set(map(tuple, two_trainers.REAL[:120].tolist()))
        expected = assess(real=found["real"], fake=found["fake"], metrics=("neighbors",))
        assert found["scores"] == {name: score.value for name, score in expected.scores.items()}
    assert torch.equal(trainers[0]["fake"], trainers[1]["fake"])


def test_processes_seeded_alike_draw_different_samples_and_do_not_notice(trainers):
    assert torch.equal(trainers[0]["before"], trainers[1]["before"])
    for found in trainers:
        assert len(torch.unique(found["fake"], dim=0)) == 120
        assert torch.equal(found["before"], found["after"])


# ---------------------------------------------------------------------------------------------------------- loggers


@pytest.fixture(scope="module")
def compared():
    x = np.random.default_rng(0).normal(size=(90, 2))
    return assess(real=x, fake={"near": x + 0.1, "far": x + 5}, metrics=("neighbors", "clusters"))


def events(folder):
    found = EventAccumulator(str(folder), size_guidance={"images": 0})
    found.Reload()
    return found


def test_tensorboard_holds_the_scores_and_the_picture(compared, tmp_path):
    with SummaryWriter(tmp_path) as writer:
        log_to(writer, compared["far"], step=7)
    found = events(tmp_path)
    (event,) = found.Scalars("precall/precision")
    assert (event.step, event.value) == (7, 0.0)
    assert found.Tags()["images"] == ["precall/curves"]
    assert {tag.removeprefix("precall/") for tag in found.Tags()["scalars"]} == set(compared["far"].scores)


def test_a_lightning_logger_is_its_experiment_and_models_have_their_own_tags(compared, tmp_path):
    logger = TensorBoardLogger(tmp_path)
    log_to(logger, compared, step=1)
    logger.experiment.close()
    found = events(logger.log_dir)
    for name, one in compared.items():
        (event,) = found.Scalars(f"precall/{name}/recall")
        assert event.value == pytest.approx(one.scores["recall"].value)


class RunThatRecords:
    """Mock of a W&B run, whose `log(values, step=)` records its arguments."""

    def __init__(self):
        self.calls = []

    def log(self, values, step=None):
        self.calls.append((values, step))


def test_a_run_with_log_gets_one_call_with_all_of_it(compared, monkeypatch):
    class Wandb:
        Image = staticmethod(lambda figure: ("picture", figure))

    run = RunThatRecords()
    log_to(run, compared["near"], step=4)
    monkeypatch.setitem(sys.modules, "wandb", Wandb)
    log_to(run, compared["near"], step=5)
    (bare, first), (values, second) = run.calls
    assert (first, second) == (4, 5)
    assert values["precall/recall"] == compared["near"].scores["recall"].value
    assert values["precall/curves"][0] == "picture"
    assert bare["precall/curves"].axes


def test_no_curve_no_picture():
    x = np.random.default_rng(0).normal(size=(30, 2))
    run = RunThatRecords()
    log_to(run, assess(real=x, fake=x, metrics=("fid",)), step=0)
    assert run.calls == [({"precall/fid": 0.0}, 0)]


def test_what_is_no_logger_costs_one_sentence(compared):
    with pytest.raises(ValueError, match="`logger` must be a SummaryWriter"):
        log_to(print, compared, step=0)


@pytest.mark.parametrize("package", ["lightning", "torchmetrics"])
def test_without_the_package_one_sentence_says_what_to_install(package, monkeypatch):
    monkeypatch.delitem(sys.modules, f"precall.integrations.{package}", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    said = rf"^precall\.integrations\.{package} needs .*pip install 'precall\[{package}\]'"
    with pytest.raises(ImportError, match=said):
        importlib.import_module(f"precall.integrations.{package}")


def test_loggers_need_no_lightning_nor_torch():
    code = "import sys, precall.integrations.loggers; sys.exit('torch' in sys.modules or 'lightning' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
