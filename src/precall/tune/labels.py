"""Class labels of training data, from a text file or from the folders of the images, and bins of draws at λ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import numpy as np
import numpy.typing as npt

from precall.samples import SampleSet, reading
from precall.samples.sampleset import shown
from precall.theory.tilts import proportions

ClassLabels = npt.NDArray[np.int64]


def read_labels(path: str | Path, n: int) -> tuple[ClassLabels, int]:
    """Classes from a text file with one label per line, in the order of the samples, and their number.

    Classes are numbered in the sorted order of their names.

    Raises:
        ValueError: if the file does not have one label per sample, or if all labels are equal.
    """
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
    """Each name as its position in the sorted list of all names.

    Example:
        >>> _numbered("labels.txt", ["dog", "cat", "dog"])
        (array([1, 0, 1]), 2)
    """
    classes, labels = np.unique(np.asarray(names), return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"`{shown(source)}` must have at least two classes; all labels are {shown(str(classes[0]))!r}."
        )
    return labels.astype(np.int64), len(classes)


def bins_at(lam: float, bins: int, n: int, *, seed: int = 0) -> ClassLabels:
    """The bins of n draws at λ, in random order and as close to their proportions as whole numbers can be.

    The samples of each class are divided into bins of equal size by how central they are
    (`precall.metrics.pairs.centrality`), and the networks see the bin as a part of the label. One network then serves
    every λ (docs/theory.md, Bins).

    Example:
        >>> np.bincount(bins_at(1.0, 4, n=8)).tolist()
        [2, 2, 2, 2]
    """
    ends = np.rint(n * np.cumsum(proportions(lam, bins))).astype(np.int64)
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(bins), np.diff(ends, prepend=0)))
