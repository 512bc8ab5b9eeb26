"""Gates: limits that the scores of a model must keep, as in `--min-recall 0.5 --max-fid 20`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from precall.metrics.scores.score import Score, encoded


@dataclass(frozen=True)
class Gate:
    """A limit on one score, which a score equal to it meets."""

    score: str  # name of the score
    kind: str  # "min" if the score must be at least the limit, "max" if it must be at most the limit
    limit: float  # the limit. A score equal to it meets the gate
    cautious: bool = False  # whether the worse end of the interval is compared; without an interval it is missed

    def __post_init__(self) -> None:
        if self.kind not in ("min", "max"):
            raise ValueError(f"the kind of a gate must be 'min' or 'max'; got {self.kind!r}.")
        if math.isnan(self.limit):
            raise ValueError(f"the limit of the gate on {self.score!r} must be a number; got nan.")

    def met(self, scores: Mapping[str, Score]) -> bool:
        """Whether the score meets the gate. A score that is undefined or was not computed does not."""
        value = self._compared(scores)
        return value is not None and self._holds(value)

    def missed(self, scores: Mapping[str, Score], label: str) -> str:
        """How a model misses the gate, as the end of a sentence: "has recall 0.4, below 0.5"."""
        value, end = self._compared(scores), {"min": "lower", "max": "upper"}[self.kind]
        if value is None:
            return f"has no {'interval of ' if self.cautious else ''}{label}. Pass more samples."
        what = f"{end} end of {label}" if self.cautious else label
        return f"has {what} {value:.4g}, {'below' if self.kind == 'min' else 'above'} {self.limit:g}"

    def _compared(self, scores: Mapping[str, Score]) -> float | None:
        score = scores.get(self.score)
        if score is None or not self.cautious:
            return None if score is None else score.value
        return None if score.interval is None else score.interval.low if self.kind == "min" else score.interval.high

    def certain(self, scores: Mapping[str, Score]) -> bool:
        """Whether the whole interval of the score lies on the side of the limit on which the score lies."""
        interval = scores[self.score].interval if self.score in scores else None
        ends = set() if interval is None else {self._holds(interval.low), self._holds(interval.high)}
        return ends == {self.met(scores)}

    def _holds(self, value: float) -> bool:
        return value >= self.limit if self.kind == "min" else value <= self.limit

    def to_dict(self) -> dict[str, Any]:
        cautious = {"cautious": True} if self.cautious else {}
        return {"score": self.score, "kind": self.kind, "limit": encoded(self.limit), **cautious}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Gate:
        if not isinstance(saved["score"], str):
            raise ValueError(f"the score of a gate must be text; got {type(saved['score']).__name__}.")
        return cls(saved["score"], saved["kind"], float(saved["limit"]), bool(saved.get("cautious", False)))
