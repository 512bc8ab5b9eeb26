"""Training a diffusion model on any smooth f-divergence: score matching weighted by the density ratio.

Let P_t and Q_t be the data and the model after the same forward process, u_t = p_t/q_t, and s the score of Q_t. Then

    D_f(P‖Q) = D_f(P_T‖Q_T) + ½ ∫₀ᵀ g(t)² E_{P_t}[ u_t f''(u_t) |∇ log p_t − s|² ] dt

The weight u f''(u) is 1 for KL (standard score matching), 2u for χ² and 1/u for the reverse KL. With the noise level σ
as time, g² = 2σ and ∇ log p_σ − s = (E[x|x_σ] − D(x_σ; σ))/σ² for a denoiser D. Therefore

    D_f(P_σmin‖Q_σmin) − D_f(P_σmax‖Q_σmax) = ∫ σ⁻² E_{P_σ}[ u f''(u) |E[x|x_σ] − D(x_σ; σ)|² ] d log σ

The ratio is estimated by a classifier of noised data against noised samples of the model, conditioned on the noise
level. It is held fixed while the denoiser is trained. E[x|x_σ] may then be replaced by x, which adds a constant. See
docs/theory.md, Training losses.
"""

from __future__ import annotations

import math
from math import prod

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments.common.denoisers import ResidualMLP, noised, squared_errors
from experiments.common.diffusion import SIGMA_MAX, SIGMA_MIN, Preconditioning
from precall.networks import evaluating
from precall.theory import checks
from precall.theory.divergences import Divergence, divergence

__all__ = ["MLPRatio", "ScoreMatching"]


class MLPRatio(nn.Module):
    """An MLP for the log-ratio log u_σ(x) = log p_σ(x)/q_σ(x), conditioned on the noise level.

    Before training its output is 0, which means u = 1.

    Args:
        shape: shape of one sample; images are treated as vectors.
        width: width of the layers.
        depth: number of residual layers.
        sigma_data: standard deviation of the data, which sets the scale of the input.

    Example:
        >>> MLPRatio((2,), width=16)(torch.ones(3, 2), torch.tensor([0.1, 1.0, 10.0]))
        tensor([0., 0., 0.], grad_fn=<SqueezeBackward1>)
    """

    def __init__(
        self, shape: tuple[int, ...] = (2,), *, width: int = 256, depth: int = 3, sigma_data: float = 0.5
    ) -> None:
        super().__init__()
        self.sigma_data = checks.positive("sigma_data", sigma_data)
        self.net = ResidualMLP(prod(shape), 1, width=width, depth=depth)

    def forward(self, x: Tensor, sigma: Tensor) -> Tensor:
        """Logits of noisy samples (n, ...) at their noise levels (n,), shape (n,)."""
        c = Preconditioning.at(sigma[:, None], self.sigma_data)
        logits: Tensor = self.net(c.c_in * x.flatten(1), sigma.log() / 4)
        return logits.squeeze(1)


