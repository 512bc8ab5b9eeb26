"""Validation of arguments at the public functions.

Each check raises a `ValueError` of one sentence that names the argument, what was expected and what was received, with
a way out where there is one. The checks convert to float64, but never clip or normalise.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from precall.theory.arrays import Array


def vector(name: str, values: object, *, infinite: bool = False) -> Array:
    """Return `values` as a non-empty one-dimensional float64 array without NaN (nor infinities, unless allowed)."""
    array = numbers(name, values, infinite=infinite)
    if array.ndim != 1:
        raise ValueError(f"`{name}` must be one-dimensional; got shape {array.shape}. Pass a flat array.")
    if array.size == 0:
        raise ValueError(f"`{name}` must hold at least one value; got none.")
    return array


def numbers(name: str, values: object, *, infinite: bool = False) -> Array:
    """Return `values` as a float64 array of any shape without NaN (nor infinities, unless allowed)."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"`{name}` must be numbers; got {type(values).__name__} that cannot be converted to float."
        ) from None
    if array.ndim == 0 and np.isnan(array):
        raise ValueError(f"`{name}` must be a number; got nan.")
    if np.isnan(array).any():
        raise ValueError(f"`{name}` must not hold NaN; got {int(np.isnan(array).sum())}. Drop or repair them first.")
    if not infinite and np.isinf(array).any():
        got = f"{array:g}" if array.ndim == 0 else f"{int(np.isinf(array).sum())} infinite values"
        raise ValueError(f"`{name}` must be finite; got {got}.")
    return array


def nonnegative(name: str, values: object, *, infinite: bool = True) -> Array:
    """Return `values` as a float64 array of any shape with every entry at least 0."""
    array = numbers(name, values, infinite=infinite)
    if (array < 0).any():
        raise ValueError(f"`{name}` must not be negative; got {array.min():g}.")
    return array


def unit(name: str, values: object) -> Array:
    """Return `values` as a float64 array of any shape with every entry in [0, 1]."""
    array = nonnegative(name, values)
    if (array > 1).any():
        raise ValueError(f"`{name}` must be between 0 and 1; got {array.max():g}.")
    return array


def like(argument: object, result: Array) -> float | Array:
    """Return `result` as a float if `argument` is a scalar, and as an array otherwise."""
    return float(result) if np.ndim(argument) == 0 else result  # type: ignore[arg-type]


def positive(name: str, value: object) -> float:
    """Return `value` as a finite number above 0."""
    number = float(numbers(name, value))
    if number <= 0:
        raise ValueError(f"`{name}` must be positive; got {number:g}.")
    return number


def count(name: str, value: object) -> int:
    """Return `value` as a whole number of at least 1."""
    number = float(numbers(name, value))
    if number < 1 or not number.is_integer():
        raise ValueError(f"`{name}` must be a whole number of at least 1; got {number:g}.")
    return int(number)


def seed(value: object) -> int:
    """Return `value` as the seed of a random generator, a whole number of at least 0."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if not 0 <= number < 1 << 64:
        raise ValueError(f"`seed` must be a whole number from 0 to 2⁶⁴ − 1; got {value!r}.")
    return number


def masses(name: str, values: object) -> Array:
    """Return `values` as a vector of masses: finite, non-negative and not all zero."""
    array = nonnegative(name, vector(name, values))
    if not array.any():
        raise ValueError(f"`{name}` must have positive mass; all {array.size} entries are zero.")
    return array


def probabilities(name: str, values: object) -> Array:
    """Return `values` as masses that sum to one (to 1e-6)."""
    array = masses(name, values)
    if abs((total := array.sum()) - 1) > 1e-6:
        raise ValueError(f"`{name}` must sum to 1; got {total:.9g}. Divide by the sum, or use `from_counts`.")
    return array


def same_length(**arrays: npt.NDArray[Any]) -> None:
    """Check that all `arrays` have the same length."""
    if len({len(array) for array in arrays.values()}) > 1:
        got = ", ".join(f"{name} {len(array)}" for name, array in arrays.items())
        raise ValueError(f"`{'` and `'.join(arrays)}` must have the same length; got {got}.")


def budget(value: object) -> float:
    """Return `value` as a budget K ≥ 1: the mean number of draws per kept sample."""
    number = float(numbers("budget", value, infinite=True))
    if number < 1:
        raise ValueError(f"`budget` must be at least 1 (mean draws per kept sample); got {number:g}.")
    return number


def order(value: object) -> float:
    """Return `value` as a Rényi order in [0, ∞]."""
    number = nonnegative("order", value)
    if number.ndim:
        raise ValueError(f"`order` must be a single number in [0, inf]; got shape {number.shape}.")
    return float(number)


def points(value: float) -> int:
    """Return `value` as a number of points of at least 2, which are the two ends."""
    if value != int(value) or value < 2:
        raise ValueError(f"`points` must be an integer of at least 2, for the two ends; got {value}.")
    return int(value)


def level(name: str, value: object) -> float:
    """Return `value` as a number strictly between 0 and 1."""
    number = float(numbers(name, value))
    if not 0 < number < 1:
        raise ValueError(f"`{name}` must be strictly between 0 and 1; got {number:g}.")
    return number


def choice(name: str, value: str, options: Collection[str]) -> str:
    """Return `value` as one of `options`."""
    if value not in options:
        raise ValueError(f"`{name}` must be one of {', '.join(map(str, options))}; got {value!r}.")
    return value


def entry(saved: Mapping[str, object], name: str) -> object:
    """Return the value that a saved dictionary holds under `name`."""
    if name not in saved:
        raise ValueError(f"`{name}` is missing from the saved values; got {', '.join(map(str, saved)) or 'none'}.")
    return saved[name]
