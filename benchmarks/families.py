"""Eighteen pairs of distributions of other kinds than `benchmarks.toys`, with known precision-recall curves.

They are used to measure curve estimators on data for which no estimator was made: heavy tails, counts, categories,
mixed tables, low-dimensional manifolds in many dimensions, dependence without a difference of marginals, interpolated
samples, and so on. Where the log-ratio depends on one number with a known distribution, the curve is computed from that
number. Otherwise it is an average over 400,000 samples of each distribution of the exact log-ratio: the standard
error is at most .0008 at any angle, and its average over the angles is smaller.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from benchmarks.distributions import Modes, cell_masses
from benchmarks.toys import gaussian_shift, mixtures, mode_dropping
from precall.theory.arrays import Array
from precall.theory.spectrum import RatioSpectrum

Rng = np.random.Generator
Sampler = Callable[[int, Rng], Array]
LogRatio = Callable[[Array], Array]
Curve = Callable[[Array], Array]

DRAWS = 400_000
CHUNK = 50_000


@dataclass(frozen=True, eq=False)
class Family:
    """A pair of distributions with its curve.

    Attributes:
        name: What kind of data it is.
        dim: Number of columns.
        sample_real: Draws n real samples.
        sample_fake: Draws n fake samples.
        alpha: Precision at slopes λ.
        fake_share: Number of fakes per real sample; at least 60 fakes are drawn.
    """

    name: str
    dim: int
    sample_real: Sampler
    sample_fake: Sampler
    alpha: Curve
    fake_share: float = 1.0

    def fakes(self, n: int) -> int:
        """Number of fake samples beside n real ones."""
        return n if self.fake_share == 1 else max(60, round(n * self.fake_share))


def simulated(real: Sampler, fake: Sampler, log_ratio: LogRatio) -> Curve:
    """The curve from exact log-ratios of many samples; they are drawn when the curve is first needed.

    `α(λ) = E_Q[min(λ p/q, 1)]` for λ ≥ 1, and `β(λ) = E_P[min(q/(λ p), 1)]` for λ < 1: averages of bounded numbers.
    """

    @cache
    def log_ratios() -> tuple[Array, Array]:
        rng = np.random.default_rng(0)
        chunks = range(DRAWS // CHUNK)
        on_real = np.concatenate([log_ratio(real(CHUNK, rng)) for _ in chunks])
        on_fake = np.concatenate([log_ratio(fake(CHUNK, rng)) for _ in chunks])
        return on_real, on_fake

    def one(lam: float) -> float:
        on_real, on_fake = log_ratios()
        if lam >= 1:
            return float(np.mean(np.exp(np.minimum(on_fake + np.log(lam), 0.0))))
        return lam * float(np.mean(np.exp(np.minimum(-on_real - np.log(lam), 0.0))))

    return lambda lam: np.array([one(float(each)) for each in np.ravel(lam)]).reshape(np.shape(lam))


def of_masses(p: Array, q: Array) -> Curve:
    """The curve of two distributions on finitely many cells."""
    return RatioSpectrum.from_masses(p=p, q=q).alpha


# ---------------------------------------------------------------------------------------------------------- heavy tails


def student_columns(dim: int = 8) -> Family:
    """Normal columns against Student's t with three degrees of freedom and the same quartiles."""
    from scipy.stats import norm, t

    width = norm.ppf(0.75) / t(3).ppf(0.75)

    def real(n: int, rng: Rng) -> Array:
        return rng.standard_normal((n, dim))

    def fake(n: int, rng: Rng) -> Array:
        return np.asarray(width * rng.standard_t(3, size=(n, dim)))

    def log_ratio(x: Array) -> Array:
        return np.asarray(norm.logpdf(x).sum(axis=1) - t.logpdf(x, 3, scale=width).sum(axis=1))

    return Family("student columns", dim, real, fake, simulated(real, fake, log_ratio))


def pareto_columns(dim: int = 5) -> Family:
    """Pareto columns with exponents 1.5 and 2.2: the sum of the logarithms, a gamma variable, is sufficient."""
    from scipy.stats import gamma

    p, q = gamma(dim, scale=1 / 1.5), gamma(dim, scale=1 / 2.2)
    edges = np.linspace(1e-3, 60, 60_001)
    return Family(
        "pareto columns",
        dim,
        lambda n, rng: 1 + rng.pareto(1.5, size=(n, dim)),
        lambda n, rng: 1 + rng.pareto(2.2, size=(n, dim)),
        of_masses(*cell_masses(p, q, edges)),
    )


