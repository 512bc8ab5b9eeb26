"""The same question, asked again, is answered from the cache: same bytes, no work."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from precall.cli import app, results_cache as saved
from precall.metrics.assessing import assessment
from precall.samples import open_samples
from precall.sealing import LENGTH

SAID = "results from the cache of "


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def work(monkeypatch):
    """The settings of each assessment of a model that was computed."""
    done, assess = [], assessment.assess_each

    def counted(**settings):
        for one in assess(**settings):
            done.append(settings)
            yield one

    monkeypatch.setattr(assessment, "assess_each", counted)
    return done


@pytest.fixture
def run(cache):
    return lambda *words: CliRunner().invoke(app, ["assess", *(str(word) for word in words)])


@pytest.fixture
def arrays(tmp_path):
    """The fakes lack half of the data: recall is low, precision is not."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "real.npy", rng.normal(size=(60, 2)))
    np.save(tmp_path / "fake.npy", np.abs(rng.normal(size=(60, 2))))
    return ("--real", tmp_path / "real.npy", "--fake", f"ours={tmp_path / 'fake.npy'}", "--metrics", "neighbors")


@pytest.fixture
def pictures(tmp_path):
    """Two classes a side, one of each side's own, and a picture that cannot be read."""
    rng = np.random.default_rng(0)
    for side in ("real", "fake"):
        for label in ("cat", f"only-{side}"):
            (tmp_path / side / label).mkdir(parents=True)
            for i in range(16):
                pixels = rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / side / label / f"{i}.png")
    (tmp_path / "fake" / "cat" / "broken.png").write_bytes(b"broken")
    return (
        "--real", tmp_path / "real", "--fake", f"ours={tmp_path / 'fake'}", "--encoder", "pixels", "--groups",
        "folders", "--on-error", "skip", "--metrics", "clusters,neighbors,copies,fid",
    )  # fmt: skip


def entries(cache):
    return sorted((cache / "results").iterdir())


def folder(path):
    return {file.name: file.read_bytes() for file in path.iterdir()}


# ------------------------------------------------------------------------------------------------------ the same bytes


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["table", "json"])
def test_a_second_run_tells_the_same_and_computes_nothing(run, work, pictures, tmp_path, form):
    out = tmp_path / "out"
    first = run(*pictures, "--out", out, *form)
    written = folder(out)
    second = run(*pictures, "--out", out, *form)
    assert first.exit_code == 0, first.output
    assert len(work) == 1
    assert second.stdout == first.stdout
    assert folder(out) == written
    assert {"report.html", "results.json", "galleries.json", "curves.png"} == set(written)
    new, *rest = second.stderr.splitlines()
    assert new.startswith(SAID)
    assert rest == first.stderr.splitlines()
    assert "skipped 1 of 33" in first.stderr
    assert "broken.png: " in first.stderr
    assert "never produced, and so without scores: only-real" in first.stderr


def test_the_page_comes_from_the_cache_even_where_the_first_run_wrote_none(run, work, pictures, tmp_path):
    run(*pictures)
    assert run(*pictures, "--out", tmp_path / "later").exit_code == 0
    assert run(*pictures, "--out", tmp_path / "fresh", "--fresh").exit_code == 0
    assert len(work) == 2
    assert folder(tmp_path / "later") == folder(tmp_path / "fresh")
    assert json.loads((tmp_path / "later" / "galleries.json").read_text())["ours"]["mosaic"]


@pytest.mark.parametrize(("gate", "status"), [(("--min-recall", 0.9), 3), (("--min-precision", 0.5), 0)])
def test_gates_hold_of_saved_results(run, work, arrays, gate, status):
    first, second = run(*arrays, *gate), run(*arrays, *gate)
    assert (first.exit_code, second.exit_code) == (status, status), first.output
    assert len(work) == 1
    assert second.stderr.splitlines()[1:] == first.stderr.splitlines()


def test_a_gate_whose_score_no_metric_gives_is_refused_before_any_work(run, work, arrays):
    done = run(*arrays, "--max-fid", 1)
    assert done.exit_code == 2
    assert "--max-fid" in done.output
    assert "add fid to --metrics" in done.output
    assert work == []


def test_fresh_computes_again_and_keeps_that(run, work, arrays, cache):
    run(*arrays)
    (entry,) = entries(cache)
    old = entry.read_bytes()
    entry.write_bytes(b"")
    again = run(*arrays, "--fresh")
    assert len(work) == 2
    assert SAID not in again.stderr
    assert run(*arrays, "--fresh").stdout == run(*arrays).stdout == again.stdout
    assert len(work) == 3
    bodies = [data.partition(b"\n")[2][:-LENGTH] for data in (entry.read_bytes(), old)]
    assert bodies[0] == bodies[1] != b""


