"""What a metric is: its name, the scores it yields, what it needs, and how it is computed.

A file that computes a metric declares it as one `Metric`; `registry.py` lists them. Everything else that must know
about metrics (the defaults, the table, the page, the gates of the command line, docs/metrics.md) reads the registry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from precall.metrics.inputs.parallel import LIBRARIES
from precall.metrics.scores.score import CurveIntervals, Interval, Score, ScoreInfo, readings

if TYPE_CHECKING:
    from precall.metrics.assessing.run import Run
    from precall.theory.spectrum import RatioSpectrum


@dataclass(frozen=True)
class Found:
    """The result of a metric for one model.

    Attributes:
        scores: Scores by name.
        spectrum: The curve, for a curve estimator.
        curve_intervals: Intervals of its points, if they are known.
    """

    scores: Mapping[str, Score] = field(default_factory=dict)
    spectrum: RatioSpectrum | None = None
    curve_intervals: CurveIntervals | None = None


class Sized(Protocol):
    """Anything that knows the number of real and of fake samples."""

    @property
    def sizes(self) -> tuple[int, int]: ...


@dataclass(frozen=True)
class Card:
    """What to know before a metric is reported: the text of its page in the documentation.

    Attributes:
        measures: The question that it answers.
        formula: Its definition in LaTeX, one formula per line.
        symbols: What the symbols of the formula mean.
        chance: Its value if the model were the data.
        protocol: The choices that change its value.
        limits: What it cannot show.
        misleads: When it is far from what a reader would conclude.
        papers: Papers to cite, as `precall cite` names them.
        figure: What varies in its figure: the "shift" of a Gaussian, the share of "copies", or "none".
    """

    measures: str
    formula: str
    symbols: str
    chance: str
    protocol: str
    limits: str
    misleads: str
    papers: tuple[str, ...]
    figure: Literal["shift", "copies", "none"] = "shift"


@dataclass(frozen=True)
class Metric:
    """A metric: its name, its scores, its requirements and its computation, in one object.

    Attributes:
        name: Its name in `metrics=` and `--metrics`.
        reads: What it measures, for the documentation.
        scores: The scores it yields.
        interval: How their intervals are computed, for the documentation.
        compute: Computes it from the shared work of a run.
        needs: What it needs beyond features, for the documentation; empty if nothing.
        default: Whether it is computed when no metrics are named.
        is_curve: Whether it estimates the whole precision-recall curve.
        from_statistics: Whether stored means and covariances are enough.
        fewest: Fewest samples per side.
        shares: Name of the work that it shares with other metrics; they are computed one after another. Empty if it
            shares none: then it is computed beside them.
        libraries: What it imports, which takes seconds.
        card: The text of its page in the documentation.
    """

    name: str
    reads: str
    scores: tuple[ScoreInfo, ...]
    interval: str
    compute: Callable[[Run], Found]
    needs: str = ""
    default: bool = False
    is_curve: bool = False
    from_statistics: bool = False
    fewest: int = 2
    shares: str = ""
    libraries: tuple[str, ...] = LIBRARIES
    card: Card | None = None


def curve_found(
    run: Sized,
    spectrum: RatioSpectrum,
    *,
    intervals: Mapping[str, Interval | None],
    chance: Mapping[str, float],
    settings: Mapping[str, Any],
    draws: Sequence[Mapping[str, float]] = (),
) -> Found:
    """A curve with its scores.

    Args:
        run: The run that the curve belongs to, or anything else that knows the sizes.
        spectrum: The curve.
        intervals: Interval of each score and, if it is known, of each point of the curve, by name.
        chance: Scores that are expected at these sample sizes if P = Q, by name.
        settings: The choices that change the curve.
        draws: Readings of bootstrap samples, for the kind of the verdict.
    """
    scores = {
        name: Score(value, intervals[name], chance[name], *run.sizes, settings)
        for name, value in readings(spectrum).items()
    }
    return Found(scores, spectrum, CurveIntervals.gathered(intervals, draws))
