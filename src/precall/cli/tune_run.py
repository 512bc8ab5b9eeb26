"""One run of `precall tune`: build it from its options, train it, and score its samples."""

from __future__ import annotations

import platform
import shlex
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from precall.cli.console import alert, bars, command_line
from precall.cli.tune_options import NETWORKS, PRECISIONS, custom_networks, labels_of, results_of_bins, write_run

if TYPE_CHECKING:
    from lightning.fabric import Fabric
    from torch import Tensor

    from precall.metrics.scores.score import Score
    from precall.tune.recipes import Recipe
    from precall.tune.trainer import Trainer

SCORES = ("precision", "recall", "density", "coverage")


class Result(NamedTuple):
    """Scores and samples of a run, and the held-out data with which they were compared."""

    scores: dict[str, Score]
    samples: Tensor
    real: Tensor


@dataclass(frozen=True)
class Place:
    """Where a run happens: what is not part of its result.

    Attributes:
        fabric: devices and precision.
        data_dir: first folder to search for the data.
        log: trackers that receive the numbers of the training, such as wandb:project.
        resume: the folder to name in the advice on how to resume; None for that of the run itself.
    """

    fabric: Fabric
    data_dir: Path | None = None
    log: tuple[str, ...] = ()
    resume: Path | None = None


def trained(out: Path, run: Mapping[str, Any], place: Place, *, resume: bool) -> Result:
    """Train the run in a folder, or resume it, and return its scores and samples."""
    tell = told_at_each if run["bins"] else lambda found: told(*found.values())
    [found] = _trained(out, run, place, {_lam(run): out}, tell, resume=resume).values()
    return found


def drawn_at_each(out: Path, run: Mapping[str, Any], place: Place, *, resume: bool) -> dict[float, Result]:
    """Train a run with bins once, or resume it, and return scores and samples at each λ, which are in folders."""
    folders = {lam: out / f"lam-{lam_text(lam)}" for lam in sorted(run["lam"])}
    return _trained(out, run, place, folders, told_at_each, resume=resume)


def told(result: Result) -> dict[str, Any]:
    """Scores for run.json."""
    return {name: score.to_dict() for name, score in result.scores.items()}


def told_at_each(results: Mapping[float, Result]) -> dict[str, Any]:
    """Scores of several λ for run.json."""
    return {lam_text(lam): told(one) for lam, one in results.items()}


def lam_text(lam: float) -> str:
    """λ as a text that no other number has.

    Example:
        >>> lam_text(10.0), lam_text(0.1)
        ('10', '0.1')
    """
    return str(float(lam)).removesuffix(".0")


def _trained(
    out: Path,
    run: Mapping[str, Any],
    place: Place,
    folders: Mapping[float, Path],
    tell: Callable[[dict[float, Result]], dict[str, Any]],
    *,
    resume: bool,
) -> dict[float, Result]:
    """Train the run in a folder, or resume it; draw and score samples at each λ, each in its folder."""
    made, total = recipe_of(run, place.data_dir)
    trainer = _trainer(made, run, total, out, place, resume)
    if trainer.step > total:
        raise ValueError(f"--steps must be at least {trainer.step}, the steps already taken; got {total}.")
    if trainer.step < total:
        _warn_if_lengthened(made, run, total)
    facts = {"options": {**run, "steps": total}, **_facts(made, trainer, total)}
    earlier = results_of_bins(out) if resume and run["bins"] and trainer.step == total else {}
    write_run(out, facts | ({"results": earlier} if earlier else {}))
    with _advice(trainer, total, run, out, place), bars() as progress:
        trainer.fit(total, progress=progress)
        for logger in trainer.loggers:
            logger.finalize("success")
    with _advice(trainer, total, run, out, place):
        found = {lam: _finish(made, trainer, folder, lam) for lam, folder in folders.items()}
    write_run(out, facts | {"results": earlier | tell(found)})
    return found


def fabric_of(device: str, precision: str) -> Fabric:
    """The devices and the precision of a run."""
    try:
        from lightning.fabric import Fabric
    except ImportError:
        raise ValueError("training requires Lightning. Install it with: pip install 'precall[tune]'.") from None
    kind, _, number = device.partition(":")
    try:
        return Fabric(accelerator=kind, devices=[int(number)] if number else 1, precision=PRECISIONS[precision])  # type: ignore[arg-type]
    except Exception as error:  # Lightning raises many types
        raise ValueError(f"--device must be available on this machine; got {device}: {error}") from None


def recipe_of(run: Mapping[str, Any], data_dir: Path | None) -> tuple[Recipe, int]:
    """The recipe, with the number of steps for which the run was planned, and the number of steps to take.

    A run that is lengthened keeps the schedules with which it was started. Fine-tuning takes no plain steps.
    """
    from precall.tune.recipes import recipe

    networks = {name: run[name] for name in NETWORKS}
    bins = {name: run[name] for name in ("bins", "bins_encoder")}
    made = recipe(run["data"], run["model"], data_dir=data_dir, labels=labels_of(run), **networks, **bins)
    usual = made.steps - (made.plain_steps if run["init"] else 0)
    planned = run["planned_steps"] or run["steps"] or usual
    return replace(made, steps=planned), run["steps"] or usual


def _warn_if_lengthened(made: Recipe, run: Mapping[str, Any], total: int) -> None:
    """Say what differs from a new run of so many steps, if the run was planned for fewer."""
    found = made.depends_on_steps(_lam(run), kind=run["objective"]) if total > made.steps else []
    if found:
        verb = "depends" if len(found) == 1 and not found[0].endswith("s") else "depend"
        alert(
            f"precall: the run was planned for {made.steps} steps, and {' and '.join(found)} {verb} on that number. It "
            f"is continued as planned, which is not the same as a new run of {total} steps."
        )


