"""`precall encode`: compute the features of samples and save them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from precall.cli.console import KEYED, EncoderName, Key, OnError, bars, note


def encode(
    samples: Annotated[
        str, typer.Argument(help="A folder or zip of images, a text file, or another source of samples.")
    ],
    out: Annotated[
        Path, typer.Option(help="The .npy file to write. The protocol is written to a .json file with the same name.")
    ],
    encoder: EncoderName = None,
    key: Key = None,
    on_error: OnError = "fail",
) -> None:
    """Compute the features of samples once, to reuse them in many assessments.

    Examples:

      precall encode images/ --out features.npy

      precall encode images.zip --encoder pixels --out features.npy

      precall encode answers.jsonl --key answer --out features.npy
    """
    import numpy as np

    from precall.encoders import encode as run
    from precall.files import open_atomically, write_atomically
    from precall.progress import stage_of
    from precall.samples import open_samples

    if key is not None and Path(samples).suffix.lower() not in KEYED:
        raise typer.BadParameter(f"{samples} has no names to choose from ({' '.join(KEYED)})", param_hint="--key")
    with bars() as progress:
        found = run(open_samples(samples, key=key, on_error=on_error), encoder, progress=stage_of(progress, "encode"))
    with open_atomically(out) as file:
        np.save(file, np.asarray(found.array), allow_pickle=False)
    protocol = json.dumps(found.to_dict() | {"ids": list(found.ids)}, indent=1) + "\n"
    write_atomically(out.with_suffix(".json"), protocol.encode())
    note(f"{out}: {found.shape[0]} samples, {found.shape[1]} dimensions ({found.encoder})")
