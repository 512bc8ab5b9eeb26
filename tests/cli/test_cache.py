"""`precall cache` shows, verifies and prunes the cache, and nothing else."""

import json
import os
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

from precall.cli import app
from precall.encoders import encode
from precall.encoders.inventory import cache_entries
from precall.metrics.scale.sharded import assess_sharded

HOUR, DAY = 3600, 86400


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def run(cache):
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def filled(run, cache, tmp_path):
    """Features and an index of two texts, and the results of one assessment."""
    for side in ("real", "fake"):
        rng = np.random.default_rng(len(side) + (side == "real"))
        lines = (" ".join(rng.choice(["cat", "dog", "sat", "mat", "ran"], 5)) for _ in range(40))
        (tmp_path / f"{side}.txt").write_text("\n".join(lines))
        os.utime(tmp_path / f"{side}.txt", (1e9, 1e9))
    words = ("assess", "--real", tmp_path / "real.txt", "--fake", tmp_path / "fake.txt", "--metrics", "fid", "--json")
    assert run(*words).exit_code == 0
    return words


def tree(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def kinds(cache):
    return [entry.kind for entry in cache_entries(cache)]


def used(entry, age):
    for path in entry.files:
        os.utime(path, (time.time() - age,) * 2)


def rows(text):
    return {line[:16].strip(): line[16:].split() for line in text.splitlines()[2:]}


# ---------------------------------------------------------------------------------------------------------------- show


def test_an_empty_cache_is_shown_and_not_created(run, cache):
    done = run("cache")
    assert (done.exit_code, done.stdout) == (0, f"cache: {cache}\nempty\n")
    assert run("cache", "verify").stdout == "checked 0 files: none damaged\n"
    assert run("cache", "prune").exit_code == 0
    assert not cache.exists()


@pytest.mark.usefixtures("filled")
def test_entries_are_shown_by_kind_with_size_and_age(run, cache):
    (cache / "weights").mkdir()
    (cache / "weights" / "w.pt").write_bytes(b"x" * 2_500_000)
    os.utime(cache / "weights" / "w.pt", (time.time() - 3 * DAY - 60,) * 2)
    shown = run("cache").stdout
    assert shown.startswith(f"cache: {cache}\n")
    table = rows(shown)
    assert table["features"][0] == "2"
    assert table["results"][0] == "1"
    assert table["index of files"][0] == "2"
    assert table["weights"] == ["1", "2.5", "MB", "3", "d", "ago"]
    assert table["total"][0] == "6"
    sizes = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file())
    assert sum(entry.size for entry in cache_entries(cache)) == sizes


# -------------------------------------------------------------------------------------------------------------- verify


