"""Pairs of distributions that can be sampled and whose densities and precision-recall curves are known.

They are the ground truth of the tests. If the ratio p/q depends on a single number only (a position along an axis, a
radius), the curve is that of this number, in any dimension; common noise in further dimensions and a common linear map
leave it unchanged. If there is no closed form, the curve is computed from cells that are fine enough for an error below
1e-5. The single distributions are in `benchmarks.distributions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from benchmarks import distributions
from benchmarks.distributions import Distribution, Modes as Modes, Rng
from precall.theory import checks
from precall.theory.arrays import Array, Floats
from precall.theory.planar_modes import eight_modes, grid_modes
from precall.theory.spectrum import RatioSpectrum


@dataclass(frozen=True, eq=False)
class Toy:
    """A pair of distributions, data P and model Q, with its exact precision-recall curve.

    Attributes:
        name: what the pair demonstrates.
        dim: dimension of the samples.
        real: distribution P of the data.
        fake: distribution Q of the model.
        masses: returns the masses (p, q) of cells that determine the curve, exactly or to 1e-5.
        closed_form: precision at finite slopes λ > 0 if a formula is known, otherwise None.
    """

    name: str
    dim: int
    real: Distribution
    fake: Distribution
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

    def log_p(self, x: ArrayLike) -> Array:
        """Log-density of P at points of shape (n, dim), shape (n,)."""
        return self.real.log_density(self._points(x))

    def log_q(self, x: ArrayLike) -> Array:
        """Log-density of Q at points of shape (n, dim), shape (n,)."""
        return self.fake.log_density(self._points(x))

    def log_ratio(self, x: ArrayLike) -> Array:
        """`log p(x)/q(x)`; NaN where neither distribution has mass."""
        with np.errstate(invalid="ignore"):
            return self.log_p(x) - self.log_q(x)

    @cached_property
    def spectrum(self) -> RatioSpectrum:
        """Ratio spectrum of the cells, from which every other quantity of the pair is computed."""
        p, q = self.masses()
        return RatioSpectrum.from_masses(p=p, q=q)

    @overload
    def alpha(self, lam: float) -> float: ...
    @overload
    def alpha(self, lam: Floats) -> Array: ...
    def alpha(self, lam: float | Floats) -> float | Array:
        """Exact precision at slope(s) λ in [0, ∞]: a float for a scalar, otherwise an array of the same shape."""
        if self.closed_form is None:
            return self.spectrum.alpha(lam)
        lam = checks.nonnegative("lam", lam)
        # beyond 1e±300 the value no longer changes, but the formulas would compute 0·∞
        alpha = np.where(lam > 0, self.closed_form(np.clip(lam, 1e-300, 1e300)), 0.0)
        return checks.like(lam, np.minimum(alpha, np.minimum(1.0, lam)))

    @overload
    def beta(self, lam: float) -> float: ...
    @overload
    def beta(self, lam: Floats) -> Array: ...
    def beta(self, lam: float | Floats) -> float | Array:
        """Exact recall `alpha(λ)/λ` at slope(s) λ in [0, ∞]; argument and shape as in `alpha`."""
        if self.closed_form is None:
            return self.spectrum.beta(lam)
        lam = np.maximum(checks.nonnegative("lam", lam), 1e-300)
        return checks.like(lam, np.asarray(self.alpha(lam) / lam))

    def _points(self, x: ArrayLike) -> Array:
        points = checks.numbers("x", x, infinite=True)
        if points.ndim != 2 or points.shape[1] != self.dim:
            raise ValueError(f"`x` must have shape (n, {self.dim}) for the toy {self.name!r}; got {points.shape}.")
        return points


def transformed(toy: Toy, *, matrix: ArrayLike) -> Toy:
    """The pair under a common invertible linear map, x -> matrix · x: other samples and densities, the same curve.

    Args:
        toy: a pair of distributions with densities in R^dim.
        matrix: invertible, shape (dim, dim); an orthogonal matrix rotates the pair, a Cholesky factor gives it a
            covariance.
    """
    forward = checks.numbers("matrix", matrix)
    if forward.shape != (toy.dim, toy.dim):
        raise ValueError(f"`matrix` must have shape ({toy.dim}, {toy.dim}); got {forward.shape}.")
    log_volume = float(np.linalg.slogdet(forward)[1])
    if not np.isfinite(log_volume):
        raise ValueError("`matrix` must be invertible; its determinant is 0.")
    inverse = np.linalg.inv(forward)

    def pushed(one: Distribution) -> Distribution:
        return Distribution(
            sample=lambda n, rng: one.sample(n, rng) @ forward.T,
            log_density=lambda x: one.log_density(x @ inverse.T) - log_volume,
        )

    return replace(toy, real=pushed(toy.real), fake=pushed(toy.fake))


def diagonal_reflection(dim: int) -> Array:
    """Orthogonal matrix that exchanges the first axis and the diagonal (1, …, 1)/√dim, shape (dim, dim)."""
    v = -np.full(dim, dim**-0.5)
    v[0] += 1.0
    return np.eye(dim) - (2 * np.outer(v, v) / (v @ v) if dim > 1 else 0.0)


# ---------------------------------------------------------------------------------------- Gaussians, mixtures on a line


def mixtures(*, real: Modes, fake: Modes, dim: int = 1, name: str = "mixtures") -> Toy:
    """Two Gaussian mixtures along the first axis, with standard normal noise in the other dimensions.

    The noise is common to both distributions, so the curve is that on the line in every dimension.

    Args:
        real: modes of P.
        fake: modes of Q.
        dim: number of dimensions, at least 1.
        name: what the pair demonstrates.

    Example:
        >>> toy = mixtures(real=Modes([0.5, 0.5], [-2, 2], [0.6, 0.6]), fake=Modes([1], [0], [2]), dim=64)
        >>> toy.sample(10, np.random.default_rng(0))[0].shape, round(toy.alpha(1.0), 4)
        ((10, 64), 0.5494)
    """
    checks.count("dim", dim)
    edges = np.unique(np.concatenate([real.edges(), fake.edges()]))
    return Toy(
        name,
        dim,
        distributions.on_first_axis(real, dim),
        distributions.on_first_axis(fake, dim),
        partial(distributions.cell_masses, real, fake, edges),
    )


def gaussian_shift(*, distance: float = 1.0, dim: int = 1) -> Toy:
    """P = N(0, I), Q = N(D e₁, I): `α(λ) = Φ((log λ − D²/2)/D) + λ Φ((−log λ − D²/2)/D)`.

    For another common covariance use `transformed`; D is then the Mahalanobis distance.

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
    `α(λ) = F(t/s²) + λ(1 − F(t))` for s > 1 and `1 − F(t/s²) + λ F(t)` for s < 1. For t ≤ 0 it is λ for s > 1 and 1 for
    s < 1.

    Example:
        >>> round(gaussian_scale(scale=2.0, dim=3).alpha(1.0), 8)
        0.42721081
    """
    s = checks.positive("scale", scale)
    if s == 1:
        raise ValueError("`scale` must differ from 1, otherwise P = Q; for that pair call `same`.")
    checks.count("dim", dim)

    def alpha(lam: Array) -> Array:
        from scipy.special import chdtr, chdtrc

        t = np.maximum(2 * (dim * np.log(s) + np.log(lam)) / (1 - s**-2.0), 0.0)
        below, above = (chdtr, chdtrc) if s > 1 else (chdtrc, chdtr)
        return np.asarray(below(dim, t / s**2) + lam * above(dim, t))

    real, fake = distributions.normal(np.zeros(dim), 1.0), distributions.normal(np.zeros(dim), s)
    return Toy("gaussian scale", dim, real, fake, partial(distributions.radial_cell_masses, dim, s), alpha)


def same(*, dim: int = 1) -> Toy:
    """P = Q = N(0, I): `α(λ) = min(λ, 1)`."""
    checks.count("dim", dim)
    standard = distributions.normal(np.zeros(dim), 1.0)
    return Toy("same", dim, standard, standard, lambda: (np.ones(1), np.ones(1)), lambda lam: np.minimum(lam, 1.0))


def mode_dropping(*, dim: int = 1) -> Toy:
    """P has three modes and Q only the first two of them: recall is low."""
    return _three_modes([1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0.0], dim, "mode dropping")


def mode_invention(*, dim: int = 1) -> Toy:
    """P has two modes; Q has these and a third: precision is low."""
    return _three_modes([0.5, 0.5, 0.0], [1 / 3, 1 / 3, 1 / 3], dim, "mode invention")


def reweighting(*, dim: int = 1) -> Toy:
    """P and Q have the same three modes with weights in reverse order: precision is traded for recall."""
    return _three_modes([0.6, 0.3, 0.1], [0.1, 0.3, 0.6], dim, "re-weighting")


def _three_modes(real: Sequence[float], fake: Sequence[float], dim: int, name: str) -> Toy:
    centers, scales = [-3.0, 0.0, 3.0], [0.6, 0.6, 0.6]
    return mixtures(real=Modes(real, centers, scales), fake=Modes(fake, centers, scales), dim=dim, name=name)


# ----------------------------------------------------------------------------------- boxes, exponentials, a ring, atoms


def uniform_shift(*, shift: float = 0.3, dim: int = 1) -> Toy:
    """P = U[0, 1]^d, Q = P shifted by `shift` in [0, 1] along the first axis: `α(λ) = min(λ, 1)(1 − shift)`.

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
    """Uniform distributions on two boxes: only the share of the common volume in each matters."""
    common = np.prod(np.maximum(np.minimum(real[1], fake[1]) - np.maximum(real[0], fake[0]), 0.0))
    p, q = float(common / np.prod(real[1] - real[0])), float(common / np.prod(fake[1] - fake[0]))
    return Toy(
        name,
        real[0].size,
        distributions.uniform(*real),
        distributions.uniform(*fake),
        masses=lambda: (np.array([p, 1 - p, 0.0]), np.array([q, 0.0, 1 - q])),
        closed_form=lambda lam: np.minimum(lam * p, q),
    )


