"""Resizing and normalisation of decoded images, both recorded in the protocol of an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from precall.samples.images import DECODING, Pixels

Scale = tuple[tuple[float, ...], tuple[float, ...]]  # mean and standard deviation per channel

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CLIP = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))


@dataclass(frozen=True)
class Resizing:
    """Resize to a square with Pillow, whose filters antialias when an image is reduced.

    Attributes:
        size: Side of the square, in pixels.
        filter: `"bilinear"` or `"bicubic"`.
        crop: Whether to crop the central square first; otherwise the aspect ratio is not preserved.

    Example:
        >>> Resizing(2, "bilinear")(np.full((5, 9, 3), 7, np.uint8)).tolist()[0][0]
        [7, 7, 7]
    """

    size: int
    filter: Literal["bilinear", "bicubic"]
    crop: bool = False

    def __call__(self, pixels: Pixels) -> Pixels:
        """Return the image as `uint8` of shape (size, size, 3), unchanged if it already has that size."""
        from PIL import Image

        height, width = pixels.shape[:2]
        if height == width == self.size:
            return pixels
        side = min(height, width)
        left, top = (width - side) / 2, (height - side) / 2
        box = (left, top, left + side, top + side) if self.crop else None
        resample = Image.Resampling[self.filter.upper()]
        return np.asarray(Image.fromarray(pixels).resize((self.size, self.size), resample, box=box))

    @property
    def protocol(self) -> dict[str, Any]:
        """Decoding and resizing, as JSON values."""
        shape = "central square" if self.crop else "whole image"
        resize = {"size": self.size, "filter": self.filter, "antialias": True, "shape": shape}
        return {"decoding": DECODING, "resize": resize, "pillow": pillow_version()}


def normalised_images(images: Sequence[Pixels], mean: Sequence[float], std: Sequence[float]) -> npt.NDArray[np.float32]:
    """Normalise images of one size to a float32 array (n, 3, h, w): (x/255 − mean)/std per channel."""
    m, s = np.array(mean, dtype=np.float32), np.array(std, dtype=np.float32)
    scaled = (np.stack(images) / np.float32(255) - m) / s
    return np.ascontiguousarray(scaled.transpose(0, 3, 1, 2))


def pillow_version() -> str:
    """The version of Pillow, since decoders and filters differ between versions."""
    import PIL

    return PIL.__version__
