"""Pictures of samples during training: a grid of images, or a scatter plot of points in the plane."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from torch import Tensor

from precall.files import write_atomically
from precall.printing import plain_pictures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from precall.metrics.scores.score import Score

SIDE = 10  # images per row
PANEL = 5  # images per row of a panel beside others
LEAST = 48  # pixels per side below which images are enlarged
GAP = 4  # grey pixels between images


def save(samples: Tensor, path: Path) -> bool:
    """Write a PNG of image samples (NCHW in [−1, 1]) or of points in the plane, or return False for other shapes."""
    if _are_images(samples):
        return _images(legible(samples[: SIDE * SIDE].numpy()), path)
    if samples.ndim == 2 and samples.shape[1] == 2:
        return _points(samples.numpy(), path)
    return False


def _are_images(samples: Tensor) -> bool:
    return samples.ndim == 4 and samples.shape[1] in (1, 3)


def legible(images: npt.NDArray[np.float32], side: int = SIDE) -> npt.NDArray[np.uint8]:
    """A grid, `side` images per row, in which small images are enlarged by a whole factor, with grey lines between."""
    factor = max(1, LEAST // min(images.shape[2:]))
    large = images.repeat(factor, axis=2).repeat(factor, axis=3)
    return grid(np.pad(large, ((0, 0), (0, 0), (0, GAP), (0, GAP))), side)


def grid(images: npt.NDArray[np.float32], side: int = SIDE) -> npt.NDArray[np.uint8]:
    """Images in [−1, 1], NCHW, as one HWC uint8 picture with `side` images per row."""
    n, channels, height, width = images.shape
    rows = -(-n // side)
    sheet = np.full((rows * side, channels, height, width), -1, dtype=np.float32)
    sheet[:n] = images
    tiled = sheet.reshape(rows, side, channels, height, width).transpose(0, 3, 1, 4, 2)
    return np.asarray(np.clip(tiled.reshape(rows * height, side * width, channels) * 127.5 + 127.5, 0, 255), np.uint8)


def _images(sheet: npt.NDArray[np.uint8], path: Path) -> bool:
    from PIL import Image

    picture = BytesIO()
    Image.fromarray(sheet[..., 0] if sheet.shape[-1] == 1 else sheet).save(picture, "png")
    write_atomically(path, picture.getvalue())
    return True


@plain_pictures()
def _points(points: npt.NDArray[np.float32], path: Path) -> bool:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4, 4))
    axes = figure.subplots()
    axes.scatter(points[:, 0], points[:, 1], s=2, alpha=0.5)
    axes.set_aspect("equal")
    return write(figure, path)


@plain_pictures()
def dial_figure(samples: Mapping[float, Tensor], scores: Mapping[float, Mapping[str, Score]], real: Tensor) -> Figure:
    """A dial: precision and recall at each λ with their intervals, and samples at each λ, before data in grey."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4 * (1 + len(samples)), 4.2), layout="constrained")
    plane, *others = figure.subplots(1, 1 + len(samples))
    _plane(plane, scores)
    for axes in others[1:]:
        axes.sharex(others[0])
        axes.sharey(others[0])
    for axes, (lam, some) in zip(others, samples.items(), strict=True):
        axes.set(title=f"λ = {lam:g}", xticks=[], yticks=[])
        _shown(axes, some, real)
    return figure


def _plane(axes: Axes, scores: Mapping[float, Mapping[str, Score]]) -> None:
    """Precision over recall, one point with intervals per λ."""
    points = {lam: (one["recall"], one["precision"]) for lam, one in scores.items()}
    x, y = ([pair[i].value for pair in points.values()] for i in (0, 1))
    across, up = (np.transpose([pair[i].reach for pair in points.values()]) for i in (0, 1))
    axes.errorbar(x, y, xerr=across, yerr=up, fmt="o-", elinewidth=0.8)
    for lam, right, above in zip(points, x, y, strict=True):
        axes.annotate(f"λ = {lam:g}", (right, above), textcoords="offset points", xytext=(8, 8))
    axes.set(xlabel="recall", ylabel="precision", title="against held-out data")
    axes.margins(0.15)
    axes.grid(alpha=0.3)


def _shown(axes: Axes, samples: Tensor, real: Tensor) -> None:
    """Samples in a panel: a grid of images, or points in front of the data."""
    if _are_images(samples):
        axes.imshow(legible(samples[: PANEL * PANEL].numpy(), PANEL).squeeze(), cmap="gray", vmin=0, vmax=255)
    elif samples.ndim == 2 and samples.shape[1] == 2:
        axes.scatter(real[:, 0], real[:, 1], s=2, color="0.75")
        axes.scatter(samples[:, 0], samples[:, 1], s=2, alpha=0.5)
        axes.set_aspect("equal")


@plain_pictures()
def write(figure: Figure, path: Path) -> bool:
    picture = BytesIO()
    figure.savefig(picture, dpi=100, format="png")
    write_atomically(path, picture.getvalue())
    return True
