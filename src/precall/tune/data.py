"""Training data: synthetic, found on this machine, downloaded with a checksum, or any samples by their path."""

from __future__ import annotations

import gzip
import hashlib
import math
import os
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from precall.encoders.cache import cache_dir
from precall.encoders.weights import TIMEOUT
from precall.files import write_atomically
from precall.samples import SampleSet, open_samples, reading
from precall.samples.arrays import Rows
from precall.samples.sampleset import shown
from precall.theory import checks
from precall.theory.planar_modes import eight_modes, grid_modes
from precall.theory.tilts import proportions

Numbers = npt.NDArray[Any]
ClassLabels = npt.NDArray[np.int64]
Pixels = npt.NDArray[np.uint8]

SYSTEM = Path("/usr/share/datasets")  # folder of Debian's dataset-* packages
HELD_OUT = 10  # one sample in this many is held out if the data has no split
POINTS, HELD_OUT_POINTS = 50_000, 10_000
LARGEST = 1 << 30  # maximum size of an uncompressed file, in bytes


@dataclass(frozen=True, eq=False, repr=False)
class TrainingData:
    """Training samples and held-out samples: images as uint8, shape (n, channels, height, width), or points (n, d).

    Labels are one class per sample, from 0, or None; `name` is the requested name or path.
    """

    samples: Numbers
    labels: ClassLabels | None
    held_out: Numbers
    held_out_labels: ClassLabels | None
    classes: int = 0
    name: str = ""

    def __repr__(self) -> str:
        sizes = f"{len(self.samples)} samples of shape {self.shape}, {len(self.held_out)} held out"
        return f"TrainingData({self.name!r}: {sizes}, {self.classes} classes)"

    def __post_init__(self) -> None:
        if self.samples.shape[1:] != self.held_out.shape[1:]:
            raise ValueError(
                f"`samples` and `held_out` must hold samples of one shape; got {self.shape} and "
                f"{self.held_out.shape[1:]}."
            )
        for one, labels in ((self.samples, self.labels), (self.held_out, self.held_out_labels)):
            if labels is not None:
                checks.same_length(samples=one, labels=labels)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample: (channels, height, width), or (d,)."""
        return tuple(self.samples.shape[1:])


def load_data(
    name: str | Path, data_dir: str | Path | None = None, *, labels: str | Path | None = None
) -> TrainingData:
    """Load data by name, or any samples by their path.

    | name | samples | files |
    |---|---|---|
    | `8-gaussians`, `25-gaussians` | 50,000 points of the plane, and 10,000 | generated from a seed |
    | `digits` | 8 × 8 grey, 1,797 | included in scikit-learn |
    | `mnist`, `fashion-mnist` | 28 × 28 grey, 60,000 and 10,000 | four idx files, gzipped or not |
    | `cifar-10` | 32 × 32 RGB, 50,000 and 10,000 | `data_batch_*.bin` and `test_batch.bin`, or one .npz |
    | `celeba-64` | 64 × 64 RGB, from the largest centred square | `img_align_celeba/`, or a zip of the images |
    | a path | as `precall.samples.open_samples` reads it | images of one size, features, tables of numbers |

    Files are searched in `data_dir` (and in its subfolder of that name), in the system's dataset packages, and in
    `<cache>/data/<name>`. If they are missing, Fashion-MNIST is downloaded and verified by the SHA-256 of its contents.
    For the other data sets, the error states which files to put where. If the data has no split, one sample in ten is
    held out, drawn with a fixed seed. Images whose channels are all equal are converted to grey. If the images of a
    path are in two or more folders, the folder is the class.

    Args:
        name: one of the names above, or a path.
        data_dir: first folder to search.
        labels: for a path, a text file with the class of each sample, one per line.

    Example:
        >>> data = load_data("digits")
        >>> data.samples.shape, data.held_out.shape, data.samples.dtype, data.classes
        ((1618, 1, 8, 8), (179, 1, 8, 8), dtype('uint8'), 10)
    """
    if data_dir is not None and not Path(data_dir).is_dir():
        raise ValueError(f"`data_dir` must be a folder that exists; got `{shown(str(data_dir))}`.")
    if labels is not None and str(name) in DATASETS:
        raise ValueError(f"`labels` must not be a file for `{name}`, which has its own; got `{shown(str(labels))}`.")
    check_known(name)
    if str(name) in DATASETS:
        return DATASETS[str(name)](str(name), None if data_dir is None else Path(data_dir))
    samples = open_samples(name)
    classes = folder_labels(samples) if labels is None else read_labels(labels, len(samples))
    return _split(_read(samples), classes[0], name=str(name), classes=classes[1])


def check_known(name: str | Path) -> None:
    """Check that `name` is a data set of precall or a path that exists, without loading anything."""
    if str(name) not in DATASETS and not Path(name).exists():
        known = ", ".join(DATASETS)
        raise ValueError(f"`data` must be one of {known}, or a path that exists; got `{shown(str(name))}`.")


def _gaussians(name: str, data_dir: Path | None) -> TrainingData:
    """Eight on a circle, or a 5 × 5 grid divided by √8 to have about unit variance. The label is the mode."""
    modes, unit = (eight_modes(), 1.0) if name == "8-gaussians" else (grid_modes(), math.sqrt(8))
    centers = modes.centers / unit
    sides: list[Numbers] = []
    for seed, n in enumerate((POINTS, HELD_OUT_POINTS)):
        rng = np.random.default_rng(seed)
        labels = rng.integers(len(centers), size=n)
        sides += [(centers[labels] + modes.scale / unit * rng.normal(size=(n, 2))).astype(np.float32), labels]
    return TrainingData(sides[0], sides[1], sides[2], sides[3], len(centers), name)


def _digits(name: str, data_dir: Path | None) -> TrainingData:
    """The digits of scikit-learn, with their grey levels 0, …, 16 scaled to 0, …, 255."""
    from sklearn.datasets import load_digits

    levels, labels = load_digits(return_X_y=True)
    images = np.rint(levels.reshape(-1, 1, 8, 8) * (255 / 16)).astype(np.uint8)
    return _split(images, labels.astype(np.int64), name=name, classes=10)


IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
CIFAR = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")
KERAS = ("x_train", "y_train", "x_test", "y_test")
# folders into which other tools extract the files
CUSTOMARY = {"mnist": "MNIST/raw", "fashion-mnist": "FashionMNIST/raw", "cifar-10": "cifar-10-batches-bin"}
# SHA-256 of the uncompressed contents, since the archives differ between mirrors
FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
CONTENTS = {
    "fashion-mnist": {
        "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    }
}


def places(name: str, data_dir: Path | None) -> Iterator[Path]:
    """Folders that may contain the files of `name`, in the order in which they are searched."""
    roots = [] if data_dir is None else [data_dir]
    for root in (*roots, SYSTEM, cache_dir() / "data"):
        yield root / name
        if name in CUSTOMARY:
            yield root / CUSTOMARY[name]
        if root == data_dir:
            yield root


def _idx(name: str, data_dir: Path | None) -> TrainingData:
    """MNIST or Fashion-MNIST."""
    for place in places(name, data_dir):
        files = [next((one for one in (place / file, place / f"{file}.gz") if one.is_file()), None) for file in IDX]
        if all(files):
            return _from_idx(name, [file for file in files if file is not None])
    if name not in CONTENTS:
        raise _missing(name, f"{', '.join(IDX)} (as they are, or as .gz)")
    return _from_idx(name, [_fetched(name, file) for file in IDX])


def _from_idx(name: str, files: Sequence[Path]) -> TrainingData:
    images, labels, held_out, held_out_labels = (read_idx(file) for file in files)
    for pixels, classes, file in ((images, labels, files[0]), (held_out, held_out_labels, files[2])):
        if pixels.ndim != 3 or classes.shape != pixels.shape[:1] or classes.max(initial=0) > 9:
            got = f"{pixels.shape} and {classes.shape} up to {classes.max(initial=0)}"
            raise ValueError(
                f"`{shown(str(file))}` must hold images, and its label file a label from 0 to 9 for each; got {got}."
            )
    return TrainingData(
        images[:, None], labels.astype(np.int64), held_out[:, None], held_out_labels.astype(np.int64), 10, name
    )


def read_idx(path: Path) -> Pixels:
    """Read a uint8 array in the idx format, gzipped or not: two zeros, type 8, the number of axes, their lengths."""
    content = _content(path)
    axes = content[3] if len(content) > 3 else 0
    header = 4 + 4 * axes
    if content[:3] != b"\0\0\x08" or not axes or len(content) < header:
        raise ValueError(f"`{shown(str(path))}` must be an idx file of bytes; it starts with {content[:4].hex(' ')!r}.")
    shape = np.frombuffer(content, ">u4", axes, offset=4).tolist()
    if len(content) != header + math.prod(shape):
        raise ValueError(
            f"`{shown(str(path))}` must hold {' × '.join(map(str, shape))} bytes after its header; "
            f"got {len(content) - header}. Download it again."
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape).copy()  # writable memory for torch


def _content(path: Path) -> bytes:
    """The uncompressed bytes of a file; an error if they exceed the maximum size."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            content = file.read(LARGEST + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"`{shown(str(path))}` must be a gzipped file; {error}. Download it again.") from None
    if len(content) > LARGEST:
        raise ValueError(f"`{shown(str(path))}` must hold at most {LARGEST:,} uncompressed bytes; it holds more.")
    return content


