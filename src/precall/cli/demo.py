"""`precall demo`: four models of handwritten digits, on data that comes with scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from precall.cli.console import bars, emit, fitted
from precall.samples import open_samples

METRICS = ("auto", "clusters", "neighbors", "copies", "fid", "c2st")


def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the report.")] = Path("precall-report"),
    seed: Annotated[int, typer.Option(help="Seed of the models and of the assessment.")] = 1,
) -> None:
    """Assess four simulated models of handwritten digits and write the report.

    The data are one half of scikit-learn's digits. Three models sample from the other half: one drops four classes, one
    replaces 30 % of its samples by blends of two digits, and one produces three classes too often. The fourth model
    copies the data.

    \b
    Examples:
      precall demo
    """
    from precall.metrics.assessing.assessment import assess
    from precall.report import folder

    folder.check(out)
    real, models = _digits(seed)
    with bars() as progress:
        found = assess(real=real, fake=models, metrics=METRICS, seed=seed, progress=progress)
    page = folder.write(found, out, command=f"precall demo --out {out} --seed {seed}")
    emit(repr(found))
    emit(fitted(f"\nOpen {page} to see which samples are missed and which are invented."))


def _digits(seed: int) -> tuple[Any, dict[str, Any]]:
    """One half of the digits as data, and models made from the other half."""
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(seed)
    images, labels = load_digits(return_X_y=True)
    # Grey levels are integers, so a classifier could detect any model that produces other values. Noise prevents this.
    images = images + rng.uniform(size=images.shape)
    order = rng.permutation(len(images))
    data, rest = order[: len(order) // 2], order[len(order) // 2 :]
    rare = (labels[rest] < 7) & (rng.random(len(rest)) < 0.8)
    first, second = rng.permutation(rest), rng.permutation(rest)
    blended = np.where(rng.random((len(rest), 1)) < 0.3, (images[first] + images[second]) / 2, images[first])
    models = {
        "drops four classes": images[rest[labels[rest] < 6]],
        "invents blends": blended,
        "favours three classes": images[rest[~rare]],
        "copies the data": images[rng.permutation(data)],
    }
    return _pictured(images[data]), {name: _pictured(features) for name, features in models.items()}


def _pictured(features: Any) -> Any:
    """Digits with their 64 pixels as features and with pictures for the page."""
    from precall.metrics.inputs.sides import Side
    from precall.metrics.scores.record import SideRecord

    pictures = (features.clip(0, 17) * (255 / 17)).astype(np.uint8).reshape(-1, 8, 8)
    return Side(features, open_samples(pictures), np.arange(len(features)), SideRecord(encoder="8×8 pixels"))
