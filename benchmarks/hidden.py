"""Pairs that differ in a hidden line, plane or space among normal columns, in rotated coordinates of equal variances.

    python -m benchmarks.hidden --jobs 16 --out benchmarks/results/hidden.json

The hidden parts are fine Gaussian mixtures: moons, rings, boards, spirals, crosses and modes. They are whitened
together and rotated at random into many columns of noise, so that neither single columns nor variances show where to
look. The curves are sums over fine grids. The error is that of `benchmarks.curve_error`.

The hidden axes and the member "islands" were chosen on the half for development, whose last four pairs hide nothing.
The half for judging was read five times. After the first one, the limit beyond which an axis counts, the number of
components and the steps of refinement were changed, each because of pairs for development; its error was .033 then.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks import pool, toys
from benchmarks.common import Row, parser
from benchmarks.curve_error import error
from benchmarks.families import Family, of_masses
from benchmarks.left_out import Part
from benchmarks.pool import head, line
from precall.metrics.classifiers.estimators import auto_of_pair
from precall.metrics.inputs.features import Pair
from precall.metrics.members.panel import PANEL
from precall.theory.arrays import Array

Rng = np.random.Generator


@dataclass(frozen=True, eq=False)
class Cloud:
    """A Gaussian mixture whose components have the same weight and spread."""

    centres: Array  # shape (components, dimensions)
    noise: float

    def sample(self, n: int, rng: Rng) -> Array:
        """n points."""
        chosen = self.centres[rng.integers(len(self.centres), size=n)]
        return np.asarray(chosen + self.noise * rng.standard_normal(chosen.shape))

    def on_grid(self, axes: Sequence[Array]) -> Array:
        """Masses on the cells of a grid, as a sum of products of one-dimensional densities."""
        density = [
            np.exp(-(((x - c[:, None]) / self.noise) ** 2) / 2) for x, c in zip(axes, self.centres.T, strict=True)
        ]
        letters = "abc"[: len(axes)]
        found = np.einsum(",".join(f"k{one}" for one in letters) + "->" + letters, *density, optimize=True)
        return np.asarray(found.ravel() / found.sum())


def hidden(name: str, dim: int, real: Cloud, fake: Cloud, units: float = 1.0) -> Family:
    """These two clouds, whitened together, in a random rotation among normal columns."""
    inside = real.centres.shape[1]
    matrix = np.random.default_rng(zlib.crc32(name.encode())).standard_normal((dim, dim))
    rotation = np.linalg.qr(matrix)[0] * units ** np.arange(dim)
    both = np.concatenate([one.centres for one in (real, fake) for _ in range(2520 // len(one.centres))])
    spread = np.cov(both.T, ddof=0).reshape(inside, inside) + (real.noise**2 + fake.noise**2) / 2 * np.eye(inside)
    white = np.linalg.inv(np.linalg.cholesky(spread)).T

    def drawn(cloud: Cloud, n: int, rng: Rng) -> Array:
        points = (cloud.sample(n, rng) - both.mean(axis=0)) @ white
        return np.asarray(np.hstack([points, rng.standard_normal((n, dim - inside))]) @ rotation)

    def alpha(lam: Array) -> Array:
        far, step = 5 * max(real.noise, fake.noise), min(real.noise, fake.noise) / 4
        ends = zip(both.min(axis=0) - far, both.max(axis=0) + far, strict=True)
        axes = [np.arange(low, high, step) for low, high in ends]
        return of_masses(real.on_grid(axes), fake.on_grid(axes))(lam)

    return Family(
        f"{name}, d={dim}", dim, lambda n, rng: drawn(real, n, rng), lambda n, rng: drawn(fake, n, rng), alpha
    )


def of_toy(name: str, toy: toys.Toy) -> Family:
    """A pair of `benchmarks.toys`."""
    return Family(f"{name}, d={toy.dim}", toy.dim, toy.sample_real, toy.sample_fake, toy.alpha)


# --------------------------------------------------------------------------------------------------------------- shapes


def arc(start: float, end: float, radius: float = 1.0, points: int = 120) -> Array:
    """Points on an arc, from one angle to another as shares of the circle."""
    angle = 2 * np.pi * (start + (end - start) * (np.arange(points) + 0.5) / points)
    return np.asarray(radius * np.stack([np.cos(angle), np.sin(angle)], axis=1))


def moons(first: int = 1, second: int = 1) -> Array:
    """Two interlocking half circles, with these relative weights."""
    return np.concatenate([arc(0, 0.5)] * first + [np.array([1.0, 0.5]) + arc(0.5, 1)] * second)


def spiral(turn: float, points: int = 120) -> Array:
    """One arm of a spiral, turned by a share of the circle."""
    at = np.sqrt((np.arange(points) + 0.5) / points)
    angle = 2 * np.pi * (1.25 * at + turn)
    return np.asarray((0.15 + at)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1))


def segment(start: Sequence[float], end: Sequence[float], points: int = 120) -> Array:
    """Points on a segment."""
    at = (np.arange(points)[:, None] + 0.5) / points
    return np.asarray((1 - at) * start + at * np.asarray(end))


def polygon(corners: Array) -> Array:
    """The outline of a polygon."""
    return np.concatenate([segment(a, b) for a, b in zip(corners, np.roll(corners, 1, axis=0), strict=True)])


def lines(turn: float) -> Array:
    """A cross of two segments, turned by a share of the circle."""
    cross = np.concatenate([segment((-1, 0), (1, 0)), segment((0, -1), (0, 1))])
    c, s = np.cos(2 * np.pi * turn), np.sin(2 * np.pi * turn)
    return np.asarray(cross @ np.array([[c, s], [-s, c]]))


def board(size: int, parity: int, fine: int = 6) -> Array:
    """Points in the cells of one colour of a chess board."""
    places = [(i, j) for i in range(size) for j in range(size) if (i + j) % 2 == parity]
    inner = (np.stack(np.meshgrid(*[np.arange(fine)] * 2), axis=-1).reshape(-1, 2) + 0.5) / fine
    return np.concatenate([inner + place for place in places])


def grid(size: int, dims: int) -> Array:
    """The points of a square or cubic grid."""
    return np.stack(np.meshgrid(*[np.arange(float(size))] * dims), axis=-1).reshape(-1, dims)


def _development() -> list[Family]:
    modes, dropped = grid(5, 2), np.random.default_rng(0).permutation(25)[:17]
    cube = grid(2, 3)
    line = np.arange(5.0)[:, None]
    return [
        hidden("moons, one rarer", 20, Cloud(moons(1, 1), 0.12), Cloud(moons(9, 1), 0.12)),
        hidden("ring with a gap", 12, Cloud(arc(0, 1), 0.1), Cloud(arc(0, 0.7), 0.1)),
        hidden("wider rings", 8, Cloud(arc(0, 1), 0.08), Cloud(arc(0, 1), 0.2)),
        hidden("colours of a board", 10, Cloud(board(4, 0), 0.1), Cloud(board(4, 1), 0.1)),
        hidden("arms of a spiral", 6, Cloud(spiral(0), 0.06), Cloud(spiral(0.5), 0.06)),
        hidden("turned cross", 16, Cloud(lines(0), 0.06), Cloud(lines(0.125), 0.06)),
        hidden("modes of a plane", 30, Cloud(modes, 0.25), Cloud(modes[dropped], 0.25)),
        hidden("corners of a cube", 15, Cloud(cube, 0.2), Cloud(cube[[0, 3, 5, 6]], 0.2)),
        hidden("modes of a line", 25, Cloud(line, 0.25), Cloud(line[::2], 0.25)),
        hidden("moons in unlike units", 12, Cloud(moons(), 0.1), Cloud(moons() * [1, -1], 0.1), units=1.5),
        of_toy("shift, nothing hidden", toys.gaussian_shift(distance=1.0, dim=20)),
        of_toy("scale, nothing hidden", toys.gaussian_scale(scale=1.3, dim=12)),
        of_toy("dropped mode, nothing hidden", toys.mode_dropping(dim=16)),
        hidden("same normals", 16, Cloud(np.zeros((1, 2)), 1.0), Cloud(np.zeros((1, 2)), 1.0)),
    ]


def _judging() -> list[Family]:
    triangle = np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 1.7]])
    pinwheel = [spiral(k / 3) for k in range(3)]
    nine, dropped = grid(3, 2), np.array([0, 2, 4, 5, 7])
    sphere = np.random.default_rng(1).standard_normal((400, 3))
    sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    rings = arc(0, 1), arc(0, 1, radius=2.0)
    return [
        hidden("mirrored moons", 10, Cloud(moons(), 0.1), Cloud(moons() * [-1, 1], 0.1)),
        hidden("noisy moons", 24, Cloud(moons(), 0.08), Cloud(moons(), 0.2)),
        hidden(
            "two rings, one rarer",
            18,
            Cloud(np.concatenate(rings), 0.12),
            Cloud(np.concatenate([*rings, rings[0]]), 0.12),
        ),
        hidden("board of nine", 8, Cloud(board(3, 0), 0.12), Cloud(board(3, 1), 0.12)),
        hidden(
            "pinwheel, an arm less",
            10,
            Cloud(np.concatenate(pinwheel), 0.07),
            Cloud(np.concatenate(pinwheel[:2]), 0.07),
        ),
        hidden("turned triangle", 30, Cloud(polygon(triangle), 0.1), Cloud(polygon(triangle * [1, -1]), 0.1)),
        hidden("nine modes", 14, Cloud(nine, 0.2), Cloud(nine[dropped], 0.2)),
        hidden("half a sphere", 12, Cloud(sphere, 0.15), Cloud(sphere[np.abs(sphere[:, 0]) < 0.5], 0.15)),
    ]


DEVELOPMENT = {one.name: one for one in _development()}
JUDGING = {one.name: one for one in _judging()}
PAIRS = DEVELOPMENT | JUDGING


# -------------------------------------------------------------------------------------------------------- the benchmark


@dataclass(frozen=True)
class Task:
    """One draw of one pair."""

    pair: str
    n: int
    seed: int


def rows_of(task: Task) -> list[Row]:
    """The errors of `auto` and without its member on the hidden axes, and the number of these axes."""
    truth, rng = PAIRS[task.pair], np.random.default_rng([task.seed, zlib.crc32(task.pair.encode()), task.n])
    pair, once = Pair.checked(real=truth.sample_real(task.n, rng), fake=truth.sample_fake(task.n, rng)), {}
    half = "development" if task.pair in DEVELOPMENT else "judging"
    row: Row = {**asdict(task), "half": half}
    for name, members in (("error", PANEL), ("without", tuple(one for one in PANEL if one != "islands"))):
        found = auto_of_pair(pair, Part(members=members, once=once), task.seed, None)
        row[name] = round(error(found.spectrum.alpha, truth), 5)
        row["axes"] = 0 if found.panel is None else found.panel.views.hidden.shape[1]
    return [row]


def tasks_of(smoke: bool) -> list[Task]:
    """Two draws of each pair."""
    if smoke:
        return [Task(next(iter(PAIRS)), 100, 0)]
    return [Task(name, 2000, seed) for name in PAIRS for seed in range(2)]


def markdown(rows: Sequence[Row]) -> str:
    """Mean errors by pair, and of both halves."""
    lines = head("half", "pair", "auto", "without islands")
    groups = [(half, name) for half in ("development", "judging") for name in (*PAIRS, "mean")]
    for half, name in groups:
        mine = [row for row in rows if row["half"] == half and name in (row["pair"], "mean")]
        if mine:
            lines.append(
                line(half, name, *(f"{np.mean([row[key] for row in mine]):.4f}" for key in ("error", "without")))
            )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    made = parser(__doc__, smoke="one pair, 100 samples")
    pool.add_options(made)
    options = made.parse_args(arguments)
    rows = pool.read(options.from_json) if options.from_json else None
    print(markdown(pool.completed(tasks_of(options.smoke), rows_of, options) if rows is None else rows))


if __name__ == "__main__":
    main()