def _cifar(name: str, data_dir: Path | None) -> TrainingData:
    """The binary version, or one .npz with x_train, y_train, x_test and y_test."""
    for place in places(name, data_dir):
        if all((place / file).is_file() for file in CIFAR):
            parts = [read_cifar(place / file) for file in CIFAR]
            samples, labels = (np.concatenate([part[i] for part in parts[:-1]]) for i in range(2))
            return TrainingData(samples, labels, *parts[-1], 10, name)
        if (place / "cifar-10.npz").is_file():
            return _from_npz(name, place / "cifar-10.npz")
    raise _missing(name, f"{', '.join(CIFAR)} (the binary version), or cifar-10.npz with {', '.join(KERAS)}")


def read_cifar(path: Path) -> tuple[Pixels, ClassLabels]:
    """Images and labels of a CIFAR-10 binary file, with records of one label and 3 × 32 × 32 bytes."""
    content = _content(path)
    if not content or len(content) % 3073:
        raise ValueError(f"`{shown(str(path))}` must hold records of 3,073 bytes; got {len(content):,} bytes.")
    records = np.frombuffer(content, np.uint8).reshape(-1, 3073)
    if records[:, 0].max() > 9:
        raise ValueError(f"`{shown(str(path))}` must have labels from 0 to 9; got {records[:, 0].max()}.")
    return records[:, 1:].reshape(-1, 3, 32, 32).copy(), records[:, 0].astype(np.int64)


