"""The device: one sentence where it does not exist, and the same numbers from features that were moved there."""

import types
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score
from typer.testing import CliRunner

import plain_trees
from precall import devices
from precall.cli import app
from precall.encoders import encode
from precall.improve import select
from precall.metrics.assessing.assessment import Reference, assess
from precall.metrics.cells import histograms
from precall.metrics.cells.kmeans import kmeans
from precall.metrics.distances import frechet_distance
from precall.metrics.distances.moments import Moments
from precall.metrics.inputs import features
from precall.metrics.inputs.parallel import side_by_side
from precall.metrics.members import trees

pytestmark = pytest.mark.usefixtures("small_committee")

RNG = np.random.default_rng(0)
REAL, FAKE = RNG.normal(size=(300, 6)), RNG.normal(0.5, 0.7, size=(200, 6))
NO_CUDA = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")


@NO_CUDA
@pytest.mark.parametrize("device", ["cuda", "cuda:1", "mps"])
def test_a_device_that_does_not_exist_costs_one_sentence(device):
    with pytest.raises(ValueError, match=rf"`device` must exist on this machine; got '{device}'.*'auto'.*'cpu'"):
        assess(real=REAL, fake=FAKE, metrics=("fid",), device=device)
    with pytest.raises(ValueError, match="`device` must exist"):
        encode(np.zeros((2, 8, 8), np.uint8), "random-vgg", device=device)


@NO_CUDA
@pytest.mark.parametrize("command", [["assess"], ["improve", "--budget", "2"]], ids=" ".join)
def test_the_command_refuses_it_before_it_reads_anything(command):
    done = CliRunner().invoke(app, [*command, "--real", "no/such", "--fake", "no/such", "--device", "cuda"])
    assert done.exit_code == 1
    assert "`device` must exist on this machine; got 'cuda'" in done.output


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "", "cpu:0", "auto:1"])
def test_unknown_names_are_refused(device):
    with pytest.raises(ValueError, match="`device` must be one of auto, cpu, cuda, mps"):
        Reference.fit(REAL, device=device)


@pytest.mark.parametrize(
    ("existing", "network", "exact"),
    [(set(), "cpu", "cpu"), ({"mps"}, "mps", "cpu"), ({"cuda"}, "cuda", "cuda"), ({"cuda", "mps"}, "cuda", "cuda")],
)
def test_auto_is_cuda_then_mps_then_the_cpu(monkeypatch, existing, network, exact):
    """Apple's devices have no float64, which the exact comparisons need."""
    monkeypatch.setattr(devices, "_exists", lambda kind: kind in existing)
    assert (devices.network_device("auto"), devices.network_device(None)) == (network, network)
    assert (devices.exact_device("auto"), devices.exact_device("cpu")) == (exact, "cpu")


@pytest.mark.parametrize(
    ("platform", "library", "amd", "cuda", "mps"),
    [
        ("linux", True, False, True, False),
        ("linux", False, True, True, False),
        ("linux", False, False, False, False),
        ("darwin", False, False, False, True),
        ("win32", False, False, True, False),
    ],
)
def test_torch_is_not_asked_where_there_can_be_no_device(monkeypatch, platform, library, amd, cuda, mps):
    def load(name):
        if not library:
            raise OSError(name)

    monkeypatch.setattr(devices.sys, "platform", platform)
    monkeypatch.setattr(devices.ctypes, "CDLL", load)
    monkeypatch.setattr(devices.Path, "exists", lambda path: amd)
    assert (devices.may_exist("cuda"), devices.may_exist("mps")) == (cuda, mps)


