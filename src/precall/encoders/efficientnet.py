"""EfficientNet-Lite0, the network of the default encoder, with batch normalisation folded into the convolutions."""

from __future__ import annotations

from itertools import pairwise
from math import ceil

from torch import Tensor, cat, nn
from torch.nn import functional

# the stages: (blocks, kernel, stride, expansion, channels); Tan and Le (2019), Table 1, without squeeze-and-excitation
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
POOLED = (3, 4)  # indices of the stages that are read; later ones are left out
STEM = 32  # channels of the first convolution
TINY = 1e-4  # added to variances, so that the gradient of a constant channel is finite


class SameConv(nn.Conv2d):
    """A convolution padded as in TensorFlow: ⌈h / stride⌉ rows, and the odd row of padding comes last."""

    def forward(self, x: Tensor) -> Tensor:
        (kernel, _), (stride, _) = self.kernel_size, self.stride
        missing = [max(0, (ceil(side / stride) - 1) * stride + kernel - side) for side in x.shape[:1:-1]]
        padded = functional.pad(x, [part for gap in missing for part in (gap // 2, gap - gap // 2)])
        return super().forward(padded)


class InvertedResidual(nn.Module):
    """An inverted residual block: expand the channels, filter each of them, and project them back."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        self.expand = SameConv(inputs, wide, 1) if expansion > 1 else None
        self.filter = SameConv(wide, wide, kernel, stride, groups=wide)
        self.project = SameConv(wide, outputs, 1)
        self.skips = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        wide = x if self.expand is None else functional.relu6(self.expand(x))
        found: Tensor = self.project(functional.relu6(self.filter(wide)))
        return x + found if self.skips else found


class PooledStages(nn.Module):
    """Mean and twice the standard deviation, over positions, of each channel of the stages `POOLED`."""

    def __init__(self) -> None:
        super().__init__()
        widths = [STEM, *(stage[-1] for stage in STAGES)]
        shapes = [(blocks - 1, *shape) for blocks, *shape, _ in STAGES[: max(POOLED) + 1]]
        self.stem = SameConv(3, STEM, 3, 2)
        self.stages = nn.ModuleList(
            nn.Sequential(
                InvertedResidual(inputs, outputs, *shape),
                *(InvertedResidual(outputs, outputs, shape[0], 1, 6) for _ in range(n)),
            )
            for (inputs, outputs), (n, *shape) in zip(pairwise(widths), shapes, strict=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        x, found = functional.relu6(self.stem(x)), []
        for index, stage in enumerate(self.stages):
            x = stage(x)
            if index in POOLED:  # deviations vary half as much as means
                found += [x.mean((2, 3)), 2 * (x.var((2, 3), correction=0) + TINY).sqrt()]
        return cat(found, dim=1)
