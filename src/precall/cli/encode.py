"""`precall encode`: compute the features of samples and save them."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from precall.cli.console import bars, note
from precall.cli.options import EncodingOptions, takes, wrong
from precall.files import check_output, open_atomically
from precall.printing import shown
from precall.progress import stage_of
from precall.samples.reading import read_json


@dataclass(frozen=True, kw_only=True)
class EncodeOptions(EncodingOptions):
    """The options of `precall encode`.

    Arguments:
        samples (FILE): A folder or zip of images, a text file, or another source of samples.

    Options:
        out (FILE): The .npy file to write. The protocol is written to a .json file with the same name.
    """

    samples: str
    out: Path


@takes(EncodeOptions)
def encode(options: EncodeOptions) -> None:
    """Compute the features of samples once, to reuse them in many assessments.

    \b
    Examples:
      precall encode images/ --out features.npy
      precall encode images.zip --encoder pixels --out features.npy
      precall encode answers.jsonl --key answer --out features.npy
    """
    from precall.encoders import encode as run

    options.check(options.samples)
    out, protocol = options.out, options.out.with_suffix(".json")
    if out.suffix != ".npy":
        raise wrong("--out", f"expected a file that ends in .npy; got {out}")
    for path in (out, protocol):
        check_output(path, sources=[options.samples])
    with suppress(FileNotFoundError):
        _check_protocol(protocol)
    with bars() as progress:
        opened = options.opened(options.samples)
        found = run(opened, options.encoder, device=options.device, progress=stage_of(progress, "encode"))
    described = json.dumps(found.to_dict() | {"ids": list(found.ids)}, indent=1) + "\n"
    with open_atomically(out) as file, open_atomically(protocol) as beside:  # both are renamed when both are complete
        np.save(file, np.asarray(found.array), allow_pickle=False)
        file.flush()
        beside.write(described.encode())
    note(f"{out}: {found.shape[0]} samples, {found.shape[1]} dimensions ({found.encoder})")


def _check_protocol(path: Path) -> None:
    """Refuse to overwrite a file beside the features that is not the protocol of other features."""
    try:
        found = read_json(path)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not {"encoder", "fingerprint"} <= found.keys():
        raise ValueError(f"the protocol belongs in `{shown(str(path))}`, which exists and is not one. Rename it.")
