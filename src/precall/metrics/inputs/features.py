"""Feature matrices at the public edge: one check, one conversion, tile by tile.

A feature matrix has one row per sample. NumPy arrays, including memory-mapped ones, are processed on the CPU, and torch
tensors on their own device. Features are checked once, here; code inside the room takes a checked `Pair`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar, overload

import numpy as np
import numpy.typing as npt

from precall.lazy import torch
from precall.theory.arrays import Array, Index, check_tensor, is_tensor, to_numpy

Features: TypeAlias = "npt.NDArray[np.floating[Any]] | torch.Tensor"
"""A checked matrix (samples, dimensions) of float32 or float64."""

F = TypeVar("F", Array, "torch.Tensor")

LARGEST = 1e150  # float64 values are below it, or their squared distances overflow
TILE_VALUES = 1 << 22  # 32 MiB in float64: large enough for BLAS, small beside the data


class Shaped(Protocol):
    """Anything with a shape."""

    @property
    def shape(self) -> tuple[int, ...]: ...


@dataclass(frozen=True, eq=False)
class Pair:
    """Checked features of the data and of a model, with the same dimension."""

    real: Features  # features of the data, shape (n, d)
    fake: Features  # features of the model's samples, shape (m, d)
    units: tuple[Index, Index] | None = None  # the unit, such as the prompt, that each sample was drawn with

    @classmethod
    def checked(cls, *, real: object, fake: object, at_least: int = 2) -> Pair:
        """Check both matrices, as `as_features` does, and that their dimensions agree."""
        pair = cls(as_features("real", real, at_least=at_least), as_features("fake", fake, at_least=at_least))
        same_dimension(real=pair.real, fake=pair.fake)
        return pair

    @property
    def sizes(self) -> tuple[int, int]:
        return len(self.real), len(self.fake)

    @property
    def dimension(self) -> int:
        return int(self.real.shape[1])

    def constant_columns(self) -> list[int]:
        """Columns that have one value in all samples of both sets: they carry no information."""
        if not min(self.sizes):
            return []  # statistics instead of samples
        ends = [(x.amin(0), x.amax(0)) if is_tensor(x) else (x.min(0), x.max(0)) for x in (self.real, self.fake)]
        low, high = (np.array([to_numpy(end) for end in side]) for side in zip(*ends, strict=True))
        return [int(column) for column in np.flatnonzero(low.min(axis=0) == high.max(axis=0))]

    def rows(self, real: Index, fake: Index) -> Pair:
        """The pair of a subsample, given by row indices."""
        units = None if self.units is None else (self.units[0][real], self.units[1][fake])
        return Pair(self.real[real], self.fake[fake], units)

    def together(self) -> Pair:
        """Both sets in one place: if only one is a tensor, the other moves to its device; two devices are refused."""
        if not (is_tensor(self.real) or is_tensor(self.fake)):
            return self
        devices = {str(one.device) for one in (self.real, self.fake) if isinstance(one, torch.Tensor)}
        if len(devices) > 1:
            raise ValueError(f"`real` and `fake` must be on the same device; got {' and '.join(sorted(devices))}.")
        (device,) = devices
        return Pair(as_tensor(self.real, device), as_tensor(self.fake, device), self.units)

    def centred(self) -> tuple[Array, Array]:
        """Both matrices as float64 arrays around the mean of the reals."""
        real, fake = (np.ascontiguousarray(one, dtype=np.float64) for one in self.to_numpy())
        return real - (centre := real.mean(axis=0)), fake - centre

    def to_numpy(self) -> tuple[npt.NDArray[np.floating[Any]], npt.NDArray[np.floating[Any]]]:
        return to_numpy(self.real), to_numpy(self.fake)


def as_features(name: str, values: object, *, at_least: int = 2) -> Features:
    """`values` as a finite matrix (samples, dimensions) of float32 or float64, checked tile by tile.

    float32 and float64 matrices are returned as they are: a memory-mapped array stays memory-mapped, a tensor stays on
    its device (detached). float16, bfloat16, booleans and integers of at most 16 bits (uint8 pixels) become float32,
    which represents them exactly; wider numbers become float64. Anything else is refused, including NaN and infinities.
    """
    matrix = _float_tensor(name, values) if is_tensor(values) else _float_array(name, values)
    if matrix.ndim != 2:
        way_out = "Use `x[:, None]` for one feature, or encode and flatten each sample to one row."
        got = f"got shape {tuple(matrix.shape)}"
        raise ValueError(f"`{name}` must be a matrix (samples, dimensions); {got}. {way_out}")
    check_count(name, matrix.shape[0], at_least)
    if matrix.shape[1] == 0:
        raise ValueError(f"`{name}` must have at least one dimension; got shape {tuple(matrix.shape)}.")
    _check_finite(name, matrix)
    return matrix


def same_dimension(**matrices: Shaped) -> None:
    """Check that all `matrices` have the same number of columns."""
    if len({matrix.shape[1] for matrix in matrices.values()}) > 1:
        got = ", ".join(f"{name} {matrix.shape[1]}" for name, matrix in matrices.items())
        names = "` and `".join(matrices)
        raise ValueError(f"`{names}` must have the same dimension; got {got}. Encode both with the same encoder.")


def moved(features: Features, device: str) -> Features:
    """The features on a device ("cpu", "cuda", …). NumPy arrays stay arrays on the CPU and become tensors elsewhere."""
    return features if not is_tensor(features) and device == "cpu" else as_tensor(features, device)


def as_tensor(features: Features, device: str | torch.device) -> torch.Tensor:
    """The features as a tensor. A read-only (memory-mapped) array is copied: torch warns that it might write to it."""
    shared = isinstance(features, torch.Tensor) or features.flags.writeable
    return torch.as_tensor(features if shared else np.array(features), device=device)


def uniform_rows(sizes: tuple[int, int], most: int, seed: int) -> tuple[Index, Index]:
    """Rows of a uniform sample of at most `most` samples of each side, in increasing order."""
    draws = [np.random.default_rng((seed, side)).permutation(n)[:most] for side, n in enumerate(sizes)]
    real, fake = (np.sort(rows) for rows in draws)
    return real, fake


def device_of(features: Features) -> str:
    """The kind of device on which the features lie: "cpu", "cuda", …"""
    return str(features.device.type) if is_tensor(features) else "cpu"


def tiles(features: Features) -> Iterator[Any]:
    """Row tiles of `features` in float64, of about `TILE_VALUES` values each."""
    rows = tile_rows(features.shape[1])
    for start in range(0, features.shape[0], rows):
        yield float64(features[start : start + rows])


def tile_rows(dimension: int) -> int:
    """Number of rows of this `dimension` in a tile."""
    return max(1, TILE_VALUES // max(1, dimension))


@overload
def float64(matrix: torch.Tensor) -> torch.Tensor: ...
@overload
def float64(matrix: npt.NDArray[np.floating[Any]]) -> Array: ...
def float64(matrix: Features) -> Array | torch.Tensor:
    """`matrix` in float64 on its device (on the CPU for Apple devices, which have no float64)."""
    if is_tensor(matrix):
        return (matrix.cpu() if matrix.device.type == "mps" else matrix).double()
    return np.asarray(matrix, dtype=np.float64)


def as_precise_as(features: Features, matrix: F) -> F:
    """`matrix` in the floating-point type of the features."""
    return matrix.to(features.dtype) if is_tensor(matrix) else matrix.astype(features.dtype, copy=False)  # type: ignore[attr-defined, return-value, arg-type]


def beside(tile: F, array: Array) -> F:
    """`array` as the same kind of array as `tile`, on the same device."""
    return torch.as_tensor(array, device=tile.device) if is_tensor(tile) else array  # type: ignore[return-value]


def _float_array(name: str, values: object) -> npt.NDArray[np.floating[Any]]:
    if np.ma.isMaskedArray(values):
        raise ValueError(f"`{name}` must not be a masked array: fill or drop the masked samples first.")
    try:
        array = values if isinstance(values, np.memmap) else np.asarray(values)
    except (TypeError, ValueError):
        raise ValueError(
            f"`{name}` must be a matrix of numbers; got {type(values).__name__} rows of different lengths."
        ) from None
    if array.dtype.kind not in "fiub":
        raise ValueError(f"`{name}` must hold real numbers; got dtype {array.dtype}. Encode the samples first.")
    wanted = np.dtype(np.float32 if np.can_cast(array.dtype, np.float32) else np.float64)  # exact
    if array.dtype == wanted or not (isinstance(array, np.memmap) and array.ndim == 2):
        return array.astype(wanted, copy=False)
    from precall.files import mapped_copy  # in a temporary file, so that it need not fit into memory

    rows = tile_rows(array.shape[1])
    blocks = (np.asarray(array[start : start + rows], dtype=wanted) for start in range(0, len(array), rows))
    return mapped_copy(blocks, array.shape, wanted)


def _float_tensor(name: str, values: torch.Tensor) -> torch.Tensor:
    check_tensor(name, values)
    wide = {torch.float64, torch.int32, torch.int64, torch.uint32, torch.uint64}
    return values.detach().to(torch.float64 if values.dtype in wide else torch.float32)


def check_count(name: str, n: int, at_least: int) -> None:
    """Check that a set has at least so many samples."""
    if n < at_least:
        raise ValueError(f"`{name}` must hold at least {at_least} sample{'s' * (at_least > 1)}; got {n}.")


def check_k(k: object, **sizes: int) -> None:
    """Check that k is a whole number below every size."""
    side, n = min(sizes.items(), key=lambda item: item[1])
    if not (isinstance(k, int | np.integer) and 1 <= k < n):
        way_out = f"Lower `k` or pass more {side.removeprefix('n_')} samples."
        raise ValueError(f"`k` must be a whole number between 1 and {side} - 1 = {n - 1}; got {k}. {way_out}")


def _check_finite(name: str, matrix: Features) -> None:
    isfinite: Any = torch.isfinite if is_tensor(matrix) else np.isfinite
    # each tile waits for the device, so that few large ones are faster there
    rows = tile_rows(matrix.shape[1]) * (1 if device_of(matrix) == "cpu" else 16)
    for start in range(0, matrix.shape[0], rows):
        part: Any = matrix[start : start + rows]
        if not (finite := isfinite(part)).all():
            row = start + int(np.flatnonzero(~to_numpy(finite).all(axis=1))[0])
            raise ValueError(
                f"`{name}` must be finite; row {row} holds NaN or an infinity. Drop or repair such samples first."
            )
        if str(part.dtype).endswith("float64") and not bool((abs(part) < LARGEST).all()):
            way_out = "or squared distances overflow. Rescale the features."
            raise ValueError(f"`{name}` must stay below 1e150 in absolute value, {way_out}")
