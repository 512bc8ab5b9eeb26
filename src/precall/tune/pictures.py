"""Pictures of samples during training: a grid of images, or a scatter plot of points in the plane."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import numpy.typing as npt
from torch import Tensor

from precall.files import write_atomically

SIDE = 10  # images per row


def save(samples: Tensor, path: Path) -> bool:
    """Write a PNG of image samples (NCHW in [−1, 1]) or of points in the plane. Samples of other shapes are skipped.

    Returns:
        Whether a picture was written.
    """
    if samples.ndim == 4 and samples.shape[1] in (1, 3):
        return _images(grid(samples[: SIDE * SIDE].numpy()), path)
    if samples.ndim == 2 and samples.shape[1] == 2:
        return _points(samples.numpy(), path)
    return False


def grid(images: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """Images in [−1, 1], NCHW, as one HWC uint8 picture with `SIDE` images per row.

    Example:
        >>> grid(np.zeros((12, 1, 8, 8), dtype=np.float32)).shape
        (16, 80, 1)
    """
    n, channels, height, width = images.shape
    rows = -(-n // SIDE)
    sheet = np.full((rows * SIDE, channels, height, width), -1, dtype=np.float32)
    sheet[:n] = images
    tiled = sheet.reshape(rows, SIDE, channels, height, width).transpose(0, 3, 1, 4, 2)
    return np.asarray(np.clip(tiled.reshape(rows * height, SIDE * width, channels) * 127.5 + 127.5, 0, 255), np.uint8)


def _images(sheet: npt.NDArray[np.uint8], path: Path) -> bool:
    from PIL import Image

    picture = BytesIO()
    Image.fromarray(sheet[..., 0] if sheet.shape[-1] == 1 else sheet).save(picture, "png")
    write_atomically(path, picture.getvalue())
    return True


def _points(points: npt.NDArray[np.float32], path: Path) -> bool:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4, 4))
    axes = figure.subplots()
    axes.scatter(points[:, 0], points[:, 1], s=2, alpha=0.5)
    axes.set_aspect("equal")
    picture = BytesIO()
    figure.savefig(picture, dpi=100, format="png")
    write_atomically(path, picture.getvalue())
    return True
