"""Members that look at every column by itself: densities of single columns, and the ends of their ranges.

Principal axes mix the columns. A difference in one column out of many then disappears among the others, and so do marks
that only single columns have: rounded values, values that recur, and the ends of a range. All columns of a task are
handled at once, one per row of a matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from precall.lazy import torch
from precall.metrics.members.views import UNROUNDED, ZERO, Seen, Task, last_digit, sorted_values
from precall.theory.arrays import Tensor
from precall.theory.logistic import CAP, cell_log_ratios

FINEST = 64  # largest number of bins of one column
PER_BIN = 12  # fewest training values per bin
ATOM = 50  # a value with at least 1/ATOM of the training values of a column has a cell of its own
TIES = 200  # a column in which one value in so many recurs, other than those, has ties
ROUNDED = 16  # a column in which one value in so many is rounded, other than 0, is rounded
DIGIT_ROWS = 256  # number of values that show it
SURE = 2.0  # number of standard errors from which two sets share too many values to be independent
EXTREMES = 8  # number of extreme values that give the spacing at the end of a column
BLOCK = 64  # number of columns that are evaluated at once


@dataclass(frozen=True, eq=False)
class StepFunctions:
    """One function per column that is constant between its knots, and may have other values at the knots."""

    columns: Tensor  # index of each column, shape (c,)
    knots: Tensor  # knots of each function, increasing and filled with ∞, shape (c, k)
    after: Tensor  # its value before the first knot, and after each of them, shape (c, k + 1)
    at: Tensor  # its value at each knot; that of `after` in the first place, shape (c, k + 1)

    def total(self, values: Tensor) -> Tensor:
        """Sum of the functions at the values of these columns, shape (c, n), for each of the n rows."""
        total = torch.zeros(values.shape[1], dtype=torch.float64, device=values.device)
        for i in range(0, len(values), BLOCK):
            x, knots = values[i : i + BLOCK], self.knots[i : i + BLOCK]
            at = torch.searchsorted(knots, x, right=True)
            met = (at > 0) & (knots.gather(1, (at - 1).clamp(min=0)) == x)
            after, here = self.after[i : i + BLOCK], self.at[i : i + BLOCK]
            total += torch.where(met, here.gather(1, at), after.gather(1, at)).sum(dim=0)
        return total

    def some(self, chosen: Tensor) -> StepFunctions:
        """Some of the functions, with as many knots as they have."""
        knots = self.knots[chosen]
        k = int(knots.isfinite().sum(dim=1).max()) if len(knots) else 0
        cut = (one[chosen][:, : k + 1].contiguous() for one in (self.after, self.at))
        return StepFunctions(self.columns[chosen], knots[:, :k].contiguous(), *cut)


@dataclass(frozen=True, eq=False)
class Marginals:
    """`Σ_j f_j(x_j)` with one function per column: of its values, or of the last digits of its values."""

    values: StepFunctions  # the functions of values
    digits: StepFunctions  # the functions of last digits
    recurring: StepFunctions  # constant but at the training values

    def log_ratio(self, rows: Seen) -> Tensor:
        total = self.values.total(rows.columns(self.values.columns))
        total += self.recurring.total(rows.columns(self.recurring.columns))
        return total + self.digits.total(last_digit(rows.columns(self.digits.columns)).float())


def marginals(task: Task, seed: int) -> Marginals:
    """`Σ_j log p_j/q_j`, the log-ratio of two products of densities of the single columns.

    A column has quantile bins; their number is the one with the largest penalised likelihood. Values that recur often
    have cells of their own. A column with rounded values or with ties may be described otherwise, if that has a larger
    penalised likelihood: by how its values are rounded, or by whether they occur among the training values of each
    class.
    """
    rows, chosen = task.rows, task.columns
    real, fake = rows.part(task.real).columns(chosen), rows.part(task.fake).columns(chosen)
    penalty = float(np.log(len(chosen)))  # the risk of a search over many columns
    net, steps, tied = _described(chosen, real, fake, penalty)
    nets, digit_steps = net.new_zeros(3, len(net)), steps.some(torch.zeros_like(tied))  # no columns
    nets[0], recurring_steps = net, digit_steps
    rounded, recurring = _is_rounded(torch.cat([real, fake], dim=1)).nonzero()[:, 0], tied.nonzero()[:, 0]
    if len(rounded):
        of_real, of_fake = (last_digit(one[rounded]).float() for one in (real, fake))
        nets[1, rounded], digit_steps, _ = _described(chosen[rounded], of_real, of_fake, penalty)
    if len(recurring):
        # rows that repeat each other are in one fold: none of them meets the others in a test
        p, q = (one[recurring][:, task.counted[at]] for one, at in ((real, task.real), (fake, task.fake)))
        nets[2, recurring], recurring_steps = _recurrence(chosen[recurring], p, q, penalty)
    best, which = nets.max(dim=0)
    which = torch.where(best > 0, which, -1)
    return Marginals(
        steps.some(which == 0), digit_steps.some(which[rounded] == 1), recurring_steps.some(which[recurring] == 2)
    )


def _is_rounded(x: Tensor) -> Tensor:
    """Whether at least one value in `ROUNDED` of each column is rounded, zeros left out, from some of its values."""
    digit = last_digit(x[:, :: max(1, x.shape[1] // DIGIT_ROWS)])
    rounded = ((digit != UNROUNDED) & (digit != ZERO)).sum(dim=1)
    return rounded * ROUNDED >= (digit != ZERO).sum(dim=1).clamp(min=1)


def _described(columns: Tensor, real: Tensor, fake: Tensor, penalty: float) -> tuple[Tensor, StepFunctions, Tensor]:
    """Log-ratio of each column: cells of frequent values, and the best merging of quantile bins of the others."""
    both, real = sorted_values(torch.cat([real, fake], dim=1)), sorted_values(real)
    atoms, counts, reals = _atoms(both, real)
    ties = (both[:, 1:] == both[:, :-1]).sum(dim=1) - (counts - 1).clamp(min=0).sum(dim=1)
    edges = _quantile_edges(both, atoms, counts)
    cells, p = _counts(both, edges, atoms, counts), _counts(real, edges, atoms, reals)
    net, of_atoms, of_bins = _best_log_ratios(p, cells - p, atoms.shape[1], penalty)
    return net, _joined(columns, atoms, of_atoms, edges, of_bins), ties * TIES >= both.shape[1]


def _atoms(both: Tensor, real: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The frequent values of each column, increasing and filled with ∞, and their numbers, in all and in `real`."""
    least = int(np.ceil(max(5, both.shape[1] / ATOM)))
    candidates = both[:, ::least].contiguous()
    counts = _count(both, candidates)
    frequent = (counts >= least) & torch.nn.functional.pad(candidates[:, 1:] != candidates[:, :-1], (1, 0), value=True)
    atoms, order = torch.where(frequent, candidates, torch.inf).sort(dim=1)
    most = int(frequent.sum(dim=1).max()) if len(frequent) else 0
    atoms, order = atoms[:, :most].contiguous(), order[:, :most]
    known = atoms.isfinite()
    return atoms, counts.gather(1, order) * known, _count(real, atoms) * known