def test_every_file_is_verified_and_a_flipped_bit_in_any_of_them_is_found(run, cache, filled):
    assert run("cache", "verify").stdout == "checked 7 files: none damaged\n"
    first, undamaged = run(*filled, "--fresh"), tree(cache)
    for name, data in undamaged.items():
        for position in (0, len(data) // 2, len(data) - 1):
            damaged = bytearray(data)
            damaged[position] ^= 16
            (cache / name).write_bytes(damaged)
            done = run("cache", "verify")
            assert done.exit_code == 1
            assert done.stdout == "checked 7 files: 1 damaged\n"
            assert f"`{cache / name}` is damaged" in done.stderr
            assert not (cache / name).exists()
            (aside,) = (cache / "damaged").iterdir()
            assert aside.read_bytes() == bytes(damaged)
            aside.unlink()
            assert run(*filled).stdout == first.stdout
            for other, content in undamaged.items():
                (cache / other).write_bytes(content)
    assert run("cache", "verify").exit_code == 0


def test_weights_are_held_to_the_hash_in_their_name(run, cache):
    weights = cache / "weights"
    weights.mkdir(parents=True)
    (weights / "vgg16.pt").write_bytes(b"not the pinned file")
    (weights / "unknown.pt").write_bytes(b"whatever")
    done = run("cache", "verify")
    assert done.stdout == "checked 1 files: 1 damaged\n"
    assert [path.name for path in weights.iterdir()] == ["unknown.pt"]


@pytest.mark.usefixtures("filled")
def test_entries_of_earlier_versions_are_not_called_damaged(run, cache):
    for entry in cache_entries(cache):
        for path in entry.files:
            path.write_bytes(b"without a hash")
    for kind in ("features", "results", "files"):
        for path in (cache / kind).iterdir():
            path.rename(path.with_name(path.name.removeprefix("v2-")))
    assert run("cache", "verify").stdout == "checked 0 files: none damaged\n"
    assert set(kinds(cache)) == {"earlier version"}
    assert run("cache", "prune", "--older-than", "0s").exit_code == 0
    assert kinds(cache) == []


# --------------------------------------------------------------------------------------------------------------- prune


@pytest.mark.usefixtures("filled")
def test_entries_not_used_for_long_are_removed(run, cache):
    old, *rest = cache_entries(cache)
    used(old, 31 * DAY)
    used(rest[0], 29 * DAY)
    done = run("cache", "prune", "--older-than", "30d")
    assert done.exit_code == 0
    assert done.stdout.startswith("removed 1 entries (")
    assert {entry.files for entry in cache_entries(cache)} == {entry.files for entry in rest}
    assert not old.files[0].parent.exists()


def test_reading_counts_as_use(run, cache, filled):
    for entry in cache_entries(cache):
        used(entry, 40 * DAY)
    run(*filled)
    run("cache", "prune", "--older-than", "30d")
    assert kinds(cache) == ["results", "index of files", "index of files"]  # the features were not read
    run(*filled, "--fresh")
    for entry in cache_entries(cache):
        used(entry, 40 * DAY)
    run(*filled, "--fresh")
    run("cache", "prune", "--older-than", "30d")
    assert kinds(cache) == ["features", "features", "results", "index of files", "index of files"]


@pytest.mark.usefixtures("filled")
def test_the_least_recently_used_entries_go_first(run, cache):
    entries = cache_entries(cache)
    for age, entry in enumerate(entries):
        used(entry, age * DAY + 60)
    (cache / "weights").mkdir()
    (cache / "weights" / "w.pt").write_bytes(b"x" * 1000)
    os.utime(cache / "weights" / "w.pt", (1, 1))  # never removed, however old
    limit = 1000 + sum(entry.size for entry in entries[:2])
    assert run("cache", "prune", "--larger-than", f"{limit}B").exit_code == 0
    assert [entry.files for entry in cache_entries(cache)[:2]] == [entry.files for entry in entries[:2]]
    assert kinds(cache) == ["features", "features", "weights"]
    done = run("cache", "prune", "--larger-than", "0B")
    assert kinds(cache) == ["weights"]
    assert "still larger than requested: weights and data sets (1 kB) are not removed" in done.stderr


@pytest.mark.usefixtures("filled")
def test_leftovers_of_killed_processes_are_removed_after_an_hour(run, cache):
    entries = cache_entries(cache)
    (folder,) = {entries[0].files[0].parent}
    old, new = folder / "rows-000000000.npy.12-0123abcd.tmp", folder / ".precall-12-0123456789abcdef.tmp"
    results = cache / "results" / f"v2-{'a' * 64}.json.7-00000000.tmp"
    for path, age in ((old, 2 * HOUR), (results, 2 * HOUR), (new, HOUR / 2)):
        path.write_bytes(b"half")
        os.utime(path, (time.time() - age,) * 2)
    assert rows(run("cache").stdout)["unfinished"][0] == "3"
    assert run("cache", "prune").stdout.startswith("removed 2 entries (8 B)")
    assert (old.exists(), results.exists(), new.exists()) == (False, False, True)
    run("cache", "prune", "--older-than", "1s", "--larger-than", "0B")
    assert new.exists()  # another process may be writing it


def test_files_of_others_and_links_are_left_alone(run, cache, tmp_path, monkeypatch):
    """PRECALL_CACHE may point to a folder with other files by mistake."""
    home = tmp_path / "home"
    key = "0" * 64
    names = (
        "notes.txt", "results/summer.json", "results/0.json", "files/letter.json", f"features/{key}/mine.npy",
        "features/readme.md", "features/mine/features.npy", "damaged/photo.png", "damaged/photo.deadbeef", "x.tmp",
        "results/x.json.1-00000000.tmp", "weights/mine.pt", "data/mine.csv", f"results/deep/v2-{key}.json",
    )  # fmt: skip
    for name in names:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("mine")
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "features" / f"v2-{key}").mkdir(parents=True)
    (elsewhere / "features" / f"v2-{key}" / "done.json").write_text("mine")
    (elsewhere / f"v2-{key}.json").write_text("mine")
    (home / "features" / f"v2-{key}").symlink_to(elsewhere / "features" / f"v2-{key}")
    (home / "files" / f"v2-{key}.json").symlink_to(elsewhere / f"v2-{key}.json")
    (home / "features" / key / "done.json").symlink_to(elsewhere / f"v2-{key}.json")
    for path in [*home.rglob("*"), *elsewhere.rglob("*")]:
        os.utime(path, (1, 1), follow_symlinks=False)
    before = sorted(home.rglob("*")), tree(home), tree(elsewhere)
    monkeypatch.setenv("PRECALL_CACHE", str(home))
    assert run("cache", "verify").exit_code == 0
    assert run("cache", "prune", "--older-than", "1d", "--larger-than", "0B").stdout.startswith("removed 0 entries")
    assert (sorted(home.rglob("*")), tree(home), tree(elsewhere)) == before
    shutil.rmtree(home / "results")
    (home / "results").symlink_to(elsewhere)
    run("cache", "prune", "--older-than", "1d", "--larger-than", "0B")
    assert tree(elsewhere) == before[2]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("prune", "--older-than", "30"), "expected a number and one of s, min, h, d, w, as in 30d; got '30'"),
        (("prune", "--older-than", "-1d"), "got '-1d'"),
        (("prune", "--older-than", "nand"), "got 'nand'"),
        (("prune", "--larger-than", "5 apples"), "expected a number and one of B, kB, MB, GB, TB, as in 5GB"),
        (("prune", "--larger-than", ""), "an argument is empty"),
        (("verify", "--larger-than", "5GB"), "belong to `precall cache prune`"),
        (("--older-than", "5d"), "belong to `precall cache prune`"),
        (("clear",), "'clear' is not one of 'show', 'verify', 'prune'"),
    ],
)
def test_mistakes_have_status_two_and_remove_nothing(run, cache, words, sentence):
    done = run("cache", *words)
    assert done.exit_code == 2
    assert sentence in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.parametrize(("given", "removed"), [("12h", 1), ("0.5d", 1), ("1 W", 0), ("9" * 400 + "d", 0)])
