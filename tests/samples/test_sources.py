"""The same samples through every source: folders, archives, shards, databases, frames and URLs."""

import io
import json
import os
import sys
import tarfile
import zipfile

import fsspec
import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

import precall
from precall.encoders import encode
from precall.lazy import LazyModule
from precall.samples import SampleError, columnar, open_samples
from precall.samples.opening import takes_key
from precall.samples.shards import expanded

datasets = LazyModule("datasets")  # seconds that only the process needs which runs the tests with it
RNG = np.random.default_rng(5)
PIXELS = RNG.integers(0, 256, (13, 9, 7, 3), dtype=np.uint8)
MATRIX = RNG.normal(size=(13, 4))
TEXTS = [f"text {i}: " + "ä" * i for i in range(13)]
HALVES = ((0, 5), (5, 13))


def png(pixels):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


FILES = {f"{i}.png": png(pixels) for i, pixels in enumerate(PIXELS)}
CONTENTS = list(FILES.values())
STRUCTS = [{"bytes": content, "path": None} for content in CONTENTS]


def add(archive, name, content):
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def tar(path, files):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            add(archive, name, content)
    return path


def in_folder(path):
    path.mkdir()
    for name, content in FILES.items():
        (path / name).write_bytes(content)
    return path


def in_zip(path):
    with zipfile.ZipFile(path / "a.zip", "w") as archive:
        for name in sorted(FILES):
            archive.writestr(name, FILES[name])
    return path / "a.zip"


def in_tar(path):
    return tar(path / "a.tar", {name: FILES[name] for name in sorted(FILES)})


def in_tars(path):
    names = list(FILES)
    for shard, (start, stop) in enumerate(HALVES):
        tar(path / f"{shard + 9:04d}.tar", {name: FILES[name] for name in names[start:stop]})
    return path


def in_parquet(path):
    parquet.write_table(pa.table({"label": range(13), "image": STRUCTS}), path / "a.parquet", row_group_size=4)
    return path / "a.parquet"


def in_parquets(path):
    for shard, (start, stop) in enumerate(HALVES):
        table = pa.table({"image": pa.array(CONTENTS[start:stop], pa.binary())})
        parquet.write_table(table, path / f"train-0000{shard}-of-00002.parquet", row_group_size=3)
    return path


def in_npy(path):
    np.save(path / "a.npy", PIXELS)
    return path / "a.npy"


def in_npys(path):
    for shard, (start, stop) in enumerate(HALVES):
        np.save(path / f"{shard + 9}.npy", PIXELS[start:stop])
    return path


def in_hdf5(path):
    with h5py.File(path / "a.h5", "w") as file:
        file.create_dataset("test/images", data=PIXELS, compression="gzip", chunks=(4, 9, 7, 3))
        file["labels"] = np.arange(13)
    return path / "a.h5"


def saved(path):
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
    made = datasets.Dataset.from_dict({"image": STRUCTS, "label": range(13)}, features=features)
    made.save_to_disk(path / "saved", num_shards=2)
    return path / "saved"


def as_dataset(path):
    return datasets.load_from_disk(saved(path))


def as_arrow(path):
    return pa.table({"image": STRUCTS})


def as_pandas(path):
    return pd.DataFrame({"label": range(13), "image": CONTENTS})


def as_polars(path):
    return pl.DataFrame({"label": range(13), "image": STRUCTS})


IMAGES = [
    in_folder, in_zip, in_tar, in_tars, in_parquet, in_parquets, in_npy, in_npys, in_hdf5, saved, as_dataset,
    as_arrow, as_pandas, as_polars,
]  # fmt: skip


def made(make, path):
    return make(path / "images" if make is in_folder else path)


@pytest.mark.parametrize("make", IMAGES)
def test_images_are_the_same_from_every_source(tmp_path, make):
    samples = open_samples(made(make, tmp_path))
    assert (samples.kind, len(samples)) == ("images", 13)
    for index in (*range(13), 0, 12, 5):  # in order, and back
        assert (samples[index] == PIXELS[index]).all()
    expected = encode(list(PIXELS), "pixels", cache=False).array
    assert encode(samples, "pixels", cache=tmp_path / "cache").array.tobytes() == expected.tobytes()
    assert samples.fingerprint() == open_samples(samples).fingerprint()
    assert samples.thumbnail(3).size == (7, 9)


