"""Members that see dependence between columns: each column is mapped to a normal one by its ranks first.

What is left after that does not depend on the distributions of the single columns, which `marginals` compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations_with_replacement, groupby
from math import comb

import numpy as np

from precall.lazy import torch
from precall.metrics.members.gaussians import GaussianPair, gaussian, mahalanobis
from precall.metrics.members.views import Ordered, Seen, Task, among
from precall.theory.arrays import Tensor
from precall.theory.logistic import ridge_logistic

RANKS = 1024  # largest number of ranks
LARGEST = 8  # largest number of columns in a product
PRODUCTS = 150_000  # most entries of the matrix product that gives the means of products of k columns
SEARCHED_ROWS = 5000  # rows in which products are searched: 4,000 train each of five folds
KEPT = 24  # largest number of products in the logistic regression
FAR = 5.0  # number of standard deviations to which a product is clipped
OUTERMOST = 10  # ranks at each end of a column that summaries do not tell apart
BENDS = (0.1, 0.3, 0.5, 0.7, 0.9)  # quantiles of a summary at which its function may bend


@dataclass(frozen=True, eq=False)
class NormalScores:
    """The map of each column to a normal one, by its ranks; equal values share their mean rank.

    The columns are those of `Seen.narrow`. Beside them is the standardised logarithm of their Mahalanobis radius.
    """

    knots: Tensor  # sorted values of each column, shape (columns, ranks)
    scale: Tensor  # mean and standard deviation of the scores of each column, shape (2, columns)
    mean: Tensor  # mean of the standardised scores, for the radius
    root: Tensor  # cholesky root of their covariance
    radius: Tensor  # mean and standard deviation of the log radius

    @classmethod
    def fit(cls, rows: Seen, fit: Tensor) -> NormalScores:
        """The map of the ranks of the rows with the indices `fit`."""
        ordered = rows.ordered.some(fit)
        n = ordered.shape[1]
        knots = ordered[:, np.arange(min(n, RANKS)) * n // min(n, RANKS)].contiguous()
        z = _normal(knots, rows)
        spread, middle = torch.std_mean(z[fit], dim=0, correction=0)
        scale = torch.stack([middle, torch.where(spread > 0, spread, torch.inf)])
        z = (z - scale[0]) / scale[1]
        mean, root = gaussian(z[fit])
        log_radius = (mahalanobis(mean, root, z) + 1e-9).log()[fit]
        return cls(knots, scale, mean, root, torch.stack([log_radius.mean(), log_radius.std(correction=0) + 1e-9]))

    @classmethod
    def of_task(cls, rows: Seen, fit: Tensor) -> NormalScores:
        """The same, computed once for all tasks."""
        known: NormalScores = rows.once("ranks", lambda whole: cls.fit(whole, fit))
        return known

    def of(self, rows: Seen) -> Tensor:
        """The scores of the columns and the log radius, shape (n, columns + 1), in float64."""
        return rows.view("normal scores", self._of_all)

    def _of_all(self, rows: Seen) -> Tensor:
        z = (_normal(self.knots, rows) - self.scale[0]) / self.scale[1]
        radius = (mahalanobis(self.mean, self.root, z) + 1e-9).log()
        return torch.cat([z, ((radius - self.radius[0]) / self.radius[1])[:, None]], dim=1)

    def summaries(self, rows: Seen) -> Tensor:
        """Mean, mean square, mean cube, spread, least, largest and largest absolute score of each row.

        The outermost ranks of a column count as one, because values that recur would move them.
        """
        return rows.view("summaries", self._summaries_of_all)

    def _summaries_of_all(self, rows: Seen) -> Tensor:
        most = float(torch.special.ndtri(torch.tensor(1 - OUTERMOST / (self.knots.shape[1] + 1.0))))
        z = self.of(rows)[:, :-1].clamp(-most, most)
        low, high = torch.aminmax(z, dim=1)
        powers = [(z**k).mean(dim=1) for k in (1, 2, 3)]
        return torch.stack([*powers, z.std(dim=1, correction=0), low, high, torch.maximum(-low, high)], dim=1)


def _normal(knots: Tensor, rows: Seen) -> Tensor:
    """Normal score of each value from its mean rank r among n knots: the quantile of (r + ½)/(n + 1)."""
    return rows.view("normal quantiles", lambda whole: _quantiles(knots, whole.ordered).T)


def _quantiles(knots: Tensor, columns: Ordered) -> Tensor:
    first = [torch.searchsorted(columns.values, knots, right=right) for right in (False, True)]
    twice, n = columns.counted(torch.cat(first, dim=1)), knots.shape[1]  # knots below each value, and up to it
    of_twice = torch.special.ndtri((torch.arange(2 * n + 1, dtype=torch.float64) / 2 + 0.5) / (n + 1))
    found: Tensor = of_twice.to(knots.device)[twice]
    return found


@dataclass(frozen=True, eq=False)
class RankQuadratic:
    """Two Gaussians of normal scores: two Gaussian copulas."""

    scores: NormalScores
    gaussians: GaussianPair

    def log_ratio(self, rows: Seen) -> Tensor:
        return self.gaussians.log_ratio(self.scores.of(rows)[:, :-1])


def rank_quadratic(task: Task, seed: int) -> RankQuadratic:
    """Log-ratio of two Gaussians with shrunken covariances, on normal scores: two Gaussian copulas."""
    scores = NormalScores.of_task(task.rows, task.fit)
    z = scores.of(task.rows)[:, :-1]
    return RankQuadratic(scores, GaussianPair(*gaussian(z[task.real]), *gaussian(z[task.fake])))


@dataclass(frozen=True, eq=False)
class Interactions:
    """A linear function of products of normal scores."""

    scores: NormalScores  # the normal scores, and the log radius
    terms: Tensor  # columns of each product, filled with the index of a column of ones, shape (products, columns)
    scale: Tensor  # mean and standard deviation of each product, shape (2, products)
    weights: Tensor  # weight of each product, and the offset

    def log_ratio(self, rows: Seen) -> Tensor:
        products = _products(_with_ones(self.scores.of(rows)), self.terms)
        products = _standardised(products.T, self.scale)
        return products @ self.weights[:-1] + self.weights[-1]


def interactions(tasks: Sequence[Task], seed: int) -> list[Interactions]:
    """Logistic regression on the products of two or more columns whose means differ beyond doubt.

    The columns are normal scores, and the log radius beside them. With t the difference of the means of a product over
    its standard error, `t²/2 − 1 − log(number of products)` is a gain in log-likelihood, net of the search.
    """
    learnt = []
    for _, sharing in groupby(tasks, lambda task: id(task.rows)):  # tasks with the same rows follow each other
        some = list(sharing)
        scores = NormalScores.of_task(some[0].rows, some[0].fit)
        z = scores.of(some[0].rows)
        columns = _with_ones(z)
        for task, found in zip(some, _differing_products(z, some), strict=True):
            longest = max(map(len, found), default=1)
            filled = [[*term, *([z.shape[1]] * (longest - len(term)))] for term in found]
            terms = torch.tensor(filled, dtype=torch.long, device=z.device).reshape(-1, longest)
            products = _products(columns, terms)[:, task.train].T
            learnt.append(Interactions(scores, terms, *_regression(products, task, ridge=1.0)))
    return learnt


def _regression(x: Tensor, task: Task, ridge: float) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each column of the training rows, and the weights of a logistic regression."""
    mean = x.mean(dim=0)
    scale = torch.stack([mean, (x - mean).square().mean(dim=0).sqrt() + 1e-12])
    w, b = ridge_logistic(_standardised(x, scale), task.labels, ridge=ridge)
    return scale, torch.cat([w, (b - task.log_odds)[None]])


