"""Gates: limits that the scores of a model must keep, as in `--min-recall 0.5 --max-fid 20`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from precall.metrics.score import Score, decoded, encoded

KINDS = ("min", "max")


@dataclass(frozen=True)
class Gate:
    """A limit on one score.

    Attributes:
        score: Name of the score.
        kind: "min" if the score must be at least the limit, "max" if it must be at most the limit.
        limit: The limit. A score equal to it meets the gate.

    Example:
        >>> gate = Gate("recall", "min", 0.5)
        >>> gate.met({"recall": Score(0.6)}), gate.met({"recall": Score(0.4)}), gate.met({"fid": Score(1.0)})
        (True, False, False)
    """

    score: str
    kind: str
    limit: float

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"the kind of a gate must be 'min' or 'max'; got {self.kind!r}.")
        if math.isnan(self.limit):
            raise ValueError(f"the limit of the gate on {self.score!r} must be a number; got nan.")

    def met(self, scores: Mapping[str, Score]) -> bool:
        """Whether the score meets the gate. A score that is undefined or was not computed does not."""
        return self.score in scores and self._holds(scores[self.score].value)

    def certain(self, scores: Mapping[str, Score]) -> bool:
        """Whether the whole interval of the score lies on the side of the limit on which the score lies.

        It is False if the score has no interval.
        """
        interval = scores[self.score].interval if self.score in scores else None
        if interval is None:
            return False
        return self._holds(interval.low) == self._holds(interval.high) == self.met(scores)

    def _holds(self, value: float) -> bool:
        return value >= self.limit if self.kind == "min" else value <= self.limit

    def to_dict(self) -> dict[str, Any]:
        """The gate as JSON-ready values."""
        return {"score": self.score, "kind": self.kind, "limit": encoded(self.limit)}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Gate:
        """The gate that `to_dict` wrote."""
        if not isinstance(saved["score"], str):
            raise ValueError(f"the score of a gate must be text; got {type(saved['score']).__name__}.")
        return cls(saved["score"], saved["kind"], decoded(saved["limit"]))
