"""`precall list`: the encoders, metrics and presets that can be named, plug-ins included."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from precall.cli.console import emit
from precall.printing import hanging


def list_names(
    what: Annotated[Literal["encoders", "metrics", "presets"], typer.Argument(help="What to list.")],
) -> None:
    """List encoders, metrics or presets by name, with those that other packages add.

    Examples:

    \b
      precall list encoders
    """
    from precall.encoders.forms import FORMS
    from precall.encoders.registry import ENCODERS
    from precall.metrics.assessing.registry import METRICS
    from precall.metrics.protocols.presets import PRESETS
    from precall.plugins import listed

    if what == "encoders":
        own = {name: (make.__doc__ or "").split("\n")[0] for name, make in ENCODERS.items()}
        own |= {f"{name}:…": (make.__doc__ or "").split("\n")[0] for name, make in FORMS.items()}
    elif what == "metrics":
        own = {name: metric.reads for name, metric in METRICS.items()}
    else:
        own = {name: preset.source for name, preset in PRESETS.items()}
    emit("\n".join(hanging(listed(what, own))))
