"""One assessment with several encoders: the scores of each, and where they disagree about the order of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np

from precall.encoders import Encoder
from precall.metrics.scores.results import Assessment
from precall.metrics.scores.score import Score
from precall.samples import open_samples
from precall.theory.arrays import is_tensor

ORDERED = {"area": -1, "fid": 1, "precision": -1, "recall": -1}  # score: the sign that puts the better model first


def encoders_of(encoder: Encoder | str | Sequence[Encoder | str] | None) -> list[Encoder | str | None]:
    """The encoders that were requested, each once."""
    if not isinstance(encoder, list | tuple):
        return [encoder]  # type: ignore[list-item]
    names = [one if isinstance(one, str) else one.name for one in encoder]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"`encoder` must name different encoders; got {', '.join(names) or 'none'}.")
    return list(encoder)


def opened_once(name: str, source: Any) -> Any:
    """The samples, opened because several encoders will read them: an iterable can be read once only."""
    if is_tensor(source) or (isinstance(source, np.ndarray) and source.ndim == 2):
        raise ValueError(f"several encoders need samples; `{name}` holds features. Leave out `encoder`.")
    known = isinstance(source, str) or hasattr(source, "__fspath__") or hasattr(source, "side")
    return source if known else open_samples(source)


def by_encoder(found: Sequence[Assessment]) -> Assessment:
    """The assessment with the first encoder, which holds those with the others."""
    first, *others = found
    return first if not others else replace(first, encoders={str(one.encoder): one for one in others})


def each_encoder(one: Assessment) -> dict[str | None, Assessment]:
    """The assessments of a model by encoder, the main one first."""
    return {one.encoder: one} | dict(one.encoders)


def disagreements(comparison: Mapping[str, Assessment]) -> list[str]:
    """Where encoders clearly disagree about the order of two models, as sentences.

    Two encoders disagree about a score if each puts another model first and the intervals of the two models do not
    overlap with either of them. An order that is within the uncertainty is no disagreement.
    """
    found = []
    for ((a, one), (b, other)), (score, sign) in product(combinations(comparison.items(), 2), ORDERED.items()):
        order: dict[bool, str] = {}
        for encoder, mine in each_encoder(one).items():
            theirs = each_encoder(other).get(encoder)
            if theirs is not None and (leads := _leads(mine, theirs, score, sign)) is not None:
                order.setdefault(leads, str(encoder))
        if len(order) == 2:
            orders = f"{order[True]} puts {a} before {b}, and {order[False]} puts {b} before {a}"
            found.append(f"The encoders disagree: by {score}, {orders}.")
    return found


def _leads(one: Assessment, other: Assessment, score: str, sign: int) -> bool | None:
    mine, theirs = one.scores.get(score), other.scores.get(score)
    if mine is None or theirs is None or _overlap(mine, theirs):
        return None
    return sign * mine.value < sign * theirs.value


def _overlap(one: Score, other: Score) -> bool:
    if one.interval is None or other.interval is None:
        return one.value == other.value
    return one.interval.low <= other.interval.high and other.interval.low <= one.interval.high
