"""How different the answers to one prompt are: similarity of two answers, near-duplicates, and distinct word pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from precall.metrics.scores.score import Interval, Score
from precall.theory.arrays import Array, Index, to_numpy

if TYPE_CHECKING:
    from precall.metrics.inputs.sides import Prompted, Side

MOST = 32  # answers per prompt and side that are compared
PAIRS = 20_000  # pairs of references to different prompts that set the scale
WIDTH = 1 / 3  # width of the kernel, relative to the median distance of such pairs
CLOSE = 0.01  # share of such pairs that are closer than near-duplicates
FOLDS = 5  # of the regression on prompts
EXAMPLES = 8  # prompts that are named
LEVEL = 0.95
COVERS = "the expectation for new prompts"


class Alike(NamedTuple):
    """Similarity of two answers to one prompt, for each prompt, and that of two answers of the data; NaN if unknown."""

    fakes: Array
    expected: Array
    against: str  # what is expected: the similarity of two references, or of a reference and an answer


def within_scores(real: Side, fake: Side, seed: int) -> dict[str, Score]:
    """The effective number of answers per prompt, the share of near-duplicates, and distinct word pairs of texts.

        answers = 1 / mean over prompts of k̄(x, x'),    k(x, x') = exp(−|x − x'|² / 2w²)

    over pairs of different answers to one prompt. Empty if no prompt has two answers.
    """
    a, b = real.prompted, fake.prompted
    assert a is not None  # `matched` sets them
    assert b is not None
    sides = [(to_numpy(one.features).astype(np.float64), prompted.number) for one, prompted in ((real, a), (fake, b))]
    apart = _distances_apart(*sides[0], seed)
    if apart is None:
        return {}
    width, close = WIDTH * float(np.median(apart)), float(np.quantile(apart, CLOSE))
    rows = [_rows(number, len(a.texts)) for _, number in sides]
    x, y = sides[0][0], sides[1][0]
    kernel = _alike(x, y, rows, lambda squared: np.exp(-squared / (2 * width**2)))
    near = _alike(x, y, rows, lambda squared: (squared <= close**2).astype(np.float64))
    if not np.isfinite(kernel.fakes).any():
        return {}
    value, chance = float(np.nanmean(near.fakes)), float(np.nanmean(near.expected))  # chance: as many as in the data
    duplicates = Score(value, chance=chance, settings={"distance": close, "against": near.against})
    found = {"answers_per_prompt": _answers(kernel, a, width), "near_duplicates": duplicates}
    return found if (distinct := _distinct(fake, rows[1])) is None else {**found, "distinct_2": distinct}


def spread_score(c: tuple[Array, Array], x: tuple[Array, Array], number: tuple[Index, Index]) -> Score:
    """How far answers lie from what their prompt predicts, relative to the references.

        spread = Σ |y − f(c)|² / Σ |x − f(c)|²

    f is a ridge regression of the references x on the features c of their prompts, fitted to other prompts. Below 1,
    answers stay too close to the typical answer of their prompt; above 1, they vary too much or do not fit.
    """
    from scipy.special import stdtrit

    off = [np.square(one - f).sum(axis=1) for one, f in zip(x, _predicted(c, x, number, trained=(0,)), strict=True)]
    prompts = int(max(one.max() for one in number)) + 1
    real, fake = (np.bincount(i, one, prompts) / len(one) for i, one in zip(number, off, strict=True))
    value = float(fake.sum() / max(real.sum(), 1e-300))
    # delta method for a ratio of sums over prompts, on the log scale
    spread = (fake - value * real).std(ddof=1) if prompts > 1 else 0.0
    error = float(np.sqrt(prompts) * spread / max(fake.sum(), 1e-300))
    factor = float(np.exp(min(stdtrit(max(1, prompts - 1), (1 + LEVEL) / 2) * error, 700.0)))
    return Score(value, Interval(value / factor, value * factor, LEVEL, COVERS), 1.0, len(x[0]), len(x[1]))


def around_prompts(c: tuple[Array, Array], x: tuple[Array, Array], number: tuple[Index, Index]) -> list[Array]:
    """Each sample relative to what its prompt predicts, and its distance from it, shapes (n, d + 1) and (m, d + 1).

    Classifiers would need many samples to learn this from prompts and answers. Both sides predict with the same weight,
    so that it does not depend on the labels, and tests that permute them stay exact.
    """
    apart = [one - f for one, f in zip(x, _predicted(c, x, number, trained=(0, 1)), strict=True)]
    return [np.column_stack([one, np.linalg.norm(one, axis=1)]) for one in apart]


def _predicted(
    c: tuple[Array, Array], x: tuple[Array, Array], number: tuple[Index, Index], trained: Sequence[int]
) -> list[Array]:
    """Ridge regression of samples on their prompts, fitted to other prompts; the sides that train weigh the same."""
    centre, scale = c[0].mean(axis=0), c[0].std(axis=0)
    known = [np.column_stack([(one - centre) / np.where(scale > 0, scale, 1), np.ones(len(one))]) for one in c]
    found = [np.empty_like(one) for one in x]
    weight = [np.sqrt(len(x[0]) / len(one) / len(trained)) for one in x]
    for fold in range(FOLDS):
        fit = [(i, number[i] % FOLDS != fold) for i in trained]
        a, y = (np.concatenate([weight[i] * one[i][rows] for i, rows in fit]) for one in (known, x))
        few = len(a) < a.shape[1]  # (AᵀA + dI)⁻¹ Aᵀ = Aᵀ (AAᵀ + dI)⁻¹: the smaller matrix is inverted
        gram = a @ a.T if few else a.T @ a
        solved = np.linalg.solve(gram + a.shape[1] * np.eye(len(gram)), y if few else a.T @ y)
        weights = a.T @ solved if few else solved
        for i, rows in enumerate([one % FOLDS == fold for one in number]):
            found[i][rows] = known[i][rows] @ weights
    return found


def _answers(alike: Alike, prompted: Prompted, width: float) -> Score:
    from scipy.special import stdtr, stdtrit

    fakes, expected, against = alike
    known = np.isfinite(fakes) & np.isfinite(expected)
    s, more = fakes[known], (fakes - expected)[known]
    n, mean = len(s), float(s.mean())
    half = float(stdtrit(max(1, n - 1), (1 + LEVEL) / 2) * s.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0
    error = float(more.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0
    p_value = float(stdtr(n - 1, -more.mean() / error)) if error > 0 else 1.0
    worst = np.flatnonzero(known)[np.argsort(-more, kind="stable")[:EXAMPLES]]
    settings = {"width": width, "against": against}
    details = {"prompts": n, "examples": [prompted.texts[i][:200] for i in worst.tolist()]}
    interval = Interval(1 / min(1.0, mean + half), 1 / max(1e-12, mean - half), LEVEL, COVERS)
    chance = 1 / max(float(expected[known].mean()), 1e-12)
    return Score(1 / max(mean, 1e-12), interval, chance, None, None, settings, p_value, details)


def _distances_apart(x: Array, number: Index, seed: int) -> Array | None:
    """Distances between references to different prompts; None if they are all equal."""
    rng = np.random.default_rng(seed)
    i, j = rng.integers(len(x), size=(2, PAIRS))
    apart = number[i] != number[j]
    i, j = i[apart], j[apart]
    parts = np.array_split(np.arange(len(i)), max(1, len(i) * x.shape[1] // 4_000_000))
    found = np.concatenate([np.linalg.norm(x[i[part]] - x[j[part]], axis=1) for part in parts])
    return found if len(found) and np.median(found) > 0 else None


def _rows(number: Index, prompts: int) -> list[Index]:
    """The rows of each prompt, at most `MOST` of them."""
    order = np.argsort(number, kind="stable")
    return [part[:MOST] for part in np.split(order, np.cumsum(np.bincount(number, minlength=prompts))[:-1])]


def _alike(real: Array, fake: Array, rows: Sequence[Sequence[Index]], kernel: Callable[[Array], Array]) -> Alike:
    """Means of a kernel of squared distances; NaN where there are no two samples."""

    def mean(x: Array, y: Array) -> float:
        squared = ((x[:, None] - y[None]) ** 2).sum(axis=2)
        if x is y:
            squared = squared[np.triu_indices(len(x), 1)]
        return float(kernel(squared).mean()) if squared.size else np.nan

    each = [(real[a], fake[b]) for a, b in zip(*rows, strict=True)]
    fakes, reals, between = np.array([(mean(y, y), mean(x, x), mean(x, y)) for x, y in each]).T
    if np.isfinite(reals).mean() > 0.5:
        return Alike(fakes, reals, "two references")
    return Alike(fakes, between, "a reference and an answer")


def _distinct(fake: Side, rows: Sequence[Index]) -> Score | None:
    """Different pairs of neighbouring words over all such pairs in the answers to a prompt, averaged over prompts."""
    if fake.samples is None or fake.samples.kind != "text":
        return None
    shares = []
    for part in rows:
        words = [str(fake.samples[int(fake.rows[i])]).split() for i in part.tolist()]
        pairs = [pair for one in words for pair in pairwise(one)]
        shares += [len(set(pairs)) / len(pairs)] if pairs else []
    return Score(float(np.mean(shares)), settings={"n": 2}) if shares else None
