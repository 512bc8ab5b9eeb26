"""How means, variances and the masses of cells differ: what names a difference that is a slope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from precall.metrics.cells.histograms import CELLS, Clusters, histograms_of_pair
from precall.metrics.inputs.features import Pair, as_tensor, device_of, uniform_rows
from precall.metrics.scores.evidence import BEYOND, Moved
from precall.theory.arrays import Array
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
    p, q = (one.astype(np.float64) for one in pair.rows(*uniform_rows(pair.sizes, ROWS, seed)).to_numpy())
    between = partial(_between, device=device_of(pair.real), seed=seed)
    parts, cells = _moments(*_standardised(p, q), np.random.default_rng(seed)), between(p, q)
    matched: Sequence[float | None] = [None] * len(cells)
    if cells[0] >= VISIBLE:
        spread = q.std(axis=0)
        factor = np.divide(p.std(axis=0), spread, out=np.ones_like(spread), where=spread > 0)
        # q with the mean and the spread of p in every column
        matched = between(p, p.mean(axis=0) + (q - q.mean(axis=0)) * factor)
    rows = zip(parts.tolist(), cells, matched, strict=True)
    whole, *draws = (Moved(s, n, w, before, after, *left) for (s, n, w, *left), before, after in rows)
    return replace(whole, draws=tuple(draws))


def _standardised(p: Array, q: Array) -> tuple[Array, Array]:
    """Both sets in the units of the reals, without the columns that do not vary there."""
    largest = np.maximum(np.abs(p).max(axis=0), np.abs(q).max(axis=0))
    p, q = (np.ldexp(one, -np.frexp(largest)[1]) for one in (p, q))  # squares of tiny units would be 0
    some = np.concatenate([one[:QUANTILE_ROWS] for one in (p, q)])
    ends = np.quantile(some, (TAIL, 1 - TAIL), axis=0)
    p, q = (np.clip(one, *ends) for one in (p, q))  # a heavy tail is mostly noise
    centre, spread = p.mean(axis=0), p.std(axis=0)
    varied = spread > 1e-9
    return (p - centre)[:, varied] / spread[varied], (q - centre)[:, varied] / spread[varied]


def _moments(p: Array, q: Array, rng: np.random.Generator) -> Array:
    """Shift, narrow, wide, and what these leave beyond λ: of all samples, then of bootstrap samples."""
    (mean, v), (other, w) = (_drawn_moments(one, rng) for one in (p, q))
    ratio = np.maximum(w / np.maximum(v, 1e-12), 1e-9)
    spread, squared = (ratio - 1 - np.log(ratio)) / 2, (mean - other) ** 2 / np.maximum(v, 1e-12)
    parts = np.stack([squared.sum(axis=1) / 2, *((spread * side).sum(axis=1) for side in (ratio < 1, ratio > 1))], 1)
    noise = (1 / len(p) + 1 / len(q)) / 2 * p.shape[1]
    expected = np.outer([1.0, *[2.0] * DRAWS], [noise, noise / 2, noise / 2])  # a bootstrap adds its own noise
    shown = np.maximum(0.0, parts - expected)
    signal = shown.sum(axis=1) / np.maximum(parts.sum(axis=1), 1e-12)
    return np.column_stack([shown, *_left(squared, ratio, signal)])


def _left(squared: Array, w: Array, signal: Array) -> tuple[Array, Array]:
    """Mass of N(m, w) beyond λ = `BEYOND` times N(0, 1), and the reverse, with independent columns; m² is `squared`.

    The sum T of the columns' log-ratios is about normal, with mean μ and variance σ² under the first law, so that

        I(λ) = E[(1 − λ e^{−T})₊] ≈ Φ(z) − λ e^{σ²/2 − μ} Φ(z − σ),   z = (μ − log λ)/σ.
    """
    from scipy.special import log_ndtr, ndtr

    of_fakes = (squared + w - 1 - np.log(w)).sum(axis=1) / 2, (squared * w + (w - 1) ** 2 / 2).sum(axis=1)
    of_reals = ((squared + 1) / w - 1 + np.log(w)).sum(axis=1) / 2, (squared / w**2 + (1 - 1 / w) ** 2 / 2).sum(axis=1)
    found = []
    for mean, variance in ((signal * mean, signal * variance + 1e-12) for mean, variance in (of_fakes, of_reals)):
        deviation = np.sqrt(variance)
        z = (mean - np.log(BEYOND)) / deviation
        back = np.exp(np.minimum(0.0, np.log(BEYOND) + variance / 2 - mean + log_ndtr(z - deviation)))
        found.append(np.maximum(0.0, ndtr(z) - back))
    return found[0], found[1]


def _drawn_moments(x: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Mean and variance of every column: of all samples, then of bootstrap samples; shape (1 + draws, d) each."""
    n = len(x)
    drawn = [np.bincount(rng.integers(n, size=n), minlength=n) for _ in range(DRAWS)]
    weights = np.stack([np.ones(n), *drawn]) / n
    mean = weights @ x
    return mean, weights @ x**2 - mean**2


def _between(p: Array, q: Array, device: str, seed: int) -> list[float]:
    """Total variation between cells beyond chance: of all samples, then of bootstrap samples."""
    cells = min(CELLS, len(p), len(q))
    pair = Pair(as_tensor(p, device), as_tensor(q, device)) if device == "cuda" else Pair(p, q)
    found: Clusters = histograms_of_pair(pair, n_clusters=cells, repeats=1, seed=seed, starts=STARTS)
    rng = np.random.default_rng(seed)
    chance = float(np.mean([one.total_variation for one in found.permuted(PERMUTED, rng)]))
    drawn = [one.total_variation for one in found.resampled(DRAWS, rng)]
    expected = min(1.0, 2**0.5 * chance)  # a bootstrap doubles the variance
    return [
        chance_corrected(found.spectrum.total_variation, chance),
        *(chance_corrected(one, expected) for one in drawn),
    ]
