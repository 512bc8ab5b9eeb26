"""One exact pass over all pairs of two sample sets, from which every k-nearest-neighbour quantity is read.

The ball of a real sample X_i has radius rad_k(X_i), the distance to its k-th nearest *other* real sample. The balls of
the fake samples Y_j are defined in the same way. Counting which samples lie in which balls gives improved precision and
recall, density, coverage, and precision-recall cover with its curve. The distances give realism, nearest neighbours and
copies.

Every comparison has the result of float64 brute force, although the matrix products run in float32 (see
`tiles.distances`), or in half precision on a GPU (see `tiles.listing`). Memory grows with the number of samples, not
with the number of pairs. NumPy arrays are processed on the CPU, and tensors on their own device.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from precall.metrics.inputs.features import Features, Pair, as_features, same_dimension
from precall.metrics.neighbors.ball_scores import Nearest, cover_threshold, medians
from precall.metrics.neighbors.influence import BallSums, BallTotals
from precall.metrics.neighbors.scores import Neighborhoods
from precall.metrics.pairs.blocks import Crossing, CrossPlan, Lists, Readings
from precall.progress import StageProgress
from precall.theory import checks
from precall.theory.arrays import Array

if TYPE_CHECKING:
    from precall.metrics.pairs.kernels import Kernel, KernelSums
    from precall.metrics.pairs.survival import Supports
    from precall.metrics.tiles.clouds import Cloud

R = TypeVar("R", bound="Radii")


@dataclass(frozen=True, eq=False)
class Radii:
    """The radii of the k-nearest-neighbour balls of one sample set, for several k, without the samples."""

    k: tuple[int, ...]  # numbers of neighbours that define a ball, in increasing order
    neighbors: int  # number of nearest samples of another set that `cross` keeps
    squared_radii: Array  # rad_k(X_i)², shape (n, len(k))
    squared_margins: Array  # rad_l(X_i)² for all l in `margin_levels(k)`; few samples repeat their largest radius
    nearest: Nearest  # the nearest other samples within the set

    @property
    def radii(self) -> Array:
        """rad_k(X_i), the distance to the k-th nearest other sample, shape (n, len(k))."""
        return np.sqrt(self.squared_radii)

    @property
    def columns(self) -> list[int]:
        """Where each k is among the levels of the margins."""
        return [margin_levels(self.k).index(level) for level in self.k]

    @cached_property
    def medians(self) -> Array:
        """The median radius of each level of the margins."""
        return medians(np.sqrt(self.squared_margins.T))


@dataclass(frozen=True, eq=False)
class Balls(Radii):
    """The k-nearest-neighbour balls of one sample set. They are computed once and passed to `cross`."""

    cloud: Cloud = field(repr=False)  # the samples, prepared for the sweep
    sums: KernelSums | None = field(default=None, repr=False)  # of a kernel over all pairs, if they were requested


def sweep(
    *,
    real: object,
    fake: object,
    k: int | Iterable[int] = 5,
    ties: str = "closed",
    neighbors: int = 1,
    progress: StageProgress | None = None,
) -> Neighborhoods:
    """Compute every k-NN quantity of two sample sets, for several k, in one pass over the pairs.

    The time is that of two matrix products, O((N + M)²d); the memory is that of the samples and one tile.

    Args:
        real: Real samples, shape (N, d), N ≥ 2: array, memory-mapped array or tensor.
        fake: Fake samples, shape (M, d), M ≥ 2.
        k: Number of neighbours that defines a ball, 1 ≤ k < min(N, M), or several such numbers.
        ties: "closed" (d ≤ rad is inside, Kynkäänniemi et al.) or "open" (d < rad, Naeem et al.).
        neighbors: Number of nearest samples to keep in each direction, for galleries.
        progress: Called with (number of ordered pairs done, (N + M)²).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> found = sweep(real=rng.normal(size=(300, 2)), fake=rng.normal(0.5, 0.5, size=(200, 2)), k=(3, 5))
        >>> round(found.precision(5), 3), round(found.recall(5), 3)
        (1.0, 0.69)
        >>> round(found.density(5), 3), round(found.coverage(5), 3)
        (1.06, 0.567)

    References:
        Kynkäänniemi et al. (2019); Naeem et al. (2020); Cheema and Urner (2023); docs/theory.md, Neighbours.
    """
    pair = Pair.checked(real=real, fake=fake)
    return sweep_pair(pair, k=k, ties=ties, neighbors=neighbors, progress=progress)


def sweep_pair(
    pair: Pair, *, k: int | Iterable[int], ties: str, neighbors: int = 1, progress: StageProgress | None = None
) -> Neighborhoods:
    """`sweep` for features that have been checked already."""
    pair = pair.together()
    checks.choice("ties", ties, ("closed", "open"))
    levels = _levels(k, neighbors, real=len(pair.real), fake=len(pair.fake))
    how: dict[str, Any] = {"neighbors": neighbors, "watch": _Watch(progress, sum(pair.sizes) ** 2)}
    real = balls_around(pair.real, k=levels, name="real", **how)
    return cross_balls(real, balls_around(pair.fake, k=levels, name="fake", **how), ties=ties, watch=how["watch"])


def within(
    samples: object, *, k: int | Iterable[int] = 5, neighbors: int = 1, progress: StageProgress | None = None
) -> Balls:
    """Compute the k-NN balls of one sample set, for several k.

    Compute the balls of a reference set once, and `cross` them with the balls of each model's samples.

    Args:
        samples: Samples, shape (n, d), n ≥ 2: array, memory-mapped array or tensor.
        k: Number of neighbours that defines a ball, 1 ≤ k < n, or several such numbers.
        neighbors: Number of nearest samples to keep, within this set and of the other set in `cross`.

    Example:
        >>> balls = within([[0.0], [1.0], [3.0], [7.0]], k=(1, 2))
        >>> balls.radii
        array([[1., 3.],
               [1., 2.],
               [2., 3.],
               [4., 6.]])
        >>> balls.nearest.index[:, 0]
        array([1, 0, 1, 2])
    """
    return balls_around(as_features("samples", samples), k=k, neighbors=neighbors, progress=progress)


def balls_around(
    features: Features,
    *,
    k: int | Iterable[int],
    neighbors: int = 1,
    progress: StageProgress | None = None,
    kernel: Kernel | None = None,
    name: str = "samples",
    watch: _Watch | None = None,
) -> Balls:
    """`within` for features that have been checked already; `Balls.sums` has the sums of a `kernel` if one is given."""
    from precall.metrics.pairs.kernels import KernelSums
    from precall.metrics.pairs.tallies import read_within
    from precall.metrics.tiles.clouds import Cloud

    levels, watch = _levels(k, neighbors, **{name: len(features)}), watch or _Watch(progress, len(features) ** 2)
    size = list_size(levels, neighbors, len(features))
    cloud = Cloud(features, size)
    sums = None if kernel is None else KernelSums(kernel)
    lists, _ = read_within(cloud, cloud, size, sums=sums, advance=watch.advance)
    return Balls(**vars(radii_of(lists, levels, neighbors)), cloud=cloud, sums=sums)


def cross(*, real: Balls, fake: Balls, ties: str = "closed", progress: StageProgress | None = None) -> Neighborhoods:
    """Count which samples of one set lie in which balls of the other. The cost is one matrix product of the two sets.

    Args:
        real: Balls of the real samples, from `within`.
        fake: Balls of the fake samples, with the same k.
        ties: "closed" (d ≤ rad is inside) or "open" (d < rad).
        progress: Called with (number of ordered pairs done, 2NM).

    Example:
        >>> found = cross(real=within([[0.0], [1.0], [3.0]], k=1), fake=within([[0.5], [9.0]], k=1))
        >>> found.precision(), found.recall(), found.fake_to_real.index[:, 0]
        (0.5, 1.0, array([0, 2]))
    """
    checks.choice("ties", ties, ("closed", "open"))
    return cross_balls(real, fake, ties=ties, progress=progress)


def cross_balls(
    real: Balls,
    fake: Balls,
    *,
    ties: str,
    progress: StageProgress | None = None,
    sums: KernelSums | None = None,
    supports: Supports | None = None,
    with_clipped: bool = False,
    watch: _Watch | None = None,
) -> Neighborhoods:
    """`cross` with checked `ties`; what else is requested is read off the same products, where that is possible."""
    from precall.metrics.pairs.tallies import read_cross

    same_dimension(real=real.cloud.features, fake=fake.cloud.features)
    if real.k != fake.k:
        way_out = "Pass the same `k` to `within` for both."
        raise ValueError(f"`real` and `fake` must have balls for the same k; got {real.k} and {fake.k}. {way_out}")
    if real.cloud.device != fake.cloud.device:
        devices = f"{real.cloud.device} and {fake.cloud.device}"
        raise ValueError(f"`real` and `fake` must be on the same device; got {devices}. Move one before `within`.")
    watch = watch or _Watch(progress, 2 * len(real.squared_radii) * len(fake.squared_radii))
    small, plan = clipped(real).squared_margins if with_clipped else None, cross_plan(real, fake, ties)
    of_real, of_fake = ((one.cloud, one.squared_margins) for one in (real, fake))
    found = read_cross(of_real, of_fake, plan, sums=sums, supports=supports, clipped=small, advance=watch.advance)
    return neighborhoods(real, fake, ties, found)


def clipped(balls: R) -> R:
    """The balls with radii of at most their median, so that outliers have no large balls (Salvy et al., 2026)."""
    margins = np.minimum(balls.squared_margins.T, balls.medians[:, None] ** 2)
    return replace(balls, squared_radii=margins[balls.columns].T, squared_margins=margins.T)


class _Watch:
    """Counts the ordered pairs that are done and reports them; removed duplicates are included in the count."""

    def __init__(self, progress: StageProgress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def advance(self, rows: slice, columns: slice, left: Cloud, right: Cloud, times: int) -> None:
        self.done += left.given(rows) * right.given(columns) * times
        if self.progress is not None:
            self.progress(self.done, self.total)


def list_size(k: tuple[int, ...], neighbors: int, n: int) -> int:
    """Number of nearest samples to list within n: two more than k, which take over if one or two are left out."""
    return min(max(k[-1] + 2, neighbors), n - 1)


def radii_of(lists: Lists, k: tuple[int, ...], neighbors: int) -> Radii:
    """The radii for several k, from the squared distances to the nearest samples of the set."""
    size = lists.values.shape[1]
    levels = [min(level, size) for level in margin_levels(k)]
    balls, margins = (lists.values.T[[level - 1 for level in chosen]].T for chosen in (k, levels))
    return Radii(k, neighbors, balls, margins, Nearest(lists.index, np.sqrt(lists.values)))


def cross_plan(real: Radii, fake: Radii, ties: str) -> CrossPlan:
    """What all blocks of a real and a fake set have in common."""
    # A ball that has just enough points for its cover loses it without any one of them.
    kept = max(min(real.neighbors, fake.neighbors), cover_threshold(real.k[-1]) + 1)
    return CrossPlan(real.k, margin_levels(real.k), ties, kept, tuple(real.medians[real.columns].tolist()))


def neighborhoods(real: Radii, fake: Radii, ties: str, found: Crossing) -> Neighborhoods:
    """The counts of two sets, from the readings of all their pairs."""
    around_real, around_fake = found.around_real, found.around_fake
    with np.errstate(divide="ignore"):
        realisms = 1 / np.sqrt([depth.values.T for depth in found.depths])
    # A fake at an infinite number of radii from every ball belongs to none; the first one is named.
    owners = np.maximum([depth.index[:, 0] for depth in found.depths], 0)
    return Neighborhoods(
        k=real.k,
        ties=ties,
        radii_real=real.radii,
        radii_fake=fake.radii,
        fakes_in_ball=around_real.inside.T[real.columns].T,
        balls_over_fake=around_real.around.T[real.columns].T,
        reals_in_ball=around_fake.inside.T[real.columns].T,
        balls_over_real=around_fake.around.T[real.columns].T,
        realisms=realisms[:, 0].T,
        real_to_real=real.nearest,
        real_to_fake=_nearest(around_real.nearest),
        fake_to_real=_nearest(around_fake.nearest),
        fake_to_fake=fake.nearest,
        margins_real=_margins(real, around_real),
        margins_fake=_margins(fake, around_fake),
        next_realisms=realisms[:, 1].T,
        realism_balls=owners.T,
        margins_clipped=() if found.clipped is None else _margins(real, found.clipped),
    )


def _margins(own: Radii, found: Readings) -> tuple[BallTotals, ...]:
    """The counts of slightly larger balls, one per k."""
    sums = [BallSums.of(found.inside[:, c : c + 3], found.around[:, c:], found.owner[:, c:]) for c in own.columns]
    lists = {"neighbors": own.nearest.index, "nearest": found.nearest.index}
    device = str(own.cloud.device) if isinstance(own, Balls) else "cpu"
    return tuple(BallTotals(**vars(one), k=k, **lists, device=device) for k, one in zip(own.k, sums, strict=True))


def _nearest(lists: Lists) -> Nearest:
    return Nearest(index=lists.index, distance=np.sqrt(lists.values))


def margin_levels(k: tuple[int, ...]) -> tuple[int, ...]:
    """k, k + 1 and k + 2 for every k: the balls, and what they become when one or two neighbours are left out."""
    return tuple(sorted({level + more for level in k for more in range(3)}))


def _levels(k: int | Iterable[int], neighbors: int, **sizes: int) -> tuple[int, ...]:
    """`k` as an increasing tuple, after checking that all values and `neighbors` are less than every size."""
    levels, (kept,) = tuple(sorted(set(_integers("k", k)))), _integers("neighbors", neighbors)
    for samples, n in sizes.items():
        for level in levels:
            _check_level("k", level, samples, n)
        _check_level("neighbors", kept, samples, n)
    return levels


def _check_level(name: str, value: int, samples: str, n: int) -> None:
    if not 1 <= value < n:
        most = f"{n - 1}, one less than the number of `{samples}` samples"
        raise ValueError(f"`{name}` must be between 1 and {most}; got {value}. Lower it or pass more samples.")


def _integers(name: str, values: int | Iterable[int]) -> list[int]:
    array = np.atleast_1d(np.asarray(list(values) if isinstance(values, Iterable) else values))
    if array.ndim != 1 or not array.size or array.dtype.kind not in "iu":
        raise ValueError(f"`{name}` must be whole numbers; got {values!r}.")
    return [int(value) for value in array]
