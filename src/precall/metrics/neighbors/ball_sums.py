"""What a shard of fakes contributes to the scores in the balls of the reals: counts and lists that merge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from precall.metrics.neighbors.copies import CopySums
from precall.metrics.neighbors.influence import BallSums
from precall.theory.arrays import Array, Counts

Saved = Mapping[str, npt.NDArray[np.float64 | np.int64]]


@dataclass(frozen=True, eq=False)
class Shortest:
    """The fakes with the smallest values, one list per line, sorted. The lists of shards merge into those of all.

    Equal values are ordered by shard and row, so that the result does not depend on the order of merging.

    Attributes:
        value: The values, shape (lines, size); ∞ if there are fewer fakes.
        shard: Index of the shard that each fake belongs to; −1 if there are fewer fakes.
        row: Index of the fake in its shard; −1 if there are fewer fakes.
        real: Index of the real sample that the value refers to; −1 if there are fewer fakes.

    Example:
        >>> one, two = (Shortest.of(np.array([[v]]), shard=s, row=0, real=0, size=2) for s, v in enumerate((0.3, 0.1)))
        >>> one.merged(two).value, one.merged(two).shard
        (array([[0.1, 0.3]]), array([[1, 0]]))
    """

    value: Array
    shard: Counts
    row: Counts
    real: Counts

    @classmethod
    def of(
        cls, value: Array, *, shard: int | Counts, row: int | Counts, real: int | Counts, size: int | None = None
    ) -> Shortest:
        """The `size` smallest values of each line, or all of them; shard, row and real are broadcast to `value`."""
        size = value.shape[1] if size is None else size
        missing = np.isinf(value)
        parts = [np.where(missing, -1, np.broadcast_to(part, value.shape)) for part in (shard, row, real)]
        padding = (0, 0), (0, max(0, size - value.shape[1]))
        numbers = [np.pad(part, padding, constant_values=-1) for part in parts]
        return cls(np.pad(value, padding, constant_values=np.inf), *numbers)._first(size)

    def merged(self, other: Shortest) -> Shortest:
        """The smallest values of both, as many per line as here."""
        both = Shortest(
            np.concatenate([self.value, other.value], axis=1),
            np.concatenate([self.shard, other.shard], axis=1),
            np.concatenate([self.row, other.row], axis=1),
            np.concatenate([self.real, other.real], axis=1),
        )
        return both._first(self.value.shape[1])

    def renumbered(self, numbers: Counts) -> Shortest:
        """The same lists if shard s has the new index numbers[s]."""
        shard = np.where(self.shard < 0, -1, numbers[self.shard])
        return Shortest(self.value, shard, self.row, self.real)._first(self.value.shape[1])

    def _first(self, size: int) -> Shortest:
        order = np.lexsort((self.row, self.shard, self.value), axis=1)[:, :size]
        lines = np.arange(len(order))[:, None]
        return Shortest(
            self.value[lines, order], self.shard[lines, order], self.row[lines, order], self.real[lines, order]
        )


@dataclass(frozen=True, eq=False)
class FakeCounts:
    """What some fakes contribute to the scores of the balls of the reals. The parts of shards are merged.

    Attributes:
        balls: Counts in the balls of the reals.
        clipped: Counts in balls with radii of at most their median.
        copies: Near-copies of the reals.
        nearest: The nearest fakes of each real, by squared distance.
        unrealistic: The fakes with the smallest realism, and the nearest real of each.
        closest: The fakes with the smallest copy ratio, and the nearest real of each.
    """

    balls: BallSums
    clipped: BallSums
    copies: CopySums
    nearest: Shortest
    unrealistic: Shortest
    closest: Shortest

    def merged(self, other: FakeCounts) -> FakeCounts:
        """The counts of both together."""
        return FakeCounts(
            self.balls + other.balls,
            self.clipped + other.clipped,
            self.copies + other.copies,
            self.nearest.merged(other.nearest),
            self.unrealistic.merged(other.unrealistic),
            self.closest.merged(other.closest),
        )

    def renumbered(self, numbers: Counts) -> FakeCounts:
        """The same counts if shard s has the new index numbers[s]."""
        lists = (part.renumbered(numbers) for part in (self.nearest, self.unrealistic, self.closest))
        return FakeCounts(self.balls, self.clipped, self.copies, *lists)

    def arrays(self) -> dict[str, Array | Counts]:
        """All arrays by name, as "balls inside"; `of_arrays` takes them."""
        copies = {
            "copies changes": self.copies.changes,
            "copies total": np.array([self.copies.copies, self.copies.moves]),
        }
        parts = {name: getattr(self, name) for name in PARTS}
        return copies | {f"{part} {name}": array for part, one in parts.items() for name, array in vars(one).items()}

    @classmethod
    def of_arrays(cls, arrays: Saved, *, n: int, shards: Counts) -> FakeCounts:
        """The counts that `arrays` returned, after checking that they belong together.

        Args:
            arrays: The arrays by name.
            n: Number of reals.
            shards: Number of fakes of each shard.
        """
        total = _checked(arrays, "copies total", "i", (2,))
        copies = CopySums(int(total[0]), _checked(arrays, "copies changes", "i", (n,)), int(total[1]))
        balls, clipped = (_sums(arrays, part, n, int(shards.sum())) for part in ("balls", "clipped"))
        return cls(balls, clipped, copies, *(_lists(arrays, part, lines, n, shards) for part, lines in _lines(n)))


PARTS = ("balls", "clipped", "nearest", "unrealistic", "closest")


def _lines(n: int) -> list[tuple[str, int]]:
    """Number of lines of each list."""
    return [("nearest", n), ("unrealistic", 1), ("closest", 1)]


def _sums(arrays: Saved, part: str, n: int, fakes: int) -> BallSums:
    inside = _checked(arrays, f"{part} inside", "i", (n, 3), least=0, most=fakes)
    histogram = _checked(arrays, f"{part} histogram", "i", (None,), least=0, most=fakes)
    if (
        len(histogram) > n + 1
        or histogram.sum() != fakes
        or (histogram * np.arange(len(histogram))).sum() != inside[:, 0].sum()
    ):
        raise ValueError(f"{part} histogram")
    lost, won = (_checked(arrays, f"{part} {name}", "i", (n,), least=0, most=fakes) for name in ("lost", "won"))
    return BallSums(inside, histogram, lost, won)


def _lists(arrays: Saved, part: str, lines: int, n: int, shards: Counts) -> Shortest:
    value = _checked(arrays, f"{part} value", "f", (lines, None))
    limits = {"shard": len(shards) - 1, "row": int(shards.max()) - 1, "real": n - 1}
    numbers = [
        _checked(arrays, f"{part} {name}", "i", value.shape, least=-1, most=most) for name, most in limits.items()
    ]
    if np.isnan(value).any() or (value < 0).any() or (numbers[1] >= shards[numbers[0]]).any():
        raise ValueError(f"{part} value")
    return Shortest(value, *numbers)


def _checked(
    arrays: Saved,
    name: str,
    kind: str,
    shape: tuple[int | None, ...],
    least: int | None = None,
    most: int | None = None,
) -> Any:
    """An array with the given kind of numbers, shape (None: any length of at least 1) and range."""
    found = arrays[name]
    fits = found.dtype.kind == kind and found.dtype.itemsize == 8 and found.ndim == len(shape)
    fits = fits and all(
        size == length or (size is None and length) for size, length in zip(shape, found.shape, strict=True)
    )
    if not fits or (least is not None and (found < least).any()) or (most is not None and (found > most).any()):
        raise ValueError(name)
    return found
