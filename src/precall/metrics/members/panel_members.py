"""The members of a panel: classifiers of different kinds that return a log-ratio `log p/q` for every row.

No classifier is good for every pair. A shell around a blob needs the radius, dropped modes need a mixture, and a change
of covariances a quadratic rule. Trees cover other differences. What a member has learnt (`Fitted`) scores rows that it
has never seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, Protocol, TypeAlias

import numpy as np

from precall.lazy import torch
from precall.metrics.inputs.parallel import side_by_side
from precall.metrics.members.gaussians import (
    GaussianPair,
    adapted,
    curvatures_and_slopes,
    fitted_mixtures,
    gaussian,
    log_densities,
    mahalanobis,
    mixture_weights,
    weighted_components,
)
from precall.metrics.members.views import Seen, Task
from precall.theory.arrays import Tensor, gram, to_numpy

RADII = 8  # number of components of the mixtures of radii
MIXTURES = {"leading": (20, 40_000), "white": (50, 4000)}  # components on such axes, and most rows to fit them to
REFINEMENTS, REFINING = 2, 20  # steps that refine the hidden axes, and components of the mixture for them


class Fitted(Protocol):
    """What a member has learnt from one task. In a panel it is a frozen dataclass of tensors."""

    def log_ratio(self, rows: Seen) -> Tensor:
        """Log-ratio of each row, in float64; a larger one means more real."""


Member: TypeAlias = Callable[[Sequence[Task], int], Sequence[Fitted]]
"""Maps tasks and a seed to what is learnt from each task."""


def each(learn: Callable[[Task, int], Fitted]) -> Member:
    """A member that learns from one task after the other."""
    return lambda tasks, seed: [learn(task, seed) for task in tasks]


@dataclass(frozen=True, eq=False)
class Quadratic:
    """Two Gaussians of the points."""

    gaussians: GaussianPair

    def log_ratio(self, rows: Seen) -> Tensor:
        return self.gaussians.log_ratio(rows.narrow)


def quadratic(task: Task, seed: int) -> Quadratic:
    """Log-ratio of two Gaussians with shrunken covariances."""
    x = task.rows.narrow
    return Quadratic(GaussianPair(*gaussian(x[task.real]), *gaussian(x[task.fake])))


@dataclass(frozen=True, eq=False)
class Radial:
    """Two mixtures of the log Mahalanobis radius."""

    mean: Tensor  # mean of the points, shape (d,)
    root: Tensor  # cholesky root of their covariance
    scale: Tensor  # mean and standard deviation of the log radius, by which it is standardised
    real: Tensor  # coefficients of the log-densities of the components in 1, r and r², with weights, shape (k, 3)
    fake: Tensor  # the same for the fakes

    def log_ratio(self, rows: Seen) -> Tensor:
        radius = rows.view("radius", partial(_log_radius, mean=self.mean, root=self.root))
        x = ((radius - self.scale[0]) / self.scale[1])[:, None]
        return log_densities(self.real, x).logsumexp(dim=1) - log_densities(self.fake, x).logsumexp(dim=1)


def radial(tasks: Sequence[Task], seed: int) -> list[Radial]:
    """Log-ratio of two densities of the log Mahalanobis radius, for elliptical distributions that differ in radius."""
    found, sets = [], []
    for task in tasks:
        mean, root, scale, x = task.rows.once("ellipsoid", partial(_ellipsoid, fit=task.fit))
        found.append((mean, root, scale))
        sets += [x[task.real], x[task.fake]]
    mixtures = [weighted_components(*one) for one in fitted_mixtures(sets, RADII, seed)]
    return [Radial(*of, *pair) for of, *pair in zip(found, mixtures[::2], mixtures[1::2], strict=True)]


def _ellipsoid(rows: Seen, fit: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The first parts of `Radial`, and the standardised log radius of each row."""
    mean, root = gaussian(rows.points[fit])
    radius = rows.view("radius", partial(_log_radius, mean=mean, root=root))
    scale = torch.stack([radius[fit].mean(), radius[fit].std(correction=0) + 1e-9])
    return mean, root, scale, ((radius - scale[0]) / scale[1])[:, None]


def _log_radius(rows: Seen, mean: Tensor, root: Tensor) -> Tensor:
    """Log Mahalanobis radius of each row."""
    return (mahalanobis(mean, root, rows.points) + 1e-9).log()


