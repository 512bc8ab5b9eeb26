"""The former place of the names that choose among sampling-time knobs, which are in `precall.improve` now."""

from __future__ import annotations

import warnings
from typing import Any

from precall import improve


def __getattr__(name: str) -> Any:
    if name not in improve.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"`precall.dial.{name}` is now `precall.improve.{name}`.", DeprecationWarning, stacklevel=2)
    return getattr(improve, name)
