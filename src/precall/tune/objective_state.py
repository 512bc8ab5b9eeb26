"""State of an objective, wherever it is: in the objective itself, or in one that it wraps.

An objective has state if it has `state_dict` and `load_state_dict`, such as the τ of `OBRSObjective`. A wrapper needs
no code for the state of what it wraps: the objectives among its attributes, and in its lists and dicts, are found here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import nn

from precall.theory.arrays import is_tensor

_OF_TORCH = frozenset(vars(nn.Module()))  # attributes that every torch module has


def state_of(objective: object) -> dict[str, Any]:
    """The state of an objective and of those inside it, by their place, such as {"objective.log_tau": 0.5}."""
    parts = _outermost(objective, "load_state_dict")
    return {f"{place}{name}": value for place, part in parts for name, value in part.state_dict().items()}


def restore(objective: object, state: Mapping[str, Any]) -> None:
    """The inverse of `state_of`. Tensors move to the device on which the state is now."""
    for place, part in _outermost(objective, "load_state_dict"):
        now = part.state_dict()
        then = {name: state[f"{place}{name}"] for name in now}
        tensors = [name for name in now if is_tensor(now[name]) and is_tensor(then[name])]
        part.load_state_dict(then | {name: then[name].to(now[name].device) for name in tensors})


def to_device(objective: object, device: torch.device) -> None:
    """Move objectives that are torch modules to a device, also those inside others."""
    for _, part in _outermost(objective, "register_buffer"):  # a torch module
        part.to(device)


def refreshable(objective: object) -> list[Any]:
    """The outermost parts of an objective that have `refresh`."""
    return [part for _, part in _outermost(objective, "refresh")]


def description(objective: object) -> Any:
    """What an objective is, without its state, as JSON-compatible values: its class and its settings."""
    if objective is None or isinstance(objective, bool | int | float | str):
        return objective
    if isinstance(objective, Mapping):
        return {str(name): description(value) for name, value in objective.items()}
    if isinstance(objective, list | tuple):
        return [description(value) for value in objective]
    told = {"class": type(objective).__qualname__}
    if not (is_dataclass(objective) or _is_objective(objective)):
        return told  # any other object: nothing more can be said that is the same in every process
    state = state_of(objective)
    settings = {name: value for name, value in _attributes(objective).items() if name not in state}
    return {**told, **{name: description(value) for name, value in settings.items()}}


def _outermost(
    objective: object, method: str, place: str = "", above: tuple[int, ...] = ()
) -> Iterator[tuple[str, Any]]:
    """The parts of an objective with a method, each with the prefix of its place; nothing inside these."""
    if hasattr(objective, method):
        yield place, objective
        return
    for name, value in _attributes(objective).items():
        pairs: Any = [(None, value)]
        if isinstance(value, list | tuple | dict):
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, one in pairs:
            if _is_objective(one) and id(one) not in (*above, id(objective)):
                inside = f"{place}{name}." if key is None else f"{place}{name}.{key}."
                yield from _outermost(one, method, inside, (*above, id(objective)))


def _is_objective(value: object) -> bool:
    losses = ("discriminator_loss", "generator_loss")
    return not isinstance(value, type) and (all(hasattr(value, name) for name in losses) or hasattr(value, "at"))


def _attributes(objective: object) -> dict[str, object]:
    """The arguments of a dataclass, or the attributes of any other object."""
    if is_dataclass(objective):
        return {field.name: getattr(objective, field.name) for field in fields(objective) if field.init}
    own = getattr(objective, "__dict__", {})
    inner = own.get("_modules", {}) if isinstance(objective, nn.Module) else {}
    return {name: value for name, value in {**own, **inner}.items() if name not in _OF_TORCH}
