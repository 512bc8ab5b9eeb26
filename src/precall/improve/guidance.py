"""Guiding a diffusion model: away from its surplus at a slope λ, or along the slope of a density ratio.

At slope λ a model has the surplus (q − λp)₊. A copy of the model that is fine-tuned on draws of the surplus is a
negative guide: the model is extrapolated away from it when it samples (`targets.surplus` chooses the draws, `Guided`
extrapolates; docs/theory.md, Away from the surplus). `RatioGuided` is discriminator guidance (docs/theory.md, Towards
the ratio).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from precall.theory import checks


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
    may be learnt by classification, which brings its values near, but not its slope. Training the denoising error of
    `RatioGuided(denoiser, ratio)` on data trains the slope: up to a constant it bounds the KL divergence after
    guidance, and its gradients flow to the ratio alone (experiments/common/score_matching.py has both losses). A sample
    costs about three evaluations per step instead of one. The weight is a knob (`precall.improve.FunctionKnob`).

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
