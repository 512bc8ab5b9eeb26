"""Forked processes, full disks, and values that are no samples: the library works, or says why in a sentence."""

import gc
import os
import stat
import subprocess
import sys

import matplotlib
import numpy as np
import pytest
import torch

import precall
from precall import devices
from precall.report import folder

CODE = """
import multiprocessing, sys
import numpy as np
from precall import Reference
from precall.encoders import encode
real = np.random.default_rng(0).normal(size=(2000, 64)).astype(np.float32)
reference = Reference.fit(real)
pictures = [np.zeros((8, 8, 3), np.uint8)] * 3
def sketched(i): return reference.sketch(real[:300] + i).n
def encoded(i):
    try: return encode(pictures, "random-vgg", cache=False).shape
    except ValueError as error: return str(error)
sketched(0), encoded(0)
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(sketched, range(3)), pool.map(encoded, range(1)))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_fork_works_or_says_which_start_method_to_use():
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=300, env=environment)
    assert done.stdout.startswith("[300, 300, 300] "), done.stderr
    assert '"spawn" or "forkserver"' in done.stdout


def test_a_network_runs_again_in_the_same_process():
    devices.check_fork()
    devices.check_fork()


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root makes devices")
@pytest.mark.parametrize("words", [["--help"], ["assess", "--help"], ["--version"], ["presets"]])
def test_a_full_device_costs_a_sentence(tmp_path, words, python):
    os.mknod(tmp_path / "full", 0o600 | stat.S_IFCHR, os.makedev(1, 7))
    with (tmp_path / "full").open("w") as full:
        done = subprocess.run([*python(), "-m", "precall", *words], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("drawn")
def test_no_picture_is_drawn_through_latex(tmp_path, monkeypatch):
    monkeypatch.setitem(matplotlib.rcParams, "text.usetex", True)
    x = np.random.default_rng(0).normal(size=(60, 2))
    found = precall.assess(real=x, fake={r"\input{/etc/passwd}_$": x + 1}, metrics=("clusters", "fid"))
    assert folder.write(found, tmp_path / "report").exists()
    assert (tmp_path / "report" / "curves.png").stat().st_size


@pytest.mark.parametrize(
    ("real", "fake"),
    [
        (np.ones((60, 3)), np.ones((60, 3))),
        (np.ones((60, 3)), np.eye(60, 3)),
        (np.eye(60, 3), np.ones((60, 3))),
        (np.full((60, 3), 1e-320), np.full((60, 3), 1e-320)),
        (np.hstack([np.arange(60.0)[:, None], np.ones((60, 2))]), np.ones((60, 3))),
    ],
)
@pytest.mark.filterwarnings("ignore::precall.samples.sampleset.SampleWarning")
def test_equal_samples_have_a_result_and_a_page(tmp_path, real, fake):
    found = precall.assess(real=real, fake=fake, metrics=("clusters", "neighbors", "fid", "linear"))
    assert found.verdict
    assert found.to_html(tmp_path / "page.html").stat().st_size


TENSORS = {
    "meta": lambda x: torch.empty(60, 3, device="meta"),
    "quantized": lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
    "nested": lambda x: torch.nested.nested_tensor([x[:30], x[30:]]),
    "jagged": lambda x: torch.nested.nested_tensor([x[:30], x[30:]], layout=torch.jagged),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", TENSORS.values(), ids=TENSORS)
def test_tensors_without_plain_numbers_cost_a_sentence(make):
    x = torch.randn(60, 3)
    for side in ("real", "fake"):
        with pytest.raises(ValueError, match="must be a dense tensor"):
            precall.assess(**{"real": x, "fake": x, side: make(x)}, metrics=("fid",))


@pytest.mark.parametrize(
    ("name", "value"), [*(("seed", one) for one in (0.5, -1, "a", None)), *(("metrics", one) for one in (5, [[]], [5]))]
)
def test_arguments_of_another_kind_cost_a_sentence(name, value):
    x = np.eye(60, 3)
    with pytest.raises(ValueError, match=f"`{name}` must"):
        precall.assess(real=x, fake=x + 1, **{"metrics": ("clusters",), name: value})


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are not listed here")
def test_an_assessment_leaves_no_file_open(tmp_path):
    """The collector of cycles must not be needed: samples in a cycle stay in memory until it runs."""
    np.save(tmp_path / "a.npy", np.random.default_rng(0).normal(size=(60, 4)))

    def assess():
        precall.assess(real=tmp_path / "a.npy", fake=np.random.default_rng(1).normal(size=(60, 4)), metrics="neighbors")
        return len(os.listdir("/proc/self/fd"))

    before = assess()
    gc.disable()
    try:
        assert assess() == assess() <= before
    finally:
        gc.enable()
