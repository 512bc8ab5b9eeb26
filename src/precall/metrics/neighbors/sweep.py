"""One sweep over pairs: every k-nearest-neighbour quantity of two sample sets, exact, in memory that grows with N.

Around each real sample X_i lies a ball of radius rad_k(X_i), the distance to its k-th nearest *other* real sample;
likewise around each fake sample Y_j. Counting who is inside whose ball gives improved precision and recall, density
and coverage, precision-recall cover and its curve; the distances give realism, nearest neighbours and copies.

    within(real), within(fake)     radii and neighbours of each set: reuse them against other sets
    cross(real=…, fake=…)          who is inside whose ball
    sweep(real=…, fake=…)          the three at once

Balls are closed (d ≤ rad) as in Kynkäänniemi et al. (2019); `ties="open"` gives Naeem et al.'s (2020) d < rad. A sample
is never its own neighbour. Every comparison is that of float64 brute force, although the matrix products run in float32
(see `distances`). NumPy arrays, including memory-mapped ones, are processed on the CPU, tensors on their own device.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from precall.metrics.features import Features, Pair, as_features, same_dimension
from precall.metrics.neighbors.scores import Nearest, Neighborhoods
from precall.progress import StageProgress
from precall.theory import checks
from precall.theory.arrays import Array, Counts, to_numpy

if TYPE_CHECKING:
    from torch import Tensor

    from precall.metrics.neighbors.distances import Cloud, Frame, Tile
    from precall.metrics.neighbors.tallies import Depth


@dataclass(frozen=True, eq=False)
class Balls:
    """The k-nearest-neighbour balls of one sample set, for several k: what `cross` needs of it, computed once.

    Attributes:
        k: Neighbours that define a ball, increasing.
        neighbors: Nearest samples of another set that `cross` keeps.
        squared_radii: rad_k(X_i)², shape (n, len(k)).
        nearest: The nearest other samples of the set.
    """

    k: tuple[int, ...]
    neighbors: int
    squared_radii: Array
    nearest: Nearest
    cloud: Cloud = field(repr=False)

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
    """Every k-NN quantity of two sample sets, for several k, in one pass over the pairs.

    Time is that of half a product of each set with itself and one of the two with each other, N²d, and memory that of
    a tile beside the samples.

    Args:
        real: Real samples, shape (N, d), N ≥ 2: array, memory-mapped array or tensor.
        fake: Fake samples, shape (M, d), M ≥ 2.
        k: Neighbours that define a ball, 1 ≤ k < min(N, M): a number or several.
        ties: "closed" (d ≤ rad is inside, Kynkäänniemi et al.) or "open" (d < rad, Naeem et al.).
        neighbors: Nearest samples to keep in each direction, for galleries.
        progress: Called with (ordered pairs done, (N + M)²).

    Returns:
        The counts, and every score read from them.

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
    """The same for checked features."""
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
    """The k-NN balls of one sample set, for several k: half a product of the set with itself.

    Compute them once for a reference set and `cross` them with those of each model's samples.

    Args:
        samples: Samples, shape (n, d), n ≥ 2: array, memory-mapped array or tensor.
        k: Neighbours that define a ball, 1 ≤ k < n: a number or several.
        neighbors: Nearest samples to keep, of this set (max(k) in any case) and of another one in `cross`.
        progress: Called with (ordered pairs done, n²).

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
    features: Features, *, k: int | Iterable[int], neighbors: int = 1, progress: StageProgress | None = None
) -> Balls:
    """The same for checked features."""
    levels = _levels(k, neighbors, samples=len(features))
    return _within("samples", features, levels, neighbors, _Watch(progress, len(features) ** 2))


def cross(*, real: Balls, fake: Balls, ties: str = "closed", progress: StageProgress | None = None) -> Neighborhoods:
    """Who is inside whose ball: one product of the two sets.

    Args:
        real: Balls of the real samples, from `within`.
        fake: Balls of the fake samples, with the same k.
        ties: "closed" (d ≤ rad is inside) or "open" (d < rad).
        progress: Called with (ordered pairs done, 2NM).

    Returns:
        The counts, and every score read from them.

    Example:
        >>> found = cross(real=within([[0.0], [1.0], [3.0]], k=1), fake=within([[0.5], [9.0]], k=1))
        >>> found.precision(), found.recall(), found.fake_to_real.index[:, 0]
        (0.5, 1.0, array([0, 2]))

    References:
        Kynkäänniemi et al. (2019), eq. 2; Naeem et al. (2020), eq. 3 and 4.
    """
    checks.choice("ties", ties, ("closed", "open"))
    same_dimension(real=real.cloud.features, fake=fake.cloud.features)
    if real.k != fake.k:
        raise ValueError(f"`real` and `fake` must have balls for the same k; got {real.k} and {fake.k}.")
    if real.cloud.device != fake.cloud.device:
        devices = f"{real.cloud.device} and {fake.cloud.device}"
        raise ValueError(f"`real` and `fake` must be on the same device; got {devices}. Move one before `within`.")
    return _cross(real, fake, ties, _Watch(progress, 2 * len(real.squared_radii) * len(fake.squared_radii)))


class _Watch:
    """Counts ordered pairs and tells the caller; left-out copies pass with the samples that stand for them."""

    def __init__(self, progress: StageProgress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def advance(self, tile: Tile, left: Cloud, right: Cloud, times: int) -> None:
        self.done += left.given(tile.rows) * right.given(tile.columns) * times
        if self.progress is not None:
            self.progress(self.done, self.total)


def _within(name: str, features: Features, k: tuple[int, ...], neighbors: int, watch: _Watch) -> Balls:
    from precall.metrics.neighbors import distances
    from precall.metrics.neighbors.tallies import Shortlist

    size = max(*k, neighbors)
    cloud = distances.Cloud(features, size)
    frame = distances.Frame(cloud, distances.common_centre(cloud))
    _check_range(name, frame)
    nearest = Shortlist(cloud.n, size, partial(distances.squared_distances, cloud, cloud), cloud.device)
    for tile in distances.tiles(frame, frame):
        square = tile.rows == tile.columns
        for view in (tile,) if square else (tile, tile.transposed()):
            nearest.read(view, distances.group_minima(view.low))
        watch.advance(tile, cloud, cloud, 1 if square else 2)
    squared, index = (values[cloud.stand_in] for values in nearest.result())
    columns = [level - 1 for level in k]
    return Balls(k, neighbors, to_numpy(squared[:, columns]), _nearest(squared, cloud.position[index]), cloud)


def _cross(real: Balls, fake: Balls, ties: str, watch: _Watch) -> Neighborhoods:
    from precall.metrics.neighbors import distances

    centre = distances.common_centre(real.cloud, fake.cloud)
    frames = [distances.Frame(balls.cloud, centre) for balls in (real, fake)]
    for name, frame in zip(("real", "fake"), frames, strict=True):
        _check_range(name, frame)
    # The same readings twice, roles exchanged: balls around reals hold fakes, balls around fakes hold reals.
    around_real, around_fake = _BallReadings(real, fake, ties), _BallReadings(fake, real, ties)
    depths = around_real.depths()
    for tile in distances.tiles(*frames):
        around_real.read(tile)
        around_fake.read(tile.transposed())
        for depth in depths:
            depth.read(tile)
        watch.advance(tile, real.cloud, fake.cloud, 2)
    return Neighborhoods(
        k=real.k,
        ties=ties,
        radii_real=real.radii,
        radii_fake=fake.radii,
        fakes_in_ball=around_real.inside(),
        balls_over_fake=around_real.around(),
        reals_in_ball=around_fake.inside(),
        balls_over_real=around_fake.around(),
        realisms=np.stack([_given(fake, depth.result().rsqrt()) for depth in depths], axis=1),
        real_to_real=real.nearest,
        real_to_fake=around_real.nearest(),
        fake_to_real=around_fake.nearest(),
        fake_to_fake=fake.nearest,
    )


class _BallReadings:
    """What is read of the pairs for the balls around one set: its nearest of the other set, and who is inside."""

    def __init__(self, own: Balls, other: Balls, ties: str) -> None:
        import torch

        from precall.metrics.neighbors.tallies import Shortlist, Tally

        self.own, self.other = own, other
        radii = torch.as_tensor(own.squared_radii, device=own.cloud.device)[own.cloud.position]
        self.tally = Tally(radii, ties == "closed", own.cloud, other.cloud)
        kept = min(own.neighbors, other.neighbors)
        self.shortlist = Shortlist(own.cloud.n, kept, self.tally.settle, own.cloud.device)

    def read(self, tile: Tile) -> None:
        from precall.metrics.neighbors.distances import group_minima

        minima = group_minima(tile.low)
        self.shortlist.read(tile, minima)
        self.tally.read(tile, minima)

    def depths(self) -> list[Depth]:
        """For each k, how deep the other set's points are in these balls, those above the median radius left out."""
        from precall.metrics.neighbors.tallies import Depth

        medians = np.median(self.own.radii, axis=0)
        radii = zip(self.tally.squared_radii.T, medians, strict=True)
        return [Depth(column, float(median), self.other.cloud.n, self.tally.settle) for column, median in radii]

    def nearest(self) -> Nearest:
        squared, index = (values[self.own.cloud.stand_in] for values in self.shortlist.result())
        return _nearest(squared, self.other.cloud.position[index])

    def inside(self) -> Counts:
        return np.asarray(_given(self.own, self.tally.inside))

    def around(self) -> Counts:
        return np.asarray(_given(self.other, self.tally.around))


