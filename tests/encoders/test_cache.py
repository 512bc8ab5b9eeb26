"""The cache on disk is verified: damage anywhere is named, set aside and computed again, and never reaches a number."""

import json
import logging
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from precall.encoders import Encoder, cache_dir, encode
from precall.encoders.cache import CHUNK
from precall.samples import hashing, open_samples
from precall.sealing import LENGTH, check_seal, read_sealed, write_sealed

N = CHUNK + 7  # two chunks
BAD = {3, CHUNK, CHUNK + 5}  # samples that cannot be read


def summing(calls):
    def forward(rows):
        calls.append(len(rows))
        return np.stack(rows) @ np.arange(6.0).reshape(3, 2)

    return Encoder("summing", "features", {}, np.asarray, forward)


def samples():
    rows = np.random.default_rng(0).normal(size=(N, 3))
    return open_samples([None if i in BAD else row for i, row in enumerate(rows)], on_error="skip")


def encoded(calls=None):
    found = encode(samples(), summing([] if calls is None else calls))
    return found.array.tobytes(), found.indices.tolist(), [(error.index, error.reason) for error in found.errors]


def interrupted():
    """Leave two finished chunks in the cache, and no complete matrix."""
    store = []

    def stop(done, total):
        if done == total and store:
            raise KeyboardInterrupt
        store.append(done)

    with pytest.raises(KeyboardInterrupt):
        encode(samples(), summing([]), progress=stop)


def files(folder, *patterns):
    return sorted(path for pattern in patterns for path in folder.rglob(pattern) if path.is_file())


