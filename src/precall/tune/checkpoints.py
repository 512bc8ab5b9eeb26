"""Checkpoints: one safetensors file with its JSON inside, written beside its place and moved there when it is whole."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

FORMAT = "precall-checkpoint-1"


def write(path: str | Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write tensors and JSON-able facts into one file; a reader sees the old file or the new one, never a part."""
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary = place.with_name(f".{place.name}.{os.getpid()}.tmp")
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    try:
        # one key: the order of several is not the same from file to file
        save_file(plain, temporary, metadata={FORMAT: json.dumps(facts, sort_keys=True)})
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, place)
    finally:
        temporary.unlink(missing_ok=True)


def read(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and facts of a checkpoint.

    Raises:
        ValueError: if there is no such file, or it is not a checkpoint of ours.
    """
    if not Path(path).is_file():
        raise ValueError(f"`{path}` must be a checkpoint; there is no such file.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, not a dict
    except SafetensorError as error:
        raise ValueError(f"`{path}` must be a checkpoint in safetensors; it does not read ({error}).") from None
    if FORMAT not in metadata:
        raise ValueError(f"`{path}` must be a checkpoint written by precall; it is another safetensors file.")
    return tensors, json.loads(metadata[FORMAT])


def pack(prefix: str, state: Mapping[str, Any]) -> dict[str, Tensor]:
    """A state dict's tensors under `prefix/`."""
    return {f"{prefix}/{name}": value for name, value in state.items() if isinstance(value, Tensor)}


def unpack(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What `pack` put under `prefix/`."""
    return {name[len(prefix) + 1 :]: value for name, value in tensors.items() if name.startswith(f"{prefix}/")}


def pack_optimizer(prefix: str, optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """An optimiser's moments as tensors, and its groups as JSON."""
    state = optimizer.state_dict()
    moments = {
        f"{prefix}/{index}/{name}": torch.as_tensor(value)
        for index, entries in state["state"].items()
        for name, value in entries.items()
    }
    return moments, state["param_groups"]


def unpack_optimizer(prefix: str, tensors: Mapping[str, Tensor], groups: list[dict[str, Any]]) -> dict[str, Any]:
    """The state dict that `pack_optimizer` took apart."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in unpack(prefix, tensors).items():
        index, _, entry = name.partition("/")
        state.setdefault(int(index), {})[entry] = value
    return {"state": state, "param_groups": groups}
