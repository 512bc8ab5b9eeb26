"""Guiding a diffusion model: away from its surplus at a slope λ, or along the slope of a density ratio.

At slope λ a model has the surplus (q − λp)₊. A copy of the model that is fine-tuned on draws of the surplus is a
negative guide: the model is extrapolated away from it when it samples (`surplus`, `Guided`; docs/theory.md, Away from
the surplus). `RatioGuided` is discriminator guidance (docs/theory.md, Towards the ratio).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from precall.improve.ratio import RatioWarning
from precall.improve.selection import JudgedSamples, judge, notes_on_samples
from precall.improve.targets import FEW, TargetRow, draw_rows, interval_at, places, positions
from precall.metrics.score import Interval, plain
from precall.progress import Progress
from precall.theory import checks
from precall.theory.arrays import Array, Index
from precall.theory.projection import surplus_share
from precall.theory.spectrum import RatioSpectrum


@dataclass(frozen=True, eq=False, repr=False)
class Surplus:
    """The draws of a model that are too many at a slope. It prints as two lines.

    Attributes:
        lam: the slope λ.
        indices: positions of the chosen draws in `fake`, increasing.
        probability: probability of each draw to be chosen, shape (n_fake,).
        rows: origin of each chosen draw, in a random order.
        spectrum: estimated spectrum of the model. Its surplus is 1 − α(λ).
        interval: interval of `spectrum.alpha(lam)`, or None if the estimator computes none.
        estimator: name of the classifiers that estimated the ratios.
        seed: seed of folds, classifiers and choice.
        notes: notes for the user, one sentence each; they are also issued as warnings.
        protocol: encoder and fingerprint of both sample sets, if samples were encoded.
    """

    lam: float
    indices: Index
    probability: Array
    rows: tuple[TargetRow, ...]
    spectrum: RatioSpectrum
    interval: Interval | None
    estimator: str
    seed: int
    notes: tuple[str, ...] = ()
    protocol: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        known = "" if self.interval is None else f" [{1 - self.interval.high:.3f}, {1 - self.interval.low:.3f}]"
        perfect = "" if self.lam >= 1 else f"; a perfect model has {1 - self.lam:.3g}"
        share = f"1 − α({self.lam:g}): {1 - self.spectrum.alpha(self.lam):.3f}{known}{perfect}"
        return f"surplus at λ = {self.lam:g}: {len(self):,} of {len(self.probability):,} draws\n{share}"

    def to_dict(self) -> dict[str, Any]:
        """The surplus as JSON-compatible values, with the origin of each row."""
        known = self.interval
        return {
            "lam": self.lam,
            "size": len(self),
            "alpha": self.spectrum.alpha(self.lam),
            "alpha_interval": None if known is None else [known.low, known.high],
            "estimator": self.estimator,
            "seed": self.seed,
            "notes": list(self.notes),
            "protocol": plain(self.protocol),
            "rows": [asdict(row) for row in self.rows],
        }


def surplus(
    *,
    real: Any,
    fake: Any,
    lam: float,
    estimator: str = "auto",
    encoder: Any = None,
    seed: int = 0,
    device: str | None = None,
    progress: Progress | None = None,
) -> Surplus:
    """Choose the draws of a model that are too many at the slope λ, on which to train a guide.

    A draw is chosen with probability `(1 − λ r)₊`, where r is its calibrated ratio p/q. Fine-tune a copy of the model
    on these draws, and sample with `Guided(model, copy, weight)`. With λ = 10 the surplus is what the model invents; on
    images, a weight of 2 was good. With λ = 0.1 it is nearly every draw, except where the model misses the data; the
    weight was 3.

    The choice depends on `real`. To assess the guided model, use real samples that were not used here.

    Args:
        real: the data, at least 50 samples in any form that `precall.assess` accepts.
        fake: draws of the model, at least 50 of them.
        lam: slope λ > 0.
        estimator: classifier that estimates the ratios: "auto", the stacked panel, or one of its members.
        encoder: encoder of samples that are not features, as in `precall.assess`.
        seed: seed of folds, classifiers and choice. The same seed gives the same draws.
        device: where encoders and perceptrons run: "cpu", "cuda", "mps" or "auto", as in `precall.assess`.
        progress: called with (stage, done, total).

    Returns:
        The surplus. Its notes are also issued as warnings (`RatioWarning`).

    Raises:
        ValueError: If no draw is too many at λ.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> real, fake = rng.normal(size=(400, 2)), rng.normal(size=(400, 2))
        >>> fake[:100] += 5  # a quarter is invented
        >>> found = surplus(real=real, fake=fake, lam=10, estimator="linear")
        >>> bool(np.mean(found.indices < 100) > 0.9), bool(90 < len(found) < 115)
        (True, True)

    References:
        docs/theory.md, Away from the surplus; Karras et al. (2024), on guiding a model by a worse version of itself.
    """
    checks.positive("lam", lam)
    judged = judge(
        real=real, fake=fake, estimator=estimator, encoder=encoder, seed=seed, device=device, progress=progress
    )
    return surplus_of(judged, lam=lam, seed=seed)


def surplus_of(judged: JudgedSamples, *, lam: float, seed: int = 0) -> Surplus:
    """The surplus of samples whose ratios are known. Several λ can share them. The arguments are those of `surplus`."""
    lam, result, rng = checks.positive("lam", lam), judged.result, np.random.default_rng(seed)
    share = surplus_share(result.log_ratio_fake, lam)
    if share.sum() < 1:
        raise ValueError(f"no draw is too many at λ = {lam:g}. Choose a smaller λ, or pass more samples.")
    chosen, probability = draw_rows(share, round(share.sum()), result.log_ratio_fake, rng)
    interval = interval_at(judged, lam, seed)
    notes = (*notes_on_samples(judged), *_notes(share, lam, interval))
    for note in notes:
        warnings.warn(note, RatioWarning, stacklevel=3)
    rows = [TargetRow("fake", *place) for place in places(judged.fake, chosen)]
    return Surplus(
        lam=lam,
        indices=positions(judged.fake, chosen),
        probability=probability,
        rows=tuple(rows[i] for i in rng.permutation(len(rows))),
        spectrum=result.spectrum,
        interval=interval,
        estimator=result.name,
        seed=seed,
        notes=notes,
        protocol={name: one.protocol for name, one in (("real", judged.real), ("fake", judged.fake)) if one.protocol},
    )


def _notes(share: Array, lam: float, interval: Interval | None) -> tuple[str, ...]:
    """A note if these samples show little at this slope."""
    way_out, found = "Pass more samples, use another encoder, or choose a smaller λ.", float(share.sum())
    if interval is not None and interval.high >= 1 - 1e-9:
        return (f"these samples cannot show whether any draw is too many at λ = {lam:g}. {way_out}",)
    if found < FEW:
        return (f"the guide rests on few draws: about {found:.0f} are too many at λ = {lam:g}. {way_out}",)
    return ()


class _Around(nn.Module):
    """A module in place of a network, whose other attributes are those of the network."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("network"), name)


