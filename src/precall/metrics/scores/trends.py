"""A trend: scores at several values of one setting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from precall.metrics.scores.score import decoded, encoded


@dataclass(frozen=True)
class Trend:
    """Scores of one model at several values of one setting: the neighbours k, or the sample size n.

    Attributes:
        at: The values of the setting, in increasing order.
        n: Number of samples per side at each value.
        scores: Values of each score, by name; None where it was not computed.

    Example:
        >>> trend = Trend((1, 3), (500, 500), {"recall": (0.25, 0.5)})
        >>> Trend.from_dict(trend.to_dict()) == trend
        True
    """

    at: tuple[int, ...]
    n: tuple[int, ...]
    scores: Mapping[str, tuple[float | None, ...]]

    def to_dict(self) -> dict[str, Any]:
        """The trend as JSON-ready values."""
        scores = {name: [None if x is None else encoded(x) for x in values] for name, values in self.scores.items()}
        return {"at": list(self.at), "n": list(self.n), "scores": scores}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Trend:
        """The trend that `to_dict` wrote."""
        scores = {
            name: tuple(None if x is None else decoded(x) for x in values) for name, values in saved["scores"].items()
        }
        return cls(tuple(map(int, saved["at"])), tuple(map(int, saved["n"])), scores)
