"""Draw the curves of two models into one figure with a display object in the style of scikit-learn."""

import tempfile
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from precall import assess


class PRCurveDisplay:
    """The precision-recall curve of an assessment; `ax_`, `figure_` and `line_` are what was drawn."""

    def __init__(self, found):
        self.curve, self.name = found.spectrum.curve(201), found.name

    @classmethod
    def from_samples(cls, *, real, fake, name, ax, **line):
        found = assess(real=real, fake={name: fake}, metrics=("quadratic",))[name]
        return cls(found).plot(ax, **line)

    def plot(self, ax, **line):
        (self.line_,) = ax.plot(self.curve.beta, self.curve.alpha, **{"label": self.name, **line})
        ax.set(xlim=(0, 1.02), ylim=(0, 1.02), xlabel="recall β", ylabel="precision α", aspect="equal")
        ax.legend(loc="lower left")
        self.ax_, self.figure_ = ax, ax.figure
        return self


rng = np.random.default_rng(0)
real = rng.normal(size=(500, 2))
narrow, wide = rng.normal(0, 0.5, (500, 2)), rng.normal(0, 2, (500, 2))

ax = Figure(layout="constrained").subplots()
PRCurveDisplay.from_samples(real=real, fake=narrow, name="narrow", ax=ax)
display = PRCurveDisplay.from_samples(real=real, fake=wide, name="wide", ax=ax, linestyle="--")

with tempfile.TemporaryDirectory() as folder:
    picture = Path(folder) / "curves.png"
    display.figure_.savefig(picture)
    print(f"{picture.name}: {picture.stat().st_size:,} bytes,", [line.get_label() for line in ax.get_lines()])
