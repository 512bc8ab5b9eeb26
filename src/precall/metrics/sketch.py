"""Sketches: what a shard of fakes contributes to the scores against fixed data. Sketches of shards are merged.

With a fixed reference, every score that needs no distance between two fakes is a function of sums over the fakes:
moments, counts in frozen k-means cells, counts in the balls of the reals, and short lists of extreme samples. A sketch
holds these sums. Merging adds them, so that the result does not depend on how the fakes were cut into shards, nor on
the order of merging: counts are equal exactly, and moments up to rounding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from precall.metrics.features import Features, moved, tiles
from precall.metrics.frechet_distance import fid
from precall.metrics.frozen_cells import CELLS, FrozenCells, cell_scores, histogram_spectrum_of_counts
from precall.metrics.frozen_classifier import FrozenClassifier, level_scores, levels_certificate, levels_spectrum
from precall.metrics.moments import Moments
from precall.metrics.neighbors.ball_sums import BallSums, FakeCounts, Shortest, SummedBalls
from precall.metrics.neighbors.one_way_scores import copy_score, one_way_scores
from precall.metrics.results import Assessment, PerSample
from precall.metrics.score import Score
from precall.metrics.sketch_reference import SketchReference, checked_levels
from precall.printing import brief, shown
from precall.progress import StageProgress
from precall.samples.archives import ArrayArchive
from precall.theory.arrays import Counts, to_numpy

if TYPE_CHECKING:
    from precall.metrics.neighbors.sweep import Balls
    from precall.theory.bands import Certificate
    from precall.theory.spectrum import RatioSpectrum

SKETCH = ArrayArchive("sketch", ".sketch", 1, made_by="precall sketch")
GALLERY = 24  # fakes in the lists of the least realistic ones and of the closest copies
METRICS = ("clusters", "neighbors", "clipped", "copies", "fid")  # whose scores a sketch has, at least in part
PIECE_VALUES, PIECE_ROWS = 1 << 23, (1 << 14, 1 << 16)  # feature values, and rows, of a piece of a shard
FROM_PAIRS = frozenset(
    {"recall", "precision_cover", "symmetric_precision", "symmetric_recall", "p_precision", "p_recall", "kid"}
)
NO_INTERVAL = "none: it needs every sample, and a sketch holds their moments"


class SketchScores(dict[str, Score]):
    """Scores by name. The error about a score that no sketch can have says why."""

    def __missing__(self, name: str) -> Score:
        if name in FROM_PAIRS:
            why = "needs the distances between fakes, which a sketch does not hold"
            raise MissingScoreError(f"`{name}` {why}. Assess the features of all shards together with `assess`.")
        raise MissingScoreError(
            f"a sketch has the scores {', '.join(self)}; got `{name}`. Use `assess` for other scores."
        )


class MissingScoreError(KeyError):
    """Raised for a score that a sketch does not have."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class SketchedShard:
    """A shard of fakes in a sketch.

    Attributes:
        identity: SHA-256 of its features.
        name: Where it came from.
        n: Number of fakes.
    """

    identity: str
    name: str
    n: int


@dataclass(frozen=True)
class ListedFake:
    """A fake in one of the lists of a sketch.

    Attributes:
        shard: Name of its shard.
        row: Index of its row in the shard.
        value: Its realism, or its copy ratio.
        real: Index of its nearest real sample.
    """

    shard: str
    row: int
    value: float
    real: int


