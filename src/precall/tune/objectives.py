"""Objectives of adversarial training: the losses of the discriminator and of the generator, and the estimated ratio.

The generator losses are *frozen-ratio* losses: the ratio r is held fixed as a function of x, and
`∇_θ E_{x~Q_θ}[l(r(x))]` is then the exact gradient of the f-divergence with `f''(u) = −l'(u)/u`. Hence l must decrease
with r; that of the published Algorithm 3 increases (docs/errata.md, VER-43). They can be used in any training loop.
The mathematics is in docs/theory.md, Training losses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from precall.theory import checks
from precall.theory.acceptance import obrs
from precall.theory.arrays import is_tensor
from precall.theory.divergences import DIVERGENCES, FAMILIES, Divergence, divergence

FORMS = ("smoothed", "tail", "log")
PLAYS = ("minimax", "nonsaturating")
CRITICS = (*DIVERGENCES, *FAMILIES)  # by what a discriminator may be trained


@dataclass(frozen=True)
class FGAN:
    """The variational game of an f-divergence: `min_G max_T E_P[T] − E_Q[f*(T)]`, with `T = a(w)` for a free logit w.

    The generator's loss with play "minimax", `−E_Q[f*(T)]`, is the exact frozen-ratio loss of D_f. "nonsaturating"
    maximises `E_Q[T]` instead, which descends the divergence with second derivative `f''(u)/u`. For "gan" it is the
    loss −log D(x). The divergence is a row of the table or its name ("gan", "kl", "chi2", "amari:0.5", "pr:5", …).

    Example:
        >>> objective = FGAN("gan")
        >>> w = torch.tensor([0.0, 0.0])
        >>> round(objective.discriminator_loss(w, w).item(), 4)  # 2 log 2, the loss of an uninformed discriminator
        1.3863

    References:
        Nowozin et al. (2016); Verine (2024), section 2.3 and Tab. 5.1; docs/theory.md, Divergences.
    """

    divergence: str | Divergence = "gan"
    play: str = "minimax"
    row: Divergence = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        checks.choice("play", self.play, PLAYS)
        object.__setattr__(self, "row", divergence(self.divergence))

    def discriminator_loss(self, real_logits: Tensor, fake_logits: Tensor) -> Tensor:
        """`E_Q[f*(T)] − E_P[T]`."""
        return _tensor(self.row.conjugate_of_logit(fake_logits).mean() - self.row.activation(real_logits).mean())

    def generator_loss(self, fake_logits: Tensor) -> Tensor:
        """`−E_Q[f*(T)]`, or `−E_Q[T]` for the non-saturating variant."""
        if self.play == "nonsaturating":
            return _tensor(-self.row.activation(fake_logits).mean())
        return _tensor(-self.row.conjugate_of_logit(fake_logits).mean())

    def log_ratio(self, logits: Tensor) -> Tensor:
        """`log (f*)'(T)`. Raises a `ValueError` for "tv" and "pr:λ", whose conjugates carry no ratio."""
        return _tensor(self.row.log_ratio(logits))


GAN = FGAN("gan", play="nonsaturating")


class RatioObjective:
    """Base of objectives whose discriminator estimates p/q by the variational game of the divergence `critic`."""

    critic: str | Divergence

    def __post_init__(self) -> None:
        if isinstance(self.critic, str):
            checks.choice("critic", self.critic.partition(":")[0], CRITICS)
        self.game.log_ratio(torch.zeros(()))  # raises the row's own error if the critic carries no ratio

    @cached_property
    def game(self) -> FGAN:
        """The variational game of the critic."""
        return FGAN(self.critic)

    def discriminator_loss(self, real_logits: Tensor, fake_logits: Tensor) -> Tensor:
        """The loss of the critic, `E_Q[g*(T)] − E_P[T]`."""
        return self.game.discriminator_loss(real_logits, fake_logits)

    def log_ratio(self, logits: Tensor) -> Tensor:
        """The estimate of the critic, `log (g*)'(T)`."""
        return self.game.log_ratio(logits)


@dataclass(frozen=True)
class PRObjective(RatioObjective):
    """Train at the trade-off λ: the generator descends D_λ, the discriminator learns the ratio with another divergence.

        smoothed   −E_Q[σ((log r + log λ)/τ)]   exact for the average of D_l over log l, with a logistic kernel of
                                                 scale τ around log λ; τ → 0 is D_λ itself
        tail       −E_Q[min(λ r, 1)]             exact for ∫_λ^∞ (λ/l²) D_l dl: precision at every slope above λ
        log        E_Q[log(1 + 1/(λ r))]         exact for ∫_0^∞ D_l dl/(l + λ); the non-saturating GAN if λ = 1. Its
                                                 slope does not vanish for draws far from the data

    Large λ favours precision, small λ recall; at λ = 1 both have equal weight.

    Args:
        lam: λ > 0.
        smoothing: τ > 0 of the smoothed form, in units of log r; large values have larger gradients.
        form: "log", as in `Schedule` and `precall tune`; "tail", which moves both scores further, at a loss of quality
            on images; or "smoothed" (benchmarks/schedules.py).
        critic: divergence with which the discriminator is trained: a smooth row, such as "gan" or "chi2".

    Example:
        >>> objective = PRObjective(lam=2.0)
        >>> logits = torch.tensor([-1.0, 0.0, 1.0])
        >>> objective.log_ratio(logits).tolist()
        [-1.0, 0.0, 1.0]
        >>> round(objective.generator_loss(logits).item(), 4)  # mean of log(1 + 1/(λ r))
        0.4775

    References:
        Verine (2024), Alg. 3 with docs/errata.md, VER-43; docs/theory.md, Training losses.
    """

    lam: float = 1.0
    smoothing: float = 1.0
    form: str = "log"
    critic: str | Divergence = "gan"

    def __post_init__(self) -> None:
        checks.positive("lam", self.lam)
        checks.positive("smoothing", self.smoothing)
        checks.choice("form", self.form, FORMS)
        super().__post_init__()

    def generator_loss(self, fake_logits: Tensor) -> Tensor:
        """`−E_Q[σ((log r + log λ)/τ)]`, `−E_Q[min(λ r, 1)]` or `E_Q[log(1 + 1/(λ r))]`."""
        log_lam_r = self.log_ratio(fake_logits) + math.log(self.lam)
        if self.form == "tail":
            return -log_lam_r.clamp(max=0).exp().mean()  # −E_Q[min(λ r, 1)]
        if self.form == "log":
            return softplus(-log_lam_r).mean()  # E_Q[log(1 + 1/(λ r))]
        return -torch.sigmoid(log_lam_r / self.smoothing).mean()  # −E_Q[σ((log r + log λ)/τ)]


@dataclass
class OBRSObjective(RatioObjective):
    """Train the model *after* optimal budgeted rejection: descend `D_f(P‖Q̃)`, with `q̃ = min(K q, κ p)` and κ = K τ.

    The ratio after rejection is `p/q̃ = max(r/K, 1/κ)`. With r and τ held fixed, the exact loss of the generator is
    `K h(max(r/K, 1/κ))`, `h = f − u f'`. Only samples that are accepted with probability 1 have a gradient; the others
    are left to the rejection. τ solves `E_Q[min(1, τ r)] = 1/K`. Call `refresh` with logits of new draws about every
    hundred steps; the first call of `generator_loss` does so automatically.

    Args:
        divergence: the divergence to descend, any smooth row of the table.
        budget: K ≥ 1, mean number of draws per kept sample after training; 1 is plain training.
        critic: divergence with which the discriminator is trained, on draws before rejection.
        log_tau: log τ, None until the first refresh.

    Example:
        >>> objective = OBRSObjective("kl", budget=2.0)
        >>> objective.refresh(torch.log(torch.tensor([0.2, 0.8, 1.0, 2.0])))
        >>> round(math.exp(objective.log_tau), 6)  # ½ (0.2 + 0.8 + 1.0)/4 + ¼ = ½
        0.5

    References:
        Verine (2024), Alg. 7 with docs/errata.md, VER-51; docs/theory.md, Training losses.
    """

    divergence: str | Divergence = "gan"
    budget: float = 2.0
    critic: str | Divergence = "gan"
    log_tau: float | None = None

    def __post_init__(self) -> None:
        checks.budget(self.budget)
        super().__post_init__()

    def generator_loss(self, fake_logits: Tensor) -> Tensor:
        """`K E_Q[h(max(r/K, 1/κ))]`."""
        if self.log_tau is None:
            self.refresh(fake_logits)
        assert self.log_tau is not None
        # log of max(r, 1/τ)/K = max(r/K, 1/κ); `clamp` would need two more kernels
        log_refined = torch.threshold(self.log_ratio(fake_logits), -self.log_tau, -self.log_tau) - math.log(self.budget)
        return _tensor(self.budget * divergence(self.divergence).generator_loss(log_refined).mean())

    def refresh(self, fake_logits: Tensor) -> None:
        """Solve τ for the budget, on the logits of new draws."""
        log_r = self.log_ratio(fake_logits.detach()).flatten().double()
        top = log_r.max().item()  # a common factor does not change the rule and prevents overflow
        tau = obrs(ratios=(log_r - top).exp(), budget=self.budget).tau
        self.log_tau = math.log(tau) - top

    def state_dict(self) -> dict[str, Any]:
        """The state to save in a checkpoint."""
        return {"log_tau": self.log_tau}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state from a checkpoint."""
        self.log_tau = state["log_tau"]


