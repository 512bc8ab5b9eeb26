"""Arrays in memory and in files: shape and dtype determine the kind, and pickles are never opened."""

import pickle
import sys
import zipfile

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch

from precall.samples import SampleError, open_samples

RNG = np.random.default_rng(0)
MATRIX = RNG.normal(size=(5, 3)).astype(np.float32)
IMAGES = RNG.integers(0, 256, (4, 6, 7, 3), dtype=np.uint8)


class Bomb:
    """Unpickling this object creates a file."""

    fired = False

    def __reduce__(self):
        return (setattr, (Bomb, "fired", True))


def test_a_matrix_is_features():
    for source in (MATRIX, torch.from_numpy(MATRIX), MATRIX.tolist()):
        samples = open_samples(source)
        assert (samples.kind, len(samples), list(samples.ids)) == ("features", 5, ["0", "1", "2", "3", "4"])
        assert samples[3] == pytest.approx(MATRIX[3])
        assert samples.thumbnail(0) is None
        assert samples.describe(3) == "3"


@pytest.mark.parametrize(
    "array",
    [
        IMAGES,
        IMAGES.transpose(0, 3, 1, 2),
        IMAGES / 255,
        torch.from_numpy(IMAGES.transpose(0, 3, 1, 2) / np.float32(255)),
    ],
    ids=["nhwc", "nchw", "float", "tensor"],
)
def test_four_dimensions_are_images(array):
    samples = open_samples(array)
    assert (samples.kind, len(samples)) == ("images", 4)
    assert (samples[2] == IMAGES[2]).all()
    assert samples.thumbnail(2).size == (7, 6)


