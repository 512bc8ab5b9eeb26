"""The run behind a result: its settings and samples as one typed record, and how its scores change with k and n."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar

from precall.metrics.scores.score import encoded

R = TypeVar("R", bound="Recorded")


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A part of a record, which is a JSON object in a file."""

    further: Mapping[str, Any] = field(default_factory=dict, repr=False)  # entries that are no attributes

    def to_dict(self) -> dict[str, Any]:
        """The record as a JSON object, without what is not known."""
        known: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name != "further" and (value is not None or one.default is MISSING):
                known[one.name] = value.to_dict() if isinstance(value, Recorded) else value
        return known | dict(self.further)

    @classmethod
    def from_dict(cls: type[R], saved: Mapping[str, Any]) -> R:
        """The record that `to_dict` wrote."""
        names = {one.name for one in fields(cls)} - {"further"}
        known = {name: value for name, value in saved.items() if name in names}
        return cls(**known, further={name: value for name, value in saved.items() if name not in names})


@dataclass(frozen=True, kw_only=True)
class SideRecord(Recorded):
    """Where the features of one side come from; nothing is known if features were given."""

    encoder: str | None = None  # name of the encoder
    protocol: Mapping[str, Any] | None = None  # everything that determines the encoder
    fingerprint: str | None = None  # hash of the content of the samples
    shape: Sequence[int] | None = None  # number of samples and of features
    errors: Sequence[Mapping[str, str]] | None = None  # samples that could not be read, each with `id` and `reason`
    storage: str | None = None  # how the features were rounded, if they were
    subsample: str | None = None  # which of the samples were taken, if not all
    statistics: str | None = None  # the file of statistics, if they were given instead of samples
    reference: str | None = None  # the reference file that the features come from, and what it was made from
    made_from: str | None = None


@dataclass(frozen=True, kw_only=True)
class PresetRecord(Recorded):
    """The preset of a run, with its choices in `further`."""

    name: str  # its name
    departures: Sequence[str]  # in which ways the run departs from it


@dataclass(frozen=True, kw_only=True)
class OneSided(Recorded):
    """The groups that only one side has."""

    only_real: Sequence[Any] = ()
    only_fake: Sequence[Any] = ()


@dataclass(frozen=True, kw_only=True)
class RunRecord(Recorded):
    """Sizes, settings, samples and versions that reproduce the numbers of a result."""

    n_real: int | None  # number of real samples; None for statistics of an unknown number of samples
    n_fake: int | None  # number of fake samples
    n_holdout: int | None = None  # number of held-out samples
    sample: Sequence[int] | None = None  # numbers of samples behind scores that cannot merge, if fewer
    metrics: Sequence[str]  # names of the metrics
    k: int  # number of neighbours that define a ball
    ties: str  # "closed" or "open"
    seed: int  # seed of everything random
    dimension: int  # number of features
    constant_columns: Sequence[int] | None = None  # features with the same value in all samples
    device: str | None = None  # where the features were
    real: SideRecord | None = None  # where the real features come from, and the same for the other sides
    fake: SideRecord | None = None
    holdout: SideRecord | None = None
    prompts: Mapping[str, Any] | None = None  # what was noticed about the prompts
    contains: str | None = None  # what a report about tables contains of them
    notices: Sequence[str] | None = None  # sentences about the samples that may explain a score
    groups: OneSided | None = None  # groups that only one side has
    preset: PresetRecord | None = None  # the protocol of a published evaluation
    sketch: Mapping[str, Any] | None = None  # the shards of a sketch
    date: str | None = None  # day of the computation
    versions: Mapping[str, str]  # versions of the packages that determine the numbers

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> RunRecord:
        parts = {name: kind.from_dict(saved[name]) if saved.get(name) else None for name, kind in PARTS.items()}
        return super().from_dict({**saved, **parts})

    @property
    def sides(self) -> list[SideRecord]:
        return [one for one in (self.real, self.fake) if one is not None]


SIDES = ("real", "fake", "holdout")
PARTS: dict[str, type[Recorded]] = {**dict.fromkeys(SIDES, SideRecord), "groups": OneSided, "preset": PresetRecord}


@dataclass(frozen=True)
class Trend:
    """Scores of one model at several values of one setting: the neighbours k, or the sample size n."""

    at: tuple[int, ...]  # the values of the setting, in increasing order
    n: tuple[int, ...]  # number of samples per side at each value
    scores: Mapping[str, tuple[float | None, ...]]  # values of each score, by name; None where it was not computed

    def to_dict(self) -> dict[str, Any]:
        scores = {name: [None if x is None else encoded(x) for x in values] for name, values in self.scores.items()}
        return {"at": list(self.at), "n": list(self.n), "scores": scores}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Trend:
        scores = {
            name: tuple(None if x is None else float(x) for x in values) for name, values in saved["scores"].items()
        }
        return cls(tuple(map(int, saved["at"])), tuple(map(int, saved["n"])), scores)
