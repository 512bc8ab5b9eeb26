"""Input checks of the public edge: each raises a `ValueError` in one sentence that names the argument.

An error says what was expected, what came, and the way out. Nothing is clipped or normalised here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def vector(name: str, values: Any, *, infinite: bool = False) -> Array:
    """`values` as a non-empty one-dimensional float64 array without NaN (nor infinities, unless allowed)."""
    array = numbers(name, values, infinite=infinite)
    if array.ndim != 1:
        raise ValueError(f"`{name}` must be one-dimensional; got shape {array.shape}. Pass a flat array.")
    if array.size == 0:
        raise ValueError(f"`{name}` must hold at least one value; got none.")
    return array


def numbers(name: str, values: Any, *, infinite: bool = False) -> Array:
    """`values` as a float64 array of any shape without NaN (nor infinities, unless allowed)."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"`{name}` must be numbers; got {type(values).__name__} that does not convert.") from None
    if np.isnan(array).any():
        raise ValueError(f"`{name}` must not hold NaN; got {int(np.isnan(array).sum())}. Drop or repair them first.")
    if not infinite and np.isinf(array).any():
        raise ValueError(f"`{name}` must be finite; got {int(np.isinf(array).sum())} infinite values.")
    return array


def nonnegative(name: str, values: Any, *, infinite: bool = True) -> Array:
    """`values` as a float64 array of any shape with every entry at least 0."""
    array = numbers(name, values, infinite=infinite)
    if (array < 0).any():
        raise ValueError(f"`{name}` must not be negative; got {array.min():g}.")
    return array


def unit(name: str, values: Any) -> Array:
    """`values` as a float64 array of any shape with every entry in [0, 1]."""
    array = nonnegative(name, values)
    if (array > 1).any():
        raise ValueError(f"`{name}` must be between 0 and 1; got {array.max():g}.")
    return array


def like(question: Any, answer: Array) -> Any:
    """A float where the question was a scalar, an array where it was an array."""
    return float(answer) if np.ndim(question) == 0 else answer


def positive(name: str, value: Any) -> float:
    """`value` as a finite number above 0."""
    number = float(numbers(name, value))
    if number <= 0:
        raise ValueError(f"`{name}` must be positive; got {number:g}.")
    return number


def count(name: str, value: Any) -> int:
    """`value` as a whole number of at least 1."""
    number = float(numbers(name, value))
    if number < 1 or not number.is_integer():
        raise ValueError(f"`{name}` must be a whole number of at least 1; got {number:g}.")
    return int(number)


def masses(name: str, values: Any) -> Array:
    """`values` as a vector of masses: finite, non-negative, not all zero."""
    array = nonnegative(name, vector(name, values))
    if not array.any():
        raise ValueError(f"`{name}` must have positive mass; all {array.size} entries are zero.")
    return array


def probabilities(name: str, values: Any) -> Array:
    """`values` as masses that sum to one (to 1e-6)."""
    array = masses(name, values)
    if abs((total := array.sum()) - 1) > 1e-6:
        raise ValueError(f"`{name}` must sum to 1; got {total:.9g}. Divide by the sum, or use `from_counts`.")
    return array


def same_length(**arrays: npt.NDArray[Any]) -> None:
    """All `arrays` have the same length."""
    if len({len(array) for array in arrays.values()}) > 1:
        got = ", ".join(f"{name} {len(array)}" for name, array in arrays.items())
        raise ValueError(f"`{'` and `'.join(arrays)}` must have the same length; got {got}.")


def budget(value: Any) -> float:
    """`value` as a budget K ≥ 1: the mean number of draws per kept sample."""
    number = float(numbers("budget", value, infinite=True))
    if number < 1:
        raise ValueError(f"`budget` must be at least 1 (mean draws per kept sample); got {number:g}.")
    return number


def level(name: str, value: Any) -> float:
    """`value` as a number strictly between 0 and 1."""
    number = float(numbers(name, value))
    if not 0 < number < 1:
        raise ValueError(f"`{name}` must be strictly between 0 and 1; got {number:g}.")
    return number


def entry(saved: Mapping[str, object], name: str) -> object:
    """The value that a saved dictionary holds under `name`."""
    if name not in saved:
        raise ValueError(f"`{name}` is missing from the saved values; got {', '.join(map(str, saved)) or 'none'}.")
    return saved[name]


def choice(name: str, value: str, options: Any) -> str:
    """`value` as one of `options`."""
    if value not in options:
        raise ValueError(f"`{name}` must be one of {', '.join(map(str, options))}; got {value!r}.")
    return value