def _count(ordered: Tensor, values: Tensor) -> Tensor:
    """How often each value occurs in the sorted rows of the first matrix."""
    return torch.searchsorted(ordered, values, right=True) - torch.searchsorted(ordered, values)


def _quantile_edges(both: Tensor, atoms: Tensor, counts: Tensor) -> Tensor:
    """Least value of each quantile bin but the first, atoms left out, filled with ∞; shape (c, FINEST − 1)."""
    rest = (both.shape[1] - counts.sum(dim=1))[:, None]
    bins = 2 ** (rest / PER_BIN).clamp(min=1).log2().floor().clamp(max=np.log2(FINEST)).long()
    k = torch.arange(1, FINEST, device=both.device)
    rank = k * rest // bins  # among the values that are no atoms
    before = torch.searchsorted(both, atoms) - (counts.cumsum(dim=1) - counts)  # such values below each atom
    skipped = (counts[:, None] * (before[:, None] <= rank[..., None])).sum(dim=2)
    edges = both.gather(1, (rank + skipped).clamp(max=both.shape[1] - 1))
    return torch.where(k < bins, edges, torch.inf).contiguous()


def _counts(ordered: Tensor, edges: Tensor, atoms: Tensor, counts: Tensor) -> Tensor:
    """Number of sorted values that are each atom, and in each bin without the atoms, shape (c, atoms + FINEST)."""
    below_atoms = (counts[:, None] * (atoms[:, None] < edges[..., None])).sum(dim=2)
    below = torch.searchsorted(ordered, edges) - below_atoms
    rest = ordered.shape[1] - counts.sum(dim=1, keepdim=True)
    return torch.cat([counts, torch.cat([torch.zeros_like(rest), below, rest], dim=1).diff(dim=1)], dim=1)


