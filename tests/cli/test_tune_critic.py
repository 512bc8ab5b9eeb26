"""`precall tune --critic-encoder`: a second critic on the features of a frozen encoder."""

import json
import warnings

import pytest
import torch
from typer.testing import CliRunner

from precall.cli import app
from precall.tune.checkpoints import read

SMALL = ("--data", "digits", "--model", "mlp", "--batch-size", 8, "--device", "cpu")


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(app, ["tune", *map(str, words)])


@pytest.fixture
def script(tmp_path):
    """A TorchScript file: the mean of each channel and its square."""

    class Means(torch.nn.Module):
        def forward(self, x):
            means = x.to(torch.float32).mean(3)
            return torch.cat([means.mean(2), means.square().mean(2)], 1) / 255

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(Means()).save(tmp_path / "means.pt")
    return tmp_path / "means.pt"


def test_a_named_encoder_is_kept_in_the_run_folder(run, tmp_path, monkeypatch):
    monkeypatch.setattr("precall.tune.critics.SOME", 20)  # for speed
    out = tmp_path / "run"
    done = run(*SMALL, "--steps", 2, "--critic-encoder", "random-vgg", "--out", out)
    assert done.exit_code == 0, done.output
    assert json.loads((out / "run.json").read_text())["options"]["critic_encoder"] == "random-vgg"
    done = run("--resume", "--steps", 3, "--out", out)
    assert done.exit_code == 0, done.output
    tensors, facts = read(out / "checkpoint.safetensors")
    assert facts["step"] == 3
    assert tensors["discriminator/1.mean"].shape == (512,)


def test_a_file_is_never_loaded_because_a_run_folder_names_it(run, script, tmp_path):
    out = tmp_path / "run"
    assert run(*SMALL, "--steps", 2, "--critic-encoder", script, "--out", out).exit_code == 0
    forgotten = run("--resume", "--steps", 3, "--out", out)
    assert forgotten.exit_code == 1
    assert f"add: --critic-encoder {script}" in forgotten.output
    done = run("--resume", "--steps", 3, "--critic-encoder", script, "--out", out)
    assert done.exit_code == 0, done.output


def test_a_file_of_feature_maps_is_a_critic_on_maps(run, tmp_path):
    class Halves(torch.nn.Module):
        def forward(self, x):
            x = x.to(torch.float32) / 255
            return [x, torch.nn.functional.avg_pool2d(x, 2)]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(Halves()).save(tmp_path / "maps.pt")
    words = (*SMALL, "--critic-encoder", tmp_path / "maps.pt", "--out", tmp_path / "run")
    assert run(*words, "--steps", 2).exit_code == 0
    done = run(*words, "--steps", 3, "--resume")
    assert done.exit_code == 0, done.output
    tensors, facts = read(tmp_path / "run" / "checkpoint.safetensors")
    assert facts["step"] == 3
    assert {"discriminator/1.heads.0.mean", "discriminator/1.heads.1.mean"} <= set(tensors)


def test_several_lams_share_the_plain_critics(run, script, tmp_path):
    words = ("--steps", 4, "--lam", 0.1, "--lam", 10, "--critic-encoder", script)
    done = run(*SMALL, *words, "--out", tmp_path / "dial")
    assert done.exit_code == 0, done.output
    assert "discriminator/1.head.net.0.weight" in read(tmp_path / "dial" / "plain" / "checkpoint.safetensors")[0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--data", "8-gaussians", "--model", "mlp", "--critic-encoder", "random-vgg"), "requires images"),
        (("--data", "digits", "--critic-encoder", "ngrams"), "ngrams is for texts"),
        (("--data", "digits", "--critic-encoder", "minilm"), "minilm is for texts. Use one of efficientnet"),
        (("--data", "digits", "--critic-encoder", "nothing.pt"), "must be a TorchScript file that exists"),
    ],
)
def test_what_cannot_be_a_critic_is_refused(run, tmp_path, words, said):
    done = run(*words, "--steps", 2, "--device", "cpu", "--out", "x")
    assert done.exit_code == 1, done.output
    assert said in done.output
    assert not (tmp_path / "x").exists()
