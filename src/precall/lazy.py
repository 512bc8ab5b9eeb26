"""Packages whose names are loaded on first use, so that importing the package is fast; torch is such a package.

from precall.lazy import torch
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any


def lazily(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], tuple[str, ...]]:
    """`__getattr__`, `__dir__` and `__all__` of a package whose names are loaded on first use.

    Every package that uses it has the same form: imports under `TYPE_CHECKING`, and a table of its modules.

    Args:
        package: `__name__` of the package.
        modules: the public names that each module below the package defines, separated by spaces.
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return load, lambda: sorted(homes), tuple(homes)


class LazyModule(ModuleType):
    """A module that is imported when one of its names is first used."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


if TYPE_CHECKING:
    import torch as torch
else:
    torch = LazyModule("torch")