def test_scores_are_the_same_from_every_source(tmp_path, monkeypatch):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    fake = list(255 - PIXELS[:, ::-1])
    scores = set()
    for make in IMAGES[:10]:
        place = tmp_path / make.__name__
        place.mkdir()
        found = precall.assess(
            real=made(make, place), fake=fake, metrics=("neighbors", "clusters", "fid"), k=3, encoder="pixels"
        )
        scores.add(json.dumps({name: score.value for name, score in found.scores.items()}))
    assert len(scores) == 1


def features_in(kind, path):
    if kind in ("parquet", "arrow", "dataset", "pandas", "polars", "saved"):
        table = pa.table({"id": range(13), "embedding": list(MATRIX)})
    if kind == "npy":
        for shard, (start, stop) in enumerate(HALVES):
            np.save(path / f"part-{shard}.npy", MATRIX[start:stop])
        return path / "part-{0..1}.npy"
    if kind == "parquet":
        for shard, (start, stop) in enumerate(HALVES):
            parquet.write_table(table.slice(start, stop - start), path / f"{shard}.parquet", row_group_size=3)
        return path / "*.parquet"
    if kind == "hdf5":
        with h5py.File(path / "a.h5", "w") as file:
            file.create_dataset("features", data=MATRIX, chunks=(3, 2), compression="gzip")
        return path / "a.h5"
    if kind == "saved":
        datasets.Dataset(table).save_to_disk(path / "saved", num_shards=3)
        return path / "saved"
    return {
        "arrow": lambda: table,
        "dataset": lambda: datasets.Dataset(table),
        "pandas": lambda: pd.DataFrame({"id": range(13), "embedding": list(MATRIX)}),
        "polars": lambda: pl.from_arrow(table),
    }[kind]()


@pytest.mark.parametrize("kind", ["npy", "parquet", "hdf5", "saved", "arrow", "dataset", "pandas", "polars"])
def test_features_are_the_same_from_every_source(tmp_path, kind):
    samples = open_samples(features_in(kind, tmp_path))
    assert (samples.kind, len(samples)) == ("features", 13)
    found = encode(samples, cache=False).array
    assert kind in ("pandas", "polars") or (found.dtype == np.float64 and (found == MATRIX).all())
    assert np.asarray(found, np.float32).tobytes() == MATRIX.astype(np.float32).tobytes()
    assert (samples[7] == MATRIX[7]).all()


def texts_in(kind, path):
    if kind == "tar":
        return tar(path / "a.tar", {f"{i}.txt": text.encode() for i, text in enumerate(TEXTS)})
    if kind == "tar json":
        return tar(path / "a.tar", {f"{i}.json": json.dumps({"text": text}).encode() for i, text in enumerate(TEXTS)})
    if kind == "hdf5":
        with h5py.File(path / "a.hdf5", "w") as file:
            file["texts"] = TEXTS
        return path / "a.hdf5"
    table = pa.table({"text": TEXTS, "label": range(13)})
    if kind == "parquet":
        parquet.write_table(table, path / "a.parquet", row_group_size=5)
        return path / "a.parquet"
    if kind == "saved":
        datasets.Dataset(table).save_to_disk(path / "a")
        return path / "a"
    only = {"arrow": pa.table({"x": TEXTS}), "pandas": pd.DataFrame({"x": TEXTS}), "polars": pl.DataFrame({"x": TEXTS})}
    return datasets.Dataset(table) if kind == "dataset" else only[kind]


@pytest.mark.parametrize(
    "kind", ["tar", "tar json", "hdf5", "parquet", "saved", "dataset", "arrow", "pandas", "polars"]
)
def test_texts_are_the_same_from_every_source(tmp_path, kind):
    samples = open_samples(texts_in(kind, tmp_path))
    assert (samples.kind, len(samples)) == ("text", 13)
    assert [samples[index] for index in range(13)] == TEXTS
    assert len(samples.fingerprint()) == 64


