"""`encode`: results independent of the batch size, cache by content, errors, interruptions."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from precall.encoders import Encoder, cache_dir, default_encoder, encode, load_encoder
from precall.encoders.cache import CHUNK
from precall.encoders.encoder import SLOTS
from precall.samples import SampleError, open_samples

RNG = np.random.default_rng(0)


def images(folder, n, size=(9, 7), seed=0):
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    for i in range(n):
        Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)).save(folder / f"{i}.png")
    return folder


def counting(calls, name="counting"):
    """An encoder that returns row sums and records its calls."""

    def forward(rows):
        calls.append(len(rows))
        return np.stack(rows).sum(axis=1, keepdims=True)

    return Encoder(name, "features", {"version": 1}, np.asarray, forward)


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", ["pixels", "random-vgg"])
def test_no_bit_depends_on_the_batch_size(tmp_path, name):
    samples = open_samples(images(tmp_path / "x", 45))
    encoder = load_encoder(name)
    whole = encode(samples, encoder, cache=False, batch_size=1000)
    assert whole.array.dtype == np.float32
    for batch_size in (1, 33):
        assert (encode(samples, encoder, cache=False, batch_size=batch_size).array == whole.array).all()
    assert (encode(samples, encoder).array == whole.array).all()
    assert len(np.unique(whole.array, axis=0)) == 45


def test_an_encoder_always_sees_the_same_number_of_samples():
    calls = []
    rows = RNG.normal(size=(300, 3))
    features = encode(rows, counting(calls), cache=False, batch_size=7)
    assert set(calls) == {SLOTS}
    assert features.array[:, 0] == pytest.approx(rows.sum(1), abs=1e-5)
    assert counting(calls).encode(list(rows)) == pytest.approx(features.array, abs=0)


def test_the_second_time_comes_from_the_cache():
    calls, rows = [], RNG.normal(size=(CHUNK + 10, 3))
    first = encode(rows, counting(calls))
    assert (first.cached, len(calls)) == (False, -(-CHUNK // SLOTS) + 1)
    second = encode(rows.copy(), counting(calls))
    assert (second.cached, len(calls)) == (True, -(-CHUNK // SLOTS) + 1)
    assert isinstance(second.array, np.memmap)
    assert (first.array == second.array).all()
    assert second.fingerprint == open_samples(rows).fingerprint()
    assert len(tree(cache_dir())) == 2  # features.npy and done.json; the chunks are deleted


def test_content_encoder_and_protocol_are_the_key():
    calls, rows = [], RNG.normal(size=(5, 3))
    other = rows.copy()
    other[4, 2] += 1e-9
    encode(rows, counting(calls))
    for samples, encoder in [
        (other, counting(calls)),
        (rows, counting(calls, name="another")),
        (rows, Encoder("counting", "features", {"version": 2}, np.asarray, counting(calls).forward)),
    ]:
        before = len(calls)
        assert not encode(samples, encoder).cached
        assert len(calls) == before + 1


def test_moved_and_renamed_images_are_found_again(tmp_path):
    folder = images(tmp_path / "x", 12)
    first = encode(folder, "pixels")
    for path in folder.iterdir():
        path.rename(path.with_name(f"renamed-{path.name}"))
    folder.rename(tmp_path / "y")
    second = encode(tmp_path / "y", "pixels")
    assert second.cached
    assert list(second.ids)[:2] == ["renamed-0.png", "renamed-1.png"]
    assert (first.array == second.array).all()


def test_a_changed_image_is_encoded_again(tmp_path):
    folder = images(tmp_path / "x", 3)
    first = encode(folder, "pixels")
    Image.new("RGB", (9, 7)).save(folder / "1.png")
    second = encode(folder, "pixels")
    assert not second.cached
    assert (first.array[[0, 2]] == second.array[[0, 2]]).all()
    assert (first.array[1] != second.array[1]).any()


def test_unreadable_samples_fail_or_are_left_out_listed_and_cached(tmp_path):
    folder = images(tmp_path / "x", 40)
    whole = encode(folder, "pixels", cache=False)
    for i in (0, 7, 39):
        (folder / f"{i}.png").write_bytes(b"broken")
    with pytest.raises(SampleError, match=r"^0\.png: not an image"):
        encode(folder, "pixels")
    for attempt in range(2):
        samples = open_samples(folder, on_error="skip")
        features = encode(samples, "pixels")
        assert features.cached == (attempt == 1)
        assert [error.id for error in features.errors] == ["0.png", "7.png", "39.png"]
        assert features.errors[0].reason.startswith("not an image")
        assert [error.id for error in samples.errors] == ["0.png", "7.png", "39.png"]
        assert features.indices.tolist() == [i for i in range(40) if i not in (0, 7, 39)]
        assert list(features.ids) == [f"{i}.png" for i in features.indices]
        assert (features.array == whole.array[features.indices]).all()
    with pytest.raises(SampleError, match=r"^0\.png"):  # the cache does not hide errors
        encode(folder, "pixels")


def test_nothing_readable_is_an_error(tmp_path):
    (tmp_path / "x").mkdir()
    for i in range(3):
        (tmp_path / "x" / f"{i}.png").write_bytes(b"")
    with pytest.raises(ValueError, match=r"none of 3 is\. First error: 0\.png"):
        encode(open_samples(tmp_path / "x", on_error="skip"), "pixels")


def test_progress_counts_samples(tmp_path):
    rows, seen = RNG.normal(size=(CHUNK + 40, 2)), []
    encode(rows, counting([]), progress=lambda *pair: seen.append(pair))
    assert seen[0] == (0, CHUNK + 40)
    assert seen[-1] == (CHUNK + 40, CHUNK + 40)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert len(seen) > 5


def test_an_interruption_keeps_finished_chunks_and_the_next_run_goes_on():
    rows, calls, seen = RNG.normal(size=(3 * CHUNK, 2)), [], []

    def interrupted(done, total):
        if done > CHUNK + SLOTS:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encode(rows, counting(calls), progress=interrupted)
    before = len(calls)
    features = encode(rows, counting(calls), progress=lambda *pair: seen.append(pair))
    assert seen[0] == (CHUNK, 3 * CHUNK)
    assert len(calls) - before == 2 * CHUNK // SLOTS
    assert (features.array == encode(rows, counting([]), cache=False).array).all()


def test_damaged_cache_files_are_made_again():
    rows, calls = RNG.normal(size=(2 * CHUNK, 2)), []
    whole = encode(rows, counting(calls)).array.copy()
    (matrix,) = cache_dir().rglob("features.npy")
    for damage in (b"", matrix.read_bytes()[:-8], b"\x93NUMPY"):
        matrix.write_bytes(damage)
        assert (encode(rows, counting(calls)).array == whole).all()
    matrix.with_name("done.json").write_text("{")
    matrix.with_name("rows-000000000.npy").write_bytes(b"cut short")
    matrix.with_name("rows-000000000.json").write_text("[]")
    assert (encode(rows, counting(calls)).array == whole).all()
    assert encode(rows, counting(calls)).cached


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_cache_that_cannot_be_written_says_what_to_do(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ValueError, match="Set PRECALL_CACHE, or pass `cache=False`"):
        encode(RNG.normal(size=(5, 2)), counting([]), cache=tmp_path / "cache")


def test_a_cache_in_the_place_of_a_file_says_what_to_do(tmp_path):
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(ValueError, match=r"cannot be written .*\. Set PRECALL_CACHE, or pass `cache=False`"):
        encode(RNG.normal(size=(5, 2)), counting([]), cache=tmp_path / "cache")


SLOW = """
import os, time
import numpy as np
seen = 0
def encode(rows):
    global seen
    seen += len(rows)
    while seen > {stop} and not os.path.exists("go"):
        time.sleep(0.01)
    return np.stack(rows) @ np.arange(6.0).reshape(3, 2)