@brief
@dataclass(frozen=True, eq=False)
class Sketch:
    """The sums of one or more shards of fakes, from which scores are read. Sketches of disjoint shards are merged.

    Attributes:
        reference: What it knows about the data.
        shards: The shards, sorted by their identity.
        moments: Moments of the fakes.
        cells: Number of fakes in each frozen cell, shape (repeats, cells).
        counts: Counts of the fakes in the balls of the reals, and lists of extreme fakes.
        levels: Number of fakes at each level of a frozen classifier, or None if the reference has none.

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

    reference: SketchReference
    shards: tuple[SketchedShard, ...]
    moments: Moments
    cells: Counts
    counts: FakeCounts = field(repr=False)
    levels: Counts | None = field(default=None, repr=False)

    @property
    def n(self) -> int:
        """Number of fakes."""
        return sum(shard.n for shard in self.shards)

    def merge(self, other: Sketch) -> Sketch:
        """The sketch of the shards of both; see `merge_sketches`."""
        return merge_sketches([self, other])

    def __add__(self, other: Sketch) -> Sketch:
        return self.merge(other)

    @property
    def scores(self) -> Mapping[str, Score]:
        """The scores by name, with intervals.

        Precision, density, coverage, recall cover, copies and the clipped scores have the values and the intervals of
        one assessment of all shards together. FID has no interval, because that needs every sample. The curve is that
        of k-means cells frozen on the reference. If the reference has a frozen classifier, the scores of its curve
        begin with `quadratic_`. Recall, precision cover and the symmetric scores need distances between fakes and are
        not here.
        """
        if self.n < 2:
            raise ValueError(f"scores need at least 2 fakes; this sketch has {self.n}. Merge more shards.")
        about, ties = self.reference, self.reference.ties
        numbers = self._numbers(self.counts.nearest)
        balls, clipped = (self._balls(sums, numbers) for sums in (self.counts.balls, self.counts.clipped))
        distance = fid(real=about.moments, fake=self.moments)
        return SketchScores(
            {
                **cell_scores(about.cells, self.cells, seed=int(about.settings["seed"])),
                **one_way_scores(balls, clipped, ideal=about.ideal, ties=ties),
                "copies": copy_score(self.counts.copies, n_fake=self.n, expected=about.expected_copies, ties=ties),
                "fid": replace(distance, settings={**distance.settings, "interval": NO_INTERVAL}),
                **self._classifier_scores(),
            }
        )

    def _classifier_scores(self) -> dict[str, Score]:
        if self.levels is None or self.reference.levels is None:
            return {}
        found = level_scores(self.reference.levels, self.levels, seed=int(self.reference.settings["seed"]))
        return {f"quadratic_{name}": score for name, score in found.items()}

    @property
    def spectra(self) -> dict[str, RatioSpectrum]:
        """The spectra of all curves, by the name of their estimator."""
        found = {"clusters": self.spectrum}
        if self.levels is None or self.reference.levels is None:
            return found
        return found | {"quadratic": levels_spectrum(self.reference.levels, self.levels)}

    @property
    def certificate(self) -> Certificate | None:
        """Simultaneous upper band on the true curve, from the frozen classifier; None if there is none."""
        if self.levels is None or self.reference.levels is None:
            return None
        return levels_certificate(self.reference.levels, self.levels)

    @property
    def spectrum(self) -> RatioSpectrum:
        """The spectrum of the histograms in the frozen cells."""
        return histogram_spectrum_of_counts(self.reference.cells, self.cells)

    @property
    def least_realistic(self) -> list[ListedFake]:
        """The fakes with the smallest realism, the smallest first."""
        return self._listed(self.counts.unrealistic)

    @property
    def closest_copies(self) -> list[ListedFake]:
        """The fakes with the smallest copy ratio, the smallest first."""
        return self._listed(self.counts.closest)

    def assessment(self, name: str = "fake") -> Assessment:
        """The scores and the curve as the result of `assess`, which prints as a table and can be written as a report.

        Args:
            name: Name of the model.
        """
        return Assessment(
            name=name,
            estimator="clusters",
            spectra=self.spectra,
            scores=self.scores,
            certificate=self.certificate,
            real=PerSample(),
            fake=PerSample(),
            protocol=self._protocol(),
        )

    def save(self, path: str | Path) -> Path:
        """Write the sketch to a `.sketch` file.

        Args:
            path: The file, whose name must end in `.sketch`.

        Example:
            >>> import tempfile
            >>> from precall import Reference, Sketch
            >>> x = np.random.default_rng(0).normal(size=(80, 2))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     sketch = Sketch.load(Reference.fit(x).sketch(x + 1).save(f"{folder}/part.sketch"))
            >>> sketch.n
            80
        """
        about = {"reference": self.reference.about(), "shards": [vars(shard) for shard in self.shards]}
        arrays = {"mean": self.moments.mean, "scatter": self.moments.scatter, "cells": self.cells}
        arrays |= self.reference.arrays() | self.counts.arrays()
        arrays |= {} if self.levels is None else {"levels": self.levels}
        SKETCH.write(Path(path), {name.replace(" ", "_"): array for name, array in arrays.items()}, about)
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Sketch:
        """The sketch that `save` wrote. Every array is verified by its SHA-256."""
        place = Path(path)
        about = SKETCH.about(place, {"reference": dict, "shards": list})
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
        cells, moments = arrays["cells"], reference.moments_like(arrays["mean"], arrays["scatter"], int(sizes.sum()))
        if cells.shape != reference.cells.shape or cells.dtype != np.int64 or (cells.sum(1) != sizes.sum()).any():
            raise ValueError("cells")
        named = {name.replace("_", " "): array for name, array in arrays.items()}
        counts = FakeCounts.of_arrays(named, n=reference.n, shards=sizes)
        if ("levels" in arrays) != (reference.levels is not None):
            raise ValueError("levels")
        levels = checked_levels("levels", arrays["levels"], int(sizes.sum())) if "levels" in arrays else None
        return cls(reference, shards, moments, cells, counts, levels)

    def _protocol(self) -> dict[str, Any]:
        repeats, cells = self.cells.shape
        settings = dict(self.reference.settings)
        lists = {"least_realistic": self.least_realistic, "closest_copies": self.closest_copies}
        return {
            "n_real": self.reference.n,
            "n_fake": self.n,
            "dimension": settings["dimension"],
            "metrics": list(METRICS),
            **{key: settings[key] for key in ("k", "ties", "seed")},
            **self.reference.protocol,
            "sketch": {
                "cells": f"{cells} k-means cells, {repeats} repeats, seed {settings['seed']}, {CELLS}",
                "reference": self.reference.identity,
                "shards": [vars(shard) for shard in self.shards],
                **{name: [vars(one) for one in found] for name, found in lists.items()},
            },
        }

    def _balls(self, sums: BallSums, nearest: Counts) -> SummedBalls:
        return SummedBalls(self.reference.k, self.reference.neighbors, sums, nearest)

    def _numbers(self, listed: Shortest) -> Counts:
        """One number per fake, over all shards."""
        starts = np.cumsum([0, *(shard.n for shard in self.shards)])
        return np.where(listed.shard < 0, -1, starts[listed.shard] + listed.row)

    def _listed(self, found: Shortest) -> list[ListedFake]:
        lines = zip(found.shard[0].tolist(), found.row[0].tolist(), found.value[0], found.real[0].tolist(), strict=True)
        return [ListedFake(self.shards[s].name, row, float(value), real) for s, row, value, real in lines if s >= 0]


def merge_sketches(sketches: Iterable[Sketch]) -> Sketch:
    """Merge the sketches of disjoint shards into the sketch of all their fakes.

    Merging is associative and commutative: counts and lists are equal exactly, and moments up to rounding. The same
    shard must not be counted twice, so two sketches that contain the same shard are refused. A shard is recognised by
    its content.

    Args:
        sketches: Sketches of the same reference, with the same settings. They are taken one at a time, so that an
            iterator that loads them from disk needs little memory.

    Returns:
        The merged sketch.

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
    _check_same_reference(one, other)
    one, other = sorted(
        (one, other), key=lambda sketch: sketch.shards[0].identity
    )  # sums of floats depend on the order
    shards = sorted((*one.shards, *other.shards), key=lambda shard: shard.identity)
    _check_distinct(shards)
    places = {shard.identity: place for place, shard in enumerate(shards)}
    counts = [
        part.counts.renumbered(np.array([places[shard.identity] for shard in part.shards])) for part in (one, other)
    ]
    return Sketch(
        one.reference,
        tuple(shards),
        one.moments + other.moments,
        one.cells + other.cells,
        counts[0].merged(counts[1]),
        _added(one.levels, other.levels),
    )


