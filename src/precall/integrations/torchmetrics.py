"""Scores and the precision-recall curve as torchmetrics metrics.

Pass real and fake features separately and in any order, by `update(features, real=True)` and
`update(features, real=False)`. `compute` returns a dict of tensors whose keys are the score names of `precall.assess`.
Like all torchmetrics metrics, they work in an evaluation loop, in a `MetricCollection`, in Lightning and with several
processes, some of which may not have received any samples.

With several processes, `FrechetDistance` and `ReferenceScores` exchange sums: no process ever holds the samples of
another one. The other classes concatenate the features of all processes when they compute, since they need distances
between samples of different processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from precall.metrics.assessing.assessment import Reference, assess
from precall.metrics.assessing.registry import ESTIMATORS
from precall.metrics.distances.frechet_distance import fid
from precall.metrics.distances.kernel_distance import kid
from precall.metrics.distances.moments import Moments
from precall.metrics.inputs.features import as_features
from precall.metrics.neighbors.ball_scores import ball_rate, cover_share, cover_threshold, member_share
from precall.metrics.neighbors.influence import BallTotals
from precall.metrics.neighbors.successors import clipped_values
from precall.metrics.neighbors.sweep import sweep
from precall.theory import checks
from precall.theory.chance import chance_corrected, expected_coverage
from precall.theory.spectrum import RatioSpectrum

try:
    import torch
    from torch import Tensor
    from torchmetrics import Metric
    from torchmetrics.utilities import dim_zero_cat
except ImportError:
    raise ImportError(
        "precall.integrations.torchmetrics needs torchmetrics: pip install 'precall[torchmetrics]'."
    ) from None

__all__ = ["FrechetDistance", "KernelDistance", "NearestNeighborScores", "PRCurve", "ReferenceScores"]

Tensors = dict[str, Tensor]


class MetricOptions(TypedDict, total=False):
    """The keyword arguments of every torchmetrics `Metric`."""

    compute_on_cpu: bool
    dist_sync_on_step: bool
    process_group: object
    dist_sync_fn: Callable[..., list[Tensor]] | None
    distributed_available_fn: Callable[[], bool] | None
    sync_on_compute: bool
    compute_with_cache: bool


class _Sides(TypedDict):
    """The features of both sides as matrices of shape (n, d)."""

    real: Tensor
    fake: Tensor


class _TwoSets(Metric):
    """Stores all real and fake features in the metric's dtype: float32, unless changed by `set_dtype`.

    The states are flat, so that a process without samples of one side can still be synchronised with the others.
    """

    is_differentiable = False
    higher_is_better = None
    full_state_update = False

    real: list[Tensor] | Tensor
    fake: list[Tensor] | Tensor
    dimension: Tensor

    def __init__(self, **options: Unpack[MetricOptions]) -> None:
        super().__init__(**options)
        self.add_state("real", default=[], dist_reduce_fx="cat")
        self.add_state("fake", default=[], dist_reduce_fx="cat")
        self.add_state("dimension", default=torch.tensor(0), dist_reduce_fx="max")

    def update(self, features: Tensor | npt.ArrayLike, real: bool) -> None:
        """Add a batch of features, shape (n, d), to the real or the fake samples."""
        batch = _batch(features)
        if int(self.dimension) not in (0, batch.shape[1]):
            raise ValueError(f"`features` must have dimension {int(self.dimension)}, as before; got {batch.shape[1]}.")
        self.dimension = torch.full_like(self.dimension, batch.shape[1])
        flat = batch.to(self.device, self.dtype).flatten()
        kept = self.real if real else self.fake
        assert isinstance(kept, list)
        kept.append(flat)

    def _sides(self) -> _Sides:
        return {"real": self._rows("real"), "fake": self._rows("fake")}

    def _rows(self, side: str) -> Tensor:
        flat = getattr(self, side)
        flat = dim_zero_cat(flat) if len(flat) else torch.empty(0, device=self.device)
        if not flat.numel():
            raise ValueError(f"no {side} samples so far. Call `update(features, real={side == 'real'})` first.")
        return flat.reshape(-1, int(self.dimension))

    def _tensors(self, values: Mapping[str, npt.ArrayLike]) -> Tensors:
        return {name: torch.as_tensor(value, dtype=self.dtype, device=self.device) for name, value in values.items()}


class NearestNeighborScores(_TwoSets):
    """Improved precision and recall, density and coverage, computed in one pass over all pairs.

    Recall needs the distances between fakes, so with several processes the features of all of them are concatenated.
    `ReferenceScores` has the other three scores without that.

    Args:
        k: Number of neighbours that defines the radius of a ball.
        ties: "closed" (a sample is inside a ball if d ≤ radius) or "open" (if d < radius).
        **options: Keyword arguments of every torchmetrics `Metric` (`sync_on_compute`, `process_group`, …).

    Example:
        >>> metric = NearestNeighborScores(k=1)
        >>> metric.update(torch.tensor([[0.0], [1.0], [3.0]]), real=True)
        >>> metric.update(torch.tensor([[0.5], [9.0]]), real=False)
        >>> {name: float(value) for name, value in metric.compute().items() if name != "coverage"}
        {'precision': 0.5, 'recall': 1.0, 'density': 1.0}

    References:
        Kynkäänniemi et al. (2019); Naeem et al. (2020); docs/theory.md, Neighbours.
    """

    def __init__(self, *, k: int = 5, ties: str = "closed", **options: Unpack[MetricOptions]) -> None:
        super().__init__(**options)
        self.k, self.ties = checks.count("k", k), checks.choice("ties", ties, ("closed", "open"))

    def compute(self) -> Tensors:
        """`precision`, `recall`, `density` and `coverage` of all samples so far."""
        found = sweep(**self._sides(), k=self.k, ties=self.ties)
        names = ("precision", "recall", "density", "coverage")
        return self._tensors({name: getattr(found, name)() for name in names})


class KernelDistance(_TwoSets):
    """Kernel distance (KID): the unbiased estimate of the squared MMD over all pairs; see `kid` in `precall.metrics`.

    Args:
        degree: Degree of the polynomial kernel.
        **options: Keyword arguments of every torchmetrics `Metric`.

    Example:
        >>> metric = KernelDistance()
        >>> metric.update(torch.eye(3), real=True)
        >>> metric.update(2 * torch.eye(3), real=False)
        >>> round(float(metric.compute()["kid"]), 4)
        -2.4198

    References:
        Bińkowski et al. (2018); docs/theory.md, Moments.
    """

    def __init__(self, *, degree: int = 3, **options: Unpack[MetricOptions]) -> None:
        super().__init__(**options)
        self.degree = checks.count("degree", degree)

    def compute(self) -> Tensors:
        """`kid` of all samples so far."""
        return self._tensors({"kid": kid(**self._sides(), degree=self.degree).value})


class PRCurve(_TwoSets):
    """The precision-recall curve, computed by one of the estimators of `precall.assess`.

    Clusters and classifiers are seeded, and like any k-means or cross-fitting they depend on the order of the samples.
    With several processes, the samples are concatenated in the order of the processes.

    Args:
        estimator: "clusters", "auto" or another curve estimator of `precall.assess`.
        points: Number of points of the curve, at equal angles.
        seed: Random seed.
        **options: Keyword arguments of every torchmetrics `Metric`.

    Example:
        >>> metric = PRCurve(points=3)
        >>> metric.update(torch.linspace(0, 1, 100)[:, None], real=True)
        >>> metric.update(torch.linspace(0, 0.5, 100)[:, None], real=False)
        >>> curve = metric.compute()
        >>> bool(curve["f1_8"] > 0.9 > 0.6 > curve["f8"])
        True
        >>> metric.spectrum().beta(0.1) < 0.7
        True

    References:
        Sajjadi et al. (2018); docs/theory.md, The curve.
    """

    def __init__(
        self, *, estimator: str = "clusters", points: int = 201, seed: int = 0, **options: Unpack[MetricOptions]
    ) -> None:
        super().__init__(**options)
        self.estimator = checks.choice("estimator", estimator, ESTIMATORS)
        self.points, self.seed = checks.count("points", points), seed

    def spectrum(self) -> RatioSpectrum:
        """The ratio spectrum of all samples so far, over all processes. Its methods give every reading of the curve."""
        with self.sync_context(should_sync=self._to_sync, should_unsync=self._should_unsync):
            return self._spectrum()

    def compute(self) -> Tensors:
        """`lam`, `alpha` (precision) and `beta` (recall) along the curve, and `area`, `f8`, `f1_8` and `tv`."""
        spectrum = self._spectrum()
        curve = spectrum.curve(self.points)
        scores = {"area": spectrum.area, "f8": spectrum.f_score(8), "f1_8": spectrum.f_score(1 / 8)}
        line = {"lam": curve.lam, "alpha": curve.alpha, "beta": curve.beta}
        return self._tensors(line | scores | {"tv": spectrum.total_variation})

    def _spectrum(self) -> RatioSpectrum:
        found: RatioSpectrum = assess(**self._sides(), metrics=(self.estimator,), seed=self.seed).spectrum
        return found


class FrechetDistance(Metric):
    """Fréchet distance (FID) from sums. No features are stored, and processes are merged by addition.

        n, Σ x, Σ x xᵀ of the real and of the fake samples, in float64

    The scatter matrix is Σ x xᵀ − n m mᵀ. This difference loses about log₁₀(|m|²/variance) of the 16 digits, for
    example 8 digits if the mean is 10 000 standard deviations from zero.

    Args:
        dimension: Dimension d of the features.
        **options: Keyword arguments of every torchmetrics `Metric`.

    Example:
        >>> metric = FrechetDistance(dimension=1)
        >>> metric.update(torch.tensor([[0.0], [2.0]]), real=True)
        >>> metric.update(torch.tensor([[3.0], [5.0]]), real=False)
        >>> metric.compute()
        {'fid': tensor(9.)}

    References:
        Heusel et al. (2017); docs/theory.md, Moments.
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False

    def __init__(self, *, dimension: int, **options: Unpack[MetricOptions]) -> None:
        super().__init__(**options)
        self.dimension = checks.count("dimension", dimension)
        zeros = partial(torch.zeros, dtype=torch.float64)
        for side in ("real", "fake"):
            self.add_state(f"{side}_n", default=torch.tensor(0), dist_reduce_fx="sum")
            self.add_state(f"{side}_sum", default=zeros(dimension), dist_reduce_fx="sum")
            self.add_state(f"{side}_products", default=zeros(dimension, dimension), dist_reduce_fx="sum")

    def update(self, features: Tensor | npt.ArrayLike, real: bool) -> None:
        """Add a batch of features, shape (n, d), to the real or the fake samples."""
        batch = _batch(features).to(self.device, torch.float64)
        if batch.shape[1] != self.dimension:
            raise ValueError(f"`features` must have dimension {self.dimension}; got {batch.shape[1]}.")
        side = "real" if real else "fake"
        for state, added in (("n", len(batch)), ("sum", batch.sum(0)), ("products", batch.T @ batch)):
            setattr(self, f"{side}_{state}", getattr(self, f"{side}_{state}") + added)

    def compute(self) -> Tensors:
        """`fid` of all samples so far."""
        value = fid(real=self._moments("real"), fake=self._moments("fake")).value
        return {"fid": torch.as_tensor(value, dtype=self.dtype, device=self.device)}

    def _moments(self, side: str) -> Moments:
        n = int(getattr(self, f"{side}_n"))
        if n < 2:
            raise ValueError(
                f"at least 2 {side} samples are needed; got {n} so far. Call `update(features, real=…)` first."
            )
        mean = getattr(self, f"{side}_sum") / n
        scatter = getattr(self, f"{side}_products") - n * torch.outer(mean, mean)
        return Moments(n, mean.cpu().numpy(), scatter.cpu().numpy())