def test_units_of_time(run, cache, given, removed):
    encode(["a", "b"], "ngrams")
    used(cache_entries(cache)[0], 13 * HOUR)
    assert run("cache", "prune", "--older-than", given).stdout.startswith(f"removed {removed} ")


# ----------------------------------------------------------------------------------------------------------- processes


def test_pruning_and_verifying_beside_a_running_assessment_is_safe(run, cache, filled, python):
    """The cache is emptied and verified again and again while two processes fill it."""
    command = ["-W", "error", "-m", "precall", *map(str, filled), "--fresh"]
    expected = json.loads(run(*filled, "--fresh").stdout)["models"]
    both = [
        subprocess.Popen([*start, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for start in ([sys.executable], python())
    ]
    rounds = 0
    while any(process.poll() is None for process in both):
        for words in (("verify",), ("prune", "--larger-than", "0B")):
            assert run("cache", *words).exit_code == 0
        rounds += 1
        time.sleep(0.05)
    for process in both:
        out, err = process.communicate()
        assert process.returncode == 0, err
        assert json.loads(out)["models"] == expected
    assert rounds > 3
    assert not (cache / "damaged").exists()


# -------------------------------------------------------------------------------------------------------- sharded runs


def test_stages_of_sharded_runs_are_shown_verified_and_pruned(run, cache):
    x = np.random.default_rng(0).normal(size=(4, 30, 2))
    list(assess_sharded(real=list(x[:2]), fake={"ours": list(x[2:])}, metrics=("fid",)))
    (cache / "work" / "mine").mkdir()
    (cache / "work" / "mine" / "stage.npz").write_bytes(b"of somebody else")
    assert set(kinds(cache)) == {"sharded runs"}
    assert run("cache", "verify").stdout == f"checked {len(kinds(cache))} files: none damaged\n"
    damaged = next((cache / "work").glob("*-*/stage.npz"))
    damaged.write_bytes(damaged.read_bytes()[:-9] + b"otherwise")
    assert run("cache", "verify").exit_code == 1
    assert sorted(set(kinds(cache))) == ["damaged", "sharded runs"]
    assert run("cache", "prune", "--older-than", "0s").exit_code == 0
    assert sorted(tree(cache)) == ["work/mine/stage.npz", "work/timings.json"]
