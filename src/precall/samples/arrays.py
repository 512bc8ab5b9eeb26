"""Samples stored in arrays: feature matrices, images and precomputed statistics, in memory or in a file."""

from __future__ import annotations

import math
import os
import threading
import zipfile
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar, overload

import numpy as np
import numpy.typing as npt

from precall.files import mapped_copy
from precall.headers import PARSING
from precall.samples import hashing, reading
from precall.samples.images import Pixels, as_rgb, open_archive
from precall.samples.sampleset import ErrorPolicy, Kind, SampleError, SampleSet, shown

T = TypeVar("T")
Numbers = npt.NDArray[Any]
RowArray = Any  # an array whose rows are read by index, such as a NumPy array or a data set in an HDF5 file
Header = tuple[Sequence[int], np.dtype[Any]]
CHANNELS = (1, 3, 4)
BLOCK = 1 << 24  # bytes that are copied at a time
MOST = 10**12  # samples that statistics are computed from
FAVOURITES = ("arr_0", "features", "embeddings", "embedding", "images", "image", "samples")
# dtypes of the safetensors format, with the NumPy dtype that each is read as
SAFETENSORS = {
    "F64": "f8", "F32": "f4", "F16": "f2", "BF16": "f4", "I64": "i8", "I32": "i4", "I16": "i2", "I8": "i1",
    "U64": "u8", "U32": "u4", "U16": "u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip


class OnDemand(Sequence[T]):
    """A sequence of `n` items that are read on access and not stored."""

    def __init__(self, n: int, item: Callable[[int], T], first: int = 0) -> None:
        self._range, self._item = range(first, first + n), item

    def __len__(self) -> int:
        return len(self._range)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> list[T]: ...

    def __getitem__(self, index: int | slice) -> T | list[T]:
        picked = self._range[index]
        return list(map(self._item, picked)) if isinstance(picked, range) else self._item(picked)


class Positions(OnDemand[str]):
    """Ids of samples without names: `"0"`, `"1"`, …"""

    def __init__(self, n: int, first: int = 0, prefix: str = "") -> None:
        super().__init__(n, f"{prefix}{{}}".format, first)


class Once(Generic[T]):
    """The value of `make()`, computed once, on the first call from any thread."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make, self._lock = make, threading.Lock()
        self._made: list[T] = []

    def __call__(self) -> T:
        with self._lock:
            if not self._made:
                self._made.append(self._make())
        return self._made[0]


class JoinedArrays:
    """Several arrays, by name, one after the other, as one array. They differ in their number of rows only."""

    def __init__(self, parts: Mapping[str, RowArray]) -> None:
        first, *others = parts
        for name in others:
            if (one := _layout(parts[name])) != (expected := _layout(parts[first])):
                both = f"`{shown(first)}` and `{shown(name)}` must contain rows of the same shape and dtype"
                raise ValueError(f"{both}; got {expected} and {one}. Open them separately.")
        self._parts = list(parts.values())
        self._starts = [0, *accumulate(map(len, self._parts))]
        self.shape = (self._starts[-1], *self._parts[0].shape[1:])
        self.dtype = self._parts[0].dtype

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: int | slice, /) -> Numbers:
        if isinstance(index, slice):
            return np.concatenate(list(self._pieces(*index.indices(len(self))[:2])))[:: index.step]
        part = bisect_right(self._starts, index) - 1
        return np.asarray(self._parts[part][index - self._starts[part]])

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Numbers:
        return np.asarray(self[:], dtype=dtype)

    def copied(self) -> Numbers:
        """The array in one temporary file, memory-mapped, so that it need not fit into memory."""
        rows = max(1, BLOCK // max(1, math.prod(self.shape[1:]) * self.dtype.itemsize))
        starts = ((part, start) for part in self._parts for start in range(0, len(part), rows))
        blocks = (np.asarray(part[start : start + rows]) for part, start in starts)
        return mapped_copy(blocks, self.shape, self.dtype)

    def _pieces(self, start: int, stop: int) -> Iterator[Numbers]:
        """Rows start … stop − 1, part by part; no rows at all if there are none."""
        yield np.asarray(self._parts[0][:0])
        for first, part in zip(self._starts, self._parts, strict=False):
            if start < first + len(part) and first < stop:
                yield np.asarray(part[max(0, start - first) : stop - first])


def _layout(array: RowArray) -> str:
    return f"(n, {', '.join(map(str, array.shape[1:]))}) of {array.dtype}"


@dataclass(frozen=True, eq=False)
class Rows(SampleSet):
    """A feature matrix (kind `"features"`) or an array of images. Files stay on disk until their rows are read."""

    load: Callable[[], RowArray] = field(default=lambda: np.empty((0, 0)), repr=False)
    paths: tuple[Path, ...] = ()
    key: str | None = None

    @property
    def array(self) -> Numbers:
        return np.asanyarray(self.load())

    def read(self, index: int) -> Numbers:
        """Return a feature vector, or an image as `uint8` of shape (height, width, 3)."""
        array = self.load()
        try:
            row = np.asarray(array[index])
            return row if self.kind == "features" else as_pixels(row)
        except (ValueError, OSError) as error:
            raise SampleError(index, self.ids[index], str(error)) from None

    def fingerprint(self, index: Path | None = None) -> str:
        """SHA-256 of the files' bytes and the array's name in them, or of the array's bytes if it is in memory."""
        if not self.paths:
            return hashing.of_array(self.array)
        return hashing.combined([*hashing.of_files(self.paths, index), str(self.key)])


@dataclass(frozen=True, eq=False)
class Statistics(SampleSet):
    """Stored mean (d,) and covariance (d, d), as FID tools write them, and the number of samples if it is stored."""

    mu: Numbers = field(default_factory=lambda: np.empty(0), repr=False)
    sigma: Numbers = field(default_factory=lambda: np.empty((0, 0)), repr=False)
    n: int | None = None

    def read(self, index: int) -> NoReturn:
        raise IndexError("statistics (mu, sigma) contain no samples.")

    def fingerprint(self, index: Path | None = None) -> str:
        """SHA-256 of mean, covariance and count."""
        return hashing.combined([hashing.of_array(self.mu), hashing.of_array(self.sigma), str(self.n)])


def as_pixels(image: npt.ArrayLike) -> Pixels:
    """Convert an image (h, w), (h, w, c) or (c, h, w), as `uint8` or floats in [0, 1], to `uint8` RGB (h, w, 3)."""
    pixels = _bytes(np.asarray(image))
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    if pixels.ndim == 3 and pixels.shape[2] not in CHANNELS and pixels.shape[0] in CHANNELS:
        pixels = pixels.transpose(1, 2, 0)
    if pixels.ndim != 3 or pixels.shape[2] not in CHANNELS or not pixels.size:
        expected = "(h, w), (h, w, c) or (c, h, w) with c = 1, 3 or 4"
        raise ValueError(f"an image must have shape {expected}; got {pixels.shape}")
    if pixels.shape[2] == 4:
        from PIL import Image

        return as_rgb(Image.fromarray(np.ascontiguousarray(pixels)))
    return np.ascontiguousarray(np.broadcast_to(pixels, (*pixels.shape[:2], 3)))


def _bytes(image: Numbers) -> Numbers:
    """Return pixels as `uint8`; floating-point values in [0, 1] are multiplied by 255 and rounded."""
    if image.dtype == np.uint8:
        return image
    if image.dtype.kind != "f":
        raise ValueError(f"pixels must be uint8, or floating point within [0, 1]; got {image.dtype}")
    low, high = (image.min(), image.max()) if image.size else (0, 0)
    if not (low >= 0 and high <= 1):
        got = f"{low:g} to {high:g}. Rescale them to [0, 1]"
        raise ValueError(f"floating-point pixels must lie within [0, 1]; got {got}")
    return np.asarray(np.rint(image * 255), dtype=np.uint8)


def open_array(array: Numbers, name: str, on_error: ErrorPolicy) -> Rows:
    """Open an array in memory (or a memory-mapped one) as features or images, depending on its shape and dtype.

    An array of shape (n, d) contains features. A `uint8` array of shape (n, h, w) contains greyscale images. An array
    with four dimensions contains images as `uint8` or as floating-point values in [0, 1], with the channels first or
    last (last, if both are possible).
    """
    kind = array_kind(array.shape, array.dtype, name)
    return Rows(kind, Positions(len(array)), name, on_error, load=lambda: array)


def array_kind(shape: Sequence[int], dtype: np.dtype[Any], name: str) -> Kind:
    """Whether an array of this shape and dtype contains `"features"` or `"images"`."""
    if dtype.kind not in "fiub":
        raise ValueError(f"`{shown(name)}` must contain numbers; got dtype {dtype}. Pickled objects are never opened.")
    if 0 in shape[1:]:  # any number of such rows takes no space
        raise ValueError(f"`{shown(name)}` must contain samples of at least one value; got shape {tuple(shape)}.")
    if len(shape) == 2:
        return "features"
    if (len(shape) == 3 and dtype == np.uint8) or (len(shape) == 4 and {shape[1], shape[3]} & set(CHANNELS)):
        return "images"
    expected = "(n, d) for features, or (n, h, w), (n, h, w, c), (n, c, h, w) for uint8 images"
    raise ValueError(f"`{shown(name)}` must have shape {expected}; got {tuple(shape)} of {dtype}.")


def open_npy(paths: Sequence[Path], name: str, on_error: ErrorPolicy) -> Rows:
    """Open `.npy` files, memory-mapped, as one array. Pickled objects are refused."""
    parts: dict[str, RowArray] = {}
    for path in paths:
        reading.check_file(path)
        with reading.parsing(path, "a .npy array of numbers"), PARSING:
            part = parts[str(path)] = np.lib.format.open_memmap(path, mode="r")
        array_kind(part.shape, part.dtype, str(path))
    return open_joined(parts, name, None, tuple(paths), on_error)


def open_joined(
    parts: Mapping[str, RowArray], name: str, key: str | None, paths: Sequence[Path], on_error: ErrorPolicy
) -> Rows:
    """Open arrays in files as one. Images are read one by one; features are copied to one temporary file if needed."""
    joined = JoinedArrays(parts)
    kind = array_kind(joined.shape, joined.dtype, name)
    only, one = next(iter(parts.values())), len(parts) == 1
    in_place = kind == "images" or (one and isinstance(only, np.ndarray))
    load: Callable[[], RowArray] = (lambda: only if one else joined) if in_place else Once(joined.copied)
    return Rows(kind, Positions(len(joined)), name, on_error, load=load, paths=absolute(paths), key=key)


def absolute(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(Path(os.path.abspath(path)) for path in paths)


def open_npz(path: Path, key: str | None, on_error: ErrorPolicy) -> SampleSet:
    """Open a `.npz` file: the array `key`, `arr_0` or the only array, or else the statistics `mu` and `sigma`."""
    with open_archive(path) as archive, reading.parsing(path, "a .npz file of arrays"):
        members = _members(archive)
        headers = {name: _header(archive, member) for name, member in members.items()}
    if key is None and {"mu", "sigma"} <= set(headers) and not set(headers) & set(FAVOURITES):
        return _statistics(path, headers)
    name = pick(headers, key, str(path))
    kind = array_kind(*headers[name], f"{path}::{name}")
    ids, load = Positions(headers[name][0][0]), Once(lambda: _npz_arrays(path, name)[0])
    return Rows(kind, ids, f"{path}::{name}", on_error, load=load, paths=absolute([path]), key=name)


def open_safetensors(path: Path, key: str | None, on_error: ErrorPolicy) -> Rows:
    import safetensors

    with reading.parsing(path, "a .safetensors file"), safetensors.safe_open(path, framework="numpy") as file:
        tensors = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118, it is no mapping
        headers = {name: (one.get_shape(), one.get_dtype()) for name, one in tensors.items()}
    name = pick(headers, key, str(path))
    shape, stored = headers[name]
    if stored not in SAFETENSORS:
        raise ValueError(f"`{shown(f'{path}::{name}')}` must contain plain numbers; got {stored}.")
    kind = array_kind(shape, np.dtype(SAFETENSORS[stored]), f"{path}::{name}")

    def load() -> Numbers:
        """NumPy has no bfloat16, so torch converts such tensors to float32, without loss."""
        with safetensors.safe_open(path, framework="pt" if stored == "BF16" else "numpy") as file:
            tensor = file.get_tensor(name)
            return np.asarray(tensor.float().numpy() if stored == "BF16" else tensor)

    return Rows(
        kind, Positions(shape[0]), f"{path}::{name}", on_error, load=Once(load), paths=absolute([path]), key=name
    )


def pick(names: Iterable[str], key: str | None, place: str, what: str = "arrays") -> str:
    """Choose an array: the one named `key`, the only one, or the first with a customary name (`FAVOURITES`)."""
    names = list(names)
    if key in names:
        return str(key)
    customary = [name for name in FAVOURITES if name in names] or names
    if key is None and customary and (len(names) == 1 or customary != names):
        return customary[0]
    listed = shown(", ".join(names[:20])) or "none"
    got = "no name" if key is None else repr(key)
    raise ValueError(f"`key` must be one of the {what} in `{shown(place)}` ({listed}); got {got}.")


def _header(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Header:
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        declared, held = file.tell() + math.prod(shape) * dtype.itemsize, member.file_size
    if min(shape, default=0) < 0 or (declared != held and not dtype.hasobject):
        raise ValueError(f"its header declares {declared:,} bytes, but it has {held:,}")
    return shape, dtype


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The arrays in a `.npz` file. Two of the same name are refused: another program might read the other one."""
    listed = [member for member in archive.infolist() if member.filename.endswith(".npy")]
    found = {member.filename.removesuffix(".npy"): member for member in listed}
    if len(found) < len(listed):
        raise ValueError("two of its arrays have the same name.")
    return found


def _npz_arrays(path: Path, *names: str) -> list[Numbers]:
    found = []
    with open_archive(path) as archive, reading.parsing(path, "a .npz file of arrays"):
        members = _members(archive)
        for name in names:
            _header(archive, members[name])
            with archive.open(members[name]) as file, PARSING:
                found.append(np.asarray(np.lib.format.read_array(file, allow_pickle=False)))
    return found


def _statistics(path: Path, headers: Mapping[str, Header]) -> Statistics:
    counts = [name for name in ("n", "num_samples") if name in headers]
    mu, sigma, *count = _npz_arrays(path, "mu", "sigma", *counts)
    if mu.ndim != 1 or sigma.shape != (len(mu), len(mu)) or not {mu.dtype.kind, sigma.dtype.kind} <= set("fiu"):
        expected = "`mu` of shape (d,) and `sigma` of shape (d, d)"
        raise ValueError(f"`{shown(str(path))}` must contain {expected}; got {mu.shape} and {sigma.shape}.")
    n = _count(count[0], path) if count else None
    return Statistics("moments", (), str(path), mu=mu, sigma=sigma, n=n)


def stored_statistics(path: Path, mu: str, sigma: str) -> tuple[Numbers, Numbers] | None:
    """Mean and covariance that a `.npz` file holds under these names beside its samples, or None."""
    with open_archive(path) as archive, reading.parsing(path, "a .npz file of arrays"):
        held = _members(archive).keys()
    return tuple(_npz_arrays(path, mu, sigma)) if {mu, sigma} <= held else None  # type: ignore[return-value]


def _count(stored: Numbers, path: Path) -> int:
    """The number of samples: one positive integer, in an array of any shape."""
    if stored.size == 1 and stored.dtype.kind in "iuf" and 1 <= (n := float(stored.flat[0])) <= MOST and n % 1 == 0:
        return int(n)
    got = stored.flat[0] if stored.size == 1 else f"shape {stored.shape}"
    raise ValueError(f"`{shown(str(path))}` must contain a number of samples `n` from 1 to {MOST:,}; got {got}.")
