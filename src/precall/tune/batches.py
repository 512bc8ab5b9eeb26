"""Batches as a function of their number, so that a run can be resumed at any position in the data."""

from __future__ import annotations

from collections.abc import Sized
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from precall.theory.arrays import is_tensor

RESIDENT = 2 << 30  # bytes of data that may stay on the accelerator


class Batches:
    """Shuffled batches of an array, a tensor or a torch Dataset of samples or (sample, label) pairs, by their number.

    A batch consists of `size` consecutive samples of a sequence of permutations of the data, one per (seed, epoch).
    """

    def __init__(
        self,
        data: Any,
        *,
        size: int,
        seed: int,
        labels: Any = None,
        device: torch.device | str = "cpu",
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.data, self.labels = _resident(data, device), None if labels is None else torch.as_tensor(labels).to(device)
        self.size, self.seed, self.device, self.rank, self.world = size, seed, torch.device(device), rank, world
        if len(self) < 2:
            raise ValueError(f"`data` must hold at least 2 samples; got {len(self)}.")
        if self.labels is not None and len(self.labels) != len(self):
            raise ValueError(f"`labels` must have one entry per sample, {len(self)}; got {len(self.labels)}.")
        if size % world:
            raise ValueError(f"`batch_size` must be a multiple of the number of processes, {world}; got {size}.")
        self._order = lru_cache(maxsize=2)(lambda epoch: np.random.default_rng([seed, epoch]).permutation(len(self)))

    def __len__(self) -> int:
        assert isinstance(self.data, Sized)
        return len(self.data)

    def at(self, number: int, *, whole: bool = False) -> tuple[Tensor, Tensor | None]:
        """Batch `number`, whole or the share of this process: samples as floats (uint8: [−1, 1]) and labels."""
        index = self._indices(number, 0 if whole else self.rank, 1 if whole else self.world)
        if is_tensor(self.data):
            samples = self.data[index.to(self.data.device)].to(self.device, non_blocking=True)
            return as_float(samples), None if self.labels is None else self.labels[index.to(self.device)]
        return self._collated([self.data[int(i)] for i in index])

    def _indices(self, number: int, rank: int, world: int) -> Tensor:
        share = self.size // world
        start = number * self.size + rank * share
        epoch, offset = np.divmod(np.arange(start, start + share), len(self))
        return torch.from_numpy(np.concatenate([self._order(int(e))[offset[epoch == e]] for e in np.unique(epoch)]))

    def _collated(self, items: list[Any]) -> tuple[Tensor, Tensor | None]:
        pairs = isinstance(items[0], tuple | list)
        samples = torch.stack([torch.as_tensor(item[0] if pairs else item) for item in items]).to(self.device)
        labels = torch.tensor([int(item[1]) for item in items], device=self.device) if pairs else None
        return as_float(samples), labels


def as_float(samples: Tensor) -> Tensor:
    """Samples as float32; uint8 images are scaled to [−1, 1]."""
    return samples.float() / 127.5 - 1 if samples.dtype == torch.uint8 else samples.float()


def _resident(data: Any, device: torch.device | str) -> Any:
    """An array or tensor as a tensor, on the device if it is small enough to stay there. A Dataset is unchanged."""
    if isinstance(data, np.ndarray):
        data = torch.from_numpy(np.ascontiguousarray(data))
    if not is_tensor(data):
        return data
    return data.to(device) if data.numel() * data.element_size() <= RESIDENT else data
