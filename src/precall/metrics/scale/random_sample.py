"""A uniform random sample of bounded size, as a reading that merges: the rows with the smallest random keys."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from precall.metrics.inputs.features import Features
from precall.theory.arrays import Matrix, to_numpy


@dataclass(frozen=True, eq=False)
class RandomSample:
    """The rows of a set with the smallest random keys. Samples of disjoint sets merge into that of their union.

    Every row of the union is equally likely to be kept, since its key does not depend on the other rows. Merging is
    associative and commutative.

    Attributes:
        keys: Key of each row, increasing, shape (m,).
        rows: Features, shape (m, d).
        most: Largest number of rows.

    Example:
        >>> one, two = (RandomSample.of(np.full((9, 2), x), most=4, seed=0) for x in (0.0, 1.0))
        >>> np.array_equal(one.merged(two).rows, two.merged(one).rows), len(one.merged(two).rows)
        (True, 4)
    """

    keys: npt.NDArray[np.uint64]
    rows: Matrix
    most: int

    @classmethod
    def of(cls, features: Features, *, most: int, seed: int) -> RandomSample:
        """A sample of the rows of checked features; keys follow from the seed and the content of the features."""
        rows = to_numpy(features)
        content = int.from_bytes(hashlib.sha256(rows.tobytes()).digest()[:16])
        keys = np.random.default_rng((seed, content)).integers(1 << 64, size=len(rows), dtype=np.uint64)
        return cls(keys, rows, most)._smallest()

    def merged(self, other: RandomSample) -> RandomSample:
        """The sample of the union of two sets."""
        both = (np.concatenate([self.keys, other.keys]), np.concatenate([self.rows, other.rows]))
        return RandomSample(*both, self.most)._smallest()

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays by name, as a sketch stores them."""
        return {"sample_keys": self.keys, "sample_rows": self.rows}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], *, n: int, dimension: int, most: int) -> RandomSample:
        """The sample that `arrays` returned, after checking that it can be that of n rows."""
        keys, size = arrays["sample_keys"], min(n, most)
        if keys.dtype != np.uint64 or keys.shape != (size,) or (keys[1:] < keys[:-1]).any():
            raise ValueError("sample_keys")
        return cls(keys, checked_rows("sample_rows", arrays["sample_rows"], (size, dimension)), most)

    def _smallest(self) -> RandomSample:
        order = np.argsort(self.keys, kind="stable")[: self.most]
        return RandomSample(self.keys[order], self.rows[order], self.most)


def checked_rows(name: str, rows: npt.NDArray[Any], shape: tuple[int, int]) -> Matrix:
    """Saved features of this shape, finite and in a floating-point type."""
    if rows.shape != shape or rows.dtype not in (np.float32, np.float64) or not np.isfinite(rows).all():
        raise ValueError(name)
    return rows
