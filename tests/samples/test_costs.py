"""Cost before content: what a small file would allocate or compute is known from its headers, and refused in time.

Each test makes a file that once took gigabytes or minutes; the limits of the process turn that into a failure.
"""

import io
import re
import resource
import struct
import tarfile
import time
import tracemalloc
import warnings
import zipfile
import zlib
from contextlib import contextmanager, suppress
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from safetensors.numpy import save_file

import precall
from precall.samples import open_samples

MOST = 400 << 20  # bytes by which the memory of this process may grow


@pytest.fixture(autouse=True)
def limit(monkeypatch):
    """A lower limit, so that smaller files are bombs."""
    monkeypatch.setenv("PRECALL_MAX_BYTES", str(1 << 26))


@contextmanager
def cheap(seconds=10):
    """Fail if the block takes long, or much memory at any time; the kernel counts the peak."""
    before, start = resource.getrlimit(resource.RLIMIT_AS), time.process_time()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    used = memory("VmHWM")
    resource.setrlimit(resource.RLIMIT_AS, (memory("VmSize") + (4 << 30), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert time.process_time() - start < seconds
    assert memory("VmHWM") - used < MOST


def memory(name):
    """Bytes of memory of this process."""
    return int(re.search(rf"{name}:\s*(\d+)", Path("/proc/self/status").read_text())[1]) << 10


def refused(path, match, key=None):
    """Every sample of a file is read; that must end with one sentence."""
    with cheap(), pytest.raises(ValueError, match=match):
        everything(path, key, "fail")
    with cheap(), suppress(ValueError):  # or each sample is refused
        everything(path, key, "skip")


def everything(path, key=None, on_error="fail"):
    samples = open_samples(path, key=key, on_error=on_error)
    for _ in samples.batches(64):
        pass
    return samples


# ------------------------------------------------------------------------------------------------------------- Parquet


def parquet(path, table, **options):
    pq.write_table(table, path, store_schema=False, **options)
    return path


@pytest.mark.parametrize("kind", ["text", "table", "list", "delta", "binary"])
def test_parquet_with_one_long_value_in_many_rows(tmp_path, kind):
    long = "a" * (1 << 20)
    shared = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), [long])
    column = {
        "list": pa.ListArray.from_arrays([0, 20_000], shared),
        "delta": pa.array([long[: 1 << 14]] * 5_000),
        "binary": pa.DictionaryArray.from_arrays(shared.indices, pa.array([b"\x89PNG" + long.encode()])),
    }.get(kind, shared)
    options = {"use_dictionary": False, "column_encoding": {"x": "DELTA_BYTE_ARRAY"}} if kind == "delta" else {}
    table = {"x": column, "y": pa.array(range(len(column)))} if kind in ("table", "list") else {"x": column}
    path = parquet(tmp_path / "a.parquet", pa.table(table), compression="zstd", **options)
    assert path.stat().st_size < 1 << 20
    refused(path, "bomb|must be a|longer|not an image")


def test_parquet_with_a_page_that_is_a_bomb(tmp_path):
    column = pa.array([b"\0" * (100 << 20)])
    path = parquet(tmp_path / "a.parquet", pa.table({"x": column}), compression="zstd", use_dictionary=False)
    del column
    refused(path, "bomb")


def test_parquet_with_a_list_of_very_many_constants(tmp_path):
    path = parquet(tmp_path / "a.parquet", pa.table({"x": pa.array([np.zeros(20_000_000, np.float32)])}))
    refused(path, "bomb")


def test_parquet_with_very_many_missing_rows(tmp_path):
    path = parquet(tmp_path / "a.parquet", pa.table({"x": pa.nulls(5_000_000, pa.string())}))
    refused(path, "bomb")


@pytest.mark.parametrize("of", [pa.date64(), pa.timestamp("ms"), pa.time64("us")])
def test_parquet_with_dates_out_of_range(tmp_path, of):
    column = pa.array([2**62, 1], pa.int64()).view(of)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": column, "y": [1, 2]}), path, version="2.6")
    with pytest.raises(ValueError, match="must be"):
        everything(path)


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "gzip", "brotli", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_parquet_that_repeats_long_texts_is_read(tmp_path, codec, version, monkeypatch):
    monkeypatch.delenv("PRECALL_MAX_BYTES")
    known = ["".join(map(chr, np.random.default_rng(i).integers(97, 123, 30_000))) for i in range(40)]
    texts = [known[i % 40] for i in range(900)]
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"text": texts}), path, compression=codec, data_page_version=version, dictionary_pagesize_limit=1 << 22
    )
    assert [one for batch in open_samples(path).batches(64) for one in batch.items] == texts