def _from_npz(name: str, path: Path) -> TrainingData:
    try:
        with np.load(path, allow_pickle=False) as archive:
            samples, labels, held_out, held_out_labels = (archive[key] for key in KERAS)
    except (ValueError, OSError, KeyError, EOFError, zlib.error) as error:
        raise ValueError(f"`{shown(str(path))}` must be a .npz with {', '.join(KERAS)}; {error}") from None
    sides = (_as_nchw(samples, path), _as_nchw(held_out, path))
    classes = (labels.reshape(-1).astype(np.int64), held_out_labels.reshape(-1).astype(np.int64))
    return TrainingData(sides[0], classes[0], sides[1], classes[1], 10, name)


def _as_nchw(images: Numbers, path: Path) -> Pixels:
    if images.dtype != np.uint8 or images.ndim != 4 or 3 not in (images.shape[1], images.shape[3]):
        got = f"{images.shape} of {images.dtype}"
        raise ValueError(f"`{shown(str(path))}` must hold RGB images as uint8, channels first or last; got {got}.")
    return images if images.shape[1] == 3 else images.transpose(0, 3, 1, 2)


def _celeba(name: str, data_dir: Path | None) -> TrainingData:
    """Aligned faces: the largest centred square, resized to 64 × 64."""
    for place in places(name, data_dir):
        for source in (place / "img_align_celeba", *sorted(place.glob("*celeba*.zip"))):
            if source.exists():
                return _split(read_images(open_samples(source), lambda image: squared(image, 64)), None, name=name)
    raise _missing(name, "img_align_celeba (the folder of aligned images) or img_align_celeba.zip")


