"""References and sketches: equal ones are equal bytes, and what they say is checked as a whole, even if sealed."""

import hashlib
import io
import json
import time
import zipfile

import numpy as np
import pytest

from precall import Reference, Sketch

RNG = np.random.default_rng(0)
REAL, FAKE = RNG.normal(size=(80, 3)), RNG.normal(size=(60, 3))


@pytest.fixture
def saved(tmp_path):
    """A reference and a sketch."""
    reference = Reference.fit(REAL, k=3)
    return {
        "reference": reference.save(tmp_path / "a.precall"),
        "sketch": reference.sketch(FAKE).save(tmp_path / "a.sketch"),
    }


def load(path):
    return Reference.load(path) if path.suffix == ".precall" else Sketch.load(path)


def resealed(path, change):
    """Change the settings and the arrays of an archive, with valid checksums."""
    head = "reference.json" if path.suffix == ".precall" else "sketch.json"
    with zipfile.ZipFile(path) as archive:
        about = json.loads(archive.read(head))
        arrays = {name: np.load(io.BytesIO(archive.read(f"{name}.npy"))) for name in about["sha256"]}
    change(about, arrays)
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            data = io.BytesIO()
            np.save(data, array)
            archive.writestr(f"{name}.npy", data.getvalue())
            about["sha256"][name] = hashlib.sha256(data.getvalue()).hexdigest()
        content = json.dumps(about).encode()
        archive.writestr(head, content)
        archive.comment = hashlib.sha256(content).hexdigest().encode()
    return path


def test_equal_archives_are_equal_bytes(saved, tmp_path, monkeypatch):
    monkeypatch.setattr(time, "localtime", lambda *_: time.gmtime(2e9))  # another day
    reference = Reference.fit(REAL, k=3)
    again = {"reference": reference.save(tmp_path / "b.precall")}
    again["sketch"] = reference.sketch(FAKE).save(tmp_path / "b.sketch")
    assert {kind: path.read_bytes() for kind, path in again.items()} == {
        kind: path.read_bytes() for kind, path in saved.items()
    }


def test_archives_that_fit_are_read(saved):
    assert len(load(resealed(saved["reference"], lambda about, arrays: None)).features) == 80
    assert load(resealed(saved["sketch"], lambda about, arrays: None)).assessment().scores["precision"].n_fake == 60


@pytest.mark.parametrize(
    ("kind", "place", "value"),
    [
        ("reference", ("n",), 120), ("reference", ("n",), 10**18), ("reference", ("n",), True),
        ("reference", ("k",), 0), ("reference", ("k",), 79), ("reference", ("k",), "3"),
        ("reference", ("seed",), -1), ("reference", ("seed",), 0.5), ("reference", ("ties",), "half"),
        ("reference", ("neighbors",), None), ("reference", ("protocol",), []),
        ("reference", ("protocol", "protocol"), 3),
        ("sketch", ("reference", "settings", "n_real"), 81), ("sketch", ("reference", "settings", "seed"), "x"),
        ("sketch", ("reference", "settings"), {}), ("sketch", ("reference", "protocol"), None),
        ("sketch", ("reference", "ideal"), [1]), ("sketch", ("shards",), [{}]), ("sketch", ("shards", 0, "n"), 59),
        ("sketch", ("shards", 0, "n"), 10**30), ("sketch", ("shards", 0, "name"), {}),
    ],
)  # fmt: skip
def test_settings_that_do_not_fit_cost_a_sentence(saved, kind, place, value):
    def change(about, arrays):
        inside = about
        for key in place[:-1]:
            inside = inside[key]
        inside[place[-1]] = value

    path = resealed(saved[kind], change)
    with pytest.raises(ValueError, match=r"a\.(precall|sketch)|between 1 and"):
        load(path)


@pytest.mark.parametrize("kind", ["reference", "sketch"])
@pytest.mark.parametrize("how", ["shorter", "flat", "text", "nan", "missing", "more"])
def test_arrays_that_do_not_fit_cost_a_sentence(saved, kind, how):
    name = {"reference": "features", "sketch": "real_neighbors"}[kind]

    def change(about, arrays):
        array = arrays[name]
        changed = {
            "shorter": lambda: array[:-1],
            "flat": lambda: array.reshape(-1),
            "nan": lambda: np.full(array.shape, np.nan),
            "text": lambda: array.astype("U9"),
        }
        if how in changed:
            arrays[name] = changed[how]()
        elif how == "missing":
            del arrays[name], about["sha256"][name]

    path = resealed(saved[kind], change)
    if how == "more":
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("another.npy", b"")
    with pytest.raises(ValueError, match=r"a\.(precall|sketch)"):
        load(path)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("squared_margins", lambda rows: rows[:, ::-1]),
        ("squared_margins", lambda rows: rows[:, :2]),
        ("squared_margins", lambda rows: rows.astype(np.uint64)),
        ("neighbor_distance", lambda rows: rows[:, :4]),
        ("neighbor_distance", lambda rows: rows[:, ::-1]),
    ],
)
def test_balls_that_are_none_cost_a_sentence(saved, name, change):
    """Radii of nested balls increase; without it, counts fell outside their tables."""
    path = resealed(saved["reference"], lambda about, arrays: arrays.update({name: change(arrays[name])}))
    with pytest.raises(ValueError, match=r"do(es)? not fit"):
        Reference.load(path).assess(FAKE, metrics=("neighbors",))
