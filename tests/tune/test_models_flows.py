"""Flows: every one of them is an invertible map whose log-determinant and density are right."""

import copy
import math

import pytest
import torch
from torch import nn

from experiments.common.glow import ActNorm, Glow, InvertibleConv
from experiments.common.residual_flow import Residual, ResidualFlow, spectral_bound
from precall.tune.models.flows import RealNVP

PLANE = {
    "realnvp": lambda: RealNVP((2,), hidden=(16, 16)),
    "residual": lambda: ResidualFlow((2,), blocks=3, hidden=(16, 16), lipschitz=0.7),
}
FLOWS = {
    **PLANE,
    "realnvp-odd": lambda: RealNVP((3,), hidden=(8,)),
    "realnvp-image": lambda: RealNVP((1, 4, 4), couplings=2, hidden=(8,)),
    "glow": lambda: Glow((1, 8, 8), levels=3, steps=2, hidden=8),
    "glow-colour": lambda: Glow((3, 4, 8), levels=2, steps=1, hidden=8),
    "glow-whole": lambda: Glow((1, 4, 4), levels=2, steps=2, hidden=8, factor_out=False),
    "residual-image": lambda: ResidualFlow((1, 2, 2), blocks=2, hidden=(8,)),
}


def far_from_the_start(name, dtype=torch.float64, seed=0):
    """A flow with random parameters everywhere: at construction most are the identity, where much could hide."""
    torch.manual_seed(seed)
    flow = FLOWS[name]().to(dtype).eval()
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.add_((0.06 if isinstance(flow, Glow) else 0.2) * torch.randn_like(parameter))
    return flow


def latents(flow, n=5, seed=1):
    like = next(flow.parameters())
    return torch.randn(n, *flow.latent_shape, generator=torch.Generator().manual_seed(seed)).to(like.dtype)


def jacobian_log_det(function, rows):
    def flat(row):
        return function(row.view(1, *rows.shape[1:])).flatten()

    return torch.stack(
        [torch.linalg.slogdet(torch.autograd.functional.jacobian(flat, row))[1] for row in rows.flatten(1)]
    )


def log_normal(z):
    return torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(1)


