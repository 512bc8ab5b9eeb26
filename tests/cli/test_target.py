"""`precall improve --lam --target` and `--surplus`: the fine-tuning set on disk, from each kind of source."""

import json
import os
import zipfile

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from precall.cli import app
from precall.samples.opening import open_samples

QUICK = ("--estimator", "linear")


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(app, ["improve", *map(str, words), *QUICK])


def said(done, status=0):
    assert done.exit_code == status, done.output
    assert "Traceback" not in done.output
    return " ".join(done.output.replace("│", " ").split())


def flawed(n=200):
    """A quarter of the draws, the first ones, is invented."""
    rng = np.random.default_rng(0)
    real, fake = rng.normal(size=(n, 3)), rng.normal(size=(n, 3))
    fake[: n // 4] += 5
    return real, fake


@pytest.fixture
def arrays(tmp_path):
    real, fake = flawed()
    np.save(tmp_path / "real.npy", real)
    np.save(tmp_path / "fake.npy", fake)
    return ("--real", "real.npy", "--fake", "fake.npy", "--lam", "5", "--target", "out")


@pytest.fixture
def images(tmp_path):
    """The names of both sides are equal, and the draws lie in two classes; odd draws are too bright."""
    rng = np.random.default_rng(0)
    for i in range(60):
        for side, top in ((f"data/{'ab'[i // 30]}", 100), (f"samples/{'ab'[i // 30]}", 250 if i % 2 else 100)):
            (tmp_path / side).mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, top, (4, 4, 3), dtype=np.uint8)).save(tmp_path / side / f"{i}.png")
    return ("--real", "data", "--fake", "samples", "--encoder", "pixels", "--lam", "5", "--target", "out")


def origins(folder):
    return json.loads((folder / "target.json").read_text())


def test_arrays_become_one_array_whose_rows_are_explained(run, arrays, tmp_path):
    text = said(run(*arrays))
    assert "target at λ = 5" in text
    assert "written: out" in text
    rows, saved = np.load(tmp_path / "out" / "samples.npy"), origins(tmp_path / "out")
    sides = {"real": np.load(tmp_path / "real.npy"), "fake": np.load(tmp_path / "fake.npy")}
    assert len(rows) == saved["size"] == saved["kept"] + saved["added"] == len(saved["rows"])
    for row, origin in zip(rows, saved["rows"], strict=True):
        np.testing.assert_array_equal(row, sides[origin["source"]][origin["index"]])
    assert np.mean(rows.mean(axis=1) > 3) < 0.03  # of which there were a quarter
    assert saved["lam"] == 5
    assert saved["command"].startswith("precall ")
    assert sorted(os.listdir(tmp_path / "out")) == ["samples.npy", "target.json"]


def test_the_surplus_is_what_the_model_invents(run, arrays, tmp_path):
    text = said(run(*arrays[:4], "--lam", 10, "--surplus", "guide"))
    assert "surplus at λ = 10" in text
    assert "α(10): 0.7" in text
    rows = np.load(tmp_path / "guide" / "samples.npy")
    saved = json.loads((tmp_path / "guide" / "surplus.json").read_text())
    assert 45 <= len(rows) == saved["size"] <= 60
    assert np.mean(rows.mean(axis=1) > 3) > 0.9
    assert {row["source"] for row in saved["rows"]} == {"fake"}
    assert "--surplus must be a new or empty folder" in said(run(*arrays[:4], "--lam", 10, "--surplus", "guide"), 1)


def test_images_of_the_surplus_are_linked(run, images, tmp_path):
    said(run(*images[:-2], "--surplus", "guide", "--link"))
    linked = list((tmp_path / "guide").rglob("*.png"))
    assert linked
    assert all(path.is_symlink() and path.name.startswith("fake-") for path in linked)
    assert np.mean([int(path.stem.removeprefix("fake-")) % 2 for path in linked]) > 0.8


def test_the_requested_size_is_written(run, arrays, tmp_path):
    said(run(*arrays, "--size", 40))
    assert len(np.load(tmp_path / "out" / "samples.npy")) == 40
    assert "`size` must be at most" in said(run(*arrays[:-1], "more", "--size", 4000), 1)
    assert not (tmp_path / "more").exists()


@pytest.mark.parametrize("link", [True, False])
def test_images_keep_their_class_and_say_their_side(run, images, tmp_path, link):
    said(run(*images, *(("--link",) if link else ())))
    saved = origins(tmp_path / "out")
    for row in saved["rows"]:
        folder, name = row["id"].split("/")
        path = tmp_path / "out" / folder / f"{row['source']}-{name}"
        source = tmp_path / {"real": "data", "fake": "samples"}[row["source"]] / row["id"]
        assert path.is_symlink() == link
        assert path.read_bytes() == source.read_bytes()
    assert len(open_samples(tmp_path / "out")) == saved["size"] > 40
    drawn = [int(row["id"].split("/")[1].split(".")[0]) for row in saved["rows"] if row["source"] == "fake"]
    assert np.mean(np.array(drawn) % 2) < 0.2


def test_a_zip_is_copied_but_not_linked(run, images, tmp_path):
    with zipfile.ZipFile(tmp_path / "samples.zip", "w") as archive:
        for path in sorted((tmp_path / "samples").rglob("*.png")):
            archive.write(path, path.relative_to(tmp_path / "samples"))
    words = [word if word != "samples" else "samples.zip" for word in images]
    assert "is not one. Use --copy" in said(run(*words, "--link"), 1)
    said(run(*words))
    assert any(path.name.startswith("fake-") for path in (tmp_path / "out").rglob("*.png"))


