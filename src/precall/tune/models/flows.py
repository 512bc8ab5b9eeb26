"""Normalising flows: invertible generators x = G(z), z ~ N(0, I), whose density is known.

    log q(x) = log N(z; 0, I) − log|det ∂G/∂z|,    z = G⁻¹(x)

Both directions are differentiable in the parameters: `log_prob` serves maximum likelihood, `forward_with_log_prob` the
reparametrised gradients, which flow through x and through log q. The latent is a flat vector; log-determinants are
float32 under autocast too. A flow on images is not bounded to [-1, 1]: its samples can leave the range of the data, and
exact likelihoods need data with noise added to its grey levels.

The layers are written here because normflows' do not fit: its 1×1 convolution runs in the reduced precision of autocast
while its log-determinant does not, its actnorm takes its scale from whatever passes first (z, when one samples before
training), and the log-determinant of its residual block is random outside the plane.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod

import torch
from torch import Tensor, nn
from torch.nn import functional

from precall.theory import checks
from precall.tune.models.mlp import perceptron

Pass = tuple[Tensor, Tensor]  # a batch, and log|det| of the Jacobian of the map that gave it, (n,)


class Layer(nn.Module, ABC):
    """One invertible map: `forward` from z towards x, `inverse` back, each with its own log|det|."""

    @abstractmethod
    def inverse(self, x: Tensor) -> Pass:
        """Back from x towards z."""


class Flow(nn.Module):
    """Layers one after the other, from a standard normal latent vector to samples of `shape`.

    Args:
        shape: of one sample.
        layers: from the latent to the sample, on flat vectors.

    Example:
        >>> import torch
        >>> flow = Flow((2,), [Scaling(2)])
        >>> _ = torch.nn.init.constant_(flow.layers[0].log_s, math.log(2.0))
        >>> x, log_q = flow.forward_with_log_prob(torch.zeros(1, 2))
        >>> round(log_q.item(), 4), round(-math.log(2 * math.pi * 4), 4)  # a normal of standard deviation 2
        (-3.2242, -3.2242)

    References:
        docs/theory.md, Training losses.
    """

    classes = 0

    def __init__(self, shape: tuple[int, ...], layers: Sequence[Layer]) -> None:
        super().__init__()
        self.shape = tuple(shape)
        self.latent_shape: tuple[int, ...] = (prod(shape),)
        self.layers = nn.ModuleList(layers)

    def forward(self, z: Tensor, labels: Tensor | None = None) -> Tensor:
        """x = G(z); `labels` are taken for the sake of the trainer and must be None."""
        if labels is not None:
            raise ValueError("`labels` must be None: flows are unconditional.")
        return self.forward_with_log_prob(z)[0]

    def forward_with_log_prob(self, z: Tensor) -> Pass:
        """(G(z), log q(G(z))), the second of shape (n,)."""
        x, log_q = z, log_normal(z)
        for layer in self.layers:
            x, log_det = layer(x)
            log_q = log_q - log_det
        return x.view(-1, *self.shape), log_q

    def inverse(self, x: Tensor) -> Tensor:
        """z = G⁻¹(x), of shape (n, d)."""
        return self._inverse(x)[0]

    def log_prob(self, x: Tensor) -> Tensor:
        """log q(x), in nats, of shape (n,)."""
        z, log_det = self._inverse(x)
        return log_normal(z) + log_det

    def _inverse(self, x: Tensor) -> Pass:
        z, total = x.flatten(1), x.new_zeros(len(x))
        for layer in reversed(self.layers):
            z, log_det = layer.inverse(z)  # type: ignore[operator]
            total = total + log_det
        return z, total


def log_normal(z: Tensor) -> Tensor:
    """log N(z; 0, I) of every row."""
    return -(z.square().sum(1) + z.shape[1] * math.log(2 * math.pi)) / 2


# ------------------------------------------------------------------------------------------------ NICE and RealNVP

BOUND = 5.0  # of |log s|: one coupling scales by at most e⁵


def bounded(raw: Tensor) -> Tensor:
    """log s, the identity near 0, never beyond ±BOUND."""
    return BOUND * torch.tanh(raw / BOUND)


class Coupling(Layer):
    """Every other coordinate moves by what the others say: x_moved = z_moved ⊙ s(z_kept) + t(z_kept).

    The network takes the whole vector with the moved coordinates at 0 (2-256-256-2 in the plane), and its last layer
    starts at 0, so the map starts as the identity. With `additive`, s = 1 and the log-determinant is 0.
    """

    kept: Tensor
    order: Tensor

    def __init__(self, d: int, hidden: Sequence[int], *, parity: int, additive: bool) -> None:
        super().__init__()
        parities = torch.arange(d) % 2
        moved = (parities != parity).nonzero().squeeze(1)
        kept = (parities == parity).nonzero().squeeze(1)
        self.register_buffer("kept", parities == parity, persistent=False)
        self.register_buffer("order", torch.cat([kept, moved]).argsort(), persistent=False)
        self.parity, self.additive = parity, additive
        self.net = perceptron([d, *hidden, len(moved) * (1 if additive else 2)])
        for parameter in self.net[-1].parameters():
            nn.init.zeros_(parameter)

    def _scale_and_shift(self, x: Tensor) -> tuple[Tensor, Tensor]:
        out: Tensor = self.net(x * self.kept).to(x.dtype)
        if self.additive:
            return torch.zeros_like(out), out
        raw, t = out.chunk(2, 1)
        return bounded(raw), t

    def _joined(self, x: Tensor, moved: Tensor) -> Tensor:
        return torch.cat([x[:, self.parity :: 2], moved], 1)[:, self.order]

    def forward(self, z: Tensor) -> Pass:
        log_s, t = self._scale_and_shift(z)
        return self._joined(z, z[:, 1 - self.parity :: 2] * log_s.exp() + t), log_s.sum(1)

    def inverse(self, x: Tensor) -> Pass:
        log_s, t = self._scale_and_shift(x)
        return self._joined(x, (x[:, 1 - self.parity :: 2] - t) * (-log_s).exp()), -log_s.sum(1)


class Scaling(Layer):
    """x = s ⊙ z, one positive scale a coordinate."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.log_s = nn.Parameter(torch.zeros(d))

    def forward(self, z: Tensor) -> Pass:
        return z * self.log_s.exp(), self.log_s.sum().expand(len(z))

    def inverse(self, x: Tensor) -> Pass:
        return x * (-self.log_s).exp(), -self.log_s.sum().expand(len(x))


