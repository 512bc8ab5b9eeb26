"""The curve drawn as scikit-learn draws: a display object, made from what one has, that plots into any axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from precall.metrics.assessment import assess
from precall.metrics.registry import ESTIMATORS
from precall.metrics.results import Assessment, CertifiedCurve
from precall.theory import checks
from precall.theory.spectrum import RatioSpectrum

if TYPE_CHECKING:
    from precall.theory.bands import Certificate

__all__ = ["PRCurveDisplay"]


class PRCurveDisplay:
    """The precision-recall curve of a model, with the certificate's band where there is one.

    Make it with `from_samples`, `from_assessment` or `from_spectrum`, which also draw; `plot` draws it again.

    Args:
        spectrum: What the curve is read off.
        certificate: Simultaneous upper band on the true curve, or None.
        name: The model's name, for the legend.

    Attributes:
        ax_: Axes with the curve.
        figure_: Figure of those axes.
        line_: The curve.
        band_: The shaded side up to the certificate, or None.

    Example:
        >>> spectrum = RatioSpectrum.from_masses(p=[0.5, 0.3, 0.2], q=[0.2, 0.3, 0.5])
        >>> from matplotlib.figure import Figure
        >>> display = PRCurveDisplay.from_spectrum(spectrum, name="ours", ax=Figure().subplots())
        >>> display.line_.get_label(), display.ax_.get_xlabel()
        ('ours', 'recall β')
    """

    def __init__(self, spectrum: RatioSpectrum, *, certificate: Certificate | None = None, name: str | None = None):
        self.spectrum, self.certificate, self.name = spectrum, certificate, name

    @classmethod
    def from_samples(
        cls,
        *,
        real: Any,
        fake: Any,
        estimator: str = "auto",
        seed: int = 0,
        name: str | None = None,
        ax: Any = None,
        **line: Any,
    ) -> PRCurveDisplay:
        """Estimate the curve from two sample sets (whatever `precall.assess` takes) and draw it.

        Args:
            real: The data.
            fake: A model's samples.
            estimator: One of `precall.assess`'s curve estimators.
            seed: Seed of everything random.
            name: The model's name, for the legend.
            ax: Axes to draw into; None makes a new figure.
            **line: Style of the line, for matplotlib.
        """
        checks.choice("estimator", estimator, ESTIMATORS)
        return cls.from_assessment(
            assess(real=real, fake=fake, metrics=(estimator,), seed=seed), name=name, ax=ax, **line
        )

    @classmethod
    def from_assessment(
        cls, assessment: Assessment, *, name: str | None = None, ax: Any = None, **line: Any
    ) -> PRCurveDisplay:
        """Draw the curve of an assessment, with its certificate, under its name unless another is given."""
        display = cls(assessment.spectrum, certificate=assessment.certificate, name=name or assessment.name)
        return display.plot(ax, **line)

    @classmethod
    def from_spectrum(
        cls, spectrum: RatioSpectrum, *, name: str | None = None, ax: Any = None, **line: Any
    ) -> PRCurveDisplay:
        """Draw the curve of a spectrum."""
        return cls(spectrum, name=name).plot(ax, **line)

    def plot(self, ax: Any = None, **line: Any) -> PRCurveDisplay:
        """Draw the curve into `ax` (None: a new figure of pyplot's); `line` is its style. Returns itself."""
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots()[1]
        points = CertifiedCurve(self.spectrum, self.certificate).points()
        label = {} if self.name is None else {"label": self.name}
        (self.line_,) = ax.plot(points["beta"], points["alpha"], **{**label, **line})
        self.band_ = None
        if self.certificate is not None:
            outline = [[*points[f"{of}_upper"], *points[of][::-1]] for of in ("beta", "alpha")]
            (self.band_,) = ax.fill(*outline, color=self.line_.get_color(), alpha=0.12, linewidth=0)
        ax.set(xlim=(0, 1.02), ylim=(0, 1.02), xlabel="recall β", ylabel="precision α", aspect="equal")
        if "label" in {**label, **line}:
            ax.legend(loc="lower left")
        self.ax_, self.figure_ = ax, ax.figure
        return self