def test_the_command_is_that_of_the_present_call(run, arrays, monkeypatch):
    for word in ("one", "two"):
        monkeypatch.setattr(sys, "argv", ["precall", word])
        assert json.loads(run(*arrays, "--json").stdout)["command"] == f"precall {word}"


def test_saved_results_need_no_heavy_imports(run, pictures, cache):
    words = [str(word) for word in pictures if word != "pixels"]
    words[words.index("--encoder") : words.index("--encoder") + 1] = ["--encoder", "random-vgg"]
    assert run(*words).exit_code == 0
    script = (
        "import sys; from precall.cli import app; app(sys.argv[1:], standalone_mode=False);"
        "sys.exit(', '.join({'torch', 'scipy', 'sklearn', 'rich', 'matplotlib'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script, "assess", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert SAID in done.stderr


# ------------------------------------------------------------------------------------------------------------- the key


@pytest.mark.parametrize(
    "other",
    [("--seed", 1), ("--k", 3), ("--ties", "open"), ("--metrics", "neighbors,fid"), ("--on-error", "skip")],
    ids=lambda words: words[0],
)
def test_another_setting_is_another_question(run, work, arrays, other):
    run(*arrays)
    assert run(*arrays, *other).exit_code == 0
    assert len(work) == 2


def test_another_name_is_another_question_and_another_order_is_not(run, work, arrays, tmp_path):
    fake = tmp_path / "fake.npy"
    both = ("--fake", f"theirs={fake}"), ("--fake", f"ours={fake}")
    for models in (both[:1], both, both[::-1]):
        told = run(*arrays[:2], *(word for model in models for word in model), *arrays[4:])
        assert told.exit_code == 0, told.output
        named = [line for line in told.stdout.splitlines() if line in ("ours", "theirs")]
        assert named == [model[1].split("=")[0] for model in models]
    assert len(work) == 2


@pytest.mark.parametrize("side", ["real", "fake"])
def test_other_content_is_another_question(run, work, arrays, tmp_path, side):
    run(*arrays)
    array = np.load(tmp_path / f"{side}.npy")
    array[0] += 1e-6
    np.save(tmp_path / f"{side}.npy", array)
    assert SAID not in run(*arrays).stderr
    assert len(work) == 2


def test_real_and_fake_exchanged_are_another_question(run, work, tmp_path, arrays):
    real, fake = tmp_path / "real.npy", tmp_path / "fake.npy"
    there = run("--real", real, "--fake", f"x={fake}", *arrays[4:], "--json")
    back = run("--real", fake, "--fake", f"x={real}", *arrays[4:], "--json")
    assert len(work) == 2
    one, other = (json.loads(done.stdout)["models"]["x"]["scores"] for done in (there, back))
    assert one["precision"]["value"] == other["recall"]["value"] > other["precision"]["value"] + 0.2


def test_other_labels_are_another_question(run, work, arrays, tmp_path):
    for first in ("a", "b"):
        for side in ("real", "ours"):
            (tmp_path / f"{side}.txt").write_text(f"{first}\n" + "a\nb\n" * 29 + "b\n")
        groups = (f"--groups={side}={tmp_path / side}.txt" for side in ("real", "ours"))
        assert run(*arrays, *groups).exit_code == 0
    assert len(work) == 2


def test_renamed_pictures_are_shown_under_their_names(run, work, pictures, tmp_path):
    at = pictures.index("--groups")
    words = [*pictures[:at], *pictures[at + 2 :], "--out", tmp_path / "out"]
    run(*words)
    (tmp_path / "fake" / "only-fake").rename(tmp_path / "fake" / "renamed")
    run(*words)
    assert len(work) == 2
    shown = (tmp_path / "out" / "galleries.json").read_text()
    assert "renamed/" in shown
    assert "only-fake/" not in shown


def test_a_folder_that_moved_whole_is_the_same_question(run, work, pictures, tmp_path):
    run(*pictures)
    (tmp_path / "moved").mkdir()
    for side in ("real", "fake"):  # the path of the folder itself is shown nowhere
        (tmp_path / side).rename(tmp_path / "moved" / side)
    assert SAID in run(*(str(word).replace(str(tmp_path), str(tmp_path / "moved")) for word in pictures)).stderr
    assert len(work) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [("version", lambda package: "0.0.0"), ("_gpu", lambda: "another"), ("PACKAGES", ("numpy",))],
)
def test_other_versions_and_devices_are_other_questions(arrays, cache, monkeypatch, name, value):
    def path():
        return saved.ResultsCache(open_samples(arrays[1]), None, {}, {}).entry("x", open_samples(arrays[1])).path

    before = path()
    assert path() == before
    monkeypatch.setattr(saved, name, value)
    assert path() != before


