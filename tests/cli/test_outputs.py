"""What the commands may write: never into a source, never over a file that precall did not write."""

import os
import stat

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import precall
from precall.cli import app
from precall.report import folder


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("real", "fake"):
        np.save(tmp_path / f"{name}.npy", rng.normal(size=(40, 2)))
        (tmp_path / name).mkdir()
        for i in range(12):
            Image.fromarray(rng.integers(0, 255, (4, 4, 3), dtype=np.uint8)).save(tmp_path / name / f"{i}.png")
    return tmp_path


def content(root):
    """Every file below a folder with its bytes, the cache aside."""
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and "cache" not in path.parts}


def refused(run, data, said, *words, status=1):
    before = content(data)
    done = run(*words)
    assert done.exit_code == status, done.output
    assert said in " ".join(done.stderr.split())
    assert content(data) == before
    assert not list(data.rglob(".precall-*"))


def test_encode_leaves_a_device_alone(run, data):
    device = data / "null.npy"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root can create device nodes")
    refused(run, data, "is a device", "encode", data / "real.npy", "--out", device)
    assert stat.S_ISCHR(device.stat().st_mode)


def test_the_protocol_never_takes_the_place_of_the_features(run, data):
    refused(run, data, "ends in .npy", "encode", data / "real.npy", "--out", data / "o.json", status=2)


def test_encode_replaces_neither_its_source_nor_a_foreign_file_but_its_own_output(run, data):
    refused(run, data, "one of the sources", "encode", data / "real.npy", "--out", data / "real.npy")
    refused(run, data, "one of the sources", "encode", data / "real", "--out", data / "real" / "features.npy")
    (data / "out.json").write_text('{"my": "settings"}')
    refused(run, data, "exists and is not one", "encode", data / "real.npy", "--out", data / "out.npy")
    for name in ("real", "fake"):
        assert run("encode", data / f"{name}.npy", "--out", data / "again.npy").exit_code == 0
    np.testing.assert_array_equal(np.load(data / "again.npy"), np.load(data / "fake.npy"))


@pytest.mark.parametrize("side", ["real", "fake"])
def test_a_report_never_lies_inside_a_source(run, data, side):
    words = ("assess", "--real", data / "real", "--fake", f"a={data / 'fake'}", "--encoder", "pixels")
    words = (*words, "--metrics", "fid")
    for out in (data / side, data / side / "report", data / side / "new" / "report"):
        refused(run, data, "one of the sources", *words, "--out", out)
    holdout = ("--holdout", data / "real.npy")
    refused(run, data, "one of the sources", *words, *holdout, "--out", data / "real.npy")


def test_a_report_replaces_only_a_report(run, data):
    words = ("assess", "--real", data / "real.npy", "--fake", data / "fake.npy", "--metrics", "fid", "--out")
    out = data / "out"
    out.mkdir()
    for name in ("results.json", "report.html", "curves.png", "galleries.json"):
        (out / name).write_text('{"mine": 1}')
        refused(run, data, f"{name}` is not from an earlier report", *words, out)
        (out / name).unlink()
    (out / "notes.txt").write_text("mine")
    assert run(*words, out).exit_code == 0
    assert run(*words, out).exit_code == 0
    assert (out / "notes.txt").read_text() == "mine"
    refused(run, data, "must be a folder", *words, out / "notes.txt")


def test_report_writes_pages_and_pictures_and_nothing_over_its_source(run, data):
    out = data / "out"
    assert run("assess", "--real", data / "real.npy", "--fake", data / "fake.npy", "--metrics", "fid", "--out", out)
    refused(run, data, "expected .html", "report", out, "--out", out / "results.json", status=2)
    refused(run, data, "one of the sources", "report", out, "--out", out / "page.html")
    refused(run, data, "a folder", "report", out, "--out", make_folder(data / "page.html"))
    assert run("report", out / "results.json", "--out", out / "curves.pdf").exit_code == 0
    assert (out / "curves.pdf").read_bytes().startswith(b"%PDF")


def make_folder(path):
    path.mkdir()
    return path


def test_a_kept_name_with_a_line_break_is_refused(run, data):
    for side in ("real", "fake"):
        for i in range(12):
            (data / side / f"{i}.png").rename(data / side / f"{i}\n.png")
    words = ("improve", "--real", data / "real", "--fake", data / "fake", "--budget", "2", "--encoder", "pixels")
    done = run(*words, "--estimator", "linear", "--out", data / "kept.txt")
    assert done.exit_code == 1
    assert "contains a line break" in done.stderr
    assert not (data / "kept.txt").exists()


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize(
    "name", [r"$\frac{$", "$a$ and $b$", "\udcff", "_hidden", "two\nlines", "日本 \U0001f600", "\\$"]
)
def test_every_name_is_drawn_literally(tmp_path, name):
    rng = np.random.default_rng(0)
    found = precall.assess(real=rng.normal(size=(80, 2)), fake={name: rng.normal(size=(80, 2))}, metrics=("linear",))
    folder.write(found, tmp_path / "out")
    assert (tmp_path / "out" / "curves.png").stat().st_size > 10_000
    (text,) = found.plot().axes[0].get_legend().get_texts()
    assert text.get_text().strip().replace(r"\$", "$") == name.encode("unicode_escape").decode() or name.isprintable()
    assert "\n" not in repr(found).splitlines()[3]


def test_a_profile_names_every_stage_even_if_the_results_are_cached(run, data):
    words = ("assess", "--real", data / "real.npy", "--fake", data / "fake.npy", "--metrics", "fid,neighbors")
    assert "profile:" not in run(*words).stderr
    lines = run(*words, "--profile").stderr.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("profile:"))
    stages = {line[: line.rindex(" ", 0, -2)].strip(): float(line.split()[-2]) for line in lines[start + 1 :]}
    assert {"encode real", "encode fake", "neighbors", "fid"} <= set(stages)
    assert list(stages.values()) == sorted(stages.values(), reverse=True)