@dataclass(frozen=True, eq=False)
class Summaries:
    """A sum of functions of what a row shows as a whole: mean, spread, powers and ends of its normal scores."""

    scores: NormalScores
    knots: Tensor  # where each function may bend, shape (bends, summaries)
    scale: Tensor  # mean and standard deviation of each piece, shape (2, pieces)
    weights: Tensor  # weight of each piece, and the offset

    def log_ratio(self, rows: Seen) -> Tensor:
        pieces = _standardised(_pieces(self.scores.summaries(rows), self.knots), self.scale)
        return pieces @ self.weights[:-1] + self.weights[-1]


def summaries(task: Task, seed: int) -> Summaries:
    """Logistic regression on piecewise linear functions of summaries of a row, for copulas that treat columns alike.

    A common factor, and tails that occur in many columns at once, change how the scores of one row are spread. No
    product of few columns shows this.
    """
    scores = NormalScores.of_task(task.rows, task.fit)
    found = scores.summaries(task.rows)
    bends = found.new_tensor(BENDS)
    knots = task.rows.once("bends of summaries", lambda _: torch.quantile(found[task.fit], bends, dim=0))
    return Summaries(scores, knots, *_regression(_pieces(found[task.train], knots), task, ridge=10.0))


def _pieces(x: Tensor, knots: Tensor) -> Tensor:
    """Each column, and its part above each of its knots: together, piecewise linear functions."""
    return torch.cat([x, (x[:, None] - knots).clamp(min=0).flatten(1)], dim=1)


