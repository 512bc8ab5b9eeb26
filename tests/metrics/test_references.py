"""References on disk: the same numbers as the data itself, one sentence about a damaged file, and no pickles."""

import json
import zipfile

import numpy as np
import pytest
from typer.testing import CliRunner

from precall.cli import app
from precall.encoders import Encoder
from precall.metrics.assessing import prepared
from precall.metrics.assessing.assessment import Reference, assess
from precall.metrics.distances.frechet_distance import fid
from precall.metrics.distances.moments import Moments
from precall.metrics.neighbors import sweep
from precall.samples import open_samples

pytestmark = pytest.mark.usefixtures("small_committee")

RNG = np.random.default_rng(2)
REAL, FAKE = RNG.normal(size=(150, 5)), RNG.normal(0.4, 0.8, size=(100, 5))
METRICS = ("clusters", "neighbors", "copies", "fid", "kid")
IMAGES = RNG.integers(0, 256, (2, 60, 8, 8, 3), dtype=np.uint8)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def path(tmp_path):
    return Reference.fit(REAL, k=3, ties="open", seed=4).save(tmp_path / "data.precall")


def scores(found):
    return {name: score.to_dict() for name, score in found.scores.items()}


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_a_loaded_reference_gives_the_same_numbers_without_the_work(path, monkeypatch):
    metrics = [name for name in METRICS if name != "kid"]  # its kernel depends on the fakes
    expected = Reference.fit(REAL, k=3, ties="open", seed=4).assess(FAKE, metrics=metrics)
    loaded = Reference.load(path)
    assert (loaded.k, loaded.ties, loaded.seed) == (3, "open", 4)
    monkeypatch.setattr(prepared, "balls_around", lambda *_, **__: pytest.fail("balls are stored"))
    assert scores(loaded.assess(FAKE, metrics=metrics)) == scores(expected)


@pytest.mark.parametrize("k", [3, 6])
def test_assess_takes_the_file_and_the_object(path, k):
    """With another k than the stored one, the balls are computed again."""
    expected = scores(assess(real=REAL, fake=FAKE, metrics=METRICS, k=k))
    assert scores(assess(real=str(path), fake=FAKE, metrics=METRICS, k=k)) == expected
    assert scores(assess(real=Reference.load(path), fake=FAKE, metrics=METRICS, k=k)) == expected
    assert scores(assess(real=path, fake=FAKE, metrics=METRICS, k=k)) == expected


def test_a_reference_in_memory_shares_its_balls(monkeypatch):
    reference = Reference.fit(REAL)
    assert reference.balls() is not None
    made = []
    plain = sweep.balls_around
    monkeypatch.setattr(prepared, "balls_around", lambda *a, **b: made.append(1) or plain(*a, **b))
    assess(real=reference, fake=FAKE, metrics=("neighbors",))
    assert made == []


def test_the_command_line_makes_and_takes_references_of_images(tmp_path):
    for name, images in zip(("real", "fake"), IMAGES, strict=True):
        np.save(tmp_path / f"{name}.npy", images)
    made = run("reference", "make", tmp_path / "real.npy", "--encoder", "pixels", "--out", tmp_path / "r.precall")
    assert made.exit_code == 0, made.output
    assert "60 samples, 3072 dimensions (pixels)" in made.output
    words = ("--fake", tmp_path / "fake.npy", "--metrics", "neighbors,fid", "--json")
    plain = run("assess", "--real", tmp_path / "real.npy", "--encoder", "pixels", *words)
    stored = run("assess", "--real", tmp_path / "r.precall", *words)
    assert stored.exit_code == 0, stored.output
    first, second = (json.loads(done.stdout)["models"]["fake.npy"] for done in (plain, stored))
    assert second["scores"] == first["scores"]
    assert second["scores"]["fid"]["label"] == "fid (pixels)"
    again = run("assess", "--real", tmp_path / "r.precall", *words)
    assert "from the cache" in again.stderr


def test_another_encoder_than_that_of_the_reference_is_refused(tmp_path):
    reference = Reference.fit(IMAGES[0], encoder="pixels").save(tmp_path / "r.precall")
    flat = Encoder("pixels", "images", {"resize": "other"}, np.ravel, lambda rows: np.stack(rows)[:, :3072] / 255)
    large = np.repeat(IMAGES[1], 4, axis=1).repeat(4, axis=2)
    with pytest.raises(ValueError, match=r"must be encoded as the reference.*pixels.*differ in"):
        assess(real=str(reference), fake=large, encoder=flat, metrics=("fid",))


