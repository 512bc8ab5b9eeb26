"""Standardisation of tables: every column to mean 0 and variance 1, before a network sees it.

A trainer with a `Standardization` trains in standardised units, stores it in its checkpoints, and returns samples and
densities in the units of the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from precall.theory import checks
from precall.theory.arrays import Array, Flags, to_numpy


@dataclass(frozen=True, eq=False)
class Standardization:
    """The map `z = (x − mean)/scale` of the columns that vary. Constant columns have no density and are left out.

    `mean` and `scale` are those of each column, shape (d,); the scale of a constant one is 0.

    Example:
        >>> standard = Standardization.of(np.array([[1e6, 7.0], [3e6, 7.0]]))
        >>> standard.scale.tolist(), standard.apply(np.array([[5e6, 7.0]])).tolist()
        ([1000000.0, 0.0], [[3.0]])
        >>> standard.invert(torch.tensor([[3.0]])).tolist()
        [[5000000.0, 7.0]]
    """

    mean: Array
    scale: Array

    @classmethod
    def of(cls, data: npt.ArrayLike) -> Standardization:
        """The standardisation of a table of shape (n, d), computed in float64."""
        x = checks.numbers("data", data)
        with np.errstate(over="ignore"):
            middle = x.min(0) / 2 + x.max(0) / 2
            half = np.abs(x - middle).max(0)  # dividing by it first keeps squares from overflow and underflow
        if not np.isfinite(half).all():
            raise ValueError("`data` must have columns whose range is below 1.8e308; got a larger one. Rescale it.")
        if not (half > 0).any():
            raise ValueError("`data` must have a column that varies; all are constant.")
        y = (x - middle) / np.where(half > 0, half, 1)
        varies = (half > 0) & (half * y.std(0) > 0)
        return cls(np.where(varies, middle + half * y.mean(0), x[0]), np.where(varies, half * y.std(0), 0.0))

    @property
    def varies(self) -> Flags:
        """Which columns are not constant."""
        return np.asarray(self.scale > 0)

    @property
    def log_det(self) -> float:
        """`Σ log scale`: the log-density of x is that of z minus this number."""
        return float(np.log(self.scale[self.varies]).sum())

    def apply(self, x: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Standardised columns of x, without the constant ones."""
        rows = np.asarray(to_numpy(x), dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.mean.size:
            raise ValueError(f"`data` must have {self.mean.size} columns; got shape {rows.shape}.")
        standard = (rows[:, self.varies] - self.mean[self.varies]) / self.scale[self.varies]
        return np.asarray(standard, dtype=np.float32)

    def invert(self, z: Tensor) -> Tensor:
        """Samples in the units of the data, on the CPU and in float64, with the constant columns."""
        x = torch.from_numpy(self.mean).repeat(len(z), 1)
        x[:, torch.from_numpy(self.varies)] += z.detach().cpu().double() * torch.from_numpy(self.scale[self.varies])
        return x

    def agrees(self, x: npt.ArrayLike) -> Flags:
        """Whether each row has the values of the constant columns, shape (n,)."""
        constant = ~self.varies
        return np.asarray((np.asarray(to_numpy(x), dtype=np.float64)[:, constant] == self.mean[constant]).all(1))

    def tensors(self) -> dict[str, Tensor]:
        """The standardisation as tensors of a checkpoint."""
        return {"mean": torch.from_numpy(self.mean), "scale": torch.from_numpy(self.scale)}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Standardization | None:
        """The inverse of `tensors`; None if there are none."""
        if not tensors:
            return None
        mean, scale = (checks.vector(name, tensors[name].numpy()) for name in ("mean", "scale"))
        checks.same_length(mean=mean, scale=checks.nonnegative("scale", scale))
        return cls(mean, scale)
