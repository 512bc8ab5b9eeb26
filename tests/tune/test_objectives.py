"""Every objective's gradient against finite differences of the exact quantity it says it descends.

The model is N(θ, 1), the data N(0, 1). Draws are the normal quantiles z_i moved by θ, so expectations under the model
are quadratures, and the exact side is a numerical derivative of a closed form or of a fine spectrum.
"""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks import toys
from experiments.common.linear_critic import LinearChiSquared
from experiments.common.other_objectives import Area, Hinge
from experiments.common.self_normalised import SelfNormalised
from precall.theory.divergences import DIVERGENCES, PR, divergence
from precall.tune.objectives import (
    FGAN,
    DensityPR,
    OBRSObjective,
    PRObjective,
)
from precall.tune.recipes import recipe
from precall.tune.schedules import Schedule, Scheduled

THETA = 0.8
N = 20_001
SMOOTH = [name for name, row in DIVERGENCES.items() if not row.kinks] + ["amari:0.3", "amari:1.7"]


def latents(n=N):
    return torch.from_numpy(stats.norm.ppf((np.arange(n) + 0.5) / n))


def frozen_log_ratio(x):
    """log p/q as a function of x, with q held at θ."""
    return -(x**2) / 2 + (x - THETA) ** 2 / 2


def logit_for(log_ratio_of, log_r):
    """A logit w with log_ratio_of(w) = log r, differentiable in log r: bisection, then one Newton step."""
    low, high = torch.full_like(log_r, -60.0), torch.full_like(log_r, 60.0)
    for _ in range(30):
        middle = (low + high) / 2
        above = log_ratio_of(middle) > log_r
        low, high = torch.where(above, low, middle), torch.where(above, middle, high)
    w = ((low + high) / 2).detach().requires_grad_()
    value = log_ratio_of(w)
    (slope,) = torch.autograd.grad(value.sum(), w)
    return w.detach() + (log_r - value.detach()) / slope


def slope_of_loss(objective, n=N):
    """dE[loss]/dθ, through x alone."""
    theta = torch.tensor(THETA, dtype=torch.float64, requires_grad=True)
    log_r = frozen_log_ratio(latents(n) + theta)
    loss = objective.generator_loss(logit_for(objective.log_ratio, log_r))
    (slope,) = torch.autograd.grad(loss, theta)
    return slope.item()


def slope_of(exact, step=1e-3):
    return (exact(THETA + step) - exact(THETA - step)) / (2 * step)


def spectrum(theta):
    return toys.gaussian_shift(distance=theta).spectrum


def alpha(theta, lam):
    return toys.gaussian_shift(distance=theta).alpha(lam)


def pr_divergence(theta, lam):
    return np.minimum(1, lam) - alpha(theta, lam)


def over_logs(integrand, low, high):
    """The integral of a function of arrays of v = log l, by Simpson's rule: a kink costs 1e-5."""
    v = np.linspace(low, high, 8001)
    return integrate.simpson(integrand(v), x=v)


def divergence_by_quadrature(name, theta):
    """∫ q f(p/q), by quadrature on the line."""
    row, x = divergence(name), np.linspace(-12, 12, 40_001)
    q = stats.norm.pdf(x - theta)
    return integrate.simpson(q * row.f(np.exp(theta**2 / 2 - theta * x)), x=x)


@pytest.mark.parametrize("name", SMOOTH)
def test_fgan_descends_its_divergence(name):
    expected = slope_of(lambda theta: divergence_by_quadrature(name, theta))
    assert expected > 0.05
    assert slope_of_loss(FGAN(name)) == pytest.approx(expected, rel=5e-3)


def test_nonsaturating_play_descends_another_divergence():
    """−T has f''(u)/u: for KL that is reverse KL, of slope θ."""
    assert slope_of_loss(FGAN("kl", play="nonsaturating")) == pytest.approx(THETA, rel=1e-3)


@pytest.mark.parametrize("lam", [0.3, 1.0, 4.0])
def test_tail_form_descends_every_slope_above(lam):
    def tail(theta):
        return integrate.quad(lambda t: lam * pr_divergence(theta, 1 / t), 0, 1 / lam, limit=200)[0]  # t = 1/l

    expected = slope_of(tail)
    assert expected > 0.01
    assert slope_of_loss(PRObjective(lam=lam, form="tail")) == pytest.approx(expected, rel=5e-3)


