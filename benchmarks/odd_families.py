"""Pairs of distributions of many odd kinds, with known precision-recall curves, in two halves.

    python -m benchmarks.ablation --only truths

writes their curves to benchmarks/results/odd_families.json. If few cells or a single number determine the ratio, the
curve is exact. Otherwise it is computed from the exact log-ratios of 1,000,000 samples of each distribution: its
standard error is at most .0005 at any angle.

The pairs are listed by kind. Those in even positions are for development: members, weights and rules may be chosen on
them. Those in odd positions are for judging, and nothing is chosen on them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from benchmarks import toys
from benchmarks.common import ROOT, Row
from benchmarks.distributions import Modes, OnLine, cell_masses
from precall.metrics.scores.score import readings
from precall.theory.arrays import Array
from precall.theory.spectrum import RatioSpectrum

Rng = np.random.Generator
Sampler = Callable[[int, Rng], Array]
LogDensity = Callable[[Array], Array]

LAM = np.tan(np.arange(1, 200) / 200 * np.pi / 2)  # the angles of benchmarks.curve_error
DRAWS, CHUNK = 1_000_000, 25_000
TRUTHS = ROOT / "benchmarks" / "results" / "odd_families.json"


@dataclass(frozen=True, eq=False)
class Pair:
    """Data P and model Q.

    Attributes:
        name: What the two are.
        real: Draws n samples of P.
        fake: Draws n samples of Q.
        spectrum: Computes the exact or simulated ratio spectrum.
    """

    name: str
    real: Sampler
    fake: Sampler
    spectrum: Callable[[], RatioSpectrum]

    def sample(self, n: int, rng: Rng) -> tuple[Array, Array]:
        """n real and n fake samples."""
        return self.real(n, rng), self.fake(n, rng)

    @property
    def truth(self) -> Row:
        """The published curve: α at `LAM`, the scores of the curve, α(10) and β(.1)."""
        truth: Row = published()[self.name]
        return truth

    def computed_truth(self) -> Row:
        """The same, computed again."""
        spectrum = self.spectrum()
        scores = {name: round(value, 5) for name, value in ends(spectrum).items()}
        return {**scores, "alpha": spectrum.alpha(LAM).round(5).tolist()}


def ends(spectrum: RatioSpectrum) -> dict[str, float]:
    """The scores of a curve, and its two ends."""
    return {**readings(spectrum), "alpha_10": spectrum.alpha(10.0), "beta_01": spectrum.beta(0.1)}


@cache
def published() -> dict[str, Any]:
    """The truths by name, from the committed file."""
    return dict(json.loads(TRUTHS.read_text()))


def simulated(name: str, real: Sampler, fake: Sampler, log_ratio: LogDensity) -> Pair:
    """A pair whose spectrum is computed from the exact log-ratios `log p/q` of many samples."""

    def spectrum() -> RatioSpectrum:
        rng = np.random.default_rng(0)
        on_real, on_fake = (
            np.concatenate([log_ratio(sampler(CHUNK, rng)) for _ in range(DRAWS // CHUNK)]) for sampler in (real, fake)
        )
        return RatioSpectrum.from_log_ratios(real=on_real, fake=on_fake)

    return Pair(name, real, fake, spectrum)


def on_cells(name: str, real: Sampler, fake: Sampler, p: object, q: object) -> Pair:
    """A pair whose ratio is constant on cells with these masses."""
    return Pair(name, real, fake, lambda: RatioSpectrum.from_masses(p=np.asarray(p), q=np.asarray(q)))


def on_line(name: str, real: Sampler, fake: Sampler, p: OnLine, q: OnLine, edges: Array) -> Pair:
    """A pair whose ratio depends on one number, with distributions p and q."""

    def spectrum() -> RatioSpectrum:
        on_real, on_fake = cell_masses(p, q, edges)
        return RatioSpectrum.from_masses(p=on_real, q=on_fake)

    return Pair(name, real, fake, spectrum)


def same(name: str, real: Sampler, fake: Sampler | None = None) -> Pair:
    """Two samples of one distribution (as it is, or as it is stored)."""
    return on_cells(name, real, real if fake is None else fake, [1.0], [1.0])


def toy(name: str, pair: toys.Toy) -> Pair:
    """A pair of `benchmarks.toys`."""
    return Pair(name, pair.sample_real, pair.sample_fake, lambda: pair.spectrum)


def normals(dim: int) -> Sampler:
    """Standard normal samples."""
    return lambda n, rng: rng.standard_normal((n, dim))


def log_sum(logs: Array) -> Array:
    """`log Σ exp` over the last axis."""
    from scipy.special import logsumexp

    return np.asarray(logsumexp(logs, axis=-1))


# -------------------------------------------------------------------------------------------------------------- copulas


def equicorrelated(dim: int, correlation: float) -> Array:
    """Correlation matrix with the same correlation everywhere."""
    return np.asarray((1 - correlation) * np.eye(dim) + correlation)


def correlated_normals(matrix: Array) -> tuple[Sampler, LogDensity]:
    """Sampler of N(0, R), and its log-density over that of N(0, I), which is that of the Gaussian copula."""
    root, log_volume = np.linalg.cholesky(matrix), np.linalg.slogdet(matrix)[1]
    excess = np.linalg.inv(matrix) - np.eye(len(matrix))

    def log_density(z: Array) -> Array:
        return np.asarray(-(np.einsum("ni,ij,nj->n", z, excess, z, optimize=True) + log_volume) / 2)

    return lambda n, rng: rng.standard_normal((n, len(matrix))) @ root.T, log_density


def clayton(dim: int, theta: float, to: str) -> Pair:
    """Gaussian against Clayton copula with the same Kendall correlation; uniform or log-normal columns."""
    from scipy.special import ndtr, ndtri

    gaussian, log_gaussian = correlated_normals(equicorrelated(dim, float(np.sin(np.pi / 2 * theta / (theta + 2)))))

    def shown(z: Array) -> Array:
        return np.asarray(ndtr(z) if to == "uniform" else np.exp(z))

    def fake(n: int, rng: Rng) -> Array:
        frailty = rng.gamma(1 / theta, size=(n, 1))  # Marshall and Olkin (1988)
        u = (1 + rng.standard_exponential((n, dim)) / frailty) ** (-1 / theta)
        return shown(ndtri(np.clip(u, 1e-15, 1 - 1e-15)))

    def log_ratio(x: Array) -> Array:
        z = ndtri(np.clip(x, 1e-15, 1 - 1e-15)) if to == "uniform" else np.log(x)
        u = np.clip(ndtr(z), 1e-300, 1.0)
        total = (u**-theta).sum(axis=1) - dim + 1
        constant = np.log1p(theta * np.arange(dim)).sum()
        log_clayton = constant - (theta + 1) * np.log(u).sum(axis=1) - (dim + 1 / theta) * np.log(total)
        return np.asarray(log_gaussian(z) - log_clayton)

    return simulated(f"Clayton copula, {to}, d={dim}", lambda n, rng: shown(gaussian(n, rng)), fake, log_ratio)


def student_copula(dim: int, freedom: float, correlation: float) -> Pair:
    """Gaussian against Student's t copula with the same correlations; normal columns."""
    from scipy.special import gammaln, ndtr, ndtri, stdtr, stdtrit

    matrix = equicorrelated(dim, correlation)
    real, log_gaussian = correlated_normals(matrix)
    inverse, log_volume = np.linalg.inv(matrix), np.linalg.slogdet(matrix)[1]
    v = freedom
    constant = gammaln((v + dim) / 2) + (dim - 1) * gammaln(v / 2) - dim * gammaln((v + 1) / 2) - log_volume / 2

    def fake(n: int, rng: Rng) -> Array:
        t = real(n, rng) / np.sqrt(rng.chisquare(v, size=(n, 1)) / v)
        return np.asarray(np.sign(t) * -ndtri(stdtr(v, -np.abs(t))))

    def log_ratio(z: Array) -> Array:
        t = np.sign(z) * -stdtrit(v, ndtr(-np.abs(z)))
        joint = np.log1p(np.einsum("ni,ij,nj->n", t, inverse, t, optimize=True) / v)
        log_student = constant - (v + dim) / 2 * joint + (v + 1) / 2 * np.log1p(t**2 / v).sum(axis=1)
        return np.asarray(log_gaussian(z) - log_student)

    return simulated(f"Student copula, d={dim}", real, fake, log_ratio)


