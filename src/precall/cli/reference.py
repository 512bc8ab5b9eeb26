"""`precall reference`: features of the data with the work on them, in one file for many assessments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from precall.cli.console import EncoderName, Key, OnError, bars, note
from precall.cli.encoder_options import DeviceName
from precall.devices import check_device

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Make a reference: the data, encoded once, in one file for many assessments.",
)


@app.callback()
def reference() -> None:
    """Make a reference: the data, encoded once, in one file for many assessments."""


@app.command()
def make(
    samples: Annotated[str, typer.Argument(help="The data: a folder or zip of images, .npy, .npz, .txt, …")],
    out: Annotated[Path, typer.Option(help="The file to write, which must end in .precall.")],
    encoder: EncoderName = None,
    device: DeviceName = "auto",
    k: Annotated[int, typer.Option(help="Number of neighbours that define a ball.")] = 5,
    subsample: Annotated[
        int | None, typer.Option(help="Keep this many samples, chosen at random; reports name the subsample.")
    ] = None,
    approximate_radii: Annotated[bool, typer.Option("--approximate-radii", hidden=True)] = False,
    pilot: Annotated[str | None, typer.Option(hidden=True)] = None,
    key: Key = None,
    on_error: OnError = "fail",
) -> None:
    """Encode the data and write features, moments, k-NN balls and the protocol to one file.

    The file contains no samples, only their features. Every array is verified by its SHA-256 when it is read.

    Examples:

      precall reference make data/ --out data.precall

      precall assess --real data.precall --fake samples/
    """
    from precall.files import check_output
    from precall.metrics.reference import Reference
    from precall.samples.opening import KEYED, open_samples, takes_key

    check_device(device)
    if out.suffix.lower() != ".precall":
        raise typer.BadParameter(f"expected a file that ends in .precall; got {out}", param_hint="--out")
    if key is not None and not takes_key(samples):
        raise typer.BadParameter(f"{samples} has no names to choose from ({' '.join(KEYED)})", param_hint="--key")
    if approximate_radii:
        raise typer.BadParameter("is no longer needed: the exact search is as fast", param_hint="--approximate-radii")
    if pilot is not None:
        raise typer.BadParameter("is no longer needed: sketches keep a sample of the fakes", param_hint="--pilot")
    check_output(out, sources=[samples])
    opened = open_samples(samples, key=key, on_error=on_error)
    with bars() as progress:
        found = Reference.fit(opened, k=k, encoder=encoder, device=device, progress=progress)
        found = found if subsample is None else found.subsample(subsample)
        found.save(out)
    n, d = found.features.shape
    note(f"{out}: {n} samples, {d} dimensions ({found.side.protocol.get('encoder', 'features')}), k = {k}")