def _given(balls: Balls, values: Tensor) -> npt.NDArray[Any]:
    """`values` of the samples a cloud keeps, for all that were given."""
    return to_numpy(values[balls.cloud.stand_in])


def _nearest(squared: Tensor, index: Tensor) -> Nearest:
    return Nearest(index=to_numpy(index), distance=np.sqrt(to_numpy(squared)))


def _levels(k: int | Iterable[int], neighbors: int, **sizes: int) -> tuple[int, ...]:
    """`k` as an increasing tuple; each of it, and `neighbors`, is less than every size."""
    levels, (kept,) = tuple(sorted(set(_whole("k", k)))), _whole("neighbors", neighbors)
    for samples, n in sizes.items():
        for level in levels:
            _check_level("k", level, samples, n)
        _check_level("neighbors", kept, samples, n)
    return levels


def _check_level(name: str, value: int, samples: str, n: int) -> None:
    if not 1 <= value < n:
        most = f"{n - 1}, one less than the number of `{samples}` samples"
        raise ValueError(f"`{name}` must be between 1 and {most}; got {value}. Lower it or pass more samples.")


def _whole(name: str, values: int | Iterable[int]) -> list[int]:
    array = np.atleast_1d(np.asarray(list(values) if isinstance(values, Iterable) else values))
    if array.ndim != 1 or not array.size or array.dtype.kind not in "iu":
        raise ValueError(f"`{name}` must be whole numbers; got {values!r}.")
    return [int(value) for value in array]


def _check_range(name: str, frame: Frame) -> None:
    if not float(frame.squared_norms.max()) < 1e300:
        raise ValueError(
            f"`{name}` must stay below 1e150 in size, or squared distances overflow. Rescale the features."
        )
