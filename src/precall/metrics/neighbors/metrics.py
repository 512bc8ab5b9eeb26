"""Registry entries of the metrics that are computed from the k-nearest-neighbour sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from precall.metrics.metric import INFINITY, Found, Metric, ScoreInfo

if TYPE_CHECKING:
    from precall.metrics.run import Run

BALL_SCORES = (
    ScoreInfo("precision", "precision", 0, 1, "higher", "share of fakes in a real ball (Kynkäänniemi)", "table"),
    ScoreInfo("recall", "recall", 0, 1, "higher", "share of reals in a fake ball (Kynkäänniemi)", "table"),
    ScoreInfo("density", "density", 0, INFINITY, "higher", "real balls around a fake, over k (Naeem)", "table"),
    ScoreInfo("coverage", "coverage", 0, 1, "higher", "share of reals with a fake in their ball (Naeem)", "table"),
    ScoreInfo("corrected_coverage", "corrected coverage", -INFINITY, 1, "higher", "coverage; 0 is chance"),
    ScoreInfo("precision_cover", "precision cover", 0, 1, "higher", "share of fakes near enough reals (Cheema)"),
    ScoreInfo("recall_cover", "recall cover", 0, 1, "higher", "share of reals near enough fakes (Cheema)"),
    ScoreInfo("realism", "realism", 0, INFINITY, "higher", "median realism of the fakes (Kynkäänniemi)"),
)
COPY_SCORES = (ScoreInfo("copies", "copies", 0, 1, "lower", "share of fakes that nearly coincide with a real sample"),)
SWEPT = "jackknife from the sweep: the expectation at these sample sizes, not the bias"


def _found(run: Run, scores: tuple[ScoreInfo, ...]) -> Found:
    """The scores of one metric."""
    available = run.neighborhoods.scores(run.k)
    return Found({info.name: available[info.name] for info in scores})


NEIGHBORS = Metric(
    name="neighbors",
    reads='k-nearest-neighbour balls, k = 5, closed unless `ties="open"`',
    scores=BALL_SCORES,
    interval=SWEPT,
    compute=lambda run: _found(run, BALL_SCORES),
    default=True,
)
COPIES = Metric(
    name="copies",
    reads="share of fakes whose distance to a real sample is less than half that sample's distance to its nearest "
    "real neighbour",
    scores=COPY_SCORES,
    interval=SWEPT,
    compute=lambda run: _found(run, COPY_SCORES),
    default=True,
)
COVER = Metric(
    name="cover",
    reads="the curve from counts in k-nearest-neighbour balls",
    scores=(),
    interval="none",
    compute=lambda run: Found(spectrum=run.neighborhoods.cover_spectrum()),
    is_curve=True,
)