def test_edited_source_is_another_question(cache, monkeypatch, tmp_path):
    seen = []
    for folder, code in (("a", "x = 1"), ("b", "x = 2"), ("c", "x = 1")):
        (tmp_path / folder / "deep").mkdir(parents=True)
        (tmp_path / folder / "deep" / "module.py").write_text(code)
        monkeypatch.setattr(saved.precall, "__file__", str(tmp_path / folder / "__init__.py"))
        seen.append(saved.made_with()["source"])
    assert seen[0] == seen[2] != seen[1]


def test_an_edited_function_is_another_encoder(run, work, pictures, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    words = [word if word != "pixels" else "seen_by_me:encode" for word in pictures]
    for channel, expected in ((0, 1), (0, 1), (1, 2)):
        (tmp_path / "seen_by_me.py").write_text(
            f"import numpy as np\ndef encode(batch):\n    return np.stack([x[..., {channel}].ravel() for x in batch])\n"
        )
        sys.modules.pop("seen_by_me", None)
        assert run(*words).exit_code == 0
        assert len(work) == expected
        for compiled in tmp_path.glob("__pycache__/*"):  # the same size within one second: Python would not notice
            compiled.unlink()


def test_encoders_that_live_elsewhere_are_loaded_once(run, work, tmp_path, monkeypatch):
    """The weights of a model hub may change under the same name."""
    from precall.encoders import hub, registry
    from precall.encoders.encoder import Encoder

    loads, weights = [], ["one"]

    def minilm(*, device=None):
        loads.append(weights[0])
        return Encoder("minilm", "text", {"weights": weights[0]}, len, lambda batch: np.c_[batch, np.square(batch)])

    minilm.__module__ = hub.__name__
    monkeypatch.setitem(registry.ENCODERS, "minilm", minilm)
    for side in ("real", "fake"):
        (tmp_path / f"{side}.txt").write_text("".join("a" * i + "\n" for i in range(1, 30)))
    words = ("--real", tmp_path / "real.txt", "--fake", tmp_path / "fake.txt", "--metrics", "fid")
    words += ("--encoder", "minilm")
    for name in ("one", "one", "two"):
        weights[0] = name
        assert run(*words).exit_code == 0
    assert loads == ["one", "one", "two"]
    assert [settings["request"].encoder.protocol["weights"] for settings in work] == ["one", "two"]


# ------------------------------------------------------------------------------------------- damage, changes, company


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: b"",
        lambda whole: whole[: len(whole) // 2],
        lambda whole: whole.replace(b"0", b"1"),
        lambda whole: whole.replace(b'"precision"', b'"precisiom"'),
        lambda whole: b"[]\n" + whole,
        lambda whole: b"\x80\x04}\x94." + whole,  # a pickle is not opened
    ],
)
def test_a_damaged_entry_is_named_set_aside_and_written_again(run, work, arrays, cache, damage):
    first = run(*arrays)
    (entry,) = entries(cache)
    damaged = damage(entry.read_bytes())
    entry.write_bytes(damaged)
    second = run(*arrays)
    assert second.stdout == first.stdout
    assert len(work) == 2
    (line,) = (line for line in second.stderr.splitlines() if "damaged" in line)
    assert line.startswith(f"precall: `{entry}` is damaged and is not used; it was moved to `")
    assert run(*arrays).stdout == first.stdout
    assert len(work) == 2
    assert entries(cache) == [entry]
    assert [path.read_bytes() for path in (cache / "damaged").iterdir()] == [damaged]


def test_samples_that_change_under_way_are_not_kept(run, arrays, cache, monkeypatch, tmp_path):
    assess = assessment.assess_each

    def meddled(*, real, **settings):
        np.save(tmp_path / "real.npy", np.zeros((60, 2)) + np.arange(60)[:, None])
        return assess(real=open_samples(tmp_path / "real.npy"), **settings)

    monkeypatch.setattr(assessment, "assess_each", meddled)
    assert run(*arrays).exit_code == 0
    assert not (cache / "results").exists()


def test_a_cache_that_cannot_be_written_costs_time_only(run, work, arrays, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "file"))
    first, second = run(*arrays), run(*arrays)
    assert (first.exit_code, second.exit_code, len(work)) == (0, 0, 2)
    assert first.stdout == second.stdout


