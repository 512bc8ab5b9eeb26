"""Display objects draw the curve into the given axes."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

from precall.integrations.display import PRCurveDisplay
from precall.metrics.assessing.assessment import assess
from precall.theory.spectrum import RatioSpectrum

SPECTRUM = RatioSpectrum.from_masses(p=[0.6, 0.4, 0.0], q=[0.0, 0.5, 0.5])


@pytest.fixture(scope="module")
def half():
    rng = np.random.default_rng(0)
    real, fake = rng.normal(size=(150, 2)), rng.normal(size=(150, 2))
    return real, np.abs(fake)


def test_precision_is_drawn_over_recall():
    display = PRCurveDisplay.from_spectrum(SPECTRUM, ax=Figure().subplots())
    recall, precision = display.line_.get_data()
    assert max(precision) == pytest.approx(SPECTRUM.max_precision, abs=0.01)
    assert max(recall) == pytest.approx(SPECTRUM.max_recall, abs=0.01)
    assert SPECTRUM.max_precision != SPECTRUM.max_recall
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("recall β", "precision α")
    assert display.band_ is None
    assert display.ax_.get_legend() is None


def test_an_assessment_brings_its_certificate_and_its_name(half):
    found = assess(real=half[0], fake={"ours": half[1]}, metrics=("linear",))["ours"]
    display = PRCurveDisplay.from_assessment(found, ax=Figure().subplots(), color="red")
    assert display.line_.get_label() == "ours"
    assert display.line_.get_color() == "red"
    assert display.band_.get_xy()[:, 1].max() >= max(display.line_.get_ydata())


def test_samples_give_the_curve_of_assess(half):
    figure = Figure()
    display = PRCurveDisplay.from_samples(
        real=half[0], fake=half[1], estimator="clusters", ax=figure.subplots(), name="a"
    )
    expected = assess(real=half[0], fake=half[1], metrics=("clusters",)).spectrum.curve(201)
    np.testing.assert_allclose(display.line_.get_ydata(), expected.alpha)
    assert display.figure_ is figure
    with pytest.raises(ValueError, match="`estimator` must be one of auto"):
        PRCurveDisplay.from_samples(real=half[0], fake=half[1], estimator="fid")


def test_it_plots_again_into_a_figure_of_its_own():
    first = PRCurveDisplay(SPECTRUM, name="a").plot()
    second = first.plot(first.ax_, label="again")
    assert len(second.ax_.get_lines()) == 2
    assert second.line_.get_label() == "again"
    plt.close(first.figure_)