# ----------------------------------------------------------------------------------------- dependence without marginals


def radius_by_sign(dim: int, factors: int, ratio: float) -> Pair:
    """The radius is larger where a product of columns is positive; in the fakes it is as often so, but anywhere."""
    wide, narrow = ratio**0.5, ratio**-0.5

    def scaled(n: int, rng: Rng, *, linked: bool) -> Array:
        x = rng.standard_normal((n, dim))
        sign = np.prod(x[:, :factors], axis=1) > 0 if linked else rng.uniform(size=n) < 0.5
        return np.asarray(x * np.where(sign, wide, narrow)[:, None])

    def log_ratio(x: Array) -> Array:
        square = (x**2).sum(axis=1)
        logs = np.stack([-square / (2 * s**2) - dim * np.log(s) for s in (wide, narrow)], axis=1)
        here = np.where(np.prod(x[:, :factors], axis=1) > 0, logs[:, 0], logs[:, 1])
        return here - log_sum(logs) + np.log(2)

    real, fake = partial(scaled, linked=True), partial(scaled, linked=False)
    return simulated(f"radius by the sign of {factors} columns, d={dim}", real, fake, log_ratio)


def parity(dim: int, bits: int, noise: float = 0.0) -> Pair:
    """Columns ±1; in the fakes one column is the product of others, but for some noise."""

    def real(n: int, rng: Rng) -> Array:
        return rng.choice([-1.0, 1.0], size=(n, dim))

    def fake(n: int, rng: Rng) -> Array:
        x = real(n, rng)
        x[:, bits] = np.prod(x[:, :bits], axis=1) * np.where(rng.uniform(size=n) < noise, -1.0, 1.0)
        return x

    return on_cells(f"parity of {bits} bits, d={dim}", real, fake, [0.5, 0.5], [1 - noise, noise])


