"""How means, variances and the masses of cells differ: what names a difference that is a slope."""

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
VISIBLE = 0.1  # least difference between cells from which it can be told what mends it


def moved(pair: Pair, seed: int = 0) -> Moved:
    """The parts of at most `ROWS` samples of each set, less what is expected if P = Q, with bootstrap draws of them.

    Its seed is not that of an assessment: the same samples have the same cells, and so the same names.
    """
    rows = pair.rows(*uniform_rows(pair.sizes, ROWS, seed))
    device = "cuda" if device_of(pair.real) == "cuda" else "cpu"
    p, q = (as_tensor(one, device).double() for one in (rows.real, rows.fake))
    parts, cells = _moments(*_standardised(p, q), np.random.default_rng(seed)), _between(p, q, seed)
    matched: Sequence[float | None] = [None] * len(cells)
    if cells[0] >= VISIBLE:
        (spread, mean), (of_reals, centre) = (torch.std_mean(one, dim=0, correction=0) for one in (q, p))
        factor = torch.where(spread > 0, of_reals / spread, 1.0)
        # q with the mean and the spread of p in every column
        matched = _between(p, centre + (q - mean) * factor, seed)
    found = zip(parts.tolist(), cells, matched, strict=True)
    whole, *draws = (Moved(s, n, w, before, after, *left) for (s, n, w, *left), before, after in found)
    return replace(whole, draws=tuple(draws))


def _standardised(p: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """Both sets in the units of the reals, without the columns that do not vary there."""
    x = torch.cat([p, q])
    largest = x.abs().amax(dim=0)
    x /= torch.where(largest > 0, largest, 1.0)  # squares of tiny units would be 0
    some = torch.cat([one[:QUANTILE_ROWS] for one in (x[: len(p)], x[len(p) :])])
    x = x.clamp(*column_quantiles(some, (TAIL, 1 - TAIL)))  # a heavy tail is mostly noise
    spread, centre = torch.std_mean(x[: len(p)], dim=0, correction=0)
    varied = spread > 1e-9
    x = ((x - centre) / spread)[:, varied]
    return x[: len(p)], x[len(p) :]


def _moments(p: Tensor, q: Tensor, rng: np.random.Generator) -> Array:
    """Shift, narrow, wide, and what these leave (see `_left`): of all samples, then of bootstrap samples."""
    (mean, v), (other, w) = (_drawn_moments(one, rng) for one in (p, q))
    ratio = np.maximum(w / np.maximum(v, 1e-12), 1e-9)
    spread, squared = (ratio - 1 - np.log(ratio)) / 2, (mean - other) ** 2 / np.maximum(v, 1e-12)
    parts = np.stack([squared.sum(axis=1) / 2, *((spread * side).sum(axis=1) for side in (ratio < 1, ratio > 1))], 1)
    noise = (1 / len(p) + 1 / len(q)) / 2 * p.shape[1]
    expected = np.outer([1.0, *[2.0] * DRAWS], [noise, noise / 2, noise / 2])  # a bootstrap adds its own noise
    shown = np.maximum(0.0, parts - expected)
    signal = shown.sum(axis=1) / np.maximum(parts.sum(axis=1), 1e-12)
    return np.column_stack([shown, *_left(squared, ratio, signal)])


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


def _drawn_moments(x: Tensor, rng: np.random.Generator) -> tuple[Array, Array]:
    """Mean and variance of every column: of all samples, then of bootstrap samples; shape (1 + draws, d) each."""
    n = len(x)
    drawn = [np.bincount(rng.integers(n, size=n), minlength=n) for _ in range(DRAWS)]
    weights = torch.as_tensor(np.stack([np.ones(n), *drawn]) / n, device=x.device)
    mean, square = to_numpy(torch.stack([weights @ x, weights @ x**2]))
    return mean, square - mean**2


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
