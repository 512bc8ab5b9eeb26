"""What an attack found, and how often it was tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

HARMLESS = ("read", "refused", "done")  # outcomes that are no finding
MOST = 50  # findings that are kept per target; all are counted


@dataclass(frozen=True)
class Finding:
    """Something that must not happen.

    Attributes:
        target: What was attacked.
        seed: Seed of the run.
        index: Number of the item; with target and seed, it repeats the finding.
        kind: For example "exception", "traceback", "slow", "memory", "crash", "wrong number" or "changed file".
        detail: One line for a reader.
    """

    target: str
    seed: int
    index: int
    kind: str
    detail: str


@dataclass
class Tally:
    """How many items were tried and how they ended.

    Attributes:
        next: Index of the first item that was not tried.
        tried: Number of items.
        outcomes: Number of items by outcome.
        findings: The first findings.
    """

    next: int = 0
    tried: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def note(self, kind: str) -> None:
        """Count one item."""
        self.tried += 1
        self.outcomes[kind] = self.outcomes.get(kind, 0) + 1

    def found(self, finding: Finding) -> None:
        """Count one item with a finding."""
        self.note(finding.kind)
        if len(self.findings) < MOST:
            self.findings.append(finding)

    def add(self, items: Iterable[Mapping[str, Any]]) -> None:
        """Add items as they are noted by a child, in order."""
        for item in items:
            self.next = item["index"] + 1
            if item["kind"] in HARMLESS:
                self.note(item["kind"])
            else:
                self.found(Finding(**item))

    @property
    def harmful(self) -> int:
        """Number of items with a finding."""
        return sum(count for kind, count in self.outcomes.items() if kind not in HARMLESS)

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Tally:
        """The tally that `to_dict` wrote."""
        return cls(
            saved["next"], saved["tried"], dict(saved["outcomes"]), [Finding(**one) for one in saved["findings"]]
        )
