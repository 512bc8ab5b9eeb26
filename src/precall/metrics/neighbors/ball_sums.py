"""What a shard of fakes contributes to the scores in the balls of the reals: counts and lists that merge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from precall.metrics.neighbors.ball_scores import CopySums
from precall.metrics.neighbors.influence import BallSums
from precall.metrics.pairs.blocks import smallest
from precall.theory.arrays import Array, Counts

Saved = Mapping[str, npt.NDArray[np.float64 | np.int64]]


@dataclass(frozen=True, eq=False)
class Shortest:
    """The fakes with the smallest values, one list per line, sorted. The lists of shards merge into those of all.

    Equal values are ordered by shard and row, so that the result does not depend on the order of merging.
    """

    value: Array  # the values, shape (lines, size); ∞ if there are fewer fakes
    shard: Counts  # index of the shard that each fake belongs to; −1 if there are fewer fakes
    row: Counts  # index of the fake in its shard; −1 if there are fewer fakes
    real: Counts  # index of the real sample that the value refers to; −1 if there are fewer fakes

    @classmethod
    def of(
        cls, value: Array, *, shard: int | Counts, row: int | Counts, real: int | Counts, size: int | None = None
    ) -> Shortest:
        """The `size` smallest values of each line, or all of them; shard, row and real are broadcast to `value`."""
        size = value.shape[1] if size is None else size
        missing, padding = np.isinf(value), ((0, 0), (0, max(0, size - value.shape[1])))
        parts = [np.where(missing, -1, np.broadcast_to(part, value.shape)) for part in (shard, row, real)]
        numbers = [np.pad(part, padding, constant_values=-1) for part in parts]
        return cls(*smallest(size, np.pad(value, padding, constant_values=np.inf), *numbers))

    def merged(self, other: Shortest) -> Shortest:
        """The smallest values of both, as many per line as here."""
        both = (np.concatenate(pair, axis=1) for pair in zip(vars(self).values(), vars(other).values(), strict=True))
        return Shortest(*smallest(self.value.shape[1], *both))

    def renumbered(self, numbers: Counts) -> Shortest:
        """The same lists if shard s has the new index numbers[s]."""
        shard = np.where(self.shard < 0, -1, numbers[self.shard])
        return Shortest(*smallest(self.value.shape[1], self.value, shard, self.row, self.real))


@dataclass(frozen=True, eq=False)
class FakeCounts:
    """What some fakes contribute to the scores of the balls of the reals. The parts of shards are merged."""

    balls: BallSums  # counts in the balls of the reals
    clipped: BallSums  # counts in balls with radii of at most their median
    copies: CopySums  # near-copies of the reals
    nearest: Shortest  # the nearest fakes of each real, by squared distance
    unrealistic: Shortest  # the fakes with the smallest realism, and the nearest real of each
    closest: Shortest  # the fakes with the smallest copy ratio, and the nearest real of each

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
        parts = {part: vars(one) for part, one in vars(self).items() if part != "copies"}
        return copies | {f"{part} {name}": array for part, one in parts.items() for name, array in one.items()}

    @classmethod
    def of_arrays(cls, arrays: Saved, *, n: int, shards: Counts) -> FakeCounts:
        """The counts that `arrays` returned, after checking that they belong together."""
        total = _checked(arrays, "copies total", "i", (2,))
        copies = CopySums(int(total[0]), _checked(arrays, "copies changes", "i", (n,)), int(total[1]))
        balls, clipped = (_sums(arrays, part, n, int(shards.sum())) for part in ("balls", "clipped"))
        lines = {"nearest": n, "unrealistic": 1, "closest": 1}  # of each list
        return cls(balls, clipped, copies, *(_lists(arrays, part, lines, n, shards) for part, lines in lines.items()))


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
