"""Notices about the samples behind a result: what may explain a score apart from the model."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from precall.encoders.registry import FORMER
from precall.metrics.inputs.records import first_equal_row, of_categories
from precall.metrics.inputs.sides import Side
from precall.printing import shown
from precall.samples import SampleSet
from precall.theory.arrays import Array, Counts

MOST_TEXTS = 20_000  # texts whose length is measured, evenly spaced
APART = 0.3  # distance between the distributions of lengths above which they differ a lot
RATIO = 1.5  # of quantiles, above which they differ a lot
LEVEL = 1.95  # quantile of Kolmogorov's distribution, 99.9 %
MOST_ROWS = 50_000  # rows that are compared with each other
FEWEST = 20  # repeats in a set that are worth a sentence
REPEATS = 0.1  # share of rows that a set alone repeats from which this is said


def notices(sides: Mapping[str, Side]) -> list[str]:
    """Sentences about the samples of the sides: what was replaced, left out or repeated, and lengths that differ."""
    real, *others = sides.items()
    found = [f"{name}: {note}" for name, side in sides.items() if side.samples for note in side.samples.notes]
    found += [f"{name}: only {part}." for name, side in sides.items() if (part := side.record.subsample)]
    rounded = [(name, side.record.storage) for name, side in sides.items() if side.record.storage]
    found += [f"{name}: the values were {how}. Store both sides in the same way." for name, how in rounded]
    former = {encoder: kind for kind, encoder in FORMER.items()}.get(real[1].record.encoder or "")
    if real[1].record.reference is not None and former:
        found.append(
            f"real: the reference was made with {real[1].record.encoder}, the former default of {former}, and so are "
            "the fakes encoded. Make it again to use the present default."
        )
    for name, side in others:
        found += _leaked(real[1], side) if name == "holdout" else _repeats(real[1], side, name)
        if real[1].samples is not None and side.samples is not None:
            found += [*_extra_columns(real[1].samples, side.samples, name), *_lengths(real[1], side, name)]
    return found


def _extra_columns(real: SampleSet, other: SampleSet, name: str) -> list[str]:
    """Columns of a table that the real one does not have."""
    known, given = (getattr(samples, "columns", ()) for samples in (real, other))
    extra = shown(", ".join([column for column in given if column not in known][:20]))
    return [f"{name}: columns that `real` does not have are ignored: {extra}."] if known and extra else []


def _occurrences(real: Side, other: Side) -> tuple[Array, Counts, Counts] | None:
    """All rows, and how often each first one of equal rows occurs in both sides; None on a device or for many rows."""
    a, b = real.features, other.features
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)) or len(a) + len(b) > MOST_ROWS:
        return None
    first = first_equal_row(rows := np.concatenate([a, b]))
    p, q = (np.bincount(one, minlength=len(first)) for one in (first[: len(a)], first[len(a) :]))
    return rows, p, q


def _leaked(real: Side, holdout: Side) -> list[str]:
    """Samples of the holdout that are training data, if they are more than the data repeat each other."""
    if (found := _occurrences(real, holdout)) is None:
        return []
    _, p, q = found
    n, m, shared = p.sum(), q.sum(), q[p > 0].sum()
    usual = p[p > 1].sum() / n
    if shared / m <= usual + 3 * (usual * (1 - usual) * (1 / n + 1 / m)) ** 0.5:  # three standard errors
        return []
    return [
        f"holdout: {shared:,} of {m:,} samples are in `real`, too. Copies of them cannot be told from unseen samples: "
        "pass samples that the model was not trained on."
    ]


def _repeats(real: Side, other: Side, name: str) -> list[str]:
    """Samples that occur several times in one side and never in the other."""
    if (occurrences := _occurrences(real, other)) is None:
        return []
    (rows, p, q), found = occurrences, []
    for of, missing_in, own, others in ((name, "real", q, p), ("real", name, p, q)):
        enough, alone = max(FEWEST, REPEATS * own.sum(), own[own > 1].sum() / 2), (own > 1) & (others == 0)
        if own[alone].sum() > enough:
            alone &= ~of_categories(rows, own)
        if own[alone].sum() > enough:
            cause = "" if of == "real" else "; if the model drew them, it has collapsed onto them"
            found.append(
                f"{of}: {own[alone].sum():,} of {own.sum():,} samples repeat each other ({alone.sum():,} different), "
                f"and `{missing_in}` contains none. If they were repeated when the file was made, remove the "
                f"repeats{cause}."
            )
    return found


def _lengths(real: Side, other: Side, name: str) -> list[str]:
    """Texts whose lengths have another distribution than those of the real side."""
    if real.samples is None or other.samples is None or {real.samples.kind, other.samples.kind} != {"text"}:
        return []
    each = [np.linspace(0, len(one.rows) - 1, min(len(one.rows), MOST_TEXTS)).astype(int) for one in (real, other)]
    a = np.array([len(real.samples[int(real.rows[place])]) for place in each[0]], dtype=np.float64)
    b = np.array([len(other.samples[int(other.rows[place])]) for place in each[1]], dtype=np.float64)
    if not lengths_differ(a, b):
        return []
    spans = " and ".join("{:.0f} to {:.0f}".format(*np.quantile(one, [0.1, 0.9])) for one in (a, b))
    return [
        f"the lengths of the texts differ: the median is {np.median(a):.0f} characters in `real` and "
        f"{np.median(b):.0f} in `{name}` (of four in five: {spans}). Features depend on the length, "
        "so the scores may measure length rather than content; cut both sides to the same length to compare content."
    ]


def lengths_differ(a: Array, b: Array) -> bool:
    """Whether two samples of lengths differ a lot.

    They do if their distributions differ more than by chance, sup |F − G| ≥ 0.3, and the 10 %, 50 % or 90 % quantile
    of one is at least 1.5 times that of the other.
    """
    low, high = np.sort([np.quantile(one, [0.1, 0.5, 0.9]) for one in (a, b)], axis=0)
    a, b, both = np.sort(a), np.sort(b), np.concatenate([a, b])
    shares = [np.searchsorted(one, both, "right") / len(one) for one in (a, b)]
    apart = np.abs(shares[0] - shares[1]).max()  # Kolmogorov and Smirnov's sup |F − G|
    by_chance = LEVEL * np.sqrt(1 / len(a) + 1 / len(b))
    return bool(apart >= max(APART, by_chance) and (high >= RATIO * np.maximum(low, 1)).any())
