"""Pairs of laws with known samples, known densities and known precision-recall curves: the ground truth of the tests.

Every pair is exact. Where the ratio p/q depends on one number only (a position along an axis, a radius), the curve is
that of this number, in any dimension; common noise in further dimensions and a common linear map change nothing. Where
no closed form exists, cells so fine that the curve is within 1e-5 of the truth take its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from precall.theory import checks
from precall.theory.checks import Array
from precall.theory.spectrum import RatioSpectrum

Rng = np.random.Generator


@dataclass(frozen=True, eq=False)
class Law:
    """A distribution to draw from, with its log-density.

    Attributes:
        sample: `sample(n, rng)` draws n points, shape (n, dim).
        log_density: maps points of shape (n, dim) to shape (n,); −∞ outside the support.
    """

    sample: Callable[[int, Rng], Array]
    log_density: Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Toy:
    """A pair of laws, data P and model Q, with its exact precision-recall curve.

    Attributes:
        name: what the pair shows.
        dim: dimension of the samples.
        real: the data's law P.
        fake: the model's law Q.
        masses: gives the masses (p, q) of cells that carry the curve, exactly or to 1e-5.
        closed_form: precision at finite slopes λ > 0 where a formula is known, else None.
    """

    name: str
    dim: int
    real: Law
    fake: Law
    masses: Callable[[], tuple[Array, Array]]
    closed_form: Callable[[Array], Array] | None = None

    def sample(self, n: int, rng: Rng) -> tuple[Array, Array]:
        """n real and n fake samples, each of shape (n, dim); the real ones are drawn first."""
        return self.real.sample(n, rng), self.fake.sample(n, rng)

    def sample_real(self, n: int, rng: Rng) -> Array:
        """n samples of P, shape (n, dim)."""
        return self.real.sample(n, rng)

    def sample_fake(self, n: int, rng: Rng) -> Array:
        """n samples of Q, shape (n, dim)."""
        return self.fake.sample(n, rng)

    def log_p(self, x: Any) -> Array:
        """Log-density of P at points of shape (n, dim), shape (n,)."""
        return self.real.log_density(self._points(x))

    def log_q(self, x: Any) -> Array:
        """Log-density of Q at points of shape (n, dim), shape (n,)."""
        return self.fake.log_density(self._points(x))

    def log_ratio(self, x: Any) -> Array:
        """`log p(x)/q(x)`; NaN where neither law has mass."""
        with np.errstate(invalid="ignore"):
            return self.log_p(x) - self.log_q(x)

    @cached_property
    def spectrum(self) -> RatioSpectrum:
        """The ratio spectrum of the cells: every other quantity of the pair is read off it."""
        p, q = self.masses()
        return RatioSpectrum.from_masses(p=p, q=q)

    def alpha(self, lam: Any) -> Any:
        """Exact precision at slope(s) λ in [0, ∞]: a float for a scalar, else an array of the same shape."""
        if self.closed_form is None:
            return self.spectrum.alpha(lam)
        lam = checks.nonnegative("lam", lam)
        # beyond 1e±300 nothing changes, and the formulas would meet 0·∞
        alpha = np.where(lam > 0, self.closed_form(np.clip(lam, 1e-300, 1e300)), 0.0)
        alpha = np.minimum(alpha, np.minimum(1.0, lam))
        return float(alpha) if lam.ndim == 0 else alpha

    def beta(self, lam: Any) -> Any:
        """Exact recall at slope(s) λ in [0, ∞], `alpha(λ)/λ`: a float for a scalar, else an array of the same shape."""
        if self.closed_form is None:
            return self.spectrum.beta(lam)
        lam = np.maximum(checks.nonnegative("lam", lam), 1e-300)
        return self.alpha(lam) / (float(lam) if lam.ndim == 0 else lam)

    def _points(self, x: Any) -> Array:
        points = checks.numbers("x", x, infinite=True)
        if points.ndim != 2 or points.shape[1] != self.dim:
            raise ValueError(f"`x` must have shape (n, {self.dim}) for the toy {self.name!r}; got {points.shape}.")
        return points


def transformed(toy: Toy, *, matrix: Any) -> Toy:
    """The pair seen through one invertible linear map, x -> matrix · x: other samples and densities, the same curve.

    Args:
        toy: a pair of laws with densities in R^dim.
        matrix: invertible, shape (dim, dim); an orthogonal one turns the pair, a Cholesky root gives it a covariance.
    """
    matrix = checks.numbers("matrix", matrix)
    if matrix.shape != (toy.dim, toy.dim):
        raise ValueError(f"`matrix` must have shape ({toy.dim}, {toy.dim}); got {matrix.shape}.")
    log_volume = float(np.linalg.slogdet(matrix)[1])
    if not np.isfinite(log_volume):
        raise ValueError("`matrix` must be invertible; its determinant is 0.")
    inverse = np.linalg.inv(matrix)

    def pushed(law: Law) -> Law:
        return Law(
            sample=lambda n, rng: law.sample(n, rng) @ matrix.T,
            log_density=lambda x: law.log_density(x @ inverse.T) - log_volume,
        )

    return replace(toy, real=pushed(toy.real), fake=pushed(toy.fake))


def diagonal_reflection(dim: int) -> Array:
    """The orthogonal matrix that exchanges the first axis and the diagonal (1, …, 1)/√dim, shape (dim, dim)."""
    v = -np.full(dim, dim**-0.5)
    v[0] += 1.0
    return np.eye(dim) - (2 * np.outer(v, v) / (v @ v) if dim > 1 else 0.0)


# ---------------------------------------------------------------------------------------- Gaussians, mixtures on a line


@dataclass(frozen=True)
class Modes:
    """A Gaussian mixture on the line: weights that sum to 1, centers and standard deviations, one each per mode."""

    weights: Sequence[float]
    centers: Sequence[float]
    scales: Sequence[float]

    def cdf(self, x: Array) -> Array:
        """Mass below x."""
        from scipy.special import ndtr

        return np.asarray(sum(w * ndtr((x - c) / s) for w, c, s in self._each()))

    def sf(self, x: Array) -> Array:
        """Mass above x, precise in the upper tail."""
        from scipy.special import ndtr

        return np.asarray(sum(w * ndtr((c - x) / s) for w, c, s in self._each()))

    def edges(self) -> Array:
        """Cell edges that resolve every mode out to nine standard deviations."""
        return np.concatenate([c + s * np.linspace(-9, 9, 4001) for _, c, s in self._each()])

    def _each(self) -> list[tuple[float, float, float]]:
        return list(zip(self.weights, self.centers, self.scales, strict=True))


def mixtures(*, real: Modes, fake: Modes, dim: int = 1, name: str = "mixtures") -> Toy:
    """Two Gaussian mixtures along the first axis, with standard normal noise in the other dimensions.

    The noise is common to both laws, so the curve is that of the line in every dimension.

    Args:
        real: modes of P.
        fake: modes of Q.
        dim: number of dimensions, at least 1.
        name: what the pair shows.

    Example:
        >>> toy = mixtures(real=Modes([0.5, 0.5], [-2, 2], [0.6, 0.6]), fake=Modes([1], [0], [2]), dim=64)
        >>> toy.sample(10, np.random.default_rng(0))[0].shape, round(toy.alpha(1.0), 4)
        ((10, 64), 0.5494)
    """
    checks.count("dim", dim)
    edges = np.unique(np.concatenate([real.edges(), fake.edges()]))
    return Toy(name, dim, _on_first_axis(real, dim), _on_first_axis(fake, dim), partial(_cells, real, fake, edges))


def gaussian_shift(*, distance: float = 1.0, dim: int = 1) -> Toy:
    """P = N(0, I), Q = N(D e₁, I): `α(λ) = Φ((log λ − D²/2)/D) + λ Φ((−log λ − D²/2)/D)`.

    For another common covariance see `transformed`: D is then the Mahalanobis distance.

    Example:
        >>> round(gaussian_shift(distance=1.0, dim=3).alpha(2.0), 10)
        0.8093898848
    """
    D = checks.positive("distance", distance)

    def alpha(lam: Array) -> Array:
        from scipy.special import ndtr

        return np.asarray(ndtr((np.log(lam) - D**2 / 2) / D) + lam * ndtr((-np.log(lam) - D**2 / 2) / D))

    toy = mixtures(real=Modes([1.0], [0.0], [1.0]), fake=Modes([1.0], [D], [1.0]), dim=dim, name="gaussian shift")
    return replace(toy, closed_form=alpha)


def gaussian_scale(*, scale: float = 2.0, dim: int = 1) -> Toy:
    """P = N(0, I), Q = N(0, s² I): the ratio depends on the radius, and `α` on two χ² tails.

    With `t = 2(d log s + log λ)/(1 − s⁻²)`, F the distribution function of χ²_d and t > 0:
    `α(λ) = F(t/s²) + λ(1 − F(t))` for s > 1 and `1 − F(t/s²) + λ F(t)` for s < 1; else λ, respectively 1.

    Example:
        >>> round(gaussian_scale(scale=2.0, dim=3).alpha(1.0), 8)
        0.42721081
    """
    s = checks.positive("scale", scale)
    if s == 1:
        raise ValueError("`scale` must differ from 1, else P = Q; for that pair call `same`.")
    checks.count("dim", dim)

    def alpha(lam: Array) -> Array:
        from scipy.special import chdtr, chdtrc

        t = np.maximum(2 * (dim * np.log(s) + np.log(lam)) / (1 - s**-2.0), 0.0)
        below, above = (chdtr, chdtrc) if s > 1 else (chdtrc, chdtr)
        return np.asarray(below(dim, t / s**2) + lam * above(dim, t))

    real, fake = _normal(np.zeros(dim), 1.0), _normal(np.zeros(dim), s)
    return Toy("gaussian scale", dim, real, fake, partial(_radial_cells, dim, s), alpha)


def same(*, dim: int = 1) -> Toy:
    """P = Q = N(0, I): `α(λ) = min(λ, 1)`."""
    checks.count("dim", dim)
    law = _normal(np.zeros(dim), 1.0)
    return Toy("same", dim, law, law, lambda: (np.ones(1), np.ones(1)), lambda lam: np.minimum(lam, 1.0))


def mode_dropping(*, dim: int = 1) -> Toy:
    """P has three modes, Q only the first two of them: recall suffers."""
    return _three_modes([1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0.0], dim, "mode dropping")


def mode_invention(*, dim: int = 1) -> Toy:
    """P has two modes, Q these and a third: precision suffers."""
    return _three_modes([0.5, 0.5, 0.0], [1 / 3, 1 / 3, 1 / 3], dim, "mode invention")


def reweighting(*, dim: int = 1) -> Toy:
    """P and Q have the same three modes with weights in opposite order: precision is traded for recall."""
    return _three_modes([0.6, 0.3, 0.1], [0.1, 0.3, 0.6], dim, "re-weighting")


def _three_modes(real: Sequence[float], fake: Sequence[float], dim: int, name: str) -> Toy:
    centers, scales = [-3.0, 0.0, 3.0], [0.6, 0.6, 0.6]
    return mixtures(real=Modes(real, centers, scales), fake=Modes(fake, centers, scales), dim=dim, name=name)


# ----------------------------------------------------------------------------------- boxes, exponentials, a ring, atoms


def uniform_shift(*, shift: float = 0.3, dim: int = 1) -> Toy:
    """P = U[0, 1]^d, Q = the same moved by `shift` in [0, 1] along the first axis: `α(λ) = min(λ, 1)(1 − shift)`.

    Example:
        >>> uniform_shift(shift=0.25, dim=2).alpha(4.0)
        0.75
    """
    if not 0 <= shift <= 1:
        raise ValueError(f"`shift` must be between 0 and 1; got {shift:g}.")
    start = shift * np.eye(checks.count("dim", dim))[0]
    return _boxes((np.zeros(dim), np.ones(dim)), (start, 1 + start), "uniform shift")


def nested_uniforms(*, real_width: float = 1.0, fake_width: float = 2.0, dim: int = 1) -> Toy:
    """P = U[0, a]^d, Q = U[0, b]^d: `α(λ) = min(λ, (a/b)^d)` for a ≤ b and `min(λ (b/a)^d, 1)` for a ≥ b.

    Example:
        >>> nested_uniforms(real_width=1.0, fake_width=2.0, dim=2).alpha(1.0)
        0.25
    """
    a, b = checks.positive("real_width", real_width), checks.positive("fake_width", fake_width)
    corner = np.zeros(checks.count("dim", dim))
    return _boxes((corner, corner + a), (corner, corner + b), "nested uniforms")


def _boxes(real: tuple[Array, Array], fake: tuple[Array, Array], name: str) -> Toy:
    """Uniform laws on two boxes: only the share of the common volume in each counts."""
    common = np.prod(np.maximum(np.minimum(real[1], fake[1]) - np.maximum(real[0], fake[0]), 0.0))
    p, q = float(common / np.prod(real[1] - real[0])), float(common / np.prod(fake[1] - fake[0]))
    return Toy(
        name,
        real[0].size,
        _uniform(*real),
        _uniform(*fake),
        masses=lambda: (np.array([p, 1 - p, 0.0]), np.array([q, 0.0, 1 - q])),
        closed_form=lambda lam: np.minimum(lam * p, q),
    )


def exponentials(*, real_rate: float = 2.0, fake_rate: float = 1.0) -> Toy:
    """P = Exp(a), Q = Exp(b) on the half-line, a ≠ b.

    For a > b and `t = log(λ a/b)/(a − b) > 0`: `α(λ) = 1 − e^(−bt) + λ e^(−at)`, else λ. For a < b the roles are
    exchanged: `α(λ) = λ α'(1/λ)`.

    Example:
        >>> exponentials(real_rate=2.0, fake_rate=1.0).alpha(1.0)
        0.75
    """
    a, b = checks.positive("real_rate", real_rate), checks.positive("fake_rate", fake_rate)
    if a == b:
        raise ValueError(f"`real_rate` and `fake_rate` must differ, else P = Q; got {a:g} for both.")

    def steep_real(lam: Array, a: float, b: float) -> Array:
        t = np.maximum(np.log(lam * (a / b)) / (a - b), 0.0)
        return np.asarray(-np.expm1(-b * t) + lam * np.exp(-a * t))

    def alpha(lam: Array) -> Array:
        return steep_real(lam, a, b) if a > b else lam * steep_real(1 / lam, b, a)

    def masses() -> tuple[Array, Array]:
        from scipy.stats import expon

        edges = np.unique(np.concatenate([np.linspace(0, 40 / rate, 8001)[1:] for rate in (a, b)]))
        return _cells(expon(scale=1 / a), expon(scale=1 / b), edges)

    return Toy("exponentials", 1, _exponential(a), _exponential(b), masses, alpha)


def ring_vs_blob(*, dim: int = 2, width: float = 0.2) -> Toy:
    """P is a shell of radius about √d, Q = N(0, I) a blob with the same second moment, nearly.

    A point of P has a uniform direction and a radius N(√d, width²) cut off at 0. The ratio depends on the radius only,
    so no linear rule tells the two apart, and the curve is that of two radii.

    Example:
        >>> [round(ring_vs_blob(dim=d).alpha(1.0), 3) for d in (1, 2, 64)]
        [0.412, 0.433, 0.457]
    """
    width = checks.positive("width", width)
    radius = float(np.sqrt(checks.count("dim", dim)))

    def masses() -> tuple[Array, Array]:
        from scipy.stats import chi

        shell = _shell_radius(radius, width)
        edges = np.concatenate([radius + width * np.linspace(-9, 9, 8001), _spread(chi(dim))])
        return _cells(shell, chi(dim), np.unique(edges[edges > 0]))

    return Toy("ring vs blob", dim, _shell(radius, width, dim), _normal(np.zeros(dim), 1.0), masses)


def discrete(*, p: Any, q: Any, name: str = "discrete") -> Toy:
    """Two laws on the points 0, 1, …, m − 1; densities are masses (with respect to counting).

    Example:
        >>> round(discrete(p=[0.5, 0.3, 0.2], q=[0.2, 0.3, 0.5]).alpha(2.0), 12)
        0.9
    """
    p, q = checks.probabilities("p", p), checks.probabilities("q", q)
    checks.same_length(p=p, q=q)
    return Toy(name, 1, _atoms(p), _atoms(q), lambda: (p, q))


TEXTBOOK: Mapping[str, tuple[tuple[float, float], tuple[float, float]]] = {
    "a": ((0.5, 0.5), (1.0, 0.0)),  # one of two modes dropped: precision 1, recall 1/2
    "b": ((1.0, 0.0), (0.5, 0.5)),  # one mode invented: precision 1/2, recall 1
    "c": ((0.5, 0.5), (0.5, 0.5)),  # equal: precision and recall 1
    "d": ((1.0, 0.0), (0.0, 1.0)),  # disjoint: precision and recall 0
    "e": ((0.5, 0.5), (0.9, 0.1)),  # a, softened: high precision, low recall
    "f": ((0.9, 0.1), (0.5, 0.5)),  # b, softened: low precision, high recall
}


def textbook(case: str = "a") -> Toy:
    """The six cases that every notion of precision and recall must tell apart, on two modes.

    Args:
        case: "a" a mode dropped, "b" a mode invented, "c" equal, "d" disjoint, "e" and "f" softer versions of a and b.

    Example:
        >>> textbook("a").spectrum.max_precision, textbook("a").spectrum.max_recall
        (1.0, 0.5)

    References:
        Sajjadi et al. (2018), Fig. 2 (there as sketches, without numbers).
    """
    p, q = TEXTBOOK[checks.choice("case", case, TEXTBOOK)]
    return discrete(p=p, q=q, name=f"textbook {case}")


# ------------------------------------------------------------------------------------------------ mixtures in the plane


def eight_gaussians(*, real_scale: float = 0.1, fake_scale: float = 0.15, dropped: int = 2) -> Toy:
    """P: eight Gaussians on a circle of radius 2. Q: broader ones, without the last `dropped` of them.

    Example:
        >>> round(eight_gaussians(dropped=0).alpha(1.0), 4), round(eight_gaussians().beta(1e-3), 4)
        (0.7096, 0.75)
    """
    angles = np.arange(8) * np.pi / 4
    centers = 2 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return _planar(centers, real_scale, fake_scale, dropped, "eight gaussians")


def gaussian_grid(*, real_scale: float = 0.05, fake_scale: float = 0.08, dropped: int = 5) -> Toy:
    """P: 25 Gaussians on a 5 × 5 grid of spacing 2. Q: broader ones, without the last `dropped` of them."""
    line = np.arange(-4.0, 5.0, 2.0)
    centers = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    return _planar(centers, real_scale, fake_scale, dropped, "gaussian grid")


def _planar(centers: Array, real_scale: float, fake_scale: float, dropped: int, name: str) -> Toy:
    """Equal isotropic Gaussians at `centers`; the fake ones broader or narrower, the last few missing.

    Each kept mode is a Gaussian scale pair, so `α(λ) = α_scale(kept share · λ)`, as if a point told its mode. It does,
    but for a share of 1.2e-6 when modes are ten deviations apart: the truth is higher, by 1.2e-6 (1 + λ) at most.
    """
    k = len(centers)
    if not 0 <= dropped < k:
        raise ValueError(f"`dropped` must be between 0 and {k - 1}; got {dropped}.")
    real, fake = checks.positive("real_scale", real_scale), checks.positive("fake_scale", fake_scale)
    spacing = float(np.linalg.norm(centers[1:] - centers[0], axis=1).min())
    if max(real, fake) > spacing / 10:
        raise ValueError(
            f"`real_scale` and `fake_scale` must be at most {spacing / 10:.4g}, a tenth of the spacing; "
            f"got {real:g} and {fake:g}. With modes that overlap the curve is not known."
        )
    mode, kept = same(dim=2) if real == fake else gaussian_scale(scale=fake / real, dim=2), 1 - dropped / k

    def masses() -> tuple[Array, Array]:
        p, q = mode.masses()
        return np.append(kept * p, dropped / k), np.append(q, 0.0)

    laws = _normal_mixture(centers, real), _normal_mixture(centers[: k - dropped], fake)
    return Toy(name, 2, *laws, masses, lambda lam: mode.alpha(kept * lam))


# ---------------------------------------------------------------------------------------------------------------- cells


def _between(law: Any, edges: Array) -> Array:
    """Masses of the intervals between edges and beyond them, from whichever tail is the more precise."""
    below, above = law.cdf(edges), law.sf(edges)
    inner = np.where(below[1:] < 0.5, np.diff(below), -np.diff(above))
    return np.concatenate([below[:1], np.maximum(inner, 0.0), above[-1:]])


def _cells(real: Any, fake: Any, edges: Array) -> tuple[Array, Array]:
    return _between(real, edges), _between(fake, edges)


def _radial_cells(dim: int, scale: float) -> tuple[Array, Array]:
    """Cells of the radius of N(0, I) and N(0, scale² I)."""
    from scipy.stats import chi

    p, q = chi(dim), chi(dim, scale=scale)
    return _cells(p, q, np.unique(np.concatenate([_spread(p), _spread(q)])))


def _spread(law: Any) -> Array:
    """Edges over all but 1e-14 of a law on the half-line."""
    return np.linspace(law.ppf(1e-14), law.isf(1e-14), 8001)


# ----------------------------------------------------------------------------------------------------------------- laws


def _normal(mean: Array, scale: float) -> Law:
    return _normal_mixture(mean[None], scale)


def _normal_mixture(centers: Array, scale: float) -> Law:
    """Equal mixture of isotropic Gaussians, centers of shape (k, dim)."""
    k, dim = centers.shape
    constant = -dim * (np.log(scale) + np.log(2 * np.pi) / 2) - np.log(k)

    def log_density(x: Array) -> Array:
        squares = [np.sum((x - c) ** 2, axis=1) for c in centers]
        return np.asarray(np.logaddexp.reduce(np.array(squares) / (-2 * scale**2), axis=0) + constant)

    def sample(n: int, rng: Rng) -> Array:
        return np.asarray(centers[rng.integers(k, size=n)] + scale * rng.standard_normal((n, dim)))

    return Law(sample, log_density)


def _on_first_axis(modes: Modes, dim: int) -> Law:
    """The modes along the first axis, N(0, 1) along the others."""
    weights = checks.probabilities("weights", modes.weights)
    centers, scales = (checks.vector(name, getattr(modes, name)) for name in ("centers", "scales"))
    checks.same_length(weights=weights, centers=centers, scales=scales)
    if (scales <= 0).any():
        raise ValueError(f"`scales` must be positive; got {scales.min():g}.")
    used = weights > 0
    log_norm = np.log(weights[used]) - np.log(scales[used])

    def log_density(x: Array) -> Array:
        z = (x[:, :1] - centers[used]) / scales[used]
        noise = np.sum(x[:, 1:] ** 2, axis=1) / 2 + dim * np.log(2 * np.pi) / 2
        return np.asarray(np.logaddexp.reduce(log_norm - z**2 / 2, axis=1) - noise)

    def sample(n: int, rng: Rng) -> Array:
        x = rng.standard_normal((n, dim))
        mode = rng.choice(weights.size, size=n, p=weights)
        x[:, 0] = centers[mode] + scales[mode] * x[:, 0]
        return x

    return Law(sample, log_density)


def _uniform(low: Array, high: Array) -> Law:
    height = -float(np.log(high - low).sum())
    return Law(
        sample=lambda n, rng: rng.uniform(low, high, size=(n, low.size)),
        log_density=lambda x: np.where(((x >= low) & (x <= high)).all(axis=1), height, -np.inf),
    )


def _exponential(rate: float) -> Law:
    return Law(
        sample=lambda n, rng: rng.exponential(1 / rate, size=(n, 1)),
        log_density=lambda x: np.where(x[:, 0] >= 0, np.log(rate) - rate * x[:, 0], -np.inf),
    )


def _shell(radius: float, width: float, dim: int) -> Law:
    """Uniform direction, radius N(radius, width²) given that it is positive."""
    from scipy.special import gammaln

    log_sphere = np.log(2) + dim / 2 * np.log(np.pi) - gammaln(dim / 2)  # area of the unit sphere

    def log_density(x: Array) -> Array:
        r = np.linalg.norm(x, axis=1)
        with np.errstate(divide="ignore"):
            spread = log_sphere + ((dim - 1) * np.log(r) if dim > 1 else 0.0)
        return np.asarray(_shell_radius(radius, width).logpdf(r) - spread)

    def sample(n: int, rng: Rng) -> Array:
        direction = rng.standard_normal((n, dim))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        return np.asarray(direction * _shell_radius(radius, width).ppf(rng.uniform(size=(n, 1))))

    return Law(sample, log_density)


def _shell_radius(radius: float, width: float) -> Any:
    from scipy.stats import truncnorm

    return truncnorm(-radius / width, np.inf, loc=radius, scale=width)


def _atoms(masses: Array) -> Law:
    with np.errstate(divide="ignore"):
        log_masses = np.log(masses)

    def log_density(x: Array) -> Array:
        at = x[:, 0]
        atom = (at == np.floor(at)) & (at >= 0) & (at < masses.size)
        return np.where(atom, log_masses[np.where(atom, at, 0).astype(np.intp)], -np.inf)

    def sample(n: int, rng: Rng) -> Array:
        return rng.choice(masses.size, size=(n, 1), p=masses / masses.sum()).astype(np.float64)

    return Law(sample, log_density)


# ------------------------------------------------------------------------------------------------------------ the lists


def pairs(dim: int) -> list[Toy]:
    """The seven pairs on which curve estimators are compared, in any dimension, about equally hard in each.

    Shift, scale, mode dropping, mode invention, re-weighting, ring vs blob, and P = Q; those with an axis have it along
    the diagonal, so that every coordinate carries a little of the difference.

    Args:
        dim: number of dimensions, at least 1.
    """
    turned = diagonal_reflection(checks.count("dim", dim))
    on_axis = [gaussian_shift(dim=dim), mode_dropping(dim=dim), mode_invention(dim=dim), reweighting(dim=dim)]
    # the log-ratio of the scale pair then varies by about one in every dimension, as it does for the shift
    scale = gaussian_scale(scale=float(np.exp(1 / np.sqrt(2 * dim))), dim=dim)
    shift, *modes = (transformed(toy, matrix=turned) for toy in on_axis)
    return [shift, scale, *modes, ring_vs_blob(dim=dim), same(dim=dim)]


TOYS: Mapping[str, Callable[[], Toy]] = {
    "gaussian_shift": gaussian_shift,
    "gaussian_scale": gaussian_scale,
    "same": same,
    "mode_dropping": mode_dropping,
    "mode_invention": mode_invention,
    "reweighting": reweighting,
    "uniform_shift": uniform_shift,
    "nested_uniforms": nested_uniforms,
    "exponentials": exponentials,
    "ring_vs_blob": ring_vs_blob,
    "eight_gaussians": eight_gaussians,
    "gaussian_grid": gaussian_grid,
    **{f"textbook_{case}": partial(textbook, case) for case in TEXTBOOK},
}
"""Every pair by name, with its default settings."""