def exponentials(*, real_rate: float = 2.0, fake_rate: float = 1.0) -> Toy:
    """P = Exp(a), Q = Exp(b) on the half-line, a ≠ b.

    For a > b and `t = log(λ a/b)/(a − b) > 0`: `α(λ) = 1 − e^(−bt) + λ e^(−at)`, otherwise λ. For a < b the roles
    are exchanged: `α(λ) = λ α'(1/λ)`.

    Example:
        >>> exponentials(real_rate=2.0, fake_rate=1.0).alpha(1.0)
        0.75
    """
    a, b = checks.positive("real_rate", real_rate), checks.positive("fake_rate", fake_rate)
    if a == b:
        raise ValueError(f"`real_rate` and `fake_rate` must differ, otherwise P = Q; got {a:g} for both.")

    def steep_real(lam: Array, a: float, b: float) -> Array:
        t = np.maximum(np.log(lam * (a / b)) / (a - b), 0.0)
        return np.asarray(-np.expm1(-b * t) + lam * np.exp(-a * t))

    def alpha(lam: Array) -> Array:
        return steep_real(lam, a, b) if a > b else lam * steep_real(1 / lam, b, a)

    def masses() -> tuple[Array, Array]:
        from scipy.stats import expon

        edges = np.unique(np.concatenate([np.linspace(0, 40 / rate, 8001)[1:] for rate in (a, b)]))
        return distributions.cell_masses(expon(scale=1 / a), expon(scale=1 / b), edges)

    return Toy("exponentials", 1, distributions.exponential(a), distributions.exponential(b), masses, alpha)