def test_missing_texts_and_images_are_unreadable_samples(tmp_path):
    rows = {"text": ["a", None], "image": [STRUCTS[0], {"bytes": None, "path": "/etc/passwd"}], "late": [None, "b"]}
    parquet.write_table(pa.table(rows), tmp_path / "a.parquet")
    for key, reason in [("text", "the value is missing"), ("image", "stored by its path only, which is not followed")]:
        samples = open_samples(tmp_path / "a.parquet", key=key, on_error="skip")
        assert [batch.indices for batch in samples.batches(9)] == [[0]]
        assert reason in samples.errors[0].reason
    assert open_samples(tmp_path / "a.parquet", key="late")[1] == "b"
    with pytest.raises(ValueError, match=r"`key` must be one of the columns .* \(image, text, late\); got 'other'"):
        open_samples(tmp_path / "a.parquet", key="other")


# --------------------------------------------------------------------------------------------------------------- tables

TABLE = {
    "age": [31, 45, None, 62] * 10,
    "weight": [70.5, 81.25, 64.0, None] * 10,
    "smokes": [True, False, False, None] * 10,
    "city": ["Oslo", "Bern", "Oslo", None] * 10,
    "visit": pd.to_datetime(["2024-01-31", "2024-02-29", None, "2023-12-24"] * 10),
}


def tables_in(kind, path):
    frame = pd.DataFrame(TABLE)
    if kind == "pandas":
        return frame
    table = pa.Table.from_pandas(frame)
    if kind == "csv":
        frame.to_csv(path / "a.csv", index=False)
        return path / "a.csv"
    if kind == "parquet":
        for shard in range(2):
            parquet.write_table(table.slice(20 * shard, 20), path / f"part-{shard}.parquet", row_group_size=7)
        return path
    if kind == "saved":
        datasets.Dataset(table).save_to_disk(path / "a")
        return path / "a"
    return {"arrow": lambda: table, "dataset": lambda: datasets.Dataset(table), "polars": lambda: pl.from_arrow(table)}[
        kind
    ]()


@pytest.mark.parametrize("kind", ["pandas", "csv", "parquet", "saved", "arrow", "dataset", "polars"])
def test_tables_of_mixed_columns_are_the_same_from_every_source(tmp_path, kind):
    samples = open_samples(tables_in(kind, tmp_path))
    assert (samples.kind, len(samples), samples.columns) == ("table", 40, tuple(TABLE))
    (tmp_path / "other").mkdir()
    reference = open_samples(tables_in("csv", tmp_path / "other"))
    found = encode(samples, reference=samples, cache=False)
    expected = encode(reference, reference=reference, cache=False)
    assert [c["kind"] for c in found.protocol["columns"].values()] == [
        "integer",
        "number",
        "boolean",
        "category",
        "date",
    ]
    assert found.array.tobytes() == expected.array.tobytes()


def test_the_rows_that_a_dataset_selects_are_its_samples():
    data = datasets.Dataset.from_dict({"text": TEXTS}).shuffle(seed=1).select(range(5))
    assert [open_samples(data)[i] for i in range(5)] == data["text"][:5]


# --------------------------------------------------------------------------------------------------------------- shards


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("a-{0..2}.tar", ["a-0.tar", "a-1.tar", "a-2.tar"]),
        ("a-{0008..0010}.tar", ["a-0008.tar", "a-0009.tar", "a-0010.tar"]),
        ("{b,a}{1..2}", ["b1", "b2", "a1", "a2"]),
        ("{2..0}", ["2", "1", "0"]),
        ("{x}", ["{x}"]),
        ("a{", ["a{"]),
        ("{x}-{0..1}", ["{x}-0", "{x}-1"]),
    ],
)
def test_braces(pattern, names):
    assert expanded(pattern) == names


def test_braces_of_a_huge_range_cost_a_sentence():
    with pytest.raises(ValueError, match="must stand for at most 100,000 files"):
        open_samples("a-{0..999999999999}{0..999999999999}.tar")


def test_shards_are_in_natural_order_and_a_missing_one_is_named(tmp_path):
    for number in (1, 2, 10):
        np.save(tmp_path / f"s{number}.npy", np.full((2, 3), number))
    for source in (tmp_path, tmp_path / "s*.npy", tmp_path / "s{1,2,10}.npy", tmp_path / "s[0-9]*.npy"):
        assert open_samples(source).array[:, 0].tolist() == [1, 1, 2, 2, 10, 10]
    assert open_samples(str(tmp_path / "s{10,1}.npy")).array[:, 0].tolist() == [10, 10, 1, 1]
    with pytest.raises(ValueError, match=r"must be files that exist; `.*` stands for `.*s3\.npy`"):
        open_samples(tmp_path / "s{1..3}.npy")
    with pytest.raises(ValueError, match="must be files that exist"):
        open_samples(tmp_path / "t*.npy")
    np.save(tmp_path / "s3.npy", np.zeros((2, 4)))
    with pytest.raises(ValueError, match=r"must contain rows of the same shape and dtype; got \(n, 3\)"):
        open_samples(tmp_path)