def lognormal_or_gamma(dim: int = 12) -> Family:
    """Skewed columns with equal means and variances: log-normal against gamma in the first three of them."""
    from scipy.stats import gamma, lognorm

    sigma = 0.8
    law, mean, variance = lognorm(sigma), np.exp(sigma**2 / 2), np.expm1(sigma**2) * np.exp(sigma**2)
    other = gamma(mean**2 / variance, scale=variance / mean)

    def real(n: int, rng: Rng) -> Array:
        return rng.lognormal(0.0, sigma, size=(n, dim))

    def fake(n: int, rng: Rng) -> Array:
        x = real(n, rng)
        x[:, :3] = rng.gamma(mean**2 / variance, variance / mean, size=(n, 3))
        return x

    def log_ratio(x: Array) -> Array:
        return np.asarray((law.logpdf(x[:, :3]) - other.logpdf(x[:, :3])).sum(axis=1))

    return Family("log-normal or gamma", dim, real, fake, simulated(real, fake, log_ratio))


# --------------------------------------------------------------------------------------------------------------- tables


def poisson_counts(dim: int = 10) -> Family:
    """Counts with means 3 and 3.6: the total is sufficient."""
    from scipy.stats import poisson

    totals = np.arange(400)
    return Family(
        "poisson counts",
        dim,
        lambda n, rng: rng.poisson(3.0, size=(n, dim)).astype(float),
        lambda n, rng: rng.poisson(3.6, size=(n, dim)).astype(float),
        of_masses(poisson(3.0 * dim).pmf(totals), poisson(3.6 * dim).pmf(totals)),
    )


P_CODES = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
Q_CODES = np.array([0.3, 0.35, 0.05, 0.2, 0.1])  # not monotone in the code


def categorical_table(dim: int = 6) -> Family:
    """Columns of category codes: the cells of the whole table are enumerated."""
    p, q = P_CODES, Q_CODES
    for _ in range(dim - 1):
        p, q = np.multiply.outer(p, P_CODES).ravel(), np.multiply.outer(q, Q_CODES).ravel()
    return Family(
        "categorical table",
        dim,
        lambda n, rng: rng.choice(5, size=(n, dim), p=P_CODES).astype(float),
        lambda n, rng: rng.choice(5, size=(n, dim), p=Q_CODES).astype(float),
        of_masses(p, q),
    )


def mixed_table() -> Family:
    """Two normal, two log-normal, two categorical columns and one of counts, four of which differ; all independent."""
    from scipy.stats import norm, poisson

    def table(n: int, rng: Rng, mean: float, width: float, codes: Array, rate: float) -> Array:
        normal = rng.standard_normal((n, 4)) * [1.0, 1.0, 1.0, width] + [mean, 0.0, 0.0, 0.0]
        categories = [rng.choice(5, size=(n, 1), p=one) for one in (codes, P_CODES)]
        return np.hstack([normal[:, :2], np.exp(normal[:, 2:]), *categories, rng.poisson(rate, size=(n, 1))])

    def real(n: int, rng: Rng) -> Array:
        return table(n, rng, 0.0, 1.0, P_CODES, 4.0)

    def fake(n: int, rng: Rng) -> Array:
        return table(n, rng, 0.5, 1.4, Q_CODES, 5.0)

    def log_ratio(x: Array) -> Array:
        code = x[:, 4].astype(int)
        log_x = np.log(x[:, 3])
        found = norm.logpdf(x[:, 0]) - norm.logpdf(x[:, 0], 0.5) + norm.logpdf(log_x) - norm.logpdf(log_x, 0, 1.4)
        found += np.log(P_CODES / Q_CODES)[code] + poisson.logpmf(x[:, 6], 4.0) - poisson.logpmf(x[:, 6], 5.0)
        return np.asarray(found)

    return Family("mixed table", 7, real, fake, simulated(real, fake, log_ratio))


def same_table() -> Family:
    """The mixed table against fresh rows of the same distribution."""
    real = mixed_table().sample_real
    return Family("same table", 7, real, real, lambda lam: np.minimum(lam, 1.0))


def rounded_column(dim: int = 3) -> Family:
    """One of three columns is rounded to integers in the fakes: the distributions are mutually singular."""

    def fake(n: int, rng: Rng) -> Array:
        x = 20 * rng.standard_normal((n, dim))
        x[:, 0] = np.round(x[:, 0])
        return x

    return Family("rounded column", dim, lambda n, rng: 20 * rng.standard_normal((n, dim)), fake, np.zeros_like)