def squared(image: Pixels, side: int) -> Pixels:
    """The largest centred square of an image, resized with a Lanczos filter."""
    from PIL import Image

    height, width = image.shape[:2]
    edge = min(height, width)
    top, left = (height - edge) // 2, (width - edge) // 2
    square = Image.fromarray(image[top : top + edge, left : left + edge])
    return np.asarray(square.resize((side, side), Image.Resampling.LANCZOS))


def _missing(name: str, files: str) -> ValueError:
    place = cache_dir() / "data" / name
    return ValueError(f"`{name}` is not on this machine. Put {files} into `{place}`, or pass the folder as `data_dir`.")


def _fetched(name: str, file: str) -> Path:
    """A file in the cache, downloaded if it is missing and verified by the SHA-256 of its contents."""
    place, url = cache_dir() / "data" / name / f"{file}.gz", f"{FASHION}/{file}.gz"
    if not place.exists():
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
                archive = answer.read(LARGEST)
            found = hashlib.sha256(zlib.decompressobj(31).decompress(archive, LARGEST)).hexdigest()
        except (OSError, zlib.error) as error:
            reason = f"{url} cannot be downloaded ({error})"
            raise ValueError(f"{_missing(name, ', '.join(f'{one}.gz' for one in IDX))} {reason}.") from None
        if found != CONTENTS[name][file]:
            raise ValueError(
                f"{url} must have uncompressed contents of SHA-256 {CONTENTS[name][file]}; got {found}. "
                "Nothing was saved."
            )
        write_atomically(place, archive)
    return place


def _read(samples: SampleSet) -> Numbers:
    if samples.kind == "images":
        return read_images(samples, lambda image: image)
    if isinstance(samples, Rows):
        return checks.numbers("data", samples.array)
    if samples.kind == "table":
        return _numbers(samples)
    expected = "images, features or a table of numbers"
    raise ValueError(f"`data` must hold {expected} to train on; `{shown(samples.name)}` holds {samples.kind}.")


def read_images(samples: SampleSet, prepare: Callable[[Pixels], Pixels]) -> Pixels:
    """All images of a set as an NCHW uint8 array, after `prepare`; with one channel if all channels are equal."""
    first = prepare(samples[0])
    images = np.empty((len(samples), 3, *first.shape[:2]), np.uint8)

    def put(index: int) -> None:
        image = prepare(samples[index])
        if image.shape != first.shape:
            (height, width), (h, w) = image.shape[:2], first.shape[:2]
            raise ValueError(
                f"images must have the same size; `{shown(samples.ids[index])}` has {height} × {width} pixels, "
                f"the first {h} × {w}. Resize them."
            )
        images[index] = image.transpose(2, 0, 1)

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for _ in pool.map(put, range(len(samples))):
            pass
    grey = (images == images[:, :1]).all()
    return images[:, :1].copy() if grey else images


def _numbers(samples: SampleSet) -> Numbers:
    rows = [samples[index] for index in range(len(samples))]
    try:
        return checks.numbers("data", [[float(cell) for cell in row.values()] for row in rows])
    except ValueError:
        column, cell = next((c, x) for row in rows for c, x in row.items() if not _is_finite(x))
        raise ValueError(
            f"`data` as a table must hold finite numbers; column {shown(column)!r} has {shown(cell)!r}. "
            "Remove or encode other columns."
        ) from None