def test_a_file_whose_name_is_a_pattern_is_that_file(tmp_path):
    np.save(tmp_path / "a[1].npy", MATRIX)
    np.save(tmp_path / "a1.npy", MATRIX[:2])
    assert len(open_samples(tmp_path / "a[1].npy")) == 13


def test_splits_and_kinds_are_not_mixed(tmp_path):
    table = pa.table({"embedding": list(MATRIX)})
    for split in ("train", "test"):
        parquet.write_table(table, tmp_path / f"{split}-00000-of-00001.parquet")
    with pytest.raises(ValueError, match=r"several splits \(test, train\); choose one, as in `test-\*`"):
        open_samples(tmp_path)
    assert len(open_samples(tmp_path / "test-*")) == 13
    parquet.write_table(pa.table({"other": list(MATRIX)}), tmp_path / "train-00001-of-00001.parquet")
    with pytest.raises(ValueError, match="must have the same columns"):
        open_samples(tmp_path / "train-*")
    np.save(tmp_path / "a.npy", MATRIX)
    with pytest.raises(ValueError, match=r"must stand for files of one kind; got 3 \.parquet, 1 \.npy"):
        open_samples(tmp_path)
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"must stand for one \.csv file; got 2"):
        open_samples(tmp_path / "*.csv")


def test_images_that_match_a_pattern(tmp_path):
    folder = in_folder(tmp_path / "images")
    samples = open_samples(folder / "1*.png")
    assert [os.path.basename(name) for name in samples.ids] == ["1.png", "10.png", "11.png", "12.png"]
    assert (samples[1] == PIXELS[10]).all()


def test_a_data_set_of_several_splits_names_them(tmp_path):
    data = datasets.Dataset.from_dict({"text": TEXTS})
    datasets.DatasetDict(train=data, test=data).save_to_disk(tmp_path / "both")
    with pytest.raises(ValueError, match=r"contains 2 splits; open one of them: .*both/test, .*both/train"):
        open_samples(tmp_path / "both")
    datasets.DatasetDict(train=data).save_to_disk(tmp_path / "one")
    assert open_samples(tmp_path / "one")[3] == TEXTS[3]


# -------------------------------------------------------------------------------------------------------- web data sets


def test_fields_of_a_web_data_set(tmp_path):
    files = {}
    for index in (10, 2):
        files |= {f"d/{index}.jpg": CONTENTS[index], f"d/{index}.seg.png": CONTENTS[0]}
        files |= {f"d/{index}.txt": TEXTS[index].encode(), f"d/{index}.cls": b"3"}
        files |= {f"d/{index}.json": json.dumps({"a": {"b": [f"nested {index}"]}, "caption": "c"}).encode()}
    path = tar(tmp_path / "a.tar", files)
    with pytest.raises(
        ValueError, match=r"one of the image fields in `.*` \(jpg, seg\.png\), since a sample has several"
    ):
        open_samples(path)
    samples = open_samples(path, key="jpg")
    assert (samples.kind, list(samples.ids), samples.ignored) == ("images", ["d/2.jpg", "d/10.jpg"], 8)
    assert (samples[1] == PIXELS[10]).all()
    assert (open_samples(path, key="seg.png")[1] == PIXELS[0]).all()
    assert open_samples(path, key="txt")[0] == TEXTS[2]
    assert open_samples(path, key="json.caption")[0] == open_samples(path, key="caption")[0] == "c"
    assert open_samples(path, key="a.b.0")[1] == "nested 10"
    with pytest.raises(SampleError, match="no text: expected a string, or an object with a string under 'absent'"):
        open_samples(path, key="absent")[0]
    prints = {open_samples(path, key=key).fingerprint() for key in ("jpg", "seg.png", "txt", "caption", "a.b.0")}
    assert len(prints) == 5


