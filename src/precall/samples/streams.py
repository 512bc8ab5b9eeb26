"""Samples from Python: sequences, torch datasets and loaders, iterables, and functions that generate."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np

from precall.samples import hashing
from precall.samples.arrays import Once, Positions, as_pixels
from precall.samples.images import as_rgb
from precall.samples.sampleset import ErrorPolicy, Kind, SampleError, SampleSet
from precall.theory.arrays import is_tensor

BLOCK = 256  # samples a generator is asked for at once: part of what they are, so it never varies
FIELDS = ("image", "text")  # where the sample is in a dict, unless `key` says


@dataclass(frozen=True, eq=False)
class Items(SampleSet):
    """Samples that a function of the position returns."""

    item: Callable[[int], Any] = field(default=lambda index: None, repr=False)
    key: str | None = None

    def read(self, index: int) -> Any:
        """The sample at `index`: `uint8` RGB, a row of features, or a text."""
        try:
            kind, sample = as_sample(self.item(index), self.key)
        except (ValueError, OSError) as error:
            raise SampleError(index, self.ids[index], str(error)) from None
        if kind != self.kind:
            raise SampleError(index, self.ids[index], f"{kind} among {self.kind}")
        return sample

    def fingerprint(self, index: Path | None = None) -> str:
        """SHA-256 of every sample, read for the purpose."""
        return hashing.combined(map(self._hash, range(len(self))))

    def _hash(self, index: int) -> str:
        try:
            sample = self.read(index)
        except SampleError as error:
            return error.reason
        return hashing.combined([sample]) if isinstance(sample, str) else hashing.of_array(np.atleast_1d(sample))


def open_sequence(source: Any, key: str | None, on_error: ErrorPolicy) -> Items:
    """Anything with a length and positions (a list, a torch `Dataset`): read when asked for, again each time."""
    return _items(len(source), source.__getitem__, type(source).__name__, key, on_error)


def open_iterable(source: Iterable[Any], key: str | None, n: int | None, on_error: ErrorPolicy) -> Items:
    """Anything that yields samples, or batches of them (a torch `DataLoader`): read once, and kept in memory."""
    batched = _is_loader(source)
    stream = (sample for batch in source for sample in _unbatched(batch, key)) if batched else iter(source)
    samples = list(islice(stream, n))
    return _items(len(samples), samples.__getitem__, type(source).__name__, None if batched else key, on_error)


def open_generator(source: Callable[..., Any], n: int | None, seed: int, on_error: ErrorPolicy) -> Items:
    """A function `source(n, rng)` that returns n samples: called in blocks of 256, when needed, and kept in memory.

    Each block has its own `rng`, from the seed and the block's place: the samples do not depend on who asks first.
    """
    if n is None or n < 1:
        raise ValueError(f"`n` must say how many samples the generator makes; got {n}.")
    blocks = [Once(partial(_block, source, start, n, seed)) for start in range(0, n, BLOCK)]
    name = getattr(source, "__qualname__", type(source).__name__)
    return _items(n, lambda index: blocks[index // BLOCK]()[index % BLOCK], name, None, on_error)


def as_sample(value: Any, key: str | None = None) -> tuple[Kind, Any]:
    """A value from Python as a sample, with its kind.

    A string is text. A Pillow image, or an array or tensor of two or three dimensions, is an image. One of a single
    dimension is a row of features, and so is a list of numbers. Of a tuple (sample, label, …) the first is taken, and
    of a dict the value under `key`, `"image"` or `"text"`.

    Example:
        >>> as_sample(("a text", 3))
        ('text', 'a text')
    """
    if isinstance(value, Mapping):
        return as_sample(_field(value, key))
    if isinstance(value, tuple) and value and not isinstance(value[0], Number):
        return as_sample(value[0], key)
    if isinstance(value, str):
        return "text", value
    if _is_picture(value):
        return "images", as_rgb(value)
    return _from_array(value)


def _items(n: int, item: Callable[[int], Any], name: str, key: str | None, on_error: ErrorPolicy) -> Items:
    if n == 0:
        raise ValueError(f"`source` must hold at least one sample; got an empty {name}.")
    kind = _first_kind(n, item, key, on_error)
    return Items(kind=kind, ids=Positions(n), name=name, on_error=on_error, item=item, key=key)


def _first_kind(n: int, item: Callable[[int], Any], key: str | None, on_error: ErrorPolicy) -> Kind:
    """The kind of the first sample; where bad ones are skipped, of the first good one."""
    for index in range(n):
        try:
            return as_sample(item(index), key)[0]
        except (KeyError, TypeError, IndexError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise ValueError(f"`source` must give its samples by position; position 0 ends in {reason}.") from None
        except (ValueError, OSError) as error:
            if on_error == "fail":
                raise SampleError(index, str(index), str(error)) from None
    raise ValueError(f"`source` must hold a sample that can be read; none of {n} can.")


def _block(source: Callable[..., Any], start: int, n: int, seed: int) -> Any:
    size = min(BLOCK, n - start)
    rng = np.random.default_rng([seed, start // BLOCK])
    samples = source(size, rng)
    if not hasattr(samples, "__len__") or len(samples) != size:
        got = len(samples) if hasattr(samples, "__len__") else type(samples).__name__
        raise ValueError(f"`source(n, rng)` must return n = {size} samples; got {got}.")
    return samples


def _field(value: Mapping[str, Any], key: str | None) -> Any:
    found = [name for name in ((key,) if key else FIELDS) if name in value]
    if not found:
        got = ", ".join(map(str, value))
        raise ValueError(f"no sample in a dict of {got}: name its field with `key`")
    return value[found[0]]


def _from_array(value: Any) -> tuple[Kind, Any]:
    array = np.asarray(value.detach().cpu() if is_tensor(value) else value)
    if array.dtype.kind not in "fiub" or not 1 <= array.ndim <= 3:
        got = type(value).__name__ if array.dtype.kind not in "fiub" else f"shape {array.shape}"
        raise ValueError(f"a sample must be an image, a row of numbers, or a text; got {got}")
    return ("features", array) if array.ndim == 1 else ("images", as_pixels(array))


def _unbatched(batch: Any, key: str | None) -> Iterator[Any]:
    """The samples of a loader's batch: of its first part, or of the field of a dict."""
    if isinstance(batch, Mapping):
        batch = _field(batch, key)
    elif isinstance(batch, tuple | list) and batch and not isinstance(batch[0], str):
        batch = batch[0]
    yield from batch


def _is_loader(value: Any) -> bool:
    return "torch.utils.data" in sys.modules and isinstance(value, sys.modules["torch.utils.data"].DataLoader)


def _is_picture(value: Any) -> bool:
    return "PIL.Image" in sys.modules and isinstance(value, sys.modules["PIL.Image"].Image)
