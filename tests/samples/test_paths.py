"""The kind "files": paths are handed to an encoder, and the fingerprint is that of the files' content."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import precall
from precall.cli import app
from precall.encoders import Encoder, encode
from precall.samples import SampleError, open_samples

EXAMPLES = Path(__file__).parents[2] / "examples"


def sizes(paths):
    return np.array([[len(Path(path).read_bytes()), 1.0] for path in paths])


SIZES = Encoder("sizes", "files", {}, str, sizes)


@pytest.fixture
def clips(tmp_path):
    folder = tmp_path / "clips"
    (folder / "more").mkdir(parents=True)
    for name in ("c10.bin", "c9.bin", "more/c1.bin", ".hidden"):
        (folder / name).write_bytes(b"x" * len(name))
    return folder


def test_a_folder_a_pattern_and_a_list_are_files(clips):
    folder = open_samples(f"files:{clips}")
    assert (folder.kind, list(folder.ids)) == ("files", ["c9.bin", "c10.bin", "more/c1.bin"])
    assert folder[0] == str(clips / "c9.bin")
    assert len(open_samples(f"files:{clips}/c*.bin")) == 2
    given = open_samples([clips / "c9.bin", clips / "c10.bin", clips / "more" / "c1.bin"])
    assert given.fingerprint() == folder.fingerprint()
    assert encode(folder, SIZES, cache=False).array[:, 0].tolist() == [6, 7, 11]


def test_changed_files_are_encoded_again(clips, tmp_path):
    before = encode(f"files:{clips}", SIZES, cache=tmp_path / "cache")
    assert encode(f"files:{clips}", SIZES, cache=tmp_path / "cache").cached
    (clips / "c9.bin").write_bytes(b"other content")
    after = encode(f"files:{clips}", SIZES, cache=tmp_path / "cache")
    assert (before.array[0, 0], after.array[0, 0]) == (6, 13)


def test_what_cannot_be_read_is_a_sample_that_is_named(clips):
    (clips / "gone.bin").symlink_to(clips / "nowhere")
    with pytest.raises(SampleError, match=r"gone\.bin"):
        encode(f"files:{clips}", SIZES, cache=False)
    skipping = open_samples(f"files:{clips}", on_error="skip")
    assert len(encode(skipping, SIZES, cache=False)) == 3
    assert [error.id for error in skipping.errors] == ["gone.bin"]


@pytest.mark.parametrize("source", ["files:", "files:nowhere", "files:*.nothing"])
def test_there_must_be_files(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="must be"):
        open_samples(source)
    with pytest.raises(ValueError, match="must contain files"):
        open_samples(f"files:{tmp_path}")


def test_files_have_no_default_encoder_and_other_encoders_refuse_them(clips):
    with pytest.raises(ValueError, match="files have no default encoder: pass `encoder`"):
        encode(f"files:{clips}", cache=False)
    with pytest.raises(ValueError, match="encoder `pixels` accepts images; got files"):
        encode(f"files:{clips}", "pixels", cache=False)


def _example(name):
    found = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_the_examples_see_what_is_missing(tmp_path):
    """Low tones only, and series without memory: both are told from the data; fresh data are not."""
    rng, audio, series = np.random.default_rng(1), _example("audio_files"), _example("series_files")
    made = {
        audio: (audio.recordings, (200, 3000), (200, 900)),
        series: (series.series, ([0.8],), ([0.0],)),
    }
    for module, (write, usual, odd) in made.items():
        places = {name: tmp_path / f"{module.__name__}-{name}" for name in ("real", "same", "odd")}
        sources = {name: write(place, 60, *(odd if name == "odd" else usual), rng) for name, place in places.items()}
        encoder = Encoder(module.__name__, "files", {}, str, module.encode)
        real = sources.pop("real")
        found = precall.assess(real=real, fake=sources, encoder=encoder, metrics=("fid", "neighbors"))
        assert found["odd"].scores["fid"].value > 3 * found["same"].scores["fid"].value
        assert found["odd"].scores["recall"].value < found["same"].scores["recall"].value


def test_the_command_line_takes_files(tmp_path, monkeypatch):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(EXAMPLES)
    series, rng = _example("series_files"), np.random.default_rng(0)
    real, fake = (series.series(tmp_path / name, 40, [0.8], rng) for name in ("real", "fake"))
    words = ["assess", "--real", real, "--fake", fake, "--encoder", "series_files:encode", "--metrics", "neighbors"]
    done = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "report")])
    assert done.exit_code == 0, done.output
    assert "encoder series_files:encode, n = 40 real and n = 40 fake samples" in done.output
