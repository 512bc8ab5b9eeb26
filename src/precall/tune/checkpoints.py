"""Checkpoints: tensors and JSON metadata in one safetensors file, with the SHA-256 of both; what makes two runs one.

The sum is in the header of the file that it protects. The file is written atomically, and any program that reads
safetensors can open it. A run folder keeps two checkpoints, the last and the one before. If the last one is damaged,
the run continues from the other.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn

from precall.files import write_atomically
from precall.samples.sampleset import shown
from precall.theory.arrays import is_tensor, to_numpy

FORMAT, OLD_FORMAT = "precall-checkpoint-2", "precall-checkpoint-1"
LAST, PREVIOUS = "checkpoint.safetensors", "checkpoint.previous.safetensors"
BLOCK = 1 << 26  # bytes that are hashed at once
MOST_STEPS = 10**15  # counters above this are not those of a run
FACTS = {"step": int, "batch": int, "settings": dict, "identity": dict, "objective": dict}


class DamagedFile(ValueError):  # noqa: N818, names what it is
    """A file of a run was changed or truncated after it was written."""


class DamagedFileWarning(UserWarning):
    """A damaged file of a run was set aside; the message names it and what was used instead."""


def write(path: str | Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write tensors and JSON-compatible facts into one file. Readers see the old file or the new one, never a part."""
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    text = json.dumps(facts, sort_keys=True)
    # a single key, because the order of several is not deterministic
    write_atomically(Path(path), save(plain, metadata={FORMAT: f"{digest(plain, text)} {text}"}))