"""
RUN = """
import sys, numpy as np
from precall.encoders import encode
seen = []
features = encode(np.load("rows.npy"), "slow:encode", progress=lambda *pair: seen.append(pair))
np.save(sys.argv[1], features.array)
print(seen[0][0])
"""


def start(python, folder, output, cache):
    environment = {**os.environ, "PYTHONPATH": str(folder), "PRECALL_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
    command = [*python(), "-W", "error", "-c", RUN, output]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_for(condition, process):
    while not condition():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def work_folder(tmp_path, n, stop):
    """Rows, and an encoder that stops after so many of them, until there is a file `go`."""
    rows = np.random.default_rng(1).normal(size=(n, 3)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    (tmp_path / "slow.py").write_text(SLOW.format(stop=stop))
    return rows @ np.arange(6.0).reshape(3, 2)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="POSIX")
def test_a_killed_process_leaves_a_cache_that_the_next_one_goes_on_from(tmp_path, cache, python):
    expected = work_folder(tmp_path, 6 * CHUNK, stop=3 * CHUNK)
    process = start(python, tmp_path, "first.npy", cache)
    wait_for(lambda: len(list(cache.rglob("rows-*.npy"))) >= 2, process)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "first.npy").exists()
    assert not list(cache.rglob("done.json"))
    (tmp_path / "go").write_bytes(b"")
    again = start(python, tmp_path, "second.npy", cache)
    out, err = again.communicate()
    assert again.returncode == 0, err.decode()
    assert int(out) >= 2 * CHUNK
    second = np.load(tmp_path / "second.npy")
    uninterrupted = start(python, tmp_path, "third.npy", tmp_path / "another cache")
    _, err = uninterrupted.communicate()
    assert uninterrupted.returncode == 0, err.decode()
    assert (second == np.load(tmp_path / "third.npy")).all()
    assert second == pytest.approx(expected, abs=1e-5)


def test_two_processes_at_once_are_safe(tmp_path, cache, python):
    expected = work_folder(tmp_path, 4 * CHUNK + 5, stop=2 * CHUNK)
    processes = [start(python, tmp_path, f"{i}.npy", cache) for i in range(2)]
    wait_for(lambda: len(list(cache.rglob("rows-*.npy"))) >= 1, processes[0])  # both are in the middle of it
    (tmp_path / "go").write_bytes(b"")
    for process in processes:
        _, err = process.communicate()
        assert process.returncode == 0, err.decode()
    first, second = (np.load(tmp_path / f"{i}.npy") for i in range(2))
    assert (first == second).all()
    assert first == pytest.approx(expected, abs=1e-5)
    names = [Path(name).name for name in tree(cache / "features")]
    assert sorted(names) == ["done.json", "features.npy"]


def test_a_process_that_finishes_leaves_the_unfinished_files_of_another(cache):
    """Deleting them would make the other process fail when it renames them."""
    rows, written = RNG.normal(size=(CHUNK + 5, 2)), []

    def other_is_writing(done, total):
        if done == total and not written:
            (folder,) = (cache / "features").iterdir()
            written.append(folder / "rows-000000000.npy.1-abcd.tmp")
            written[0].write_bytes(b"half")

    encode(rows, counting([]), progress=other_is_writing)
    assert written[0].exists()
    assert not [*cache.rglob("rows-*.npy"), *cache.rglob("rows-*.json")]


def test_one_process_may_tidy_away_what_another_is_about_to_join():
    """The other process finishes after this one has stored its last chunk and before it joins the chunks."""
    rows, calls = RNG.normal(size=(CHUNK + 5, 2)), []
    whole = encode(rows, counting([]), cache=False).array

    def other_finishes(done, total):
        if done == total and calls[-1:] != ["other"]:
            calls.append("other")
            encode(rows, counting([]))

    features = encode(rows, counting(calls), progress=other_finishes)
    assert "other" in calls
    assert (features.array == whole).all()
    assert encode(rows, counting([])).cached
    assert len(tree(cache_dir())) == 2


def test_features_say_how_they_were_made(tmp_path):
    features = encode(images(tmp_path / "x", 4), "pixels")
    told = json.loads(json.dumps(features.to_dict()))
    assert told["encoder"] == "pixels"
    assert told["shape"] == [4, 3072] == list(features.shape)
    assert told["protocol"]["resize"] == {"size": 32, "filter": "bilinear", "antialias": True, "shape": "whole image"}
    assert len(told["fingerprint"]) == 64
    assert len(features) == 4
    assert (np.asarray(features) == features.array).all()


def test_features_are_taken_as_they_are(tmp_path, cache):
    rows = RNG.normal(size=(5, 2))
    np.save(tmp_path / "x.npy", rows)
    features = encode(tmp_path / "x.npy")
    assert (features.encoder, features.array.dtype) == ("identity", np.float64)
    assert isinstance(features.array, np.memmap)
    assert (features.array == rows).all()
    assert (encode(list(rows)).array == rows.astype(np.float32)).all()


def test_statistics_cannot_be_encoded(tmp_path):
    np.savez(tmp_path / "s.npz", mu=np.zeros(2), sigma=np.eye(2))
    with pytest.raises(ValueError, match="contains statistics, not samples"):
        encode(tmp_path / "s.npz")


def test_an_encoder_takes_its_kind_only():
    with pytest.raises(ValueError, match="encoder `pixels` accepts images; got text"):
        encode(["a text"], "pixels")
    with pytest.raises(ValueError, match="`batch_size` must be at least 1; got 0"):
        encode(["a text"], "ngrams", batch_size=0)


@pytest.mark.parametrize(
    ("forward", "sentence"),
    [
        (lambda rows: np.zeros(len(rows)), r"shape \(32, d\); got \(32,\)"),
        (lambda rows: np.zeros((3, 2)), r"shape \(32, d\); got \(3, 2\)"),
        (lambda rows: np.full((len(rows), 2), np.nan), "must return finite features"),
    ],
)
def test_what_an_encoder_returns_is_checked(forward, sentence):
    with pytest.raises(ValueError, match=f"encoder `mine` .*{sentence}"):
        encode(np.zeros((2, 2)), Encoder("mine", "features", {}, np.asarray, forward), cache=False)


def test_the_width_of_features_may_not_change():
    widths = iter([2, 2, 3])
    encoder = Encoder("mine", "features", {}, np.asarray, lambda rows: np.zeros((len(rows), next(widths))))
    with pytest.raises(ValueError, match=r"the same number of features for each sample; got \[2, 3\]"):
        encode(np.zeros((3 * SLOTS, 2)), encoder)


def test_a_chunk_without_readable_samples_leaves_no_trace(tmp_path):
    rows = [np.full(2, i) if i >= CHUNK else None for i in range(CHUNK + 3)]
    rows[0] = np.zeros(2)
    for cache in (True, False):
        features = encode(open_samples(rows, on_error="skip"), counting([]), cache=cache)
        assert features.array[:, 0].tolist() == [0, *(2 * i for i in range(CHUNK, CHUNK + 3))]
        assert len(features.errors) == CHUNK - 1
    rows[0] = None
    features = encode(open_samples(rows, on_error="skip"), counting([]))
    assert features.indices.tolist() == list(range(CHUNK, CHUNK + 3))


def test_the_cache_has_its_place(monkeypatch, tmp_path):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "here"))
    assert cache_dir() == tmp_path / "here"
    monkeypatch.delenv("PRECALL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache_dir() == tmp_path / "xdg" / "precall"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_dir() == Path.home() / "Library" / "Caches" / "precall"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache_dir() == tmp_path / "local" / "precall" / "Cache"


def test_every_kind_has_a_default_that_works_offline():
    defaults = {kind: default_encoder(kind) for kind in ("images", "text", "table", "features")}
    assert defaults == {"images": "efficientnet", "text": "words", "table": "table", "features": "identity"}
    assert encode(["a", "b"]).encoder == "words"


def test_no_samples_at_all_cost_a_sentence():
    with pytest.raises(ValueError, match="at least one sample to encode; got none"):
        encode(np.empty((0, 4, 4, 3), np.uint8), "pixels", cache=False)
