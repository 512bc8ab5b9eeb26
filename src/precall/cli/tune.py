"""`precall tune`: train or fine-tune a model at the trade-off you choose."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from precall.cli.console import bars, emit

if TYPE_CHECKING:
    from precall.metrics.score import Score
    from precall.tune.recipes import Recipe
    from precall.tune.trainer import Trainer

Objective = Literal["pr", "tail", "hinge", "area", "obrs", "gan", "likelihood"]
Model = Literal["mlp", "conv", "nice", "realnvp", "glow", "residual", "biggan"]
# what makes a run the run it is: written to run.json, and not to be changed when it is resumed
DEFAULTS = {
    "data": None,
    "model": None,
    "objective": "pr",
    "lam": None,
    "budget": None,
    "steps": None,
    "batch_size": None,
    "seed": 0,
    "init": None,
    "truncation": None,
    "generator": None,
    "discriminator": None,
    "assess_every": 0,
}
SCORES = ("precision", "recall", "density", "coverage")
CHECKPOINT = "checkpoint.safetensors"


def tune(
    out: Annotated[Path, typer.Option(help="Folder for the checkpoint, the log, pictures, samples and run.json.")],
    data: Annotated[
        str | None,
        typer.Option(
            help="8-gaussians, 25-gaussians, digits, mnist, fashion-mnist, cifar-10, celeba-64, or a path to samples."
        ),
    ] = None,
    model: Annotated[Model | None, typer.Option(help="The kind of networks; by default that of the data.")] = None,
    lam: Annotated[
        float | None, typer.Option(help="λ: above 1 for precision, below 1 for recall.  [default: 1]")
    ] = None,
    objective: Annotated[
        Objective | None,
        typer.Option(
            help="pr, tail or hinge, turned by --lam; area; obrs, with --budget; gan; likelihood.  [default: pr]",
            show_default=False,
        ),
    ] = None,
    budget: Annotated[float | None, typer.Option(help="Draws per kept sample, for obrs.  [default: 2]")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of the generator; by default those of the recipe.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Samples a step; by default those of the recipe.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.  [default: 0]")] = None,
    init: Annotated[str | None, typer.Option(help="Fine-tune the networks of this checkpoint.")] = None,
    truncation: Annotated[
        float | None, typer.Option(help="Narrow the latents by this factor: start from the precise end.  [default: 1]")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    generator: Annotated[str | None, typer.Option(help="Your own generator, package.module:Class.")] = None,
    discriminator: Annotated[str | None, typer.Option(help="Your own discriminator, package.module:Class.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where to look for the data first.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")] = "auto",
    assess_every: Annotated[
        int | None, typer.Option(help="Steps between two assessments on held-out data.  [default: 0, at the end only]")
    ] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write TensorBoard logs too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
) -> None:
    """Train or fine-tune a model at the precision/recall trade-off you choose.

    Examples:

      precall tune --data digits --steps 30 --lam 5 --out runs/lam5
    """
    options = {name: value for name, value in locals().items() if name in DEFAULTS}
    run = _resumed(out, options) if resume else _begun(out, options)
    fabric = _fabric(device)
    from precall.tune.watch import TrainingStopped

    made = _recipe(run, data_dir)
    start = out / CHECKPOINT if resume and run["init"] else run["init"]  # a resumed run needs the first one no more
    loggers = _loggers(out) if tensorboard else ()
    trainer = made.trainer(**_training(run), init=start, out=out, fabric=fabric, loggers=loggers)
    if resume:
        trainer.load(out / CHECKPOINT)
    facts = {"options": run, **_facts(made, trainer)}
    _write(out, facts)
    try:
        with bars() as progress:
            trainer.fit(made.steps, progress=progress)
    except TrainingStopped as error:
        raise ValueError(str(error)) from error
    except KeyboardInterrupt:
        again = shlex.join(["precall", "tune", "--resume", "--out", str(out)])
        typer.echo(f"precall: interrupted at step {trainer.step} of {made.steps}; go on with: {again}", err=True)
        raise typer.Exit(130) from None
    scores = _finish(trainer, out)
    _write(out, facts | {"results": {name: score.to_dict() for name, score in scores.items()}})
    _tell(out, scores, as_json)


# ------------------------------------------------------------------------------------------------- what was asked for


def _begun(out: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a new run, in a folder that holds no other."""
    from precall.theory import checks

    if options["data"] is None:
        raise typer.BadParameter("name the data to train on, or --resume a run", param_hint="--data")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"--out `{out}` must be new or empty: go on with its run by --resume, or name another folder.")
    run = DEFAULTS | {name: value for name, value in options.items() if value is not None}
    if run["lam"] is not None and run["objective"] not in ("pr", "tail", "hinge"):
        raise typer.BadParameter(f"the objective {run['objective']} has no λ", param_hint="--lam")
    if run["steps"] is not None:
        checks.count("steps", run["steps"])
    if run["budget"] is not None and run["objective"] != "obrs":
        raise typer.BadParameter("only the objective obrs has a budget", param_hint="--budget")
    return run


