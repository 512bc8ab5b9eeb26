"""Encoding shard by shard: a worker opens a shard or a range of samples, encodes it, and writes its features.

Workers open samples through `open_samples`, as everything else does. Feature files are sealed and named by the hash of
the samples and the encoder: a shard that is encoded already is not encoded again.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from precall.encoders.encoder import Encoder
from precall.encoders.encoding import encode
from precall.encoders.registry import default_encoder, load_encoder, runs_on_a_device
from precall.samples import hashing, open_samples
from precall.samples.sampleset import ErrorPolicy
from precall.sealing import check_seal, setting_aside, write_sealed

RANGE = 4096  # samples per piece if a source is one folder or file


class ShardEncoder:
    """Encodes pieces of a source and writes their features to a folder.

    It is made once per process, because loading a network takes seconds.
    """

    def __init__(self, encoder: str | None, folder: str, key: str | None, on_error: ErrorPolicy) -> None:
        self.encoder, self.folder, self.key, self.on_error = encoder, Path(folder), key, on_error
        self.loaded: dict[str, Encoder] = {}

    def __call__(self, item: str) -> str:
        """Encode one piece, and return where its features are, or why there are none, as JSON."""
        try:
            return json.dumps({"item": item, **self._written(json.loads(item))})
        except (OSError, ValueError) as error:
            return json.dumps({"item": item, "error": str(error)})

    def _written(self, piece: dict[str, Any]) -> dict[str, Any]:
        samples = open_samples(piece["path"], key=self.key, on_error=self.on_error)
        name = self.encoder or default_encoder(samples.kind)
        if name not in self.loaded:
            self.loaded[name] = load_encoder(name, device="auto" if runs_on_a_device(name) else None)
        encoder = self.loaded[name]
        sha = piece.get("sha256") or samples.fingerprint()
        part = [str(piece.get(end)) for end in ("start", "stop")]
        path = self.folder / f"{encoder.key(hashing.combined([sha, *part]))}.npy"
        there = False
        with setting_aside(path):  # features that were written before must be intact
            check_seal(path)
            there = True
        if not there:
            chosen = samples
            if "start" in piece:
                chosen = open_samples([samples[index] for index in range(piece["start"], piece["stop"])])
            content = io.BytesIO()
            np.save(content, encode(chosen, encoder, cache=False).array, allow_pickle=False)
            write_sealed(path, content.getvalue())
        return {"path": str(path), "encoder": encoder.name, "protocol": dict(encoder.protocol)}


def pieces(items: Sequence[str | npt.NDArray[Any]], key: str | None) -> list[str] | None:
    """The pieces of a source that must be encoded, as JSON; None if its shards hold features.

    Several files are one piece each. A source that is one folder or file is cut into ranges of samples.
    """
    first = next((item for item in items if isinstance(item, str)), None)
    if first is None or (len(items) > 1 and Path(first).suffix.lower() == ".npy"):
        return None
    opened = open_samples(first, key=key)
    if opened.kind == "features":
        return None
    if opened.kind not in ("images", "text"):
        way_out = "Assess them in one process, or encode them first."
        raise ValueError(f"shards must hold features, images or texts; `{first}` holds {opened.kind}. {way_out}")
    if len(items) > 1:
        return [json.dumps({"path": item}) for item in items]
    sha = opened.fingerprint()
    ends = [(start, min(start + RANGE, len(opened))) for start in range(0, len(opened), RANGE)]
    return [json.dumps({"path": first, "sha256": sha, "start": start, "stop": stop}) for start, stop in ends]