def test_parquet_with_chats_is_read(tmp_path, monkeypatch):
    monkeypatch.delenv("PRECALL_MAX_BYTES")
    rng = np.random.default_rng(0)
    chats = [
        [{"role": "user", "content": f"{i} " + bytes(rng.integers(97, 123, rng.integers(1, 900), np.uint8)).decode()}]
        * 3
        for i in range(3_000)
    ]
    pq.write_table(pa.table({"messages": chats, "n": range(3_000)}), tmp_path / "a.parquet")
    assert len(everything(tmp_path / "a.parquet")) == 3_000


# --------------------------------------------------------------------------------------------------------------- Arrow


def arrow(path, table, compression=None, *, file=False):
    options = pa.ipc.IpcWriteOptions(compression=compression)
    make = pa.ipc.new_file if file else pa.ipc.new_stream
    with pa.OSFile(str(path), "wb") as sink, make(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return path


@pytest.mark.parametrize("file", [True, False])
def test_arrow_with_a_buffer_that_is_a_bomb(tmp_path, file):
    path = arrow(tmp_path / "a.arrow", pa.table({"x": pa.array([b"\0" * (100 << 20)])}), "zstd", file=file)
    refused(path, "bomb|unpacks")


@pytest.mark.parametrize("kind", ["dictionary", "view"])
def test_arrow_with_one_long_value_in_many_rows(tmp_path, kind):
    if kind == "view":
        if int(pa.__version__.partition(".")[0]) < 18:
            pytest.skip("this pyarrow writes no views")
        texts = pa.array(["a" * (1 << 20)]).cast(pa.string_view())
        texts = pa.StringViewArray.from_buffers(
            pa.string_view(), 5_000, [None, pa.py_buffer(texts.buffers()[1].to_pybytes() * 5_000), texts.buffers()[2]]
        )
    else:
        texts = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), ["a" * (1 << 20)])
    refused(arrow(tmp_path / "a.arrow", pa.table({"x": texts, "y": range(len(texts))})), "bomb|must")


def test_arrow_with_a_list_of_one_long_value(tmp_path):
    shared = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), ["a" * (1 << 20)])
    table = pa.table({"x": pa.ListArray.from_arrays([0, 20_000], shared), "y": [1]})
    refused(arrow(tmp_path / "a.arrow", table), "plain columns")


@pytest.mark.parametrize("values", [pa.array([b"x"]), pa.array([], pa.binary()), pa.array([1])], ids=str)
def test_codes_of_values_that_are_not_there(values):
    shared = pa.DictionaryArray.from_arrays(pa.array([3] * 5, pa.int32()), values, safe=False)
    with pytest.raises(ValueError, match=r"cells can be read; .*out-of-bounds"):
        open_samples(pa.table({"x": shared, "y": range(5)}))


def test_lists_shared_by_many_rows(tmp_path):
    shared = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), pa.array([[0.5] * 10_000]))
    refused(arrow(tmp_path / "a.arrow", pa.table({"x": shared})), "plain columns")


def test_arrow_with_very_many_rows_of_nothing(tmp_path):
    refused(arrow(tmp_path / "a.arrow", pa.table({"x": pa.nulls(10**9)})), "bomb")


@pytest.mark.skipif(int(pa.__version__.partition(".")[0]) < 18, reason="this pyarrow writes no runs")
def test_arrow_with_runs(tmp_path):
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([100], pa.int32()), pa.array(["a"]))
    refused(arrow(tmp_path / "b.arrow", pa.table({"x": runs})), "plain columns")


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("file", [True, False])
def test_arrow_is_read(tmp_path, compression, file):
    table = pa.table({"text": pa.array(["a", "b"] * 50).dictionary_encode()})
    assert len(everything(arrow(tmp_path / "a.arrow", table, compression, file=file), "text")) == 100


# ---------------------------------------------------------------------------------------------------------------- HDF5


