"""`precall tune`: train or fine-tune a model at a chosen precision/recall trade-off."""

from __future__ import annotations

import platform
import shlex
import warnings
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from precall.cli.console import bars, command_line, emit, note
from precall.cli.tune_options import DEFAULTS, NETWORKS, RUN, Model, Objective, begun, resumed, write_run

if TYPE_CHECKING:
    from lightning.fabric import Fabric

    from precall.metrics.score import Score
    from precall.tune.recipes import Recipe
    from precall.tune.trainer import Trainer

SCORES = ("precision", "recall", "density", "coverage")


def tune(
    out: Annotated[Path, typer.Option(help="Folder for the checkpoint, the log, pictures, samples and run.json.")],
    data: Annotated[
        str | None,
        typer.Option(
            help="8-gaussians, 25-gaussians, digits, mnist, fashion-mnist, cifar-10, celeba-64, or a path to samples."
        ),
    ] = None,
    model: Annotated[
        Model | None, typer.Option(help="Family of networks. The default depends on the data.", show_default=False)
    ] = None,
    lam: Annotated[
        float | None,
        typer.Option(help="Trade-off λ: above 1 favours precision, below 1 favours recall.  [default: 1]"),
    ] = None,
    objective: Annotated[
        Objective | None,
        typer.Option(
            help="Training objective. pr, tail and hinge use --lam; obrs uses --budget.  [default: pr]",
            show_default=False,
        ),
    ] = None,
    budget: Annotated[float | None, typer.Option(help="Draws per kept sample, for obrs.  [default: 2]")] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            help="Number of generator steps. The default depends on data and model. With --resume, more steps lengthen "
            "the run."
        ),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Number of samples per step. The default depends on data and model.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed.  [default: 0]")] = None,
    init: Annotated[str | None, typer.Option(help="Checkpoint whose networks are fine-tuned.")] = None,
    truncation: Annotated[
        float | None,
        typer.Option(help="Scale the latents by this factor, to start with higher precision.  [default: 1]"),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in --out.")] = False,
    generator: Annotated[
        str | None,
        typer.Option(
            help="Custom generator, package.module:Class; to be passed again with --resume. For a module in the "
            "working directory, set PYTHONPATH=. first."
        ),
    ] = None,
    discriminator: Annotated[str | None, typer.Option(help="Custom discriminator, package.module:Class.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="First folder to search for the data.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")] = "auto",
    assess_every: Annotated[
        int | None, typer.Option(help="Steps between two assessments on held-out data.  [default: 0, at the end only]")
    ] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard logs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Train or fine-tune a model at a chosen precision/recall trade-off.

    Examples:

      precall tune --data digits --steps 30 --lam 5 --out runs/lam5
    """
    options = {name: value for name, value in locals().items() if name in DEFAULTS}
    run = resumed(out, options) if resume else begun(out, options)
    fabric = _fabric(device)
    made, total = _recipe(run, data_dir)
    trainer = _trainer(made, run, total, out, fabric, resume, _loggers(out) if tensorboard else ())
    if trainer.step > total:
        raise ValueError(f"--steps must be at least {trainer.step}, the steps already taken; got {total}.")
    facts = {"options": run, **_facts(made, trainer, total)}
    write_run(out, facts)
    scores = _train(trainer, total, run, out)
    write_run(out, facts | {"results": {name: score.to_dict() for name, score in scores.items()}})
    _print_summary(out, scores, as_json)


# ------------------------------------------------------------------------------------------------------------ training


def _recipe(run: Mapping[str, Any], data_dir: Path | None) -> tuple[Recipe, int]:
    """The recipe, with the number of steps for which the run was planned, and the number of steps to take.

    A run that is lengthened keeps the schedules with which it was started.
    """
    from precall.tune.recipes import recipe

    made = recipe(run["data"], run["model"], data_dir=data_dir, **{name: run[name] for name in NETWORKS})
    planned = run["planned_steps"] or run["steps"] or made.steps
    total = run["steps"] or made.steps
    if total > planned and (found := made.depends_on_steps(run["lam"] or 1.0, kind=run["objective"])):
        typer.echo(
            f"precall: the run was planned for {planned} steps, and {' and '.join(found)} depend on that number. It is "
            f"continued as planned, which is not the same as a new run of {total} steps.",
            err=True,
        )
    return replace(made, steps=planned), total


def _trainer(
    made: Recipe, run: Mapping[str, Any], total: int, out: Path, fabric: Fabric, resume: bool, loggers: Any
) -> Trainer:
    """The trainer of a run, at the step from which it continues. Damaged files that were set aside are reported."""
    from precall.tune.checkpoints import LAST, PREVIOUS

    begun_before = resume and any((out / name).is_file() for name in (LAST, PREVIOUS))
    given = {name: run[name] for name in ("lam", "budget", "batch_size", "truncation") if run[name] is not None}
    fixed = {"seed": run["seed"], "assess_every": run["assess_every"]}
    if run["objective"] == "likelihood":
        fixed["warmup"] = total  # the whole run, however long
    elif run["init"] is not None:
        fixed["warmup"] = 0
    init = None if begun_before else run["init"]  # a resumed run does not need --init any more
    trainer = made.trainer(kind=run["objective"], init=init, out=out, fabric=fabric, loggers=loggers, **given, **fixed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer = trainer.resume() if resume else trainer
    for warning in caught:
        typer.echo(f"precall: {warning.message}", err=True)
    return trainer


def _train(trainer: Trainer, total: int, run: Mapping[str, Any], out: Path) -> dict[str, Score]:
    """Train and score the samples. Whatever stops the run, the message says how to continue it."""
    from precall.tune.watch import TrainingStopped

    networks = [word for name in NETWORKS if run[name] for word in (f"--{name}", run[name])]
    again = shlex.join(["precall", "tune", "--resume", "--out", str(out), *networks])
    try:
        with bars() as progress:
            trainer.fit(total, progress=progress)
        return _finish(trainer, out)
    except TrainingStopped as error:
        raise ValueError(str(error)) from error
    except OSError as error:
        raise ValueError(
            f"the run stopped at step {trainer.step} of {total}, because a file cannot be written: {error}. The last "
            f"checkpoint is kept. Make room, then resume with: {again}"
        ) from error
    except KeyboardInterrupt:
        typer.echo(f"precall: interrupted at step {trainer.step} of {total}; resume with: {again}", err=True)
        raise typer.Exit(130) from None


def _fabric(device: str) -> Fabric:
    try:
        from lightning.fabric import Fabric
    except ImportError:
        raise ValueError("training requires Lightning. Install it with: pip install 'precall[tune]'.") from None
    kind, _, number = device.partition(":")
    try:
        return Fabric(accelerator=kind, devices=[int(number)] if number else 1)
    except Exception as error:  # Lightning raises many types
        raise ValueError(f"--device must be available on this machine; got {device}: {error}") from None


def _loggers(out: Path) -> list[Any]:
    from lightning.fabric.loggers.tensorboard import TensorBoardLogger

    try:
        return [TensorBoardLogger(root_dir=out, name="tensorboard", version="")]
    except ImportError:
        raise ValueError("--tensorboard requires TensorBoard. Install it with: pip install tensorboard.") from None


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


def _finish(trainer: Trainer, out: Path) -> dict[str, Score]:
    """Draw and save samples, and score them against held-out data. Images are compared by their pixels."""
    import numpy as np

    from precall.files import open_atomically
    from precall.metrics.assessment import assess
    from precall.metrics.results import Assessment
    from precall.tune import pictures

    fake, real = trainer.sample(trainer.settings.assess_n, seed=trainer.settings.seed), trainer.held_out
    pictures.save(fake, out / "samples.png")
    kept = (fake.clamp(-1, 1) * 127.5 + 127.5).round().byte() if fake.ndim == 4 else fake
    with open_atomically(out / "samples.npy") as file:
        np.save(file, kept.numpy(), allow_pickle=False)
    assert real is not None
    n = min(len(real), len(fake))
    found = assess(real=real[:n].flatten(1).numpy(), fake=fake[:n].flatten(1).numpy(), metrics=["neighbors"])
    assert isinstance(found, Assessment)
    return {name: found.scores[name] for name in SCORES}


def _print_summary(out: Path, scores: Mapping[str, Score], as_json: bool) -> None:
    if as_json:
        emit((out / RUN).read_text().rstrip())
    else:
        emit("\n".join(f"{name:<9}  {score}" for name, score in scores.items()))
    from precall.tune.checkpoints import LAST

    n = scores["precision"].n_real
    note(f"scores: {n} held-out samples and as many draws; 95 % intervals; images compared by pixels")
    note(f"model: {out / LAST}; samples: {out / 'samples.npy'}; log, pictures: {out}")