def test_names_with_points_are_images_of_their_own(tmp_path):
    path = tar(tmp_path / "a.tar", {"img.v2.001.png": CONTENTS[0], "img.v2.002.png": CONTENTS[1]})
    assert (open_samples(path)[1] == PIXELS[1]).all()


def test_ids_of_several_archives_name_the_archive(tmp_path):
    for shard in "ab":
        tar(tmp_path / f"{shard}.tar", {"1.png": CONTENTS[0]})
    assert list(open_samples(tmp_path).ids) == ["a.tar/1.png", "b.tar/1.png"]


def test_a_compressed_archive_names_the_way_out(tmp_path):
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        add(archive, "1.png", CONTENTS[0])
    with pytest.raises(ValueError, match="Decompress it first"):
        open_samples(tmp_path / "a.tar.gz")
    os.rename(tmp_path / "a.tar.gz", tmp_path / "a.tar")
    with pytest.raises(ValueError, match=r"must be an uncompressed \.tar archive"):
        open_samples(tmp_path / "a.tar")


def test_links_and_paths_that_leave_the_archive_are_ignored(tmp_path):
    secret = tmp_path / "secret.png"
    secret.write_bytes(CONTENTS[3])
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE):
            member = tarfile.TarInfo(f"{kind.decode()}.png")
            member.type, member.linkname = kind, str(secret)
            archive.addfile(member)
        for name in ("../out.png", "/abs.png", "a/../../b.png", ".hidden.png", "good.png"):
            add(archive, name, CONTENTS[0])
    samples = open_samples(tmp_path / "a.tar")
    assert (list(samples.ids), samples.ignored) == (["good.png"], 8)


