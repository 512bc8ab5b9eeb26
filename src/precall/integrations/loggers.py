"""Log assessments to TensorBoard, Weights & Biases, MLflow and Comet, directly or through a Lightning logger."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from precall.metrics.scores.results import Assessment, Comparison

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PREFIX = "precall"


def log_to(logger: object, assessment: Assessment | Comparison, *, step: int) -> None:
    """Log the scores and the figure of the curves at a training step.

    Scores are logged as `precall/<score>`, or as `precall/<model>/<score>` if there are several models. The figure is
    logged as `precall/curves` if a curve was computed.

    Args:
        logger: TensorBoard's `SummaryWriter`, a W&B run, the module `mlflow` with an active run, an `Experiment` of
            Comet, or a Lightning logger whose `experiment` is one of them. They are recognised by their methods.
    """
    several = isinstance(assessment, Comparison)
    models: Mapping[str, Assessment] = assessment if isinstance(assessment, Comparison) else {"": assessment}
    scores = {
        "/".join((PREFIX, model, score) if several else (PREFIX, score)): found.value
        for model, one in models.items()
        for score, found in one.scores.items()
    }
    drawn = any(one.estimator is not None for one in models.values())
    _write(logger, scores, assessment.plot() if drawn else None, step)


def _write(logger: Any, scores: dict[str, float], figure: Figure | None, step: int) -> None:
    tag = f"{PREFIX}/curves"
    names = ("add_scalar", "log_html", "log_metrics", "log_figure", "experiment", "log")
    has = {name for name in names if hasattr(logger, name)}
    if "add_scalar" in has:  # TensorBoard
        for name, value in scores.items():
            logger.add_scalar(name, value, step)
        if figure is not None:
            logger.add_figure(tag, figure, step, close=False)  # the figure does not belong to pyplot
    elif {"log_metrics", "log_figure"} <= has:  # Comet, which also has `log_html`, and MLflow
        logger.log_metrics(scores, step=step)
        if figure is not None and "log_html" in has:
            logger.log_figure(tag, figure, step=step)
        elif figure is not None:
            logger.log_figure(figure, f"{tag}-{step}.png")
    elif "experiment" in has:  # Lightning
        _write(logger.experiment, scores, figure, step)
    elif "log" in has:  # W&B
        logger.log({**scores, **({} if figure is None else {tag: _image(figure)})}, step=step)
    else:
        expected = "a SummaryWriter, a W&B run, `mlflow`, a Comet experiment, or a Lightning logger of one of them"
        raise ValueError(f"`logger` must be {expected}; got {type(logger).__name__}.")


def _image(figure: Figure) -> object:
    """Convert the figure to a W&B image; otherwise W&B would convert it to a plotly chart."""
    if "wandb" not in sys.modules:
        return figure
    import matplotlib.pyplot  # noqa: F401 - W&B compares the figure with this module

    return sys.modules["wandb"].Image(figure)


def log_run(target: str, found: Comparison, files: Sequence[Path] = ()) -> None:
    """Log an assessment as a run of its own, with files such as the page and the table of samples as artifacts.

    The target is `wandb:project`, `mlflow:experiment`, `comet:project`, or `tensorboard:folder`, which keeps the
    verdicts as text, and no files.
    """
    tracker, name = checked_target(target)
    TRACKERS[tracker][1](import_module(TRACKERS[tracker][0]), name, found, files)


def checked_target(target: str) -> tuple[str, str]:
    """The tracker and the name in it; a tracker that is unknown or not installed is refused."""
    tracker, _, name = target.partition(":")
    if tracker not in TRACKERS or not name:
        known = "wandb:project, mlflow:experiment, tensorboard:folder or comet:project"
        raise ValueError(f"expected {known}; got {target}")
    library = TRACKERS[tracker][0].partition(".")[0] if tracker != "tensorboard" else tracker
    if find_spec(library) is None:
        raise ValueError(f"{tracker} is not installed: pip install {library.replace('_', '-')}")
    return tracker, name


def _to_wandb(wandb: Any, name: str, found: Comparison, files: Sequence[Path]) -> None:
    with wandb.init(project=name) as run:
        log_to(run, found, step=0)
        artifact = wandb.Artifact(PREFIX, type="evaluation")
        for path in files:
            artifact.add_file(str(path))
        run.log_artifact(artifact)


def _to_mlflow(mlflow: Any, name: str, found: Comparison, files: Sequence[Path]) -> None:
    mlflow.set_experiment(name)
    with mlflow.start_run():
        log_to(mlflow, found, step=0)
        for path in files:
            mlflow.log_artifact(str(path))


def _to_tensorboard(tensorboard: Any, name: str, found: Comparison, files: Sequence[Path]) -> None:
    with tensorboard.SummaryWriter(name) as writer:
        log_to(writer, found, step=0)
        for model, one in found.items():
            writer.add_text(f"{PREFIX}/{model}/verdict", str(one.verdict))


def _to_comet(comet: Any, name: str, found: Comparison, files: Sequence[Path]) -> None:
    experiment = comet.Experiment(project_name=name)
    log_to(experiment, found, step=0)
    for path in files:
        experiment.log_asset(str(path))
    experiment.end()


TRACKERS: dict[str, tuple[str, Callable[[Any, str, Comparison, Sequence[Path]], None]]] = {
    "wandb": ("wandb", _to_wandb),
    "mlflow": ("mlflow", _to_mlflow),
    "tensorboard": ("torch.utils.tensorboard", _to_tensorboard),
    "comet": ("comet_ml", _to_comet),
}
