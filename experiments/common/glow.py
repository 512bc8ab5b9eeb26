"""Glow: a multi-scale normalising flow for images, with actnorm, invertible 1×1 convolutions and affine couplings."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from precall.theory import checks
from precall.tune.models.flows import Flow, Layer, Pass


class ActNorm(Layer):
    """x = s ⊙ z + b, with one scale and one shift per channel.

    The first batch of data in training mode initialises them so that z has mean 0 and variance 1.
    """

    initialised: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.log_s = nn.Parameter(torch.zeros(channels, 1, 1))
        self.b = nn.Parameter(torch.zeros(channels, 1, 1))
        self.register_buffer("initialised", torch.tensor(False))
        self._ready = False  # a copy of the buffer on the host, which avoids synchronising with the device

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
    """A 1×1 convolution z = W x with W = P L (U + diag s), L unit lower, U strictly upper: log|det W| = Σ log|s|.

    P and the signs of s are fixed. W is initialised to a random rotation. Triangular systems are solved only in the
    direction from z to x; maximum likelihood, which takes most of the training steps, uses the other direction.
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

    def triangles(self) -> tuple[Tensor, Tensor]:
        """The factors L and U + diag s of W = P L (U + diag s)."""
        L = self.L.tril(-1) + torch.eye(len(self.L), device=self.L.device, dtype=self.L.dtype)
        return L, self.U.triu(1) + (self.sign * self.log_s.exp()).diag()

    def _log_det(self, x: Tensor) -> Tensor:
        return (self.log_s.sum() * x.shape[2] * x.shape[3]).expand(len(x))

    def forward(self, z: Tensor) -> Pass:
        with torch.autocast(z.device.type, enabled=False):
            L, U = self.triangles()
            y = torch.linalg.solve_triangular(L, self.P.T, upper=False, unitriangular=True)
            W_inverse = torch.linalg.solve_triangular(U, y, upper=True)
            return functional.conv2d(z, W_inverse[:, :, None, None]), -self._log_det(z)

    def inverse(self, x: Tensor) -> Pass:
        with torch.autocast(x.device.type, enabled=False):
            L, U = self.triangles()
            return functional.conv2d(x, (self.P @ L @ U)[:, :, None, None]), self._log_det(x)


class ConvCoupling(Layer):
    """An affine coupling between the two halves of the channels, s = σ(raw + 2), with 3×3, 1×1, 3×3 convolutions."""

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
    """The scales of Glow: each one halves the sides (squeeze), applies `steps` steps of flow and splits channels."""

    def __init__(self, shape: tuple[int, int, int], levels: int, steps: int, hidden: int, factor_out: bool) -> None:
        super().__init__()
        self.shapes: list[tuple[int, int, int]] = []  # input shape of the steps of each level
        self.aside: list[int] = []  # number of channels of each level that go directly to the latent
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
    """Glow: steps of actnorm, invertible 1×1 convolution and affine coupling on several scales.

    The default has 15.7 M parameters for one channel and 22.0 M for three; the thesis's has 85.2 M.

    Args:
        shape: shape of one image; its sides must be divisible by 2^levels. Pad 28 × 28 to 32 × 32 for three levels.
        levels: number of scales.
        steps: number of steps of flow per scale.
        hidden: channels of the couplings' networks.
        factor_out: whether half of the channels go to the latent after every scale but the last, as in Glow. The
            networks of Verine (2024), on 4×16×16, 16×8×8 and 64×4×4, keep all channels.

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
