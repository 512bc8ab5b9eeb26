"""HDF5 files: a data set of features, images or texts. Rows are read on demand; links to other files are refused."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, overload

from precall.samples import reading
from precall.samples.arrays import Numbers, Positions, open_joined, pick
from precall.samples.sampleset import ErrorPolicy, SampleSet, shown
from precall.samples.texts import TextLines

EXPECTED = "an HDF5 file"
MOST = 10_000  # objects in a file
TEXTS, NUMBERS = "O", "fiub"  # kinds of dtypes


class _DataSet:
    """The rows of a data set, each read with the errors of the file as a sentence."""

    def __init__(self, path: Path, data: Any) -> None:
        self._path, self._data = path, data
        self.shape, self.dtype = tuple(data.shape), data.dtype

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, index: int | slice, /) -> Numbers:
        with reading.parsing(self._path, EXPECTED):
            rows: Numbers = self._data[index]
            return rows


class _Strings(Sequence[bytes]):
    """The texts of a data set."""

    def __init__(self, rows: _DataSet) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...

    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(len(self)))]
        return bytes(self._rows[index])  # type: ignore[arg-type]


def open_hdf5(path: Path, key: str | None, on_error: ErrorPolicy) -> SampleSet:
    """Open an HDF5 file: the data set `key` (a path inside the file), or the only one that can contain samples."""
    try:
        h5py = import_module("h5py")
    except ImportError:
        raise ValueError("reading HDF5 needs h5py: pip install 'precall[hdf5]'.") from None
    reading.check_file(path)
    with reading.parsing(path, EXPECTED):
        file = h5py.File(path, "r")
        sets = _data_sets(file, h5py)
    usable = [name for name, data in sets.items() if _is_usable(data)]
    name = pick(sets if key is not None else usable, None if key is None else key.strip("/"), str(path), "data sets")
    with reading.parsing(path, EXPECTED):
        _check(sets[name], path)
        rows = _DataSet(path, sets[name])
    place = f"{path}::{name}"
    if rows.dtype.kind == TEXTS:
        return TextLines(
            kind="text",
            ids=Positions(len(rows)),
            name=place,
            on_error=on_error,
            lines=_Strings(rows),
            paths=(Path(os.path.abspath(path)),),
            key=name,
        )
    return open_joined({place: rows}, place, name, [path], on_error)


def _data_sets(file: Any, h5py: Any) -> dict[str, Any]:
    """The data sets in a file by name. Only hard links are visited: others may lead to another file."""
    found: dict[str, Any] = {}
    seen = 0

    def visit(name: str, thing: object) -> None:
        nonlocal seen
        seen += 1
        if seen > MOST:
            raise reading.InputError(f"`{shown(str(file.filename))}` has more than {MOST:,} objects; refused.")
        if isinstance(thing, h5py.Dataset):
            found[name] = thing

    file.visititems(visit)
    return found


def _is_usable(data: Any) -> bool:
    """Whether a data set can contain samples: texts, features, or images."""
    if data.shape is None:
        return False
    return (data.dtype.kind in NUMBERS and 2 <= data.ndim <= 4) or (data.ndim == 1 and _is_text(data))


def _is_text(data: Any) -> bool:
    return import_module("h5py").check_string_dtype(data.dtype) is not None and data.dtype.kind == TEXTS


def _check(data: Any, path: Path) -> None:
    """Refuse a data set that is stored in other files, contains objects, is empty, or expands implausibly."""
    if data.external or data.is_virtual:
        raise ValueError("the data set is stored in other files, which are not opened. Save it in one file.")
    if data.shape is None or (data.dtype.kind not in NUMBERS and not (data.ndim == 1 and _is_text(data))):
        raise ValueError(f"the data set must contain numbers or texts; got {data.dtype}.")
    if not data.size:
        raise ValueError(f"the data set must contain at least one sample; got shape {data.shape}.")
    if not _is_text(data):
        packed = max(1, min(data.id.get_storage_size(), path.stat().st_size))
        reading.check_expansion("the data set", packed=packed, unpacked=data.nbytes)
    if data.chunks is not None and math.prod(data.chunks) * data.dtype.itemsize > reading.limit():
        raise reading.InputError(
            f"`{shown(str(path))}` has chunks of more than {reading.limit():,} bytes. Set {reading.VARIABLE} to raise "
            "this limit."
        )
