"""Draw the curves of two models into one figure with a display object in the style of scikit-learn."""

import tempfile
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from precall.integrations.display import PRCurveDisplay

rng = np.random.default_rng(0)
real = rng.normal(size=(500, 2))
narrow, wide = rng.normal(0, 0.5, (500, 2)), rng.normal(0, 2, (500, 2))

ax = Figure(layout="constrained").subplots()
PRCurveDisplay.from_samples(real=real, fake=narrow, estimator="quadratic", name="narrow", ax=ax)
display = PRCurveDisplay.from_samples(real=real, fake=wide, estimator="quadratic", name="wide", ax=ax, linestyle="--")

with tempfile.TemporaryDirectory() as folder:
    picture = Path(folder) / "curves.png"
    display.figure_.savefig(picture)
    print(f"{picture.name}: {picture.stat().st_size:,} bytes,", [line.get_label() for line in ax.get_lines()])
