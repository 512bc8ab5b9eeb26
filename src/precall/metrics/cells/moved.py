"""How means, variances and the masses of cells differ: what names a difference that is a slope.

An atom, a value of a column that many rows of both sets have, is at the same place in both: it can only come too often
or too rarely. So means and variances are those of the other rows, and the share of an atom is compared like a cell's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from precall.lazy import torch
from precall.metrics.cells.histograms import CELLS, Clusters, histograms_of_pair
from precall.metrics.inputs.features import Pair, as_tensor, device_of, uniform_rows
from precall.metrics.members.views import column_quantiles
from precall.metrics.scores.evidence import BEYOND, Moved
from precall.metrics.scores.score import FAR
from precall.theory.arrays import Array, Tensor, to_numpy
from precall.theory.chance import chance_corrected

ROWS = 2000  # samples of each set
DRAWS = 12  # bootstrap samples, as many as of the curve
PERMUTED = 8  # permutations for the chance level of the cells
STARTS = 3  # k-means starts
QUANTILE_ROWS, TAIL = 500, 0.01  # rows of each set that show the ends of columns, and the share beyond them
COMMON = 0.05  # share of the rows of each set at one value from which it is an atom
VISIBLE = 0.1  # least difference between cells from which it can be told what mends it


def moved(pair: Pair, seed: int = 0) -> Moved:
    """The parts of at most `ROWS` samples of each set, less what is expected if P = Q, with bootstrap draws of them.

    Its seed is not that of an assessment: the same samples have the same cells, and so the same names.
    """
    rows = pair.rows(*uniform_rows(pair.sizes, ROWS, seed))
    device = "cuda" if device_of(pair.real) == "cuda" else "cpu"
    p, q = (as_tensor(one, device).double() for one in (rows.real, rows.fake))
    atoms = _atoms(p, q)
    free = p != atoms, q != atoms
    parts, gaps = _moments(*_standardised(p, q, free[0]), free, np.random.default_rng(seed))
    cells = _between(p, q, seed)
    matched: Sequence[float | None] = [None] * len(cells)
    if cells[0] >= VISIBLE:
        (of_reals, centre), (spread, mean) = (_spread(*one) for one in zip((p, q), free, strict=True))
        factor = torch.where(spread > 0, of_reals / spread, 1.0)
        # q with the mean and the spread of p in every column
        matched = _between(p, torch.where(free[1], centre + (q - mean) * factor, q), seed)
    found = zip(parts.tolist(), np.maximum(cells, gaps).tolist(), matched, strict=True)
    whole, *draws = (Moved(s, n, w, before, after, *left) for (s, n, w, *left), before, after in found)
    return replace(whole, draws=tuple(draws))


def _atoms(p: Tensor, q: Tensor) -> Tensor:
    """The most common value of each column; NaN if it is not common in both sets."""
    value = torch.cat([one[:: -(-len(one) // QUANTILE_ROWS)] for one in (p, q)]).mode(dim=0).values
    shares = [(one == value).double().mean(dim=0) for one in (p, q)]
    return torch.where(torch.minimum(*shares) >= COMMON, value, torch.nan)


def _spread(x: Tensor, free: Tensor) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean of the free rows of each column."""
    rows = free.sum(dim=0).clamp(min=1)
    mean = (x * free).sum(dim=0) / rows
    return (((x - mean) * free).square().sum(dim=0) / rows).sqrt(), mean


def _standardised(p: Tensor, q: Tensor, free: Tensor) -> tuple[Tensor, Tensor]:
    """Both sets in the units of the free rows of the reals; columns in which these do not vary are 0."""
    x = torch.cat([p, q])
    largest = x.abs().amax(dim=0)
    x /= torch.where(largest > 0, largest, 1.0)  # squares of tiny units would be 0
    some = torch.cat([one[:QUANTILE_ROWS] for one in (x[: len(p)], x[len(p) :])])
    x = x.clamp(*column_quantiles(some, (TAIL, 1 - TAIL)))  # a heavy tail is mostly noise
    spread, centre = _spread(x[: len(p)], free)
    x = (x - centre) / torch.where(spread > 1e-9, spread, torch.inf)
    return x[: len(p)], x[len(p) :]


