"""`open_samples`: the single entry point that opens any source of samples as a `SampleSet`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from precall.samples import arrays, images, reading, references, streams, tables, texts
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
    ".precall": lambda path, key, on_error: references.open_reference(path, on_error),
}
PICKLES = frozenset({".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".joblib"})


def open_samples(
    source: object, *, key: str | None = None, n: int | None = None, seed: int = 0, on_error: ErrorPolicy = "fail"
) -> SampleSet:
    """Open samples of any kind. Images and arrays are read on demand.

    | source | kind |
    |---|---|
    | folder (recursive) or `.zip` of images | `"images"`; ids are the paths, in natural order |
    | `.npy`, `.npz`, `.safetensors`, array, tensor | `"features"` (n, d), or `"images"` (`uint8`, 3 or 4 dimensions) |
    | `.precall` | `"features"`: a reference of `precall reference make` |
    | `.npz` with only `mu` and `sigma` | `"moments"`: FID statistics, which contain no samples |
    | `.parquet` with a column of lists | `"features"` |
    | `.txt`, `.jsonl` | `"text"`, one per line |
    | `.csv`, `.tsv`, data frame of pandas or Polars, PyArrow table | `"table"` |
    | sequence, torch `Dataset` | the kind of its samples; read on demand |
    | other iterable, torch `DataLoader` | the kind of its samples; read at once and kept in memory |
    | function `source(n, rng)` | the kind of its samples; generated on demand and kept in memory |

    Files are treated as untrusted data. Pickles are refused. Zip members are unpacked in memory only, and members whose
    path points outside the zip are refused. Images are read by a fixed list of decoders, with a limit on the number of
    pixels. Only regular files are read, and implausibly large ones are refused (see `precall.samples.reading`).

    Args:
        source: One of the above, or a sample set, which is returned unchanged.
        key: Name of the array in a `.npz` or `.safetensors` file, of the column in a `.parquet` file, or of the field
            in a `.jsonl` file or in dicts.
        n: Number of samples that a function generates, or that are taken from an iterable (None takes all).
        seed: Seed of the `rng` that is passed to a function.
        on_error: `"fail"` raises an error at the first sample that cannot be read; `"skip"` leaves such samples out
            and lists them in `errors`.

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
    if tables.is_frame(source):
        return tables.open_frame(source, on_error)
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
    reading.check_file(path)
    if suffix in PICKLES:
        way_out = "Save the data as .npy or .safetensors instead."
        raise ValueError(f"`{place}` is a pickle file, and opening it can run arbitrary code. {way_out}")
    if suffix not in OPENERS:
        known = " ".join(OPENERS)
        raise ValueError(f"`source` must be a folder of images or a file ({known}); got `{place}`.")
    return OPENERS[suffix](path, key, on_error)


def _open_python(source: object, key: str | None, n: int | None, seed: int, on_error: ErrorPolicy) -> SampleSet:
    ordered = not isinstance(source, dict | bytes | set | frozenset)
    if ordered and isinstance(source, streams.Indexable):
        return streams.open_sequence(source, key, on_error)
    if ordered and isinstance(source, Iterable):
        return streams.open_iterable(source, key, n, on_error)
    if callable(source):
        return streams.open_generator(source, n, seed, on_error)
    expected = "a path, an array, an iterable of samples, or a function `source(n, rng)`"
    raise ValueError(f"`source` must be {expected}; got {type(source).__name__}.")