def test_tables_become_a_table_with_the_columns_of_the_data(run, tmp_path):
    real, fake = flawed()
    (tmp_path / "real.csv").write_text("x,y,z\n" + "".join("{:.3f},{:.3f},{:.3f}\n".format(*row) for row in real))
    columns = "".join("{:.3f};{:.3f};{:.3f}\n".format(*row[::-1]) for row in fake)
    (tmp_path / "fake.csv").write_text("z;y;x\n" + columns)
    said(run("--real", "real.csv", "--fake", "fake.csv", "--lam", 5, "--target", "out"))
    lines = (tmp_path / "out" / "samples.csv").read_text().splitlines()
    saved = origins(tmp_path / "out")
    assert lines[0] == "x,y,z"
    assert len(lines) == saved["size"] + 1
    for line, row in zip(lines[1:], saved["rows"], strict=True):
        expected = (real if row["source"] == "real" else fake)[row["index"]]
        assert [float(cell) for cell in line.split(",")] == pytest.approx(expected, abs=1e-3)


def test_texts_become_records(run, tmp_path):
    rng = np.random.default_rng(0)
    real = [" ".join(rng.choice(["red", "green", "blue"], 8)) for _ in range(80)]
    fake = [" ".join(rng.choice(["red", "green", "blue", "%%%"], 8)) for _ in range(80)]
    (tmp_path / "real.jsonl").write_text(
        "".join(json.dumps({"text": t, "label": i}) + "\n" for i, t in enumerate(real))
    )
    (tmp_path / "fake.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in fake))
    (tmp_path / "fake.txt").write_text("".join(f"{text}\n" for text in fake))
    for source, labelled in (("fake.jsonl", True), ("fake.txt", False)):
        out = tmp_path / f"out-{labelled}"
        said(run("--real", "real.jsonl", "--fake", source, "--lam", 1, "--target", out))
        records = [json.loads(line) for line in (out / "samples.jsonl").read_text().splitlines()]
        sides = {"real": real, "fake": fake}
        assert [one["text"] for one in records] == [sides[r["source"]][r["index"]] for r in origins(out)["rows"]]
        assert any("label" in one for one in records) == labelled


def test_json_is_printed_alone(run, arrays):
    done = run(*arrays, "--json")
    said(done)
    assert json.loads(done.stdout)["kept"] > 0


# ------------------------------------------------------------------------------------------------------------ refusals


def test_nothing_is_overwritten(run, arrays, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    assert "must be a new or empty folder; out contains mine.txt" in said(run(*arrays), 1)
    assert os.listdir(tmp_path / "out") == ["mine.txt"]
    (tmp_path / "notes.txt").write_text("mine")
    assert "must be a folder; it is a file" in said(run(*arrays[:-1], "notes.txt"), 1)
    (tmp_path / "dangling").symlink_to("nowhere")
    assert "symbolic link" in said(run(*arrays[:-1], "dangling"), 1)
    (tmp_path / "empty").mkdir()
    said(run(*arrays[:-1], "empty"))
    assert (tmp_path / "empty" / "samples.npy").exists()


def test_a_target_inside_a_source_is_refused(run, images):
    assert "one of the sources" in said(run(*images[:-1], "data/out"), 1)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--lam", 5), "pass λ and a new folder for the fine-tuning set"),
        (("--target", "out"), "pass λ and a new folder for the fine-tuning set"),
        (("--size", 5), "pass λ and a new folder for the fine-tuning set"),
        (("--lam", 5, "--target", "out", "--budget", 2), "remove --budget"),
        (("--lam", 5, "--target", "out", "--plan"), "remove --plan"),
        (("--lam", 5, "--target", "out", "--out", "kept.txt"), "remove --out"),
        (("--lam", 5, "--target", "out", "--at-recall", 0.5), "remove --at-recall"),
        (("--lam", 5, "--target", "out", "--copy", "--link"), "choose one of --copy and --link"),
        (("--lam", -1, "--target", "out"), "must be positive; got -1"),
        (("--lam", "inf", "--target", "out"), "must be finite"),
        (("--lam", 5, "--target", "out", "--link"), "--link takes two folders of images"),
        (("--surplus", "out"), "as in --lam 10 --surplus tuning/"),
        (("--lam", 5, "--surplus", "out", "--target", "other"), "remove --target"),
        (("--lam", 5, "--surplus", "out", "--size", 5), "remove --size"),
        (("--lam", 5, "--surplus", "out", "--budget", 2), "remove --budget"),
    ],
)
def test_options_that_do_not_fit_are_refused(run, arrays, tmp_path, words, sentence):
    status = 1 if sentence.startswith(("must be", "--link")) else 2
    assert sentence in said(run(*arrays[:4], *words), status)
    assert not (tmp_path / "out").exists()


def test_sources_that_cannot_be_joined_are_refused(run, arrays, tmp_path):
    (tmp_path / "texts.txt").write_text("a text\n" * 60)
    wrong = ("--real", "real.npy", "--fake", "texts.txt", "--lam", 5, "--target", "out")
    assert "--target and --surplus take two folders or zips of images, two arrays" in said(run(*wrong), 1)
    np.save(tmp_path / "wide.npy", np.zeros((60, 4)))
    wide = ("--real", "real.npy", "--fake", "wide.npy", "--lam", 5, "--target", "out")
    assert "rows of equal shape; got (3,) (real), (4,) (fake)" in said(run(*wide), 1)
    (tmp_path / "a.csv").write_text("x,y\n" + "1,2\n" * 60)
    (tmp_path / "b.csv").write_text("x,z\n" + "1,2\n" * 60)
    assert "only one has y, z" in said(run("--real", "a.csv", "--fake", "b.csv", "--lam", 5, "--target", "out"), 1)