# ------------------------------------------------------------------------------------------------------------ manifolds


def embedding(inside: int, outside: int) -> Array:
    """A fixed random isometry into more dimensions, shape (inside, outside)."""
    gaussian = np.random.default_rng(0).standard_normal((outside, inside))
    return np.asarray(np.linalg.qr(gaussian)[0].T)


def rolled_sheet(dim: int = 50) -> Family:
    """A rolled sheet in 50 dimensions: the position along the roll is Beta(2, 2) or Beta(2, 4), the width uniform."""
    from scipy.stats import beta

    isometry = embedding(3, dim)

    def sheet(n: int, rng: Rng, b: float) -> Array:
        angle, width = 1.5 * np.pi * (1 + 2 * rng.beta(2, b, size=n)), rng.uniform(0, 20, size=n)
        return np.asarray(np.stack([angle * np.cos(angle), width, angle * np.sin(angle)], axis=1) @ isometry)

    return Family(
        "rolled sheet",
        dim,
        lambda n, rng: sheet(n, rng, 2),
        lambda n, rng: sheet(n, rng, 4),
        of_masses(*cell_masses(beta(2, 2), beta(2, 4), np.linspace(0, 1, 20_001))),
    )


def two_circles(dim: int = 30) -> Family:
    """A circle of radius 1; half of the fakes lie on a circle of radius 1.3 instead: `α(λ) = min(λ, 1/2)`."""
    isometry = embedding(2, dim)

    def circle(n: int, rng: Rng, radius: Array) -> Array:
        angle = rng.uniform(0, 2 * np.pi, n)
        return np.asarray(radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1) @ isometry)

    return Family(
        "two circles",
        dim,
        lambda n, rng: circle(n, rng, np.ones(n)),
        lambda n, rng: circle(n, rng, rng.choice([1.0, 1.3], size=n)),
        lambda lam: np.minimum(lam, 0.5),
    )


# ---------------------------------------------------------------------------------------- dependence and interpolation


def correlated(dim: int = 10, correlation: float = 0.5) -> Family:
    """Standard normal columns; in the fakes each pair of neighbouring columns is correlated."""

    def fake(n: int, rng: Rng) -> Array:
        x = rng.standard_normal((n, dim))
        x[:, 1::2] = correlation * x[:, ::2] + np.sqrt(1 - correlation**2) * x[:, 1::2]
        return x

    def real(n: int, rng: Rng) -> Array:
        return rng.standard_normal((n, dim))

    def log_ratio(x: Array) -> Array:
        u, v, rest = x[:, ::2], x[:, 1::2], 1 - correlation**2
        return np.asarray((v - correlation * u) ** 2 / (2 * rest) - v**2 / 2 + np.log(rest) / 2).sum(axis=1)

    return Family("correlated", dim, real, fake, simulated(real, fake, log_ratio))


def signs(dim: int = 10) -> Family:
    """Normal columns; the sign of x₁x₂ is positive for 90 % of the reals and 50 % of the fakes."""

    def real(n: int, rng: Rng) -> Array:
        x = rng.standard_normal((n, dim))
        x[:, 1] = np.abs(x[:, 1]) * np.sign(x[:, 0]) * rng.choice([1, -1], size=n, p=[0.9, 0.1])
        return x

    masses = of_masses(np.array([0.9, 0.1]), np.array([0.5, 0.5]))
    return Family("sign of a product", dim, real, lambda n, rng: rng.standard_normal((n, dim)), masses)


def interpolated(dim: int = 8, distance: float = 3.0) -> Family:
    """Two modes at ±3; a fake is a random convex combination of two independent real samples.

    Given the weight w, a fake is Gaussian with variance w² + (1 − w)² around a combination of two centres. The density
    is an average over w by Gauss-Legendre quadrature.
    """
    nodes, weights = np.polynomial.legendre.leggauss(24)
    w, weights = (nodes + 1) / 2, weights / 2
    widths = np.sqrt(w**2 + (1 - w) ** 2)
    pairs = [(a, b) for a in (-distance, distance) for b in (-distance, distance)]

    def real(n: int, rng: Rng) -> Array:
        x = rng.standard_normal((n, dim))
        x[:, 0] += rng.choice([-distance, distance], size=n)
        return x

    def fake(n: int, rng: Rng) -> Array:
        u = rng.uniform(size=(n, 1))
        return np.asarray(u * real(n, rng) + (1 - u) * real(n, rng))

    def log_ratio(x: Array) -> Array:
        first, rest = x[:, :1], np.sum(x[:, 1:] ** 2, axis=1, keepdims=True)

        def exponent(center: Array, width: Array) -> Array:
            return np.asarray(-((first - center) ** 2 + rest) / (2 * width**2) - dim * np.log(width))

        on_fake = [exponent(a * w + b * (1 - w), widths) + np.log(weights / 4) for a, b in pairs]
        on_real = exponent(np.array([-distance, distance]), np.ones(2)) + np.log(0.5)
        return np.asarray(np.logaddexp.reduce(on_real, axis=1) - np.logaddexp.reduce(np.hstack(on_fake), axis=1))

    return Family("interpolated", dim, real, fake, simulated(real, fake, log_ratio))