def _couplings(shape: tuple[int, ...], couplings: int, hidden: Sequence[int], *, additive: bool) -> list[Layer]:
    d = prod(shape)
    if d < 2:
        raise ValueError(f"`shape` must hold at least two coordinates, one to keep and one to move; got {shape}.")
    number = checks.count("couplings", couplings)
    return [Coupling(d, hidden, parity=i % 2, additive=additive) for i in range(number)]


class NICE(Flow):
    """Additive couplings, which keep volumes, and one scale a coordinate at the end.

    Args:
        shape: of one sample; images are taken as vectors.
        couplings: their number, at least 2 for every coordinate to move.
        hidden: widths of the hidden layers of a coupling.

    Example:
        >>> import torch
        >>> round(NICE((2,)).log_prob(torch.zeros(1, 2)).item(), 4)  # the identity, before training
        -1.8379

    References:
        Dinh et al. (2015); Verine (2024), eq. 2.27.
    """

    def __init__(self, shape: tuple[int, ...] = (2,), *, couplings: int = 4, hidden: Sequence[int] = (256, 256)):
        super().__init__(shape, [*_couplings(shape, couplings, hidden, additive=True), Scaling(prod(shape))])


class RealNVP(Flow):
    """Affine couplings: few of them make a poor model, which has to choose between precision and recall.

    The default is the one of the 8-Gaussians experiment: 3 couplings, each network 2-256-256-2.

    Args:
        shape: of one sample; images are taken as vectors.
        couplings: their number, at least 2 for every coordinate to move.
        hidden: widths of the hidden layers of a coupling.

    Example:
        >>> sum(p.numel() for p in RealNVP(couplings=8).parameters())  # the published "540k"
        536592

    References:
        Dinh et al. (2017); Verine (2024), eq. 2.28, Sec. 5.3.1 and App. C.1.2.
    """

    def __init__(self, shape: tuple[int, ...] = (2,), *, couplings: int = 3, hidden: Sequence[int] = (256, 256)):
        super().__init__(shape, _couplings(shape, couplings, hidden, additive=False))


# ------------------------------------------------------------------------------------------------------------ Glow