class ScoreMatching:
    """The f-weighted score-matching objective, and the loss of the ratio it needs.

    Training alternates `ratio_loss` on data and samples of the model with `denoiser_loss` on data. The ratio is not
    used for KL. The equality above holds if the denoiser is the exact one of the model's own noised distribution. For a
    learned denoiser the integral is a surrogate, and for KL an upper bound.

    Args:
        divergence: a smooth row of the divergence table, or its name: "kl", "chi2", "reverse_kl", …
        ratio: the classifier: `ratio(x, sigma)` returns log p_σ/q_σ of noisy samples, shape (n,).
        sigma_min: smallest noise level.
        sigma_max: largest noise level, at which P and Q should be almost equal.

    Raises:
        ValueError: for TV and λ-PR, whose f'' is a point mass at a ratio that no sample has exactly.

    Example:
        >>> chi2 = ScoreMatching("chi2", MLPRatio((2,)))
        >>> chi2.weight(torch.tensor([0.0, math.log(3.0)]))  # u f''(u) = 2u
        tensor([2., 6.])

    References:
        Verine (2024), Sec. 7.2.3 with its erratum; docs/theory.md, Training losses.
    """

    def __init__(
        self,
        divergence: str | Divergence,
        ratio: nn.Module,
        *,
        sigma_min: float = SIGMA_MIN,
        sigma_max: float = SIGMA_MAX,
    ) -> None:
        self.divergence = _smooth(divergence)
        self.ratio = ratio
        self.sigma_min = checks.positive("sigma_min", sigma_min)
        self.sigma_max = checks.positive("sigma_max", sigma_max)
        if sigma_max <= sigma_min:
            raise ValueError(f"`sigma_max` must be above `sigma_min` = {sigma_min:g}; got {sigma_max:g}.")

    def weight(self, log_u: Tensor) -> Tensor:
        """The weight u f''(u) from log u, without gradient. It is computed in float64 to avoid over- and underflow."""
        u = log_u.detach().double().exp()
        weight: Tensor = (u * self.divergence.second(u)).to(log_u.dtype)
        return weight

    def levels(self, n: int, like: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Draw n noise levels, log-uniform between `sigma_min` and `sigma_max`."""
        uniform = torch.rand(n, generator=generator, device=like.device, dtype=like.dtype)
        return self.sigma_min * (self.sigma_max / self.sigma_min) ** uniform

    def ratio_loss(self, *, real: Tensor, fake: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Mean logistic loss of the classifier on noised data, plus that on noised samples of the model.

        At the minimum the logit is log p_σ/q_σ. The loss is 2 log 2 if the two distributions cannot be distinguished.

        Args:
            real: data, shape (n, ...).
            fake: samples of the model, shape (m, ...).
            generator: random generator of the noise; None for torch's default one.
        """
        at_real, at_fake = (self._logits(x.detach(), generator) for x in (real, fake))
        return functional.softplus(-at_real).mean() + functional.softplus(at_fake).mean()

    def _logits(self, x: Tensor, generator: torch.Generator | None) -> Tensor:
        sigma = self.levels(len(x), x, generator)
        logits: Tensor = self.ratio(noised(x, sigma, generator), sigma)
        return logits

    def denoiser_losses(
        self, denoiser: nn.Module, x: Tensor, noisy: Tensor, sigma: Tensor, labels: Tensor | None = None
    ) -> Tensor:
        """log(σ_max/σ_min) σ⁻² u f''(u) |D(x_σ; σ) − x|² of each sample, shape (n,).

        The mean of these losses estimates the integral over log σ. If `x` is the clean data, it is the training
        objective; if `x` is E[x|x_σ], it is the divergence itself.
        """
        with torch.no_grad(), evaluating(self.ratio):  # held fixed, and each weight independent of the batch
            weight = self.weight(self.ratio(noisy, sigma))
        span = math.log(self.sigma_max / self.sigma_min)
        return span * sigma**-2 * weight * squared_errors(denoiser, x, noisy, sigma, labels)

    def denoiser_loss(
        self,
        denoiser: nn.Module,
        *,
        real: Tensor,
        labels: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The training objective of the denoiser on a batch of data, in nats and up to a constant.

        Args:
            denoiser: called as `denoiser(x, sigma, labels)`.
            real: data, shape (n, ...).
            labels: classes of a conditional model, shape (n,).
            generator: random generator of the noise levels and the noise; None for torch's default one.
        """
        sigma = self.levels(len(real), real, generator)
        return self.denoiser_losses(denoiser, real, noised(real, sigma, generator), sigma, labels).mean()


def _smooth(which: str | Divergence) -> Divergence:
    row = divergence(which)
    if row.kinks:
        raise ValueError(
            f"`divergence` must be twice differentiable; got {row.name!r}, whose second derivative is a point mass. "
            'Use a smooth one, such as "kl", "chi2" or "reverse_kl".'
        )
    return row