def _with_ones(z: Tensor) -> Tensor:
    """The columns of `z`, and one of ones, shape (columns + 1, n)."""
    return torch.cat([z.T, torch.ones_like(z[:, :1].T)])


def _products(columns: Tensor, terms: Tensor) -> Tensor:
    """The product of the columns of each term, shape (terms, n)."""
    return reduce(torch.Tensor.mul_, (columns.index_select(0, column) for column in terms.T))


def _standardised(products: Tensor, scale: Tensor) -> Tensor:
    return ((products - scale[0]) / scale[1]).clamp(-FAR, FAR)


def _differing_products(z: Tensor, tasks: Sequence[Task]) -> list[list[tuple[int, ...]]]:
    """For each task, columns of each product whose mean differs most between the classes, net of the search.

    There are at most `KEPT`. Products of k columns are products of ⌊k/2⌋ and of the others: a matrix product gives all
    their means, and k ends where it would have more than `PRODUCTS` entries. A row is multiplied once for all tasks,
    in blocks that fit into the cache of a processor.
    """
    blocks, shares = _blocks(tasks)
    columns, d = torch.split(z[torch.cat(blocks)].float().T.contiguous(), [*map(len, blocks)], dim=1), z.shape[1]
    counts = [comb(d + k - 1, k) for k in range(LARGEST + 1)]
    most = max(k for k in range(2, LARGEST + 1) if k == 2 or counts[k // 2] * counts[k - k // 2] <= PRODUCTS)
    tried = np.log(sum(counts[2 : most + 1]))
    terms = [list(combinations_with_replacement(range(d), k)) for k in range(1, (most + 1) // 2 + 1)]
    chosen = [torch.tensor(of, device=z.device) for of in terms]
    factors = [[_products(block, of) for block in columns] for of in chosen]
    found: list[dict[tuple[int, ...], float]] = [{} for _ in tasks]
    for k in range(2, most + 1):
        a, b = k // 2 - 1, k - k // 2 - 1
        gain = _statistics(factors[a], factors[b], shares) ** 2 / 2 - 1 - tried
        largest = gain.topk(min(8 * KEPT, gain.shape[1]))
        for known, values, places in zip(found, largest.values.tolist(), largest.indices.tolist(), strict=True):
            for value, (i, j) in zip(values, (divmod(place, len(terms[b])) for place in places), strict=True):
                if value > 0:
                    known[tuple(sorted([*terms[a][i], *terms[b][j]]))] = value
    return [sorted(known, key=lambda term, of=known: -of[term])[:KEPT] for known in found]  # type: ignore[misc]


def _blocks(tasks: Sequence[Task]) -> tuple[list[Tensor], Tensor]:
    """Rows of one class that the same tasks are trained on, and the signed share of a row in the means of each task."""
    blocks, shares = [], []
    bits = 2 ** torch.arange(len(tasks), device=tasks[0].fit.device).flip(0)[:, None]
    for sides, sign in (([task.real for task in tasks], 1), ([task.fake for task in tasks], -1)):
        trained = torch.stack([among(side, len(tasks[0].rows.x)) for side in sides])
        rows = trained.any(dim=0).nonzero()[:, 0]
        rows = rows[:: -(-2 * len(rows) // SEARCHED_ROWS)]
        trained = trained[:, rows]
        numbers, pattern = torch.unique((bits * trained).sum(dim=0), return_inverse=True)
        patterns = bits & numbers > 0
        blocks += [rows[pattern == i] for i in range(len(numbers))]
        shares.append(sign * patterns / trained.sum(dim=1, keepdim=True))
    return blocks, torch.cat(shares, dim=1)


def _statistics(x: Sequence[Tensor], y: Sequence[Tensor], shares: Tensor) -> Tensor:
    """Difference of the class means of each product x_i y_j over (an upper bound of) its standard error, by task."""
    sums = torch.stack([(one @ other.T).flatten() for one, other in zip(x, y, strict=True)])
    squares = torch.stack([(one**2 @ (other**2).T).flatten() for one, other in zip(x, y, strict=True)])
    return (shares @ sums) / (shares**2 @ squares + 1e-12).sqrt()
