"""How central a sample is: of how many others it is a near neighbour. Central samples lie where the data is dense."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from precall.metrics.inputs.features import Features, as_tensor
from precall.theory.arrays import Array

Labels = npt.NDArray[np.int64]

NEIGHBORS = 25  # of 50,000 samples, as 5 of 10,000
TILE = 1 << 26  # distances that are held at once


@torch.no_grad()
def centrality(features: Features, device: torch.device, draws: Features | None = None) -> Array:
    """Of how many other samples each one is among the k nearest (N_k of Radovanović et al., 2010).

    With `draws`, the number of samples that would have each draw among their k nearest if it were one of the samples.
    """
    x, k = as_tensor(features, device), min(NEIGHBORS, len(features) - 1)
    middle = x.mean(0)  # subtracted, because the distances below are differences of squared lengths
    x, y = x - middle, None if draws is None else as_tensor(draws, device).to(x.dtype) - middle
    counts = torch.zeros(len(x if y is None else y), dtype=torch.int64, device=device)
    for rows in torch.split(torch.arange(len(x), device=device), max(1, TILE // max(len(x), len(counts)))):
        squared = x.square().sum(1) - 2 * x[rows] @ x.T  # |x − y|², less |y|²
        squared[torch.arange(len(rows), device=device), rows] = torch.inf
        nearest = squared.topk(k, largest=False)
        if y is None:
            counts += torch.bincount(nearest.indices.flatten(), minlength=len(x))
        else:
            counts += (y.square().sum(1) - 2 * x[rows] @ y.T < nearest.values[:, -1:]).sum(0)
    return counts.double().cpu().numpy()


def ranks(central: Array, *, like: Array) -> tuple[Array, Array]:
    """The shares of the data that are less central than each sample, and that are not more central."""
    data = np.sort(like)
    below, above = (np.searchsorted(data, central, side) for side in ("left", "right"))
    return np.clip((below - 0.5) / len(data), 0, 1), np.clip((above + 0.5) / len(data), 0, 1)


def binned(central: Array, labels: Labels, bins: int) -> Labels:
    """The bin of each sample: quantiles of how central it is in its class, from 0 (least) to bins − 1 (most)."""
    found = np.zeros(len(labels), np.int64)
    for of in (np.flatnonzero(labels == c) for c in np.unique(labels)):
        found[of[np.argsort(central[of], kind="stable")]] = np.arange(len(of)) * bins // len(of)
    return found
