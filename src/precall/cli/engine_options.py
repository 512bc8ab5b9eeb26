"""Options of `precall assess` that choose where the work runs, and the assessment of sources in shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from precall.cli.console import bars

if TYPE_CHECKING:
    from precall.metrics.results import Comparison

EngineName = Annotated[
    Literal["local", "ray"],
    typer.Option(help="Where the work runs: local, this process; or ray, a Ray cluster (docs/scale.md)."),
]
RayAddress = Annotated[
    str | None,
    typer.Option(help="Address of a running Ray cluster, as in auto; without it, one is started on this machine."),
]
WorkFolder = Annotated[
    Path | None,
    typer.Option(
        help="Folder for finished parts of the work, from which an interrupted run continues. The work is then done "
        "shard by shard."
    ),
]


def is_sharded(engine: str, ray_address: str | None, work: Path | None) -> bool:
    """Whether the work is done shard by shard."""
    if ray_address is not None and engine != "ray":
        raise typer.BadParameter("it is for --engine ray; add that, or leave it out", param_hint="--ray-address")
    return engine != "local" or work is not None


def assessed_by_shards(
    real: str,
    models: Mapping[str, str],
    settings: Mapping[str, Any],
    encoder: Sequence[str] | None,
    whole: Mapping[str, object],
) -> Comparison:
    """The results of all models, shard by shard.

    Args:
        real: The data: a pattern, a folder or a file.
        models: The models' samples, by name.
        settings: Arguments of `assess_sharded`.
        encoder: Names of encoders; one at most.
        whole: Options that need all samples in one process, by name; None for one that was not given.
    """
    from precall.metrics.results import Comparison
    from precall.metrics.sharded import assess_sharded

    for option, value in whole.items():
        if value is not None:
            way_out = "leave it out, or use --engine local without --work"
            raise typer.BadParameter(f"it needs all samples in one process; {way_out}", param_hint=f"--{option}")
    if encoder is not None and len(encoder) > 1:
        raise typer.BadParameter("give one encoder if the work is done shard by shard", param_hint="--encoder")
    name = None if not encoder else encoder[0]
    with bars() as progress:
        found = assess_sharded(real=real, fake=models, encoder=name, progress=progress, **settings)
        return Comparison({one.name: one for one in found})
