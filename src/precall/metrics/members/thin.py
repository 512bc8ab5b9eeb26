"""A member for sets without thickness: unit vectors, shares that add up to 1, columns that others determine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from precall.lazy import torch
from precall.metrics.members.views import Seen, Task, sorted_values
from precall.theory.arrays import Tensor, gram
from precall.theory.logistic import cell_log_ratios

MOST = 160  # largest number of terms: of 16 columns all products, of 79 columns the squares
AXES = 4  # number of combinations of terms that are tried per class
ROWS = 1000  # number of rows of each class in which they are sought
ROUNDING = 1e-12  # variance up to which a combination of terms, which are about 1, varies by rounding alone


@dataclass(frozen=True, eq=False)
class Thin:
    """A function with two values of the distance from a set on which a combination of terms is constant."""

    scale: Tensor  # mean and standard deviation of each column, in units of the norm of the rows, and it, shape (3, d)
    axis: Tensor  # weight of each term, of the first terms
    mean: Tensor  # the constant
    cut: Tensor  # the distance up to which the first value holds
    values: Tensor  # the log-ratios up to this distance, and beyond it

    def log_ratio(self, rows: Seen) -> Tensor:
        terms = rows.view("terms", partial(_terms, scale=self.scale))
        distance = (terms[:, : len(self.axis)] @ self.axis - self.mean).abs()
        return torch.where(distance <= self.cut, self.values[0], self.values[1])


def thin(task: Task, seed: int) -> Thin:
    """Log-ratio of the distance from a set on which one class lies, or nearly lies.

    Terms are the sum of a row, its squared norm, its columns, their squares, and their products, as far as each class
    has twice as many training rows. The combinations along which one class varies least, relative to both, are found on
    two thirds of these rows, and the distance that divides the classes best on the others. It counts if it gains more
    log-likelihood than the search explains, and as many fitted terms do on their own rows: one half each.
    """
    rows, sides = task.rows, [side[:: -(-len(side) // ROWS)] for side in (task.real, task.fake)]
    scale = rows.once("scale of terms", partial(_scale, fit=task.fit))
    terms, most = rows.view("terms", partial(_terms, scale=scale)), max(2, min(map(len, sides)) // 2)
    count = max(end for end in _ends(rows.x.shape[1]) if end <= most)
    some = task.fit[:: -(-len(task.fit) // (2 * ROWS))]
    white = rows.once(f"axes of {count} terms", lambda _: _whitening(terms[some, :count]))
    seen = [terms[side, :count] @ white for side in sides]
    axes = torch.cat([_thinnest(torch.cat([one[::3], one[1::3]])) for one in seen], dim=1)
    gain, cut, values = _best_cuts(*((one[2::3] @ axes[:-1] - axes[-1]).abs().T.contiguous() for one in seen))
    best = int(gain.argmax())
    clear = gain[best] > np.log(len(gain) * sum(map(len, seen)) / 3) + count / 2
    return Thin(scale, white @ axes[:-1, best], axes[-1, best], cut[best], values[best] * clear)


def _ends(d: int) -> list[int]:
    """Numbers of terms without and with the columns, their squares and their products, of at most `MOST`."""
    return [end for end in (2, 2 + d, 2 + 2 * d, 2 + 2 * d + d * (d - 1) // 2) if end <= MOST]


def _scale(rows: Seen, fit: Tensor) -> Tensor:
    """The scale of `Thin`, from some of the rows with the indices `fit`."""
    x = rows.x[fit[:: -(-len(fit) // (2 * ROWS))]].double()
    largest = x.abs().max().clamp(min=1e-150)
    size = largest * (x / largest).square().sum(dim=1).mean().sqrt().clamp(min=1e-150)
    spread, mean = torch.std_mean(x / size, dim=0, correction=0)
    spread = torch.where(rows.views.scale.isfinite() & (spread > 0), spread, torch.inf)
    return torch.stack([mean, spread, size.expand_as(mean)])


def _terms(rows: Seen, scale: Tensor) -> Tensor:
    """The terms of all rows, in float64, shape (n, terms)."""
    x = rows.x.double() / scale[2]
    terms, kinds = [x.sum(dim=1)[:, None], torch.linalg.vector_norm(x, dim=1)[:, None] ** 2], len(_ends(x.shape[1]))
    if kinds > 1:
        z = (x - scale[0]) / scale[1]
        terms += [z, z**2][: kinds - 1]
    if kinds > 3:
        i, j = torch.triu_indices(z.shape[1], z.shape[1], offset=1, device=z.device)
        terms.append(z[:, i] * z[:, j])
    return torch.cat(terms, dim=1)


def _whitening(terms: Tensor) -> Tensor:
    """Axes on which the terms are white, as columns; 0 along a single one if all terms vary by rounding alone."""
    values, vectors = torch.linalg.eigh(gram(terms - terms.mean(dim=0)) / len(terms))
    varied = values > ROUNDING
    kept = slice(min(int((~varied).sum()), len(values) - 1), None)
    axes: Tensor = vectors[:, kept] / torch.where(varied, values, torch.inf)[kept].sqrt()
    return axes


def _thinnest(x: Tensor) -> Tensor:
    """The axes along which the rows of `x` vary least, as columns, and the means along them in the last row."""
    mean = x.mean(dim=0)
    axes = torch.linalg.eigh(gram(x - mean))[1][:, :AXES]
    return torch.cat([axes, (mean @ axes)[None]])


def _best_cuts(real: Tensor, fake: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For each row of distances, the gain by the best cut, the cut, and the log-ratios up to it and beyond it.

    The best cut is where the distribution functions of the classes differ most.
    """
    both, (n, m) = sorted_values(torch.cat([real, fake], dim=1)), (real.shape[1], fake.shape[1])
    p, q = (torch.searchsorted(sorted_values(one), both, right=True).double() for one in (real, fake))
    at = (p / n - q / m).abs()[:, :-1].argmax(dim=1, keepdim=True)
    p, q, cut = p.gather(1, at), q.gather(1, at), (both.gather(1, at) + both.gather(1, at + 1)) / 2
    whole = (cut.new_full((1, 1), one) for one in (n, m))
    gain, values = cell_log_ratios(torch.cat([p, n - p], dim=1), torch.cat([q, m - q], dim=1), *whole)
    return gain.sum(dim=1), cut[:, 0], values