def _best_log_ratios(p: Tensor, q: Tensor, atoms: int, penalty: float) -> tuple[Tensor, Tensor, Tensor]:
    """Gain of each column, and the log-ratio of each atom and each bin, after the best merging of bins."""
    merge, merging, place = _mergings(str(p.device))
    n, m = (one.sum(dim=1, keepdim=True).double() for one in (p, q))
    p, q = (torch.cat([one[:, :atoms].double(), one[:, atoms:].double() @ merge], dim=1) for one in (p, q))
    gains, ratios = cell_log_ratios(p, q, n, m)
    gain, cells = (
        one[:, atoms:] @ merging + one[:, :atoms].sum(dim=1, keepdim=True) for one in (gains, (p + q).sign())
    )
    best, which = (gain - cells + 1 - penalty).max(dim=1)
    share = torch.where(best > 0, best / gain.gather(1, which[:, None])[:, 0], 0.0)[:, None]
    of_bins = ratios[:, atoms:].gather(1, place[which])
    return best.clamp(min=0.0), share * ratios[:, :atoms], share * of_bins


@cache
def _mergings(device: str) -> tuple[Tensor, Tensor, Tensor]:
    """All mergings of `FINEST` bins, by 1, 2, 4, … at a time, whose bins stand beside each other.

    Returns which bins make each merged one (FINEST, merged), to which merging that belongs (merged, mergings), and for
    each merging the place of every bin (mergings, FINEST).
    """
    widths = 2 ** torch.arange(int(np.log2(FINEST)) + 1)
    counts = FINEST // widths
    place = torch.arange(FINEST) // widths[:, None] + (counts.cumsum(0) - counts)[:, None]
    merge = torch.nn.functional.one_hot(place, int(counts.sum())).double()
    return merge.sum(dim=0).to(device), merge.amax(dim=1).T.contiguous().to(device), place.to(device)


def _joined(columns: Tensor, atoms: Tensor, of_atoms: Tensor, edges: Tensor, of_bins: Tensor) -> StepFunctions:
    """The functions with these values at the atoms and in the bins between the edges."""
    knots = torch.cat([edges, atoms], dim=1).sort(dim=1).values
    after = of_bins.gather(1, torch.searchsorted(edges, knots, right=True))
    at = after
    if atoms.shape[1]:
        atom = torch.searchsorted(atoms, knots).clamp(max=atoms.shape[1] - 1)
        at = torch.where(atoms.gather(1, atom) == knots, of_atoms.gather(1, atom), after)
    first = of_bins[:, :1]
    return StepFunctions(columns, knots, torch.cat([first, after], dim=1), torch.cat([first, at], dim=1))


def _recurrence(columns: Tensor, real: Tensor, fake: Tensor, penalty: float) -> tuple[Tensor, StepFunctions]:
    """Log-ratio of whether a value also occurs in the training sample of each class; a training value skips itself.

    The gain is 0 if the sets share more values than independent ones would: then recurrence shows copying.
    """
    both = torch.cat([real, fake], dim=1)
    values, order = both.sort(dim=1, stable=True)
    starts = torch.nn.functional.pad(values[:, 1:] != values[:, :-1], (1, 0), value=True)
    place = starts.cumsum(dim=1) - 1  # which of the different values each one is
    is_real = (order < real.shape[1]).long()
    reals, fakes = (torch.zeros_like(place).scatter_add_(1, place, one) for one in (is_real, 1 - is_real))
    p, q = (
        torch.stack([(own * (own_code + other_code == code)).sum(dim=1) for code in range(4)], dim=1)
        for own, own_code, other_code in (
            (reals, (reals > 1).long(), 2 * (fakes > 0)),
            (fakes, 2 * (fakes > 1), (reals > 0).long()),
        )
    )
    gains, ratios = cell_log_ratios(*(one.double() for one in (p, q, p.sum(1, keepdim=True), q.sum(1, keepdim=True))))
    gain = gains.sum(dim=1)
    net = gain - (p + q > 0).sum(dim=1) + 1 - penalty
    net = torch.where(share_values(reals, fakes), 0.0, net)
    ratios = (net / gain)[:, None] * ratios
    knots = torch.full_like(values, torch.inf).scatter_(1, place, values)
    at = ratios.gather(1, (reals > 0) + 2 * (fakes > 0).long())
    first = ratios[:, :1]
    return net, StepFunctions(columns, knots, first.expand(-1, values.shape[1] + 1), torch.cat([first, at], dim=1))


