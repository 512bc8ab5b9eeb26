"""`precall assess` on sources in shards."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from precall.cli import app


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def shards(tmp_path):
    rng = np.random.default_rng(0)
    for i in range(3):
        np.save(tmp_path / f"r{i}.npy", rng.normal(size=(40, 3)))
        np.save(tmp_path / f"f{i}.npy", 0.5 * rng.normal(size=(30, 3)))
    return ["--real", str(tmp_path / "r*.npy"), "--fake", f"ours={tmp_path / 'f*.npy'}"]


def test_a_report_of_shards(run, shards, tmp_path):
    options = ["--work", str(tmp_path / "w"), "--out", str(tmp_path / "out"), "--metrics", "clusters,neighbors,fid"]
    done = run("assess", *shards, *options)
    assert done.exit_code == 0, done.output
    saved = json.loads((tmp_path / "out" / "results.json").read_text())
    assert saved["models"]["ours"]["protocol"]["fake"]["shards"] == 3
    assert "seconds" not in json.dumps(saved)
    assert (tmp_path / "out" / "report.html").exists()
    first = (tmp_path / "out" / "results.json").read_bytes()
    assert run("assess", *shards, *options).exit_code == 0
    assert (tmp_path / "out" / "results.json").read_bytes() == first


def test_a_corrupt_shard_is_named_or_skipped(run, shards, tmp_path):
    (tmp_path / "f1.npy").write_bytes(b"nonsense")
    options = ["--work", str(tmp_path / "w"), "--metrics", "fid"]
    failed = run("assess", *shards, *options)
    assert failed.exit_code == 1
    assert "f1.npy" in failed.stderr
    skipped = run("assess", *shards, *options, "--on-error", "skip")
    assert skipped.exit_code == 0
    assert "1 of 3 shards" in skipped.stderr
    assert "f1.npy" in skipped.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--ray-address", "auto"], "--engine ray"),
        (["--holdout", "x.npy"], "one process"),
        (["--groups", "folders"], "one process"),
        (["--min-area", "0.5", "--metrics", "fid"], "--metrics"),
    ],
)
def test_what_needs_one_process_is_refused(run, shards, tmp_path, options, said):
    work = [] if "--ray-address" in options else ["--work", str(tmp_path / "w")]
    done = run("assess", *shards, *work, *options)
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split()).replace("│ ", "")


def test_a_work_folder_inside_a_source_is_refused(run, tmp_path):
    folder = tmp_path / "real"
    folder.mkdir()
    np.save(folder / "a.npy", np.zeros((9, 2)))
    done = run("assess", "--real", str(folder), "--fake", str(folder), "--work", str(folder / "w"), "--metrics", "fid")
    assert done.exit_code == 1
    assert "must not be, or lie inside, one of the sources" in done.stderr


def test_a_pattern_of_shards_has_the_name_of_its_folder():
    from precall.cli.options import named_path

    assert [named_path(one)[0] for one in ("runs/ours/*.npy", "part-{0..3}.npy", "s3://a/b.npy?x=1", "images/")] == [
        *("ours", "part-{0..3}.npy", "b.npy", "images")
    ]
