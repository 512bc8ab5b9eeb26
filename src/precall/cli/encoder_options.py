"""Options that several commands share about encoders: where they run, and the protocols that choose them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from precall.samples import SampleSet

DeviceName = Annotated[
    str,
    typer.Option(
        help="Where networks, the k-NN sweep and k-means run: auto (CUDA, else MPS, else the CPU), cpu, cuda or mps. "
        "Comparisons that need float64 run on the CPU instead of MPS."
    ),
]
EncoderNames = Annotated[
    list[str] | None,
    typer.Option(
        help="Encoder for samples that are not features; give it several times to compare encoders. Images: random-vgg "
        "(default), pixels, clip, dinov2, vgg16, inception, inception-probabilities, inception-adm. Texts: ngrams "
        "(default), minilm. Or your own: package.module:function (searched in PYTHONPATH)."
    ),
]
AllowEncoder = Annotated[
    list[str] | None,
    typer.Option(
        help="Your own encoder, package.module:function, that a .precall file may name. Without it, code that a file "
        "names is never run."
    ),
]
PresetName = Annotated[
    str | None,
    typer.Option(
        help="The protocol of a published evaluation, which chooses encoder, metrics, k and balls: adm, stylegan, "
        "dgm-eval, prdc, prd, mauve or llm. `precall presets` lists them."
    ),
]


def requested_encoders(given: Sequence[str] | None, real: SampleSet, allowed: Sequence[str] | None) -> list[str] | None:
    """The encoders that the user names, or else the one that a stored reference names, if it may; None for neither."""
    from precall.encoders.registry import named_by_file

    if given:
        return list(given)
    stored = named_by_file(getattr(real, "encoder", None), real.name, allowed or ())
    return None if stored is None else [stored]


def check_preset(name: str, metrics: list[str] | None, k: int, ties: str) -> None:
    """Refuse an unknown preset, and choices beside it that contradict it."""
    from precall.metrics.presets import preset_named

    try:
        preset_named(name, metrics=metrics, k=None if k == 5 else k, ties=None if ties == "closed" else ties)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--preset") from None
