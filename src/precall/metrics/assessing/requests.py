"""Checks of what is requested of `assess`, before anything is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from precall.metrics.copies.memorization import MEMORIZATION
from precall.metrics.inputs.features import Pair
from precall.metrics.inputs.sides import Side
from precall.metrics.scores.metric import Metric
from precall.progress import Progress

if TYPE_CHECKING:
    from precall.encoders import Encoder
    from precall.samples.columns import TableChoice

Groups: TypeAlias = Mapping[str, Any]


class AssessArguments(TypedDict, total=False):
    """The arguments of `assess` beside the samples; it says what they mean."""

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


def table_choice(
    columns: Sequence[str] | None, ignore: Sequence[str], kinds: Mapping[str, str] | None, show_rows: bool
) -> TableChoice | None:
    """What the user says about the columns of a table, or None."""
    from precall.samples.columns import TableChoice

    choice = TableChoice(columns, tuple(ignore), dict(kinds or {}), show_rows)
    return choice if choice else None


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


def check_statistics(name: str, found: Side, metrics: Sequence[Metric], groups: Groups | None) -> None:
    """Check that every metric can be computed if statistics (mu, sigma) were given instead of samples."""
    if found.moments is None:
        return
    if others := [metric.name for metric in metrics if not metric.from_statistics]:
        way_out = 'Pass `metrics=("fid",)` (--metrics fid), or samples instead of statistics.'
        got = ", ".join(others)
        raise ValueError(f"`{name}` holds statistics (mu, sigma), which give FID only; got metrics {got}. {way_out}")
    if groups is not None:
        raise ValueError(f"`groups` needs samples; `{name}` holds statistics (mu, sigma). Leave `groups` out.")


def check_prompts(names: Sequence[str], prompts: object | None) -> None:
    """Check that there are prompts if a metric needs them."""
    if prompts is None and "prompts" in names:
        raise ValueError("the metric 'prompts' needs prompts; got none. Pass `prompts=` (--prompt).")


def check_prompts_alone(preset: object | None, groups: Groups | None) -> None:
    """Check that prompts are not combined with a preset or with groups."""
    if preset is not None or groups is not None:
        other = "groups" if preset is None else "preset"
        raise ValueError(f"`prompts` cannot be combined with `{other}`. Leave one of them out.")


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
