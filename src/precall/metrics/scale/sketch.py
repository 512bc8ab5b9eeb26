"""Sketches: what a shard of fakes contributes to the scores against fixed data. Sketches of shards are merged.

With a fixed reference, every score that needs no distance between two fakes is a function of sums over the fakes:
moments, counts in the balls of the reals, and short lists of extreme samples. A sketch holds these sums, and a uniform
sample of the fakes for the curve and for whatever else does not merge. Merging adds the sums, so that they do not
depend on how the fakes were cut into shards, nor on the order of merging: counts are equal exactly, and moments up to
rounding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from precall.metrics.assessing.registry import DEFAULT, METRICS, requested
from precall.metrics.assessing.requests import check_holdout
from precall.metrics.assessing.whole_run import WholeRun, assessed
from precall.metrics.distances.moments import Moments
from precall.metrics.inputs.features import Features, device_of, moved
from precall.metrics.inputs.notices import notices
from precall.metrics.inputs.sides import Side
from precall.metrics.neighbors.ball_scores import BallScores, copy_score
from precall.metrics.neighbors.ball_sums import FakeCounts, Shortest
from precall.metrics.neighbors.influence import BallTotals
from precall.metrics.neighbors.scores import Neighborhoods
from precall.metrics.neighbors.successors import clipped_from_totals
from precall.metrics.neighbors.sweep import Balls, clipped
from precall.metrics.scale.sketch_reference import ROWS, SAVED, SKETCH, RandomSample, SketchReference, checked_moments
from precall.metrics.scores.results import Assessment
from precall.metrics.scores.score import Score
from precall.printing import brief, shown
from precall.progress import StageProgress
from precall.theory.arrays import to_numpy

GALLERY = 24  # fakes in the lists of the least realistic ones and of the closest copies
MERGING = ("neighbors", "clipped", "copies", "fid")  # metrics whose scores are sums over all fakes
PIECE_VALUES, PIECE_ROWS = 1 << 23, (1 << 14, 1 << 16)  # feature values, and rows, of a piece of a shard
FROM_PAIRS = frozenset(
    {"recall", "precision_cover", "symmetric_precision", "symmetric_recall", "p_precision", "p_recall"}
)
BETWEEN_FAKES = (
    "needs the distances between fakes, which a sketch does not hold. Assess the features of all shards together with "
    "`assess`."
)


class SketchScores(dict[str, Score]):
    """Scores by name. The error about a score that no sketch can have says why."""

    def __missing__(self, name: str) -> Score:
        known = f"a sketch has the scores {', '.join(self)}; got `{name}`. Use `assess` for other scores."
        raise MissingScoreError(f"`{name}` {BETWEEN_FAKES}" if name in FROM_PAIRS else known)


class MissingScoreError(KeyError):
    """Raised for a score that a sketch does not have."""

    __str__ = Exception.__str__  # that of `KeyError` adds quotes


@dataclass(frozen=True)
class SketchedShard:
    """A shard of fakes in a sketch."""

    identity: str  # SHA-256 of its features
    name: str  # where it came from
    n: int  # number of fakes


@dataclass(frozen=True)
class ListedFake:
    """A fake in one of the lists of a sketch."""

    shard: str  # name of its shard
    row: int  # index of its row in the shard
    value: float  # its realism, or its copy ratio
    real: int  # index of its nearest real sample


@brief
@dataclass(frozen=True, eq=False)
class Sketch:
    """The sums of one or more shards of fakes, from which scores are read. Sketches of disjoint shards are merged.

    Example:
        >>> from precall import Reference, merge_sketches
        >>> rng = np.random.default_rng(0)
        >>> reference = Reference.fit(rng.normal(size=(300, 2)))
        >>> shards = [rng.normal(0.5, 0.5, size=(100, 2)) for _ in range(4)]
        >>> sketch = merge_sketches([reference.sketch(shard) for shard in shards])
        >>> whole = reference.assess(np.concatenate(shards), metrics=("neighbors",))
        >>> sketch.n, sketch.scores["precision"] == whole.scores["precision"]
        (400, True)
    """

    reference: SketchReference  # what it knows about the data
    shards: tuple[SketchedShard, ...]  # sorted by their identity
    moments: Moments  # of the fakes
    counts: FakeCounts = field(repr=False)  # in the balls of the reals, and lists of extreme fakes
    sample: RandomSample = field(repr=False)  # all fakes, or a uniform sample of them

    @property
    def n(self) -> int:
        return sum(shard.n for shard in self.shards)

    def merge(self, other: Sketch) -> Sketch:
        """The sketch of the shards of both; see `merge_sketches`."""
        return merge_sketches([self, other])

    __add__ = merge

    def joined(self, other: Sketch) -> Sketch:
        """The sums of two pieces, whose shards have been numbered and named already."""
        sums = (self.moments + other.moments, self.counts.merged(other.counts), self.sample.merged(other.sample))
        return Sketch(self.reference, self.shards, *sums)

    @property
    def scores(self) -> Mapping[str, Score]:
        """The scores that are sums over all fakes, by name, with intervals.

        Precision, density, coverage, recall cover, copies and the clipped scores have the values and the intervals of
        one assessment of all shards together. FID has no interval, because that needs every sample. Recall, precision
        cover and the symmetric scores need distances between fakes and are not here.
        """
        return SketchScores(self.assessment(metrics=MERGING).scores)

    @property
    def least_realistic(self) -> list[ListedFake]:
        """The fakes with the smallest realism, the smallest first."""
        return self._listed(self.counts.unrealistic)

    @property
    def closest_copies(self) -> list[ListedFake]:
        """The fakes with the smallest copy ratio, the smallest first."""
        return self._listed(self.counts.closest)

    def assessment(self, name: str = "fake", metrics: Iterable[str] | None = None) -> Assessment:
        """The result of `assess`, which prints as a table and can be written as a report.

        Scores that are sums over the fakes are those of all shards together. The curve, and whatever else does not
        merge, are computed from the samples of both sides that the sketch keeps; the sizes beside a score say which.

        Args:
            name: Name of the model.
            metrics: Names of metrics, as in `assess`; by default those of `assess` and the clipped scores, as far as
                there are enough samples.
        """
        if self.n < 2:
            raise ValueError(f"scores need at least 2 fakes; this sketch has {self.n}. Merge more shards.")
        few = min(len(self.reference.rows), len(self.sample.rows))
        default = [name for name in {*DEFAULT, *MERGING} if METRICS[name].fewest <= few]
        names = requested(default if metrics is None else metrics)
        check_holdout(names, None)
        return replace(
            found := assessed(SketchedRun(name, names, self), [METRICS[one] for one in names]),
            scores=SketchScores(found.scores),
        )

    def save(self, path: str | Path) -> Path:
        """Write the sketch to a `.sketch` file."""
        about = {"reference": self.reference.about(), "shards": [vars(shard) for shard in self.shards]}
        arrays = {"mean": self.moments.mean, "scatter": self.moments.scatter}
        arrays |= self.reference.arrays() | self.counts.arrays() | self.sample.arrays()
        SKETCH.write(Path(path), {name.replace(" ", "_"): array for name, array in arrays.items()}, about)
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Sketch:
        """The sketch that `save` wrote. Every array is verified by its SHA-256."""
        place = Path(path)
        about = SKETCH.about(place, SAVED)
        arrays = {name: SKETCH.array(place, name, sha256) for name, sha256 in about["sha256"].items()}
        try:
            return cls._restored(about, arrays)
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise ValueError(f"`{shown(str(place))}` must hold a complete sketch; `{error}` does not fit.") from None

    @classmethod
    def _restored(cls, about: Mapping[str, Any], arrays: Mapping[str, Any]) -> Sketch:
        shards = tuple(SketchedShard(str(one["identity"]), str(one["name"]), int(one["n"])) for one in about["shards"])
        sizes = np.array([shard.n for shard in shards])
        reference = SketchReference.of_saved(about["reference"], arrays)
        if list(shards) != sorted(shards, key=lambda shard: shard.identity) or not len(sizes) or (sizes < 1).any():
            raise ValueError("shards")
        n, d = int(sizes.sum()), reference.moments.mean.size
        moments = checked_moments(arrays["mean"], arrays["scatter"], n, d)
        named = {name.replace("_", " "): array for name, array in arrays.items()}
        counts = FakeCounts.of_arrays(named, n=reference.n, shards=sizes)
        sample = RandomSample.of_arrays(arrays, n=n, dimension=d, most=ROWS)
        return cls(reference, shards, moments, counts, sample)

    def ball_scores(self) -> dict[str, Score]:
        """The scores of the fakes in the balls of the reals, in balls with clipped radii, and of copies."""
        about = self.reference
        listed, starts = self.counts.nearest, np.cumsum([0, *(shard.n for shard in self.shards)])
        numbers = np.where(listed.shard < 0, -1, starts[listed.shard] + listed.row)  # one per fake, over all shards
        of: Any = {"k": about.k, "neighbors": about.neighbors, "nearest": numbers}
        balls, clipped = (BallTotals(**vars(sums), **of) for sums in (self.counts.balls, self.counts.clipped))
        copies = copy_score(self.counts.copies, n_fake=self.n, expected=about.expected_copies, ties=about.ties)
        small = clipped_from_totals(balls, clipped, ideal=about.ideal, ties=about.ties)
        return BallScores(balls, about.ties).table() | small | {"copies": copies}

    def _listed(self, found: Shortest) -> list[ListedFake]:
        lines = zip(found.shard[0].tolist(), found.row[0].tolist(), found.value[0], found.real[0].tolist(), strict=True)
        return [ListedFake(self.shards[s].name, row, float(value), real) for s, row, value, real in lines if s >= 0]


def merge_sketches(sketches: Iterable[Sketch]) -> Sketch:
    """Merge the sketches of disjoint shards, of the same reference, into the sketch of all their fakes.

    Merging is associative and commutative: counts and lists are equal exactly, and moments up to rounding. Two sketches
    that contain the same shard, which is recognised by its content, are refused. Sketches are taken one at a time, so
    that an iterator that loads them from disk needs little memory.

    Example:
        >>> from precall import Reference, merge_sketches
        >>> x = np.random.default_rng(0).normal(size=(80, 2))
        >>> sketch = Reference.fit(x).sketch(x + 1)
        >>> merge_sketches([sketch, sketch])
        Traceback (most recent call last):
            ...
        ValueError: a shard must be counted once; `fake` is in two of the sketches. Merge each shard once.
    """
    found: Sketch | None = None
    for one in sketches:  # one at a time: the others may still be on disk
        found = one if found is None else _merged(found, one)
    if found is None:
        raise ValueError("`sketches` must hold at least one sketch; got none.")
    return found


def _merged(one: Sketch, other: Sketch) -> Sketch:
    if one.reference.identity != other.reference.identity:
        differences = one.reference.differences(other.reference)
        way_out = "Sketch all shards with the same reference file."
        raise ValueError(f"sketches must have the same reference; they differ in: {differences}. {way_out}")
    # sums of floats depend on the order
    one, other = sorted((one, other), key=lambda sketch: sketch.shards[0].identity)
    shards = sorted((*one.shards, *other.shards), key=lambda shard: shard.identity)
    _check_distinct(shards)
    places = {shard.identity: place for place, shard in enumerate(shards)}
    counts = [
        part.counts.renumbered(np.array([places[shard.identity] for shard in part.shards])) for part in (one, other)
    ]
    first, second = (replace(part, counts=own) for part, own in zip((one, other), counts, strict=True))
    return replace(first.joined(second), shards=tuple(shards))


def _check_distinct(shards: Sequence[SketchedShard]) -> None:
    """Refuse a shard that occurs twice; the shards are sorted by their identity."""
    for one, other in pairwise(shards):
        if one.identity == other.identity:
            names = " and ".join(f"`{shown(name)}`" for name in dict.fromkeys((one.name, other.name)))
            same = "is in two of the sketches" if one.name == other.name else "have the same content"
            raise ValueError(f"a shard must be counted once; {names} {same}. Merge each shard once.")


@dataclass(frozen=True, eq=False)
class Sketcher:
    """The data, prepared to sketch many shards."""

    reference: SketchReference  # what sketches keep of it
    balls: Balls = field(repr=False)  # balls of the reals, for one k
    clipped: Balls = field(repr=False)  # the same with radii of at most their median

    @classmethod
    def fit(cls, real: Side, balls: Balls, *, ties: str, seed: int, notices: Sequence[str]) -> Sketcher:
        """The data and their balls for one k; `notices` are sentences that every report repeats."""
        small = clipped(balls)
        settings = {"k": balls.k[0], "ties": ties, "seed": seed, "encoder": real.record.encoder}
        protocol: dict[str, Any] = {"device": device_of(real.features)}
        protocol |= {"real": known} if (known := real.record.to_dict()) else {}
        protocol |= {"notices": list(notices)} if notices else {}
        return cls(SketchReference.of(real.features, balls, small, settings, protocol), balls, small)

    def sketch(self, fakes: Features, name: str, progress: StageProgress | None = None) -> Sketch:
        """Sketch a shard, piece by piece: memory grows with the reference and the piece, not with the shard."""
        from precall.metrics.pairs.one_way import count_fakes

        about, (m, d) = self.reference, (int(size) for size in fakes.shape)
        rows = min(PIECE_ROWS[1], max(PIECE_ROWS[0], PIECE_VALUES // d))
        digest = hashlib.sha256(f"{to_numpy(fakes[:0]).dtype.str} {(m, d)}".encode())
        found: Sketch | None = None
        for start in range(0, m, rows):
            piece = moved(fakes[start : start + rows], str(self.balls.cloud.device))
            digest.update(to_numpy(piece).tobytes())
            counts = count_fakes(self.balls, self.clipped, piece, ties=about.ties, first_row=start, gallery=GALLERY)
            sample = RandomSample.of(piece, most=ROWS, seed=int(about.settings["seed"]))
            part = Sketch(about, (), Moments.of_matrix(piece), counts, sample)
            found = part if found is None else found.joined(part)
            if progress is not None:
                progress(min(start + rows, m), m)
        assert found is not None
        return replace(found, shards=(SketchedShard(digest.hexdigest(), name, m),))


class SketchedRun(WholeRun):
    """The readings of a sketch: a run over the samples that it keeps, except for what is a sum over all samples."""

    def __init__(self, name: str, metrics: Sequence[str], sketch: Sketch) -> None:
        about, sides = sketch.reference, Side(sketch.reference.rows).on_one_grid(Side(sketch.sample.rows))
        super().__init__(name, metrics, *sides, k=about.k, ties=about.ties, seed=int(about.settings["seed"]))
        self.sketch = sketch

    @property
    def totals(self) -> tuple[int, int]:
        return self.sketch.reference.n, self.sketch.n

    def fitted(self, side: str, output: str | None = None) -> Moments:
        if output is not None:
            raise ValueError(f"a sketch holds the features of an encoder, not its output `{output}`. Use `assess`.")
        return self.sketch.reference.moments if side == "real" else self.sketch.moments

    def ball_scores(self) -> Mapping[str, Score]:
        return self.sketch.ball_scores()

    def clipped_scores(self) -> Mapping[str, Score]:
        return {name: score for name, score in self.sketch.ball_scores().items() if name.startswith("clipped")}

    @property
    def neighborhoods(self) -> Neighborhoods:
        raise ValueError(f"a metric {BETWEEN_FAKES}")

    @property
    def sources(self) -> Mapping[str, Side]:
        return {}

    @property
    def about(self) -> Mapping[str, Any]:
        sketch, about = self.sketch, self.sketch.reference
        lists = {"least_realistic": sketch.least_realistic, "closest_copies": sketch.closest_copies}
        said = [*about.protocol.get("notices", ()), *notices(self._sides)]
        return {
            "dimension": about.settings["dimension"],
            **about.protocol,
            "real": about.protocol.get("real", {}) | self.real.record.to_dict(),
            "fake": self.fake.record.to_dict(),
            **({"notices": said} if said else {}),
            "sketch": {
                "reference": about.identity,
                "shards": [vars(shard) for shard in sketch.shards],
                **{name: [vars(one) for one in found] for name, found in lists.items()},
            },
        }
