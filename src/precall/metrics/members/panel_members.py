"""The members of a panel: classifiers of different kinds that return a log-ratio `log p/q` for every row.

No classifier is good for every pair. A shell around a blob needs the radius, dropped modes need a mixture, and a change
of covariances a quadratic rule. Trees and a network cover other differences. What a member has learnt is a few arrays
(`Fitted`), so that it scores rows that it has never seen, on any machine. `knn` and any classifier of scikit-learn can
be used alone, but in no panel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from precall.metrics.inputs.parallel import side_by_side
from precall.metrics.members.gaussians import GaussianPair, gaussian, mahalanobis
from precall.metrics.members.mixtures import fitted_mixture, log_densities, mixture_weights
from precall.metrics.members.views import NARROW, Seen, Task
from precall.theory.arrays import Array, Flags, Matrix, to_numpy

if TYPE_CHECKING:
    from torch import Tensor

SEARCHED = 5000  # training points for the search of nearest neighbours, whose time grows with them
RADII, MODES = 8, 20  # number of components of the mixtures
BINNING = Lock()


class Fitted(Protocol):
    """What a member has learnt from one task. In a panel it is a frozen dataclass of tensors."""

    def log_ratio(self, rows: Seen) -> Tensor:
        """Log-ratio of each row, in float64; a larger one means more real."""


Member: TypeAlias = Callable[[Sequence[Task], int], Sequence[Fitted]]
"""Maps tasks and a seed to what is learnt from each task."""


@dataclass(frozen=True, eq=False)
class Quadratic:
    """Two Gaussians of the points."""

    gaussians: GaussianPair = field(metadata={"of": GaussianPair})

    def log_ratio(self, rows: Seen) -> Tensor:
        """Log-density of the one minus that of the other."""
        return self.gaussians.log_ratio(rows.narrow)


def quadratic(tasks: Sequence[Task], seed: int) -> list[Quadratic]:
    """Log-ratio of two Gaussians with shrunken covariances."""
    return [
        Quadratic(GaussianPair(*gaussian(task.rows.narrow[task.real]), *gaussian(task.rows.narrow[task.fake])))
        for task in tasks
    ]


@dataclass(frozen=True, eq=False)
class Radial:
    """Two mixtures of the log Mahalanobis radius.

    Attributes:
        mean: Mean of the points, shape (d,).
        root: Cholesky root of their covariance.
        scale: Mean and standard deviation of the log radius, by which it is standardised.
        real: Coefficients of the log-densities of the components in 1, r and r², weights included, shape (k, 3).
        fake: The same for the fakes.
    """

    mean: Tensor
    root: Tensor
    scale: Tensor
    real: Tensor
    fake: Tensor

    def log_ratio(self, rows: Seen) -> Tensor:
        """Log-density of the one mixture minus that of the other."""
        radius = rows.view("radius", partial(_log_radius, mean=self.mean, root=self.root))
        x = ((radius - self.scale[0]) / self.scale[1])[:, None]
        return log_densities(self.real, x).logsumexp(dim=1) - log_densities(self.fake, x).logsumexp(dim=1)


def radial(tasks: Sequence[Task], seed: int) -> list[Radial]:
    """Log-ratio of two densities of the log Mahalanobis radius, for elliptical distributions that differ in radius."""
    return [_radial(task, seed) for task in tasks]


def _radial(task: Task, seed: int) -> Radial:
    import torch

    mean, root = task.rows.once("ellipsoid", lambda rows: gaussian(rows.points[task.fit]))
    radius = task.rows.view("radius", partial(_log_radius, mean=mean, root=root))
    scale = torch.stack([radius[task.fit].mean(), radius[task.fit].std(correction=0) + 1e-9])
    x = ((radius - scale[0]) / scale[1])[:, None]
    real, fake = (_weighted(*fitted_mixture(x[side], RADII, seed)) for side in (task.real, task.fake))
    return Radial(mean, root, scale, real, fake)


def _log_radius(rows: Seen, mean: Tensor, root: Tensor) -> Tensor:
    """Log Mahalanobis radius of each row."""
    return (mahalanobis(mean, root, rows.points) + 1e-9).log()


def _weighted(log_weights: Tensor, coefficients: Tensor) -> Tensor:
    """The coefficients with the log-weight of each component added to its constant."""
    import torch

    return torch.cat([coefficients[:, :1] + log_weights[:, None], coefficients[:, 1:]], dim=1)


@dataclass(frozen=True, eq=False)
class ModeWeights:
    """Two mixtures with common components on the leading principal axes.

    Attributes:
        components: Coefficients of the log-densities of the components.
        real: Log-weight of each component in the mixture of the reals.
        fake: The same for the fakes.
    """

    components: Tensor
    real: Tensor
    fake: Tensor

    def log_ratio(self, rows: Seen) -> Tensor:
        """Log-density of the one mixture minus that of the other."""
        at = self.densities(rows, self.components)
        return (at + self.real).logsumexp(dim=1) - (at + self.fake).logsumexp(dim=1)

    @classmethod
    def axes(cls, rows: Seen) -> Tensor:
        """What the mixtures are fitted to."""
        return rows.leading

    @classmethod
    def densities(cls, rows: Seen, components: Tensor) -> Tensor:
        """Log-density of each component at each row."""
        return rows.view(cls.__name__, lambda whole: log_densities(components, cls.axes(whole)))

    @classmethod
    def found(cls, rows: Seen, fit: Tensor, seed: int) -> Tensor:
        """The components, fitted to the rows with the indices `fit` without their labels."""

        def components(whole: Seen) -> Tensor:
            x = cls.axes(whole)[fit]
            return fitted_mixture(x, MODES, seed, diagonal=True)[1] if x.shape[1] else x.new_zeros(1, 1).double()

        known: Tensor = rows.once(f"components of {cls.__name__}", components)
        return known

    @classmethod
    def fit(cls, task: Task, seed: int) -> ModeWeights:
        """The weights of both classes."""
        known = cls.found(task.rows, task.fit, seed)
        at = cls.densities(task.rows, known)
        return cls(known, *(mixture_weights(at[side]).log() for side in (task.real, task.fake)))


@dataclass(frozen=True, eq=False)
class IslandWeights(ModeWeights):
    """The same on the principal axes of the columns in their own units; 0 if there are none."""

    @classmethod
    def axes(cls, rows: Seen) -> Tensor:
        """What the mixtures are fitted to."""
        return rows.natural


def modes(tasks: Sequence[Task], seed: int) -> list[ModeWeights]:
    """Log-ratio of two mixtures that share their components, which are fitted to the union, but not their weights.

    `p/q = Σ_k π_k N_k / Σ_k ρ_k N_k` models dropped, invented and reweighted modes.
    """
    return [ModeWeights.fit(task, seed) for task in tasks]


def islands(tasks: Sequence[Task], seed: int) -> list[ModeWeights]:
    """The same as `modes`, on principal axes of the columns in their own units; 0 if these are alike."""
    return [IslandWeights.fit(task, seed) for task in tasks]


@dataclass(frozen=True, eq=False)
class Trees:
    """Boosted trees with numbered nodes; a leaf is its own child.

    Attributes:
        columns: The columns beside the principal axes.
        feature: Which feature each node compares, shape (trees, nodes).
        threshold: The largest value that goes to the left child.
        left: The left child.
        right: The right child.
        value: What a leaf adds to the log-ratio.
        depth: Number of comparisons down to the lowest leaf, shape ().
        offset: Log-ratio without any tree, shape ().
    """

    columns: Tensor
    feature: Tensor
    threshold: Tensor
    left: Tensor
    right: Tensor
    value: Tensor
    depth: Tensor
    offset: Tensor

    def log_ratio(self, rows: Seen) -> Tensor:
        """Sum of the leaves of each row."""
        import torch

        x = _axes_and_columns(rows, self.columns)
        tree = torch.arange(len(self.feature), device=x.device)
        node = torch.zeros(len(x), len(tree), dtype=torch.long, device=x.device)
        for _ in range(int(self.depth)):
            goes_left = x.gather(1, self.feature[tree, node]) <= self.threshold[tree, node]
            node = torch.where(goes_left, self.left[tree, node], self.right[tree, node])
        return self.value[tree, node].sum(dim=1) + self.offset


def _axes_and_columns(rows: Seen, columns: Tensor) -> Tensor:
    """`narrow`, and beside it single columns if it is a projection."""
    import torch

    narrow = rows.narrow.double()
    return torch.cat([narrow, rows.columns(columns).T.double()], dim=1) if len(columns) else narrow


def boosting(tasks: Sequence[Task], seed: int) -> list[Trees]:
    """Histogram-based gradient boosting with early stopping, on principal axes and single columns."""
    return side_by_side([partial(_boosting, task, seed) for task in tasks])


def _boosting(task: Task, seed: int) -> Trees:
    columns = task.columns[:NARROW] if task.rows.x.shape[1] > NARROW else task.columns[:0]
    model = _boosted_trees()(
        max_iter=60,
        learning_rate=0.15,
        max_leaf_nodes=15,
        max_bins=63,
        l2_regularization=1.0,
        early_stopping=True,
        random_state=seed,
    )
    model.fit(to_numpy(_axes_and_columns(task.rows.part(task.train), columns)), to_numpy(task.labels))
    trees: Trees = model.trees(columns, task.log_odds)
    return trees


@cache
def _boosted_trees() -> Any:
    """Gradient boosting of scikit-learn, with its trees as arrays."""
    import torch
    from sklearn.ensemble import HistGradientBoostingClassifier

    class BoostedTrees(HistGradientBoostingClassifier):  # type: ignore[misc]
        def _bin_data(self, *arguments: Any, **named: Any) -> Any:
            with BINNING:  # scikit-learn resets the filters of warnings meanwhile, which all threads share
                return super()._bin_data(*arguments, **named)

        def trees(self, columns: Tensor, log_odds: float) -> Trees:
            nodes = [one[0].nodes for one in self._predictors]
            table = np.zeros((len(nodes), max(map(len, nodes))), dtype=nodes[0].dtype)
            for row, one in zip(table, nodes, strict=True):
                row[: len(one)] = one
            leaf, itself = table["is_leaf"] > 0, np.broadcast_to(np.arange(table.shape[1]), table.shape)
            arrays = (
                table["feature_idx"].astype(np.int64),
                table["num_threshold"].astype(np.float64),
                np.where(leaf, itself, table["left"].astype(np.int64)),
                np.where(leaf, itself, table["right"].astype(np.int64)),
                np.where(leaf, table["value"], 0.0),
                np.asarray(table["depth"].max().astype(np.int64)),
                np.asarray(self._baseline_prediction.ravel()[0] - log_odds),
            )
            return Trees(columns, *(torch.as_tensor(np.array(one), device=columns.device) for one in arrays))

    return BoostedTrees


# ---------------------------------------------------------------------------- classifiers that are used alone


@dataclass(frozen=True, eq=False)
class Alone:
    """A fitted classifier that scores matrices, and what of the rows it scores."""

    score: Callable[[Matrix], Matrix]
    view: Callable[[Seen], Tensor]

    def log_ratio(self, rows: Seen) -> Tensor:
        """The scores of the rows."""
        import torch

        return torch.as_tensor(np.asarray(self.score(to_numpy(self.view(rows))), dtype=np.float64))


def alone(learn: Callable[[Matrix, Flags], Callable[[Matrix], Matrix]], view: Callable[[Seen], Tensor]) -> Member:
    """A member that learns a score from one view of the training rows and their labels."""

    def fit(task: Task) -> Alone:
        x = to_numpy(view(task.rows.part(task.train)))
        return Alone(learn(x, to_numpy(task.labels)), view)

    return lambda tasks, seed: side_by_side([partial(fit, task) for task in tasks])


def learn_neighbors(x: Matrix, labels: Flags) -> Callable[[Matrix], Matrix]:
    """`log((r + ½)/(k − r + ½))` with r the number of reals among the k ≈ 1.5 √n nearest training points.

    At most about `SEARCHED` training points are searched, evenly spread over both classes.
    """
    from sklearn.neighbors import NearestNeighbors

    log_odds, step = _log_odds(labels), -(-len(x) // SEARCHED)
    x, labels = x[::step], labels[::step]
    k = min(round(1.5 * len(x) ** 0.5), len(x))
    search = NearestNeighbors(n_neighbors=k).fit(x)

    def score(test: Matrix) -> Array:
        reals = labels[search.kneighbors(test, return_distance=False)].sum(axis=1)
        return np.asarray(np.log((reals + 0.5) / (k - reals + 0.5)) - log_odds)

    return score


def of_classifier(classifier: Any) -> Member:
    """A member from any scikit-learn classifier: its decision function, or the log-odds of its probabilities.

    It is trained on the features as they are.
    """
    from sklearn.base import clone

    def learn(x: Matrix, labels: Flags) -> Callable[[Matrix], Matrix]:
        model = clone(classifier).fit(x, labels)

        def score(test: Matrix) -> Matrix:
            if hasattr(model, "decision_function"):
                return np.asarray(model.decision_function(test))
            with np.errstate(divide="ignore"):
                fake, real = np.log(model.predict_proba(test)).T
            return np.asarray(real - fake - _log_odds(labels))

        return score

    return alone(learn, Seen.values)


def _log_odds(labels: Flags) -> float:
    return float(np.log(labels.sum()) - np.log((~labels).sum()))


@contextmanager
def convergence_not_required() -> Iterator[None]:
    """Silence the warnings of scikit-learn. Enter it before threads start: they share the filters of warnings."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield
