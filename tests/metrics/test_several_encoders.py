"""Several encoders in one assessment: the scores of each, and where they disagree about the order of models."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from precall.cli import app
from precall.encoders import Encoder
from precall.metrics.assessing.assessment import assess
from precall.metrics.protocols.several_encoders import disagreements
from precall.metrics.scores.results import Assessment, Comparison
from precall.report import page, table

pytestmark = pytest.mark.usefixtures("small_committee")

RNG = np.random.default_rng(1)
REAL = RNG.integers(0, 256, (120, 4, 4, 3), dtype=np.uint8)
SHIFTED = RNG.integers(0, 256, (120, 4, 4, 3), dtype=np.uint8)
RED, BLUE = SHIFTED.copy(), SHIFTED.copy()
RED[..., 0] //= 3
BLUE[..., 2] //= 3
MODELS = {"red": RED, "blue": BLUE}


def channel(name, index):
    """An encoder that sees one colour only."""
    return Encoder(name, "images", {"channel": index}, lambda image: image[..., index].ravel() / 255, np.stack)


def both():
    return assess(
        real=REAL, fake=MODELS, metrics=("neighbors", "fid"), encoder=[channel("sees-red", 0), channel("sees-blue", 2)]
    )


def test_each_encoder_gives_what_it_gives_alone():
    found = both()
    for name, samples in MODELS.items():
        for encoder in (channel("sees-red", 0), channel("sees-blue", 2)):
            alone = assess(real=REAL, fake=samples, metrics=("neighbors", "fid"), encoder=encoder)
            one = found[name] if encoder.name == "sees-red" else found[name].encoders[encoder.name]
            assert one.encoder == encoder.name
            assert one.scores["fid"].value == alone.scores["fid"].value


def test_the_table_shows_them_side_by_side_and_says_where_they_disagree():
    text = table.text(both())
    lines = text.splitlines()
    assert lines[0].startswith("encoders sees-red, sees-blue, n = 120 real")
    assert "fid (encoder)" in text
    rows = [line.split()[0] for line in lines if line in ("red", "blue") or line.startswith("  sees")]
    assert rows == ["red", "sees-red", "sees-blue", "blue", "sees-red", "sees-blue"]
    said = "The encoders disagree: by fid, sees-blue puts red before blue, and sees-red puts blue before red."
    assert said in " ".join(lines)


def test_an_order_within_the_uncertainty_is_no_disagreement():
    models = {"one": SHIFTED[:60], "two": SHIFTED[60:]}
    encoders = [channel("sees-red", 0), channel("sees-blue", 2)]
    assert disagreements(assess(real=REAL, fake=models, metrics=("fid",), encoder=encoders)) == []
    alone = assess(real=REAL, fake=MODELS, metrics=("fid",), encoder=encoders[0])
    assert disagreements(alone) == []
    assert isinstance(alone, Comparison)
    assert alone["red"].encoders == {}


def test_results_and_page_hold_all_of_them():
    found = both()
    saved = found["red"].to_dict()
    again = Assessment.from_dict(json.loads(json.dumps(saved)))
    assert again.encoders["sees-blue"].scores["fid"] == found["red"].encoders["sees-blue"].scores["fid"]
    data = page.page_data(found)
    assert [one["name"] for one in data["models"][0]["encoders"]] == ["red (sees-blue)"]
    assert data["settings"][0].startswith("encoders sees-red, sees-blue")
    assert data["settings"][1].startswith("The encoders disagree: by fid")
    labels = {one["key"]: one["label"] for block in data["blocks"] for one in block["columns"]}
    assert labels["fid"] == "FID (encoder)"


def test_an_iterable_is_read_once():
    found = assess(real=iter(list(REAL)), fake=iter(list(RED)), metrics=("fid",), encoder=["pixels", channel("c", 0)])
    assert found.encoders["c"].scores["fid"].n_fake == 120


@pytest.mark.parametrize("encoders", [[], ["pixels", "pixels"]])
def test_encoders_must_differ(encoders):
    with pytest.raises(ValueError, match="`encoder` must name different encoders"):
        assess(real=REAL, fake=RED, metrics=("fid",), encoder=encoders)


def test_features_need_no_encoders():
    x = RNG.normal(size=(60, 3))
    with pytest.raises(ValueError, match="need samples; `real` holds features"):
        assess(real=x, fake=x, metrics=("fid",), encoder=["pixels", "random-vgg"])


def test_the_command_line_takes_several(tmp_path, monkeypatch):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    for name, images in (("real", REAL), ("fake", RED)):
        np.save(tmp_path / f"{name}.npy", images)
    words = ["assess", "--real", str(tmp_path / "real.npy"), "--fake", str(tmp_path / "fake.npy"), "--metrics", "fid"]
    done = CliRunner().invoke(app, [*words, "--encoder", "pixels", "--encoder", "random-vgg"])
    assert done.exit_code == 0, done.output
    rows = [line.split()[0] for line in done.stdout.splitlines() if line.startswith(("  pixels", "  random-vgg"))]
    assert rows == ["pixels", "random-vgg"]
    again = CliRunner().invoke(app, [*words, "--encoder", "pixels", "--encoder", "random-vgg"])
    assert again.stdout == done.stdout
    assert "from the cache" in again.stderr
