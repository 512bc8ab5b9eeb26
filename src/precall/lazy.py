"""Packages whose names are loaded on first use, so that importing the package is fast; torch is such a package.

from precall.lazy import torch
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any


def homes(modules: Mapping[str, str]) -> dict[str, str]:
    """Public name → module, from the names that each module defines, separated by spaces."""
    return {name: module for module, names in modules.items() for name in names.split()}


def lazily(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a package whose names are loaded on first use.

    Every package that uses it has the same form: imports under `TYPE_CHECKING`, a table `_HOME`, and two lines:

        __all__ = [*_HOME]
        __getattr__, __dir__ = lazily(__name__, _HOME)

    Args:
        package: `__name__` of the package.
        homes: public name → module below the package that defines it.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return load, lambda: sorted(homes)


class LazyModule(ModuleType):
    """A module that is imported when one of its names is first used."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


if TYPE_CHECKING:
    import torch as torch
else:
    torch = LazyModule("torch")