def _moments(p: Tensor, q: Tensor, free: Sequence[Tensor], rng: np.random.Generator) -> tuple[Array, Array]:
    """Shift, narrow, wide, and what these leave (see `_left`): of all samples, then of bootstrap samples.

    The second array is the largest difference between the shares of an atom, beyond chance.
    """
    (mean, v, rows), (other, w, others) = (_drawn_moments(x, of, rng) for x, of in zip((p, q), free, strict=True))
    noise, doubled = (1 / len(p) + 1 / len(q)) / 2, np.array([1.0, *[2.0] * DRAWS])  # a bootstrap adds its own noise
    gaps = np.abs(rows - others).max(axis=1) - np.sqrt(doubled * noise * np.log(2 * max(1, (rows[0] < 1).sum())))
    varied = v[0] > 0
    gaps = gaps if varied.any() else np.ones_like(gaps)  # atoms alone have nothing but proportions
    mean, v, other, w, share = (one[:, varied] for one in (mean, v, other, w, (rows + others) / 2))
    ratio = np.maximum(w / np.maximum(v, 1e-12), 1e-9) ** share
    spread, squared = (ratio - 1 - np.log(ratio)) / 2, share * (mean - other) ** 2 / np.maximum(v, 1e-12)
    parts = np.stack([squared.sum(axis=1) / 2, *((spread * side).sum(axis=1) for side in (ratio < 1, ratio > 1))], 1)
    expected = np.outer(doubled, noise * varied.sum() * np.array([1.0, 0.5, 0.5]))
    shown = np.maximum(0.0, parts - expected)
    signal = shown.sum(axis=1) / np.maximum(parts.sum(axis=1), 1e-12)
    return np.column_stack([shown, *_left(squared, ratio, signal)]), gaps


def _left(squared: Array, w: Array, signal: Array) -> list[Array]:
    """Mass of N(m, w) beyond `BEYOND` times N(0, 1), the reverse, and how far each falls from `FAR`; m² is `squared`.

    Columns are independent. The sum T of their log-ratios is about normal, with mean μ and variance σ² under the first
    law, so that

        I(λ) = E[(1 − λ e^{−T})₊] ≈ Φ(z) − λ e^{σ²/2 − μ} Φ(z − σ),   z = (μ − log λ)/σ.
    """
    from scipy.special import log_ndtr, ndtr

    def left(mean: Array, variance: Array, lam: float) -> Array:
        deviation = np.sqrt(variance)
        z = (mean - np.log(lam)) / deviation
        back = np.exp(np.minimum(0.0, np.log(lam) + variance / 2 - mean + log_ndtr(z - deviation)))
        return np.asarray(np.maximum(0.0, ndtr(z) - back))

    of_fakes = (squared + w - 1 - np.log(w)).sum(axis=1) / 2, (squared * w + (w - 1) ** 2 / 2).sum(axis=1)
    of_reals = ((squared + 1) / w - 1 + np.log(w)).sum(axis=1) / 2, (squared / w**2 + (1 - 1 / w) ** 2 / 2).sum(axis=1)
    both = [(signal * mean, signal * variance + 1e-12) for mean, variance in (of_fakes, of_reals)]
    beyond, near = ([left(*one, lam) for one in both] for lam in (BEYOND, FAR))
    return [*beyond, *(first - last for first, last in zip(near, beyond, strict=True))]


def _drawn_moments(x: Tensor, free: Tensor, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Mean and variance of the free rows of every column, and their share; shape (1 + draws, d) each."""
    n = len(x)
    drawn = [np.bincount(rng.integers(n, size=n), minlength=n) for _ in range(DRAWS)]
    weights = torch.as_tensor(np.stack([np.ones(n), *drawn]) / n, device=x.device)
    share, mean, square = to_numpy(torch.stack([weights @ (x**k * free) for k in range(3)]))
    mean, square = (one / np.maximum(share, 1e-12) for one in (mean, square))
    return mean, square - mean**2, share


def _between(p: Tensor, q: Tensor, seed: int) -> list[float]:
    """Total variation between cells beyond chance: of all samples, then of bootstrap samples."""
    cells = min(CELLS, len(p), len(q))
    found: Clusters = histograms_of_pair(Pair(p, q), n_clusters=cells, repeats=1, seed=seed, starts=STARTS)
    rng = np.random.default_rng(seed)
    chance = float(np.mean([one.total_variation for one in found.permuted(PERMUTED, rng)]))
    drawn = [one.total_variation for one in found.resampled(DRAWS, rng)]
    expected = min(1.0, 2**0.5 * chance)  # a bootstrap doubles the variance
    return [
        chance_corrected(found.spectrum.total_variation, chance),
        *(chance_corrected(one, expected) for one in drawn),
    ]
