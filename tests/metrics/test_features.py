"""The checks that convert inputs into feature matrices."""

import re

import numpy as np
import pytest
import torch

from precall.metrics.inputs import features as module
from precall.metrics.inputs.features import Pair, as_features, same_dimension, tiles


def test_float_matrices_come_back_as_they_are(tmp_path):
    for dtype in (np.float32, np.float64):
        x = np.arange(6, dtype=dtype).reshape(3, 2)
        assert as_features("real", x) is x
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert as_features("real", mapped) is mapped


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [("uint8", "f4"), ("int16", "f4"), ("bool", "f4"), ("f2", "f4"), ("int32", "f8"), ("int64", "f8"), (">f8", "f8")],
)
def test_other_numbers_become_the_float_that_holds_them(dtype, wanted):
    x = as_features("real", np.array([[1, 0], [1, 1]], dtype))
    assert x.dtype == np.dtype(wanted)
    assert x.tolist() == [[1, 0], [1, 1]]


def test_an_integer_too_large_for_float32_keeps_its_value():
    assert as_features("real", [[2**24 + 1], [0]])[0, 0] == 2**24 + 1


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [(torch.uint8, torch.float32), (torch.bfloat16, torch.float32), (torch.int64, torch.float64)],
)
def test_tensors_stay_tensors(dtype, wanted):
    x = as_features("real", torch.ones(3, 2).to(dtype))
    assert isinstance(x, torch.Tensor)
    assert x.dtype == wanted


def test_a_tensor_is_detached():
    assert not as_features("real", torch.ones(3, 2, requires_grad=True)).requires_grad


BAD = {
    "nan": ([[0.0, 1.0], [np.nan, 1.0]], "`real` must be finite; row 1 holds NaN or an infinity"),
    "overflow": ([[0.0], [1.0], [1e300]], "`real` must stay below 1e150 in absolute value, or squared distances"),
    "infinity": (torch.tensor([[0.0], [0.0], [-torch.inf]]), "`real` must be finite; row 2"),
    "vector": ([1.0, 2.0], "`real` must be a matrix (samples, dimensions); got shape (2,)"),
    "images": (np.zeros((2, 3, 4, 4)), "`real` must be a matrix (samples, dimensions); got shape (2, 3, 4, 4)"),
    "one": ([[1.0, 2.0]], "`real` must hold at least 2 samples; got 1"),
    "none": (np.zeros((0, 3)), "`real` must hold at least 2 samples; got 0"),
    "no dimension": (np.zeros((3, 0)), "`real` must have at least one dimension"),
    "text": ("folder/", "`real` must hold real numbers; got dtype <U7"),
    "objects": (np.array([[1, None], [2, 3]]), "`real` must hold real numbers; got dtype object"),
    "complex": (np.zeros((2, 2), complex), "`real` must hold real numbers; got dtype complex128"),
    "complex tensor": (torch.zeros(2, 2, dtype=torch.complex64), "`real` must be a dense tensor of real numbers"),
    "ragged": ([[1.0], [1.0, 2.0]], "`real` must be a matrix of numbers"),
    "masked": (np.ma.masked_invalid([[np.nan, 1.0], [2.0, 3.0]]), "`real` must not be a masked array"),
}


@pytest.mark.parametrize(("values", "sentence"), BAD.values(), ids=BAD.keys())
def test_bad_features_raise_one_clear_sentence(values, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)) as caught:
        as_features("real", values)
    assert "\n" not in str(caught.value)


def test_nan_is_found_in_any_tile(monkeypatch):
    monkeypatch.setattr(module, "TILE_VALUES", 6)
    x = np.zeros((10, 3), np.float32)
    x[7, 2] = np.nan
    with pytest.raises(ValueError, match="row 7"):
        as_features("fake", x)


def test_tiles_are_float64_and_cover_the_rows(monkeypatch):
    monkeypatch.setattr(module, "TILE_VALUES", 6)
    x = np.arange(21, dtype=np.float32).reshape(7, 3)
    parts = list(tiles(x))
    assert [len(part) for part in parts] == [2, 2, 2, 1]
    assert all(part.dtype == np.float64 for part in parts)
    np.testing.assert_array_equal(np.concatenate(parts), x)


def test_dimensions_must_agree():
    with pytest.raises(ValueError, match="`real` and `fake` must have the same dimension; got real 2, fake 3"):
        same_dimension(real=np.zeros((5, 2)), fake=torch.zeros(5, 3))


def test_an_array_joins_a_tensor():
    pair = Pair(np.ones((2, 2)), torch.zeros(3, 2)).together()
    assert isinstance(pair.real, torch.Tensor)
    assert isinstance(pair.fake, torch.Tensor)
    pair = Pair(np.ones((2, 2)), np.zeros((3, 2))).together()
    assert isinstance(pair.real, np.ndarray)
    assert isinstance(pair.fake, np.ndarray)


def test_a_read_only_array_joins_a_tensor_by_copy():
    x = np.ones((2, 2))
    x.flags.writeable = False
    moved = Pair(x, torch.zeros(3, 2)).together().real
    moved += 1
    assert x.tolist() == [[1, 1], [1, 1]]


def test_two_devices_are_refused():
    with pytest.raises(ValueError, match="same device; got cpu and meta"):
        Pair(torch.zeros(2, 2), torch.zeros(2, 2, device="meta")).together()


@pytest.mark.parametrize("dtype", [np.float16, np.int32])
def test_a_memory_mapped_matrix_of_another_dtype_stays_on_disk(tmp_path, dtype):
    """Its copy in a dtype that the metrics take lies in a temporary file."""
    values = np.arange(24).reshape(8, 3).astype(dtype)
    np.save(tmp_path / "x.npy", values)
    found = as_features("x", np.load(tmp_path / "x.npy", mmap_mode="r"))
    assert isinstance(found, np.memmap)
    assert found.dtype == (np.float32 if dtype == np.float16 else np.float64)
    assert np.array_equal(found, values)
