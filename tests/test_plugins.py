"""A package beside precall adds an encoder, a metric and a source through entry points."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import precall
from precall.cli import app
from precall.encoders import load_encoder
from precall.encoders.registry import may_name
from precall.metrics.assessing import registry


@pytest.fixture(autouse=True)
def package(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "plugin_package"))
    yield
    registry.METRICS.pop("mean_gap", None)
    registry.SCORES.pop("mean_gap", None)


def run(*words):
    return CliRunner().invoke(app, list(words))


def test_all_three_work_together(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("real", "fake"):
        np.savetxt(tmp_path / f"{name}.numbers", rng.normal(size=(60, 2)))
    found = precall.assess(
        real=str(tmp_path / "real.numbers"), fake={"ours": str(tmp_path / "fake.numbers")}, metrics=["mean_gap", "fid"]
    )
    assert found["ours"].scores["mean_gap"].value == pytest.approx(
        np.linalg.norm(np.loadtxt(tmp_path / "real.numbers").mean(0) - np.loadtxt(tmp_path / "fake.numbers").mean(0))
    )
    assert "mean_gap" in repr(found)
    assert "mean_gap" in found.to_dict()["models"]["ours"]["scores"]
    assert "mean gap" in found.to_html(tmp_path / "page.html").read_text()
    texts = ["one", "two words", "three more words"] * 20
    assert precall.assess(real=texts, fake=texts, encoder="lengths", metrics=["fid"]).encoder == "lengths"


def test_help_names_plugins_where_samples_are_compared():
    said = run("assess", "--help").output
    for line in ("encoders  broken, lengths, pixels", "metrics   mean_gap", "sources   numbers"):
        assert line in said
    assert "mean_gap" not in run("cache", "--help").output


def test_a_broken_plugin_and_a_taken_name_cost_a_sentence():
    said = " ".join(run("list", "encoders").output.split())
    assert "lengths" in said
    assert "ignored: the name is taken" in said
    assert "cannot be imported (ModuleNotFoundError" in said
    assert load_encoder("pixels").kind == "images"
    with pytest.raises(ValueError, match=r"'broken'.*cannot be imported"):
        load_encoder("broken")


def test_a_file_may_not_name_a_plugin():
    assert not may_name("lengths")
    assert not may_name("hf:org/model")
    assert may_name("lengths", ["lengths"])


@pytest.fixture
def as_before():
    """Other tests see the metrics as they were."""
    kept = dict(registry.METRICS), dict(registry.SCORES)
    yield
    for now, before in zip((registry.METRICS, registry.SCORES), kept, strict=True):
        now.clear()
        now.update(before)


@pytest.mark.usefixtures("as_before")
def test_a_function_is_a_metric():
    def gap(real, fake):
        return abs(real.mean() - fake.mean())

    x = np.random.default_rng(0).normal(size=(60, 2))
    for _ in range(2):  # the same function again
        found = precall.assess(real=x, fake=x + 1, metrics=["fid", gap])
        assert found.scores["gap"].value == pytest.approx(1)
    assert "gap" in repr(found)

    def fid(real, fake):
        return 0.0

    with pytest.raises(ValueError, match="fid is taken"):
        precall.assess(real=x, fake=x, metrics=[fid])


@pytest.mark.parametrize("what", ["encoders", "metrics", "presets"])
def test_names_are_listed(what):
    done = run("list", what)
    assert done.exit_code == 0
    assert {"encoders": "hf:", "metrics": "mean_gap", "presets": "mauve"}[what] in done.output
