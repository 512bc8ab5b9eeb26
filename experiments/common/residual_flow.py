"""Residual flows: invertible residual blocks z = x + f(x), where every f is a contraction by construction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod

import torch
from torch import Tensor, nn
from torch.nn import functional

from precall.theory import checks
from precall.tune.models.flows import Flow, Layer, Pass

SQUARINGS = 6  # the bound on a spectral norm is then within 2 % for up to 128 columns
FIXED_POINT_STEPS, TOLERANCE = 400, 1e-7


def spectral_bound(W: Tensor) -> Tensor:
    """An upper bound of the largest singular value, σ₁ ≤ ‖(WᵀW)^m‖_F^(1/2m) ≤ n^(1/4m) σ₁ with m = 2^SQUARINGS.

    It is computed by repeated squaring with rescaling. Power iteration would give a lower bound, which does not prove
    that the map is a contraction.

    Example:
        >>> W = torch.diag(torch.tensor([3.0, 1.0]))
        >>> round(spectral_bound(W).item(), 4), round(spectral_bound(0 * W).item(), 4)
        (3.0, 0.0)

    References:
        Delattre et al. (2023).
    """
    G = W.T @ W if W.shape[0] >= W.shape[1] else W @ W.T
    log_norm: Tensor = W.new_zeros(())
    for i in range(SQUARINGS):
        norm = _frobenius(G)
        log_norm = log_norm + norm.log() / 2**i
        G = (G / norm) @ (G / norm)
    log_norm = log_norm + _frobenius(G).log() / 2**SQUARINGS
    return (log_norm / 2).exp()


def _frobenius(G: Tensor) -> Tensor:
    """The Frobenius norm, positive even for a matrix of zeros, so that its logarithm has a gradient."""
    norm: Tensor = torch.linalg.matrix_norm(G)
    return norm.clamp(min=torch.finfo(G.dtype).tiny)


class Contraction(nn.Module):
    """A smooth MLP of Lipschitz constant at most `lipschitz`: layers W/max(1, ‖W‖/c), with SiLU/1.1 in between."""

    def __init__(self, d: int, hidden: Sequence[int], lipschitz: float) -> None:
        super().__init__()
        widths = [d, *hidden, d]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.bound = lipschitz ** (1 / len(self.layers))  # spectral norm of each layer

    def weights(self) -> list[Tensor]:
        """The normalised matrices, each of spectral norm at most `bound`."""
        with torch.autocast(next(self.parameters()).device.type, enabled=False):
            return [
                layer.weight / (spectral_bound(layer.weight) / self.bound).clamp(min=1)  # type: ignore[arg-type]
                for layer in self.layers
            ]

    def frozen(self) -> Callable[[Tensor], Tensor]:
        """The map with its matrices computed once, for the many calls of one pass."""
        pairs = [(W, layer.bias) for W, layer in zip(self.weights(), self.layers, strict=True)]

        def contraction(x: Tensor) -> Tensor:
            for W, b in pairs[:-1]:
                x = functional.silu(functional.linear(x, W, b)) / 1.1  # type: ignore[arg-type]  # the slope of SiLU is below 1.1
            return functional.linear(x, *pairs[-1])  # type: ignore[arg-type]

        return contraction

    def forward(self, x: Tensor) -> Tensor:
        return self.frozen()(x)


def fixed_point(step: Callable[[Tensor], Tensor], start: Tensor) -> Tensor:
    """The solution of step(x) = x, by iteration until the relative change is below TOLERANCE."""
    x = start
    for i in range(FIXED_POINT_STEPS):
        x, previous = step(x), x
        if i % 8 == 7 and bool((x - previous).abs().max() <= TOLERANCE * (1 + x.abs().max())):
            break
    return x


class Residual(Layer):
    """z = x + f(x) with Lip(f) < 1.

    x is computed by iterating x ← z − f(x), and its gradient by the implicit function theorem.
    """

    def __init__(self, d: int, hidden: Sequence[int], lipschitz: float) -> None:
        super().__init__()
        self.f = Contraction(d, hidden, lipschitz)

    def inverse(self, x: Tensor) -> Pass:
        with torch.autocast(x.device.type, enabled=False):
            f = self.f.frozen()
            return x + f(x), log_det_identity_plus(f, x)

    def forward(self, z: Tensor) -> Pass:
        with torch.autocast(z.device.type, enabled=False):
            f = self.f.frozen()
            x = solved(f, z)
            return x, -log_det_identity_plus(f, x)


def log_det_identity_plus(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Exact log det(I + ∂f/∂x) of each row; the determinant is positive, since Lip(f) < 1."""
    jacobian: Tensor = torch.func.vmap(torch.func.jacrev(f))(x)
    log_det: Tensor = torch.linalg.slogdet(jacobian + torch.eye(x.shape[1], device=x.device, dtype=x.dtype))[1]
    return log_det


def solved(f: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    """The solution of x + f(x) = z, differentiable in z and in the parameters of f.

    One more step x = z − f(x*) is recorded in the graph. The backward pass replaces its cotangent g by
    (I + ∂f/∂x)⁻ᵀ g, the solution of v = g − (∂f/∂x)ᵀ v.
    """
    with torch.no_grad():
        root = fixed_point(lambda x: z - f(x), z)
    x = z - f(root)
    if x.requires_grad:
        with torch.enable_grad():
            at = root.clone().requires_grad_()
            image = f(at)

        def through(g: Tensor) -> Tensor:
            return fixed_point(lambda v: g - torch.autograd.grad(image, at, v, retain_graph=True)[0], g)

        x.register_hook(through)  # type: ignore[no-untyped-call]
    return x


class ResidualFlow(Flow):
    """Residual blocks z = x + f(x), where each f is a contraction. G⁻¹ is explicit, G is computed by iteration.

    Lip(G⁻¹) ≤ (1+L)^blocks and Lip(G) ≤ (1−L)^−blocks. Log-determinants are computed exactly from the Jacobian, which
    takes d backward passes per block and is suitable for points and images of a few dozen pixels. The gradient of
    `forward` uses implicit differentiation and cannot be differentiated again.

    Args:
        shape: shape of one sample; images are treated as vectors.
        blocks: number of blocks.
        hidden: widths of the hidden layers of a block.
        lipschitz: L, strictly between 0 and 1, guaranteed by an upper bound for each layer.

    Example:
        >>> flow = ResidualFlow((2,), blocks=2, hidden=(16,))
        >>> len(flow.layers), flow.latent_shape
        (2, (2,))

    References:
        Behrmann et al. (2019); Chen et al. (2019); Verine (2024), eq. 2.30; docs/theory.md, Lipschitz bounds.
    """

    def __init__(
        self,
        shape: tuple[int, ...] = (2,),
        *,
        blocks: int = 8,
        hidden: Sequence[int] = (64, 64),
        lipschitz: float = 0.9,
    ) -> None:
        checks.level("lipschitz", lipschitz)
        number = checks.count("blocks", blocks)
        super().__init__(shape, [Residual(prod(shape), hidden, lipschitz) for _ in range(number)])
