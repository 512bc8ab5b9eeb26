"""Feature matrices at the public edge: one check, one conversion, tile by tile.

A sample set is a matrix with one row a sample. NumPy arrays (memory-mapped ones too) are worked on by the CPU, torch
tensors by their own device; everything that reads features converts them here once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from precall.theory.arrays import is_tensor, to_numpy

if TYPE_CHECKING:
    import torch

Features: TypeAlias = "npt.NDArray[np.floating[Any]] | torch.Tensor"

TILE_VALUES = 1 << 22  # 32 MiB in float64: large enough for BLAS, small beside the data


def as_features(name: str, values: Any, *, at_least: int = 2) -> Features:
    """`values` as a finite matrix (samples, dimensions) of float32 or float64, checked tile by tile.

    float32 and float64 matrices come back as they are: a memory-mapped array stays memory-mapped, a tensor stays on
    its device (detached). float16, bfloat16, booleans and integers of at most 16 bits (uint8 pixels) become float32,
    which holds them exactly; wider numbers become float64. Anything else is refused, and so are NaN and infinities.

    Args:
        name: The argument's name, for the error.
        values: Array, memory-mapped array, tensor, or nested sequence of numbers, shape (n, d).
        at_least: The fewest samples allowed.

    Returns:
        The matrix: a NumPy array, or a tensor where `values` is one.

    Raises:
        ValueError: In one sentence that names the argument, what was expected, what came, and the way out.

    Example:
        >>> as_features("real", [[1, 2], [3, 4]])
        array([[1., 2.],
               [3., 4.]])
        >>> as_features("real", [[1.0, float("nan")], [3.0, 4.0]])
        Traceback (most recent call last):
            ...
        ValueError: `real` must be finite; row 0 holds NaN or an infinity. Drop or repair such samples first.
    """
    matrix = _float_tensor(name, values) if is_tensor(values) else _float_array(name, values)
    _check_shape(name, tuple(matrix.shape), at_least)
    _check_finite(name, matrix)
    return matrix


def same_dimension(**matrices: Any) -> None:
    """All `matrices` (features or anything with `.shape`) have the same number of columns."""
    if len({matrix.shape[1] for matrix in matrices.values()}) > 1:
        got = ", ".join(f"{name} {matrix.shape[1]}" for name, matrix in matrices.items())
        names = "` and `".join(matrices)
        raise ValueError(f"`{names}` must have the same dimension; got {got}. Encode both with the same encoder.")


def together(*, real: Features, fake: Features) -> tuple[Features, Features]:
    """Both sets in one place: where only one is a tensor, the other goes to its device; two devices are refused."""
    if not (is_tensor(real) or is_tensor(fake)):
        return real, fake
    import torch

    devices = {str(features.device) for features in (real, fake) if isinstance(features, torch.Tensor)}
    if len(devices) > 1:
        raise ValueError(f"`real` and `fake` must be on the same device; got {' and '.join(sorted(devices))}.")
    (device,) = devices

    def moved(features: Features) -> torch.Tensor:
        # torch warns of arrays it might write to; a read-only one (memory-mapped) is therefore copied
        shared = isinstance(features, torch.Tensor) or features.flags.writeable
        return torch.as_tensor(features if shared else np.array(features), device=device)

    return moved(real), moved(fake)


def tiles(features: Features) -> Iterator[Any]:
    """Row tiles of `features` in float64, of about `TILE_VALUES` values each."""
    rows = tile_rows(features.shape[1])
    for start in range(0, features.shape[0], rows):
        yield float64(features[start : start + rows])


def tile_rows(dimension: int) -> int:
    """How many rows of this `dimension` make a tile."""
    return max(1, TILE_VALUES // max(1, dimension))


def float64(matrix: Any) -> Any:
    """`matrix` in float64 where it is (on the CPU, if its device is one of Apple's, which have no float64)."""
    if is_tensor(matrix):
        return (matrix.cpu() if matrix.device.type == "mps" else matrix).double()
    return np.asarray(matrix, dtype=np.float64)


def beside(tile: Any, array: npt.NDArray[Any]) -> Any:
    """`array` as the same kind of thing as `tile`, on the same device."""
    return sys.modules["torch"].as_tensor(array, device=tile.device) if is_tensor(tile) else array


def _float_array(name: str, values: Any) -> npt.NDArray[np.floating[Any]]:
    if np.ma.isMaskedArray(values):
        raise ValueError(f"`{name}` must not be a masked array: fill or drop the masked samples first.")
    try:
        array = values if isinstance(values, np.memmap) else np.asarray(values)
    except (TypeError, ValueError):
        raise ValueError(
            f"`{name}` must be a matrix of numbers; got {type(values).__name__} rows that differ."
        ) from None
    if array.dtype.kind not in "fiub":
        raise ValueError(f"`{name}` must hold real numbers; got dtype {array.dtype}. Encode the samples first.")
    wanted = _exact_float(array.dtype)
    return array if array.dtype == wanted else array.astype(wanted)


def _exact_float(dtype: np.dtype[Any]) -> type[np.floating[Any]]:
    """float32 where it holds every value of `dtype`, else float64."""
    return np.float32 if np.can_cast(dtype, np.float32) else np.float64


def _float_tensor(name: str, values: torch.Tensor) -> torch.Tensor:
    import torch

    if values.is_complex() or values.layout != torch.strided:
        got = f"{values.dtype}, {values.layout}"
        raise ValueError(f"`{name}` must be a dense tensor of real numbers; got {got}. Convert it first.")
    wide = {torch.float64, torch.int32, torch.int64, torch.uint32, torch.uint64}
    return values.detach().to(torch.float64 if values.dtype in wide else torch.float32)


def _check_shape(name: str, shape: tuple[int, ...], at_least: int) -> None:
    if len(shape) != 2:
        way_out = "Use `x[:, None]` for one feature, or encode and flatten each sample to one row."
        raise ValueError(f"`{name}` must be a matrix (samples, dimensions); got shape {shape}. {way_out}")
    if shape[0] < at_least:
        raise ValueError(f"`{name}` must hold at least {at_least} sample{'s' * (at_least > 1)}; got {shape[0]}.")
    if shape[1] == 0:
        raise ValueError(f"`{name}` must have at least one dimension; got shape {shape}.")


def _check_finite(name: str, matrix: Any) -> None:
    isfinite = sys.modules["torch"].isfinite if is_tensor(matrix) else np.isfinite
    rows = tile_rows(matrix.shape[1])
    for start in range(0, matrix.shape[0], rows):
        finite = isfinite(matrix[start : start + rows])
        if not finite.all():
            row = start + int(np.flatnonzero(~to_numpy(finite).all(axis=1))[0])
            raise ValueError(
                f"`{name}` must be finite; row {row} holds NaN or an infinity. Drop or repair such samples first."
            )
