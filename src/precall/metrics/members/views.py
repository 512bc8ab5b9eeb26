"""How a panel sees samples: standardised, on principal axes, and by single columns.

`Views` is what is fitted, without labels; `Seen` are samples seen through it, and a `Task` says which of them train a
model and which it scores. All of it works on the device of the samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from threading import RLock
from typing import Any

import numpy as np
import numpy.typing as npt

from precall.lazy import torch
from precall.theory.arrays import Flags, Matrix, Tensor, gram, to_numpy

WIDTH = 512  # number of principal axes if there are more columns
NARROW = 64  # number of dimensions for trees, neighbours and full covariances per class
LEADING = 8  # number of dimensions for mixtures: k separated modes span at most k − 1 dimensions
COLUMNS = 256  # number of original columns for the members that look at single columns
HEAVY = 3.0  # ratio of two standard deviations above which a column has extreme values
RANKS = 16  # number of rank classes in the screening of columns
SCREENED_ROWS = 3000  # rows for the screening of columns
DIGIT_ROWS = 512  # those of which the last digits are compared, too
QUANTILE_ROWS = 5000  # rows for the quantiles of standardisation
AXES_ROWS = 8000  # rows for the principal axes
SEARCH_STEPS, PER_AXIS = 20, 40  # steps of the search for hidden axes, and rows per axis of those searched
NORMAL, SPREAD = 0.37440, 0.0796  # mean of log cosh of a normal variable, and its deviation beside a multiple of x²
CHANCE = 1.5  # the best of d directions of normal points deviates by less than this times √d, plus 2, standard errors
UNROUNDED, ZERO = -999, 400
UNLIKE = 3.0  # ratio of the largest to the median standard deviation from which the units of columns matter
TINY = 1e-30  # largest value of a column whose squares may be too small


@dataclass(frozen=True, eq=False)
class Views:
    """Means, scales and axes of samples, fitted without their labels; the columns are along the first dimension."""

    exponent: Tensor  # power of two that each column is multiplied by: squares of tiny values are 0; shape (d,)
    middle: Tensor  # median of each column
    bulk: Tensor  # scale by which asinh compresses a column with extreme values; 0 for the others
    mean: Tensor  # mean of each column, after the compression
    scale: Tensor  # its standard deviation; infinite for a constant column
    axes: Tensor  # principal axes of the standardised columns: `WIDTH` if there are more columns, else `NARROW`
    white: Tensor  # axes that whiten the points, among principal axes in equal and in own units
    hidden: Tensor  # directions in which the white points are least normal; often none

    @classmethod
    def fit(cls, x: Tensor, fit: Tensor) -> Views:
        """The views of the rows of `x` with the indices `fit`."""
        exponent = torch.as_tensor(_exponents(x), device=x.device)
        some = _multiplied(x[fit] if len(fit) < len(x) else x, exponent)
        low, middle, high = column_quantiles(some[:: -(-len(some) // QUANTILE_ROWS)], (0.05, 0.5, 0.95))
        bulk = (high - low) / 3.29  # the standard deviation of a normal sample with these quantiles
        mean, scale, varied = _moments(some)
        bulk = torch.where((bulk > 0) & (scale > HEAVY * bulk), bulk, 0.0)
        if bulk.any():
            mean, scale, varied = _moments(_compressed(some, middle, bulk))
        standard = cls(exponent, middle, bulk, mean, torch.where(varied, scale, torch.inf), *3 * [x[:0]])
        points = standard._standardised(some[:: -(-len(some) // AXES_ROWS)])
        axes = principal_axes(points, WIDTH if x.shape[1] > WIDTH else NARROW)
        own = axes[:, :0]  # principal axes in the columns' own units, if these matter
        units = torch.where(varied, scale * torch.where(bulk > 0, bulk, 1.0), 0.0).float()
        if 1 < x.shape[1] <= WIDTH and units.max() >= UNLIKE * units[units > 0].median():
            units /= units.max()
            own = units[:, None] * principal_axes(points * units, LEADING)
        sought = torch.cat([axes[:, : min(NARROW, len(points) // PER_AXIS)], own], dim=1)
        white, hidden = hidden_axes((points @ sought).double(), LEADING)
        if not hidden.shape[1]:  # nothing stands out, or too few points show it
            sought, white = own, torch.eye(own.shape[1], dtype=torch.float64, device=x.device)
            hidden = white
        white = (axes.T if x.shape[1] > WIDTH else torch.eye(len(axes), device=x.device)) @ sought @ white.float()
        return replace(standard, axes=axes, white=white, hidden=hidden)

    def rows(self, x: Tensor) -> Seen:
        """The rows of `x`, seen through these views."""
        return Seen(self, _multiplied(x, self.exponent))

    def points(self, x: Tensor) -> Tensor:
        """The rows standardised, in float32, on the principal axes if there are more than `WIDTH` columns."""
        points = self._standardised(x)
        return points @ self.axes if len(self.mean) > WIDTH else points

    def _standardised(self, x: Tensor) -> Tensor:
        x = _compressed(x, self.middle, self.bulk) if self.bulk.any() else x
        return ((x - self.mean) / self.scale).float()


@dataclass(frozen=True, eq=False)
class Seen:
    """Samples seen through `Views`. Each view is computed once, for all samples, when it is first needed."""

    views: Views  # what they are seen through
    x: Tensor  # the samples, multiplied by a power of two where they are tiny, shape (n, d)
    made: dict[str, Any] = field(default_factory=dict)  # what was made of them so far, by name
    whole: Seen | None = None  # the samples of which these are a part; None if they are all
    index: Tensor | None = None  # which of them
    lock: AbstractContextManager[object] = field(default_factory=RLock, repr=False)  # held while a view is computed

    def part(self, index: Tensor) -> Seen:
        """Some of the samples, by their indices."""
        return Seen(self.views, self.x, {}, self, index)

    def view(self, name: str, compute: Callable[[Seen], Tensor]) -> Tensor:
        """What `compute` makes of all samples; the rows of this part."""
        if self.whole is not None:
            return self.whole.view(name, compute)[self.index]
        return torch.as_tensor(self.once(name, compute))

    def once(self, name: str, compute: Callable[[Seen], Any]) -> Any:
        """What `compute` makes of all samples, whatever it is."""
        whole = self.whole or self
        with whole.lock:  # members run side by side, and two must not compute the same
            if name not in whole.made:
                whole.made[name] = compute(whole)
        return whole.made[name]

    @property
    def points(self) -> Tensor:
        """The samples standardised, on at most `WIDTH` principal axes if they have more columns."""
        return self.view("points", lambda rows: rows.views.points(rows.x))

    @property
    def rotated(self) -> Tensor:
        """The points on at most `NARROW` principal axes."""
        if self.x.shape[1] > WIDTH:
            return self.points[:, :NARROW]
        return self.view("rotated", lambda rows: rows.points @ rows.views.axes)

    @property
    def narrow(self) -> Tensor:
        """The points, on at most `NARROW` principal axes if they have more columns."""
        return self.points if self.x.shape[1] <= NARROW else self.rotated

    @property
    def ordered(self) -> Ordered:
        """The columns of `narrow` of all samples, sorted."""
        known: Ordered = self.once("ordered", lambda rows: Ordered.of(rows.narrow.T.contiguous()))
        return known

    @property
    def leading(self) -> Tensor:
        """The points on the first `LEADING` principal axes, along which well-separated modes differ."""
        return self.rotated[:, :LEADING]

    @property
    def white(self) -> Tensor:
        """The points on axes that whiten them."""
        return self.view("white", lambda rows: rows.points @ rows.views.white)

    def columns(self, chosen: Tensor) -> Tensor:
        """Some columns of the samples, one per row, shape (columns, n)."""
        found: Tensor = self.once("columns", lambda rows: rows.x.T.contiguous()).index_select(0, chosen)
        return found if self.index is None else found.index_select(1, self.index)

    def values(self) -> Tensor:
        """The samples themselves."""
        return self.x if self.index is None else self.x[self.index]


@dataclass(frozen=True, eq=False)
class Task:
    """Train a classifier on some samples, with labels (True means real)."""

    rows: Seen  # all samples
    fit: Tensor  # indices of those that the views were fitted to, without labels
    real: Tensor  # indices of the real samples to train on
    fake: Tensor  # indices of the fake samples to train on
    columns: Tensor  # the columns in which the classes differ most; at most `COLUMNS`, or all if they are few
    counted: Tensor  # whether each of all samples counts where values recur: all but repeated rows

    @cached_property
    def train(self) -> Tensor:
        """Indices of all samples to train on, in the order of the samples."""
        return torch.cat([self.real, self.fake]).sort().values

    @cached_property
    def labels(self) -> Tensor:
        """Whether each of them is real."""
        return among(self.real, len(self.rows.x))[self.train]

    @property
    def log_odds(self) -> float:
        """Log-odds of "real" among the training labels, which a classifier's logit adds to the log-ratio."""
        return float(np.log(len(self.real)) - np.log(len(self.fake)))


