"""The Ray engine on one local cluster of two workers: the counts of `local`, workers and drivers that are killed."""

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from precall import assess
from precall.cli import app
from precall.engines.engine import EngineTask
from precall.engines.ray import RayEngine

pytestmark = [
    pytest.mark.filterwarnings("default"),  # Ray's own warnings
    pytest.mark.skipif(not find_spec("ray"), reason="the extra `ray` is not installed"),
]


def words(shards, work):
    options = ["--engine", "ray", "--metrics", "neighbors,fid", "--work", str(work), "--json", "--quiet"]
    return ["assess", "--real", shards["real"], "--fake", f"ours={shards['fake']}", *options]


@pytest.fixture(scope="module")
def killed(write_shards, tmp_path_factory):
    """A command that was killed in the middle of its work: its process id, what it said, its shards and its folder."""
    place = tmp_path_factory.mktemp("killed")
    shards, work = write_shards(place), place / "w"
    command = [sys.executable, "-m", "precall", *words(shards, work)]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while driver.poll() is None and not list(work.glob("real-balls-*/*.npz")):
        time.sleep(0.02)
    driver.kill()
    return SimpleNamespace(pid=driver.pid, said=driver.communicate()[1], shards=shards, work=work)


def is_gone(driver):
    """Whether all processes of the cluster that a driver started end: they name its session, which ends in its id."""
    for _ in range(3000):
        listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
        if f"_{driver}/" not in listed:
            return True
        time.sleep(0.1)
    return False


@pytest.fixture(scope="module")
def cluster():
    """A cluster of two workers, which the engine `ray` uses because it is there; nothing of it is left afterwards."""
    engine = RayEngine(width=2)
    yield engine
    engine.close()
    assert is_gone(os.getpid())


def test_a_killed_driver_continues_and_prints_nothing_of_ray(killed, cluster, tmp_path, capfd):
    done = CliRunner().invoke(app, words(killed.shards, killed.work))
    assert (done.exit_code, killed.said, done.stderr, *capfd.readouterr()) == (0, "", "", "", "")
    (found,) = json.loads(done.stdout)["models"].values()
    expected = assess(**killed.shards, metrics=("neighbors", "fid"), work=tmp_path / "b").to_dict()
    assert found == json.loads(json.dumps({**expected, "name": "ours"}))


def pid():
    return {"pid": np.array(os.getpid())}


def fails():
    raise ValueError("`x` must be small; got 3.")


def dies():
    os.kill(os.getpid(), signal.SIGKILL)


def workers(cluster):
    """Process ids of the workers."""
    running = [cluster.submit(EngineTask("pid", pid, (), "")) for _ in range(20)]
    return {int(one.result()["pid"]) for one in running}


def test_scores_are_those_of_threads(cluster, shards, tmp_path):
    metrics = ("clusters", "neighbors", "copies", "fid", "kid")
    found = assess(**shards, metrics=metrics, engine="ray", work=tmp_path / "a")
    assert found.to_dict() == assess(**shards, metrics=metrics, work=tmp_path / "b").to_dict()


def test_the_error_is_that_of_the_task(cluster):
    with pytest.raises(ValueError, match=r"^`x` must be small; got 3\.$"):
        cluster.submit(EngineTask("t", fails, (), "")).result()


def test_a_corrupt_shard_is_named(cluster, shards, tmp_path):
    (tmp_path / "f2.npy").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"f2\.npy.*1 of 3 shards of `fake` cannot be read"):
        assess(**shards, metrics=("fid",), engine="ray", work=tmp_path / "w")


# the last tests, because new workers take seconds to start, and those of a killed driver to end; Ray Data keeps the
# workers that it finds, and leaves none


def test_killed_workers_change_nothing_and_nothing_is_printed(cluster, shards, tmp_path, capfd):
    killed = []

    def kill(stage, done, total):
        if stage == "neighbors" and not killed:
            killed.extend(workers(cluster))
            for one in killed:
                os.kill(one, signal.SIGKILL)

    found = assess(**shards, metrics=("neighbors",), engine="ray", work=tmp_path / "a", progress=kill)
    assert killed
    assert found.to_dict() == assess(**shards, metrics=("neighbors",), work=tmp_path / "b").to_dict()
    assert capfd.readouterr() == ("", "")


def test_samples_are_encoded_through_ray_data(cluster, tmp_path, monkeypatch):
    """Pixels, because the workers of other encoders import scikit-learn first; of so many, FID takes long."""
    monkeypatch.setattr("precall.encoders.sharding.RANGE", 8)
    rng = np.random.default_rng(0)
    for side in ("real", "fake"):
        (tmp_path / side).mkdir()
        for i in range(20):
            Image.fromarray(rng.integers(256, size=(4, 4, 3), dtype=np.uint8)).save(tmp_path / side / f"{i}.png")
    source = {"real": str(tmp_path / "real"), "fake": str(tmp_path / "fake"), "metrics": ("neighbors",)}
    source["encoder"] = "pixels"
    found, expected = (assess(**source, engine=engine, work=tmp_path / engine) for engine in ("ray", "local"))
    assert found.to_dict() == expected.to_dict()


def test_a_task_whose_worker_always_dies_is_given_up(cluster, monkeypatch):
    monkeypatch.setattr("precall.engines.ray.RETRIES", 1)
    engine = RayEngine()
    with pytest.raises(RuntimeError, match="a Ray worker died 2 times"):
        engine.submit(EngineTask("t", dies, (), "")).result()


def test_nothing_of_the_cluster_of_a_killed_driver_is_left(killed):
    assert is_gone(killed.pid)