def test_arrays_are_moved_to_the_requested_device(monkeypatch):
    """Without a GPU: the CPU poses as one, and every matrix must have become a tensor there."""
    seen = []

    def moved(matrix, device):
        seen.append((type(matrix), device))
        return torch.as_tensor(np.array(matrix))

    monkeypatch.setattr("precall.metrics.inputs.sides.moved", moved)
    monkeypatch.setattr(devices, "_exists", lambda kind: kind == "cuda")
    monkeypatch.setattr("precall.metrics.inputs.sides.exact_device", devices.exact_device)
    found = assess(real=REAL, fake=FAKE, holdout=REAL + 1, metrics=("neighbors", "fid"), device="cuda")
    assert seen == [(np.ndarray, "cuda")] * 3
    plain = assess(real=REAL, fake=FAKE, metrics=("neighbors", "fid"))
    assert found.scores["precision"].value == plain.scores["precision"].value
    assert found.scores["fid"].value == pytest.approx(plain.scores["fid"].value, rel=1e-9)


def test_features_stay_where_they_are_without_a_choice():
    found = assess(real=torch.as_tensor(REAL), fake=torch.as_tensor(FAKE), metrics=("fid",))
    assert isinstance(found.sources["real"].features, torch.Tensor)
    assert isinstance(assess(real=REAL, fake=FAKE, metrics=("fid",), device="cpu").sources["real"].features, np.ndarray)
    assert found.protocol["device"] == "cpu"


class Elsewhere(torch.Tensor):
    """A tensor that, like one on a GPU, becomes an array only after `cpu`."""

    def __array__(self, *_, **__):
        raise TypeError("can't convert cuda:0 device type tensor to numpy.")

    def cpu(self):
        return self.as_subclass(torch.Tensor)


def test_the_command_brings_back_what_it_shows(monkeypatch, tmp_path):
    """The map of the samples read the features as an array, which a GPU's tensors are not."""
    moved = lambda x, _: torch.as_tensor(np.array(x)).as_subclass(Elsewhere)  # noqa: E731
    monkeypatch.setattr("precall.metrics.inputs.sides.moved", moved)
    for name, x in (("real", REAL), ("fake", FAKE)):
        np.save(tmp_path / f"{name}.npy", x)
    words = ["assess", "--real", tmp_path / "real.npy", "--fake", tmp_path / "fake.npy", "--quick", "--fresh"]
    words += ["--out", tmp_path / "out", "--samples", tmp_path / "out.csv"]
    done = CliRunner().invoke(app, [str(one) for one in words])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out" / "report.html").exists()


# ------------------------------------------------------------------------------------------------------------- k-means


def blobs(n=600, cells=6):
    centres = RNG.normal(0, 12, size=(cells, 5))
    labels = RNG.integers(cells, size=n)
    return (centres[labels] + RNG.normal(size=(n, 5))).astype(np.float32), labels


def test_cells_on_a_device_are_those_of_separated_blobs():
    x, labels = blobs()
    found = kmeans(torch.as_tensor(x), 6, 3, 10)
    assert adjusted_rand_score(labels, found) > 0.99
    assert (found == kmeans(torch.as_tensor(x), 6, 3, 10)).all()


def test_the_best_start_is_kept():
    x = torch.as_tensor(blobs()[0])
    spread = []
    for starts in (1, 30):
        cells = kmeans(x, 6, 0, starts)
        spread.append(sum(float(((x[cells == c] - x[cells == c].mean(0)) ** 2).sum()) for c in np.unique(cells)))
    assert spread[1] <= spread[0]


def test_histograms_of_features_on_an_accelerator(monkeypatch):
    """The cells are those of the CPU up to rounding."""
    plain = histograms.kmeans_histograms(real=REAL, fake=FAKE)
    monkeypatch.setattr(histograms, "device_of", lambda matrix: "cuda")
    posing = histograms.kmeans_histograms(real=torch.as_tensor(REAL), fake=torch.as_tensor(FAKE))
    assert (posing.labels_fake == plain.labels_fake).mean() > 0.99


def test_scaling_keeps_an_offset_from_eating_digits():
    pair = features.Pair(torch.as_tensor(REAL + 1e8), torch.as_tensor(FAKE + 1e8))
    near = histograms._scaled_on_device(features.Pair(torch.as_tensor(REAL), torch.as_tensor(FAKE)))
    assert torch.allclose(histograms._scaled_on_device(pair), near, atol=1e-6)