def among(rows: Tensor, n: int) -> Tensor:
    """Whether each of n rows is among these, given by their indices."""
    return torch.zeros(n, dtype=torch.bool, device=rows.device).index_fill_(0, rows, True)


def tasks_of(rows: Seen, fit: Tensor, real: Flags, trained: Sequence[Flags], counted: Flags) -> list[Task]:
    """One task for each set of samples to train on, given which samples are real, in each set, and no repeated rows."""
    device, d, whole = rows.x.device, rows.x.shape[1], torch.as_tensor(counted, device=rows.x.device)
    sides = [[torch.as_tensor(np.flatnonzero(one & side), device=device) for side in (real, ~real)] for one in trained]
    if d <= NARROW:
        columns = [torch.arange(d, device=device)] * len(sides)
    else:
        order = torch.as_tensor(np.random.default_rng(0).permutation(len(fit))[:SCREENED_ROWS], device=device)
        some = fit[order]
        masks = torch.as_tensor(np.stack([[one & real, one & ~real] for one in trained]), device=device)[..., some]
        columns = list(most_different(rows.x[some], masks, COLUMNS))
    return [Task(rows, fit, p, q, chosen, whole) for (p, q), chosen in zip(sides, columns, strict=True)]


def enlarged(x: Tensor) -> Tensor:
    """`x` with columns of tiny values multiplied by a power of two, because squares of them would be 0."""
    return _multiplied(x, torch.as_tensor(_exponents(x), device=x.device))


