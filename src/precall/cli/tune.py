"""`precall tune`: train or fine-tune a model at a chosen precision/recall trade-off."""

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
    from lightning.fabric import Fabric

    from precall.metrics.score import Score
    from precall.tune.recipes import Recipe
    from precall.tune.trainer import Trainer

Objective = Literal["pr", "tail", "hinge", "area", "obrs", "gan", "likelihood"]
Model = Literal["mlp", "conv", "nice", "realnvp", "glow", "residual", "biggan"]
# the options that define a run: written to run.json, and not to be changed when the run is resumed
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
        int | None, typer.Option(help="Number of generator steps. The default depends on data and model.")
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
    generator: Annotated[str | None, typer.Option(help="Custom generator, package.module:Class.")] = None,
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
    run = _resumed(out, options) if resume else _begun(out, options)
    fabric = _fabric(device)
    from precall.tune.watch import TrainingStopped

    made = _recipe(run, data_dir)
    start = out / CHECKPOINT if resume and run["init"] else run["init"]  # a resumed run does not need --init any more
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
        typer.echo(f"precall: interrupted at step {trainer.step} of {made.steps}; resume with: {again}", err=True)
        raise typer.Exit(130) from None
    scores = _finish(trainer, out)
    _write(out, facts | {"results": {name: score.to_dict() for name, score in scores.items()}})
    _print_summary(out, scores, as_json)


# ------------------------------------------------------------------------------------------------------------- options


def _begun(out: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a new run, whose folder must be empty."""
    from precall.theory import checks

    if options["data"] is None:
        raise typer.BadParameter("pass the data to train on, or --resume a run", param_hint="--data")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"--out `{out}` must be new or empty. Resume its run with --resume, or choose another folder.")
    run = DEFAULTS | {name: value for name, value in options.items() if value is not None}
    if run["lam"] is not None and run["objective"] not in ("pr", "tail", "hinge"):
        raise typer.BadParameter(f"the objective {run['objective']} has no λ", param_hint="--lam")
    if run["steps"] is not None:
        checks.count("steps", run["steps"])
    if run["budget"] is not None and run["objective"] != "obrs":
        raise typer.BadParameter("only the objective obrs has a budget", param_hint="--budget")
    return run


def _resumed(out: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with which the run in `out` was started. Options that are passed again must be the same."""
    for name in ("run.json", CHECKPOINT):
        if not (out / name).is_file():
            raise ValueError(f"--out `{out}` has no {name}, so there is no run to resume. Start it without --resume.")
    run: dict[str, Any] = DEFAULTS | json.loads((out / "run.json").read_text())["options"]
    for name, value in options.items():
        if value is not None and value != run[name]:
            flag = f"--{name.replace('_', '-')}"
            raise ValueError(f"{flag} must be {run[name]}, as when `{out}` was started; got {value}. Leave it out.")
    return run


def _recipe(run: Mapping[str, Any], data_dir: Path | None) -> Recipe:
    from precall.tune.recipes import recipe

    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # for custom networks
    networks = {name: run[name] for name in ("generator", "discriminator")}
    made = recipe(run["data"], run["model"], data_dir=data_dir, **networks)
    return made if run["steps"] is None else replace(made, steps=run["steps"])


def _training(run: Mapping[str, Any]) -> dict[str, Any]:
    """The options as arguments of `Recipe.trainer`."""
    given = {name: run[name] for name in ("lam", "budget", "batch_size", "truncation") if run[name] is not None}
    return {"kind": run["objective"], "seed": run["seed"], "assess_every": run["assess_every"], **given}


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


def _facts(made: Recipe, trainer: Trainer) -> dict[str, Any]:
    """A complete description of the run."""
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
    """Draw and save samples, and score them against held-out data. Images are compared by their pixels."""
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


def _print_summary(out: Path, scores: Mapping[str, Score], as_json: bool) -> None:
    if as_json:
        emit((out / "run.json").read_text().rstrip())
    else:
        emit("\n".join(f"{name:<9}  {score}" for name, score in scores.items()))
    n = scores["precision"].n_real
    typer.echo(f"scores: {n} held-out samples and as many draws; 95 % intervals; images compared by pixels", err=True)
    typer.echo(f"model: {out / CHECKPOINT}; samples: {out / 'samples.npy'}; log, pictures: {out}", err=True)