def test_grey_and_transparent_arrays_become_rgb():
    assert (open_samples(IMAGES[..., 0])[1] == IMAGES[1, ..., :1]).all()
    assert (open_samples(IMAGES[..., :1])[1] == IMAGES[1, ..., :1]).all()
    clear = np.zeros((2, 3, 3, 4), np.uint8)
    assert (open_samples(clear)[0] == 255).all()


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.zeros(4), r"got \(4,\) of float64"),
        (np.zeros((2, 3, 4)), "must have shape"),
        (np.zeros((2, 5, 5, 5)), "must have shape"),
        (np.array([["a"]]), "must contain numbers; got dtype <U1"),
        (np.zeros((2, 2), complex), "must contain numbers"),
        (np.array([[object()]]), "Pickled objects are never opened"),
    ],
)
def test_other_arrays_are_refused(array, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        open_samples(array)
    assert "\n" not in str(caught.value)


def test_pixels_are_not_rescaled_by_guess():
    samples = open_samples(np.full((2, 4, 4, 3), 1.5), on_error="skip")
    assert next(iter(samples.batches(2))).items == []
    assert samples.errors[0].reason.startswith("floating-point pixels must lie within [0, 1]; got 1.5 to 1.5")
    with pytest.raises(SampleError, match="pixels must be uint8"):
        open_samples(np.zeros((2, 4, 4, 3), np.int64))[0]
    with pytest.raises(SampleError, match=r"within \[0, 1\]"):
        open_samples(np.full((1, 4, 4, 3), np.nan))[0]


def test_npy_is_memory_mapped(tmp_path):
    np.save(tmp_path / "x.npy", MATRIX)
    samples = open_samples(tmp_path / "x.npy")
    assert isinstance(samples.array, np.memmap)
    assert (samples[4] == MATRIX[4]).all()
    np.save(tmp_path / "images.npy", IMAGES)
    assert open_samples(str(tmp_path / "images.npy")).kind == "images"


def test_pickles_are_refused_unopened(tmp_path):
    np.save(tmp_path / "objects.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
    (tmp_path / "raw.npy").write_bytes(pickle.dumps(Bomb()))
    np.savez(tmp_path / "objects.npz", arr_0=np.array([Bomb()], dtype=object))
    (tmp_path / "model.pt").write_bytes(pickle.dumps(Bomb()))
    for name in ("objects.npy", "raw.npy", "objects.npz", "model.pt"):
        with pytest.raises(ValueError, match=name) as caught:
            open_samples(tmp_path / name)
        assert "\n" not in str(caught.value)
    assert not Bomb.fired


def test_npz_arrays_by_customary_name_or_key(tmp_path):
    np.savez(tmp_path / "guided.npz", IMAGES, np.arange(4))
    assert open_samples(tmp_path / "guided.npz").kind == "images"
    assert (open_samples(tmp_path / "guided.npz")[1] == IMAGES[1]).all()
    np.savez_compressed(tmp_path / "one.npz", whatever=MATRIX)
    assert (open_samples(tmp_path / "one.npz")[1] == MATRIX[1]).all()
    np.savez(tmp_path / "two.npz", left=MATRIX, right=2 * MATRIX)
    assert (open_samples(tmp_path / "two.npz", key="right")[1] == 2 * MATRIX[1]).all()
    with pytest.raises(ValueError, match=r"`key` must be one of .*\(left, right\); got no name"):
        open_samples(tmp_path / "two.npz")
    with pytest.raises(ValueError, match="got 'middle'"):
        open_samples(tmp_path / "two.npz", key="middle")


def test_npz_is_not_unpacked_before_it_is_needed(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "x.npz", MATRIX)
    samples = open_samples(tmp_path / "x.npz")
    monkeypatch.setattr(np, "load", lambda *a, **k: pytest.fail("unpacked"))
    assert (samples.kind, len(samples), len(samples.fingerprint())) == ("features", 5, 64)


def test_fid_statistics_are_moments(tmp_path):
    mu, sigma = np.arange(3.0), np.eye(3)
    np.savez(tmp_path / "stats.npz", mu=mu, sigma=sigma)
    stats = open_samples(tmp_path / "stats.npz")
    assert (stats.kind, len(stats), stats.n) == ("moments", 0, None)
    assert (stats.mu == mu).all()
    assert (stats.sigma == sigma).all()
    np.savez(tmp_path / "counted.npz", mu=mu, sigma=sigma, n=50_000)
    assert open_samples(tmp_path / "counted.npz").n == 50_000
    assert stats.fingerprint() != open_samples(tmp_path / "counted.npz").fingerprint()
    np.savez(tmp_path / "batch.npz", arr_0=IMAGES, mu=mu, sigma=sigma)  # a guided-diffusion reference batch has both
    assert open_samples(tmp_path / "batch.npz").kind == "images"
    np.savez(tmp_path / "wrong.npz", mu=mu, sigma=np.eye(4))
    with pytest.raises(ValueError, match=r"`sigma` of shape \(d, d\); got \(3,\) and \(4, 4\)"):
        open_samples(tmp_path / "wrong.npz")


def test_safetensors(tmp_path):
    save_file({"x": MATRIX}, tmp_path / "x.safetensors")
    samples = open_samples(tmp_path / "x.safetensors")
    assert (samples.kind, len(samples)) == ("features", 5)
    assert (samples[2] == MATRIX[2]).all()
    save_torch(
        {"a": torch.ones(2, 3, dtype=torch.bfloat16), "images": torch.from_numpy(IMAGES)}, tmp_path / "y.safetensors"
    )
    assert open_samples(tmp_path / "y.safetensors").kind == "images"
    half = open_samples(tmp_path / "y.safetensors", key="a")
    assert (half.array.dtype, half[0].tolist()) == (np.float32, [1.0, 1.0, 1.0])
    (tmp_path / "bad.safetensors").write_bytes(b"\xff" * 20)
    with pytest.raises(ValueError, match=r"must be a \.safetensors file"):
        open_samples(tmp_path / "bad.safetensors")


def test_parquet_embeddings(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"name": list("abcde"), "embedding": MATRIX.tolist()})
    parquet.write_table(table, tmp_path / "x.parquet")
    samples = open_samples(tmp_path / "x.parquet")
    assert (samples.kind, len(samples)) == ("features", 5)
    assert samples[3] == pytest.approx(MATRIX[3])
    parquet.write_table(arrow.table({"e": [[1.0], [1.0, 2.0]]}), tmp_path / "ragged.parquet")
    with pytest.raises(ValueError, match="lists of equal length without nulls"):
        open_samples(tmp_path / "ragged.parquet")[0]
    parquet.write_table(arrow.table({"e": [[1.0], None]}), tmp_path / "null.parquet")
    with pytest.raises(ValueError, match="lists of equal length without nulls"):
        open_samples(tmp_path / "null.parquet")[0]


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r"pip install 'precall\[tables\]'"):
        open_samples(tmp_path / "x.parquet")


def test_damaged_files_cost_one_sentence(tmp_path):
    np.save(tmp_path / "x.npy", MATRIX)
    whole = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(whole[:-4])
    (tmp_path / "empty.npy").write_bytes(b"")
    with zipfile.ZipFile(tmp_path / "junk.npz", "w") as archive:
        archive.writestr("arr_0.npy", b"junk")
    (tmp_path / "renamed.npy").write_bytes((tmp_path / "junk.npz").read_bytes())
    for name in ("cut.npy", "empty.npy", "junk.npz", "renamed.npy"):
        with pytest.raises(ValueError, match=f"{name}` must be") as caught:
            open_samples(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_fingerprints_follow_the_content(tmp_path):
    other = MATRIX.copy()
    other[4, 2] += 1
    prints = {open_samples(array).fingerprint() for array in (MATRIX, other, MATRIX.T.copy(), MATRIX.astype("f8"))}
    assert len(prints) == 4
    assert open_samples(MATRIX.copy()).fingerprint() == open_samples(MATRIX).fingerprint()
    assert open_samples(np.asfortranarray(MATRIX)).fingerprint() == open_samples(MATRIX).fingerprint()
    np.savez(tmp_path / "two.npz", left=MATRIX, right=MATRIX)
    left, right = (open_samples(tmp_path / "two.npz", key=key).fingerprint() for key in ("left", "right"))
    assert left != right
