"""Samples from Python objects: sequences, torch datasets and loaders, iterables, and generating functions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from numbers import Number
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from precall.samples import hashing
from precall.samples.arrays import Once, Positions, as_pixels
from precall.samples.images import as_rgb, decode_image
from precall.samples.sampleset import ErrorPolicy, Kind, SampleError, SampleSet
from precall.samples.texts import repaired
from precall.theory.arrays import is_tensor

BLOCK = 256  # samples per call of a generating function; constant, because the samples depend on it
FIELDS = ("image", "text")  # fields of a dict in which the sample is looked up if there is no `key`


@runtime_checkable
class Indexable(Protocol):
    """An object with a length that returns its samples by index, such as a list or a torch `Dataset`."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> object: ...


@dataclass(frozen=True, eq=False)
class Items(SampleSet):
    """Samples returned by a function of their index."""

    item: Callable[[int], object] = field(default=lambda index: None, repr=False)
    key: str | None = None

    def read(self, index: int) -> npt.NDArray[Any] | str:
        try:
            kind, sample = as_sample(self.item(index), self.key)
        except (ValueError, OSError) as error:
            raise SampleError(index, self.ids[index], str(error)) from None
        if kind != self.kind:
            raise SampleError(index, self.ids[index], f"{kind} among {self.kind}")
        return repaired(self, index, sample) if isinstance(sample, str) else sample

    def fingerprint(self, index: Path | None = None) -> str:
        """SHA-256 of all samples, which are read for this purpose."""

        def hashed(index: int) -> str:
            try:
                sample = self.read(index)
            except SampleError as error:
                return error.reason
            return hashing.combined([sample]) if isinstance(sample, str) else hashing.of_array(np.atleast_1d(sample))

        return hashing.combined(map(hashed, range(len(self))))


def open_sequence(source: Indexable, key: str | None, on_error: ErrorPolicy) -> Items:
    """Open an object with a length and indices. A sample is read every time it is requested."""
    return _items(len(source), source.__getitem__, type(source).__name__, key, on_error)


def open_iterable(source: Iterable[object], key: str | None, n: int | None, on_error: ErrorPolicy) -> Items:
    """Open an iterable of samples, or of batches (a torch `DataLoader`). It is read once and kept in memory."""
    batched = isinstance(source, _known("torch.utils.data", "DataLoader"))
    stream = (sample for batch in source for sample in _unbatched(batch, key)) if batched else iter(source)
    samples = list(islice(stream, n))
    return _items(len(samples), samples.__getitem__, type(source).__name__, None if batched else key, on_error)


def open_generator(source: Callable[..., object], n: int | None, seed: int, on_error: ErrorPolicy) -> Items:
    """Open a function `source(n, rng)` that returns n samples. It is called on demand, for blocks of 256 samples.

    Each block has its own `rng`, which depends only on the seed and the index of the block. The samples therefore do
    not depend on the order in which they are requested. They are kept in memory.
    """
    if n is None or n < 1:
        raise ValueError(f"`n` must be the number of samples to generate, at least 1; got {n}.")
    blocks = [Once(partial(_block, source, start, n, seed)) for start in range(0, n, BLOCK)]
    name = getattr(source, "__qualname__", type(source).__name__)
    return _items(n, lambda index: blocks[index // BLOCK]()[index % BLOCK], name, None, on_error)


def _block(source: Callable[..., object], start: int, n: int, seed: int) -> Indexable:
    size, rng = min(BLOCK, n - start), np.random.default_rng([seed, start // BLOCK])
    samples = source(size, rng)
    if not isinstance(samples, Indexable) or len(samples) != size:
        got = len(samples) if isinstance(samples, Indexable) else type(samples).__name__
        raise ValueError(f"`source(n, rng)` must return n = {size} samples; got {got}.")
    return samples


def as_sample(value: object, key: str | None = None) -> tuple[Kind, npt.NDArray[Any] | str]:
    """Convert a Python value to a sample, and determine its kind.

    A string is a text. A Pillow image, the bytes of an image file, and an array or tensor with two or three dimensions
    are images. A one-dimensional array or a list of numbers is a feature vector. From a tuple (sample, label, …) the
    first element is taken, and from a dict the value under `key`, `"image"` or `"text"`.
    """
    if isinstance(value, Mapping):
        return as_sample(_field(value, key))
    if isinstance(value, tuple) and value and not isinstance(value[0], Number):
        return as_sample(value[0], key)
    if isinstance(value, str):
        return "text", value
    if isinstance(value, _known("PIL.Image", "Image")):
        from PIL import ImageOps

        return "images", as_rgb(ImageOps.exif_transpose(value))
    if isinstance(value, bytes):
        return "images", decode_image(value)
    array = np.asarray(value.detach().cpu() if is_tensor(value) else value)
    if array.dtype.kind not in "fiub" or not 1 <= array.ndim <= 3:
        got = type(value).__name__ if array.dtype.kind not in "fiub" else f"shape {array.shape}"
        raise ValueError(f"a sample must be an image, a row of numbers, or a text; got {got}")
    return ("features", array) if array.ndim == 1 else ("images", as_pixels(array))


def _items(n: int, item: Callable[[int], object], name: str, key: str | None, on_error: ErrorPolicy) -> Items:
    """Samples of the kind of the first one, or of the first readable one if unreadable samples are skipped."""
    if n == 0:
        raise ValueError(f"`source` must contain at least one sample; got an empty {name}.")
    for index in range(n):
        try:
            return Items(as_sample(item(index), key)[0], Positions(n), name, on_error, item=item, key=key)
        except (KeyError, TypeError, IndexError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise ValueError(f"`source` must return its samples by index; index 0 raises {reason}.") from None
        except (ValueError, OSError) as error:
            if on_error == "fail":
                raise SampleError(index, str(index), str(error)) from None
    raise ValueError(f"`source` must contain a readable sample; none of {n} can be read.")


def _field(value: Mapping[str, object], key: str | None) -> object:
    found = [name for name in ((key,) if key else FIELDS) if name in value]
    if not found:
        got = ", ".join(map(str, value))
        raise ValueError(f"no sample found in a dict with fields {got}: name the field with `key`")
    return value[found[0]]


def _unbatched(batch: object, key: str | None) -> Iterator[object]:
    """Iterate over the samples of a loader's batch: over its first element, or over one field of a dict."""
    if isinstance(batch, Mapping):
        batch = _field(batch, key)
    elif isinstance(batch, tuple | list) and batch and not isinstance(batch[0], str):
        batch = batch[0]
    if not isinstance(batch, Iterable):
        raise ValueError(f"a batch must contain samples; got {type(batch).__name__}.")
    yield from batch


def _known(module: str, name: str) -> Any:
    """A class of a module if it is loaded; a module that another thread is importing may not have its classes yet."""
    return getattr(sys.modules.get(module), name, ())