def _added(one: Counts | None, other: Counts | None) -> Counts | None:
    return None if one is None or other is None else one + other


def _check_same_reference(one: Sketch, other: Sketch) -> None:
    if one.reference.identity != other.reference.identity:
        differences = one.reference.differences(other.reference)
        way_out = "Sketch all shards with the same reference file."
        raise ValueError(f"sketches must have the same reference; they differ in: {differences}. {way_out}")


def _check_distinct(shards: Sequence[SketchedShard]) -> None:
    """Refuse a shard that occurs twice; the shards are sorted by their identity."""
    for one, other in pairwise(shards):
        if one.identity == other.identity:
            names = " and ".join(f"`{shown(name)}`" for name in dict.fromkeys((one.name, other.name)))
            same = "is in two of the sketches" if one.name == other.name else "have the same content"
            raise ValueError(f"a shard must be counted once; {names} {same}. Merge each shard once.")


@dataclass(frozen=True, eq=False)
class Sketcher:
    """The data, prepared to sketch many shards.

    Attributes:
        reference: What sketches keep of it.
        balls: Balls of the reals, for one k.
        clipped: The same with radii of at most their median.
        cells: The frozen cells.
        classifier: The frozen classifier, or None.
    """

    reference: SketchReference
    balls: Balls = field(repr=False)
    clipped: Balls = field(repr=False)
    cells: FrozenCells = field(repr=False)
    classifier: FrozenClassifier | None = field(default=None, repr=False)

    def sketch(self, fakes: Features, name: str, progress: StageProgress | None = None) -> Sketch:
        """Sketch a shard, piece by piece: memory grows with the reference and the piece, not with the shard.

        Args:
            fakes: Checked features, shape (m, d).
            name: Name of the shard.
            progress: Called with (number of fakes done, number of fakes).
        """
        m, d = (int(size) for size in fakes.shape)
        rows = min(PIECE_ROWS[1], max(PIECE_ROWS[0], PIECE_VALUES // d))
        digest = hashlib.sha256(f"{to_numpy(fakes[:0]).dtype.str} {(m, d)}".encode())
        found: Sketch | None = None
        for start in range(0, m, rows):
            piece = moved(fakes[start : start + rows], str(self.balls.cloud.device))
            digest.update(to_numpy(piece).tobytes())
            part = self._piece(piece, start)
            found = part if found is None else _joined(found, part)
            if progress is not None:
                progress(min(start + rows, m), m)
        assert found is not None
        return replace(found, shards=(SketchedShard(digest.hexdigest(), name, m),))

    def _piece(self, fakes: Features, start: int) -> Sketch:
        from precall.metrics.neighbors.one_way import count_fakes

        cells = sum((self.cells.counts(to_numpy(tile)) for tile in tiles(fakes)), np.zeros((1, 1), dtype=np.int64))
        ties = self.reference.ties
        counts = count_fakes(self.balls, self.clipped, fakes, ties=ties, first_row=start, gallery=GALLERY)
        levels = None if self.classifier is None else self.classifier.histogram(fakes)
        return Sketch(self.reference, (), Moments.of_matrix(fakes), np.asarray(cells), counts, levels)


def _joined(one: Sketch, other: Sketch) -> Sketch:
    """Two pieces of one shard."""
    return Sketch(
        one.reference,
        (),
        one.moments + other.moments,
        one.cells + other.cells,
        one.counts.merged(other.counts),
        _added(one.levels, other.levels),
    )
