"""A file never names code: whatever a file says, only precall's own encoders and networks are loaded for it."""

import hashlib
import json
import sys
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from precall import Reference, Sketch, assess
from precall.cli import app
from precall.encoders.registry import named_by_file
from precall.metrics.scale.sketch import SKETCH
from precall.report import folder
from precall.samples.references import REFERENCE
from precall.sealing import read_sealed, write_sealed

NAME = "canary:ran"
TEXTS = [f"text number {i} of {i % 7}" for i in range(40)]
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def canary(tmp_path, monkeypatch):
    """A module that must not be imported unless the user names it."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "canary.py").write_text("import numpy as np\ndef ran(texts): return np.eye(len(texts), 5)\n")
    monkeypatch.syspath_prepend(str(code))
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    Path("fake.txt").write_text("\n".join(TEXTS))
    yield
    sys.modules.pop("canary", None)


def texts_in(value, path=()):
    """The paths of all texts in a JSON value."""
    if isinstance(value, str):
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        yield from texts_in(one, (*path, key))


def changed(value, path, new):
    """A JSON value with another text at a path."""
    copy = json.loads(json.dumps(value))
    place = copy
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = new
    return copy


def sealed(path, what, about):
    """Write the head of an archive anew, with its checksum."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if name != what.head}
    head = json.dumps(about).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (*members.items(), (what.head, head)):
            archive.writestr(name, data)
        archive.comment = hashlib.sha256(head).hexdigest().encode()


def forged(path, what):
    """The archive with the name of the canary in place of each of its texts, one after the other."""
    with zipfile.ZipFile(path) as archive:
        about = json.loads(archive.read(what.head))
    for place in texts_in(about):
        sealed(path, what, changed(about, place, NAME))
        yield place


def evil_reference(name=NAME):
    Reference.fit(TEXTS, encoder="words").save("evil.precall")
    with zipfile.ZipFile("evil.precall") as archive:
        about = json.loads(archive.read(REFERENCE.head))
    sealed("evil.precall", REFERENCE, changed(about, ("protocol", "encoder"), name))


def not_imported():
    return "canary" not in sys.modules


def read_reference(run):
    Reference.fit(TEXTS, encoder="words").save("evil.precall")
    for _ in forged("evil.precall", REFERENCE):
        with suppress(ValueError):
            Reference.load("evil.precall").assess(TEXTS, metrics=("fid",))
        assert not_imported()
    with suppress(ValueError):
        assess(real="evil.precall", fake=TEXTS, metrics=("fid",))


def read_reference_with(*words):
    def read(run):
        evil_reference()
        assert NAME in run(*words).output  # the error names it

    return read


def read_shards(run):
    evil_reference()
    run("assess", "--real", "evil.precall", "--fake", "fake.txt", "--work", "work", "--metrics", "fid")
    run("improve", "--real", "evil.precall", "--fake", "fake.txt", "--plan")


def read_sketch(run):
    real = RNG.normal(size=(40, 2))
    Reference.fit(real).sketch(real + 1).save("evil.sketch")
    for _ in forged("evil.sketch", SKETCH):
        with suppress(ValueError):
            Sketch.load("evil.sketch").assessment()
        assert not_imported()
    run("reference", "merge", "evil.sketch")


def read_report(run):
    np.save("x.npy", RNG.normal(size=(40, 2)))
    np.save("y.npy", RNG.normal(size=(40, 2)))
    assert run("assess", "--real", "x.npy", "--fake", "y.npy", "--metrics", "fid", "--out", "report").exit_code == 0
    results = json.loads(Path("report/results.json").read_text())
    for place in texts_in(results):
        Path("report/results.json").write_text(json.dumps(changed(results, place, NAME)))
        with suppress(ValueError):
            folder.load("report")
    run("report", "report", "--out", "page.html")


def read_cache(run):
    words = ("assess", "--real", "fake.txt", "--fake", "fake.txt", "--metrics", "fid", "--quiet")
    assert run(*words).exit_code == 0
    for path in [path for path in Path("cache").rglob("*") if path.is_file()]:
        with suppress(ValueError):
            head, line, body = read_sealed(path).rpartition(b"\n")
            known = json.loads(body)
            for place in texts_in(known):
                write_sealed(path, head + line + json.dumps(changed(known, place, NAME)).encode())
                run(*words)
                assert not_imported()


def read_sidecar(run):
    assert run("encode", "fake.txt", "--out", "x.npy").exit_code == 0
    sidecar = next(path for path in Path().glob("x*") if path.suffix != ".npy")
    known = json.loads(sidecar.read_text())
    for place in texts_in(known):
        sidecar.write_text(json.dumps(changed(known, place, NAME)))
        run("assess", "--real", "x.npy", "--fake", "x.npy", "--metrics", "fid")
        run("encode", "fake.txt", "--out", "x.npy")


def read_run(run):
    words = ("tune", "--data", "8-gaussians", "--model", "mlp", "--lam", "1", "--steps", "2", "--out", "run")
    assert run(*words).exit_code == 0
    known = json.loads(Path("run/run.json").read_text())
    for place in [("options", name) for name in known["options"]]:
        Path("run/run.json").write_text(json.dumps(changed(known, place, NAME)))
        run("tune", "--out", "run", "--resume")
        assert not_imported()


READERS = {
    "reference": read_reference,
    "assess": read_reference_with("assess", "--real", "evil.precall", "--fake", "fake.txt"),
    "sketch": read_reference_with(
        *("reference", "sketch", "--real", "evil.precall", "--fake", "fake.txt", "--out", "a.sketch")
    ),
    "tradeoff": read_reference_with("tradeoff", "--real", "evil.precall", "--fake", "m@1=fake.txt"),
    "shards": read_shards,
    "merge": read_sketch,
    "report": read_report,
    "cache": read_cache,
    "sidecar": read_sidecar,
    "run": read_run,
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_no_file_names_code(reader):
    reader(lambda *words: CliRunner().invoke(app, [str(word) for word in words]))
    assert not_imported()


@pytest.mark.parametrize("option", ["--encoder", "--allow-encoder"])
def test_the_user_allows_code_by_its_name(option):
    assert CliRunner().invoke(app, ["reference", "make", "fake.txt", "--encoder", NAME, "--out", "mine.precall"])
    sys.modules.pop("canary", None)
    done = CliRunner().invoke(
        app, ["assess", "--real", "mine.precall", "--fake", "fake.txt", "--metrics", "fid", option, NAME]
    )
    assert (done.exit_code, not_imported()) == (0, False), done.output


@pytest.mark.parametrize("name", [["pixels"], {"a": 1}, 5, "pixels ", "os:system", "\x1b[2J" * 1000])
def test_names_of_files_are_those_of_the_registry(name):
    with pytest.raises(ValueError, match="--allow-encoder") as error:
        named_by_file(name, "x.precall")
    assert len(str(error.value)) < 1000
    assert str(error.value).isprintable()