def heteroscedastic(dim: int) -> Pair:
    """The width of the second column depends on the first; in the fakes it has the same widths at random."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    log_weights = np.log(np.maximum(weights / weights.sum(), 1e-300))

    def width(x: Array) -> Array:
        return np.asarray(np.exp(0.7 * x))

    def real(n: int, rng: Rng) -> Array:
        x = rng.standard_normal((n, dim))
        x[:, 1] *= width(x[:, 0])
        return x

    def fake(n: int, rng: Rng) -> Array:
        x = real(n, rng)
        x[:, 0] = rng.standard_normal(n)
        return x

    def log_ratio(x: Array) -> Array:
        y, s = x[:, 1], width(x[:, 0])
        logs = -((y[:, None] / width(nodes)) ** 2) / 2 - np.log(width(nodes)) + log_weights
        return np.asarray(-((y / s) ** 2) / 2 - np.log(s)) - log_sum(logs)

    return simulated(f"width depends on a column, d={dim}", real, fake, log_ratio)


def chain(dim: int, correlation: float) -> Pair:
    """Independent normal columns against an autoregressive sequence."""
    lag = np.abs(np.subtract.outer(np.arange(dim), np.arange(dim)))
    fake, log_fake = correlated_normals(correlation**lag)
    return simulated(f"autoregressive, d={dim}", normals(dim), fake, lambda x: -log_fake(x))


# ------------------------------------------------------------------------------------------------------------ manifolds


def spiral(t: Array, arm: Array) -> Array:
    """Points of a spiral with two arms at positions t in [0, 1]."""
    angle = 3 * np.pi * t + np.pi * arm
    return np.asarray(np.stack([np.cos(angle), np.sin(angle)], axis=-1) * (0.5 + 2 * t)[..., None])


def two_spirals(noise_columns: int = 4, width: float = 0.12) -> Pair:
    """One arm of a spiral with noise; a share of .4 of the fakes lies on another arm."""
    nodes, weights = np.polynomial.legendre.leggauss(160)
    curves = [spiral((nodes + 1) / 2, np.full(160, arm)) for arm in (0, 1)]

    def drawn(n: int, rng: Rng, share: float) -> Array:
        plane = spiral(rng.uniform(size=n), rng.uniform(size=n) < share) + width * rng.standard_normal((n, 2))
        return np.hstack([plane, rng.standard_normal((n, noise_columns))])

    def log_ratio(x: Array) -> Array:
        squares = [((x[:, None, :2] - curve) ** 2).sum(axis=2) for curve in curves]
        own, other = (log_sum(-square / (2 * width**2) + np.log(weights)) for square in squares)
        return own - np.logaddexp(own + np.log(0.6), other + np.log(0.4))

    real, fake = partial(drawn, share=0.0), partial(drawn, share=0.4)
    return simulated("two spirals", real, fake, log_ratio)


def along_spiral(dim: int = 12) -> Pair:
    """A spiral without noise in the plane of 12 columns: its points are spread as Beta(2, 2) or Beta(1, 2)."""
    from scipy.stats import beta

    isometry = np.linalg.qr(np.random.default_rng(1).standard_normal((dim, 2)))[0].T

    def drawn(n: int, rng: Rng, a: float) -> Array:
        return np.asarray(spiral(rng.beta(a, 2, size=n), np.zeros(n)) @ isometry)

    laws = beta(2, 2), beta(1, 2)
    return on_line("along a spiral", partial(drawn, a=2), partial(drawn, a=1), *laws, np.linspace(0, 1, 20_001))


def shells(dim: int, radius: float) -> Pair:
    """A shell of radius 4 and width .3 against one of another radius."""
    from scipy.stats import norm

    def drawn(n: int, rng: Rng, centre: float) -> Array:
        x = rng.standard_normal((n, dim))
        lengths = centre + 0.3 * rng.standard_normal(n)
        return np.asarray(x * (lengths / np.linalg.norm(x, axis=1))[:, None])

    laws = norm(4, 0.3), norm(radius, 0.3)
    samplers = partial(drawn, centre=4.0), partial(drawn, centre=radius)
    return on_line(f"shells, d={dim}", *samplers, *laws, np.linspace(1, 7, 20_001))


def cones(dim: int, count: int, kept: int, concentration: float, fake_concentration: float) -> Pair:
    """Unit vectors in cones around a common direction, as of CLIP; the model has some of them, wider or narrower."""
    from scipy.special import ive
    from scipy.stats import vonmises_fisher

    rng = np.random.default_rng(2)
    centres = np.eye(dim)[0] + 0.9 * rng.standard_normal((count, dim)) / np.sqrt(dim)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)

    def drawn(n: int, rng: Rng, cones: int, kappa: float) -> Array:
        counts = rng.multinomial(n, np.full(cones, 1 / cones))
        parts = [vonmises_fisher(c, kappa).rvs(k, random_state=rng) for c, k in zip(centres, counts, strict=False) if k]
        return rng.permutation(np.concatenate(parts))

    def log_density(x: Array, cones: int, kappa: float) -> Array:
        v = dim / 2 - 1
        constant = v * np.log(kappa) - np.log(ive(v, kappa)) - kappa  # C_d(κ) ∝ κ^v / I_v(κ)
        return log_sum(kappa * x @ centres[:cones].T) + constant - np.log(cones)

    settings = (count, concentration), (kept, fake_concentration)
    real, fake = (partial(drawn, cones=one[0], kappa=one[1]) for one in settings)
    return simulated(
        f"cones of unit vectors, {kept} of {count}", real, fake,
        lambda x: log_density(x, *settings[0]) - log_density(x, *settings[1]),
    )  # fmt: skip


# ----------------------------------------------------------------------------------------- shares, counts, bits, tables


def dirichlet(p: Array, q: Array) -> Pair:
    """Two Dirichlet distributions."""
    from scipy.special import gammaln

    constant = gammaln(p.sum()) - gammaln(p).sum() - gammaln(q.sum()) + gammaln(q).sum()
    return simulated(
        f"Dirichlet, d={len(p)}",
        lambda n, rng: rng.dirichlet(p, size=n),
        lambda n, rng: rng.dirichlet(q, size=n),
        lambda x: constant + np.log(np.maximum(x, 1e-300)) @ (p - q),
    )


def overdispersed(dim: int, mean: float, size: float) -> Pair:
    """Poisson against negative binomial columns of the same mean."""
    from scipy.stats import nbinom, poisson

    chance = size / (size + mean)
    return simulated(
        f"Poisson or negative binomial, d={dim}",
        lambda n, rng: rng.poisson(mean, size=(n, dim)).astype(float),
        lambda n, rng: rng.negative_binomial(size, chance, size=(n, dim)).astype(float),
        lambda x: (poisson.logpmf(x, mean) - nbinom.logpmf(x, size, chance)).sum(axis=1),
    )


def shared_rate(dim: int, mean: float, size: float) -> Pair:
    """Negative binomial counts: each has a random rate of its own, or all counts of a row share one."""
    from scipy.special import gammaln
    from scipy.stats import nbinom

    chance = size / (size + mean)

    def fake(n: int, rng: Rng) -> Array:
        return rng.poisson(mean * rng.gamma(size, 1 / size, size=(n, 1)), size=(n, dim)).astype(float)

    def log_ratio(x: Array) -> Array:
        total = x.sum(axis=1)
        shared = gammaln(size + total) - gammaln(size) - gammaln(x + 1).sum(axis=1) + size * np.log(size)
        shared += total * np.log(mean) - (size + total) * np.log(size + dim * mean)
        return np.asarray(nbinom.logpmf(x, size, chance).sum(axis=1) - shared)

    return simulated(
        f"counts that share a rate, d={dim}",
        lambda n, rng: rng.negative_binomial(size, chance, size=(n, dim)).astype(float), fake, log_ratio,
    )  # fmt: skip


def multinomial(dim: int, trials: int, spread: float) -> Pair:
    """Multinomial counts, as of the words of short texts."""
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.full(dim, 2.0))
    q = p * np.exp(spread * rng.standard_normal(dim))
    q /= q.sum()
    return simulated(
        f"multinomial, d={dim}",
        lambda n, rng: rng.multinomial(trials, p, size=n).astype(float),
        lambda n, rng: rng.multinomial(trials, q, size=n).astype(float),
        lambda x: x @ np.log(p / q),
    )


def fingerprints(dim: int, kept: int, flips: float) -> Pair:
    """Bits of ten prototypes, flipped at random; the model has some of the prototypes."""
    prototypes = np.random.default_rng(4).uniform(size=(10, dim)) < 0.3

    def drawn(n: int, rng: Rng, count: int) -> Array:
        return (prototypes[rng.integers(count, size=n)] ^ (rng.uniform(size=(n, dim)) < flips)).astype(float)

    def log_ratio(x: Array) -> Array:
        agree = x @ prototypes.T + (1 - x) @ ~prototypes.T
        logs = agree * np.log((1 - flips) / flips)
        return log_sum(logs) - log_sum(logs[:, :kept]) - np.log(10 / kept)

    return simulated(
        f"fingerprints, {kept} of 10 kinds", partial(drawn, count=10), partial(drawn, count=kept), log_ratio
    )


def rare_bits(dim: int, changed: int) -> Pair:
    """Independent bits of chances between .05 and .5, some of which are more frequent in the fakes."""
    p = np.random.default_rng(5).uniform(0.05, 0.5, size=dim)
    q = p + 0.12 * (np.arange(dim) < changed)
    return simulated(
        f"bits, {changed} of {dim} more frequent",
        lambda n, rng: (rng.uniform(size=(n, dim)) < p).astype(float),
        lambda n, rng: (rng.uniform(size=(n, dim)) < q).astype(float),
        lambda x: x @ np.log(p / q) + (1 - x) @ np.log((1 - p) / (1 - q)),
    )


def number_by_category(levels: int, numbers: int) -> Pair:
    """One-hot categories beside numbers; the mean of one number belongs to other categories in the fakes."""
    means = np.linspace(-1.2, 1.2, levels)
    other = np.roll(means, 1)

    def drawn(n: int, rng: Rng, of: Array) -> Array:
        code, x = rng.integers(levels, size=n), rng.standard_normal((n, numbers))
        x[:, 0] += of[code]
        return np.hstack([np.eye(levels)[code], x])

    def log_ratio(x: Array) -> Array:
        y, mean, moved = x[:, levels], x[:, :levels] @ means, x[:, :levels] @ other
        return np.asarray((y - moved) ** 2 - (y - mean) ** 2) / 2

    return simulated("table, number by category", partial(drawn, of=means), partial(drawn, of=other), log_ratio)


def slope_by_category(numbers: int, correlation: float) -> Pair:
    """The sign of a correlation depends on a category; in the fakes it is random."""

    def drawn(n: int, rng: Rng, *, linked: bool) -> Array:
        code, x = rng.integers(4, size=n), rng.standard_normal((n, numbers))
        sign = np.where(code % 2 == 0 if linked else rng.uniform(size=n) < 0.5, 1.0, -1.0)
        x[:, 1] = sign * correlation * x[:, 0] + np.sqrt(1 - correlation**2) * x[:, 1]
        return np.hstack([np.eye(4)[code], x])

    def log_ratio(x: Array) -> Array:
        even, u, v = x[:, 0] + x[:, 2] > 0.5, x[:, 4], x[:, 5]
        logs = np.stack([-((v - s * correlation * u) ** 2) / (2 * (1 - correlation**2)) for s in (1, -1)], axis=1)
        return np.where(even, logs[:, 0], logs[:, 1]) - log_sum(logs) + np.log(2)

    real, fake = partial(drawn, linked=True), partial(drawn, linked=False)
    return simulated("table, slope by category", real, fake, log_ratio)


# ------------------------------------------------------------------------------------------------- modes, tails, shapes


def clusters(name: str, dim: int, p: Array, q: Array, distance: float) -> Pair:
    """Normal clusters at random centres, with weights p and q."""
    centres = distance * np.random.default_rng(6).standard_normal((len(p), dim)) / np.sqrt(2)

    def drawn(n: int, rng: Rng, weights: Array) -> Array:
        return np.asarray(centres[rng.choice(len(p), size=n, p=weights)] + rng.standard_normal((n, dim)))

    def log_ratio(x: Array) -> Array:
        logs = x @ centres.T - (centres**2).sum(axis=1) / 2
        with np.errstate(divide="ignore"):
            return log_sum(logs + np.log(p)) - log_sum(logs + np.log(q))

    return simulated(f"{name}, d={dim}", partial(drawn, weights=p), partial(drawn, weights=q), log_ratio)


def rare_mode(dim: int, share: float, *, dropped: bool = True) -> Pair:
    """A small mode that only the data has, or only the model."""
    small, none = Modes([1 - share, share], [0, 7], [1, 0.5]), Modes([1.0], [0], [1])
    real, fake = (small, none) if dropped else (none, small)
    what = "dropped" if dropped else "invented"
    return toy(f"mode of {share:.0%} {what}, d={dim}", toys.mixtures(real=real, fake=fake, dim=dim))


def student(dim: int, real_freedom: float, fake_freedom: float) -> Pair:
    """Spherical Student distributions."""
    from scipy.special import gammaln

    def drawn(n: int, rng: Rng, v: float) -> Array:
        return np.asarray(rng.standard_normal((n, dim)) / np.sqrt(rng.chisquare(v, size=(n, 1)) / v))

    def log_density(square: Array, v: float) -> Array:
        constant = gammaln((v + dim) / 2) - gammaln(v / 2) - dim / 2 * np.log(v)
        return np.asarray(constant - (v + dim) / 2 * np.log1p(square / v))

    def log_ratio(x: Array) -> Array:
        square = (x**2).sum(axis=1)
        return log_density(square, real_freedom) - log_density(square, fake_freedom)

    samplers = (partial(drawn, v=v) for v in (real_freedom, fake_freedom))
    return simulated(f"spherical Student, d={dim}", *samplers, log_ratio)


def laplace(dim: int, changed: int) -> Pair:
    """Normal columns, some of which are Laplace columns of the same variance in the fakes."""

    def fake(n: int, rng: Rng) -> Array:
        x = rng.standard_normal((n, dim))
        x[:, :changed] = rng.laplace(scale=0.5**0.5, size=(n, changed))
        return x

    def log_ratio(x: Array) -> Array:
        x = np.abs(x[:, :changed])
        return np.asarray((-(x**2) / 2 - np.log(2 * np.pi) / 2 + 2**0.5 * x + np.log(2) / 2).sum(axis=1))

    return simulated(f"Laplace, {changed} of {dim} columns", normals(dim), fake, log_ratio)


def skewed_column(dim: int) -> Pair:
    """One column of many is a standardised gamma variable in the fakes."""
    from scipy.stats import gamma, norm

    def fake(n: int, rng: Rng) -> Array:
        x = rng.standard_normal((n, dim))
        x[:, 3] = (rng.gamma(2.0, size=n) - 2) / 2**0.5
        return x

    law = gamma(2.0, loc=-(2**0.5), scale=0.5**0.5)
    return on_line(f"one skewed column of {dim}", normals(dim), fake, norm(), law, np.linspace(-9, 15, 20_001))


def truncated(dim: int, kept: float) -> Pair:
    """Normal samples; the model lacks those of the largest radii."""
    from scipy.stats import chi2

    limit = chi2(dim).ppf(kept)

    def fake(n: int, rng: Rng) -> Array:
        x = rng.standard_normal((round(n / kept * 1.2) + 200, dim))
        return x[(x**2).sum(axis=1) < limit][:n]

    return on_cells(f"truncated radius, d={dim}", normals(dim), fake, [kept, 1 - kept], [1.0, 0.0])


def truncated_columns(dim: int, limit: float) -> Pair:
    """Normal samples; the model clips no value, but draws again whatever exceeds a limit."""
    from scipy.special import ndtr, ndtri

    low, high = ndtr(-limit), ndtr(limit)
    kept = float((high - low) ** dim)

    def fake(n: int, rng: Rng) -> Array:
        return np.asarray(ndtri(rng.uniform(low, high, size=(n, dim))))

    return on_cells(f"truncated columns, d={dim}", normals(dim), fake, [kept, 1 - kept], [1.0, 0.0])


def atom(name: str, dim: int, p: float, q: float, columns: int) -> Pair:
    """Normal samples, the first columns of which are 0 in a share of the rows."""

    def drawn(n: int, rng: Rng, share: float) -> Array:
        x = rng.standard_normal((n, dim))
        x[rng.uniform(size=n) < share, :columns] = 0.0
        return x

    return on_cells(f"{name}, d={dim}", partial(drawn, share=p), partial(drawn, share=q), [p, 1 - p], [q, 1 - q])


def stored(name: str, real: Sampler, dtype: type) -> Pair:
    """Float32 samples against samples of the same distribution in another precision: no difference."""
    return same(name, lambda n, rng: real(n, rng).astype(np.float32), lambda n, rng: real(n, rng).astype(dtype))


def shift_everywhere(dim: int, distance: float) -> Pair:
    """A shift spread evenly over all columns."""
    pair = toys.gaussian_shift(distance=distance, dim=dim)
    return toy(f"shift of all columns, d={dim}", toys.transformed(pair, matrix=toys.diagonal_reflection(dim)))


TENTHS = np.full(10, 0.1)
UNEVEN = np.array([0.3, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05, 0.05])


def _pairs() -> list[Pair]:
    eight, nine = np.append(np.full(8, 1 / 8), [0, 0]), np.append(np.full(9, 1 / 9), 0)

    def lognormal(n: int, rng: Rng) -> Array:
        return np.asarray(np.exp(rng.standard_normal((n, 16))))

    def counts(n: int, rng: Rng) -> Array:
        return rng.poisson(2.0, size=(n, 10)).astype(float)

    def heavy(n: int, rng: Rng) -> Array:
        return rng.standard_t(2, size=(n, 6))

    return [
        *(clayton(5, 1.0, "uniform"), clayton(10, 1.0, "log-normal")),
        *(student_copula(10, 4.0, 0.5), student_copula(5, 3.0, 0.5)),
        *(radius_by_sign(10, 2, 1.7), radius_by_sign(6, 2, 2.2)),
        *(parity(12, 2), parity(20, 2), parity(12, 3, 0.05), parity(8, 4)),
        *(heteroscedastic(2), heteroscedastic(8), chain(30, 0.3), chain(12, 0.5)),
        *(two_spirals(), along_spiral(), shells(16, 4.3), shells(48, 3.6)),
        *(cones(64, 8, 6, 120.0, 120.0), cones(96, 5, 5, 200.0, 240.0)),
        *(dirichlet(np.full(6, 2.0), np.full(6, 3.0)), dirichlet(np.full(20, 1.0), np.linspace(0.7, 1.6, 20))),
        *(overdispersed(8, 4.0, 6.0), overdispersed(20, 2.0, 8.0), shared_rate(6, 4.0, 6.0), multinomial(30, 40, 0.3)),
        *(fingerprints(128, 7, 0.15), fingerprints(64, 8, 0.2), rare_bits(64, 8), rare_bits(200, 12)),
        *(number_by_category(4, 5), slope_by_category(6, 0.8)),
        *(rare_mode(8, 0.03), rare_mode(16, 0.03, dropped=False), rare_mode(4, 0.01), rare_mode(32, 0.05)),
        *(student(6, 3.0, 8.0), student(20, 5.0, 30.0), laplace(20, 20), laplace(40, 6)),
        *(toy("narrow by .95, d=256", toys.gaussian_scale(scale=0.95, dim=256)), shift_everywhere(100, 0.8)),
        *(toy("wide by 1.1, d=32", toys.gaussian_scale(scale=1.1, dim=32)), shift_everywhere(300, 1.2)),
        *(skewed_column(60), skewed_column(150)),
        clusters("reweighted clusters", 6, UNEVEN, UNEVEN[::-1], 4.0),
        clusters("two of ten dropped", 12, TENTHS, eight, 5.0),
        clusters("one of ten invented", 24, nine, TENTHS, 5.0),
        clusters("reweighted", 20, UNEVEN[::-1], np.roll(UNEVEN, 3), 3.0),
        *(truncated(10, 0.7), truncated(30, 0.8), truncated_columns(8, 1.8), truncated_columns(3, 1.5)),
        *(atom("zero row", 16, 0.3, 0.6, 16), atom("zero row, rarer", 40, 0.5, 0.2, 40)),
        *(atom("zero column", 12, 0.2, 0.5, 1), stored("float16, d=16", normals(16), np.float16)),
        *(stored("float16, d=64", normals(64), np.float16), stored("float16, log-normal", lognormal, np.float16)),
        *(same("same normals, d=30", normals(30)), same("same counts", counts)),
        *(same("same heavy tails", heavy), same("same spiral", two_spirals().real)),
    ]  # fmt: skip


PAIRS: dict[str, Pair] = {pair.name: pair for pair in _pairs()}
STORAGE = tuple(name for name in PAIRS if name.startswith("float16"))  # only the precision differs
DEVELOPMENT = tuple(PAIRS)[::2]
JUDGING = tuple(PAIRS)[1::2]