class ReferenceScores(Metric):
    """Scores of fakes against fixed data, from sums. No features are stored, and processes are merged by addition.

    Precision, density, coverage, recall cover, the clipped scores, copies and FID. Each process sketches its own
    batches (`Reference.sketch`), and only sums travel. The values are those of all batches in one place. Recall needs
    distances between fakes and is not among them; use `NearestNeighborScores`, and `PRCurve` for the curve.

    Args:
        reference: The data: a `Reference`, or features of shape (n, d).
        **options: Keyword arguments of every torchmetrics `Metric`.

    Example:
        >>> metric = ReferenceScores(reference=torch.tensor([[0.0], [1.0], [3.0], [4.0], [6.0], [7.0]]))
        >>> metric.update(torch.tensor([[0.5], [19.0]]))
        >>> float(metric.compute()["precision"])
        0.5

    References:
        docs/theory.md, Neighbours.
    """

    is_differentiable = False
    higher_is_better = None
    full_state_update = False

    def __init__(self, *, reference: object, **options: Unpack[MetricOptions]) -> None:
        super().__init__(**options)
        self.reference = reference if isinstance(reference, Reference) else Reference.fit(reference)
        n, d = self.reference.features.shape
        self._mean = Moments.of_matrix(self.reference.features).mean
        counts = {"inside": (n, 3), "histogram": (n + 1,), "clipped_inside": (n, 3), "clipped_histogram": (n + 1,)}
        counts |= {"copies": ()}
        for name, shape in counts.items():
            self.add_state(name, default=torch.zeros(shape, dtype=torch.int64), dist_reduce_fx="sum")
        for name, shape in {"sums": (d,), "products": (d, d)}.items():
            self.add_state(name, default=torch.zeros(shape, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, features: Tensor | npt.ArrayLike, real: bool = False) -> None:
        """Add a batch of features of fakes, shape (m, d). The data are fixed, so `real` must be False."""
        if real:
            raise ValueError("`real` must be False: the data are fixed. Pass them as `reference`.")
        found = self.reference.sketch(_batch(features))
        shift = found.moments.mean - self._mean
        self._add("sums", found.n * shift)
        self._add("products", found.moments.scatter + found.n * np.outer(shift, shift))
        self._add("copies", np.array(found.counts.copies.copies))
        for prefix, balls in (("", found.counts.balls), ("clipped_", found.counts.clipped)):
            self._add(f"{prefix}inside", balls.inside)
            padding = len(self.reference.features) + 1 - len(balls.histogram)
            self._add(f"{prefix}histogram", np.pad(balls.histogram, (0, padding)))

    def compute(self) -> Tensors:
        """The scores of all fakes so far."""
        m = int(self._array("histogram").sum())
        if m < 2:
            raise ValueError(f"at least 2 fakes are needed; got {m} so far. Call `update(features)` first.")
        values = self._one_way() | {"copies": int(self._array("copies")) / m, "fid": self._fid(m)}
        return {name: torch.as_tensor(value, dtype=self.dtype, device=self.device) for name, value in values.items()}

    def _one_way(self) -> dict[str, float]:
        frozen, unused = self.reference.frozen, np.zeros(0, dtype=np.int64)  # only intervals need it
        balls, clipped = (
            BallTotals(
                self._array(f"{prefix}inside"),
                self._array(f"{prefix}histogram"),
                *(unused, unused, frozen.k, frozen.neighbors, unused),
            )
            for prefix in ("", "clipped_")
        )
        coverage, sizes = cover_share(balls, 1), {"n_real": frozen.n, "n_fake": balls.points}
        return {
            "precision": member_share(balls),
            "density": ball_rate(balls),
            "coverage": coverage,
            "corrected_coverage": chance_corrected(coverage, expected_coverage(**sizes, k=frozen.k)),
            "recall_cover": cover_share(balls, cover_threshold(frozen.k)),
            **clipped_values(balls, clipped, frozen.ideal),
        }

    def _fid(self, m: int) -> float:
        shift = self._array("sums") / m
        moments = Moments(m, self._mean + shift, self._array("products") - m * np.outer(shift, shift))
        return fid(real=self.reference.frozen.moments, fake=moments).value

    def _add(self, name: str, values: npt.NDArray[np.generic]) -> None:
        state: Tensor = getattr(self, name)
        setattr(self, name, state + torch.as_tensor(values, device=state.device))

    def _array(self, name: str) -> npt.NDArray[Any]:
        return np.asarray(getattr(self, name).cpu().numpy())


def _batch(features: Tensor | npt.ArrayLike) -> Tensor:
    """Check that `features` is a finite matrix with at least one row, and return it as a tensor."""
    return torch.as_tensor(as_features("features", features, at_least=1))
