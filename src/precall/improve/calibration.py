"""Calibration of scores into log-ratios on held-out samples: mean one, temperature, or isotonic blocks."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np

from precall.improve.interfaces import Samples
from precall.theory import checks
from precall.theory.arrays import Array, is_tensor
from precall.theory.hull import score_blocks


@dataclass(frozen=True)
class Affine:
    """The calibration `scale · s + shift`."""

    scale: float
    shift: float

    def __call__(self, score: Samples) -> Samples:
        return self.scale * score + self.shift


@dataclass(frozen=True, eq=False)
class Steps:
    """A piecewise constant calibration: the log-ratio of the block that contains the score.

    Scores below all edges get the log-ratio of the first block.
    """

    edges: Array
    log_ratio: Array

    def __call__(self, score: Samples) -> Samples:
        scores = score.detach().cpu().double().numpy() if is_tensor(score) else np.asarray(score)
        found = self.log_ratio[np.maximum(np.searchsorted(self.edges, scores, side="right") - 1, 0)]
        if not is_tensor(score):
            return found
        tensor: Samples = sys.modules["torch"].as_tensor(found).to(score)
        return tensor


def mean_one(fake: Array) -> Affine:
    """The shift by `log E_Q[r]`, after which the ratio has mean one under the model."""
    from scipy.special import logsumexp

    mean = float(logsumexp(fake)) - math.log(fake.size)
    if not math.isfinite(mean):
        raise ValueError(f"`ratio` must have a finite, positive mean over `fake`; got {math.exp(mean):g}.")
    return Affine(1.0, -mean)


def temperature(*, real: Array, fake: Array) -> Affine:
    """The scale and shift that minimise the balanced logistic loss."""
    from precall.theory.logistic import nonnegative_logistic

    scores = checks.numbers("ratio", np.concatenate([real, fake]))
    labels = np.arange(scores.size) < real.size
    scale, shift = nonnegative_logistic(scores[:, None], labels, ridge=0.0, centre=np.array([1.0, 0.0]))
    return Affine(float(scale), float(shift))


def isotonic(*, real: Array, fake: Array) -> Steps:
    """The log-ratio of each block of the score's error hull, with half a sample of each kind added."""
    from precall.metrics.classifiers.calibration import finite_log_ratio

    blocks = score_blocks(real=real, fake=fake)
    return Steps(blocks.edges, finite_log_ratio(blocks, n=real.size, m=fake.size))