@dataclass(frozen=True)
class DensityPR:
    """Train a model with a known density at the trade-off λ, with a critic that learns log p.

    The critic's output s(x) estimates log p(x) by logistic regression of data against noise of known density ν (draws
    of the model mixed with a broad base). The generator then maximises α(λ) itself, without a frozen-ratio surrogate:

        λ ≥ 1    α(λ) = E_Q[min(λ p/q, 1)]      on draws, through x and through log q (the reparametrised gradient)
        λ < 1    β(λ) = E_P[min(1, q/(λ p))]    on data, through log q

    Each is used where its average has the lower variance. Both are flat where the minimum is far below 1. A `power`
    γ ∈ (0, 1] increases the gradient there, `E[(min(·, 1)^γ − 1)/γ]`. The limit γ → 0 is `E_Q[min(log(λ p/q), 0)] =
    −D_λ − ∫_λ^∞ D_l dl/l`: the slopes above λ, weighted as by the reverse KL, or with the roles exchanged the slopes
    below λ, weighted as by the likelihood. A typical schedule moves γ from 0.05 to 1.

    Example:
        >>> objective = DensityPR(lam=2.0)
        >>> log_p, log_q = torch.log(torch.tensor([0.1, 0.5])), torch.log(torch.tensor([0.4, 0.5]))
        >>> round(-objective.generator_loss(log_p, log_q).item(), 6)  # mean of min(2 · ¼, 1) and min(2 · 1, 1)
        0.75

    References:
        docs/theory.md, Training losses.
    """

    lam: float = 1.0
    power: float = 1.0

    def __post_init__(self) -> None:
        checks.positive("lam", self.lam)
        checks.unit("power", checks.positive("power", self.power))

    def discriminator_loss(self, real_logits: Tensor, noise_logits: Tensor) -> Tensor:
        """Logistic loss of `s(x) − log ν(x)`, for data against noise. It is minimal at s = log p."""
        return softplus(-real_logits).mean() + softplus(noise_logits).mean()

    @property
    def on_data(self) -> bool:
        """Whether the generator's loss is an average over data (λ < 1, recall) instead of draws."""
        return self.lam < 1

    def generator_loss(self, log_p: Tensor, log_q: Tensor) -> Tensor:
        """`−α(λ)` from draws for λ ≥ 1, `−β(λ)` from data for λ < 1; plus a constant where γ < 1."""
        log_lam_u = log_p - log_q + math.log(self.lam)
        log_min = (-log_lam_u if self.on_data else log_lam_u).clamp(max=0)
        return -log_min.exp().mean() if self.power == 1 else -torch.expm1(self.power * log_min).mean() / self.power


def _tensor(values: object) -> Tensor:
    """`values` typed as a tensor: the functions of the divergence table accept arrays, too."""
    assert is_tensor(values)
    return values