# ------------------------------------------------------------------------------------------- many columns, other sizes


def one_column(dim: int = 200, center: float = 0.95) -> Family:
    """One of 200 columns is bimodal in the fakes, with the same mean and variance."""
    scale = float(np.sqrt(1 - center**2))
    toy = mixtures(real=Modes([1.0], [0.0], [1.0]), fake=Modes([0.5, 0.5], [-center, center], [scale, scale]), dim=dim)
    return Family("one bimodal column", dim, toy.sample_real, toy.sample_fake, toy.alpha)


def cubes(dim: int = 64) -> Family:
    """Unit cubes shifted along the diagonal, with a fifth of their volume in common."""
    step = 1 - 0.2 ** (1 / dim)
    return Family(
        "overlapping cubes",
        dim,
        lambda n, rng: rng.uniform(size=(n, dim)),
        lambda n, rng: step + rng.uniform(size=(n, dim)),
        lambda lam: 0.2 * np.minimum(lam, 1.0),
    )


def shaped_clusters(dim: int = 16, count: int = 12) -> Family:
    """Twelve clusters with covariances of their own; the model has other weights and lacks two of them."""
    rng = np.random.default_rng(7)
    centers = 3 * rng.standard_normal((count, dim))
    factors = rng.standard_normal((count, dim, dim)) / np.sqrt(dim) + 0.3 * np.eye(dim)
    p, q = rng.dirichlet(np.full(count, 5.0)), rng.dirichlet(np.full(count, 5.0)) * (np.arange(count) < count - 2)
    q /= q.sum()
    inverses, log_volumes = np.linalg.inv(factors), np.linalg.slogdet(factors)[1]

    def drawn(n: int, rng: Rng, weights: Array) -> Array:
        chosen = rng.choice(count, size=n, p=weights)
        noise = np.einsum("nij,nj->ni", factors[chosen], rng.standard_normal((n, dim)))
        return np.asarray(centers[chosen] + noise)

    def real(n: int, rng: Rng) -> Array:
        return drawn(n, rng, p)

    def fake(n: int, rng: Rng) -> Array:
        return drawn(n, rng, q)

    def log_ratio(x: Array) -> Array:
        logs = [-np.sum(((x - c) @ a.T) ** 2, axis=1) / 2 for c, a in zip(centers, inverses, strict=True)]
        each = np.stack(logs, axis=1) - log_volumes
        with np.errstate(divide="ignore"):
            return np.asarray(
                np.logaddexp.reduce(each + np.log(p), axis=1) - np.logaddexp.reduce(each + np.log(q), axis=1)
            )

    return Family("shaped clusters", dim, real, fake, simulated(real, fake, log_ratio))


def few_fakes(dim: int = 8) -> Family:
    """A dropped mode, with a fifth as many fakes as reals."""
    toy = mode_dropping(dim=dim)
    return Family("few fakes, mode dropped", dim, toy.sample_real, toy.sample_fake, toy.alpha, fake_share=0.2)


def many_fakes(dim: int = 20) -> Family:
    """A shift of one column by one deviation, with three times as many fakes as reals."""
    toy = gaussian_shift(dim=dim)
    return Family("many fakes, one column shifted", dim, toy.sample_real, toy.sample_fake, toy.alpha, fake_share=3.0)


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        *(student_columns(), pareto_columns(), lognormal_or_gamma()),
        *(poisson_counts(), categorical_table(), mixed_table(), same_table(), rounded_column()),
        *(rolled_sheet(), two_circles(), correlated(), signs(), interpolated()),
        *(one_column(), cubes(), shaped_clusters(), few_fakes(), many_fakes()),
    )
}
"""Every pair by name."""
