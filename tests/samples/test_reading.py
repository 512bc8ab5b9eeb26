"""The read door: regular files of a limited size, and every folder once."""

import io
import os
import socket
import stat
import time
import zipfile
from functools import partial

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from precall.cli import app
from precall.encoders import encode
from precall.report import folder
from precall.samples import SampleError, columnar, open_samples, reading
from precall.samples.parquet import row_blocks

SUFFIXES = [".npy", ".npz", ".safetensors", ".parquet", ".txt", ".jsonl", ".csv", ".zip"]
SUFFIXES += [".tar", ".h5", ".mdb", ".arrow"]


def make_pipe(path):
    os.mkfifo(path)


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))


def make_zeros(path):
    """A device that never ends."""
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    except PermissionError:
        path.symlink_to("/dev/zero")


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("make", [make_pipe, make_socket, make_zeros])
def test_only_regular_files_are_opened(tmp_path, monkeypatch, make, suffix):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / f"samples{suffix}"
    make(path)
    with pytest.raises(reading.InputError, match="only regular files are read"):
        open_samples(path)


@pytest.mark.parametrize("make", [make_pipe, make_zeros])
def test_labels_and_results_are_regular_files_too(tmp_path, monkeypatch, make):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    np.save(tmp_path / "a.npy", np.zeros((9, 2)))
    make(tmp_path / "results.json")
    words = ["assess", "--real", tmp_path / "a.npy", "--fake", f"a={tmp_path / 'a.npy'}"]
    labels = [f"--groups={side}={tmp_path / 'results.json'}" for side in ("real", "a")]
    for command in ([*words, *labels], ["report", tmp_path], ["report", tmp_path / "results.json"]):
        done = CliRunner().invoke(app, list(map(str, command)))
        assert done.exit_code == 1
        assert "only regular files are read" in done.stderr


def test_a_pipe_that_takes_the_place_of_a_file_is_refused(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "a")
    monkeypatch.setattr(reading, "check_file", lambda path: None)
    with pytest.raises(reading.InputError, match="only regular files are read"):
        reading.open_file(tmp_path / "a")


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.jsonl"])
def test_the_size_limit_is_named_and_can_be_raised(tmp_path, monkeypatch, name):
    (tmp_path / name).write_bytes(b'"a"\n' * 1000)
    monkeypatch.setenv("PRECALL_MAX_BYTES", "3999")
    with pytest.raises(reading.InputError, match=r"larger than 3,999 bytes\. Set PRECALL_MAX_BYTES"):
        open_samples(tmp_path / name)
    monkeypatch.setenv("PRECALL_MAX_BYTES", "4000")
    open_samples(tmp_path / name)
    monkeypatch.setenv("PRECALL_MAX_BYTES", "many")
    with pytest.raises(ValueError, match="must be a positive number of bytes; got `many`"):
        open_samples(tmp_path / name)


def test_a_text_of_a_megabyte_is_an_unreadable_sample(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_bytes(b"a short text\n" + b"x" * (1 << 20) + b"x\n")
    samples = open_samples(tmp_path / "a.txt", on_error="skip")
    assert [batch.ids for batch in samples.batches(2)] == [["line 1"]]
    assert "longer than 1,048,576 bytes" in samples.errors[0].reason
    monkeypatch.setenv("PRECALL_MAX_BYTES", str(1 << 30))
    assert len(open_samples(tmp_path / "a.txt")[1]) == (1 << 20) + 1


def test_a_lone_text_is_encoded_once_rather_than_32_times():
    text = "".join(map(str, range(4_000)))
    encode(["imports come first"], "ngrams", cache=False)
    seconds = {count: [] for count in (1, 8)}
    for _ in range(3):  # the least time is that of an undisturbed run
        for count, taken in seconds.items():
            start = time.process_time()
            encode([text[i:] for i in range(count)], "ngrams", cache=False)
            taken.append(time.process_time() - start)
    assert min(seconds[1]) < min(seconds[8]) / 2


def test_lines_end_as_before(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\r\n\n \nthree\rfour\nlast\r")
    samples = open_samples(tmp_path / "a.txt")
    assert [samples[i] for i in range(4)] == ["one", "two\r", "three\rfour", "last\r"]
    assert list(samples.ids) == ["line 1", "line 2", "line 5", "line 6"]


# -------------------------------------------------------------------------------------------------------------- folders


def png(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (2, 2)).save(path)


def test_folders_that_link_to_each_other_are_visited_once(tmp_path):
    for name in "abcdefghijkl":
        png(tmp_path / name / "1.png")
        for other in "abcdefghijkl":
            (tmp_path / name / f"to-{other}").symlink_to(tmp_path / other)
    assert list(open_samples(tmp_path).ids) == [f"{name}/1.png" for name in "abcdefghijkl"]


def test_a_link_out_of_the_folder_is_followed_and_a_link_to_itself_is_an_unreadable_sample(tmp_path):
    png(tmp_path / "elsewhere" / "1.png")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "b").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "root" / "a").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "root" / "self.png").symlink_to("self.png")
    samples = open_samples(tmp_path / "root", on_error="skip")
    assert list(samples.ids) == ["a/1.png", "self.png"]
    assert [batch.ids for batch in samples.batches(9)] == [["a/1.png"]]


