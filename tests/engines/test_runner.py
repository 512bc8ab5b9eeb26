"""The runner: order, errors, and what is kept in the work folder."""

import threading

import numpy as np
import pytest

from precall.engines.engine import EngineTask, LocalEngine, Shared
from precall.engines.runner import Manifest, Runner, engine_named
from precall.samples.hashing import combined


@pytest.fixture
def engine():
    running = LocalEngine(2)
    yield running
    running.close()


def tasks(n, function=lambda i: {"x": np.array(i)}):
    return [EngineTask(f"task {i}", function, (i,), combined([str(i)])) for i in range(n)]


def joined(parts):
    return {"x": np.array([int(one["x"]) for one in parts])}


def test_results_come_in_the_order_of_the_tasks(engine, tmp_path):
    second = threading.Event()

    def late(i):
        if i == 0:
            assert second.wait(10)  # the first task ends after the second one
        else:
            second.set()
        return {"x": np.array(i)}

    assert Runner(engine, tmp_path).stage("s", combined(["a"]), tasks(6, late), joined)["x"].tolist() == list(range(6))


def test_a_finished_stage_is_not_computed_again(engine, tmp_path):
    Runner(engine, tmp_path).stage("s", combined(["a"]), tasks(3), joined)
    again = Runner(engine, tmp_path)
    assert again.stage("s", combined(["a"]), iter(()), joined)["x"].tolist() == [0, 1, 2]
    assert again.timings()["s"]["merged"]
    assert [path.name for path in tmp_path.rglob("*.npz")] == ["stage.npz"]


def test_after_an_error_only_missing_tasks_are_computed(engine, tmp_path):
    def fails(i):
        if i == 4:
            raise ValueError("bad")
        return {"x": np.array(i)}

    with pytest.raises(ValueError, match="bad") as caught:
        Runner(engine, tmp_path).stage("s", combined(["a"]), tasks(6, fails), joined)
    assert caught.value.__notes__ == ["task 4"]
    again = Runner(engine, tmp_path)
    assert again.stage("s", combined(["a"]), tasks(6), joined)["x"].tolist() == list(range(6))
    assert again.records["s"].kept >= 3
    assert again.records["s"].computed == 6 - again.records["s"].kept


def test_a_damaged_result_is_set_aside_and_computed_again(engine, tmp_path, caplog):
    kept = Manifest.of(tmp_path, "s", combined(["a"]))
    kept.write(combined(["0"]), {"x": np.array(7)})
    (path,) = tmp_path.rglob("*.npz")
    path.write_bytes(path.read_bytes()[:-90] + b"x" * 90)
    found = Runner(engine, tmp_path).stage("s", combined(["a"]), tasks(2), joined)
    assert found["x"].tolist() == [0, 1]
    assert "damaged" in caplog.text


def test_an_intact_result_is_used_rather_than_computed(engine, tmp_path):
    Manifest.of(tmp_path, "s", combined(["a"])).write(combined(["0"]), {"x": np.array(7)})
    assert Runner(engine, tmp_path).stage("s", combined(["a"]), tasks(2), joined)["x"].tolist() == [7, 1]


def test_nothing_is_unpickled(tmp_path):
    kept = Manifest.of(tmp_path, "s", combined(["a"]))
    kept.write("k", {"x": np.array([{}], dtype=object)})
    assert kept.read("k") is None


def test_shared_values_are_computed_once_and_forgotten(engine):
    calls = []

    def load(i):
        calls.append(i)
        return i

    for i in [*([0] * 5), *range(1, 9), 0]:
        task = EngineTask("t", lambda x: {"x": np.array(x)}, (Shared(str(i), load, (i,)),), "")
        assert engine.submit(task).result()["x"] == i
    assert calls == [0, *range(1, 9), 0]


def test_a_shared_value_that_fails_fails_each_task(engine):
    def load():
        raise OSError("gone")

    for _ in range(2):
        with pytest.raises(OSError, match="gone"):
            engine.submit(EngineTask("t", lambda x: {}, (Shared("a", load),), "")).result()


def test_progress_counts_the_sizes(engine, tmp_path):
    seen = []
    runner = Runner(engine, tmp_path, lambda *report: seen.append(report))
    runner.stage("s", combined(["a"]), tasks(3), joined, total=3)
    assert seen == [("s", 1, 3), ("s", 2, 3), ("s", 3, 3)]


def test_engines_are_named():
    with pytest.raises(ValueError, match="`engine` must be"):
        engine_named("spark")
    with pytest.raises(ValueError, match="`ray_address` is for"):
        engine_named("local", ray_address="auto")


def test_without_ray_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr("precall.engines.ray.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'precall\[ray\]'"):
        engine_named("ray")


def test_folders_of_killed_drivers_are_removed(monkeypatch, tmp_path):
    import os
    import subprocess
    import sys

    from precall.engines import ray

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    dead, alive, other = (tmp_path / f"precall-ray-{name}" for name in (f"{ended.pid}-a", f"{os.getpid()}-b", "x-c"))
    for folder in (dead, alive, other):
        folder.mkdir()
    made = ray._new_folder()
    assert sorted(map(str, tmp_path.iterdir())) == sorted([str(alive), str(other), made])


def test_the_object_store_has_room_for_the_shards_in_use():
    from precall.engines import ray

    assert ray._store_size(2, 0) == 128 << 20
    assert ray._store_size(2, 100 << 20) == int(1.2 * 6 * (100 << 20))
    memory = ray._store_size(2, 1 << 50)
    assert memory < 1 << 45