def _exponents(x: Tensor) -> npt.NDArray[np.int32]:
    """The power of two for each column: 0, except for columns of tiny values."""
    low, high = _ends(x)
    largest = np.maximum(high, -low)
    return np.where((largest > 0) & (largest < TINY), -np.frexp(largest)[1], 0).astype(np.int32)


def _multiplied(x: Tensor, exponent: Tensor) -> Tensor:
    """`x` with each column multiplied by a power of two, in two steps: the power itself may be infinite."""
    return torch.ldexp(torch.ldexp(x, exponent // 2), exponent - exponent // 2) if exponent.any() else x


def _ends(x: Tensor) -> tuple[Matrix, Matrix]:
    """Least and largest value of each column. (NumPy is eight times faster on the CPU.)"""
    if x.device.type == "cpu":
        return x.numpy().min(axis=0), x.numpy().max(axis=0)
    low, high = x.aminmax(dim=0)
    return to_numpy(low), to_numpy(high)


def _moments(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and standard deviation of each column, and whether it varies by more than rounding."""
    if x.device.type == "cpu":
        mean, deviation = torch.from_numpy(x.numpy().mean(axis=0)), torch.from_numpy(x.numpy().std(axis=0))
    else:
        deviation, mean = torch.std_mean(x, dim=0, correction=0)
    return mean, deviation, torch.as_tensor(varies(*_ends(x)), device=x.device)


def varies(low: Matrix, high: Matrix) -> Flags:
    """Whether columns with these ends vary by more than the spacing of floating-point numbers of their size.

    The comparison is relative, so that a change of units or of the origin changes nothing.
    """
    return np.asarray(high - low > 4 * np.spacing(np.maximum(np.abs(low), np.abs(high))))


def _compressed(x: Tensor, middle: Tensor, bulk: Tensor) -> Tensor:
    """`x` in float64, with columns of extreme values compressed by asinh: one value of 10¹² would make others equal."""
    x, heavy = x.to(torch.float64, copy=True), bulk > 0
    x[:, heavy] = ((x[:, heavy] - middle[heavy]) / bulk[heavy]).asinh()
    return x


def sorted_values(x: Tensor) -> Tensor:
    """Each row of `x` sorted. (NumPy is five times faster on the CPU, where it sorts with vector instructions.)"""
    return torch.from_numpy(np.sort(x.numpy(), axis=1)) if x.device.type == "cpu" else x.sort(dim=1).values


@dataclass(frozen=True, eq=False)
class Ordered:
    """The values of columns, one column per row, in increasing order."""

    values: Tensor  # shape (columns, n)
    place: Tensor  # where each of them was

    @classmethod
    def of(cls, x: Tensor) -> Ordered:
        """The rows of `x` sorted."""
        if x.device.type != "cpu":
            return cls(*x.sort(dim=1))
        place = np.argsort(x.numpy(), axis=1)
        return cls(torch.from_numpy(np.take_along_axis(x.numpy(), place, axis=1)), torch.from_numpy(place))

    def some(self, places: Tensor) -> Tensor:
        """The sorted values that were at some places."""
        return self.values[among(places, self.place.shape[1])[self.place]].view(-1, len(places))

    def counted(self, first: Tensor) -> Tensor:
        """Number of edges below each value, where it was, from the ranks of the first values beyond them, (columns, k).

        (One search per edge in place of one per value is five times faster on the CPU.)
        """
        steps = torch.zeros(len(first), self.place.shape[1] + 1, dtype=torch.long, device=first.device)
        steps.scatter_add_(1, first, torch.ones_like(first))
        return torch.empty_like(self.place).scatter_(1, self.place, steps.cumsum(dim=1)[:, :-1])


def column_quantiles(x: Tensor, shares: Sequence[float]) -> list[Tensor]:
    """Quantiles of each column, linear between the values."""
    ordered = sorted_values(x.T.contiguous())
    found = []
    for share in shares:
        at = share * (len(x) - 1)
        low = ordered[:, int(at)]
        found.append(low + (at - int(at)) * (ordered[:, min(int(at) + 1, len(x) - 1)] - low))
    return found


def most_different(x: Tensor, masks: Tensor, most: int) -> Tensor:
    """Indices of the `most` columns in which two samples differ most, in decreasing order, shape (tasks, columns).

    The difference is the χ² statistic of the labels in `RANKS` classes of ranks, or that of rounding if it is larger.
    `masks`, shape (tasks, 2, n), says which rows are in the first and in the second sample of each task.
    """
    rounding = last_digit(x[:DIGIT_ROWS]).float()
    of_rounding = _rank_statistic(rounding, masks[..., :DIGIT_ROWS])
    statistic = torch.maximum(_rank_statistic(x, masks), of_rounding)
    return statistic.argsort(dim=1, descending=True, stable=True)[:, :most]


def _rank_statistic(x: Tensor, masks: Tensor) -> Tensor:
    """χ² statistic of the labels in classes of ranks, shape (tasks, d); equal values are in the same class."""
    columns = x.T.contiguous()
    edges = sorted_values(columns)[:, [k * len(x) // RANKS for k in range(RANKS)]]
    member = masks.flatten(0, 1).float().T.contiguous()  # (n, 2 tasks)
    flags = torch.empty_like(columns, dtype=torch.float32)
    # the number of samples from each edge on; exact in float32
    above = torch.stack([torch.ge(columns, edge[:, None], out=flags) @ member for edge in edges.T])
    counts = (above - torch.cat([above[1:], torch.zeros_like(above[:1])])).view(*above.shape[:2], -1, 2).double()
    total = counts.sum(dim=-1)  # (classes, d, tasks)
    share = (masks[:, 0].sum(dim=1) / masks.any(dim=1).sum(dim=1)).double()
    expected = total * share
    unexpected = (counts[..., 0] - expected) ** 2 / (expected * (1 - share)).clamp(min=1e-9)
    return torch.where(total > 0, unexpected, 0.0).sum(dim=0).T


def last_digit(x: Tensor) -> Tensor:
    """Exponent of the last nonzero decimal digit of each value; `UNROUNDED` if it has as many digits as its type holds.

    It separates rounded values from others, in any decimal unit. The exponent of 0 is `ZERO`: it is on every grid.
    """
    if not x.numel():
        return x.long()
    digits, powers = int(np.finfo(str(x.dtype).removeprefix("torch.")).precision), _powers_of_ten(str(x.device))
    size = x.abs().double()
    exponent = torch.where(size > 0, size, 1.0).log10().floor().long().clamp(-323, 308)
    mantissa = (size / powers[exponent + 323] * 10.0 ** (digits - 1)).round().long()
    zeros = torch.zeros_like(mantissa)
    for power in (8, 4, 2, 1):
        divisible = mantissa % 10**power == 0
        mantissa = torch.where(divisible, mantissa // 10**power, mantissa)
        zeros += power * divisible
    rounded = zeros >= max(2, digits - 11)  # a few zeros at the end occur by chance
    last = torch.where(rounded, exponent - (digits - 1) + zeros, UNROUNDED)
    return torch.where(size > 0, last, ZERO)


@cache
def _powers_of_ten(device: str) -> Tensor:
    """10⁻³²³ … 10³⁰⁸."""
    return torch.tensor([float(f"1e{k}") for k in range(-323, 309)], dtype=torch.float64, device=device)


def principal_axes(x: Tensor, most: int) -> Tensor:
    """At most `most` leading principal axes of the rows of `x` as columns, in order of decreasing variance.

    They are computed from the smaller of the two Gram matrices: `XXᵀ u = s² u` gives the axis `Xᵀu/s`.
    """
    centred = x - x.mean(dim=0)
    n, d = x.shape
    small, leading = gram(centred.T if n < d else centred), (max(0, min(n, d) - most), min(n, d) - 1)
    if x.device.type == "cpu":  # where few take less time than all
        from scipy.linalg import eigh

        found = eigh(small.numpy(), subset_by_index=leading, check_finite=False)
        values, vectors = map(torch.from_numpy, found)
    else:
        values, vectors = (one[..., -most:] for one in torch.linalg.eigh(small))
    if n >= d:
        return vectors.flip(1).contiguous()
    spread = values >= 1e-6 * values[-1]  # n centred points span at most n − 1 dimensions; equal ones have axes of 0
    return (centred.T @ (vectors[:, spread] / values[spread].clamp(min=1e-30).sqrt())).flip(1).contiguous()


def hidden_axes(x: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Axes that whiten the rows of `x`, and at most `most` directions in which they are least normal, beyond chance.

    These are independent components of the white rows z (Hyvärinen, 1999, FastICA), sought from the eigenvectors of
    `E |z|² z zᵀ` on.
    """
    x = x - x.mean(dim=0)
    values, vectors = torch.linalg.eigh(gram(x) / len(x))
    varied = values > 1e-6 * values.sum()
    white = vectors[:, varied] / values[varied].sqrt()
    z = (x @ white).float()
    w = torch.linalg.eigh((z * (z**2).sum(dim=1, keepdim=True)).T @ z)[1]
    for _ in range(SEARCH_STEPS):
        y = (z @ w).tanh()
        left, _, right = torch.linalg.svd(z.T @ y / len(z) - w * (1 - y.square().mean(dim=0)))
        w = left @ right
    size = (z @ w).abs()
    log_cosh = (size + torch.nn.functional.softplus(-2 * size)).mean(dim=0) - np.log(2)
    deviation, order = ((log_cosh - NORMAL).abs() * len(z) ** 0.5 / SPREAD).sort(descending=True)
    return white, w[:, order[deviation > CHANCE * len(w) ** 0.5 + 2][:most]].double()
