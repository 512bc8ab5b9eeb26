"""`open_samples`: the single entry point that opens any source of samples as a `SampleSet`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

import numpy as np

from precall.plugins import loaded, plugins
from precall.samples import (
    arrays,
    frames,
    hdf5,
    huggingface,
    images,
    parquet,
    paths,
    reading,
    references,
    remote,
    shards,
    streams,
    tables,
    texts,
    webdataset,
)
from precall.samples.sampleset import ErrorPolicy, SampleSet, natural, shown
from precall.theory import checks
from precall.theory.arrays import check_tensor, is_tensor

Opener = Callable[[Path, str | None, ErrorPolicy], SampleSet]
ShardOpener = Callable[[Sequence[Path], str, str | None, ErrorPolicy], SampleSet]

OPENERS: dict[str, Opener] = {
    ".zip": lambda path, key, on_error: images.open_zip(path, on_error),
    ".npz": arrays.open_npz,
    ".safetensors": arrays.open_safetensors,
    ".h5": hdf5.open_hdf5,
    ".hdf5": hdf5.open_hdf5,
    ".txt": lambda path, key, on_error: texts.open_lines(path, on_error),
    ".jsonl": texts.open_jsonl,
    ".csv": lambda path, key, on_error: tables.open_csv(path, on_error),
    ".tsv": lambda path, key, on_error: tables.open_csv(path, on_error),
    ".precall": lambda path, key, on_error: references.open_reference(path, on_error),
}
# formats of which one file or several files in order are a source
SHARDS: dict[str, ShardOpener] = {
    ".npy": lambda paths, name, key, on_error: arrays.open_npy(paths, name, on_error),
    ".tar": webdataset.open_tar,
    ".parquet": parquet.open_parquet,
    ".arrow": huggingface.open_arrow,
}
# formats with named arrays, columns or fields
KEYED = (".npz", ".safetensors", ".parquet", ".arrow", ".h5", ".hdf5", ".jsonl", ".tar")
COMPRESSED = frozenset({".gz", ".tgz", ".bz2", ".xz", ".zst"})
PICKLES = frozenset({".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".joblib"})


def open_samples(
    source: object, *, key: str | None = None, n: int | None = None, seed: int = 0, on_error: ErrorPolicy = "fail"
) -> SampleSet:
    """Open samples of any kind. Images and arrays are read on demand.

    | source | kind |
    |---|---|
    | folder (recursive) or `.zip` of images | `"images"`; ids are paths, in natural order |
    | `.tar` (WebDataset) | `"images"`, or `"text"` from members that end in `.txt` or `.json` |
    | `.npy`, `.npz`, `.safetensors`, array, tensor | `"features"` (n, d), or `"images"` (`uint8`, 3 or 4 dimensions) |
    | `.precall` | `"features"`: a reference of `precall reference make` |
    | `.npz` with only `mu` and `sigma` | `"moments"`: FID statistics, which contain no samples |
    | `.h5`, `.hdf5` | `"features"`, `"images"` or `"text"` |
    | `.parquet`, PyArrow table, data frame of pandas or Polars | `"images"`, `"features"`, `"text"` or `"table"` |
    | folder of Hugging Face `datasets`, `datasets.Dataset` | the same |
    | `.txt`, `.jsonl` | `"text"`, one per line |
    | `.csv`, `.tsv` | `"table"` |
    | `files:` and a folder, file or pattern; list of `Path` | `"files"`: the encoder receives their paths |
    | sequence, torch `Dataset` | the kind of its samples; read on demand |
    | other iterable, torch `DataLoader` | the kind of its samples; read at once and kept in memory |
    | function `source(n, rng)` | the kind of its samples; generated on demand and kept in memory |

    Several `.tar`, `.parquet`, `.arrow` or `.npy` files are one source: as a folder, or as a pattern such as
    `data-{0000..0003}.tar` or `part-*.parquet`. A path may also be a URL of fsspec, such as `s3://bucket/images`, whose
    files are copied to a temporary folder. docs/sources.md describes all sources. Files are treated as untrusted data.

    Args:
        source: One of the above, or a sample set, which is returned unchanged.
        key: Name of the array, column or field with the samples; in JSON it may be a path, such as `resps.0.0`.
        n: Number of samples that a function generates, or that are taken from an iterable (None takes all).
        seed: Seed of the `rng` that is passed to a function.
        on_error: `"fail"` raises an error at the first sample that cannot be read; `"skip"` leaves such samples out
            and lists them in `errors`.

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
    if paths.are_paths(source):
        return paths.open_paths(source, on_error)
    if isinstance(source, str) and remote.is_url(source):
        return _open_url(source, key, on_error)
    if isinstance(source, str | os.PathLike):
        return _open_path(Path(source), key, on_error)
    if is_tensor(source):
        check_tensor("source", source)
    if huggingface.is_dataset(source):
        return huggingface.open_dataset(source, key, on_error)
    if frames.is_frame(source):
        return frames.open_frame(source, key, on_error)
    if isinstance(source, np.ndarray) or is_tensor(source):
        array = source if isinstance(source, np.ndarray) else np.asarray(source.detach().cpu())
        return arrays.open_array(array, "array", on_error)
    return _open_python(source, key, n, seed, on_error)


