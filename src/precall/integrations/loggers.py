"""Log assessments to TensorBoard, Weights & Biases, MLflow and Comet, directly or through a Lightning logger."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from precall.metrics.scores.results import Assessment, Comparison

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PREFIX = "precall"


@runtime_checkable
class ScalarAndFigureWriter(Protocol):
    """TensorBoard's `SummaryWriter`, or an object with the same two methods."""

    def add_scalar(self, tag: str, value: float, step: int, /) -> object: ...

    def add_figure(self, tag: str, figure: Figure, step: int, /, *, close: bool) -> object: ...


@runtime_checkable
class ExperimentLogger(Protocol):
    """A Lightning logger, whose `experiment` is the underlying writer or run."""

    @property
    def experiment(self) -> object: ...


@runtime_checkable
class ExperimentRun(Protocol):
    """A Weights & Biases run, or an object with the same method."""

    def log(self, values: dict[str, Any], /, *, step: int) -> object: ...


@runtime_checkable
class MetricsAndFigureModule(Protocol):
    """The module `mlflow`, or an object with the same functions."""

    def log_metrics(self, metrics: dict[str, float], step: int) -> object: ...

    def log_figure(self, figure: Figure, artifact_file: str) -> object: ...


@runtime_checkable
class CometExperiment(Protocol):
    """An `Experiment` of Comet, or an object with the same methods."""

    def log_metrics(self, dic: dict[str, float], *, step: int) -> object: ...

    def log_figure(self, figure_name: str, figure: Figure, *, step: int) -> object: ...

    def log_html(self, html: str) -> object: ...


def log_to(
    logger: ScalarAndFigureWriter | ExperimentLogger | ExperimentRun | MetricsAndFigureModule | CometExperiment,
    assessment: Assessment | Comparison,
    *,
    step: int,
) -> None:
    """Log the scores and the figure of the curves at a training step.

    Scores are logged as `precall/<score>`, or as `precall/<model>/<score>` if there are several models. The figure is
    logged as `precall/curves` if a curve was computed.

    Args:
        logger: TensorBoard's `SummaryWriter`, a W&B run, the module `mlflow` with an active run, an `Experiment` of
            Comet, or a Lightning logger whose `experiment` is one of them. They are recognised by their
            methods, so none of the libraries has to be installed.
        assessment: The result of `precall.assess`.
        step: The training step.

    Example:
        >>> import numpy as np
        >>> class Run:
        ...     def log(self, values, step):
        ...         print(step, sorted(values))
        >>> x = np.random.default_rng(0).normal(size=(50, 2))
        >>> from precall.metrics.assessing.assessment import assess
        >>> log_to(Run(), assess(real=x, fake=x + 1, metrics=("fid",)), step=3)
        3 ['precall/fid']
    """
    several = isinstance(assessment, Comparison)
    models: Mapping[str, Assessment] = assessment if isinstance(assessment, Comparison) else {"": assessment}
    scores = {
        "/".join((PREFIX, model, score) if several else (PREFIX, score)): found.value
        for model, one in models.items()
        for score, found in one.scores.items()
    }
    drawn = any(one.estimator is not None for one in models.values())
    _write(logger, scores, {f"{PREFIX}/curves": assessment.plot()} if drawn else {}, step)


def _write(logger: object, scores: Mapping[str, float], figures: Mapping[str, Figure], step: int) -> None:
    if isinstance(logger, ScalarAndFigureWriter):
        for tag, value in scores.items():
            logger.add_scalar(tag, value, step)
        for tag, figure in figures.items():
            logger.add_figure(tag, figure, step, close=False)  # the figure does not belong to pyplot
    elif isinstance(logger, CometExperiment):
        logger.log_metrics(dict(scores), step=step)
        for tag, figure in figures.items():
            logger.log_figure(tag, figure, step=step)
    elif isinstance(logger, MetricsAndFigureModule):
        logger.log_metrics(dict(scores), step=step)
        for tag, figure in figures.items():
            logger.log_figure(figure, f"{tag}-{step}.png")
    elif isinstance(logger, ExperimentLogger):
        _write(logger.experiment, scores, figures, step)
    elif isinstance(logger, ExperimentRun):
        logger.log({**scores, **{tag: _image(figure) for tag, figure in figures.items()}}, step=step)
    else:
        expected = "a SummaryWriter, a W&B run, `mlflow`, a Comet experiment, or a Lightning logger of one of them"
        raise ValueError(f"`logger` must be {expected}; got {type(logger).__name__}.")


def _image(figure: Figure) -> object:
    """Convert the figure to a W&B image; otherwise W&B would convert it to a plotly chart."""
    if "wandb" not in sys.modules:
        return figure
    import matplotlib.pyplot  # noqa: F401 - W&B compares the figure with this module

    return sys.modules["wandb"].Image(figure)