@pytest.mark.parametrize("n", [300, 15])
def test_fid_is_decomposed_on_the_device(monkeypatch, n):
    """The CPU poses as a GPU; stored statistics of the other side are moved there too."""
    x, y = np.repeat(REAL[:n], 5, axis=1)[:, :20] + RNG.normal(size=(n, 20)), RNG.normal(size=(n + 5, 20))
    plain = frechet_distance.fid(real=x, fake=y)
    monkeypatch.setattr(frechet_distance, "device_of", lambda features: "cuda")
    monkeypatch.setattr(frechet_distance, "np", _without_decompositions())
    tensors = {"real": torch.as_tensor(x), "fake": torch.as_tensor(y)}
    stored = [{**tensors, "real": Moments.of_matrix(x)}] if n > 20 else []  # a singular matrix has its roots on the CPU
    for given in (tensors, *stored):
        found = frechet_distance.fid(**given)
        assert found.value == pytest.approx(plain.value, rel=1e-7)
    assert frechet_distance.fid(**tensors).interval.low == pytest.approx(plain.interval.low, rel=1e-6)


def _without_decompositions():
    """NumPy whose eigenvalues must not be requested."""
    names = {name: getattr(np, name) for name in ("sqrt", "float64", "finfo", "concatenate", "asarray")}
    linalg = types.SimpleNamespace(cholesky=np.linalg.cholesky, LinAlgError=np.linalg.LinAlgError)
    return types.SimpleNamespace(**names, linalg=linalg)


# --------------------------------------------------------------------------------------------------------- a real GPU


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_gives_the_numbers_of_the_cpu():
    metrics = ("auto", "clusters", "neighbors", "copies", "fid", "kid", "c2st")
    on_cpu, on_gpu = (assess(real=REAL, fake=FAKE, metrics=metrics, device=device) for device in ("cpu", "cuda"))
    assert on_gpu.protocol["device"] == "cuda"
    for name in ("precision", "recall", "density", "coverage", "copies"):
        assert on_gpu.scores[name].value == on_cpu.scores[name].value
    for name in ("fid", "kid"):
        assert on_gpu.scores[name].value == pytest.approx(on_cpu.scores[name].value, rel=1e-6)
    assert on_gpu.scores["area"].value == pytest.approx(on_cpu.scores["area"].value, abs=0.02)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_keeps_the_samples_of_the_cpu():
    on_cpu, on_gpu = (select(real=REAL, fake=FAKE, budget=3, centrality=3, device=device) for device in ("cpu", "cuda"))
    assert len(on_gpu) == len(on_cpu)
    assert np.abs(on_gpu.acceptance - on_cpu.acceptance).mean() < 0.02


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(("features", "rows"), [(9, 700), (1, 300), (33, 5000)])
def test_trees_that_grow_on_a_gpu_are_those_of_the_cpu(features, rows, monkeypatch):
    """The kernels, and the graph that is replayed for every tree, in threads that use the device at the same time."""
    rng = np.random.default_rng(0)
    bins = torch.as_tensor(rng.integers(0, 63, (3, features, rows), dtype=np.uint8))
    bins[:, -1] //= 20
    real = torch.as_tensor(rng.random((3, rows)) < 0.3 + 0.4 * (bins[:, -1] == 1).numpy())
    held_out = torch.as_tensor(rng.random((3, rows)) < 0.1)
    given = (bins, real, ~held_out, held_out)
    with monkeypatch.context() as patch:
        patch.setattr(trees, "_tree", plain_trees.tree)
        splits, values, stops = trees.grown(*given)
    for others in side_by_side([partial(trees.grown, *(one.cuda() for one in given))] * 4):
        assert torch.equal(others[0].cpu(), splits)
        assert others[2] == stops
        assert torch.allclose(others[1].cpu(), values, atol=1e-6)
