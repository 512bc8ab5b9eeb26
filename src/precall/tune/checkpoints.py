"""Checkpoints: tensors and JSON metadata in one safetensors file, which is written atomically."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from precall.files import write_atomically
from precall.theory.arrays import is_tensor

FORMAT = "precall-checkpoint-1"


def write(path: str | Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write tensors and JSON-compatible facts into one file. Readers see the old file or the new one, never a part."""
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    # a single key, because the order of several is not deterministic
    write_atomically(Path(path), save(plain, metadata={FORMAT: json.dumps(facts, sort_keys=True)}))


def read(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and facts of a checkpoint.

    Raises:
        ValueError: if there is no such file, or if it is not a checkpoint written by precall.
    """
    if not Path(path).is_file():
        raise ValueError(f"`{path}` must be a checkpoint; there is no such file. Check the path.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, not a dict
    except SafetensorError as error:
        raise ValueError(f"`{path}` must be a checkpoint in safetensors format; it cannot be read ({error}).") from None
    if FORMAT not in metadata:
        raise ValueError(f"`{path}` must be a checkpoint written by precall; got another safetensors file.")
    return tensors, json.loads(metadata[FORMAT])


def pack(prefix: str, state: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors of a state dict, with names below `prefix/`."""
    return {f"{prefix}/{name}": value for name, value in state.items() if is_tensor(value)}


def unpack(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of `pack`."""
    return {name[len(prefix) + 1 :]: value for name, value in tensors.items() if name.startswith(f"{prefix}/")}


def pack_optimizer(prefix: str, optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """The moments of an optimiser as tensors, and its parameter groups as JSON-compatible values."""
    state = optimizer.state_dict()
    moments = {
        f"{prefix}/{index}/{name}": torch.as_tensor(value)
        for index, entries in state["state"].items()
        for name, value in entries.items()
    }
    return moments, state["param_groups"]


def unpack_optimizer(prefix: str, tensors: Mapping[str, Tensor], groups: list[dict[str, Any]]) -> dict[str, Any]:
    """The inverse of `pack_optimizer`, a state dict."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in unpack(prefix, tensors).items():
        index, _, entry = name.partition("/")
        state.setdefault(int(index), {})[entry] = value
    return {"state": state, "param_groups": groups}