def _is_finite(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def _split(samples: Numbers, labels: ClassLabels | None, *, name: str, classes: int = 0) -> TrainingData:
    """Hold out one sample in `HELD_OUT`, drawn with a fixed seed."""
    if len(samples) < 2 * HELD_OUT:
        raise ValueError(f"`data` must hold at least {2 * HELD_OUT} samples; got {len(samples)}.")
    order = np.random.default_rng(0).permutation(len(samples))
    out, kept = order[: len(samples) // HELD_OUT], order[len(samples) // HELD_OUT :]
    both = (None, None) if labels is None else (labels[kept], labels[out])
    return TrainingData(samples[kept], both[0], samples[out], both[1], classes, name)


def with_held_out(data: TrainingData, n: int) -> TrainingData:
    """The data with at least n samples held out, or a third of all if that is fewer, drawn with a fixed seed."""
    more = min(n, (len(data.samples) + len(data.held_out)) // 3) - len(data.held_out)
    if more <= 0:
        return data
    order = np.random.default_rng(1).permutation(len(data.samples))
    moved, kept = order[:more], order[more:]
    labels, held_out_labels = data.labels, data.held_out_labels
    if labels is not None and held_out_labels is not None:
        labels, held_out_labels = labels[kept], np.concatenate([held_out_labels, labels[moved]])
    held_out = np.concatenate([data.held_out, data.samples[moved]])
    return replace(data, samples=data.samples[kept], labels=labels, held_out=held_out, held_out_labels=held_out_labels)


def read_labels(path: str | Path, n: int) -> tuple[ClassLabels, int]:
    """Classes, in the sorted order of their names, from a text file with one label per line, and their number."""
    with reading.parsing(Path(path), "a text file with one label per line"):
        names = reading.read_text(Path(path)).splitlines()
    if len(names) != n or not all(name.strip() for name in names):
        got = f"{len(names)} lines, {sum(not name.strip() for name in names)} of them empty"
        raise ValueError(f"`{shown(str(path))}` must have one label per line for each of the {n} samples; got {got}.")
    return _numbered(str(path), [name.strip() for name in names])


def folder_labels(samples: SampleSet) -> tuple[ClassLabels | None, int]:
    """Classes from the folders that hold the images, and their number; None unless there are at least two folders."""
    names = [str(PurePosixPath(one).parent) for one in samples.ids] if samples.kind == "images" else []
    return (None, 0) if len(set(names)) < 2 else _numbered(samples.name, names)


def _numbered(source: str, names: Sequence[str]) -> tuple[ClassLabels, int]:
    """Each name as its position in the sorted list of all names."""
    classes, labels = np.unique(np.asarray(names), return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"`{shown(source)}` must have at least two classes; all labels are {shown(str(classes[0]))!r}."
        )
    return labels.astype(np.int64), len(classes)


def bins_at(lam: float, bins: int, n: int, *, seed: int = 0) -> ClassLabels:
    """The bins of n draws at λ, in random order and as close to their proportions as whole numbers can be.

    The samples of each class are divided into bins of equal size by how central they are, and the networks see the bin
    as a part of the label. One network then serves every λ (docs/theory.md, Bins).

    Example:
        >>> np.bincount(bins_at(1.0, 4, n=8)).tolist()
        [2, 2, 2, 2]
    """
    ends = np.rint(n * np.cumsum(proportions(lam, bins))).astype(np.int64)
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(bins), np.diff(ends, prepend=0)))


DATASETS: dict[str, Callable[[str, Path | None], TrainingData]] = {
    "8-gaussians": _gaussians,
    "25-gaussians": _gaussians,
    "digits": _digits,
    "mnist": _idx,
    "fashion-mnist": _idx,
    "cifar-10": _cifar,
    "celeba-64": _celeba,
}
