"""A display object for the precision-recall curve, in the style of scikit-learn's displays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from precall.metrics.assessing.assessment import assess
from precall.metrics.assessing.registry import ESTIMATORS
from precall.metrics.scores.results import Assessment, CertifiedCurve
from precall.report.figures import literal
from precall.theory import checks
from precall.theory.spectrum import RatioSpectrum

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Polygon

    from precall.theory.bands import Certificate

__all__ = ["PRCurveDisplay"]


class PRCurveDisplay:
    """The precision-recall curve of a model, with the certificate's band if there is one.

    Create the display with `from_samples`, `from_assessment` or `from_spectrum`, which also draw the curve. Call `plot`
    to draw it again.

    Args:
        spectrum: The ratio spectrum that defines the curve.
        certificate: Simultaneous upper band on the true curve, or None.
        name: Name of the model in the legend.

    Attributes:
        ax_: Axes that contain the curve.
        figure_: Figure that contains the axes.
        line_: The curve.
        band_: The shaded area between the curve and the certificate, or None.

    Example:
        >>> spectrum = RatioSpectrum.from_masses(p=[0.5, 0.3, 0.2], q=[0.2, 0.3, 0.5])
        >>> from matplotlib.figure import Figure
        >>> display = PRCurveDisplay.from_spectrum(spectrum, name="ours", ax=Figure().subplots())
        >>> display.line_.get_label(), display.ax_.get_xlabel()
        ('ours', 'recall β')
    """

    ax_: Axes
    figure_: Figure | SubFigure
    line_: Line2D
    band_: Polygon | None

    def __init__(
        self, spectrum: RatioSpectrum, *, certificate: Certificate | None = None, name: str | None = None
    ) -> None:
        self.spectrum, self.certificate, self.name = spectrum, certificate, name

    @classmethod
    def from_samples(
        cls,
        *,
        real: object,
        fake: object,
        estimator: str = "auto",
        seed: int = 0,
        name: str | None = None,
        ax: Axes | None = None,
        **line: object,
    ) -> PRCurveDisplay:
        """Estimate the curve from two sample sets and draw it.

        Args:
            real: The data; any source that `precall.assess` accepts.
            fake: The samples of one model.
            estimator: Name of one of the curve estimators of `precall.assess`.
            seed: Random seed.
            name: Name of the model in the legend.
            ax: Axes to draw into; None creates a new figure.
            **line: Line properties for matplotlib.
        """
        checks.choice("estimator", estimator, ESTIMATORS)
        return cls.from_assessment(
            assess(real=real, fake=fake, metrics=(estimator,), seed=seed), name=name, ax=ax, **line
        )

    @classmethod
    def from_assessment(
        cls, assessment: Assessment, *, name: str | None = None, ax: Axes | None = None, **line: object
    ) -> PRCurveDisplay:
        """Draw the curve of an assessment with its certificate. The default `name` is the name of the assessment."""
        display = cls(assessment.spectrum, certificate=assessment.certificate, name=name or assessment.name)
        return display.plot(ax, **line)

    @classmethod
    def from_spectrum(
        cls, spectrum: RatioSpectrum, *, name: str | None = None, ax: Axes | None = None, **line: object
    ) -> PRCurveDisplay:
        """Draw the curve of a spectrum."""
        return cls(spectrum, name=name).plot(ax, **line)

    def plot(self, ax: Axes | None = None, **line: object) -> PRCurveDisplay:
        """Draw the curve into `ax` (None creates a new pyplot figure) with the line properties `line`; return self."""
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots()[1]
        points = CertifiedCurve(self.spectrum, self.certificate).points()
        style: dict[str, Any] = ({} if self.name is None else {"label": literal(self.name)}) | line
        (self.line_,) = ax.plot(points["beta"], points["alpha"], **style)
        self.band_ = None
        if self.certificate is not None:
            outline = [[*points[f"{of}_upper"], *points[of][::-1]] for of in ("beta", "alpha")]
            (self.band_,) = ax.fill(*outline, color=self.line_.get_color(), alpha=0.12, linewidth=0)
        ax.set(xlim=(0, 1.02), ylim=(0, 1.02), xlabel="recall β", ylabel="precision α", aspect="equal")
        if "label" in style:
            ax.legend(loc="lower left")
        self.ax_, self.figure_ = ax, ax.figure
        return self