def test_a_folder_may_be_1300_levels_deep(tmp_path):
    here, deepest = os.getcwd(), tmp_path
    try:
        os.chdir(tmp_path)
        for _ in range(1300):
            os.mkdir("d")
            os.chdir("d")
            deepest = deepest / "d"
        Image.new("RGB", (2, 2)).save("1.png")
    finally:
        os.chdir(here)
    assert list(open_samples(tmp_path).ids) == ["d/" * 1300 + "1.png"]
    while deepest != tmp_path:  # pytest's own clean-up is recursive
        (deepest / "1.png").unlink(missing_ok=True)
        deepest.rmdir()
        deepest = deepest.parent


# ------------------------------------------------------------------------------------------- headers that promise much


def test_a_parquet_that_expands_to_ten_million_rows_is_refused(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(10_000_000, np.float32)), 1)
    parquet.write_table(pa.table({"features": rows}), tmp_path / "bomb.parquet", compression="zstd")
    assert (tmp_path / "bomb.parquet").stat().st_size < 500_000
    with pytest.raises(reading.InputError, match="refused as a decompression bomb"):
        open_samples(tmp_path / "bomb.parquet")
    genuine = pa.array(list(np.random.default_rng(0).normal(size=(50, 8))))
    parquet.write_table(pa.table({"features": genuine}), tmp_path / "a.parquet")
    assert open_samples(tmp_path / "a.parquet").array.shape == (50, 8)


def test_a_small_image_file_that_declares_many_pixels_is_refused(tmp_path):
    Image.new("1", (9000, 9000)).save(tmp_path / "bomb.png")
    with pytest.raises(SampleError, match="refused as a decompression bomb"):
        open_samples(tmp_path)[0]


def npz(path, **members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)


def npy(array, shape=None):
    file = io.BytesIO()
    np.save(file, array)
    data = file.getvalue()
    return data if shape is None else data.replace(repr(array.shape).encode(), shape.encode())


@pytest.mark.parametrize("shape", ["(9999999999, 2)", "(50, 3)", "(0, 2)", "(-1, 2)"])
def test_an_array_in_an_npz_that_declares_more_or_less_than_it_holds_is_refused(tmp_path, shape):
    npz(tmp_path / "a.npz", arr_0=npy(np.zeros((50, 2)), shape))
    with pytest.raises(ValueError, match=r"must be a \.npz file of arrays"):
        open_samples(tmp_path / "a.npz")


@pytest.mark.parametrize(("n", "found"), [(np.array([50]), 50), (np.array(50.0), 50), (np.uint8(7), 7)])
def test_the_number_of_samples_may_be_an_array(tmp_path, n, found):
    np.savez(tmp_path / "a.npz", mu=np.zeros(2), sigma=np.eye(2), n=n)
    assert open_samples(tmp_path / "a.npz").n == found


@pytest.mark.parametrize("n", [np.array([50, 50]), np.array("many"), np.array(-1), np.array(np.nan), np.empty(0)])
def test_a_number_of_samples_that_is_none_is_refused(tmp_path, n):
    np.savez(tmp_path / "a.npz", mu=np.zeros(2), sigma=np.eye(2), n=n)
    with pytest.raises(ValueError, match="must contain a number of samples `n`"):
        open_samples(tmp_path / "a.npz")


def test_a_zip_member_without_a_name_is_no_image(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in ("x.png", "1.png"):
            archive.writestr(name, b"")
    data = (tmp_path / "a.zip").read_bytes()
    central = data.index(b"PK\x01\x02")
    named = data[:central] + data[central:].replace(b"\x05\0", b"\0\0", 1).replace(b"x.png", b"", 1)
    end = named.index(b"PK\x05\x06")
    size = (end - central).to_bytes(4, "little")
    (tmp_path / "a.zip").write_bytes(named[: end + 12] + size + named[end + 16 :])
    samples = open_samples(tmp_path / "a.zip")
    assert (list(samples.ids), samples.ignored) == (["1.png"], 1)


def test_json_that_is_nested_deeply_is_a_sentence(tmp_path):
    (tmp_path / "results.json").write_text('{"a":' * 100_000)
    with pytest.raises(ValueError, match="must be a JSON object"):
        folder.load(tmp_path)
    (tmp_path / "a.jsonl").write_text("[" * 100_000 + '\n"a text"\n')
    samples = open_samples(tmp_path / "a.jsonl", on_error="skip")
    assert [batch.items for batch in samples.batches(2)] == [["a text"]]
    assert samples.errors[0].reason == "not JSON (it is nested too deeply)"


def test_a_parquet_column_with_fewer_rows_than_declared_is_refused(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"x": [[1.0, 2.0], [3.0, 4.0]]}), tmp_path / "a.parquet")
    schema = parquet.read_schema(tmp_path / "a.parquet")

    def declaring(rows):
        path = tmp_path / "a.parquet"
        return columnar.Records("a", schema, [columnar.Part(rows, partial(row_blocks, path, 0, 100, ()))], (path,))

    assert columnar.matrix(declaring(2), "x").shape == (2, 2)
    with pytest.raises(ValueError, match="must have as many rows as declared"):
        columnar.matrix(declaring(3), "x")
    with pytest.raises(ValueError, match="fewer records than declared"):
        columnar.ColumnValues(declaring(3), "x")[2]
