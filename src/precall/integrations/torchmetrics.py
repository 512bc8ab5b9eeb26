"""Scores and the curve as torchmetrics: batches come in, processes are synchronised, `compute` gives tensors.

Real and fake features are fed apart, in any order, by `update(features, real=True)` or `real=False`; `compute` returns
a dict of tensors by the names that `precall.assess` uses. Like all of torchmetrics they work in a loop of one's own, in
a `MetricCollection`, in Lightning, and over several processes, some of which may have seen nothing.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from precall.metrics.assessment import assess
from precall.metrics.features import as_features
from precall.metrics.frechet_distance import fid
from precall.metrics.kernel_distance import kid
from precall.metrics.moments import Moments
from precall.metrics.neighbors.sweep import sweep
from precall.metrics.registry import ESTIMATORS
from precall.theory import checks
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

__all__ = ["FrechetDistance", "KernelDistance", "NearestNeighborScores", "PRCurve"]

Tensors = dict[str, Tensor]


class _TwoSets(Metric):
    """Real and fake features, all kept, in the metric's dtype: float32 unless `set_dtype` says otherwise.

    The states are flat: a process that has seen no samples of a side gathers with those that have.
    """

    is_differentiable = False
    higher_is_better = None
    full_state_update = False

    real: list[Tensor] | Tensor
    fake: list[Tensor] | Tensor
    dimension: Tensor

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_state("real", default=[], dist_reduce_fx="cat")
        self.add_state("fake", default=[], dist_reduce_fx="cat")
        self.add_state("dimension", default=torch.tensor(0), dist_reduce_fx="max")

    def update(self, features: Any, real: bool) -> None:
        """Add a batch of features, shape (n, d), to the real or to the fake side."""
        batch = _batch(features)
        if int(self.dimension) not in (0, batch.shape[1]):
            raise ValueError(f"`features` must have dimension {int(self.dimension)} as before; got {batch.shape[1]}.")
        self.dimension = torch.full_like(self.dimension, batch.shape[1])
        flat = batch.to(self.device, self.dtype).flatten()
        kept = self.real if real else self.fake
        assert isinstance(kept, list)
        kept.append(flat)

    def _sides(self) -> dict[str, Any]:
        """`real` and `fake` as matrices."""
        return {side: self._rows(side) for side in ("real", "fake")}

    def _rows(self, side: str) -> Tensor:
        flat = getattr(self, side)
        flat = dim_zero_cat(flat) if len(flat) else torch.empty(0, device=self.device)
        if not flat.numel():
            raise ValueError(f"no {side} samples so far: call `update(features, real={side == 'real'})` first.")
        return flat.reshape(-1, int(self.dimension))

    def _tensors(self, values: dict[str, Any]) -> Tensors:
        return {name: torch.as_tensor(value, dtype=self.dtype, device=self.device) for name, value in values.items()}


class NearestNeighborScores(_TwoSets):
    """Improved precision and recall, density and coverage, from one sweep over the pairs.

    Args:
        k: Neighbours that define a ball.
        ties: "closed" (d ≤ radius is inside) or "open" (d < radius).
        **options: What every torchmetrics `Metric` takes (`sync_on_compute`, `process_group`, …).

    Example:
        >>> metric = NearestNeighborScores(k=1)
        >>> metric.update(torch.tensor([[0.0], [1.0], [3.0]]), real=True)
        >>> metric.update(torch.tensor([[0.5], [9.0]]), real=False)
        >>> {name: float(value) for name, value in metric.compute().items() if name != "coverage"}
        {'precision': 0.5, 'recall': 1.0, 'density': 1.0}

    References:
        Kynkäänniemi et al. (2019); Naeem et al. (2020); docs/theory.md, Neighbours.
    """

    def __init__(self, *, k: int = 5, ties: str = "closed", **options: Any) -> None:
        super().__init__(**options)
        self.k, self.ties = checks.count("k", k), checks.choice("ties", ties, ("closed", "open"))

    def compute(self) -> Tensors:
        """`precision`, `recall`, `density` and `coverage` of all samples so far."""
        found = sweep(**self._sides(), k=self.k, ties=self.ties)
        names = ("precision", "recall", "density", "coverage")
        return self._tensors({name: getattr(found, name)() for name in names})


class KernelDistance(_TwoSets):
    """Kernel distance (KID): the unbiased squared MMD over all pairs; see `precall.metrics.moments.kid`.

    Args:
        degree: Degree of the polynomial kernel.
        **options: What every torchmetrics `Metric` takes.

    Example:
        >>> metric = KernelDistance()
        >>> metric.update(torch.eye(3), real=True)
        >>> metric.update(2 * torch.eye(3), real=False)
        >>> round(float(metric.compute()["kid"]), 4)
        -2.4198

    References:
        Bińkowski et al. (2018); docs/theory.md, Moments.
    """

    def __init__(self, *, degree: int = 3, **options: Any) -> None:
        super().__init__(**options)
        self.degree = checks.count("degree", degree)

    def compute(self) -> Tensors:
        """`kid` of all samples so far."""
        return self._tensors({"kid": kid(**self._sides(), degree=self.degree).value})


class PRCurve(_TwoSets):
    """The precision-recall curve by one of `precall.assess`'s estimators.

    Clusters and classifiers are seeded and depend on the order of the samples as any k-means or cross-fit does: several
    processes give the curve of their samples one process after the other.

    Args:
        estimator: "clusters", "auto" or another curve estimator of `precall.assess`.
        points: Points of the curve, on equal angles.
        seed: Seed of everything random.
        **options: What every torchmetrics `Metric` takes.

    Example:
        >>> metric = PRCurve(points=3)
        >>> metric.update(torch.linspace(0, 1, 100)[:, None], real=True)
        >>> metric.update(torch.linspace(0, 0.5, 100)[:, None], real=False)
        >>> curve = metric.compute()
        >>> bool(curve["f1_8"] > 0.9 > 0.6 > curve["f8"])
        True
        >>> metric.spectrum().max_recall < 0.7
        True

    References:
        Sajjadi et al. (2018); docs/theory.md, The curve.
    """

    def __init__(self, *, estimator: str = "clusters", points: int = 201, seed: int = 0, **options: Any) -> None:
        super().__init__(**options)
        self.estimator = checks.choice("estimator", estimator, ESTIMATORS)
        self.points, self.seed = checks.count("points", points), seed

    def spectrum(self) -> RatioSpectrum:
        """The spectrum of all samples so far, over all processes: every reading of the curve is a method of it."""
        with self.sync_context(should_sync=self._to_sync, should_unsync=self._should_unsync):
            return self._spectrum()

    def compute(self) -> Tensors:
        """`lam`, `alpha` (precision) and `beta` (recall) along the curve, and `area`, `f8`, `f1_8`, `tv`."""
        spectrum = self._spectrum()
        curve = spectrum.curve(self.points)
        scores = {"area": spectrum.area, "f8": spectrum.f_score(8), "f1_8": spectrum.f_score(1 / 8)}
        line = {"lam": curve.lam, "alpha": curve.alpha, "beta": curve.beta}
        return self._tensors(line | scores | {"tv": spectrum.total_variation})

    def _spectrum(self) -> RatioSpectrum:
        found: RatioSpectrum = assess(**self._sides(), metrics=(self.estimator,), seed=self.seed).spectrum
        return found


class FrechetDistance(Metric):
    """Fréchet distance (FID) from sums: no features are kept, processes and shards merge by addition.

        n, Σ x, Σ x xᵀ of either side, in float64

    The scatter is Σ x xᵀ − n m mᵀ, which costs the digits of |m|²/variance: 8 of 16 for a mean 10 000 deviations away.

    Args:
        dimension: Dimension d of the features.
        **options: What every torchmetrics `Metric` takes.

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

    def __init__(self, *, dimension: int, **options: Any) -> None:
        super().__init__(**options)
        self.dimension = checks.count("dimension", dimension)
        zeros = partial(torch.zeros, dtype=torch.float64)
        for side in ("real", "fake"):
            self.add_state(f"{side}_n", default=torch.tensor(0), dist_reduce_fx="sum")
            self.add_state(f"{side}_sum", default=zeros(dimension), dist_reduce_fx="sum")
            self.add_state(f"{side}_products", default=zeros(dimension, dimension), dist_reduce_fx="sum")

    def update(self, features: Any, real: bool) -> None:
        """Add a batch of features, shape (n, d), to the real or to the fake side."""
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
                f"{n} {side} samples so far, at least 2 are needed: call `update(features, real=…)` first."
            )
        mean = getattr(self, f"{side}_sum") / n
        scatter = getattr(self, f"{side}_products") - n * torch.outer(mean, mean)
        return Moments(n, mean.cpu().numpy(), scatter.cpu().numpy())


def _batch(features: Any) -> Tensor:
    """`features` as a finite matrix of at least one row."""
    return torch.as_tensor(as_features("features", features, at_least=1))