class Guided(_Around):
    """A network extrapolated away from another: `D + (w − 1)(D − G)`.

    Both must predict the same quantity: the denoised sample, the noise or the velocity. With w = 1 it is D. A sample
    costs two evaluations per step. The best weight depends on the model: draw at several and compare them
    (`precall.improve.FunctionKnob`, `precall tradeoff`). In a pipeline of `diffusers`, it takes the place of `unet`:
    outputs may also be tuples or have a field `sample`, and all other attributes are those of D.

    Args:
        network: the model D.
        guide: the network G, with the same inputs and outputs.
        weight: w; 1 leaves the model as it is.

    Example:
        >>> import torch
        >>> main, guide = nn.Linear(1, 1), nn.Linear(1, 1)
        >>> x = torch.ones(2, 1)
        >>> torch.allclose(Guided(main, guide, 1.5)(x), 1.5 * main(x) - 0.5 * guide(x))
        True

    References:
        Karras et al. (2024); docs/theory.md, Away from the surplus.
    """

    def __init__(self, network: nn.Module, guide: nn.Module, weight: float) -> None:
        super().__init__(network)
        self.guide = guide
        self.weight = checks.positive("weight", weight)

    def forward(self, *inputs: Any, **options: Any) -> Any:
        return self._away(self.network(*inputs, **options), self.guide(*inputs, **options))

    def _away(self, main: Any, guide: Any) -> Any:
        if isinstance(main, tuple):
            return (self._away(main[0], guide[0]), *main[1:])
        if is_dataclass(main) and not isinstance(main, type):
            return replace(main, sample=self._away(main.sample, guide.sample))  # type: ignore[attr-defined]
        return main + (self.weight - 1) * (main - guide)