def ring_vs_blob(*, dim: int = 2, width: float = 0.2) -> Toy:
    """P is a shell of radius about √d, and Q = N(0, I) a blob with nearly the same second moment.

    A point of P has a uniform direction and a radius N(√d, width²) truncated at 0. The ratio depends on the radius
    only, so no linear classifier separates the two, and the curve is that of the two radii.

    Example:
        >>> [round(ring_vs_blob(dim=d).alpha(1.0), 3) for d in (1, 2, 64)]
        [0.412, 0.433, 0.457]
    """
    width = checks.positive("width", width)
    radius = float(np.sqrt(checks.count("dim", dim)))

    def masses() -> tuple[Array, Array]:
        from scipy.stats import chi

        ring = distributions.shell_radius(radius, width)
        edges = np.concatenate([radius + width * np.linspace(-9, 9, 8001), distributions.tail_edges(chi(dim))])
        return distributions.cell_masses(ring, chi(dim), np.unique(edges[edges > 0]))

    blob = distributions.normal(np.zeros(dim), 1.0)
    return Toy("ring vs blob", dim, distributions.shell(radius, width, dim), blob, masses)


def discrete(*, p: ArrayLike, q: ArrayLike, name: str = "discrete") -> Toy:
    """Two distributions on the points 0, 1, …, m − 1; densities are masses (with respect to counting measure).

    Example:
        >>> round(discrete(p=[0.5, 0.3, 0.2], q=[0.2, 0.3, 0.5]).alpha(2.0), 12)
        0.9
    """
    real, fake = checks.probabilities("p", p), checks.probabilities("q", q)
    checks.same_length(p=real, q=fake)
    return Toy(name, 1, distributions.atoms(real), distributions.atoms(fake), lambda: (real, fake))


