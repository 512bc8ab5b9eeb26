"""Exact tests of P = Q: the labels of the samples are permuted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from precall.lazy import torch
from precall.theory.arrays import Array, Flags, Index, Tensor, to_numpy
from precall.theory.logistic import CAP

VALUES = 4_000_000  # scores that are permuted in all: about a fifth of a second
DRAWS = 999  # permutations of the labels of features
MOST = 1000  # samples of each set whose features are compared


def permuted_rows(real: Flags, seed: int = 0) -> Index:
    """Rows that are called real in each permutation of the labels, shape (permutations, number of reals)."""
    rng, rows = np.random.default_rng(seed), np.arange(len(real))
    return np.stack([rng.permutation(rows)[: real.sum()] for _ in range(_permutations(len(rows)))])


def permutation_p_value(scores: Array, real: Flags, permuted: Index | None = None, *, seed: int = 0) -> float:
    """P-value of the hypothesis P = Q, from scores of samples that were not used for training.

        T = mean of s over the reals,    p = (1 + #{permutations with T* ≥ T}) / (1 + number of permutations)

    Under P = Q the labels are exchangeable given the scores, so the test is exact for any classifier, any two sizes and
    any number of permutations; they may be drawn before (`permuted_rows`). If s is a log-ratio, n T is the
    log-likelihood of the labels up to a constant, since log σ(s) − log σ(−s) = s. A few samples with a large ratio then
    count for much, which a threshold at 0 would lose: if 6 % of the modes are dropped, 94 % of the samples carry no
    information about it. Scores are clipped to ±`CAP`.

    References:
        Lopez-Paz and Oquab (2017); Phipson and Smyth (2010) on the 1 in numerator and denominator.
    """
    s = np.clip(scores, -CAP, CAP)
    drawn = s[permuted_rows(real, seed) if permuted is None else permuted].sum(axis=1)
    rounding = 1e-9 * np.abs(s).sum()  # sums of equal scores in another order are equal
    return _share_as_large(drawn, s[real].sum() - rounding)


def log_e_value(real: Array, fake: Array) -> float:
    """Logarithm of an e-value of P = Q, from scores of samples that were not used for training.

        E = Π 4 D(x) (1 − D(y)),   D = σ(τ s),   averaged over τ ∈ {1/8, 1/4, 1/2, 1}

    over pairs of one real and one fake. Under P = Q a factor has the mean 4 μ (1 − μ) ≤ 1, so E exceeds 1/δ with
    probability at most δ, for every δ (docs/theory.md, Confidence bands). Small τ serve scores that are too sure.
    """
    pairs = min(len(real), len(fake))
    s, t = (np.clip(one[:pairs], -CAP, CAP) for one in (real, fake))
    bets = [
        (np.log(4) - np.logaddexp(0, -tau * s) - np.logaddexp(0, tau * t)).sum() for tau in (1 / 8, 1 / 4, 1 / 2, 1)
    ]
    return float(np.logaddexp.reduce(bets) - np.log(len(bets)))


def unit_p_value(scores: Array, real: Flags, unit: Index, seed: int = 0) -> float:
    """P-value of the hypothesis P = Q, from scores of samples in units, such as answers to prompts, of both sides.

        T = Σ_u D_u,    D_u = mean of s over the reals of unit u − mean over its fakes

    Under P = Q the sides of a unit can be exchanged, so the signs of the D_u are random. The test is exact for as many
    reals as fakes per unit, and for many units otherwise.
    """
    s, (_, place) = np.clip(scores, -CAP, CAP), np.unique(unit, return_inverse=True)
    means = [np.bincount(place[side], s[side]) / np.bincount(place[side]) for side in (real, ~real)]
    difference = means[0] - means[1]
    rng = np.random.default_rng(seed)
    draws = np.array_split(np.arange(_permutations(len(s))), 4)  # memory
    drawn = np.concatenate([rng.choice((-1.0, 1.0), (len(part), len(difference))) @ difference for part in draws])
    return _share_as_large(drawn, difference.sum() - 1e-9 * np.abs(difference).sum())


def _permutations(n: int) -> int:
    """Number of permutations of n values."""
    return int(np.clip(VALUES // n, 999, 9999))


def _share_as_large(drawn: Array, observed: float) -> float:
    """p = (1 + number of permutations that reach the observed value) / (1 + number of permutations)."""
    return float((1 + (drawn >= observed).sum()) / (1 + len(drawn)))


def compared_rows(real: Flags, seed: int = 0) -> Index:
    """Rows whose features are compared: a random part of each set, of at most `MOST`."""
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.permutation(np.flatnonzero(side))[:MOST] for side in (real, ~real)])


def feature_p_value(blocks: Sequence[Tensor], real: Flags, seed: int = 0) -> float:
    """P-value of the hypothesis P = Q, from blocks of features that were computed without the labels.

    Two statistics of each block are compared with those of permuted labels: the sum of t² over its features, and the
    largest t², where t is the difference of the class means over its standard error. The smallest of all ranks is
    compared with that of the permutations. Nothing is trained, so all samples count, and the test is exact.
    """
    labels = np.tile(real, (DRAWS + 1, 1))
    np.random.default_rng([seed, 1]).permuted(labels[1:], axis=1, out=labels[1:])
    n, m = int(real.sum()), int((~real).sum())
    contrast = torch.where(torch.as_tensor(labels, device=blocks[0].device), 1 / n, -1 / m)
    statistics = to_numpy(torch.cat([_statistics(contrast, block) for block in blocks], dim=1).double())
    ordered = np.sort(statistics, axis=0)
    rounding = 1e-5 * np.abs(ordered[-1])
    columns = zip(ordered.T, (statistics - rounding).T, strict=True)
    reached = np.column_stack([len(one) - np.searchsorted(one, values) for one, values in columns])
    smallest = reached.min(axis=1)  # rank from above: how many permutations reach the statistic
    return float((smallest <= smallest[0]).mean())


def _statistics(contrast: Tensor, x: Tensor) -> Tensor:
    """Sum and maximum of t² over the features, for each permutation, shape (permutations, 2)."""
    centred = (x - x.mean(dim=0)).float()
    variance = centred.square().mean(dim=0)
    squares = (contrast @ centred).square_() / torch.where(variance > 1e-18, variance, torch.inf)
    return torch.stack([squares.sum(dim=1), squares.amax(dim=1)], dim=1)
