"""Scores and the precision-recall curve as torchmetrics metrics.

Pass real and fake features separately and in any order, by `update(features, real=True)` and
`update(features, real=False)`. `compute` returns a dict of tensors whose keys are the score names of `precall.assess`.
With several processes, some of which may not have received any samples, `FrechetDistance` and `ReferenceScores`
exchange sums; the others concatenate the features, since they need distances between samples of different processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from precall.metrics.assessing.assessment import Reference, assess
from precall.metrics.assessing.registry import ESTIMATORS
from precall.metrics.distances.frechet_distance import fid
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
    needs = "precall.integrations.torchmetrics needs torchmetrics: pip install 'precall[torchmetrics]'."
    raise ImportError(needs) from None

__all__ = ["FrechetDistance", "NearestNeighborScores", "PRCurve", "ReferenceScores"]

Tensors = dict[str, Tensor]


class _Scores(Metric):
    is_differentiable = False
    higher_is_better: bool | None = None
    full_state_update = False

    def _tensors(self, values: Mapping[str, npt.ArrayLike]) -> Tensors:
        return {name: torch.as_tensor(value, dtype=self.dtype, device=self.device) for name, value in values.items()}


class _TwoSets(_Scores):
    """Stores all real and fake features in the metric's dtype: float32, unless changed by `set_dtype`.

    The states are flat, so that a process without samples of one side can still be synchronised with the others.
    """

    real: list[Tensor] | Tensor
    fake: list[Tensor] | Tensor
    dimension: Tensor

    def __init__(self, **options: Any) -> None:
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

    def _sides(self) -> dict[str, Any]:
        found = {}
        for side, flat in (("real", self.real), ("fake", self.fake)):
            joined = dim_zero_cat(flat) if len(flat) else torch.empty(0, device=self.device)
            if not joined.numel():
                raise ValueError(f"no {side} samples so far. Call `update(features, real={side == 'real'})` first.")
            found[side] = joined.reshape(-1, int(self.dimension))
        return found


class NearestNeighborScores(_TwoSets):
    """Improved precision and recall, density and coverage, computed in one pass over all pairs.

    Recall needs the distances between fakes, so with several processes the features of all of them are concatenated.
    `ReferenceScores` has the other three scores without that. A sample is inside a ball, whose radius is the distance
    to the k-th neighbour, if d ≤ radius (`ties="closed"`) or d < radius ("open").

    Example:
        >>> metric = NearestNeighborScores(k=1)
        >>> metric.update(torch.tensor([[0.0], [1.0], [3.0]]), real=True)
        >>> metric.update(torch.tensor([[0.5], [9.0]]), real=False)
        >>> {name: float(value) for name, value in metric.compute().items() if name != "coverage"}
        {'precision': 0.5, 'recall': 1.0, 'density': 1.0}
    """

    def __init__(self, *, k: int = 5, ties: str = "closed", **options: Any) -> None:
        super().__init__(**options)
        self.k, self.ties = checks.count("k", k), checks.choice("ties", ties, ("closed", "open"))

    def compute(self) -> Tensors:
        """`precision`, `recall`, `density` and `coverage` of all samples so far."""
        sides = self._sides()
        found = sweep(real=sides["real"], fake=sides["fake"], k=self.k, ties=self.ties)
        names = ("precision", "recall", "density", "coverage")
        return self._tensors({name: getattr(found, name)() for name in names})


class PRCurve(_TwoSets):
    """The precision-recall curve, computed by one of the estimators of `precall.assess`.

    Clusters and classifiers are seeded, and like any k-means or cross-fitting they depend on the order of the samples.
    With several processes, the samples are concatenated in the order of the processes. The curve has `points` points at
    equal angles.
    """

    def __init__(self, *, estimator: str = "clusters", points: int = 201, seed: int = 0, **options: Any) -> None:
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
        sides = self._sides()
        found = assess(real=sides["real"], fake=sides["fake"], metrics=(self.estimator,), seed=self.seed)
        spectrum: RatioSpectrum = found.spectrum
        return spectrum


class FrechetDistance(_Scores):
    """Fréchet distance (FID) from sums. No features are stored, and processes are merged by addition.

        n, Σ x, Σ x xᵀ of the real and of the fake samples, in float64

    The scatter matrix is Σ x xᵀ − n m mᵀ. This difference loses about log₁₀(|m|²/variance) of the 16 digits, for
    example 8 digits if the mean is 10 000 standard deviations from zero.
    """

    higher_is_better = False

    def __init__(self, *, dimension: int, **options: Any) -> None:
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
        return self._tensors({"fid": fid(real=self._moments("real"), fake=self._moments("fake")).value})

    def _moments(self, side: str) -> Moments:
        n = int(getattr(self, f"{side}_n"))
        if n < 2:
            way_out = "Call `update(features, real=…)` first."
            raise ValueError(f"at least 2 {side} samples are needed; got {n} so far. {way_out}")
        mean = getattr(self, f"{side}_sum") / n
        scatter = getattr(self, f"{side}_products") - n * torch.outer(mean, mean)
        return Moments(n, mean.cpu().numpy(), scatter.cpu().numpy())


class ReferenceScores(_Scores):
    """Scores of fakes against fixed data, from sums. No features are stored, and processes are merged by addition.

    Precision, density, coverage, recall cover, the clipped scores, copies and FID. Each process sketches its own
    batches (`Reference.sketch`), and only sums travel. The values are those of all batches in one place. Recall needs
    distances between fakes and is not among them; use `NearestNeighborScores`, and `PRCurve` for the curve.

    Args:
        reference: The data: a `Reference`, or features of shape (n, d).
        **options: Keyword arguments of every torchmetrics `Metric`.
    """

    def __init__(self, *, reference: object, **options: Any) -> None:
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
        shift = self._array("sums") / m
        moments = Moments(m, self._mean + shift, self._array("products") - m * np.outer(shift, shift))
        distance = fid(real=self.reference.frozen.moments, fake=moments).value
        return self._tensors(self._one_way() | {"copies": int(self._array("copies")) / m, "fid": distance})

    def _one_way(self) -> dict[str, float]:
        frozen, unused = self.reference.frozen, np.zeros(0, dtype=np.int64)  # only intervals need it
        rest: dict[str, Any] = {"k": frozen.k, "neighbors": frozen.neighbors, "nearest": unused}
        counts = [(self._array(f"{of}inside"), self._array(f"{of}histogram")) for of in ("", "clipped_")]
        balls, clipped = (BallTotals(*own, unused, unused, **rest) for own in counts)
        coverage, sizes = cover_share(balls, 1), {"n_real": frozen.n, "n_fake": balls.points}
        found = {"precision": member_share(balls), "density": ball_rate(balls), "coverage": coverage}
        found["corrected_coverage"] = chance_corrected(coverage, expected_coverage(**sizes, k=frozen.k))
        found["recall_cover"] = cover_share(balls, cover_threshold(frozen.k))
        return found | clipped_values(balls, clipped, frozen.ideal)

    def _add(self, name: str, values: npt.NDArray[np.generic]) -> None:
        state: Tensor = getattr(self, name)
        setattr(self, name, state + torch.as_tensor(values, device=state.device))

    def _array(self, name: str) -> npt.NDArray[Any]:
        return np.asarray(getattr(self, name).cpu().numpy())


def _batch(features: Tensor | npt.ArrayLike) -> Tensor:
    """Check that `features` is a finite matrix with at least one row, and return it as a tensor."""
    return torch.as_tensor(as_features("features", features, at_least=1))