def takes_key(source: str) -> bool:
    """Whether `open_samples` may need a `key` to choose an array, column or field in this path or URL."""
    if PurePath(remote.without_secrets(source)).suffix.lower() in KEYED:
        return True
    folder = Path(source)
    keyed = (path.suffix.lower() in KEYED for path in (reading.walk(folder) if folder.is_dir() else ()))
    return folder.is_dir() and (huggingface.is_saved(folder) or any(keyed))


def shard_files(source: str) -> list[Path]:
    """The files that a pattern or a folder of shards stands for, in order. A folder of other files is one shard."""
    path = Path(source)
    if path.is_dir() and not huggingface.is_saved(path):
        found = [file for file in reading.walk(path) if not file.name.startswith((".", "_"))]
        parts = [file for file in found if file.suffix.lower() in SHARDS]
        has_images = any(images.is_image(file.name) for file in found)
        return [path] if has_images or not parts else sorted(parts, key=lambda file: natural(str(file)))
    if path.exists():
        return [path]
    if shards.is_pattern(source):
        return shards.files_of(source)
    raise ValueError(f"the samples must be a folder or file that exists; got `{shown(source)}`.")


def _open_url(url: str, key: str | None, on_error: ErrorPolicy) -> SampleSet:
    if (path := remote.local_path(url)) is not None:
        return _open_path(Path(path), key, on_error)
    paths = [path for one in shards.expanded(url) for path in remote.copied(one)]
    opened = _open_path(paths[0], key, on_error) if len(paths) == 1 else _open_files(paths, url, key, on_error)
    name = "::".join((remote.without_secrets(url), *opened.name.split("::")[1:]))
    if isinstance(opened, images.ImageFiles):
        return replace(opened, name=name, own_files=False)  # the copies are temporary
    return replace(opened, name=name)


def _open_path(path: Path, key: str | None, on_error: ErrorPolicy) -> SampleSet:
    files = shard_files(str(path))
    if files != [path] or not path.is_dir():
        return _open_files(files, str(path), key, on_error)
    if huggingface.is_saved(path):
        return huggingface.open_saved(path, key, on_error)
    return images.open_folder(path, on_error)


def _open_files(paths: Sequence[Path], name: str, key: str | None, on_error: ErrorPolicy) -> SampleSet:
    place, suffix = shown(name), shards.suffix_of(paths, name)
    for path in paths:
        reading.check_file(path)
    if suffix in PICKLES:
        way_out = "Save the data as .npy or .safetensors instead."
        raise ValueError(f"`{place}` is a pickle file, and opening it can run arbitrary code. {way_out}")
    if suffix in SHARDS:
        return SHARDS[suffix](paths, name, key, on_error)
    if suffix in images.SUFFIXES:
        return images.open_files({str(path): path for path in paths}, name, on_error)
    if suffix in OPENERS and len(paths) == 1:
        return OPENERS[suffix](paths[0], key, on_error)
    if suffix in OPENERS:
        raise ValueError(f"`{place}` must stand for one {suffix} file; got {len(paths)}. Join them, or open one.")
    if suffix[1:] in plugins("sources") and len(paths) == 1:
        return open_samples(loaded("sources", suffix[1:])(paths[0]), key=key, on_error=on_error)
    way_out = " Decompress it first." if suffix in COMPRESSED else ""
    way_out = " Copy the images of the LMDB database to a folder or a .tar." if suffix in (".mdb", ".lmdb") else way_out
    known = " ".join(dict.fromkeys((".zip", *SHARDS, *OPENERS)))
    raise ValueError(f"the samples must be a folder of images or a file ({known}); got `{place}`.{way_out}")


def separate_shards(source: str) -> list[str]:
    """The files of a pattern of `.npy`, `.tar`, `.parquet` or `.arrow` files. Anything else is one source."""
    if os.path.lexists(source) or not shards.is_pattern(source):
        return [source]
    files = shards.files_of(source)
    return [str(path) for path in files] if all(path.suffix.lower() in SHARDS for path in files) else [source]


def _open_python(source: object, key: str | None, n: int | None, seed: int, on_error: ErrorPolicy) -> SampleSet:
    if hasattr(source, "toarray"):
        raise ValueError(f"`source` must be dense; got a sparse {type(source).__name__}. Pass `source.toarray()`.")
    ordered = not isinstance(source, dict | bytes | set | frozenset)
    if ordered and isinstance(source, streams.Indexable):
        return streams.open_sequence(source, key, on_error)
    if ordered and isinstance(source, Iterable):
        return streams.open_iterable(source, key, n, on_error)
    if callable(source):
        return streams.open_generator(source, n, seed, on_error)
    expected = "a path, an array, an iterable of samples, or a function `source(n, rng)`"
    raise ValueError(f"`source` must be {expected}; got {type(source).__name__}.")