@dataclass(frozen=True, eq=False)
class Modes:
    """Components of a mixture on some axes."""

    view: str  # the view in which the axes are, a key of `MIXTURES`
    axes: Tensor  # as columns
    components: Tensor  # coefficients of the log-densities of the components

    def points(self, rows: Seen) -> Tensor:
        """The rows on the axes."""
        return rows.view(f"{self.view} axes", lambda whole: getattr(whole, self.view) @ self.axes)

    def log_densities(self, rows: Seen) -> Tensor:
        """Log-density of each component at each row."""
        name = f"modes on {self.view} axes"
        return rows.view(name, lambda whole: log_densities(self.components, self.points(whole)))

    @classmethod
    def found(cls, rows: Seen, view: str, fit: Tensor, seed: int) -> Modes:
        """The components, fitted to the rows with the indices `fit` without their labels; one if there are no axes."""

        def components(whole: Seen) -> Modes:
            x, (count, most) = getattr(whole, view)[fit], MIXTURES[view]
            some = x[:: -(-len(x) // most)]
            axes = torch.eye(x.shape[1], device=x.device)
            axes = axes if view == "leading" else refined_axes(some.double(), whole.views.hidden).float()
            known = fitted_mixtures([some @ axes], count, seed)[0][1] if axes.shape[1] else x.new_zeros(1, 1).double()
            return cls(view, axes, known)

        known: Modes = rows.once(f"components on {view} axes", components)
        return known


@dataclass(frozen=True, eq=False)
class OwnModes:
    """Two mixtures with the components of `modes`, as they are or adapted."""

    modes: Modes
    real: Tensor  # coefficients of the log-densities of the components of the reals, with weights
    fake: Tensor  # the same for the fakes

    def log_ratio(self, rows: Seen) -> Tensor:
        x = self.modes.points(rows)
        return log_densities(self.real, x).logsumexp(dim=1) - log_densities(self.fake, x).logsumexp(dim=1)


def modes(tasks: Sequence[Task], seed: int, view: str, *, own: bool = False) -> list[OwnModes]:
    """Log-ratio of two mixtures whose components, fitted to the union, have weights of their own per class.

    `p/q = Σ_k π_k N_k / Σ_k ρ_k N_k` models dropped, invented and reweighted modes. If `own`, centres and covariances
    are adapted to each class, too: modes may have moved, turned, or be wider or narrower. It is 0 if there are no axes.
    """
    found = []
    for rows, some in groupby(tasks, key=lambda task: task.rows):
        sides = [(task.fit, side) for task in some for side in (task.real, task.fake)]
        known = Modes.found(rows, view, sides[0][0], seed)
        members = torch.zeros(len(rows.x), len(sides), dtype=torch.float64, device=rows.x.device)
        for column, (_, side) in enumerate(sides):
            members[side, column] = 1
        weights, x = mixture_weights(known.log_densities(rows), members).log().T, known.points(rows)
        mixtures = [
            adapted(known.components, one, x[side]) if own else weighted_components(one, known.components)
            for one, (_, side) in zip(weights, sides, strict=True)
        ]
        found += [OwnModes(known, *pair) for pair in zip(mixtures[::2], mixtures[1::2], strict=True)]
    return found


def nearest_modes(rows: Seen, fit: Tensor, seed: int) -> Tensor:
    """Whether each component, on axes of either kind, is the most likely one of each row, as 0 or 1."""
    nearest = [Modes.found(rows, view, fit, seed).log_densities(rows).argmax(dim=1) for view in MIXTURES]
    return torch.cat([torch.nn.functional.one_hot(one) for one in nearest], dim=1).double()


def refined_axes(z: Tensor, u: Tensor) -> Tensor:
    """The axes `u` of white points after steps of Fisher scoring for a mixture on them beside a normal rest.

    With the score `s = ∇ log f(uᵀz)`, the gradient is `E z sᵀ` off the axes, and the information `E s sᵀ − 1`.
    """
    for _ in range(REFINEMENTS if u.shape[1] else 0):
        y = z @ u
        log_weights, components = fitted_mixtures([y], REFINING, 0)[0]
        share = (log_densities(components, y) + log_weights).softmax(dim=1)
        curvatures, slopes = curvatures_and_slopes(components)
        score = share @ slopes - torch.einsum("nk,kij,nj->ni", share, curvatures, y)
        gradient = (z - y @ u.T).T @ score / len(z)
        information = gram(score) / len(z) - 0.95 * torch.eye(u.shape[1], dtype=z.dtype, device=z.device)
        u = torch.linalg.qr(u + gradient @ torch.linalg.pinv(information)).Q
    return u


@dataclass(frozen=True, eq=False)
class Alone:
    """A fitted classifier of scikit-learn: its decision function, or the log-odds of its probabilities."""

    model: Any
    log_odds: float

    def log_ratio(self, rows: Seen) -> Tensor:
        x = to_numpy(rows.values())
        if hasattr(self.model, "decision_function"):
            return torch.as_tensor(np.asarray(self.model.decision_function(x), dtype=np.float64))
        with np.errstate(divide="ignore"):
            fake, real = np.log(self.model.predict_proba(x)).T
        return torch.as_tensor(np.asarray(real - fake - self.log_odds, dtype=np.float64))


def of_classifier(classifier: Any) -> Member:
    """A member from any scikit-learn classifier, which is trained on the features as they are."""
    from sklearn.base import clone

    def fit(task: Task) -> Alone:
        x = to_numpy(task.rows.part(task.train).values())
        return Alone(clone(classifier).fit(x, to_numpy(task.labels)), task.log_odds)

    return lambda tasks, seed: side_by_side([partial(fit, task) for task in tasks])


@contextmanager
def convergence_not_required() -> Iterator[None]:
    """Silence the warnings of scikit-learn. Enter it before threads start: they share the filters of warnings."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield
