"""Calibration of scores into log-ratios on held-out samples, and warnings if few samples carry the ratios."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from precall.improve.interfaces import Samples
from precall.lazy import torch
from precall.metrics.classifiers.calibration import finite_log_ratio
from precall.theory import checks
from precall.theory.arrays import Array, is_tensor
from precall.theory.hull import score_blocks

THIN = 0.01  # warn if the effective sample size is below this share of the samples
FEW = 10  # warn if this many samples carry half of the mass
ENOUGH = 1000  # below this many samples a few of them always carry much of the mass


class RatioWarning(UserWarning):
    """The largest ratios rest on few samples."""


@dataclass(frozen=True, eq=False)
class Steps:
    """A piecewise constant calibration: the log-ratio of the block that contains the score, or of the first block."""

    edges: Array
    log_ratio: Array

    def __call__(self, score: Samples) -> Samples:
        scores = score.detach().cpu().double().numpy() if is_tensor(score) else np.asarray(score)
        found = self.log_ratio[np.maximum(np.searchsorted(self.edges, scores, side="right") - 1, 0)]
        if not is_tensor(score):
            return found
        tensor: Samples = torch.as_tensor(found).to(score)
        return tensor


def isotonic(*, real: Array, fake: Array) -> Steps:
    """The log-ratio of each block of the score's error hull, with half a sample of each kind added."""
    blocks = score_blocks(real=real, fake=fake)
    return Steps(blocks.edges, finite_log_ratio(blocks, n=real.size, m=fake.size))


def relative_ratios(log_ratio: npt.ArrayLike) -> Array:
    """Ratios divided by the largest one. If some are infinite, they become 1 and all others 0."""
    values = checks.vector("log_ratio", log_ratio, infinite=True)
    top = values.max()
    return np.asarray(np.exp(values - top) if np.isfinite(top) else values == top, dtype=np.float64)


def effective_sample_size(log_ratio: npt.ArrayLike) -> float:
    """`(Σ r)² / Σ r²`: the number of equally weighted samples that carry the same information, between 1 and n.

    If some ratios are infinite, only they are counted.
    """
    weight = relative_ratios(log_ratio)
    return float(weight.sum() ** 2 / (weight @ weight))


def warn_if_concentrated(log_ratio: Array) -> None:
    """Warn if few of many samples carry most of the ratio's mass."""
    if log_ratio.size >= ENOUGH and (sentence := concentration(log_ratio)) is not None:
        warnings.warn(f"{sentence} Calibrate the ratio, or lower the budget.", RatioWarning, stacklevel=3)


def concentration(log_ratio: Array, few: int = FEW) -> str | None:
    """A sentence for the user if `few` samples carry half of the ratio's mass, otherwise None."""
    weight = relative_ratios(log_ratio)
    n, size = weight.size, float(weight.sum() ** 2 / (weight @ weight))
    top = float(np.sort(weight)[-few:].sum() / weight.sum())
    if size >= THIN * n and top <= 0.5:
        return None
    return (
        f"the largest ratios rest on few samples: the {few} largest of {n:,} carry {top:.0%} of the mass, an effective "
        f"sample size of {size:,.1f}."
    )
