"""One exact pass over all pairs of two sample sets, from which every k-nearest-neighbour quantity is read.

The ball of a real sample X_i has radius rad_k(X_i), the distance to its k-th nearest *other* real sample. The balls of
the fake samples Y_j are defined in the same way. Counting which samples lie in which balls gives improved precision and
recall, density, coverage, and precision-recall cover with its curve. The distances give realism, nearest neighbours and
copies.

    within(real), within(fake)     radii and neighbours within each set; they can be reused with other sets
    cross(real=…, fake=…)          which samples lie in which balls
    sweep(real=…, fake=…)          all three steps at once

Balls are closed (d ≤ rad) as in Kynkäänniemi et al. (2019); `ties="open"` gives d < rad as in Naeem et al. (2020). A
sample is never its own neighbour. Every comparison has the result of float64 brute force, although the matrix products
run in float32 (see `distances`). Memory grows with the number of samples, not with the number of pairs. NumPy arrays,
including memory-mapped ones, are processed on the CPU, and tensors on their own device.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from precall.metrics.features import Features, Pair, as_features, same_dimension
from precall.metrics.neighbors.influence import Margins
from precall.metrics.neighbors.scores import Nearest, Neighborhoods, cover_threshold
from precall.progress import StageProgress
from precall.theory import checks
from precall.theory.arrays import Array, Counts, to_numpy

if TYPE_CHECKING:
    from torch import Tensor

    from precall.metrics.neighbors.distances import Cloud, Tile
    from precall.metrics.neighbors.kernels import Kernel, KernelSums
    from precall.metrics.neighbors.tallies import Depth


@dataclass(frozen=True, eq=False)
class Balls:
    """The k-nearest-neighbour balls of one sample set, for several k. They are computed once and passed to `cross`.

    Attributes:
        k: Numbers of neighbours that define a ball, in increasing order.
        neighbors: Number of nearest samples of another set that `cross` keeps.
        squared_radii: rad_k(X_i)², shape (n, len(k)).
        squared_margins: rad_l(X_i)² for all l in `margin_levels(k)`, shape (n, number of levels). A set with too few
            samples repeats its largest radius.
        nearest: The nearest other samples within the set.
        cloud: The samples, prepared for the sweep.
        sums: Sums of a kernel over all pairs of the set, if they were requested.
        approximation: How the neighbours were searched if not exactly, and how accurate the search is; else None.
    """

    k: tuple[int, ...]
    neighbors: int
    squared_radii: Array
    squared_margins: Array
    nearest: Nearest
    cloud: Cloud = field(repr=False)
    sums: KernelSums | None = field(default=None, repr=False)
    approximation: str | None = None

    @property
    def radii(self) -> Array:
        """rad_k(X_i), the distance to the k-th nearest other sample, shape (n, len(k))."""
        return np.sqrt(self.squared_radii)


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

    The time is that of half a matrix product of each set with itself and one product of the two sets, O((N + M)²d). The
    memory is that of the samples and one tile.

    Args:
        real: Real samples, shape (N, d), N ≥ 2: array, memory-mapped array or tensor.
        fake: Fake samples, shape (M, d), M ≥ 2.
        k: Number of neighbours that defines a ball, 1 ≤ k < min(N, M), or several such numbers.
        ties: "closed" (d ≤ rad is inside, Kynkäänniemi et al.) or "open" (d < rad, Naeem et al.).
        neighbors: Number of nearest samples to keep in each direction, for galleries.
        progress: Called with (number of ordered pairs done, (N + M)²).

    Returns:
        The counts, with methods for every score.

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
    pair: Pair,
    *,
    k: int | Iterable[int],
    ties: str,
    neighbors: int = 1,
    progress: StageProgress | None = None,
) -> Neighborhoods:
    """`sweep` for features that have been checked already."""
    pair = pair.together()
    checks.choice("ties", ties, ("closed", "open"))
    levels = _levels(k, neighbors, real=len(pair.real), fake=len(pair.fake))
    watch = _Watch(progress, sum(pair.sizes) ** 2)
    real_balls = _within("real", pair.real, levels, neighbors, watch)
    fake_balls = _within("fake", pair.fake, levels, neighbors, watch)
    return _cross(real_balls, fake_balls, ties, watch)


def within(
    samples: object, *, k: int | Iterable[int] = 5, neighbors: int = 1, progress: StageProgress | None = None
) -> Balls:
    """Compute the k-NN balls of one sample set, for several k.

    The cost is half a matrix product of the set with itself. Compute the balls of a reference set once, and `cross`
    them with the balls of each model's samples.

    Args:
        samples: Samples, shape (n, d), n ≥ 2: array, memory-mapped array or tensor.
        k: Number of neighbours that defines a ball, 1 ≤ k < n, or several such numbers.
        neighbors: Number of nearest samples to keep, both within this set (at least max(k) + 2 are kept if there are
            as many) and of the other set in `cross`.
        progress: Called with (number of ordered pairs done, n²).

    Returns:
        The balls.

    Example:
        >>> balls = within([[0.0], [1.0], [3.0], [7.0]], k=(1, 2))
        >>> balls.radii
        array([[1., 3.],
               [1., 2.],
               [2., 3.],
               [4., 6.]])
        >>> balls.nearest.index[:, 0]
        array([1, 0, 1, 2])

    References:
        Kynkäänniemi et al. (2019), eq. 1.
    """
    return balls_around(as_features("samples", samples), k=k, neighbors=neighbors, progress=progress)


def balls_around(
    features: Features,
    *,
    k: int | Iterable[int],
    neighbors: int = 1,
    progress: StageProgress | None = None,
    kernel: Kernel | None = None,
) -> Balls:
    """`within` for features that have been checked already; `Balls.sums` has the sums of a `kernel` if one is given."""
    levels = _levels(k, neighbors, samples=len(features))
    return _within("samples", features, levels, neighbors, _Watch(progress, len(features) ** 2), kernel)


def cross(*, real: Balls, fake: Balls, ties: str = "closed", progress: StageProgress | None = None) -> Neighborhoods:
    """Count which samples of one set lie in which balls of the other. The cost is one matrix product of the two sets.

    Args:
        real: Balls of the real samples, from `within`.
        fake: Balls of the fake samples, with the same k.
        ties: "closed" (d ≤ rad is inside) or "open" (d < rad).
        progress: Called with (number of ordered pairs done, 2NM).

    Returns:
        The counts, with methods for every score.

    Example:
        >>> found = cross(real=within([[0.0], [1.0], [3.0]], k=1), fake=within([[0.5], [9.0]], k=1))
        >>> found.precision(), found.recall(), found.fake_to_real.index[:, 0]
        (0.5, 1.0, array([0, 2]))

    References:
        Kynkäänniemi et al. (2019), eq. 2; Naeem et al. (2020), eq. 3 and 4.
    """
    checks.choice("ties", ties, ("closed", "open"))
    return cross_balls(real, fake, ties=ties, progress=progress)


def cross_balls(
    real: Balls, fake: Balls, *, ties: str, progress: StageProgress | None = None, sums: KernelSums | None = None
) -> Neighborhoods:
    """`cross` with checked `ties`; `sums` reads the kernel between the two sets off the same products."""
    same_dimension(real=real.cloud.features, fake=fake.cloud.features)
    if real.k != fake.k:
        way_out = "Pass the same `k` to `within` for both."
        raise ValueError(f"`real` and `fake` must have balls for the same k; got {real.k} and {fake.k}. {way_out}")
    if real.cloud.device != fake.cloud.device:
        devices = f"{real.cloud.device} and {fake.cloud.device}"
        raise ValueError(f"`real` and `fake` must be on the same device; got {devices}. Move one before `within`.")
    return _cross(real, fake, ties, _Watch(progress, 2 * len(real.squared_radii) * len(fake.squared_radii)), sums)


def clipped(balls: Balls) -> Balls:
    """The balls with radii of at most their median, so that outliers have no large balls.

    Example:
        >>> clipped(within([[0.0], [1.0], [3.0], [7.0]], k=1)).radii[:, 0]
        array([1. , 1. , 1.5, 1.5])

    References:
        Salvy et al. (2026).
    """
    radii, margins = (
        np.minimum(squared, np.median(np.sqrt(squared), axis=0) ** 2)
        for squared in (balls.squared_radii, balls.squared_margins)
    )
    return replace(balls, squared_radii=radii, squared_margins=margins)


class _Watch:
    """Counts the ordered pairs that are done and reports them; removed duplicates are included in the count."""

    def __init__(self, progress: StageProgress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def advance(self, tile: Tile, left: Cloud, right: Cloud, times: int) -> None:
        self.done += left.given(tile.rows) * right.given(tile.columns) * times
        if self.progress is not None:
            self.progress(self.done, self.total)


def _within(
    name: str,
    features: Features,
    k: tuple[int, ...],
    neighbors: int,
    watch: _Watch,
    kernel: Kernel | None = None,
) -> Balls:
    from precall.metrics.neighbors import distances, kernels
    from precall.metrics.neighbors.tallies import Shortlist

    # Two more neighbours than k: they take over if one or two samples are left out.
    size = min(max(k[-1] + 2, neighbors), len(features) - 1)
    cloud = distances.Cloud(features, size)
    frame = distances.Frame(cloud, distances.common_centre(cloud))
    distances.check_range(name, frame)
    nearest = Shortlist(cloud.n, size, partial(distances.squared_distances, cloud, cloud), cloud.device)
    sums = None if kernel is None else kernels.KernelSums(kernel)
    for tile in distances.tiles(frame, frame, products=sums):
        square = tile.rows == tile.columns
        for view in (tile,) if square else (tile, tile.transposed()):
            nearest.read(view, distances.group_minima(view.low))
        watch.advance(tile, cloud, cloud, 1 if square else 2)
    squared, index = (values[cloud.stand_in] for values in nearest.result())
    radii, levels = to_numpy(squared), [min(level, size) for level in margin_levels(k)]
    balls, margins = (radii[:, [level - 1 for level in chosen]] for chosen in (k, levels))
    return Balls(k, neighbors, balls, margins, _nearest(squared, cloud.position[index]), cloud, sums)


def _cross(real: Balls, fake: Balls, ties: str, watch: _Watch, sums: KernelSums | None = None) -> Neighborhoods:
    from precall.metrics.neighbors import distances

    centre = distances.common_centre(real.cloud, fake.cloud)
    frames = [distances.Frame(balls.cloud, centre) for balls in (real, fake)]
    for name, frame in zip(("real", "fake"), frames, strict=True):
        distances.check_range(name, frame)
    # Both directions use the same code with the roles exchanged: fakes in balls of reals, and reals in balls of fakes.
    around_real, around_fake = _BallReadings(real, fake, ties), _BallReadings(fake, real, ties)
    depths = around_real.depths()
    for tile in distances.tiles(*frames, products=sums):
        around_real.read(tile)
        around_fake.read(tile.transposed())
        for depth in depths:
            depth.read(tile)
        watch.advance(tile, real.cloud, fake.cloud, 2)
    ratios, owners = zip(*(depth.result() for depth in depths), strict=True)
    realisms = np.stack([_given(fake, ratio.rsqrt()) for ratio in ratios], axis=1)
    return Neighborhoods(
        k=real.k,
        ties=ties,
        radii_real=real.radii,
        radii_fake=fake.radii,
        fakes_in_ball=around_real.inside(),
        balls_over_fake=around_real.around(),
        reals_in_ball=around_fake.inside(),
        balls_over_real=around_fake.around(),
        realisms=realisms[..., 0],
        real_to_real=real.nearest,
        real_to_fake=around_real.nearest,
        fake_to_real=around_fake.nearest,
        fake_to_fake=fake.nearest,
        margins_real=around_real.margins(),
        margins_fake=around_fake.margins(),
        next_realisms=realisms[..., 1],
        realism_balls=np.stack([_given(fake, real.cloud.position[owner[:, 0]]) for owner in owners], axis=1),
    )


class _BallReadings:
    """For each ball of one set (`own`): the number of samples of the `other` set inside it, and the nearest of them."""

    def __init__(self, own: Balls, other: Balls, ties: str) -> None:
        import torch

        from precall.metrics.neighbors.tallies import Shortlist, Tally

        self.own, self.other = own, other
        self.levels = margin_levels(own.k)
        self.columns = [self.levels.index(level) for level in own.k]
        radii = torch.as_tensor(own.squared_margins, device=own.cloud.device)[own.cloud.position]
        self.tally = Tally(radii, ties == "closed", own.cloud, other.cloud)
        # A ball that has just enough points for its cover loses it without any one of them.
        kept = max(min(own.neighbors, other.neighbors), cover_threshold(own.k[-1]) + 1)
        self.shortlist = Shortlist(own.cloud.n, kept, self.tally.settle, own.cloud.device)

    def read(self, tile: Tile) -> None:
        from precall.metrics.neighbors.distances import group_minima

        minima = group_minima(tile.low)
        self.shortlist.read(tile, minima)
        self.tally.read(tile, minima)

    def depths(self) -> list[Depth]:
        """One `Depth` per k: the realism of the other set's points, from balls of at most the median radius."""
        from precall.metrics.neighbors.tallies import Depth

        medians = np.median(self.own.radii, axis=0)
        radii = zip(self.tally.squared_radii.T[self.columns], medians, strict=True)
        return [Depth(column, float(median), self.other.cloud.n, self.tally.settle) for column, median in radii]

    @cached_property
    def nearest(self) -> Nearest:
        squared, index = (values[self.own.cloud.stand_in] for values in self.shortlist.result())
        return _nearest(squared, self.other.cloud.position[index])

    def inside(self) -> Counts:
        return np.asarray(_given(self.own, self.tally.inside[:, self.columns]))

    def around(self) -> Counts:
        return np.asarray(_given(self.other, self.tally.around[:, self.columns]))

    def margins(self) -> tuple[Margins, ...]:
        """The counts of slightly larger balls, one per k."""
        owner = self.tally.owner
        owner = owner.where(owner < 0, self.own.cloud.position[owner])
        inside, around, owners = (
            np.asarray(_given(*values))
            for values in ((self.own, self.tally.inside), (self.other, self.tally.around), (self.other, owner))
        )
        index = self.own.nearest.index
        return tuple(
            Margins(k, index, inside[:, c : c + 3], around[:, c : c + 2], owners[:, c : c + 2], self.nearest.index)
            for k, c in zip(self.own.k, self.columns, strict=True)
        )


def _given(balls: Balls, values: Tensor) -> npt.NDArray[Any]:
    """`values` of the kept samples, expanded to one per input sample."""
    return to_numpy(values[balls.cloud.stand_in])


def _nearest(squared: Tensor, index: Tensor) -> Nearest:
    return Nearest(index=to_numpy(index), distance=np.sqrt(to_numpy(squared)))


def margin_levels(k: tuple[int, ...]) -> tuple[int, ...]:
    """k, k + 1 and k + 2 for every k: the balls, and what they become when one or two neighbours are left out.

    Example:
        >>> margin_levels((3, 4, 9))
        (3, 4, 5, 6, 9, 10, 11)
    """
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
