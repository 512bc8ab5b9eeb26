"""Networks of the user: imported by name, only if the user passes that name, and built for the shape of the data."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module

from torch import nn

from precall.samples.sampleset import shown

Shape = tuple[int, ...]
Build = Callable[[Shape, int], nn.Module]  # from the shape of a sample and the number of classes


def imported(path: str) -> Callable[..., nn.Module]:
    """The class or function with the import path "package.module:Class", on Python's search path."""
    module, colon, name = path.partition(":")
    if not (colon and module and name):
        raise ValueError(f"a custom network must be given as `package.module:Class`; got {shown(path)!r}.")
    try:
        found = getattr(import_module(module), name)
    except Exception as error:  # the module runs code of its own
        way_out = "If it is in the working directory, set PYTHONPATH=. first."
        raise ValueError(f"the network {shown(path)!r} cannot be imported: {error}. {way_out}") from error
    if not callable(found):
        raise ValueError(f"the network {shown(path)!r} must be a class or a function; got {type(found).__name__}.")
    return found  # type: ignore[no-any-return]


def check_generator(generator: nn.Module, truncation: float = 1.0) -> None:
    """Refuse a network that cannot be trained as a generator, before training starts."""
    expected = "a generator must have `latent_shape`, `classes` and `forward(z, labels)`"
    name = type(generator).__name__
    for attribute in ("latent_shape", "classes"):
        if not hasattr(generator, attribute):
            raise ValueError(f"{expected}; {name} has no `{attribute}`.")
    try:
        inspect.signature(generator.forward).bind(None, None)
    except TypeError:
        raise ValueError(f"{expected}; {name} has forward{inspect.signature(generator.forward)}.") from None
    if truncation != 1 and hasattr(generator, "log_prob"):
        raise ValueError(
            f"`truncation` must be 1 for a {name}, whose density is defined for standard normal latents; "
            f"got {truncation:g}."
        )


def building(make: Callable[..., nn.Module]) -> Build:
    """A function that calls a custom constructor with those of `shape=` and `classes=` that it accepts."""

    def build(shape: Shape, classes: int) -> nn.Module:
        offered = {"shape": shape, "classes": classes}
        name = getattr(make, "__qualname__", repr(make))
        try:
            taken = inspect.signature(make).parameters
            every = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in taken.values())
            network = make(**{key: value for key, value in offered.items() if every or key in taken})
        except Exception as error:  # the constructor runs code of its own
            raise ValueError(f"the network {name} cannot be built: {error}.") from error
        if not isinstance(network, nn.Module):
            raise ValueError(f"the network {name} must be a torch module; got {type(network).__name__}.")
        return network

    return build
