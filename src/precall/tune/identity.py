"""What makes two runs the same: their networks and their data, as short descriptions that a checkpoint can hold."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from precall.samples.sampleset import shown
from precall.theory.arrays import is_tensor, to_numpy

BLOCK = 1 << 26  # bytes that are hashed at once


def of_network(network: nn.Module) -> dict[str, str]:
    """The class of a network, and the SHA-256 of how it prints: its layers with their settings."""
    structure = re.sub(r" at 0x[0-9a-f]+", "", repr(network))
    return {"class": type(network).__qualname__, "layers": hashlib.sha256(structure.encode()).hexdigest()}


def of_data(data: Any, labels: Any = None) -> dict[str, Any]:
    """Shape, type and SHA-256 of samples and labels.

    A torch Dataset is described by its class and its length alone, because its samples may be random.

    Example:
        >>> of_data(np.zeros((3, 2)))["shape"], of_data([1, 2, 3])
        ([3, 2], {'class': 'list', 'length': 3})
    """
    if not (isinstance(data, np.ndarray) or is_tensor(data)):
        return {"class": type(data).__qualname__, "length": len(data)}
    told = {"shape": list(data.shape), "dtype": str(data.dtype).removeprefix("torch."), "sha256": _digest(data)}
    return told if labels is None else {**told, "labels": _digest(np.asarray(to_numpy(labels), dtype=np.int64))}


def _digest(data: Any) -> str:
    total, rows = hashlib.sha256(), max(1, BLOCK * len(data) // max(1, data.nbytes))
    for start in range(0, len(data), rows):
        total.update(np.ascontiguousarray(to_numpy(data[start : start + rows])).tobytes())
    return total.hexdigest()


def differences(then: Any, now: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two descriptions differ: name, value then and value now.

    Example:
        >>> next(differences({"objective": {"lam": 2.0}}, {"objective": {"lam": 5.0}}))
        ('objective lam', 2.0, 5.0)
    """
    if isinstance(then, dict) and isinstance(now, dict):
        for key in [*now, *(key for key in then if key not in now)]:
            yield from differences(then.get(key), now.get(key), f"{name} {key}".strip())
    elif _plain(then) != _plain(now):
        yield name, then, now


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def check_same(path: str | Path, facts: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise a `ValueError` that names the first difference between a checkpoint and the run that resumes from it."""
    then, now = {**facts["settings"], **facts["identity"]}, dict(now)
    warmups = [int(run["warmup"]) if isinstance(run.get("warmup"), int) else 0 for run in (then, now)]
    if min(warmups) >= facts["step"]:  # both ends of the warm-up are still to come
        then["warmup"] = now["warmup"]
    for name, before, here in differences(then, now):
        raise ValueError(
            f"`{shown(str(path))}` was written with {name} = {shown(str(before))}, this run has {shown(str(here))}. "
            "They must be equal to resume. To start another run from its networks, use `initialize`."
        )