@pytest.mark.parametrize("name", FLOWS)
def test_inverse_undoes_forward(name):
    flow = far_from_the_start(name, torch.float32)
    z = latents(flow, 64)
    x = flow(z)
    assert x.shape == (64, *flow.shape)
    assert not torch.allclose(x.flatten(1), z, atol=0.1)
    assert torch.allclose(flow.inverse(x), z, atol=1e-5, rtol=1e-5)
    assert torch.allclose(flow(flow.inverse(x)), x, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", FLOWS)
def test_log_det_is_that_of_the_jacobian(name):
    flow = far_from_the_start(name)
    z = latents(flow, 3)
    x, log_q = flow.forward_with_log_prob(z)
    assert torch.allclose(log_normal(z) - log_q, jacobian_log_det(flow, z), atol=1e-6)
    backwards = jacobian_log_det(flow.inverse, x.detach())
    assert backwards.abs().min() > 1e-3  # volume does change
    assert torch.allclose(flow.log_prob(x) - log_normal(flow.inverse(x)), backwards, atol=1e-6)


@pytest.mark.parametrize("name", FLOWS)
def test_both_ways_to_the_density_agree(name):
    flow = far_from_the_start(name, torch.float32)
    x, log_q = flow.forward_with_log_prob(latents(flow, 64))
    assert log_q.shape == (64,)
    assert torch.allclose(flow.log_prob(x), log_q, atol=2e-4)


@pytest.mark.parametrize("name", PLANE)
def test_density_integrates_to_one(name):
    flow = far_from_the_start(name, torch.float32)
    side = torch.linspace(-12, 12, 301)
    grid = torch.cartesian_prod(side, side)
    with torch.no_grad():
        total = flow.log_prob(grid).exp().sum().item() * (24 / 300) ** 2
    assert total == pytest.approx(1, abs=2e-3)


@pytest.mark.parametrize("name", FLOWS)
@pytest.mark.parametrize("through", ["x", "log_q", "log_prob"])
def test_gradients_match_finite_differences(name, through):
    """In the parameters, along a random direction; of the sample path too, which implicit differentiation gives."""
    flow = far_from_the_start(name)
    z = latents(flow, 4)
    data = flow(z).detach() + 0.1
    mix = torch.randn(data.shape, generator=torch.Generator().manual_seed(3), dtype=data.dtype)

    def loss(model):
        x, log_q = model.forward_with_log_prob(z)
        return {"x": (mix * x).sum(), "log_q": log_q.sum(), "log_prob": model.log_prob(data).sum()}[through]

    torch.manual_seed(4)
    directions = [torch.randn_like(p) for p in flow.parameters()]
    gradients = torch.autograd.grad(loss(flow), list(flow.parameters()), allow_unused=True)
    slope = sum((g * d).sum() for g, d in zip(gradients, directions, strict=True) if g is not None)

    def moved(step):
        model = copy.deepcopy(flow)
        with torch.no_grad():
            for p, d in zip(model.parameters(), directions, strict=True):
                p.add_(step * d)
        return loss(model).item()

    assert slope.item() == pytest.approx((moved(1e-5) - moved(-1e-5)) / 2e-5, rel=2e-4, abs=1e-4)


def test_gradient_of_the_residual_flow_in_z():
    flow = far_from_the_start("residual")
    assert torch.autograd.gradcheck(
        flow, (latents(flow, 2).requires_grad_(),), eps=1e-5, atol=1e-5, check_undefined_grad=False
    )


@pytest.mark.parametrize("name", ["realnvp", "glow"])
def test_construction_is_the_identity_up_to_rotation(name):
    """Zero last layers: |x| is |z| times the known starting scales."""
    torch.manual_seed(0)
    flow = FLOWS[name]()
    z = latents(flow, 8)
    x, log_q = flow.forward_with_log_prob(z)
    if name == "glow":
        assert flow.log_prob(x).std() > 0
        assert log_q.sub(log_normal(z)).min() > 0  # s = σ(2) < 1 shrinks volumes
    else:
        assert torch.equal(x, z)
        assert torch.equal(log_q, log_normal(z)) or torch.allclose(log_q, log_normal(z), atol=1e-6)


@pytest.mark.parametrize("name", FLOWS)
def test_bf16_autocast_keeps_densities_in_float32(name):
    flow = far_from_the_start(name, torch.float32)
    z = latents(flow, 16)
    exact = flow.forward_with_log_prob(z)[1]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        x, log_q = flow.forward_with_log_prob(z)
        back = flow.log_prob(x)
    assert x.dtype == log_q.dtype == back.dtype == torch.float32
    assert torch.allclose(log_q, exact, atol=0.1, rtol=0.02)


@pytest.mark.parametrize(
    ("layer", "shape"), [(lambda: InvertibleConv(4), (3, 4, 2, 2)), (lambda: Residual(3, (8,), 0.9), (3, 3))]
)
def test_maps_without_a_network_in_between_stay_in_float32(layer, shape):
    """A 1×1 convolution or a fixed point in bf16 would not be inverted by its inverse."""
    torch.manual_seed(0)
    layer, z = layer(), torch.randn(*shape)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = (*layer(z), *layer.inverse(z))
    for reduced, exact in zip(cast, (*layer(z), *layer.inverse(z)), strict=True):
        assert torch.equal(reduced, exact)


def test_maximum_likelihood_finds_a_shifted_wide_gaussian():
    torch.manual_seed(0)
    flow = RealNVP((2,), couplings=4, hidden=(32, 32))
    mean, std = torch.tensor([2.0, -1.0]), torch.tensor([0.3, 2.0])
    optimiser = torch.optim.Adam(flow.parameters(), 1e-2)
    for _ in range(150):
        x = mean + std * torch.randn(256, 2)
        loss = -flow.log_prob(x).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    entropy = (math.log(2 * math.pi * math.e) + std.log().mean() * 2).item()
    assert -flow.log_prob(mean + std * torch.randn(4000, 2)).mean().item() == pytest.approx(entropy, abs=0.1)


def test_invertible_conv_has_the_determinant_of_its_scales():
    torch.manual_seed(0)
    conv = InvertibleConv(6).double()
    with torch.no_grad():
        conv.log_s.add_(torch.randn(6))
        conv.U.add_(torch.randn(6, 6))  # its diagonal and lower part must not count
        conv.L.add_(torch.randn(6, 6))
    L, U = conv.triangles()
    assert torch.linalg.slogdet(conv.P @ L @ U)[1].item() == pytest.approx(conv.log_s.sum().item())
    rotation = InvertibleConv(6)
    W = rotation.P @ rotation.triangles()[0] @ rotation.triangles()[1]
    assert torch.allclose(W @ W.T, torch.eye(6), atol=1e-5)


class TestActNorm:
    def test_takes_its_scale_from_the_first_data_only(self):
        norm = ActNorm(3)
        x = 5 + 3 * torch.randn(200, 3, 4, 4, generator=torch.Generator().manual_seed(0))
        norm(torch.randn(4, 3, 4, 4))  # sampling before any data leaves it alone
        assert torch.equal(norm.log_s, torch.zeros(3, 1, 1))
        z, _ = norm.inverse(x)
        assert torch.allclose(z.mean((0, 2, 3)), torch.zeros(3), atol=1e-5)
        assert torch.allclose(z.std((0, 2, 3)), torch.ones(3), atol=1e-5)
        before = norm.log_s.clone()
        norm.inverse(10 * x)
        assert torch.equal(norm.log_s, before)

    def test_a_loaded_state_is_not_overwritten(self):
        norm, loaded = ActNorm(1), ActNorm(1)
        norm.inverse(torch.randn(64, 1, 2, 2) * 7)
        loaded.load_state_dict(norm.state_dict())
        loaded.inverse(torch.randn(64, 1, 2, 2))
        assert torch.equal(loaded.log_s, norm.log_s)

    def test_evaluation_does_not_initialise(self):
        norm = ActNorm(1).eval()
        norm.inverse(torch.randn(64, 1, 2, 2) * 7)
        assert norm.log_s.item() == 0


class TestResidualFlow:
    @pytest.mark.parametrize("shape", [(5, 5), (40, 7), (7, 40), (64, 64)])
    def test_spectral_bound_is_above_and_tight(self, shape):
        W = torch.randn(*shape, generator=torch.Generator().manual_seed(0))
        norm = torch.linalg.matrix_norm(W, 2)
        assert norm * (1 - 1e-5) <= spectral_bound(W) <= 1.03 * norm

    def test_blocks_are_contractions(self):
        """Of the matrices, hence proven; and of pairs of points, after weights were blown up."""
        torch.manual_seed(0)
        block = Residual(4, (32, 32), 0.8)
        with torch.no_grad():
            for parameter in block.parameters():
                parameter.mul_(20)
        product = math.prod(torch.linalg.matrix_norm(W, 2).item() for W in block.f.weights())
        assert product <= 0.8 + 1e-4
        assert product > 0.7  # the bound is used, not wasted
        x, y = 3 * torch.randn(2, 2000, 4)
        assert ((block.f(x) - block.f(y)).norm(dim=1) / (x - y).norm(dim=1)).max() < 0.8

    def test_the_activation_never_stretches(self):
        """At x = 2.4 the slope of SiLU is 1.0998: a chain of such points is where a block would break its bound."""
        block = Residual(1, (1, 1), 0.9)
        with torch.no_grad():
            for layer in block.f.layers:
                layer.weight.fill_(5)
                layer.bias.fill_(2.4)
        x = torch.linspace(-3, 3, 2001).requires_grad_()
        (slopes,) = torch.autograd.grad(block.f(x[:, None]).sum(), x)
        assert 0.8 < slopes.max() < 0.9

    def test_lipschitz_must_be_below_one(self):
        with pytest.raises(ValueError, match="`lipschitz` must be strictly between 0 and 1; got 1"):
            ResidualFlow(lipschitz=1.0)


def test_published_sizes():
    def count(model: nn.Module) -> int:
        return sum(p.numel() for p in model.parameters())

    assert count(RealNVP((2,), couplings=3)) == 3 * 67_074
    assert count(RealNVP((2,), couplings=8)) == 536_592
    assert Glow((1, 32, 32), steps=1, hidden=4).layers[0].shapes == [(4, 16, 16), (8, 8, 8), (16, 4, 4)]
    whole = Glow((1, 32, 32), steps=1, hidden=4, factor_out=False)
    assert whole.layers[0].shapes == [(4, 16, 16), (16, 8, 8), (64, 4, 4)]


def test_errors():
    with pytest.raises(ValueError, match="sides divisible by 2\\^levels = 8; got \\(1, 28, 28\\)"):
        Glow((1, 28, 28))
    with pytest.raises(ValueError, match="at least two coordinates"):
        RealNVP((1,))
    with pytest.raises(ValueError, match="`couplings` must be a whole number"):
        RealNVP((2,), couplings=0)
    with pytest.raises(ValueError, match="unconditional"):
        RealNVP((2,))(torch.zeros(1, 2), torch.zeros(1, dtype=torch.long))
