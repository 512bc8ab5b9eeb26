"""Resizing and normalisation of decoded images, both recorded in the protocol of an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from precall.lazy import torch
from precall.samples.images import DECODING, Pixels
from precall.theory.arrays import Tensor

Scale = tuple[tuple[float, ...], tuple[float, ...]]  # mean and standard deviation per channel

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CLIP = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))


@dataclass(frozen=True)
class Resizing:
    """Resize to a square with Pillow, whose filters antialias when an image is reduced."""

    size: int  # side of the square, in pixels
    filter: Literal["bilinear", "bicubic"]
    crop: bool = False  # whether to crop the central square first; otherwise the aspect ratio is not preserved

    def __call__(self, pixels: Pixels) -> Pixels:
        """Return the image as `uint8` of shape (size, size, 3), unchanged if it already has that size."""
        from PIL import Image

        height, width = pixels.shape[:2]
        if height == width == self.size:
            return pixels
        (left, right), (top, bottom) = self._interval(width, height), self._interval(height, width)
        size, resample = (self.size, self.size), Image.Resampling[self.filter.upper()]
        return np.asarray(Image.fromarray(pixels).resize(size, resample, box=(left, top, right, bottom)))

    def of_tensor(self, images: Tensor) -> Tensor:
        """Resize images of shape (n, 3, h, w) from 0 to 255 by the same filter, as a differentiable function.

        Pillow resizes the width and then the height (from version 13 on, the other way round for some images that are
        not square), and each time limits the result to the range of the pixels. Here it is not rounded to whole
        numbers, so that a pixel differs by about 1 at most from that of `__call__`.
        """
        height, width = images.shape[2:]
        across, down = _weights(self, width, height, images.device), _weights(self, height, width, images.device)
        return (down.T @ (images @ across).clamp(0, 255)).clamp(0, 255)

    def weights(self, length: int, other: int) -> npt.NDArray[np.float32]:
        """The weight of each pixel of a row in each pixel of the resized row, shape (length, size)."""
        from PIL import Image

        rows = Image.fromarray(np.eye(length, dtype=np.float32))
        left, right = self._interval(length, other)
        resample = Image.Resampling[self.filter.upper()]
        return np.array(rows.resize((self.size, length), resample, box=(left, 0, right, length)))

    def _interval(self, length: int, other: int) -> tuple[float, float]:
        kept = min(length, other) if self.crop else length
        return (length - kept) / 2, (length + kept) / 2

    @property
    def protocol(self) -> dict[str, Any]:
        shape = "central square" if self.crop else "whole image"
        resize = {"size": self.size, "filter": self.filter, "antialias": True, "shape": shape}
        return {"decoding": DECODING, "resize": resize, "pillow": pillow_version()}


def normalised_images(images: Sequence[Pixels], mean: Sequence[float], std: Sequence[float]) -> npt.NDArray[np.float32]:
    """Normalise images of one size to a float32 array (n, 3, h, w): (x/255 − mean)/std per channel."""
    m, s = np.array(mean, dtype=np.float32), np.array(std, dtype=np.float32)
    scaled = (np.stack(images) / np.float32(255) - m) / s
    return np.ascontiguousarray(scaled.transpose(0, 3, 1, 2))


def normalised_tensor(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """`normalised_images` as a differentiable function of a tensor (n, 3, h, w)."""
    m, s = (_channels(tuple(values), images.device) for values in (mean, std))
    return (images / 255 - m) / s


@lru_cache(maxsize=64)  # a captured CUDA graph may not copy from the host
def _weights(resizing: Resizing, length: int, other: int, device: torch.device) -> Tensor:
    return torch.from_numpy(resizing.weights(length, other)).to(device)


@lru_cache(maxsize=16)
def _channels(values: tuple[float, ...], device: torch.device) -> Tensor:
    return torch.tensor(values, device=device).view(-1, 1, 1)


def pillow_version() -> str:
    import PIL

    return PIL.__version__