def positions(size):
    """The first and last bytes, both sides of the seal, and some in between."""
    ends = {0, 1, 6, 9, size - LENGTH - 1, size - LENGTH, size - 40, size - 1}
    return sorted({p for p in ends if 0 <= p < size} | {*range(0, size, max(1, size // 8))})


def flip(path, position, bit=0):
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def set_aside():
    return files(cache_dir() / "damaged", "*")


# ------------------------------------------------------------------------------------------------------------ bit flips


def test_a_flipped_bit_in_a_finished_entry_is_named_set_aside_and_computed_again(caplog):
    whole, tried = encoded(), 0
    for path in files(cache_dir(), "features.npy", "done.json"):
        intact = path.read_bytes()
        for position in positions(len(intact)):
            flip(path, position, bit=position % 8)
            damaged = path.read_bytes()
            caplog.clear()
            calls = []
            assert encoded(calls) == whole
            assert calls, "it was computed again"
            (message,) = caplog.messages
            assert str(path) in message
            (place,) = set_aside()
            assert place.read_bytes() == damaged
            assert path.read_bytes() == intact
            place.unlink()
            tried += 1
    assert tried > 20


def test_a_flipped_bit_in_a_chunk_costs_that_chunk_only(caplog, tmp_path):
    whole = encoded()
    shutil.rmtree(cache_dir())
    interrupted()
    shutil.copytree(cache_dir(), tmp_path / "saved")
    chunks = [path.relative_to(cache_dir()) for path in files(cache_dir(), "rows-*.npy", "rows-*.json")]
    assert len(chunks) == 2  # the first chunk; the second was interrupted
    for name in chunks:
        for position in positions((tmp_path / "saved" / name).stat().st_size):
            shutil.rmtree(cache_dir())
            shutil.copytree(tmp_path / "saved", cache_dir())
            flip(cache_dir() / name, position)
            caplog.clear()
            assert encoded() == whole
            assert len(caplog.messages) == len(set_aside()) == 1
            assert name.name in caplog.messages[0]


@pytest.mark.parametrize("name", ["features.npy", "done.json"])
@pytest.mark.parametrize("change", ["cut", "grown", "empty", "folder", "fifo"])
def test_whatever_lies_in_the_place_of_a_file_is_set_aside(name, change):
    whole = encoded()
    (path,) = files(cache_dir(), name)
    data = path.read_bytes()
    path.unlink()
    if change == "folder":
        path.mkdir()
    elif change == "fifo":
        os.mkfifo(path)
    else:
        path.write_bytes({"cut": data[:-1], "grown": data + b"\n", "empty": b""}[change])
    assert encoded() == whole
    assert len(list((cache_dir() / "damaged").iterdir())) == 1


def test_files_of_other_entries_are_damage():
    """They are whole, but the numbers would be those of other samples."""
    rows = np.random.default_rng(1).normal(size=(2, 40, 3))
    arrays = [encode(one, summing([])).array.copy() for one in rows]
    one, other = files(cache_dir(), "features.npy")
    kept = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(kept)
    for row, array in zip(rows, arrays, strict=True):
        assert (encode(row, summing([])).array == array).all()
    assert len(set_aside()) == 2


@pytest.mark.parametrize("index", [N, -1, 10**30, 3])
def test_a_sealed_file_with_an_impossible_index_is_damage(index):
    """The last index occurs twice."""
    whole = encoded()
    (done,) = files(cache_dir(), "done.json")
    errors = json.loads(read_sealed(done))
    errors[-1][0] = index
    write_sealed(done, json.dumps(errors).encode())
    assert encoded() == whole
    assert len(set_aside()) == 1


@pytest.mark.parametrize("content", [b"{}", b"[[]]", b"null", b"[" * 100_000, b'[[1, 2, 3], ["x", "", ""]]', b"\xff"])
def test_a_sealed_file_of_another_form_is_damage(content):
    whole = encoded()
    for name in ("done.json", "features.npy"):
        (path,) = files(cache_dir(), name)
        write_sealed(path, content)
        assert encoded() == whole
    assert len(set_aside()) >= 1


def test_entries_without_a_seal_are_never_read(caplog):
    """Earlier versions of precall wrote them under other names."""
    whole = encoded()
    (folder,) = (cache_dir() / "features").iterdir()
    old = folder.with_name(folder.name.removeprefix("v2-"))
    assert old != folder
    folder.rename(old)
    (old / "features.npy").write_bytes((old / "features.npy").read_bytes()[:-LENGTH])
    assert encoded() == whole
    assert not caplog.messages


def test_a_cache_that_never_keeps_anything_ends_with_a_sentence(monkeypatch):
    monkeypatch.setattr("precall.encoders.cache.FeatureStore.finished", lambda store: None)
    with pytest.raises(ValueError, match=r"lost or damaged 5 times\. Set PRECALL_CACHE"):
        encoded()


def test_damage_that_cannot_be_moved_is_still_named(caplog, monkeypatch):
    whole = encoded()
    (cache_dir() / "damaged").write_text("a file in the way")
    (path,) = files(cache_dir(), "features.npy")
    flip(path, 200)
    assert encoded() == whole
    assert "cannot be set aside" in caplog.messages[0]


# -------------------------------------------------------------------------------------------------- the index of files


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "texts"
    place.mkdir()
    for i in range(4):
        (place / f"{i}.bin").write_bytes(bytes([i]) * 10)
    return sorted(place.iterdir())


@pytest.fixture
def reads(monkeypatch):
    """The files that were read."""
    done, of_file = [], hashing.of_file

    def counted(path):
        done.append(path.name)
        return of_file(path)

    monkeypatch.setattr(hashing, "of_file", counted)
    return done


@pytest.fixture
def long_ago(monkeypatch):
    """What was written just now counts as settled."""
    monkeypatch.setattr(hashing, "FRESH", -(10**9))


@pytest.mark.usefixtures("long_ago")
def test_a_flipped_bit_in_the_index_of_files_changes_no_hash(folder, reads, cache, caplog):
    index = cache / "files" / "v2-x.json"
    hashes = hashing.of_files(folder, index)
    intact = index.read_bytes()
    assert hashing.of_files(folder, index) == hashes
    assert len(reads) == 4
    for position in range(0, len(intact), 7):
        flip(index, position)
        del reads[:]
        assert hashing.of_files(folder, index) == hashes
        assert len(reads) == 4
        assert index.read_bytes() == intact
    assert len(set_aside()) == len(caplog.messages) == len(range(0, len(intact), 7))


def test_a_file_that_changed_just_now_is_not_recorded(folder, reads, cache):
    """Extracting an archive sets the modification time to the past; only the change time shows what happened."""
    for path in folder:
        os.utime(path, (1e9, 1e9))
    index = cache / "files" / "v2-x.json"
    for _ in range(2):
        hashing.of_files(folder, index)
    assert len(reads) == 8


def test_a_file_that_changes_while_others_are_read_is_not_recorded(folder, cache, monkeypatch):
    """The time counts before the first file is read, however long reading takes."""
    index, of_file = cache / "files" / "v2-x.json", hashing.of_file
    start = hashing.time.time_ns()
    clock = [start]

    def slow(path):
        clock[0] += 10**10
        return of_file(path)

    monkeypatch.setattr(hashing, "of_file", slow)
    monkeypatch.setattr(hashing.time, "time_ns", lambda: clock[0])
    hashing.of_files(folder, index)
    assert json.loads(read_sealed(index)) == {}


@pytest.mark.usefixtures("long_ago")
def test_a_restored_modification_time_hides_nothing(folder, cache):
    index = cache / "files" / "v2-x.json"
    before = hashing.of_files(folder, index)
    times = folder[0].stat()
    while folder[0].stat().st_ctime_ns == times.st_ctime_ns:
        folder[0].write_bytes(b"x" * 10)
        os.utime(folder[0], ns=(times.st_atime_ns, times.st_mtime_ns))
    after = hashing.of_files(folder, index)
    assert after[0] != before[0]
    assert after[1:] == before[1:]


@pytest.mark.usefixtures("long_ago")
def test_an_error_is_not_recorded(folder, cache, monkeypatch):
    index, of_file = cache / "files" / "v2-x.json", hashing.of_file
    expected = hashing.of_files(folder)

    def failing(path):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(hashing, "of_file", failing)
    assert hashing.of_files(folder, index) != expected
    monkeypatch.setattr(hashing, "of_file", of_file)
    assert hashing.of_files(folder, index) == expected


# ------------------------------------------------------------------------------------------------------------ processes


RUN = """
import hashlib, sys, numpy as np
from precall.encoders import encode
for seed in range(6):
    rows = np.random.default_rng(seed % 3).normal(size=(600, 3)).astype(np.float32)
    print(hashlib.sha256(encode(rows, "mine:encode").array.tobytes()).hexdigest())
"""
MINE = "import numpy as np\ndef encode(rows):\n    return np.stack(rows) @ np.arange(6.0).reshape(3, 2)\n"


def test_processes_that_share_a_damaged_cache_agree(tmp_path, cache, python):
    (tmp_path / "mine.py").write_text(MINE)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}

    def start(program):
        command = [*program, "-W", "error", "-c", RUN]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    expected = start([sys.executable]).communicate()[0]
    assert len(set(expected.split())) == 3
    for path in files(cache, "features.npy", "done.json"):
        flip(path, 60 if path.suffix == ".npy" else 0)
    for process in [start(python()) for _ in range(3)]:
        out, err = process.communicate()
        assert (process.returncode, out) == (0, expected), err
    assert set_aside()
    for path in files(cache / "features", "*"):
        check_seal(path)


# ------------------------------------------------------------------------------------------------------------- the seal


def test_sealed_arrays_are_still_npy_files(tmp_path):
    encoded()
    (path,) = files(cache_dir(), "features.npy")
    assert np.load(path, allow_pickle=False).shape == (N - len(BAD), 2)


def test_verifying_needs_little_memory(tmp_path):
    import tracemalloc

    block = np.zeros(1 << 20)
    write_sealed(tmp_path / "x" / "big", *[block] * 6)  # 48 MiB
    tracemalloc.start()
    check_seal(tmp_path / "x" / "big")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


def test_warnings_have_the_logger_of_the_package(caplog):
    encoded()
    (path,) = files(cache_dir(), "done.json")
    path.write_bytes(b"")
    encoded()
    assert [(record.name, record.levelno) for record in caplog.records] == [("precall", logging.WARNING)]


def test_a_hole_of_a_terabyte_is_damaged_at_once(tmp_path):
    with (tmp_path / "a.json").open("wb") as file:
        file.truncate(1 << 40)
    for read in (read_sealed, check_seal):
        with pytest.raises(ValueError, match="is damaged"):
            read(tmp_path / "a.json")
