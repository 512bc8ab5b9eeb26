"""Assessments in experiment loggers: TensorBoard and Weights & Biases, bare or behind Lightning."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from precall.metrics.results import Assessment, Comparison

PREFIX = "precall"


def log_to(logger: Any, assessment: Assessment | Comparison, *, step: int) -> None:
    """Write the scores and the picture of the curves to a logger, at a training step.

    Scores go under `precall/<score>`, those of several models under `precall/<model>/<score>`; the figure under
    `precall/curves`, where a curve was asked for.

    Args:
        logger: TensorBoard's `SummaryWriter`, a W&B run, or a Lightning logger that holds one of them (its
            `experiment`). They are known by what they can do, so that none needs to be installed.
        assessment: What `precall.assess` returned.
        step: The step to log at.

    Example:
        >>> import numpy as np
        >>> class Run:
        ...     def log(self, values, step):
        ...         print(step, sorted(values))
        >>> x = np.random.default_rng(0).normal(size=(50, 2))
        >>> from precall.metrics.assessment import assess
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
    _written(logger, scores, {f"{PREFIX}/curves": assessment.plot()} if drawn else {}, step)


def _written(logger: Any, scores: Mapping[str, float], figures: Mapping[str, Any], step: int) -> None:
    if hasattr(logger, "add_scalar") and hasattr(logger, "add_figure"):  # TensorBoard's SummaryWriter
        for tag, value in scores.items():
            logger.add_scalar(tag, value, step)
        for tag, figure in figures.items():
            logger.add_figure(tag, figure, step, close=False)  # it is not pyplot's to close
    elif hasattr(logger, "experiment"):  # a Lightning logger
        _written(logger.experiment, scores, figures, step)
    elif callable(getattr(logger, "log", None)):  # a W&B run
        logger.log({**scores, **{tag: _image(figure) for tag, figure in figures.items()}}, step=step)
    else:
        expected = "a SummaryWriter, a W&B run, or a Lightning logger of one of them"
        raise ValueError(f"`logger` must be {expected}; got {type(logger).__name__}.")


def _image(figure: Any) -> Any:
    """The figure as W&B's picture: left alone, W&B would turn it into a plotly chart."""
    return sys.modules["wandb"].Image(figure) if "wandb" in sys.modules else figure
