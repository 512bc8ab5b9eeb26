"""Names for the types of arrays that precall passes around, and the one test for torch tensors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from precall.lazy import torch

Array: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Counts: TypeAlias = npt.NDArray[np.int64]
Index: TypeAlias = npt.NDArray[np.intp]
Matrix: TypeAlias = npt.NDArray[np.floating[Any]]
"""Rows of float32 or float64."""
Floats: TypeAlias = npt.NDArray[np.floating | np.integer] | Sequence[float]
"""Several numbers as an argument: what `ArrayLike` accepts, without single numbers."""
Tensor: TypeAlias = "torch.Tensor"
"""For annotations alone; `is_tensor` tells what a value is, without importing torch."""


def is_tensor(values: object) -> TypeGuard[torch.Tensor]:
    """Whether `values` is a torch tensor, without importing torch."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)  # another thread may be importing torch
    return tensor is not None and isinstance(values, tensor)


def to_numpy(values: object) -> npt.NDArray[Any]:
    """Return `values`, an array or a tensor on any device, as a NumPy array in the memory of this process."""
    return np.asarray(values.detach().cpu() if is_tensor(values) else values)


def gram(x: torch.Tensor) -> torch.Tensor:
    """`XᵀX`. (NumPy computes one half of it on the CPU.)"""
    return torch.from_numpy(x.numpy().T @ x.numpy()) if x.device.type == "cpu" else x.T @ x


def check_tensor(name: str, values: Any) -> None:
    """Refuse a tensor that is no dense array of real numbers: complex, sparse, nested, quantised, or a meta tensor."""
    kinds = [kind for kind in ("nested", "quantized", "meta") if getattr(values, f"is_{kind}")]
    if kinds or values.is_complex() or str(values.layout) != "torch.strided":
        got = ", ".join([str(values.dtype), str(values.layout), *kinds])
        raise ValueError(f"`{name}` must be a dense tensor of real numbers; got {got}. Convert it first.")