def _lam(run: Mapping[str, Any]) -> float:
    return 1.0 if run["lam"] is None or isinstance(run["lam"], list) else float(run["lam"])


def _trainer(made: Recipe, run: Mapping[str, Any], total: int, out: Path, place: Place, resume: bool) -> Trainer:
    """The trainer of a run, at the step from which it continues. Damaged files that were set aside are reported."""
    from precall.tune.checkpoints import LAST, PREVIOUS

    begun_before = resume and any((out / name).is_file() for name in (LAST, PREVIOUS))
    names = (*(() if run["bins"] else ("lam",)), "budget", "batch_size", "truncation", "checkpoint_every")
    given = {name: run[name] for name in names if run[name] is not None}
    fixed = {"seed": run["seed"], "assess_every": run["assess_every"], "precision": PRECISIONS[run["precision"]]}
    if run["objective"] == "likelihood":
        fixed["warmup"] = total  # the whole run, however long
    elif run["init"] is not None:
        fixed["warmup"] = 0
    init = None if begun_before or run["init"] is None else Path(run["init"])
    init = init / LAST if init is not None and init.is_dir() else init  # a checkpoint, or the folder of its run
    trainer = made.trainer(
        kind=run["objective"],
        init=init,
        tuned=run["init"] is not None,  # a resumed run does not need --init any more
        out=out,
        fabric=place.fabric,
        loggers=[_logger(target, out.name) for target in place.log],
        **given,
        **fixed,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer = trainer.resume() if resume else trainer
    for warning in caught:
        alert(f"precall: {warning.message}")
    return trainer


@contextmanager
def _advice(trainer: Trainer, total: int, run: Mapping[str, Any], out: Path, place: Place) -> Iterator[None]:
    """Whatever stops the run inside the block, the message says how to continue it."""
    from precall.tune.watch import TrainingStopped

    networks = [word for words in custom_networks(run).values() for word in words]
    again = shlex.join(["precall", "tune", "--resume", "--out", str(place.resume or out), *networks])
    try:
        yield
    except TrainingStopped as error:
        raise ValueError(str(error)) from error
    except OSError as error:
        raise ValueError(
            f"the run stopped at step {trainer.step} of {total}, because a file cannot be written: {error}. The last "
            f"checkpoint is kept. Make room, then resume with: {again}"
        ) from error
    except KeyboardInterrupt:
        alert(f"precall: interrupted at step {trainer.step} of {total}; resume with: {again}")
        raise typer.Exit(130) from None


def _logger(target: str, name: str) -> Any:
    """The Lightning logger of a tracker; in a folder of TensorBoard, the run has a folder of its own."""
    from lightning.pytorch import loggers

    from precall.integrations.loggers import checked_target

    tracker, place = checked_target(target)
    made = {
        "tensorboard": lambda: loggers.TensorBoardLogger(place, name=name, version=""),
        "wandb": lambda: loggers.WandbLogger(project=place, name=name),
        "mlflow": lambda: loggers.MLFlowLogger(place, run_name=name),
        "comet": lambda: loggers.CometLogger(project=place),
    }
    return made[tracker]()


# ------------------------------------------------------------------------------------------------------------- results


def _facts(made: Recipe, trainer: Trainer, total: int) -> dict[str, Any]:
    """A complete description of the run."""
    import lightning
    import numpy as np
    import torch

    import precall

    counts = {
        name: sum(p.numel() for p in getattr(trainer, name).parameters()) for name in ("generator", "discriminator")
    }
    return {
        "command": command_line(),
        "data": {"n": len(made.data.samples), "held_out": len(made.data.held_out), "shape": list(made.data.shape)},
        "model": made.model,
        "parameters": counts,
        "objective": repr(trainer.objective),
        "steps": total,
        "settings": asdict(trainer.settings),
        "seed": trainer.settings.seed,
        "device": str(trainer.fabric.device),
        "versions": {
            "precall": precall.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "lightning": lightning.__version__,
            "numpy": np.__version__,
        },
    }


def _finish(made: Recipe, trainer: Trainer, out: Path, lam: float) -> Result:
    """Draw and save samples, and score them against held-out data. Images are compared by their pixels.

    Classes are drawn in the proportions of the training data, and bins in those at λ.
    """
    import numpy as np

    from precall.files import open_atomically
    from precall.metrics.assessing.assessment import assess
    from precall.metrics.scores.results import Assessment
    from precall.tune import pictures

    n, seed = trainer.settings.assess_n, trainer.settings.seed
    labels = made.draw_labels(n, lam, seed=seed)
    fake, real = trainer.sample(n, seed=seed, labels=labels), trainer.held_out
    out.mkdir(parents=True, exist_ok=True)
    pictures.save(fake, out / "samples.png")
    kept = (fake.clamp(-1, 1) * 127.5 + 127.5).round().byte() if fake.ndim == 4 else fake
    with open_atomically(out / "samples.npy") as file:
        np.save(file, kept.numpy(), allow_pickle=False)
    assert real is not None
    n = min(len(real), n)
    found = assess(real=real[:n].flatten(1).numpy(), fake=fake[:n].flatten(1).numpy(), metrics=["neighbors"])
    assert isinstance(found, Assessment)
    return Result({name: found.scores[name] for name in SCORES}, fake, real[:n])
