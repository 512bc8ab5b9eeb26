"""`precall improve` as a user types it."""

import json
import os
import re
import zipfile

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from precall.cli import app
from precall.improve.planning import Plan, Range

QUICK = ("--estimator", "linear")


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(app, ["improve", *map(str, words), *QUICK])


@pytest.fixture
def arrays(tmp_path):
    """Half of the fakes, the odd ones, are far from the data."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "real.npy", rng.normal(size=(120, 3)))
    np.save(tmp_path / "fake.npy", rng.normal(size=(100, 3)) + 4 * (np.arange(100) % 2)[:, None])
    return ("--real", "real.npy", "--fake", "fake.npy")


@pytest.fixture
def images(tmp_path):
    """Odd fakes are too bright; they lie in two folders."""
    rng = np.random.default_rng(0)
    for i in range(60):
        for side, top in (("data", 100), (f"samples/{'ab'[i // 30]}", 250 if i % 2 else 100)):
            (tmp_path / side).mkdir(parents=True, exist_ok=True)
            pixels = rng.integers(0, top, (4, 4, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / side / f"{i}.png")
    return ("--real", "data", "--fake", "samples", "--encoder", "pixels")


def said(done, status=0):
    assert done.exit_code == status, done.output
    assert "Traceback" not in done.output
    return " ".join(done.output.replace("│", " ").split())


def odd(names):
    return np.mean([int("".join(c for c in name if c.isdigit())) % 2 for name in names])


# -------------------------------------------------------------------------------------------------------------- outputs


def test_names_go_to_stdout_and_the_summary_to_stderr(run, arrays):
    done = run(*arrays, "--budget", 2)
    assert done.exit_code == 0, done.output
    names = done.stdout.split()
    assert len(names) == 50
    assert odd(names) < 0.1
    assert done.stderr.splitlines()[-2] == "kept 50 of 100"
    assert done.stderr.splitlines()[-1].startswith("predicted: area 0.")


def test_the_same_choice_in_every_file(run, arrays, tmp_path):
    names = run(*arrays, "--budget", 2, "--seed", 3).stdout.split()
    for out in ("kept.txt", "new/kept.npy", "kept.json"):
        done = run(*arrays, "--budget", 2, "--seed", 3, "--out", out)
        assert done.exit_code == 0, done.output
        assert done.stdout == ""
        assert done.stderr.splitlines()[-1] == f"written: {out}"
    assert (tmp_path / "kept.txt").read_text().split() == names
    assert np.load(tmp_path / "new/kept.npy").tolist() == [int(name) for name in names]
    found = json.loads((tmp_path / "kept.json").read_text())
    assert (found["ids"], found["seed"], found["budget"], found["n_real"]) == (names, 3, 2.0, 120)
    shown = json.loads(run(*arrays, "--budget", 2, "--seed", 3, "--json").stdout)
    assert shown.pop("command").startswith("precall")
    assert shown == found


def test_images_are_named_copied_or_linked(run, images, tmp_path):
    names = run(*images, "--budget", 2).stdout.split()
    assert len(names) == 30
    assert names[0].startswith("a/")
    assert odd(names) < 0.2
    for way, folder in (("--copy", "copied"), ("--link", "linked/")):
        done = run(*images, "--budget", 2, "--out", folder, way)
        assert done.exit_code == 0, done.output
        kept = sorted(path.relative_to(tmp_path / folder).as_posix() for path in (tmp_path / folder).rglob("*.png"))
        assert kept == sorted(names)
        one = tmp_path / folder / names[0]
        assert one.is_symlink() == (way == "--link")
        assert one.read_bytes() == (tmp_path / "samples" / names[0]).read_bytes()


def test_a_zip_is_copied_from_and_not_linked_to(run, images, tmp_path):
    with zipfile.ZipFile(tmp_path / "samples.zip", "w") as archive:
        for path in sorted((tmp_path / "samples").rglob("*.png")):
            archive.write(path, path.relative_to(tmp_path / "samples"))
    words = ("--real", "data", "--fake", "samples.zip", "--encoder", "pixels", "--budget", 2, "--out", "kept")
    assert "samples.zip is not one. Use --copy." in said(run(*words, "--link"), 1)
    assert run(*words, "--copy").exit_code == 0
    kept = sorted(path.relative_to(tmp_path / "kept") for path in (tmp_path / "kept").rglob("*.png"))
    assert len(kept) == 30
    assert (tmp_path / "kept" / kept[0]).read_bytes() == (tmp_path / "samples" / kept[0]).read_bytes()


def test_nothing_is_overwritten_and_sources_are_left_alone(run, images, tmp_path):
    def listing():
        return sorted((str(path), path.stat().st_mtime_ns) for path in tmp_path.rglob("*.png"))

    before = listing()
    for out in ("samples", "samples/kept", "data", "data/kept"):
        assert "must not be, or lie inside, one of the sources" in said(
            run(*images, "--budget", 2, "--out", out, "--copy"), 1
        )
    (tmp_path / "alias").symlink_to(tmp_path / "samples")
    assert "must not be, or lie inside" in said(run(*images, "--budget", 2, "--out", "alias/kept.txt"), 1)
    assert listing() == before
    assert run(*images, "--budget", 2, "--out", "kept", "--link").exit_code == 0
    assert "must be a new or empty folder" in said(run(*images, "--budget", 2, "--out", "kept", "--copy"), 1)
    assert [path for path in listing() if "kept" not in path[0] and "alias" not in path[0]] == before


def listing(folder):
    """Content and times of everything in a folder."""
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), path.lstat().st_mtime_ns, path.is_symlink())
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("way", ["--copy", "--link"])
@pytest.mark.parametrize("foreign", ["notes.txt", "a/mine.png", "a/1.png", "deep/er/x", "linked"])
def test_files_of_others_are_never_touched(run, images, tmp_path, way, foreign):
    path = tmp_path / "kept" / foreign
    path.parent.mkdir(parents=True)
    if foreign == "linked":
        path.symlink_to(tmp_path / "data")
    else:
        path.write_bytes(b"mine")
    before = listing(tmp_path)
    assert "must be a new or empty folder" in said(run(*images, "--budget", 2, "--out", "kept", way), 1)
    after = listing(tmp_path)
    assert {name: one for name, one in after.items() if not name.startswith("cache/")} == before


def test_another_selection_is_not_mixed_with_the_first(run, images, tmp_path):
    said(run(*images, "--budget", 2, "--out", "kept", "--copy"))
    before = listing(tmp_path / "kept")
    assert "must be a new or empty folder" in said(run(*images, "--budget", 4, "--out", "kept", "--copy"), 1)
    assert listing(tmp_path / "kept") == before


@pytest.mark.parametrize("standing", [False, True])
def test_a_full_disk_leaves_no_partial_folder(run, images, tmp_path, monkeypatch, standing):
    from precall.cli import improve

    create, done = improve.copy_image, []

    def full(target, *arguments, **options):
        if len(done) == 7:
            raise OSError(28, "No space left on device")
        done.append(target)
        create(target, *arguments, **options)

    if standing:
        (tmp_path / "kept").mkdir()
    monkeypatch.setattr(improve, "copy_image", full)
    assert "No space left" in said(run(*images, "--budget", 2, "--out", "kept", "--copy"), 1)
    assert done
    assert sorted(path.name for path in tmp_path.iterdir() if path.name not in ("cache", "data", "samples")) == (
        ["kept"] if standing else []
    )
    assert not standing or not list((tmp_path / "kept").iterdir())
    monkeypatch.setattr(improve, "copy_image", create)
    said(run(*images, "--budget", 2, "--out", "kept", "--copy"))
    assert len(listing(tmp_path / "kept")) == 30


@pytest.mark.skipif(not hasattr(os, "umask"), reason="POSIX")
def test_a_new_folder_has_the_usual_permissions(run, images, tmp_path):
    old = os.umask(0o022)
    try:
        said(run(*images, "--budget", 2, "--out", "new/kept", "--copy"))
    finally:
        os.umask(old)
    assert (tmp_path / "new" / "kept").stat().st_mode & 0o777 == 0o755


def test_an_array_is_not_replaced_by_its_positions(run, arrays):
    assert "must not be, or lie inside" in said(run(*arrays, "--budget", 2, "--out", "fake.npy"), 1)


@pytest.fixture
def texts(tmp_path):
    rng = np.random.default_rng(0)
    words = np.array(["cat", "dog", "tree", "sat", "ran", "on", "the", "mat"])

    def sentence(odd):
        return ("ZZ QQ " if odd else "") + " ".join(rng.choice(words, 5))

    (tmp_path / "real.txt").write_text("".join(sentence(False) + "\n" for _ in range(80)))
    fakes = [sentence(i % 2) for i in range(1, 81)]
    (tmp_path / "fake.txt").write_text("\n" + "\n".join(fakes) + "\n")  # a blank line: line 2 is the first text
    (tmp_path / "fake.jsonl").write_text("".join(json.dumps({"id": i, "body": t}) + "\n" for i, t in enumerate(fakes)))
    return fakes


def test_texts_by_line_number_or_as_records(run, texts, tmp_path):
    words = ("--real", "real.txt", "--fake", "fake.txt", "--budget", 2)
    lines = run(*words).stdout.splitlines()
    assert lines[0].startswith("line ")
    numbers = [int(line.split()[1]) for line in lines]
    assert np.mean([number % 2 for number in numbers]) > 0.9  # text i stands in line i + 1; the odd texts are strange
    assert run(*words, "--out", "kept.jsonl").exit_code == 0
    kept = [json.loads(line) for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
    assert [one["text"] for one in kept] == [texts[number - 2] for number in numbers]


@pytest.mark.usefixtures("texts")
def test_json_lines_are_kept_as_they_stood(run, tmp_path):
    words = ("--real", "real.txt", "--fake", "fake.jsonl", "--key", "body", "--budget", 2, "--out", "kept.jsonl")
    assert run(*words).exit_code == 0
    standing = (tmp_path / "fake.jsonl").read_text().splitlines()
    kept = (tmp_path / "kept.jsonl").read_text().splitlines()
    assert len(kept) == 40
    assert [line for line in standing if line in kept] == kept


@pytest.mark.parametrize(("header", "delimiter"), [("x;label\n", ";"), ("", ",")])
def test_rows_are_kept_under_their_header(run, tmp_path, header, delimiter):
    rng = np.random.default_rng(0)
    label = ("a", "b") if header else ("1", "2")
    for side, far in (("real", 0), ("fake", 5)):
        rows = [f"{rng.normal() + far * (i % 2):.6f}{delimiter}{label[i % 2]}" for i in range(100)]
        (tmp_path / f"{side}.csv").write_text(header + "\n".join(rows) + "\n")
    done = run("--real", "real.csv", "--fake", "fake.csv", "--budget", 2, "--out", "kept.csv")
    assert done.exit_code == 0, done.output
    kept, standing = ((tmp_path / f"{name}.csv").read_text().splitlines() for name in ("kept", "fake"))
    assert len(kept) == 50 + bool(header)
    assert [line for line in standing if line in kept] == kept
    assert (kept[0] == header.strip()) == bool(header)
    assert "takes the rows of a .tsv table" in said(
        run("--real", "real.csv", "--fake", "fake.csv", "--budget", 2, "--out", "kept.tsv"), 1
    )


def test_unreadable_images_are_skipped_and_positions_stay_those_of_the_folder(run, images, tmp_path):
    (tmp_path / "samples/a/0.png").write_bytes(b"broken")
    assert "0.png" in said(run(*images, "--budget", 2), 1)
    words = (*images, "--budget", 2, "--on-error", "skip")
    done = run(*words)
    assert "fake: skipped 1 of 60" in done.stderr
    assert "kept 30 of 59" in done.stderr
    assert run(*words, "--out", "kept.npy").exit_code == 0
    every = [f"{'ab'[i // 30]}/{i}.png" for i in range(60)]
    assert [every[i] for i in np.load(tmp_path / "kept.npy")] == done.stdout.split()


# --------------------------------------------------------------------------------------------------------------- plans


def test_a_plan_is_a_table_of_budgets(run, arrays):
    done = run(*arrays, "--plan", "--budget", 1.25)
    assert done.exit_code == 0, done.output
    above, *lines = done.stdout.splitlines()
    assert above.split() == ["precision"]
    assert lines[0].split("  ")[0].strip() == "budget"
    assert [line.split()[0] for line in lines[1:4]] == ["1", "1.25", "1.5"]
    assert lines[1].split()[1] == "100.0%"
    assert lines[2].split()[1] == "80.0%"
    best = [float(line.split()[2].split("–")[-1]) for line in lines[1:4]]
    assert best == sorted(best)
    assert lines[-1].startswith("budgets above ")


def test_the_least_budget_is_answered(run, arrays):
    ask = (*arrays, "--plan", "--min-precision", 0.7, "--at-recall", 0.5)
    line = run(*ask).stdout.splitlines()[-1]
    assert line.startswith("smallest budget with precision 0.7 at recall 0.5: ")
    found = json.loads(run(*ask, "--json").stdout)
    supported, at_best = found["least_budget"]
    assert line.endswith(f": {supported:.3g}; at best {at_best:.3g}")
    assert 1 < at_best < supported < 3  # half of the fakes are good
    assert found["outcomes"][0]["budget"] == 1


def test_what_no_budget_reaches_has_status_three(run, tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "real.npy", np.concatenate([rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 30]))
    np.save(tmp_path / "fake.npy", rng.normal(size=(100, 2)))
    words = ("--real", "real.npy", "--fake", "fake.npy", "--plan", "--min-precision", 0.9, "--at-recall", 0.95)
    done = run(*words)
    assert re.search(
        r"no budget reaches precision 0.9 at recall 0.95: the model never produces about 5\d% of the data",
        said(done, 3),
    )
    assert json.loads(run(*words, "--json").stdout)["least_budget"] == [None, None]


def test_what_only_a_huge_budget_reaches_is_not_called_never_produced(run, arrays, monkeypatch):
    monkeypatch.setattr(Plan, "least_budget", lambda self, **asked: Range(np.inf, np.inf))
    done = run(*arrays, "--plan", "--min-precision", 1, "--at-recall", 0.5, "--estimator", "linear")
    assert "no budget up to 100 reaches precision 1 at recall 0.5" in said(done, 3)
    assert "never produces" not in done.stderr


# ------------------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        ((), 2, "pass the number of samples per kept sample"),
        (("--budget", 0.5), 1, "`budget` must be at least 1"),
        (("--plan", "--budget", 2, "--centrality", 3), 2, "--plan predicts budgets, not trade-offs"),
        (("--budget", 2, "--centrality", 0), 1, "must be positive; got 0"),
        (("--budget", 2, "--centrality", "nan"), 1, "--centrality"),
        (("--budget", 2, "--lam", 3), 2, "with --budget use --centrality"),
        (("--plan", "--lam", 3), 2, "--target"),
        (("--plan", "--out", "kept.txt"), 2, "--plan writes nothing"),
        (("--budget", 2, "--min-precision", 0.5, "--at-recall", 0.5), 2, "use all three options"),
        (("--plan", "--min-precision", 0.5), 2, "use all three options"),
        (("--plan", "--min-precision", 5, "--at-recall", 0.5), 1, "`--min-precision` must be between 0 and 1"),
        (("--budget", 2, "--copy"), 2, "pass a folder"),
        (("--budget", 2, "--copy", "--link", "--out", "kept"), 2, "choose one of --copy and --link"),
        (("--budget", 2, "--out", "kept"), 2, "or a folder with --copy or --link"),
        (("--budget", 2, "--out", "kept.pkl"), 2, "expected a file (.txt .npy .json .jsonl .csv .tsv)"),
        (("--budget", 2, "--out", "kept.jsonl"), 1, "takes texts; fake.npy holds features"),
        (("--budget", 2, "--out", "kept.csv"), 1, "takes the rows of a .csv table"),
        (("--budget", 2, "--out", "kept", "--copy"), 1, "expected a folder or zip of images"),
        (("--budget", 2, "--key", "x"), 2, "none of the sources has names"),
        (("--budget", 2, "--estimator", "simon"), 2, "unknown estimator 'simon'"),
        (("--budgte", 2), 2, "No such option"),
    ],
)
def test_mistakes_cost_a_line_and_the_right_status(run, arrays, tmp_path, words, status, sentence):
    before = sorted(tmp_path.rglob("*"))
    done = CliRunner().invoke(app, ["improve", *arrays, *QUICK, *map(str, words)])
    assert sentence in said(done, status)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_note_is_a_line_and_not_a_python_warning(run, tmp_path):
    rng = np.random.default_rng(0)
    for side in ("real", "fake"):
        np.save(tmp_path / f"{side}.npy", rng.normal(size=(100, 2)))
    done = run("--real", "real.npy", "--fake", "fake.npy", "--budget", 2)
    assert done.exit_code == 0, done.output
    assert done.stderr.startswith("note: the classifiers cannot distinguish `fake` from `real`")


def test_centrality_prefers_central_samples(run, arrays):
    radius, kept = np.linalg.norm(np.load("fake.npy"), axis=1), {}
    for lam in (0.2, 1, 4):
        done = run(*arrays, "--budget", 4, "--centrality", lam, "--json")
        found = json.loads(done.stdout)
        assert found["centrality"] == lam
        assert found["kept"] == 25
        assert (f"with centrality {lam}" in said(done)) == (lam != 1)
        kept[lam] = radius[found["indices"]].mean()
    assert kept[4] < kept[1] < kept[0.2]
    assert run(*arrays, "--budget", 4).stdout == run(*arrays, "--budget", 4, "--centrality", 1).stdout


def test_a_column_that_is_left_out_is_a_remark(run, tmp_path):
    rng = np.random.default_rng(0)
    for name in ("real", "fake"):
        rows = [f"{i + 5000},{x:.4f},{y:.4f}" for i, (x, y) in enumerate(rng.normal(size=(80, 2)))]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,x,y", *rows]))
    done = run("--real", tmp_path / "real.csv", "--fake", tmp_path / "fake.csv", "--budget", 2, *QUICK)
    assert done.stderr.count("column id is left out: it looks like an identifier") == 1
    assert "Warning" not in done.stderr
