"""The one door: anything that holds samples → a `SampleSet`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from precall.samples import arrays, images, streams, tables, texts
from precall.samples.sampleset import ErrorPolicy, SampleSet, shown
from precall.theory import checks
from precall.theory.arrays import is_tensor

Opener = Callable[[Path, str | None, ErrorPolicy], SampleSet]

OPENERS: dict[str, Opener] = {
    ".zip": lambda path, key, on_error: images.open_zip(path, on_error),
    ".npy": lambda path, key, on_error: arrays.open_npy(path, on_error),
    ".npz": arrays.open_npz,
    ".safetensors": arrays.open_safetensors,
    ".parquet": arrays.open_parquet,
    ".txt": lambda path, key, on_error: texts.open_lines(path, on_error),
    ".jsonl": texts.open_jsonl,
    ".csv": lambda path, key, on_error: tables.open_csv(path, on_error),
    ".tsv": lambda path, key, on_error: tables.open_csv(path, on_error),
}
PICKLES = frozenset({".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".joblib"})


def open_samples(
    source: Any, *, key: str | None = None, n: int | None = None, seed: int = 0, on_error: ErrorPolicy = "fail"
) -> SampleSet:
    """Open samples of any kind; images and arrays are read when samples are asked for, not before.

    | source | kind |
    |---|---|
    | folder (recursive) or `.zip` of images | `"images"`, ids are the paths, in natural order |
    | `.npy`, `.npz`, `.safetensors`, array, tensor | `"features"` (n, d), or `"images"` (`uint8`, 3 or 4 dimensions) |
    | `.npz` with only `mu` and `sigma` | `"moments"`: FID statistics, which hold no samples |
    | `.parquet` with a column of lists | `"features"` |
    | `.txt`, `.jsonl` | `"text"`, one a line |
    | `.csv`, `.tsv` | `"table"` |
    | sequence, torch `Dataset` | as its samples are; read when asked for |
    | other iterable, torch `DataLoader` | as its samples are; read at once, kept in memory |
    | function `source(n, rng)` | as its samples are; generated when asked for, kept in memory |

    Files are data: pickles are refused, zip members are unpacked in memory only and may not leave the zip by their
    path, images are decoded by their own decoders only, and their pixels are limited before decoding.

    Args:
        source: One of the above, or a sample set (returned as it is).
        key: Name of the array in a `.npz` or `.safetensors`, of the column in a `.parquet`, of the field in a `.jsonl`
            or in dicts.
        n: How many samples a function generates; of an iterable, how many to take (None: all).
        seed: Seed of the `rng` a function is given.
        on_error: `"fail"` at the first sample that cannot be read, or `"skip"` it and list it in `errors`.

    Returns:
        The sample set.

    Example:
        >>> samples = open_samples(["a short text", "another"])
        >>> samples.kind, len(samples), samples.ids[1], samples[1]
        ('text', 2, '1', 'another')
        >>> open_samples(lambda n, rng: rng.normal(size=(n, 2)), n=1000).kind
        'features'
    """
    checks.choice("on_error", on_error, ("fail", "skip"))
    if isinstance(source, SampleSet):
        return source
    if isinstance(source, str | os.PathLike):
        return _open_path(Path(source), key, on_error)
    if isinstance(source, np.ndarray) or is_tensor(source):
        array = source if isinstance(source, np.ndarray) else np.asarray(source.detach().cpu())
        return arrays.open_array(array, "array", on_error)
    return _open_python(source, key, n, seed, on_error)


def _open_path(path: Path, key: str | None, on_error: ErrorPolicy) -> SampleSet:
    place, suffix = shown(str(path)), path.suffix.lower()
    if path.is_dir():
        return images.open_folder(path, on_error)
    if not path.exists():
        raise ValueError(f"`source` must be a folder or file that exists; got `{place}`.")
    if suffix in PICKLES:
        raise ValueError(f"`{place}` is a pickle, and opening one runs code: save it as .npy or .safetensors instead.")
    if suffix not in OPENERS:
        known = " ".join(OPENERS)
        raise ValueError(f"`source` must be a folder of images or a file ({known}); got `{place}`.")
    return OPENERS[suffix](path, key, on_error)


def _open_python(source: Any, key: str | None, n: int | None, seed: int, on_error: ErrorPolicy) -> SampleSet:
    unordered = isinstance(source, dict | bytes | set | frozenset)
    if hasattr(source, "__len__") and hasattr(source, "__getitem__") and not unordered:
        return streams.open_sequence(source, key, on_error)
    if isinstance(source, Iterable) and not unordered:
        return streams.open_iterable(source, key, n, on_error)
    if callable(source):
        return streams.open_generator(source, n, seed, on_error)
    expected = "a path, an array, an iterable of samples, or a function `source(n, rng)`"
    raise ValueError(f"`source` must be {expected}; got {type(source).__name__}.")