def share_values(reals: Tensor, fakes: Tensor) -> Tensor:
    """Whether two sets have more rare values in common than independent sets would, for each column.

    Independent sets satisfy `Σ pq ≤ √(Σ p² Σ q²)` (Cauchy-Schwarz). Times nm, the left side is estimated by the number
    of equal pairs between the sets, and the right side by those within the sets. The standard error of the difference
    is about `√(2 within)`; one pair is added in case there are none. Values that are frequent enough to have cells of
    their own are left out, because their many pairs would hide the others. The counts have shape (c, values).
    """
    n, m = reals.sum(dim=1), fakes.sum(dim=1)
    rare = reals + fakes < ((n + m) / ATOM).clamp(min=5)[:, None]
    p, q = (reals * rare).double(), (fakes * rare).double()
    between = (p * q).sum(dim=1)
    pairs = (p * (p - 1)).sum(dim=1) * (q * (q - 1)).sum(dim=1)
    within = (pairs * (n / (n - 1)) * (m / (m - 1))).sqrt()
    return between - within > SURE * (1 + (2 * within).sqrt())


@dataclass(frozen=True, eq=False)
class Edges:
    """Distances beyond the ends of the ranges of the classes."""

    columns: Tensor  # index of each column, shape (c,)
    limit: Tensor  # ends of the ranges of the reals, up and down, then of the fakes, shape (4, c); down times −1
    spacing: Tensor  # mean spacing of the outermost values there
    weight: Tensor  # weight of each end; negative beyond the range of the reals

    def log_ratio(self, rows: Seen) -> Tensor:
        x = rows.columns(self.columns)
        total = torch.zeros(x.shape[1], dtype=torch.float64, device=x.device)
        for up, limit, spacing, weight in zip((1, -1, 1, -1), self.limit, self.spacing, self.weight, strict=True):
            total += weight @ ((up * x - limit[:, None]) / spacing[:, None]).clamp(0.0, CAP).double()
        return total


def edges(task: Task, seed: int) -> Edges:
    """Log-ratio of points beyond the range of one class: `∓t/s` at a distance t beyond its extreme training value.

    s is the mean spacing of the `EXTREMES` outermost values of that class. Beyond the end of its range the density of a
    sample decreases as `exp(−t/s)`. Columns count if other training samples lie beyond that end, too.
    """
    real, fake = (task.rows.part(one).columns(task.columns) for one in (task.real, task.fake))
    ends = [
        _end(up * inner, up * outer, sign)
        for inner, outer, sign in ((real, fake, -1.0), (fake, real, 1.0))
        for up in (1, -1)
    ]
    limit, spacing, weight = (torch.stack(one) for one in zip(*ends, strict=True))
    chosen = weight.any(dim=0)
    spacing = torch.where(spacing > 0, spacing, 1.0)
    return Edges(task.columns[chosen], limit[:, chosen], spacing[:, chosen], weight[:, chosen])


def _end(inner: Tensor, outer: Tensor, sign: float) -> tuple[Tensor, Tensor, Tensor]:
    """The largest `inner` value of each column, the spacing there, and the weight of a distance beyond it."""
    k = min(EXTREMES, inner.shape[1] - 1)
    largest = inner.topk(k + 1, dim=1).values
    limit, spacing = largest[:, 0], (largest[:, 0] - largest[:, -1]) / k
    beyond = (outer > limit[:, None]).sum(dim=1)
    # one sample beyond the end is expected if both classes have the same end
    weight = torch.where(spacing > 0, 1 - 2 / beyond.clamp(min=2).double(), 0.0)
    return limit, spacing, sign * weight
