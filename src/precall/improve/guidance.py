"""Guiding a diffusion model: away from its surplus at a slope λ, or along the slope of a density ratio.

`targets.surplus` chooses the draws of the surplus (q − λp)₊, on which a copy of the model is fine-tuned, and `Guided`
extrapolates away from the copy (docs/theory.md, Away from the surplus). `RatioGuided` is discriminator guidance.
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

    With the exact ratio p_σ/q_σ and w = 1, it is the denoiser of the data. Classification learns the values of the
    ratio, but not its slope. Training the denoising error of `RatioGuided(denoiser, ratio)` on data trains the slope
    (experiments/common/score_matching.py has both losses). A sample costs about three evaluations per step.

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