class ActNorm(Layer):
    """x = s ⊙ z + b, one scale and one shift a channel.

    The first batch of data that passes backwards in training mode sets them so that z has mean 0 and variance 1.
    """

    initialised: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.log_s = nn.Parameter(torch.zeros(channels, 1, 1))
        self.b = nn.Parameter(torch.zeros(channels, 1, 1))
        self.register_buffer("initialised", torch.tensor(False))
        self._ready = False  # what the buffer says, without asking the device at every step

    def _initialise(self, x: Tensor) -> None:
        if not self.initialised:
            with torch.no_grad():
                self.b.copy_(x.mean((0, 2, 3)).view_as(self.b))
                self.log_s.copy_((x.std((0, 2, 3)) + 1e-6).log().view_as(self.log_s))
                self.initialised.fill_(True)
        self._ready = True

    def _log_det(self, x: Tensor) -> Tensor:
        return (self.log_s.sum() * x.shape[2] * x.shape[3]).expand(len(x))

    def forward(self, z: Tensor) -> Pass:
        return z * self.log_s.exp() + self.b, self._log_det(z)

    def inverse(self, x: Tensor) -> Pass:
        if self.training and not self._ready:
            self._initialise(x)
        return (x - self.b) * (-self.log_s).exp(), -self._log_det(x)


class InvertibleConv(Layer):
    """A 1×1 convolution z = W x by W = P L (U + diag s), L unit lower, U strictly upper: log|det W| = Σ log|s|.

    P and the signs of s are fixed; W starts as a random rotation. Triangular systems are solved on the way to x only:
    maximum likelihood, which takes the most steps, goes the other way.
    """

    P: Tensor
    sign: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        rotation = torch.linalg.qr(torch.randn(channels, channels))[0]
        P, L, U = torch.linalg.lu(rotation)
        self.register_buffer("P", P)
        self.register_buffer("sign", U.diagonal().sign())
        self.L, self.U = nn.Parameter(L.tril(-1)), nn.Parameter(U.triu(1))
        self.log_s = nn.Parameter(U.diagonal().abs().log())

    def _triangles(self) -> tuple[Tensor, Tensor]:
        L = self.L.tril(-1) + torch.eye(len(self.L), device=self.L.device, dtype=self.L.dtype)
        return L, self.U.triu(1) + (self.sign * self.log_s.exp()).diag()

    def _log_det(self, x: Tensor) -> Tensor:
        return (self.log_s.sum() * x.shape[2] * x.shape[3]).expand(len(x))

    def forward(self, z: Tensor) -> Pass:
        with torch.autocast(z.device.type, enabled=False):
            L, U = self._triangles()
            y = torch.linalg.solve_triangular(L, self.P.T, upper=False, unitriangular=True)
            W_inverse = torch.linalg.solve_triangular(U, y, upper=True)
            return functional.conv2d(z, W_inverse[:, :, None, None]), -self._log_det(z)

    def inverse(self, x: Tensor) -> Pass:
        with torch.autocast(x.device.type, enabled=False):
            L, U = self._triangles()
            return functional.conv2d(x, (self.P @ L @ U)[:, :, None, None]), self._log_det(x)


