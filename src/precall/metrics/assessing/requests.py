"""What is requested of `assess`: one object of settings, and checks of it before anything is computed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, TypeVar

from precall.metrics.copies.memorization import MEMORIZATION
from precall.metrics.inputs.features import Pair
from precall.metrics.protocols.presets import PRESETS, Preset, preset_named
from precall.metrics.scores.metric import Metric
from precall.progress import Progress
from precall.samples.columns import TableChoice

if TYPE_CHECKING:
    from precall.encoders import Encoder

    F = TypeVar("F", bound=Callable[..., Any])

Groups: TypeAlias = Mapping[str, Any]


class AssessArguments(TypedDict, total=False):
    """The arguments of `assess` beside the samples, for type checkers: `Request` has the same, with their defaults."""

    holdout: object | None
    metrics: Iterable[str | Callable[..., Any]] | None
    k: int
    ties: str
    seed: int
    groups: Groups | None
    prompts: Groups | None
    encoder: Encoder | str | Sequence[Encoder | str] | None
    preset: str | None
    columns: Sequence[str] | None
    ignore: Sequence[str]
    kinds: Mapping[str, str] | None
    show_rows: bool
    device: str | None
    engine: str
    ray_address: str | None
    work: str | Path | None
    progress: Progress | None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Request:
    """The settings of an assessment, which `assess` explains; also for `Reference` and the command line."""

    holdout: object | None = None
    metrics: Iterable[str | Callable[..., Any]] | None = None
    k: int = 5
    ties: str = "closed"
    seed: int = 0
    groups: Groups | None = None
    prompts: Groups | None = None
    encoder: Encoder | str | Sequence[Encoder | str] | None = None
    preset: str | None = None
    columns: Sequence[str] | None = None
    ignore: Sequence[str] = ()
    kinds: Mapping[str, str] | None = None
    show_rows: bool = False
    device: str | None = None
    engine: str = "local"
    ray_address: str | None = None
    work: str | Path | None = None
    progress: Progress | None = None

    @classmethod
    def of(cls, function: str, options: Mapping[str, Any], *, without: Sequence[str] = ()) -> Request:
        """The request of a call of `function`; other arguments, and those it is `without`, are refused."""
        known = [one.name for one in fields(cls) if one.name not in without]
        if others := [name for name in options if name not in known]:
            raise TypeError(f"{function}() got an unexpected keyword argument {others[0]!r}")
        return cls(**options)

    @property
    def given(self) -> dict[str, Any]:
        """The settings that were chosen: those that are neither None, nor empty, nor the default."""
        values = ((one.name, getattr(self, one.name), one.default) for one in fields(self))
        return {
            name: value
            for name, value, default in values
            if value is not None and not (isinstance(value, str | int | list | tuple) and value in (default, [], ()))
        }

    @property
    def table(self) -> TableChoice | None:
        """What the user says about the columns of a table, or None."""
        choice = TableChoice(self.columns, tuple(self.ignore), dict(self.kinds or {}), self.show_rows)
        return choice if choice else None

    @property
    def protocol(self) -> Preset | None:
        """The protocol of a published evaluation, or None."""
        return None if self.preset is None else PRESETS[self.preset]

    def settled(self, names: Sequence[str] | None = None) -> Request:
        """With k and ties of the preset, if nothing else was chosen beside it; `names` are the requested metrics."""
        if self.preset is None:
            return self
        found = preset_named(self.preset, metrics=names, k=self.k, ties=self.ties)
        return replace(self, k=found.k, ties=found.ties)

    def __repr__(self) -> str:
        chosen = {name: value for name, value in self.given.items() if name != "progress"}
        return f"Request({', '.join(f'{name}={value!r}' for name, value in chosen.items())})"


def signed(function: F) -> F:
    """Decorator: a function that takes the arguments of `assess` as `**options` names them in its signature."""
    own = [one for one in inspect.signature(function).parameters.values() if one.kind != one.VAR_KEYWORD]
    arguments = inspect.signature(Request).parameters.values()
    function.__signature__ = inspect.Signature([*own, *arguments])  # type: ignore[attr-defined]
    return function


def check_holdout(names: Sequence[str], holdout: object | None) -> None:
    """Check that there is a holdout if a metric needs one."""
    if holdout is None and MEMORIZATION.name in names:
        way_out = "Pass `holdout=` (--holdout): samples of the same law that the model was not trained on."
        raise ValueError(f"the metric 'memorization' needs a holdout; got none. {way_out}")


def check_groups(pairs: Sequence[Pair], metrics: Sequence[Metric]) -> None:
    """Check that the smallest group has enough samples for every metric."""
    small = min(min(pair.sizes) for pair in pairs)
    needed = max((metric.fewest for metric in metrics), default=2)
    if small < needed:
        way_out = 'Merge small groups, or request `metrics=("clusters", "neighbors")`.'
        expected = f"at least {needed} real and {needed} fake samples each for a classifier's curve"
        raise ValueError(f"`groups` must hold {expected}; the smallest has {small}. {way_out}")


def check_statistics(name: str, metrics: Sequence[Metric], groups: Groups | None) -> None:
    """Check that every metric can be computed from the statistics (mu, sigma) that were given instead of samples."""
    if others := [metric.name for metric in metrics if not metric.from_statistics]:
        way_out = 'Pass `metrics=("fid",)` (--metrics fid), or samples instead of statistics.'
        got = f"which give FID only; got metrics {', '.join(others)}"
        raise ValueError(f"`{name}` holds statistics (mu, sigma), {got}. {way_out}")
    if groups is not None:
        raise ValueError(f"`groups` needs samples; `{name}` holds statistics (mu, sigma). Leave `groups` out.")


def check_prompts(names: Sequence[str], prompts: object | None, **others: object | None) -> None:
    """Check that there are prompts if a metric needs them, and then no others: no preset, and no groups."""
    if prompts is None and "prompts" in names:
        raise ValueError("the metric 'prompts' needs prompts; got none. Pass `prompts=` (--prompt).")
    if prompts is not None and (given := [name for name, value in others.items() if value is not None]):
        raise ValueError(f"`prompts` cannot be combined with `{given[0]}`. Leave one of them out.")


def groups_of(groups: Groups | None, name: str, argument: str = "groups") -> Groups | None:
    """The groups, or the prompts, of one model."""
    if groups is not None and not isinstance(groups, Mapping):
        way_out = 'For a column of tables, pass `{"real": real["name"], "fake": fake["name"]}`.'
        raise ValueError(f"`{argument}` must map 'real' and 'fake' to labels; got {type(groups).__name__}. {way_out}")
    if groups is None or not isinstance(labels := groups.get("fake"), Mapping):
        return groups
    if name not in labels:
        raise ValueError(f"`{argument}` must hold labels for each model; got none for {name!r}.")
    return {**groups, "fake": labels[name]}