def test_a_truncated_archive_costs_a_sentence(tmp_path):
    path = in_tar(tmp_path)
    whole = path.read_bytes()
    for size in (len(whole) // 2, 700, 100):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"must be an uncompressed \.tar archive"):
            open_samples(path)


# ------------------------------------------------------------------------------------------------------------ databases


def test_a_database_of_lmdb_is_refused_with_a_way_out(tmp_path):
    (tmp_path / "a.lmdb").write_bytes(b"\xde\xc0\xef\xbe")
    with pytest.raises(ValueError, match="Copy the images of the LMDB database to a folder"):
        open_samples(tmp_path / "a.lmdb")


def test_hdf5_that_leads_to_other_files_is_refused(tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["secret"] = MATRIX
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["linked"] = h5py.ExternalLink("other.h5", "secret")
        file["soft"] = h5py.SoftLink("/nowhere")
        layout = h5py.VirtualLayout(shape=MATRIX.shape, dtype="f8")
        layout[:] = h5py.VirtualSource(tmp_path / "other.h5", "secret", shape=MATRIX.shape)
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("raw", (3, 4), "f8", external=[(str(tmp_path / "other.h5"), 0, 96)])
        file.create_dataset("objects", (2,), h5py.vlen_dtype(np.uint8))
    for key in ("virtual", "raw"):
        with pytest.raises(ValueError, match="stored in other files, which are not opened"):
            open_samples(tmp_path / "a.h5", key=key)
    for key in ("linked", "soft", "objects", "absent"):
        with pytest.raises(ValueError, match="must"):
            open_samples(tmp_path / "a.h5", key=key)


def test_an_hdf5_that_expands_implausibly_is_refused(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("features", (20_000_000, 8), "f8", compression="gzip", fillvalue=1.0)
    with pytest.raises(ValueError, match="refused as a decompression bomb"):
        open_samples(tmp_path / "a.h5")


def test_a_key_chooses_among_data_sets(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a/x"], file["b/x"] = MATRIX, -MATRIX
    with pytest.raises(ValueError, match=r"must be one of the data sets in `.*` \(a/x, b/x\); got no name"):
        open_samples(tmp_path / "a.h5")
    assert (open_samples(tmp_path / "a.h5", key="/b/x").array == -MATRIX).all()


# ----------------------------------------------------------------------------------------------------------------- URLs


@pytest.fixture
def memory():
    system = fsspec.filesystem("memory")
    yield system
    system.rm("/", recursive=True)


def test_any_source_opens_from_a_url(tmp_path, memory):
    memory.put(str(in_folder(tmp_path / "images")), "/bucket/images", recursive=True)
    memory.put_file(str(in_parquet(tmp_path)), "/bucket/a.parquet")
    for make in (in_tars, in_npys):
        (tmp_path / make.__name__).mkdir()
        for path in make(tmp_path / make.__name__).iterdir():
            memory.put_file(str(path), f"/bucket/{make.__name__}/{path.name}")
    for url in (
        "memory://bucket/images", "memory://bucket/a.parquet", "memory://bucket/in_tars/00{09,10}.tar",
        "memory://bucket/in_tars/*.tar", "memory://bucket/in_npys", "memory://bucket/in_npys/*.npy",
    ):  # fmt: skip
        samples = open_samples(url)
        assert (samples.kind, len(samples)) == ("images", 13), url
        assert (samples[11] == PIXELS[11]).all()
        assert samples.name.startswith(url)
    assert not open_samples("memory://bucket/images").own_files


def test_a_local_url_needs_no_copy(tmp_path):
    np.save(tmp_path / "a.npy", MATRIX)
    assert open_samples(f"file://{tmp_path}/a.npy").name == str(tmp_path / "a.npy")


def test_urls_that_cannot_be_read_cost_a_sentence(memory, monkeypatch):
    for url in ("memory://nowhere/a.npy", "memory://nowhere/*.npy", "memory://nowhere"):
        with pytest.raises(ValueError, match=f"must be a file or folder that exists; got `{url[:12]}"):
            open_samples(url)
    with pytest.raises(ValueError, match=r"cannot be read: ValueError: Protocol not known: nosuch"):
        open_samples("nosuch://bucket/a.npy")
    with pytest.raises(ValueError, match="s3fs") as caught:
        open_samples("s3://me:secret@bucket/a.npy?token=1")
    assert "secret" not in str(caught.value)
    assert "token" not in str(caught.value)
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ValueError, match=r"URLs need fsspec: pip install 'precall\[remote\]'"):
        open_samples("memory://bucket/a.npy")


def test_a_name_that_leaves_the_folder_is_refused(memory, tmp_path):
    memory.pipe_file("/bucket/images/../../../evil.png", CONTENTS[0])
    memory.store["/bucket/images/../../../evil.png"] = memory.store.pop(next(iter(memory.store)))
    with pytest.raises(ValueError, match=r"cannot be opened: the name `.*` leaves the folder"):
        open_samples("memory://bucket/images")


# --------------------------------------------------------------------------------------------------- extras and options


@pytest.mark.parametrize(("module", "make", "extra"), [("h5py", in_hdf5, "hdf5"), ("pyarrow", in_parquet, "tables")])
def test_a_missing_package_names_the_extra(tmp_path, monkeypatch, module, make, extra):
    path = make(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ValueError, match=rf"needs {module}: pip install 'precall\[{extra}\]'"):
        open_samples(path)


def test_what_takes_a_key(tmp_path):
    assert takes_key(str(saved(tmp_path)))
    assert takes_key("s3://bucket/a.npz?x=1")
    assert not takes_key(str(in_folder(tmp_path / "images")))
    (tmp_path / "tars").mkdir()
    assert takes_key(str(in_tars(tmp_path / "tars")))


# ------------------------------------------------------------------------------------------------------------ streaming


def test_reading_in_order_reads_every_block_once_and_keeps_few(monkeypatch):
    taken = []

    def take(start, stop, names):
        taken.append(start)
        return pa.table({"text": [str(i) for i in range(start, stop)]})

    monkeypatch.setattr(columnar, "MOST_ROWS", 1024)
    records = columnar.Records("a", pa.schema({"text": pa.string()}), [columnar.sliced(20_000, take)])
    values = columnar.ColumnValues(records, "text")
    assert [values[i] for i in range(20_000)] == [str(i) for i in range(20_000)]
    assert taken == list(range(0, 20_000, 1024))
    assert values[19_999] == "19999"
    assert len(taken) == 20
    assert values[3] == "3"  # the block is no longer kept
    assert taken[20:] == [0]
    assert len(values._kept) <= columnar.KEPT


def test_blocks_of_large_records_are_small(tmp_path):
    large = [RNG.bytes(1 << 20) for _ in range(24)]
    parquet.write_table(pa.table({"image": large}), tmp_path / "a.parquet", compression=None)
    from precall.samples.parquet import _row_groups

    _, groups = _row_groups(tmp_path / "a.parquet")
    assert max(block.num_rows for block in groups[0].blocks(["image"])) <= 4