class ConvCoupling(Layer):
    """An affine coupling between the two halves of the channels, s = σ(raw + 2), by convolutions 3×3, 1×1, 3×3."""

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        last = nn.Conv2d(hidden, 2 * (channels - channels // 2), 3, padding=1)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)  # type: ignore[arg-type]
        self.kept = channels // 2
        self.net = nn.Sequential(
            nn.Conv2d(self.kept, hidden, 3, padding=1), nn.ReLU(), nn.Conv2d(hidden, hidden, 1), nn.ReLU(), last
        )

    def _scale_and_shift(self, kept: Tensor) -> tuple[Tensor, Tensor]:
        raw, t = self.net(kept).to(kept.dtype).chunk(2, 1)
        return functional.logsigmoid(raw + 2), t

    def forward(self, z: Tensor) -> Pass:
        kept, moved = z[:, : self.kept], z[:, self.kept :]
        log_s, t = self._scale_and_shift(kept)
        return torch.cat([kept, moved * log_s.exp() + t], 1), log_s.flatten(1).sum(1)

    def inverse(self, x: Tensor) -> Pass:
        kept, moved = x[:, : self.kept], x[:, self.kept :]
        log_s, t = self._scale_and_shift(kept)
        return torch.cat([kept, (moved - t) * (-log_s).exp()], 1), -log_s.flatten(1).sum(1)


class Levels(Layer):
    """Glow's scales: halve the sides into channels, `steps` steps of flow, and set half of the channels aside."""

    def __init__(self, shape: tuple[int, int, int], levels: int, steps: int, hidden: int, factor_out: bool) -> None:
        super().__init__()
        self.shapes: list[tuple[int, int, int]] = []  # what enters the steps of a level
        self.aside: list[int] = []  # how many of its channels go straight to the latent
        self.levels = nn.ModuleList()
        c, h, w = shape
        for level in range(levels):
            c, h, w = 4 * c, h // 2, w // 2
            self.shapes.append((c, h, w))
            self.levels.append(nn.ModuleList(layer for _ in range(steps) for layer in _step(c, hidden)))
            self.aside.append(c // 2 if factor_out and level < levels - 1 else 0)
            c -= self.aside[-1]

    def inverse(self, x: Tensor) -> Pass:
        c, h, w = self.shapes[0]
        x, total = x.view(-1, c // 4, 2 * h, 2 * w), x.new_zeros(len(x))
        latent = []
        for level, aside in zip(self.levels, self.aside, strict=True):
            x = functional.pixel_unshuffle(x, 2)
            for layer in reversed(level):  # type: ignore[call-overload]
                x, log_det = layer.inverse(x)
                total = total + log_det
            latent.append(x[:, :aside].flatten(1))
            x = x[:, aside:]
        return torch.cat([*latent, x.flatten(1)], 1), total

    def forward(self, z: Tensor) -> Pass:
        sizes = [aside * h * w for aside, (_, h, w) in zip(self.aside, self.shapes, strict=True)]
        *latent, x = torch.split(z, [*sizes, z.shape[1] - sum(sizes)], 1)
        total = z.new_zeros(len(z))
        for level, part, (c, h, w) in reversed(list(zip(self.levels, latent, self.shapes, strict=True))):
            x = torch.cat([part, x.flatten(1)], 1).view(-1, c, h, w)
            for layer in level:  # type: ignore[attr-defined]
                x, log_det = layer(x)
                total = total + log_det
            x = functional.pixel_shuffle(x, 2)
        return x.flatten(1), total


def _step(channels: int, hidden: int) -> tuple[Layer, Layer, Layer]:
    return ConvCoupling(channels, hidden), InvertibleConv(channels), ActNorm(channels)


class Glow(Flow):
    """Glow: on every scale, steps of actnorm, invertible 1×1 convolution and affine coupling.

    Args:
        shape: of one image, sides divisible by 2^levels: pad 28 × 28 to 32 × 32 for three levels.
        levels: number of scales.
        steps: of flow on every scale.
        hidden: channels of the couplings' networks.
        factor_out: whether half of the channels leave for the latent after every scale but the last, as in Glow. The
            networks of Verine (2024), on 4×16×16, 16×8×8 and 64×4×4, keep them all.

    Example:
        >>> glow = Glow((1, 8, 8), levels=2, steps=2, hidden=16)
        >>> glow.latent_shape, [shape for shape in glow.layers[0].shapes]
        ((64,), [(4, 4, 4), (8, 2, 2)])

    References:
        Kingma and Dhariwal (2018); Verine (2024), eq. 2.29 with its erratum, App. C.1.3.
    """

    def __init__(
        self,
        shape: tuple[int, int, int] = (1, 32, 32),
        *,
        levels: int = 3,
        steps: int = 16,
        hidden: int = 512,
        factor_out: bool = True,
    ) -> None:
        side = 2 ** checks.count("levels", levels)
        if len(shape) != 3 or shape[1] % side or shape[2] % side:
            raise ValueError(
                f"`shape` must be (channels, height, width) with sides divisible by 2^levels = {side}; got {shape}. "
                "Pad the images or lower `levels`."
            )
        super().__init__(shape, [Levels(shape, levels, steps, hidden, factor_out)])


# --------------------------------------------------------------------------------------------------- residual flow

SQUARINGS = 6  # the bound on a spectral norm is then within 2 % for up to 128 columns
FIXED_POINT_STEPS, TOLERANCE = 400, 1e-7


def spectral_bound(W: Tensor) -> Tensor:
    """An upper bound of the largest singular value, σ₁ ≤ ‖(WᵀW)^m‖_F^(1/2m) ≤ n^(1/4m) σ₁ with m = 2^SQUARINGS.

    By repeated squaring, scaled at every step. Power iteration bounds σ₁ from below, which proves no contraction.

    Example:
        >>> W = torch.diag(torch.tensor([3.0, 1.0]))
        >>> round(spectral_bound(W).item(), 4)
        3.0

    References:
        Delattre et al. (2023).
    """
    G = W.T @ W if W.shape[0] >= W.shape[1] else W @ W.T
    log_norm: Tensor = W.new_zeros(())
    for i in range(SQUARINGS):
        norm = torch.linalg.matrix_norm(G)  # Frobenius
        log_norm = log_norm + norm.log() / 2**i
        G = (G / norm) @ (G / norm)
    log_norm = log_norm + torch.linalg.matrix_norm(G).log() / 2**SQUARINGS
    return (log_norm / 2).exp()


class Contraction(nn.Module):
    """A perceptron of Lipschitz constant at most `lipschitz`, smooth: W/max(1, ‖W‖/c) layers and SiLU/1.1 between."""

    def __init__(self, d: int, hidden: Sequence[int], lipschitz: float) -> None:
        super().__init__()
        widths = [d, *hidden, d]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.bound = lipschitz ** (1 / len(self.layers))  # of every layer

    def weights(self) -> list[Tensor]:
        """The matrices in use, every one of spectral norm at most `bound`."""
        with torch.autocast(next(self.parameters()).device.type, enabled=False):
            return [
                layer.weight / (spectral_bound(layer.weight) / self.bound).clamp(min=1)  # type: ignore[arg-type]
                for layer in self.layers
            ]

    def frozen(self) -> Callable[[Tensor], Tensor]:
        """The map with its matrices worked out once, for the many calls of one pass."""
        pairs = [(W, layer.bias) for W, layer in zip(self.weights(), self.layers, strict=True)]

        def contraction(x: Tensor) -> Tensor:
            for W, b in pairs[:-1]:
                x = functional.silu(functional.linear(x, W, b)) / 1.1  # type: ignore[arg-type]  # the slope of SiLU stays under 1.1
            return functional.linear(x, *pairs[-1])  # type: ignore[arg-type]

        return contraction

    def forward(self, x: Tensor) -> Tensor:
        return self.frozen()(x)


def fixed_point(step: Callable[[Tensor], Tensor], start: Tensor) -> Tensor:
    """The x with step(x) = x, by iteration until the step is below TOLERANCE relative to x."""
    x = start
    for i in range(FIXED_POINT_STEPS):
        x, previous = step(x), x
        if i % 8 == 7 and bool((x - previous).abs().max() <= TOLERANCE * (1 + x.abs().max())):
            break
    return x


class Residual(Layer):
    """z = x + f(x) with Lip(f) < 1; x by iterating x ← z − f(x), its gradient by the implicit function theorem."""

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
    """log det(I + ∂f/∂x) of every row, exact: positive, since Lip(f) < 1."""
    jacobian: Tensor = torch.func.vmap(torch.func.jacrev(f))(x)
    log_det: Tensor = torch.linalg.slogdet(jacobian + torch.eye(x.shape[1], device=x.device, dtype=x.dtype))[1]
    return log_det


def solved(f: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    """The x with x + f(x) = z, differentiable in z and in what f is made of.

    One more step x = z − f(x*) is on the graph; its cotangent g is turned into (I + ∂f/∂x)⁻ᵀ g on the way back, the
    solution of v = g − (∂f/∂x)ᵀ v.
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
    """Residual blocks z = x + f(x), each f a contraction; G⁻¹ is cheap, G is found by iteration.

    Lip(G⁻¹) ≤ (1+L)^blocks and Lip(G) ≤ (1−L)^−blocks. Log-determinants are exact, from the Jacobian: d backward passes
    a block, fit for points and for images of a few dozen pixels. The gradient of `forward` is by implicit
    differentiation and cannot be differentiated again.

    Args:
        shape: of one sample; images are taken as vectors.
        blocks: their number.
        hidden: widths of the hidden layers of a block.
        lipschitz: L, strictly between 0 and 1, kept by a proven bound on every layer.

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
