"""The panel: classifiers of different kinds that return a log-ratio `log p/q` for every test point.

No classifier is good for every pair. A shift in 512 dimensions needs a regularised linear rule, a shell around a blob
needs the radius, and dropped modes need a mixture. Nearest neighbours, trees and a network cover other differences.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from precall.metrics.classifiers.mixtures import fitted_mixture, mixture_weights
from precall.metrics.classifiers.tasks import Matrix, Member, Task, Views, each, natural_axes, shrunk, shrunk_covariance
from precall.theory.arrays import Array, Flags

SEARCHED = 5000  # training points for the search of nearest neighbours, whose time grows with them


def logistic(task: Task, seed: int) -> Matrix:
    """`log p/q = w·x + b` by ridge logistic regression; the model is correct if the log-ratio is linear."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=0.01, max_iter=1000).fit(task.train, task.labels)
    return np.asarray(model.decision_function(task.test)) - task.log_odds


def discriminant(task: Task, seed: int) -> Matrix:
    """Linear discriminant with one shrunken covariance; the model is correct for a shift between Gaussians.

    `log p/q = w·(x − m)` with `w = Σ⁻¹(μ_P − μ_Q)` and `m = (μ_P + μ_Q)/2`.
    """
    real, fake = task.scatters
    w = np.linalg.solve(shrunk(real.products + fake.products, real.n + fake.n), real.mean - fake.mean)
    return np.asarray((task.test - (real.mean + fake.mean) / 2) @ w)


def quadratic(task: Task, seed: int) -> Matrix:
    """Log-ratio of two Gaussians with shrunken covariances."""
    train, test = task.narrow
    return gaussian_log_density(train[task.labels], test) - gaussian_log_density(train[~task.labels], test)


def gaussian_log_density(train: Matrix, test: Matrix) -> Array:
    """Log-density at `test` of the Gaussian fitted to `train`, up to a constant that is the same for all Gaussians."""
    root = np.linalg.cholesky(shrunk_covariance(train))
    return np.asarray(-(mahalanobis(train.mean(axis=0), root, test) ** 2) / 2 - np.log(np.diag(root)).sum())


def mahalanobis(mean: Matrix, root: Matrix, x: Matrix) -> Array:
    """`|R⁻¹(x − mean)|` for each row of `x`, where `R Rᵀ` is the covariance."""
    from scipy.linalg import solve_triangular

    return np.asarray(np.linalg.norm(solve_triangular(root, (x - mean).T, lower=True), axis=0))


def diagonal(task: Task, seed: int) -> Matrix:
    """Log-ratio of two Gaussians with independent coordinates, for small changes of scale in many dimensions."""

    def log_density(x: Matrix) -> Matrix:
        mean, variance = x.mean(axis=0), x.var(axis=0) + 1e-6
        return np.asarray(-((task.test - mean) ** 2 / variance + np.log(variance)).sum(axis=1) / 2)

    return log_density(task.train[task.labels]) - log_density(task.train[~task.labels])


def radial(task: Task, seed: int) -> Matrix:
    """Log-ratio of two densities of the log Mahalanobis radius, for elliptical distributions that differ in radius."""
    train, test = task.shared("radius", _log_radius)
    return mixture_ratio(train, task.labels, test, 8, seed)


def _log_radius(views: Views) -> Array:
    """Standardised log Mahalanobis radius of each sample, as a column."""
    points = views.points[views.fit]
    root = np.linalg.cholesky(shrunk_covariance(points))
    radius = np.log(mahalanobis(points.mean(axis=0), root, views.points) + 1e-9)
    return np.asarray((radius - radius[views.fit].mean()) / (radius[views.fit].std() + 1e-9))[:, None]


def contrast(task: Task, seed: int) -> Matrix:
    """Log-ratio of two mixtures on the axes along which the classes differ most in mean or variance."""
    train, test = task.contrast
    return mixture_ratio(train, task.labels, test, 8, seed)