def read(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and facts of a checkpoint, verified by their SHA-256; a `DamagedFile` if it is not what was written."""
    if not Path(path).is_file():
        raise ValueError(f"`{shown(str(path))}` must be a checkpoint; there is no such file. Check the path.")
    metadata, tensors = _opened(path)
    if OLD_FORMAT in metadata:
        raise ValueError(
            f"`{shown(str(path))}` was written by an older version of precall, without a checksum. Train it again, or "
            "use that version."
        )
    expected, _, text = metadata.get(FORMAT, "").partition(" ")
    if digest(tensors, text) != expected:
        raise _damaged(path, "its content does not match its SHA-256")
    return tensors, _facts(path, text)


def _opened(path: str | Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    try:
        with safe_open(path, framework="pt") as file:
            return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, no dict
    except OSError:
        raise
    except Exception as error:  # safetensors raises several types for files that it cannot parse
        raise _damaged(path, f"it cannot be read as safetensors: {shown(str(error))}") from None


def _facts(path: str | Path, text: str) -> dict[str, Any]:
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict) or any(type(facts.get(name)) is not kind for name, kind in FACTS.items()):
        raise _damaged(path, f"its header must hold {', '.join(FACTS)}")
    if not all(0 <= facts[name] <= MOST_STEPS for name in ("step", "batch")):
        raise _damaged(path, f"its counters must be between 0 and {MOST_STEPS:g}")
    return facts


def _damaged(path: str | Path, reason: str) -> DamagedFile:
    return DamagedFile(f"`{shown(str(path))}` is not a checkpoint as precall wrote it: {reason}.")


def digest(tensors: Mapping[str, Tensor], text: str) -> str:
    """SHA-256 of the facts and of the name, type, shape and bytes of every tensor."""
    total = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        total.update(f"\n{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        total.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def keep(folder: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write the last checkpoint of a run folder. The one that it replaces becomes the previous one."""
    last, previous = folder / LAST, folder / PREVIOUS
    if last.is_file():
        copy = previous.with_name(f"{PREVIOUS}.tmp")
        copy.unlink(missing_ok=True)
        try:
            os.link(last, copy)
        except OSError:  # file systems without hard links
            shutil.copyfile(last, copy)
        os.replace(copy, previous)
    write(last, tensors, facts)


def newest(folder: Path) -> Path | None:
    """The last checkpoint of a run folder, or the previous one if the last is damaged; None if there is none.

    Damaged checkpoints are renamed to `….damaged`, with a `DamagedFileWarning`, or a `DamagedFile` if all are damaged.
    """
    damaged = []
    for path in (folder / LAST, folder / PREVIOUS):
        if path.is_file():
            try:
                read(path)
            except DamagedFile as error:
                damaged.append(f"{error} It was renamed to {set_aside(path).name}.")
                continue
            for sentence in damaged:
                warnings.warn(f"{sentence} The run continues from {path.name}.", DamagedFileWarning, stacklevel=2)
            return path
    if damaged:
        way_out = "No other checkpoint is left. Restore one from a backup, or start the run again in another folder."
        raise DamagedFile(f"{' '.join(damaged)} {way_out}")
    return None


def set_aside(path: Path) -> Path:
    """Rename a damaged file to `….damaged`, or to `….damaged-2` and so on if there is one already."""
    names = (path.with_name(f"{path.name}.damaged{'' if i == 1 else f'-{i}'}") for i in range(1, 1_000_000))
    aside = next(name for name in names if not os.path.lexists(name))
    os.replace(path, aside)
    return aside


@contextmanager
def named(path: str | Path) -> Iterator[None]:
    """Turn errors about missing or unsuitable parts of a checkpoint into a sentence that names the file."""
    try:
        yield
    except (KeyError, TypeError, RuntimeError, IndexError, AttributeError) as error:
        raise ValueError(f"`{shown(str(path))}` was not written by such a trainer: {shown(str(error))}.") from None


def pack(prefix: str, state: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors of a state dict, with names below `prefix/`."""
    return {f"{prefix}/{name}": value for name, value in state.items() if is_tensor(value)}


def unpack(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of `pack`."""
    return {name[len(prefix) + 1 :]: value for name, value in tensors.items() if name.startswith(f"{prefix}/")}


def load_network(path: str | Path, name: str, network: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Load the tensors below `name/` into a network."""
    try:
        network.load_state_dict(unpack(name, tensors))
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise ValueError(f"`{shown(str(path))}` was written for another {name}: {shown(reason)}") from None


def pack_optimizer(prefix: str, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The moments of an optimiser as tensors. Its settings are those of the trainer."""
    return {
        f"{prefix}/{index}/{name}": torch.as_tensor(value)
        for index, entries in optimizer.state_dict()["state"].items()
        for name, value in entries.items()
    }


def unpack_optimizer(prefix: str, tensors: Mapping[str, Tensor], optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The inverse of `pack_optimizer`, a state dict for an optimiser of the same parameters."""
    state: dict[int, dict[str, Tensor]] = {}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for name, value in unpack(prefix, tensors).items():
        index, _, entry = name.partition("/")
        if not index.isdecimal() or value.shape not in (torch.Size(), parameters[int(index)].shape):
            raise RuntimeError(f"the moments {name} of its optimiser have another shape")
        state.setdefault(int(index), {})[entry] = value
    return {"state": state, "param_groups": optimizer.state_dict()["param_groups"]}


def of_network(network: nn.Module) -> dict[str, str]:
    """The class of a network, and the SHA-256 of how it prints: its layers with their settings."""
    structure = re.sub(r" at 0x[0-9a-f]+", "", repr(network))
    return {"class": type(network).__qualname__, "layers": hashlib.sha256(structure.encode()).hexdigest()}


def of_data(data: Any, labels: Any = None) -> dict[str, Any]:
    """Shape, type and SHA-256 of samples and labels.

    A torch Dataset is described by its class and its length alone, because its samples may be random.
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
    """Where two descriptions differ: name, value then and value now."""
    if isinstance(then, dict) and isinstance(now, dict):
        for key in [*now, *(key for key in then if key not in now)]:
            yield from differences(then.get(key), now.get(key), f"{name} {key}".strip())
    elif (list(then) if isinstance(then, tuple) else then) != (list(now) if isinstance(now, tuple) else now):
        yield name, then, now


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
