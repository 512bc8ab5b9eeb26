"""`precall demo`: digits against four models of them, on data that comes with scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from precall.cli.assess import table
from precall.cli.manners import bars, emit

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

METRICS = ("auto", "clusters", "neighbors", "copies", "fid", "c2st")


def demo(
    out: Annotated[Path, typer.Option(help="Folder for report.html and results.json.")] = Path("precall-report"),
    seed: Annotated[int, typer.Option(help="Seed of the models and of the assessment.")] = 0,
) -> None:
    """Assess four made-up models of handwritten digits, and write the page that shows why.

    The data are half of scikit-learn's digits. The models draw on the other half: one drops four classes, one adds
    noise, one makes too much of three classes. A fourth copies the data.

    Example:

      precall demo
    """
    from precall.assess.assessment import assess
    from precall.cli.assess import write

    real, models = _digits(seed)
    with bars() as progress:
        found = assess(real=real, fake=models, metrics=METRICS, seed=seed, progress=progress)
    write(found, out, f"precall demo --out {out} --seed {seed}")
    emit(table(found))
    emit(f"\nOpen {out / 'report.html'} to see what is missed and what is invented.")


def _digits(seed: int) -> tuple[Any, dict[str, Any]]:
    """Half of the digits as data, and models made from the other half."""
    import numpy as np
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(seed)
    images, labels = load_digits(return_X_y=True)
    images = images + rng.uniform(size=images.shape)  # grey levels are whole: a classifier would tell any noise by that
    order = rng.permutation(len(images))
    data, rest = order[: len(order) // 2], order[len(order) // 2 :]
    favoured = rng.choice(rest, len(rest), p=_weights(labels[rest]))
    models = {
        "drops four classes": images[rest[labels[rest] < 6]],
        "adds noise": images[rest] + rng.normal(0, 2, (len(rest), 64)),
        "favours three classes": images[favoured],
        "copies the data": images[rng.choice(data, len(rest))] + rng.normal(0, 0.1, (len(rest), 64)),
    }
    return _pictured(images[data]), {name: _pictured(features) for name, features in models.items()}


def _weights(labels: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Classes 0 to 2 five times as often as the others."""
    import numpy as np

    weights = np.where(labels < 3, 5.0, 1.0)
    return np.asarray(weights / weights.sum())


def _pictured(features: npt.NDArray[np.float64]) -> Any:
    """The 64 pixels are the features; the pictures go along for the page."""
    import numpy as np

    from precall.assess.inputs import Side
    from precall.samples import open_samples

    pictures = (features.clip(0, 17) * (255 / 17)).astype(np.uint8).reshape(-1, 8, 8)
    return Side(features, open_samples(pictures), np.arange(len(features)), {"encoder": "the 64 pixels of a digit"})
