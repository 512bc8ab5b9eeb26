"""The settings and the criteria of the fifteen sanity checks of Räisä et al. (2025).

"One" means within .05 of 1, "zero" within .05 of 0. A *bell* has a middle that is at least .2 above both ends and at
most .1 below the maximum, and one end at most .1 above the minimum. The ends of a *falling* curve differ by at least
.2, the high end is at most .1 below the maximum, and the low end at most .1 above the minimum. A *flat* curve varies by
at most .05, and a *converging* one is flat over the upper half of the values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from precall.theory.arrays import Array, Index

Rng = np.random.Generator
Draw = Callable[[float, Rng], tuple[Array, Array]]  # value of the parameter to (real, fake)
Criterion = Callable[[Array, Array], bool]  # of the values of the parameter and the scores

N = 1000
ONE, ZERO = 1.0, 0.0
NEAR, RISE, SLACK, FLAT = 0.05, 0.2, 0.1, 0.05


@dataclass(frozen=True)
class Check:
    """One check in one setting.

    Attributes:
        number: Its number in the list of fifteen.
        case: The setting, such as "d=8".
        values: All values of the parameter.
        draw: Draws real and fake samples for a value.
        criteria: Name of a criterion, prefixed by "F" or "D", to a function of the values and the mean scores.
        kept: Values that a thinned grid keeps, beside the ends and the middle.
        cost: About how much work a value is, for the order of the tasks.
    """

    number: int
    case: str
    values: tuple[float, ...]
    draw: Draw
    criteria: Mapping[str, Criterion]
    kept: tuple[float, ...] = ()
    cost: Callable[[float], float] = lambda value: N

    def grid(self, points: int) -> list[float]:
        """At most `points` values, evenly spaced among all of them, and the values to keep."""
        last = len(self.values) - 1
        even = {round(i * last / (points - 1)) for i in range(points)} if points <= last else set(range(last + 1))
        return [x for i, x in enumerate(self.values) if i in even or x in self.kept]


def at(where: float, wanted: float) -> Criterion:
    """The score at one value of the parameter is within .05 of what is wanted."""
    return lambda x, y: bool(abs(y[np.argmin(np.abs(x - where))] - wanted) <= NEAR)


def first(wanted: float) -> Criterion:
    return lambda x, y: bool(abs(y[0] - wanted) <= NEAR)


def last(*wanted: float) -> Criterion:
    """The score at the last value is within .05 of one of those that are allowed."""
    return lambda x, y: bool(min(abs(y[-1] - one) for one in wanted) <= NEAR)


def ends(*wanted: float) -> Criterion:
    """The scores at both ends are within .05 of the same allowed value."""
    return lambda x, y: any(bool(max(abs(y[0] - one), abs(y[-1] - one)) <= NEAR) for one in wanted)


def bell(x: Array, y: Array) -> bool:
    middle, low = y[len(y) // 2], min(y[0], y[-1])
    return bool(middle >= max(y[0], y[-1]) + RISE and middle >= y.max() - SLACK and low <= y.min() + SLACK)


def falling(x: Array, y: Array) -> bool:
    return bool(y[0] - y[-1] >= RISE and y[0] >= y.max() - SLACK and y[-1] <= y.min() + SLACK)


def rising(x: Array, y: Array) -> bool:
    return falling(x, y[::-1])


def flat(x: Array, y: Array) -> bool:
    return bool(np.ptp(y) <= FLAT)


def converging(x: Array, y: Array) -> bool:
    return flat(x, y[len(y) // 2 :])


def lost(where: float) -> Criterion:
    """At least .1 is lost between the first value and this one."""
    return lambda x, y: bool(y[0] - y[np.argmin(np.abs(x - where))] >= SLACK)


def either(*criteria: Criterion) -> Criterion:
    return lambda x, y: any(one(x, y) for one in criteria)


def both(**criteria: Criterion) -> dict[str, Criterion]:
    """The same criteria for F and for D."""
    return {f"{of} {name.replace('_', ' ')}": one for of in "FD" for name, one in criteria.items()}


BELL = both(one_in_the_middle=at(0.0, ONE), zero_at_both_ends=ends(ZERO), bell=bell)
SINGULAR = both(flat=flat, zero_at_both_ends=ends(ZERO))
RATIO_CONTRADICTS = {  # a density ratio at a finite λ cannot meet these, by definition
    (3, "F one at the smallest scale"),
    (3, "F falling"),
    (15, "F one at both ends"),
}


def symmetric(end: float) -> tuple[float, ...]:
    return tuple(np.linspace(-end, end, 51).tolist())


def geometric(low: float, high: float, count: int) -> tuple[float, ...]:
    return tuple(np.geomspace(low, high, count).tolist())


def normal(rng: Rng, n: int, dim: int) -> Array:
    return rng.standard_normal((n, dim))


def shift(dim: int, outlier: str = "", end: float = 0.0) -> Draw:
    """N(0, I) against N(μ·1, I); with an outlier, one real or fake point is replaced by the largest μ."""

    def draw(mu: float, rng: Rng) -> tuple[Array, Array]:
        pair = {"real": normal(rng, N, dim), "fake": mu + normal(rng, N, dim)}
        if outlier:
            pair[outlier] = np.vstack([pair[outlier], np.full((1, dim), end)])
        return pair["real"], pair["fake"]

    return draw


CENTRES = np.linspace(0, 10, 10)  # of the modes of checks 4 and 5, on the diagonal


def modes(rng: Rng, n: int, dim: int, weights: Array, scale: float) -> Array:
    """Ten Gaussians on the diagonal, centres evenly spaced in [0, 10]."""
    chosen = rng.choice(10, size=n, p=weights)
    return CENTRES[chosen, None] + scale * normal(rng, n, dim)


def mode_of(x: Array) -> Index:
    """The mode whose centre is nearest; the modes are six deviations apart or more."""
    return np.abs(x.mean(axis=1)[:, None] - CENTRES).argmin(axis=1)


def together(dim: int, scale: float) -> Draw:
    def draw(share: float, rng: Rng) -> tuple[Array, Array]:
        weights = np.append(0.1 + 0.9 * share, np.full(9, 0.1 * (1 - share)))
        return modes(rng, N, dim, np.full(10, 0.1), scale), modes(rng, N, dim, weights / weights.sum(), scale)

    return draw


def one_by_one(dim: int, scale: float) -> Draw:
    def draw(dropped: float, rng: Rng) -> tuple[Array, Array]:
        weights = (np.arange(10) < 10 - dropped) / (10 - dropped)
        return modes(rng, N, dim, np.full(10, 0.1), scale), modes(rng, N, dim, weights, scale)

    return draw


def planar(count: float, rng: Rng) -> tuple[Array, Array]:
    """Five modes of ten on a circle of radius 5, against the first `count` of them."""
    angles = np.arange(10) * np.pi / 5
    centers = 5 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    real, fake = (centers[rng.integers(int(k), size=N)] + 0.25 * normal(rng, N, 2) for k in (5, count))
    return real, fake


def sphere(rng: Rng, n: int, dim: int) -> Array:
    x = normal(rng, n, dim)
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))


def cubes(dim: int, *, grow_real: bool) -> Draw:
    """Unit cubes shifted along the diagonal, a fifth of the volume in common."""
    step = 1 - 0.2 ** (1 / dim)
    return lambda m, rng: (
        rng.uniform(size=(round(m) if grow_real else N, dim)),
        step + rng.uniform(size=(round(m), dim)),
    )


def ball(rng: Rng, n: int) -> Array:
    return np.asarray(0.8 * rng.uniform(size=(n, 1)) ** (1 / 3) * sphere(rng, n, 3))


def torus(rng: Rng, n: int) -> Array:
    """Solid torus with radii 1 and .1: the density over the tube is proportional to the distance from the axis."""
    found = np.empty((0, 3))
    while len(found) < n:
        tube = rng.uniform(-0.1, 0.1, size=(4 * n, 2))
        accepted = (np.sum(tube**2, axis=1) <= 0.01) & (rng.uniform(0, 1.1, 4 * n) <= 1 + tube[:, 0])
        around = rng.uniform(0, 2 * np.pi, accepted.sum())
        out = 1 + tube[accepted, 0]
        found = np.vstack([found, np.stack([out * np.cos(around), out * np.sin(around), tube[accepted, 1]], axis=1)])
    return found[:n]


def two_modes(dim: int) -> Draw:
    """Two unit modes at ±μ·1 against one Gaussian whose columns have the same variance, 1 + μ²."""

    def draw(mu: float, rng: Rng) -> tuple[Array, Array]:
        real = rng.choice([-mu, mu], size=(N, 1)) + normal(rng, N, dim)
        return real, np.sqrt(1 + mu**2) * normal(rng, N, dim)

    return draw


def apart(rng: Rng, first_fake: float, rest: Callable[[], Array]) -> tuple[Array, Array]:
    """The first coordinate of the fakes is shifted; the others have the same distribution."""
    real, fake = (np.hstack([normal(rng, N, 1), rest()]) for _ in range(2))
    fake[:, 0] += first_fake
    return real, fake


def rounded(side: str) -> Draw:
    def draw(c: float, rng: Rng) -> tuple[Array, Array]:
        pair = {"real": c * normal(rng, N, 1), "fake": c * normal(rng, N, 1)}
        pair[side] = np.round(pair[side])
        return pair["real"], pair["fake"]

    return draw


def checks() -> Iterator[Check]:
    """The fifteen checks, one object for each setting."""
    sizes = geometric(100, 10_000, 20)
    dims = (1, 8, 64)
    for dim, end in zip(dims, (6.0, 3.0, 1.0), strict=True):
        yield Check(1, f"d={dim}", symmetric(end), shift(dim), BELL)
        for side in ("real", "fake"):
            yield Check(2, f"d={dim}, {side} outlier", symmetric(end), shift(dim, side, end), BELL)
    for dim, power in zip(dims, (3.0, 1.0, 0.5), strict=True):
        criteria = both(one_at_scale_1=at(1.0, ONE)) | {
            "F one at the smallest scale": first(ONE),
            "F zero at the largest scale": last(ZERO),
            "F falling": falling,
            "D zero at the smallest scale": first(ZERO),
            "D one or zero at the largest scale": last(ONE, ZERO),
            "D rising or bell": either(rising, bell),
        }
        scales = geometric(10**-power, 10**power, 51)
        yield Check(3, f"d={dim}", scales, scaled(dim), criteria)
    for dim, scale in zip(dims, (1 / 6, 1 / 3, 1.0), strict=True):
        shares = tuple(np.linspace(0, 1, 50).tolist())
        early = shares[round(0.95 * 49)]
        dropping = both(one_at_the_start=first(ONE)) | {"F one at the end": last(ONE), "F flat": flat}
        dropping |= {"D falling": falling}
        yield Check(4, f"d={dim}", shares, together(dim, scale), dropping | {"D lost by 95 %": lost(early)}, (early,))
        counts = tuple(map(float, range(10)))
        yield Check(5, f"d={dim}", counts, one_by_one(dim, scale), dropping | {"D lost by the middle": lost(5)}, (5.0,))
    invention = both(one_at_five=at(5, ONE)) | {"F one at one mode": first(ONE), "D one at ten modes": last(ONE)}
    invention |= {"F falling": falling, "D rising": rising}
    yield Check(6, "d=2", tuple(map(float, range(1, 11))), planar, invention, (5.0,))
    radii = tuple(np.linspace(0.1, 1.9, 51).tolist())
    circles = both(one_in_the_middle=at(1.0, ONE), zero_at_both_ends=ends(ZERO), bell=bell)
    for dim in (2, 16, 128):
        yield Check(7, f"d={dim}", radii, spheres(dim), circles)
    fifth = both(converging=converging, a_fifth_at_the_largest=last(0.2))
    for dim in dims:
        yield Check(8, f"d={dim}", sizes, cubes(dim, grow_real=True), fifth, cost=lambda n: 2 * n)
        yield Check(9, f"d={dim}", sizes, cubes(dim, grow_real=False), fifth, cost=lambda m: m)
    inside = both(zero_at_the_largest=last(ZERO), converging=converging)
    yield Check(10, "ball real", sizes, lambda m, rng: (ball(rng, N), torus(rng, round(m))), inside, cost=lambda m: m)
    yield Check(10, "torus real", sizes, lambda m, rng: (torus(rng, N), ball(rng, round(m))), inside, cost=lambda m: m)
    for dim in dims:
        one_mode = both(one_at_the_start=first(ONE)) | {
            "F falling": falling,
            "D falling or flat": either(falling, flat),
        }
        yield Check(11, f"d={dim}", tuple(np.linspace(0, 5, 20).tolist()), two_modes(dim), one_mode)
    scales = geometric(1e-3, 1e3, 20)
    yield Check(12, "d=2", scales, lambda s, rng: apart(rng, 6.0, lambda: s * normal(rng, N, 1)), SINGULAR)
    heavy = lambda mu, rng: apart(rng, mu, lambda: 1 + rng.pareto(1.01, size=(N, 1)))  # noqa: E731
    yield Check(13, "d=2", symmetric(6.0), heavy, BELL)
    columns = tuple(sorted({float(round(d)) for d in geometric(2, 1001, 20)}))
    yield Check(
        14,
        "",
        columns,
        lambda d, rng: apart(rng, 6.0, lambda: normal(rng, N, int(d) - 1)),
        SINGULAR,
        cost=lambda d: N + 5 * d,
    )
    units = geometric(1, 1000, 20)
    steady = both(flat=flat)
    real_rounded = steady | {"F zero at both ends": ends(ZERO), "D one or zero at both ends": ends(ONE, ZERO)}
    fake_rounded = steady | {"F one at both ends": ends(ONE), "D zero at both ends": ends(ZERO)}
    yield Check(15, "real rounded", units, rounded("real"), real_rounded)
    yield Check(15, "fake rounded", units, rounded("fake"), fake_rounded)


def scaled(dim: int) -> Draw:
    return lambda s, rng: (normal(rng, N, dim), s * normal(rng, N, dim))


def spheres(dim: int) -> Draw:
    return lambda rho, rng: (sphere(rng, N, dim), rho * sphere(rng, N, dim))


TITLES = {
    1: "shift",
    2: "shift, and one outlier",
    3: "scale",
    4: "modes dropped together",
    5: "modes dropped one by one",
    6: "modes dropped, then invented",
    7: "nested spheres",
    8: "overlapping cubes, n = m growing",
    9: "overlapping cubes, m growing",
    10: "ball inside a torus, m growing",
    11: "one mode instead of two",
    12: "shift beside a column of another scale",
    13: "shift beside a heavy-tailed column",
    14: "shift beside many columns",
    15: "rounded values",
}
CHECKS = {(check.number, check.case): check for check in checks()}