@pytest.mark.parametrize("lam", [0.3, 1.0, 4.0])
def test_log_form_descends_all_slopes_with_weights_one_over_l_plus_lam(lam):
    def weighted(theta):
        return over_logs(lambda v: pr_divergence(theta, np.exp(v)) / (1 + lam * np.exp(-v)), -30, 12)

    assert slope_of_loss(PRObjective(lam=lam, form="log")) == pytest.approx(slope_of(weighted), rel=5e-3)
    draws = latents(101)
    plain = FGAN("gan", play="nonsaturating").generator_loss(draws)
    assert PRObjective(lam=1.0, form="log").generator_loss(draws).item() == pytest.approx(plain.item())


@pytest.mark.parametrize("lam", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("tau", [0.3, 1.0])
def test_smoothed_form_descends_the_average_around_lam(lam, tau):
    def averaged(theta):
        def integrand(v):
            kernel = stats.logistic.pdf(v, loc=math.log(lam), scale=tau)
            return kernel * pr_divergence(theta, np.exp(v))

        return over_logs(integrand, math.log(lam) - 40 * tau, math.log(lam) + 40 * tau)

    expected = slope_of(averaged)
    assert expected > 0.01
    assert slope_of_loss(PRObjective(lam=lam, smoothing=tau, form="smoothed")) == pytest.approx(expected, rel=5e-3)


def test_smoothed_form_tends_to_the_pr_divergence():
    expected = slope_of(lambda theta: pr_divergence(theta, 3.0))
    assert slope_of_loss(PRObjective(lam=3.0, smoothing=0.02, form="smoothed")) == pytest.approx(expected, rel=0.02)


def test_printed_algorithm_ascends():
    """E_Q[f_λ(r)] with frozen r, as Algorithm 3 is printed, has the opposite sign: VER-43."""
    theta = torch.tensor(THETA, dtype=torch.float64, requires_grad=True)
    log_r = frozen_log_ratio(latents() + theta)
    (slope,) = torch.autograd.grad((3 * log_r.exp()).clamp(min=1).mean(), theta)
    assert slope.item() < 0 < slope_of_loss(PRObjective(lam=3.0, form="tail"))


def pulls(loss_of):
    """Shares of draws with different ratios in the gradient of a loss with respect to log r."""
    log_r = torch.tensor([-2.0, -0.5, 0.1, 1.5], requires_grad=True)
    (slope,) = torch.autograd.grad(loss_of(log_r), log_r)
    assert (slope <= 0).all()
    return (slope / slope.sum()).tolist(), slope.sum().item()


@pytest.mark.parametrize(
    ("order", "name"), [(-1.0, "amari:-1"), (0.0, "reverse_kl"), (0.5, "amari:0.5"), (1.0, "kl"), (2.0, "amari:2")]
)
def test_self_normalised_powers_have_the_gradient_of_the_divergence_of_that_order(order, name):
    """Up to a factor: the exact loss of a generator is h(r)."""
    found, total = pulls(SelfNormalised(order=order).generator_loss)
    expected, _ = pulls(lambda log_r: divergence(name).generator_loss(log_r).sum())
    assert found == pytest.approx(expected, abs=1e-6)
    assert total == pytest.approx(-1)


@pytest.mark.parametrize("lam", [0.5, 1.0, 3.0])
def test_a_self_normalised_tail_has_the_gradient_of_the_tail(lam):
    found, total = pulls(SelfNormalised(lam=lam).generator_loss)
    expected, _ = pulls(PRObjective(lam, form="tail").generator_loss)
    assert found == pytest.approx(expected, abs=1e-6)
    assert total == pytest.approx(-1)


def test_without_draws_below_the_slope_there_is_no_loss():
    w = torch.full((4,), 3.0, requires_grad=True)
    loss = SelfNormalised(lam=2.0).generator_loss(w)
    loss.backward()
    assert loss.item() == 0
    assert w.grad.tolist() == [0] * 4


def test_the_published_loss_has_a_linear_critic():
    """T = max(w, −2), f*(T) = T + T²/4, r = 1 + T/2."""
    objective = PRObjective(3.0, form="tail", critic=LinearChiSquared())
    real, fake = torch.tensor([-5.0, 0.0, 4.0]), torch.tensor([-7.0, -1.9, 1.0], requires_grad=True)
    dual = fake.detach().clamp(min=-2)
    expected = (dual + dual**2 / 4).mean() - real.clamp(min=-2).mean()
    torch.testing.assert_close(objective.discriminator_loss(real, fake.detach()), expected)
    loss = objective.generator_loss(fake)
    torch.testing.assert_close(loss.detach(), -(3 * (1 + dual / 2)).clamp(max=1).mean(), atol=1e-5, rtol=1e-5)
    loss.backward()
    assert fake.grad.tolist() == pytest.approx([0, -3 / 2 / 3, 0])


def test_area_ascends_the_area():
    expected = -slope_of(lambda theta: spectrum(theta).area, step=1e-2)
    assert expected > 0.1
    assert slope_of_loss(Area(), n=1501) == pytest.approx(expected, rel=0.01)


def test_area_pulls_no_sample_by_more_than_one():
    w = torch.tensor([-50.0, 0.0, 1.0, 80.0], requires_grad=True)
    Area().generator_loss(w).backward()
    assert torch.isfinite(w.grad).all()
    assert (w.grad <= 0).all()
    assert (4 * w.grad >= -1 - 1e-6).all()


@pytest.mark.parametrize("name", ["kl", "gan", "chi2", "reverse_kl"])
@pytest.mark.parametrize("budget", [1.0, 2.0])
def test_obrs_objective_descends_the_divergence_after_rejection(name, budget):
    objective = OBRSObjective(name, budget=budget)
    objective.refresh(frozen_log_ratio(latents() + THETA))
    expected = slope_of(lambda theta: spectrum(theta).refined(budget).divergence(name), step=2e-2)
    assert slope_of_loss(objective) == pytest.approx(expected, rel=0.02)


def test_obrs_tau_does_not_overflow():
    objective = OBRSObjective("kl", budget=2.0)
    objective.refresh(torch.tensor([400.0, 401.0, 402.0, 403.0]))
    assert math.isfinite(objective.log_tau)
    plain = OBRSObjective("kl", budget=2.0)
    plain.refresh(torch.tensor([0.0, 1.0, 2.0, 3.0]))
    assert objective.log_tau == pytest.approx(plain.log_tau - 400)


class Operations(TorchDispatchMode):
    n = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.n += not func.is_view
        return func(*args, **(kwargs or {}))


def operations(objective):
    logits = torch.randn(16, requires_grad=True)
    objective.generator_loss(logits)  # solves τ
    with Operations() as counted:
        torch.autograd.grad(objective.generator_loss(logits), logits)
    return counted.n


def test_a_trade_off_costs_next_to_no_operations():  # of the 340 of a step of the smallest recipe
    plain = operations(FGAN("gan"))
    assert operations(PRObjective(5.0)) <= plain + 1
    assert operations(OBRSObjective("gan", budget=2.0)) <= plain + 1


@pytest.mark.parametrize("lam", [1.0, 5.0])
def test_density_route_has_the_full_gradient_of_alpha(lam):
    theta = torch.tensor(THETA, dtype=torch.float64, requires_grad=True)
    z = latents()
    x = z + theta
    loss = DensityPR(lam).generator_loss(-(x**2) / 2, -(z**2) / 2)
    (slope,) = torch.autograd.grad(loss, theta)
    assert loss.item() == pytest.approx(-alpha(THETA, lam), rel=1e-3)
    assert slope.item() == pytest.approx(-slope_of(lambda t: alpha(t, lam)), rel=1e-3)


@pytest.mark.parametrize("lam", [0.2, 0.7])
def test_density_route_has_the_full_gradient_of_beta(lam):
    theta = torch.tensor(THETA, dtype=torch.float64, requires_grad=True)
    x = latents()  # data
    objective = DensityPR(lam)
    loss = objective.generator_loss(-(x**2) / 2, -((x - theta) ** 2) / 2)
    (slope,) = torch.autograd.grad(loss, theta)
    assert objective.on_data
    assert loss.item() == pytest.approx(-alpha(THETA, lam) / lam, rel=1e-3)
    assert slope.item() == pytest.approx(-slope_of(lambda t: alpha(t, lam) / lam), rel=1e-3)


def test_density_route_tends_to_the_reverse_kl_of_the_slopes_above():
    """γ → 0: −E_Q[min(log(λp/q), 0)] = D_λ + ∫_λ^∞ D_l dl/l."""
    z = latents()
    loss = DensityPR(3.0, power=1e-6).generator_loss(-((z + THETA) ** 2) / 2, -(z**2) / 2)
    above = integrate.quad(lambda v: pr_divergence(THETA, math.exp(v)), math.log(3.0), 30)[0]
    expected = pr_divergence(THETA, 3.0) + above
    assert loss.item() == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("lam", [0.3, 1.0, 4.0])
def test_hinge_value_is_twice_alpha(lam):
    """At T = sign(λp − q) the discriminator's loss is 2 α(λ)."""
    z = latents()
    threshold = math.log(lam)
    real = torch.sign(frozen_log_ratio(z) + threshold)
    fake = torch.sign(frozen_log_ratio(z + THETA) + threshold)
    assert Hinge(lam).discriminator_loss(real, fake).item() == pytest.approx(2 * alpha(THETA, lam), rel=2e-3)


@pytest.mark.parametrize("name", SMOOTH)
def test_discriminator_loss_is_best_at_the_ratio(name):
    """The dual value is the divergence at the true ratio, and smaller anywhere else."""
    objective, z = FGAN(name), latents()

    def loss(factor):
        real, fake = (logit_for(objective.log_ratio, factor * frozen_log_ratio(x)) for x in (z, z + THETA))
        return objective.discriminator_loss(real, fake).item()

    assert -loss(1.0) == pytest.approx(divergence_by_quadrature(name, THETA), rel=5e-3)
    assert loss(1.0) < min(loss(0.7), loss(1.3))


def test_naive_dual_stalls():
    """A confident discriminator passes next to nothing on, where the smoothed loss on a ratio still does."""
    w = torch.tensor([12.0, -12.0], requires_grad=True)
    FGAN(PR(3.0)).generator_loss(w).backward()
    assert w.grad.abs().max() < 1e-5


OBJECTIVES = [
    *map(FGAN, SMOOTH),
    *(PRObjective(5.0), PRObjective(0.1, form="tail"), PRObjective(2.0, form="tail", critic=LinearChiSquared())),
    *(SelfNormalised(order=-3.0), SelfNormalised(lam=20.0), Area(), OBRSObjective("gan", 3.0)),
]


@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
def test_float32_safe(objective):
    """No overflow at logits a network puts out in float32, except where the exact value does."""
    w = torch.linspace(-30, 30, 7, requires_grad=True)
    loss = objective.generator_loss(w) + objective.discriminator_loss(w, w)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(w.grad).all()


def test_schedules_are_functions_of_the_step():
    schedule = Scheduled(PRObjective(lam=0.01, smoothing=0.5), steps=4, start={"lam": 1.0, "smoothing": 2.0})
    assert (schedule.at(2).lam, schedule.at(2).smoothing) == pytest.approx((0.1, 1.0))
    assert schedule.at(4) is schedule.objective


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: PRObjective(lam=0.0), "`lam` must be positive"),
        (lambda: PRObjective(smoothing=-1.0), "`smoothing` must be positive"),
        (lambda: DensityPR(power=2.0), "`power` must be between 0 and 1"),
        (lambda: PRObjective(form="exact"), "`form` must be one of smoothed, tail, log"),
        (lambda: PRObjective(critic="tv"), "carries no ratio"),
        (lambda: Area(critic="pr:2"), "carries no ratio"),
        (lambda: SelfNormalised(), "either `order` or `lam`"),
        (lambda: SelfNormalised(order=1.0, lam=1.0), "either `order` or `lam`"),
        (lambda: SelfNormalised(lam=-1.0), "`lam` must be positive"),
        (lambda: SelfNormalised(order=math.nan), "`order` must be a number"),
        (lambda: PRObjective(critic="gann"), "`critic` must be one of .*; got 'gann'"),
        (lambda: FGAN("gann"), "`divergence` must be one of"),
        (lambda: FGAN("gan", play="fair"), "`play` must be one of"),
        (lambda: OBRSObjective("kl", budget=0.5), "`budget` must be at least 1"),
        (lambda: Hinge().log_ratio(torch.zeros(1)), "carries no ratio"),
        (lambda: Scheduled(FGAN(), steps=3, start={"lam": 1.0}), "`start` must name fields of FGAN"),
    ],
)
def test_errors_say_what_to_do(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_one_name_is_one_loss():
    """`PRObjective(λ)`, `Schedule(λ)` and `precall tune --objective pr` descend the same loss; so does every form."""
    made = recipe("digits", "mlp")
    assert PRObjective(5.0) == Schedule(5.0, 100).objective == made.objective(5.0).objective
    assert Schedule(5.0, made.steps) == made.objective(5.0)
    for form in ("tail", "smoothed"):
        assert PRObjective(5.0, form=form) == made.objective(5.0, kind=form).objective
        assert Schedule(5.0, made.steps, form=form) == made.objective(5.0, kind=form)