def test_hdf5_with_texts_that_are_not_there(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", (10**12,), h5py.string_dtype(), chunks=(1000,))
    refused(tmp_path / "a.h5", "cannot hold")


def test_hdf5_with_groups_within_groups(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        group = file
        for _ in range(3_000):
            group = group.create_group("a")
    refused(tmp_path / "a.h5", "groups within groups")


def test_hdf5_with_groups_in_a_circle(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.ones((5, 2))
        file["a"], file["b"] = file["/"], h5py.SoftLink("/x")
        file["c"] = h5py.ExternalLink("/etc/passwd", "x")
    assert len(everything(tmp_path / "a.h5")) == 5


def test_hdf5_with_a_chunk_that_is_a_bomb(tmp_path):
    if h5py.version.hdf5_version_tuple < (2, 0, 0):
        pytest.skip("this HDF5 writes no chunks that are larger than declared")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("x", (8, 3), "f4", chunks=(8, 3), compression="gzip")
        pack = zlib.compressobj()
        bomb = b"".join(pack.compress(bytes(1 << 24)) for _ in range(20)) + pack.flush()
        data.id.write_direct_chunk((0, 0), bomb)
    refused(tmp_path / "a.h5", "chunks")


def test_hdf5_with_chunks_that_are_not_there(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", (1, 3_000_000), "u1", chunks=(1, 8))
    refused(tmp_path / "a.h5", "chunks")


def test_hdf5_with_small_chunks_is_read(tmp_path):
    values = np.random.default_rng(0).normal(size=(9_000, 2))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=(1, 1))
    with cheap():
        assert np.array_equal(everything(tmp_path / "a.h5").array, values)


def test_hdf5_with_a_single_value(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["y"] = 5.0, "a text"
    for key in "xy":
        refused(tmp_path / "a.h5", "must contain", key)


@pytest.mark.parametrize(
    "options", [{"compression": "gzip", "shuffle": True}, {"compression": "lzf"}, {"chunks": True}]
)
def test_hdf5_is_read(tmp_path, options):
    values = np.random.default_rng(0).normal(size=(2_000, 30))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=values, fletcher32=True, **options)
    assert np.array_equal(everything(tmp_path / "a.h5").array, values)


def test_hdf5_with_other_filters(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=np.ones((50, 3), int), chunks=True, scaleoffset=0)
    refused(tmp_path / "a.h5", "gzip or lzf")


# ------------------------------------------------------------------------------------------------------ tar, zip, NumPy


def tar(path, kind, content, size=None):
    header = tarfile.TarInfo("x")
    header.type, header.size = kind, len(content) if size is None else size
    member = tarfile.TarInfo("a.txt")
    member.size = 1
    padding = bytes(-len(content) % 512)
    with open(path, "wb") as file:
        file.write(header.tobuf(tarfile.GNU_FORMAT) + content + padding)
        if size is not None:
            file.seek(size, io.SEEK_CUR)
        file.write(member.tobuf() + b"a".ljust(512, b"\0") + bytes(1024))
    return path


@pytest.mark.parametrize("kind", [b"x", b"g"])
def test_tar_with_a_header_of_digits(tmp_path, kind):
    refused(tar(tmp_path / "a.tar", kind, b"9" * 200_000), "header")
    refused(tar(tmp_path / "b.tar", kind, b"9" * 5_000), "header")


@pytest.mark.parametrize("kind", [b"x", b"g", b"L", b"K", b"X"])
def test_tar_with_a_header_of_gigabytes(tmp_path, kind):
    refused(tar(tmp_path / "a.tar", kind, b"", 5 << 30), "header")


def test_tar_with_a_sparse_map_without_end(tmp_path):
    sparse = b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n25 GNU.sparse.name=a.txt\n"
    header, member = tarfile.TarInfo("x"), tarfile.TarInfo("a.txt")
    header.type, header.size, member.size = b"x", len(sparse), 2 << 30
    with open(tmp_path / "a.tar", "wb") as file:
        file.write(header.tobuf() + sparse.ljust(512, b"\0") + member.tobuf())
        file.seek(2 << 30, io.SEEK_CUR)
        file.write(bytes(1024))
    refused(tmp_path / "a.tar", "header|tar")


def test_tar_with_long_names_is_read(tmp_path):
    name = "/".join(["folder" * 30] * 12) + "/a.txt"
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        with tarfile.open(tmp_path / "a.tar", "w", format=form) as archive:
            member = tarfile.TarInfo(name)
            member.size = 1
            archive.addfile(member, io.BytesIO(b"a"))
        assert everything(tmp_path / "a.tar").ids == (name,)


def test_zip_with_very_many_members(tmp_path):
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 3, 20, 0, *[0] * 4, *[0] * 3, 5, *[0] * 6) + b"a.png"
    n = 1_100_000
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, n * len(entry), 0, 0)
    (tmp_path / "a.zip").write_bytes(entry * n + end)
    refused(tmp_path / "a.zip", "too many members")


@pytest.mark.parametrize("shape", [(10**12, 0), (0, 10**12, 0), (10**9, 8, 8, 0)])
def test_arrays_of_nothing(tmp_path, shape):
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": shape})
    (tmp_path / "a.npy").write_bytes(head.getvalue())
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("arr_0.npy", head.getvalue())
    header = b'{"x":{"dtype":"F32","shape":%s,"data_offsets":[0,0]}}' % str(list(shape)).encode()
    (tmp_path / "a.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    for name in ("a.npy", "a.npz", "a.safetensors"):
        refused(tmp_path / name, "must")


def npz(path, *members):
    with zipfile.ZipFile(path, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, value in members:
            data = io.BytesIO()
            np.lib.format.write_array(data, np.asarray(value))
            archive.writestr(name, data.getvalue())
    return path


def test_npz_with_two_arrays_of_one_name(tmp_path):
    path = npz(tmp_path / "a.npz", ("x.npy", np.ones((5, 2))), ("x.npy", np.zeros((5, 2))))
    refused(path, "same name")


def test_npz_with_a_member_without_a_suffix(tmp_path):
    path = npz(tmp_path / "a.npz", ("mu", [9.0]), ("mu.npy", np.ones(2)), ("sigma.npy", np.eye(2)), ("n.npy", 7))
    found = open_samples(path)
    assert (found.mu.tolist(), found.n) == ([1.0, 1.0], 7)


@pytest.mark.parametrize("n", [np.inf, np.nan, 0, -1, 2.5, 1e300, [1, 2], 1j])
def test_npz_with_an_impossible_number_of_samples(tmp_path, n):
    refused(
        npz(tmp_path / "a.npz", ("mu.npy", np.ones(2)), ("sigma.npy", np.eye(2)), ("n.npy", n)), "number of samples"
    )


def test_safetensors_are_read(tmp_path):
    save_file({"x": np.ones((3, 2))}, tmp_path / "a.safetensors")
    assert len(everything(tmp_path / "a.safetensors")) == 3


@pytest.mark.parametrize("url", ["reference::file:///a.json", "reference://a", "simplecache::Reference::memory://a"])
def test_urls_of_templates_are_not_opened(url):
    with pytest.raises(ValueError, match="can name code"):
        open_samples(url)


@pytest.mark.parametrize("line", ["," * 10**6, ",".join(["x"] * 10**5), "\t".join(map(str, range(10**5)))])
def test_a_table_with_very_many_columns(tmp_path, line):
    (tmp_path / "a.csv").write_text(f"{line}\n{line}\n")
    with pytest.raises(ValueError, match="at most 4,096 columns"):
        open_samples(tmp_path / "a.csv")


def test_a_table_takes_little_more_memory_than_its_file(tmp_path):
    """A stream of text takes four bytes per character."""
    (tmp_path / "a.csv").write_text("a,b\n" + "1,2\n" * 9 + "\n" * 1_000_000)
    tracemalloc.start()
    try:
        open_samples(tmp_path / "a.csv")
        assert tracemalloc.get_traced_memory()[1] < 3e6
    finally:
        tracemalloc.stop()


def test_json_that_takes_gigabytes(tmp_path):
    (tmp_path / "results.json").write_bytes(b"[" + b"{}," * 12_000_000 + b"{}]")
    with pytest.raises(ValueError, match="PRECALL_MAX_BYTES"):
        precall.load(tmp_path / "results.json")


@pytest.mark.parametrize("name", ["text", "a"])
@pytest.mark.parametrize("write", [pq.write_table, None])
def test_two_columns_of_one_name(tmp_path, name, write):
    table = pa.table([pa.array(["x", "y"]), pa.array(["z", "z"])], names=[name, name])
    path = tmp_path / ("a.arrow" if write is None else "a.parquet")
    if write is None:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
    else:
        write(table, path)
    with pytest.raises(ValueError, match="different names"):
        open_samples(path)


def test_a_jpeg_of_very_many_scans(tmp_path):
    """Each scan takes 12 bytes and visits all pixels."""
    made = io.BytesIO()
    Image.new("L", (1000, 1000)).save(made, "JPEG", progressive=True)
    head, mark, scan = made.getvalue()[:-2].rpartition(b"\xff\xda")
    (tmp_path / "a.jpg").write_bytes(head + (mark + scan) * 10_000)
    refused(tmp_path / "a.jpg", "very many scans")
    (tmp_path / "a.jpg").write_bytes(made.getvalue())
    assert open_samples(tmp_path / "a.jpg")[0].shape == (1000, 1000, 3)
