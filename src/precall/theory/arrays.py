"""Names for the arrays that precall passes around, and the one test for tensors."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch

Array: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Counts: TypeAlias = npt.NDArray[np.int64]
Index: TypeAlias = npt.NDArray[np.intp]


def is_tensor(values: object) -> TypeGuard[torch.Tensor]:
    """Whether `values` is a torch tensor, without importing torch.

    Example:
        >>> is_tensor(np.zeros(3))
        False
    """
    return "torch" in sys.modules and isinstance(values, sys.modules["torch"].Tensor)


def to_numpy(values: Any) -> npt.NDArray[Any]:
    """`values`, an array or a tensor on any device, as a NumPy array in this process' memory."""
    return np.asarray(values.cpu() if is_tensor(values) else values)