class RatioGuided(_Around):
    """A denoiser guided by the density ratio between the noised data and the noised model: `D + w σ² ∇ log r`.

    This is discriminator guidance. With the exact ratio p_σ/q_σ and w = 1, it is the denoiser of the data. The ratio
    may be learnt by classification (`ScoreMatching.ratio_loss` of `precall.tune`), which brings its values near, but
    not its slope. `ScoreMatching("kl", ratio).denoiser_loss(RatioGuided(denoiser, ratio), real=x)` trains the slope: up
    to a constant it bounds the KL divergence after guidance, and its gradients flow to the ratio alone. A sample costs
    about three evaluations per step instead of one. The weight is a knob (`precall.improve.FunctionKnob`).

    Args:
        network: the denoiser D, called as `network(x, sigma)`, with further inputs such as labels after them.
        log_ratio: `log_ratio(x, sigma)` returns log p_σ/q_σ of noisy samples, shape (n,), with a gradient.
        weight: w; 0 leaves the model as it is.

    Example:
        >>> import torch
        >>> class Normal(nn.Module):  # the denoiser of N(1, 1)
        ...     def forward(self, x, sigma):
        ...         return (x + sigma[:, None] ** 2) / (1 + sigma[:, None] ** 2)
        >>> def log_ratio(x, sigma):  # of N(0, 1) to N(1, 1), with noise σ
        ...     return (0.5 - x[:, 0]) / (1 + sigma**2)
        >>> x, sigma = torch.tensor([[3.0]]), torch.tensor([1.0])
        >>> RatioGuided(Normal(), log_ratio)(x, sigma)  # x/(1 + σ²), the denoiser of N(0, 1)
        tensor([[1.5000]])

    References:
        Kim et al. (2023), Discriminator guidance; Verine et al. (2025), Improving discriminator guidance;
        docs/theory.md, Towards the ratio.
    """

    def __init__(self, network: nn.Module, log_ratio: Callable[[Tensor, Tensor], Tensor], weight: float = 1.0) -> None:
        super().__init__(network)
        self.log_ratio = log_ratio
        self.weight = float(checks.nonnegative("weight", weight))

    def forward(self, x: Tensor, sigma: Tensor, *others: Any) -> Tensor:
        with torch.no_grad():
            main: Tensor = self.network(x, sigma, *others)
        squared = sigma.square().reshape(-1, *[1] * (x.ndim - 1))
        return main + self.weight * squared * self._slope(x, sigma)

    def _slope(self, x: Tensor, sigma: Tensor) -> Tensor:
        """`∇_x log r(x; σ)`."""
        learning = torch.is_grad_enabled()
        with torch.inference_mode(False), torch.enable_grad():
            at = x.detach().clone().requires_grad_(True)  # tensors of the inference mode have no gradient
            (slope,) = torch.autograd.grad(self.log_ratio(at, sigma.clone()).sum(), at, create_graph=learning)
        return slope
