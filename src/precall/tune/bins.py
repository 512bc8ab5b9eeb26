"""Bins of how central a sample is: a network learns each bin, and λ chooses among the bins when it draws.

A sample that is among the nearest neighbours of many others lies where the data is dense; k-NN precision rewards such
draws, and recall rewards the others. The samples of each class are divided into bins of equal size by this number, and
the networks see the bin as a part of the label. One network then serves every λ, without a loss of its own:

    w_b ∝ exp(s b),    with s such that w_{B−1} = λ/B    (the last bin alone for λ ≥ B)

draws the most central of the B bins λ times as often as the data has it. This is the strongest tilt at which a perfect
network is right at λ, that is α(λ) = min(1, λ): for λ > 1 no bin is drawn more than λ times too often, and for λ < 1
none less than λ times as often as it should be. At λ = 1 the bins have the proportions of the data.

References:
    Radovanović et al. (2010), on the number of neighbourhoods that a point is in; docs/theory.md, Training losses.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import brentq

from precall.theory import checks
from precall.theory.arrays import Array
from precall.tune.labels import ClassLabels

NEIGHBORS = 25  # of 50,000 samples, as 5 of 10,000


@torch.no_grad()
def centrality(
    features: npt.NDArray[np.floating], device: torch.device, draws: npt.NDArray[np.floating] | None = None
) -> Array:
    """Of how many other samples each one is among the k nearest (N_k of Radovanović et al., 2010).

    Args:
        features: features of the samples, shape (n, d).
        device: where it is computed.
        draws: features of draws. The result is then, for each draw, the number of samples that would have it among
            their k nearest if it were one of the samples.

    Example:
        >>> line = np.arange(60.0)[:, None]
        >>> found = centrality(line, torch.device("cpu"))
        >>> bool(found[30] > found[0])
        True
    """
    x, k = torch.as_tensor(features).to(device), min(NEIGHBORS, len(features) - 1)
    y = None if draws is None else torch.as_tensor(draws).to(device)
    counts = torch.zeros(len(x if y is None else y), dtype=torch.int64, device=device)
    for rows in torch.split(torch.arange(len(x), device=device), 2000):
        squared = x.square().sum(1) - 2 * x[rows] @ x.T  # |x − y|², less |y|²
        squared[torch.arange(len(rows), device=device), rows] = torch.inf
        nearest = squared.topk(k, largest=False)
        if y is None:
            counts += torch.bincount(nearest.indices.flatten(), minlength=len(x))
        else:
            counts += (y.square().sum(1) - 2 * x[rows] @ y.T < nearest.values[:, -1:]).sum(0)
    return counts.double().cpu().numpy()


def binned(central: Array, labels: ClassLabels, bins: int) -> ClassLabels:
    """The bin of each sample: quantiles of how central it is in its class, from 0 (least) to bins − 1 (most).

    Example:
        >>> binned(np.array([3.0, 1.0, 2.0, 9.0]), np.array([0, 0, 1, 1]), 2)
        array([1, 0, 0, 1])
    """
    found = np.zeros(len(labels), np.int64)
    for of in (np.flatnonzero(labels == c) for c in np.unique(labels)):
        found[of[np.argsort(central[of], kind="stable")]] = np.arange(len(of)) * bins // len(of)
    return found


def bins_of_draws(central: Array, labels: ClassLabels, *, like: Array, classes: ClassLabels, bins: int) -> ClassLabels:
    """The bin of each draw: where it ranks in how central the training images of its class are.

    Args:
        central: how central each draw is.
        labels: class of each draw.
        like: how central each training image is.
        classes: class of each training image.
        bins: number of bins, which hold equally many training images.

    Example:
        >>> draws, images = np.array([0.0, 2.5, 9.0]), np.array([1.0, 2.0, 3.0, 4.0])
        >>> bins_of_draws(draws, np.zeros(3), like=images, classes=np.zeros(4), bins=4)
        array([0, 2, 3])
    """
    found = np.zeros(len(labels), np.int64)
    for c in np.unique(labels):
        sorted_, of = np.sort(like[classes == c]), labels == c
        below = np.searchsorted(sorted_, central[of], "left")
        rank = (below + np.searchsorted(sorted_, central[of], "right")) / 2  # equal images count half
        found[of] = np.minimum(rank * bins // len(sorted_), bins - 1)
    return found


def tilted(tilt: float, bins: int) -> Array:
    """Proportions exp(s b) of the bins b = 0, …, at tilt s.

    Example:
        >>> tilted(0.0, 5).tolist()
        [0.2, 0.2, 0.2, 0.2, 0.2]
    """
    weights = np.exp(tilt * (np.arange(bins) - bins / 2))
    return np.asarray(weights / weights.sum())


def proportions(lam: float, bins: int) -> Array:
    """Proportions of the bins at λ: the tilt that draws the most central bin λ times as often as the data has it.

    Example:
        >>> proportions(2.0, 5).round(3).tolist()
        [0.069, 0.107, 0.166, 0.258, 0.4]
        >>> proportions(1e9, 2).tolist()
        [0.0, 1.0]
    """
    checks.positive("lam", lam)
    if lam >= bins:
        return np.asarray(np.eye(bins)[-1])

    def excess(tilt: float) -> float:
        return float(np.log(bins * tilted(tilt, bins)[-1] / lam))

    most = 700 / bins  # beyond, exp overflows
    return tilted(brentq(excess, -most, most) if excess(-most) < 0 else -most, bins)


def bins_at(lam: float, bins: int, n: int, *, seed: int = 0) -> ClassLabels:
    """The bins of n draws at λ, in random order and as close to their proportions as whole numbers can be.

    Example:
        >>> np.bincount(bins_at(1.0, 4, n=8)).tolist()
        [2, 2, 2, 2]
    """
    ends = np.rint(n * np.cumsum(proportions(lam, bins))).astype(np.int64)
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(bins), np.diff(ends, prepend=0)))