def test_two_processes_at_once_agree(arrays, cache, python):
    command = [*python(), "-m", "precall", "assess", *map(str, arrays), "--metrics", "fid"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    told = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert told[0] == told[1]
    assert [entry.suffix for entry in entries(cache)] == [".json"]


def test_statistics_are_asked_about_by_content_and_place(run, work, arrays, tmp_path):
    real = np.load(arrays[1])
    words = ("--fake", tmp_path / "fake.npy", "--metrics", "fid", "--json")
    for name in ("one", "two"):
        np.savez(tmp_path / f"{name}.npz", mu=real.mean(0), sigma=np.cov(real, rowvar=False))
        told = [json.loads(run("--real", tmp_path / f"{name}.npz", *words).stdout) for _ in range(2)]
        assert told[0] == told[1]
        assert Path(told[0]["models"]["fake.npy"]["protocol"]["real"]["statistics"]).stem == name
    assert len(work) == 2


@pytest.mark.parametrize("position", [0, 5, 30, 200, -1, -20, -LENGTH, -LENGTH - 1])
def test_a_flipped_bit_in_results_reaches_no_table(run, work, arrays, cache, position):
    first = run(*arrays, "--json")
    (entry,) = entries(cache)
    intact = entry.read_bytes()
    data = bytearray(intact)
    data[position] ^= 4
    entry.write_bytes(data)
    second = run(*arrays, "--json")
    assert second.stdout == first.stdout
    assert len(work) == 2
    assert SAID not in second.stderr


def test_damaged_features_reach_neither_the_table_nor_the_cache_of_results(run, work, pictures, cache):
    """A number that was computed from damaged features would be served even after the repair."""
    words = (*pictures, "--json")
    first = run(*words)
    for matrix in sorted(cache.rglob("features.npy")):
        data = bytearray(matrix.read_bytes())
        data[len(data) // 2] ^= 64
        matrix.write_bytes(data)
        for entry in entries(cache):
            entry.unlink()
        second = run(*words)
        assert "is damaged and is not used" in second.stderr
        assert second.stdout == first.stdout == run(*words).stdout
    assert len(work) == 3


# ------------------------------------------------------------------------------------------------------- interruptions


@pytest.mark.parametrize("stop", [KeyboardInterrupt, MemoryError])
def test_finished_models_of_an_interrupted_assessment_are_kept(run, work, arrays, tmp_path, monkeypatch, stop):
    words = [*arrays, "--fake", f"theirs={tmp_path / 'other.npy'}", "--out", tmp_path / "out"]
    np.save(tmp_path / "other.npy", np.random.default_rng(1).normal(size=(60, 2)))
    whole, one_by_one = run(*words, "--json", "--fresh"), assessment.Reference.assess
    for entry in entries(tmp_path / "cache"):
        entry.unlink()
    del work[:]

    def interrupted(reference, fake, *, name, **settings):
        if name == "theirs":
            raise stop
        return one_by_one(reference, fake, name=name, **settings)

    monkeypatch.setattr(assessment.Reference, "assess", interrupted)
    cut = run(*words, "--json")
    assert cut.exit_code == (130 if stop is KeyboardInterrupt else 1)
    assert "finished and kept in the cache: ours; still to assess: theirs" in cut.stderr
    monkeypatch.setattr(assessment.Reference, "assess", one_by_one)
    again = run(*words, "--json")
    assert again.stdout == whole.stdout
    assert f"results of ours{SAID.removeprefix('results')}" in again.stderr
    assert [list(settings["fake"]) for settings in work] == [["ours", "theirs"], ["theirs"]]


def test_a_killed_assessment_keeps_finished_models(run, arrays, tmp_path, python):
    """Nothing has to run at the end of the process for that."""
    words = [*map(str, arrays), "--fake", f"theirs={tmp_path / 'fake.npy'}"]
    script = (
        "import os, sys; from precall.cli import app; from precall.metrics.assessing import assessment;"
        "first = assessment.Reference.assess;"
        "kill = lambda *a, name, **s: os.kill(os.getpid(), 9) if name == 'theirs' else first(*a, name=name, **s);"
        "assessment.Reference.assess = kill; app(sys.argv[1:])"
    )
    killed = subprocess.run([*python(), "-c", script, "assess", *words], capture_output=True, text=True)
    assert killed.returncode == -9
    again = run(*words)
    assert again.exit_code == 0, again.output
    assert "results of ours from the cache of " in again.stderr