@pytest.mark.parametrize("member", ["features", "squared_margins", "reference"])
def test_a_damaged_reference_costs_one_sentence(path, member, tmp_path):
    """Every byte of an array is covered by its checksum."""
    damaged = tmp_path / "damaged.precall"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(damaged, "w") as new:
        for info in old.infolist():
            data = bytearray(old.read(info))
            if info.filename.startswith(member):
                data[len(data) // 2] ^= 1
            new.writestr(info.filename, bytes(data))
        new.comment = old.comment
    with pytest.raises(ValueError, match=r"damaged|must be a reference|must have version"):
        Reference.load(damaged).assess(FAKE, metrics=("neighbors",))


def test_a_cut_file_and_other_files_are_refused(path, tmp_path):
    data = path.read_bytes()
    for name, content in (("cut", data[: len(data) // 2]), ("text", b"hello"), ("empty", b"")):
        (tmp_path / f"{name}.precall").write_bytes(content)
        with pytest.raises(ValueError, match="must be a zip file"):
            open_samples(str(tmp_path / f"{name}.precall"))
    with zipfile.ZipFile(tmp_path / "other.precall", "w") as archive:
        archive.writestr("a.txt", "b")
    with pytest.raises(ValueError, match="must be a reference"):
        Reference.load(tmp_path / "other.precall")


def test_pickles_are_never_loaded(path, tmp_path):
    """An array of objects with a valid checksum."""
    import hashlib
    import io

    data = io.BytesIO()
    np.save(data, np.array([[{}], [{}]], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(path) as old:
        about = json.loads(old.read("reference.json"))
    about["sha256"] = {"features": hashlib.sha256(data.getvalue()).hexdigest()}
    with zipfile.ZipFile(tmp_path / "p.precall", "w") as new:
        new.writestr("features.npy", data.getvalue())
        new.writestr("reference.json", json.dumps(about))
        new.comment = hashlib.sha256(json.dumps(about).encode()).hexdigest().encode()
    with pytest.raises(ValueError, match="Object arrays cannot be loaded"):
        Reference.load(tmp_path / "p.precall")


def test_what_cannot_be_a_reference(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n" + "\n".join(f"{x:.2f},{y:.2f}" for x, y in REAL[:, :2]))
    with pytest.raises(ValueError, match="cannot hold a table"):
        Reference.fit(str(tmp_path / "t.csv")).save(tmp_path / "t.precall")
    with pytest.raises(ValueError, match=r"ends in \.precall"):
        Reference.fit(REAL).save(tmp_path / "t.npz")
    np.save(tmp_path / "x.npy", REAL)
    done = run("reference", "make", tmp_path / "x.npy", "--out", tmp_path / "x.npy")
    assert done.exit_code == 2


def test_statistics_are_those_that_other_tools_read(tmp_path):
    path = Moments.of(REAL).save(tmp_path / "stats.npz")
    with np.load(path) as held:
        assert held["mu"] == pytest.approx(REAL.mean(0))
        assert held["sigma"] == pytest.approx(np.cov(REAL, rowvar=False))
        assert int(held["n"]) == len(REAL)
    expected = fid(real=REAL, fake=FAKE).value
    assert assess(real=str(path), fake=FAKE, metrics=("fid",)).scores["fid"].value == pytest.approx(expected, rel=1e-9)
    assert fid(real=Moments.load(path), fake=FAKE).value == pytest.approx(expected, rel=1e-9)
    with pytest.raises(ValueError, match="give FID only"):
        assess(real=str(path), fake=FAKE, metrics=("neighbors",))
    with pytest.raises(ValueError, match=r"must end in \.npz"):
        Moments.of(REAL).save(tmp_path / "stats.npy")
    np.savez(tmp_path / "without.npz", mu=np.zeros(5), sigma=np.eye(5))
    with pytest.raises(ValueError, match="the number of samples"):
        Moments.load(tmp_path / "without.npz")


def test_the_statistics_in_a_reference_are_those_of_the_data(path):
    opened = open_samples(str(path))
    assert opened.stored("mu") == pytest.approx(REAL.mean(0))
    assert opened.stored("sigma") == pytest.approx(np.cov(REAL, rowvar=False))
    assert opened.stored("no such array") is None


def test_a_subsample_names_itself_wherever_it_is_used(tmp_path):
    """In the protocol, in the notices, in a file, and in the assessment of the file."""
    from precall.samples.sampleset import SampleWarning

    small = Reference.fit(REAL, k=3).subsample(90, seed=5)
    assert small.features.shape == (90, 5)
    rows = np.sort(np.random.default_rng(5).choice(150, 90, replace=False))
    assert np.array_equal(small.features, REAL[rows])
    for reference in (small, Reference.load(small.save(tmp_path / "part.precall"))):
        with pytest.warns(SampleWarning, match="real: only 90 of 150 samples, seed 5"):
            found = reference.assess(FAKE, metrics=("neighbors",))
        assert found.protocol["real"]["subsample"] == "90 of 150 samples, seed 5"
        expected = Reference.fit(REAL[rows], k=3).assess(FAKE, metrics=("neighbors",))
        assert scores(found) == scores(expected)
        assert found.protocol["n_real"] == 90
    assert small.sketch(FAKE).assessment().protocol["real"]["subsample"].startswith("90 of 150")
    with pytest.raises(ValueError, match="`n` must be between 2 and 150"):
        Reference.fit(REAL).subsample(151)
    with pytest.raises(ValueError, match="`k` must be"):
        Reference.fit(REAL, k=5).subsample(5)


def test_a_subsample_of_a_stored_reference_makes_other_sketches(path):
    loaded = Reference.load(path)
    small = loaded.subsample(60)
    assert small.sketch(FAKE).reference.identity != loaded.sketch(FAKE).reference.identity


def test_balls_that_reach_beyond_all_samples_are_refused(tmp_path):
    """A resealed reference with a squared radius of 10³⁰⁰, which is infinite in single precision."""
    from precall.samples.references import REFERENCE, open_reference

    x = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    Reference.fit(x).save(tmp_path / "a.precall")
    about = dict(open_reference(tmp_path / "a.precall").about)
    sums = about.pop("sha256")
    arrays = {name: REFERENCE.array(tmp_path / "a.precall", name, sha) for name, sha in sums.items()}
    arrays["squared_margins"] = arrays["squared_margins"].copy()
    arrays["squared_margins"][3, -1] = 1e300
    REFERENCE.write(tmp_path / "b.precall", arrays, about)
    with pytest.raises(ValueError, match="its arrays do not fit"):
        assess(real=tmp_path / "b.precall", fake=x, metrics=("neighbors",))