def mixture_ratio(train: Matrix, labels: Flags, test: Matrix, k: int, seed: int) -> Matrix:
    """Log-ratio of two Gaussian mixtures with k components, one fitted to each class."""
    real, fake = (fitted_mixture(train[mask], k, seed) for mask in (labels, ~labels))
    return real.log_density(test) - fake.log_density(test)


def modes(task: Task, seed: int) -> Matrix:
    """Log-ratio of two mixtures that share their components, which are fitted to the union, but not their weights.

    `p/q = Σ_k π_k N_k / Σ_k ρ_k N_k` models dropped, invented and reweighted modes.
    """
    return reweighted(*task.shared("modes", partial(_mode_densities, seed=seed)), task.labels)


def islands(task: Task, seed: int) -> Matrix:
    """The same as `modes`, on principal axes of the columns in their own units; 0 if these are alike."""
    return reweighted(*task.shared("islands", partial(_island_densities, seed=seed)), task.labels)


def _mode_densities(views: Views, seed: int) -> Array:
    """Log-density of each component of a mixture at each sample."""
    return fitted_mixture(views.leading[views.fit], 20, seed, diagonal=True).log_densities(views.leading)


def _island_densities(views: Views, seed: int) -> Array:
    """The same on `natural_axes`; one constant if there are none."""
    axes = natural_axes(views.x, views.x[views.fit])
    if axes is None:
        return np.zeros((len(views.x), 1))
    return fitted_mixture(axes[views.fit], 20, seed, diagonal=True).log_densities(axes)


def reweighted(train: Matrix, test: Matrix, labels: Flags) -> Matrix:
    """Log-ratio at the test points of two mixtures with common components and weights of their own.

    Args:
        train: Log-density of each component at each training point.
        test: The same at the test points.
        labels: Whether each training point is real.
    """
    from scipy.special import logsumexp

    pi, rho = (mixture_weights(train[mask]) for mask in (labels, ~labels))
    return np.asarray(logsumexp(test + np.log(pi), axis=1) - logsumexp(test + np.log(rho), axis=1))


@contextmanager
def convergence_not_required() -> Iterator[None]:
    """Silence the warnings of scikit-learn. Enter it before threads start: they share the filters of warnings."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def neighbors(task: Task, seed: int) -> Matrix:
    """`log((r + ½)/(k − r + ½))` with r the number of reals among the k ≈ 1.5 √n nearest training points.

    At most about `SEARCHED` training points are searched, evenly spread over both classes.
    """
    from sklearn.neighbors import NearestNeighbors

    train, test = task.narrow
    step = -(-len(train) // SEARCHED)
    train, labels = train[::step], task.labels[::step]
    k = min(round(1.5 * len(train) ** 0.5), len(train))
    nearest = NearestNeighbors(n_neighbors=k).fit(train).kneighbors(test, return_distance=False)
    reals = labels[nearest].sum(axis=1)
    return np.asarray(np.log((reals + 0.5) / (k - reals + 0.5)) - task.log_odds)


def boosting(task: Task, seed: int) -> Matrix:
    """Histogram-based gradient boosting with early stopping, on principal axes and single columns."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    train, test = task.axes_and_columns
    model = HistGradientBoostingClassifier(
        max_iter=60,
        learning_rate=0.15,
        max_leaf_nodes=15,
        max_bins=63,
        l2_regularization=1.0,
        early_stopping=True,
        random_state=seed,
    )
    return np.asarray(model.fit(train, task.labels).decision_function(test)) - task.log_odds


def of_classifier(classifier: Any) -> Member:
    """A member from any scikit-learn classifier: its decision function, or the log-odds of its probabilities."""
    from sklearn.base import clone

    def score(task: Task, seed: int) -> Matrix:
        model = clone(classifier).fit(task.train, task.labels)
        if hasattr(model, "decision_function"):
            return np.asarray(model.decision_function(task.test))
        with np.errstate(divide="ignore"):
            fake, real = np.log(model.predict_proba(task.test)).T
        return np.asarray(real - fake - task.log_odds)

    return each(score)