TEXTBOOK: Mapping[str, tuple[tuple[float, float], tuple[float, float]]] = {
    "a": ((0.5, 0.5), (1.0, 0.0)),  # one of two modes dropped: precision 1, recall 1/2
    "b": ((1.0, 0.0), (0.5, 0.5)),  # one mode invented: precision 1/2, recall 1
    "c": ((0.5, 0.5), (0.5, 0.5)),  # equal: precision and recall 1
    "d": ((1.0, 0.0), (0.0, 1.0)),  # disjoint: precision and recall 0
    "e": ((0.5, 0.5), (0.9, 0.1)),  # a, softened: high precision, low recall
    "f": ((0.9, 0.1), (0.5, 0.5)),  # b, softened: low precision, high recall
}


def textbook(case: str = "a") -> Toy:
    """The six cases on two modes that every definition of precision and recall must distinguish.

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
    """P: eight Gaussians on a circle of radius 2. Q: wider ones, without the last `dropped` of them.

    Example:
        >>> round(eight_gaussians(dropped=0).alpha(1.0), 4), round(eight_gaussians().beta(1e-3), 4)
        (0.7096, 0.75)
    """
    return _planar(eight_modes(radius=2.0).centers, real_scale, fake_scale, dropped, "eight gaussians")


def gaussian_grid(*, real_scale: float = 0.05, fake_scale: float = 0.08, dropped: int = 5) -> Toy:
    """P: 25 Gaussians on a 5 × 5 grid of spacing 2. Q: wider ones, without the last `dropped` of them."""
    return _planar(grid_modes().centers, real_scale, fake_scale, dropped, "gaussian grid")


def _planar(centers: Array, real_scale: float, fake_scale: float, dropped: int, name: str) -> Toy:
    """Equal isotropic Gaussians at `centers`; the fake ones are wider or narrower, and the last few are missing.

    Each kept mode is a Gaussian scale pair. If every point determines its mode, then `α(λ) = α_scale(kept share · λ)`.
    This holds except for a share of 1.2e-6 if modes are ten standard deviations apart; the true value is larger, by at
    most 1.2e-6 (1 + λ).
    """
    k = len(centers)
    if not 0 <= dropped < k:
        raise ValueError(f"`dropped` must be between 0 and {k - 1}; got {dropped}.")
    real, fake = checks.positive("real_scale", real_scale), checks.positive("fake_scale", fake_scale)
    spacing = float(np.linalg.norm(centers[1:] - centers[0], axis=1).min())
    if max(real, fake) > spacing / 10:
        raise ValueError(
            f"`real_scale` and `fake_scale` must be at most {spacing / 10:.4g}, a tenth of the spacing; "
            f"got {real:g} and {fake:g}. The curve of overlapping modes is not known."
        )
    mode, kept = same(dim=2) if real == fake else gaussian_scale(scale=fake / real, dim=2), 1 - dropped / k

    def masses() -> tuple[Array, Array]:
        p, q = mode.masses()
        return np.append(kept * p, dropped / k), np.append(q, 0.0)

    both = distributions.normal_mixture(centers, real), distributions.normal_mixture(centers[: k - dropped], fake)
    return Toy(name, 2, *both, masses, lambda lam: mode.alpha(kept * lam))


# ------------------------------------------------------------------------------------------------------------ the lists


def pairs(dim: int) -> list[Toy]:
    """The seven pairs on which curve estimators are compared, about equally hard in every dimension.

    Shift, scale, mode dropping, mode invention, re-weighting, ring vs blob, and P = Q. Pairs that differ along an axis
    do so along the diagonal, so that every coordinate contains a small part of the difference.

    Args:
        dim: number of dimensions, at least 1.
    """
    turned = diagonal_reflection(checks.count("dim", dim))
    on_axis = [gaussian_shift(dim=dim), mode_dropping(dim=dim), mode_invention(dim=dim), reweighting(dim=dim)]
    # with this scale, the log-ratio varies by about one in every dimension, as it does for the shift
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