def _resumed(out: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options the run in `out` was started with; any that are given again must be the same."""
    for name in ("run.json", CHECKPOINT):
        if not (out / name).is_file():
            raise ValueError(f"--out `{out}` has no {name}, so there is no run to resume: start it without --resume.")
    run: dict[str, Any] = DEFAULTS | json.loads((out / "run.json").read_text())["options"]
    for name, value in options.items():
        if value is not None and value != run[name]:
            flag = f"--{name.replace('_', '-')}"
            raise ValueError(f"{flag} was {run[name]} when `{out}` was started, and cannot become {value}.")
    return run


def _recipe(run: Mapping[str, Any], data_dir: Path | None) -> Recipe:
    from precall.tune.recipes import recipe

    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # where one's own networks are
    networks = {name: run[name] for name in ("generator", "discriminator")}
    made = recipe(run["data"], run["model"], data_dir=data_dir, **networks)
    return made if run["steps"] is None else replace(made, steps=run["steps"])


def _training(run: Mapping[str, Any]) -> dict[str, Any]:
    """The options as `Recipe.trainer` names them."""
    given = {name: run[name] for name in ("lam", "budget", "batch_size", "truncation") if run[name] is not None}
    return {"kind": run["objective"], "seed": run["seed"], "assess_every": run["assess_every"], **given}


def _fabric(device: str) -> Any:
    try:
        from lightning.fabric import Fabric
    except ImportError:
        raise ValueError("training needs Lightning: pip install 'precall[tune]'.") from None
    kind, _, number = device.partition(":")
    try:
        return Fabric(accelerator=kind, devices=[int(number)] if number else 1)
    except Exception as error:  # Lightning has many
        raise ValueError(f"--device must be one this machine has; {device}: {error}") from None


def _loggers(out: Path) -> list[Any]:
    from lightning.fabric.loggers.tensorboard import TensorBoardLogger

    try:
        return [TensorBoardLogger(root_dir=out, name="tensorboard", version="")]
    except ImportError:
        raise ValueError("--tensorboard needs TensorBoard: pip install tensorboard.") from None


# ------------------------------------------------------------------------------------------------ what is left behind


def _facts(made: Recipe, trainer: Trainer) -> dict[str, Any]:
    """All that is needed to know what was run."""
    import lightning
    import numpy as np
    import torch

    import precall

    counts = {
        name: sum(p.numel() for p in getattr(trainer, name).parameters()) for name in ("generator", "discriminator")
    }
    return {
        "command": "precall " + shlex.join(sys.argv[1:]),
        "data": {"n": len(made.data.samples), "held_out": len(made.data.held_out), "shape": list(made.data.shape)},
        "model": made.model,
        "parameters": counts,
        "objective": repr(trainer.objective),
        "steps": made.steps,
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
    """Draw samples, keep them, and score them against held-out data, as they are (images by their pixels)."""
    import numpy as np

    from precall.metrics.assessment import assess
    from precall.metrics.results import Assessment
    from precall.tune import pictures

    fake, real = trainer.sample(trainer.settings.assess_n, seed=trainer.settings.seed), trainer.held_out
    pictures.save(fake, out / "samples.png")
    kept = (fake.clamp(-1, 1) * 127.5 + 127.5).round().byte() if fake.ndim == 4 else fake
    np.save(out / "samples.npy", kept.numpy(), allow_pickle=False)
    assert real is not None
    n = min(len(real), len(fake))
    found = assess(real=real[:n].flatten(1).numpy(), fake=fake[:n].flatten(1).numpy(), metrics=["neighbors"])
    assert isinstance(found, Assessment)
    return {name: found.scores[name] for name in SCORES}


def _write(out: Path, facts: Mapping[str, Any]) -> None:
    from precall.files import write_atomically

    write_atomically(out / "run.json", (json.dumps(facts, indent=1) + "\n").encode())


def _tell(out: Path, scores: Mapping[str, Score], as_json: bool) -> None:
    if as_json:
        emit((out / "run.json").read_text().rstrip())
    else:
        emit("\n".join(f"{name:<9}  {score}" for name, score in scores.items()))
    n = scores["precision"].n_real
    typer.echo(f"scores: {n} held-out samples, as many draws, 95 % intervals, images by their pixels", err=True)
    typer.echo(f"model: {out / CHECKPOINT}; samples: {out / 'samples.npy'}; log, pictures: {out}", err=True)
