"""Every printed distance says which network it is measured with, and the first line says how the numbers were made."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from precall.cli import app
from precall.encoders import Encoder
from precall.metrics.assessing.assessment import assess
from precall.metrics.inputs.sides import Side
from precall.metrics.scores.record import SideRecord
from precall.metrics.scores.results import Assessment
from precall.report import page, table

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (2, 60, 8, 8, 3), dtype=np.uint8)


def from_encoder(name):
    """An assessment of images that went through an encoder of this name."""
    encoder = Encoder(name, "images", {"weights": name}, np.ravel, lambda images: np.stack(images)[:, :5] / 255.0)
    return assess(real=IMAGES[0], fake=IMAGES[1], metrics=("neighbors", "fid", "kid"), encoder=encoder)


@pytest.mark.parametrize("name", ["random-vgg", "dinov2", "my.module:network"])
def test_the_distance_of_another_network_is_never_plain_fid(name):
    found = from_encoder(name)
    head = " ".join(line for line in table.text(found_as(found)).splitlines() if "fid" in line)
    assert f"fid ({name})" in head
    assert not re.search(r"fid(?! \()", head, re.IGNORECASE)
    blocks = page.page_data(found_as(found))["blocks"]
    labels = {one["key"]: one["label"] for block in blocks for one in block["columns"]}
    assert (labels["fid"], labels["kid"]) == (f"FID ({name})", f"KID ({name})")
    assert labels["recall"] == "recall"
    assert found.to_dict()["scores"]["fid"]["label"] == f"fid ({name})"


def found_as(found):
    from precall.metrics.scores.results import Comparison

    return Comparison({found.name: found})


def test_inception_and_given_features_have_the_plain_name():
    assert from_encoder("inception").label("fid") == "fid"
    x = RNG.normal(size=(60, 3))
    found = assess(real=x, fake=x + 1, metrics=("fid",))
    assert found.to_dict()["scores"]["fid"]["label"] == "fid"
    assert "none (features were given)" in repr(found).splitlines()[0]


def test_the_encoder_of_the_fakes_names_the_distance_to_stored_statistics():
    """The file of statistics does not say which network it is from."""
    side = Side(RNG.normal(size=(60, 3)), record=SideRecord(encoder="random-vgg"))
    moments = {"mu": np.zeros(3), "sigma": np.eye(3)}
    from precall.metrics.distances.moments import Moments

    found = assess(real=Moments.from_statistics(moments["mu"], moments["sigma"], 50), fake=side, metrics=("fid",))
    assert found.label("fid") == "fid (random-vgg)"


def test_labels_survive_saving():
    found = from_encoder("random-vgg")
    again = Assessment.from_dict(json.loads(json.dumps(found.to_dict())))
    assert again.to_dict() == found.to_dict()


def test_the_first_line_of_the_command_names_encoder_sizes_k_and_device(tmp_path):
    for name, images in zip(("real", "fake"), (IMAGES[0], IMAGES[1][:55]), strict=True):
        np.save(tmp_path / f"{name}.npy", images)
    words = ["assess", "--real", str(tmp_path / "real.npy"), "--fake", str(tmp_path / "fake.npy"), "--k", "3"]
    done = CliRunner().invoke(app, [*words, "--metrics", "fid,neighbors"])
    assert done.exit_code == 0, done.output
    first, second, *_ = done.stdout.splitlines()
    assert first == "encoder efficientnet, n = 60 real and n = 55 fake samples, k = 3, device cpu"
    assert second == "The encoder efficientnet decided. For a publication, use inception or dinov2."


def test_a_gate_that_is_not_met_names_the_network(tmp_path):
    np.save(tmp_path / "real.npy", IMAGES[0])
    np.save(tmp_path / "fake.npy", IMAGES[1] // 3)
    words = ["assess", "--real", str(tmp_path / "real.npy"), "--fake", str(tmp_path / "fake.npy"), "--metrics", "fid"]
    done = CliRunner().invoke(app, [*words, "--max-fid", "0.0001"])
    assert done.exit_code == 3
    assert "has fid (efficientnet)" in done.output
