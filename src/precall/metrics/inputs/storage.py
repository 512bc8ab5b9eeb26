"""Numbers of two sides that were stored in different floating-point types, such as float16 and float32.

A classifier tells a rounded number from one that is not, which says nothing about the model. If all values of one side
are numbers of a coarser type, and those of the other side are not, the other side is rounded to that type.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from precall.metrics.inputs.features import Features, as_tensor
from precall.metrics.inputs.sides import Side
from precall.theory.arrays import Matrix, is_tensor, to_numpy

BITS = {"bfloat16": 8, "float16": 11}  # significant bits of the types of 16 bits, from the coarsest to the finest
LOOKED_AT = 1000  # rows that are looked at before all are
USED = 0.3  # share of values that use the last bit of a type; half of all do, and fewer of whole numbers


def on_one_grid(real: Side, fake: Side) -> tuple[Side, Side]:
    """Both sides in the coarser of their floating-point types; the protocol of a side that was rounded says so.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(2, 50, 3))
        >>> real, fake = on_one_grid(Side(x[0]), Side(x[1].astype(np.float16).astype(np.float64)))
        >>> real.protocol["storage"], fake.protocol
        ('rounded to float16, the type of the other side', {})
    """
    if real.moments is not None or fake.moments is not None or real.table is not None:
        return real, fake
    types = [_type_of(side.features) for side in (real, fake)]
    order = [len(BITS) if one is None else list(BITS).index(one) for one in types]
    if order[0] == order[1]:
        return real, fake
    if order[0] < order[1]:
        return real, _rounded(fake, str(types[0]))
    return _rounded(real, str(types[1])), fake


def _type_of(features: Features) -> str | None:
    """The coarsest type that holds every value, if the values use all of its bits; None if there is none."""
    some = to_numpy(features[:: max(1, len(features) // LOOKED_AT)])
    for name, bits in BITS.items():
        mantissa = np.frexp(some[some != 0].astype(np.float64))[0] * 2.0**bits
        odd = float((mantissa % 2 == 1).mean()) if mantissa.size else 0.0
        if odd > USED and _holds(some, name):
            return name if _holds(to_numpy(features), name) else None
    return None


def _holds(values: Matrix, name: str) -> bool:
    """Whether a type holds every value exactly."""
    return bool((_cast(values, name) == values).all())


def _cast(values: Matrix, name: str) -> Matrix:
    """The values rounded to a type, in their own type."""
    if name == "bfloat16":  # the first 16 bits of float32, rounded to even
        bits = values.astype(np.float32).view(np.uint32)
        return (
            ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(values.dtype)
        )
    with np.errstate(over="ignore"):
        return values.astype(name).astype(values.dtype)


def _rounded(side: Side, name: str) -> Side:
    """The side rounded to a type; as it is if that changes nothing, or if its numbers are too large for the type."""
    values = to_numpy(side.features)
    matrix = _cast(values, name)
    if (matrix == values).all() or not np.isfinite(matrix).all():
        return side
    features: Features = as_tensor(matrix, side.features.device) if is_tensor(side.features) else matrix
    protocol = {**side.protocol, "storage": f"rounded to {name}, the type of the other side"}
    return replace(side, features=features, protocol=protocol)
