"""Curves of two models in one picture, the way scikit-learn's displays do it."""

import tempfile
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from precall.integrations.display import PRCurveDisplay

rng = np.random.default_rng(0)
real = rng.normal(size=(500, 2))
timid, wild = rng.normal(0, 0.5, (500, 2)), rng.normal(0, 2, (500, 2))

ax = Figure(layout="constrained").subplots()
PRCurveDisplay.from_samples(real=real, fake=timid, estimator="quadratic", name="timid", ax=ax)
display = PRCurveDisplay.from_samples(real=real, fake=wild, estimator="quadratic", name="wild", ax=ax, linestyle="--")

with tempfile.TemporaryDirectory() as folder:
    picture = Path(folder) / "curves.png"
    display.figure_.savefig(picture)
    print(f"{picture.name}: {picture.stat().st_size:,} bytes,", [line.get_label() for line in ax.get_lines()])
