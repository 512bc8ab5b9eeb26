"""One run of `precall tune`: its options in run.json, its training, and the scores of its samples.

A run folder may come from somebody else. Nothing in it chooses code: families of models and objectives are names of
precall's own, and the import paths and files of custom networks are only compared with those that the user passes
again.
"""

from __future__ import annotations

import json
import platform
import re
import shlex
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
import typer

import precall
from precall.cli.console import alert, bars, command_line
from precall.cli.options import flag, wrong
from precall.files import open_atomically, write_atomically
from precall.printing import shown
from precall.samples import reading
from precall.schemas import check as check_schema
from precall.theory import checks

if TYPE_CHECKING:
    from lightning.fabric import Fabric
    from torch import Tensor

    from precall.metrics.scores.score import Score
    from precall.tune.recipes import Recipe
    from precall.tune.trainer import Trainer

SCORES = ("precision", "recall", "density", "coverage")
Objective = Literal["pr", "tail", "smoothed", "obrs", "gan", "likelihood"]
Precision = Literal["fp32", "bf16"]
Model = Literal["mlp", "conv", "realnvp", "biggan"]
DIALLED = ("pr", "tail", "smoothed")  # objectives that depend on λ
PRECISIONS = {"fp32": "32-true", "bf16": "bf16-mixed"}
NETWORKS = ("generator", "discriminator", "critic_encoder")
RUN = "run.json"
LARGEST = 1 << 20  # bytes of a run.json
LONGEST = 4096  # characters of a path or an import path
LAMS = 20  # values of λ in one command


def begun(out: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a new run, whose folder must be empty."""
    if options["data"] is None:
        raise wrong("--data", "pass the data to train on, or --resume a run")
    # what a killed process left of the very first file of its run does not count
    left = (
        path for path in (out.iterdir() if out.is_dir() else ()) if not (RUN in path.name and path.suffix == ".tmp")
    )
    if out.exists() and (not out.is_dir() or any(left)):
        raise ValueError(f"--out `{out}` must be new or empty. Resume its run with --resume, or choose another folder.")
    run = DEFAULTS | {name: value for name, value in options.items() if value is not None}
    if run["bins"] and options["objective"] not in (None, "gan"):
        raise wrong("--objective", "with --bins the loss is gan, and λ chooses the bins")
    if run["bins_encoder"] is not None and not run["bins"]:
        raise wrong("--bins-encoder", "only --bins have an encoder")
    if run["bins"]:
        run["objective"] = "gan"
    elif run["lam"] is not None and run["objective"] not in DIALLED:
        raise wrong("--lam", f"the objective {run['objective']} has no λ")
    if run["budget"] is not None and run["objective"] != "obrs":
        raise wrong("--budget", "only the objective obrs has a budget")
    return checked(run)


def resumed(out: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the run in `out`. Those that are passed again must be the same, except for more steps.

    With bins, λ may be another one as well, since it acts when samples are drawn.
    """
    run = read_run(out / RUN)
    if run["bins"] and options["lam"] is not None:
        run = checked({**run, "lam": options["lam"]})
    for name, value in options.items():
        if value is not None and name != "steps" and value != run[name]:
            raise ValueError(
                f"{flag(name)} must be {run[name]}, as when `{out}` was started; got {value}. Leave it out."
            )
    given = {name for name, value in options.items() if value is not None}
    if missing := [word for name, words in custom_networks(run).items() if name not in given for word in words]:
        raise ValueError(
            f"the run in `{out}` uses custom networks. Code that a run folder names is never imported. If you trust "
            f"it, add: {shlex.join(missing)}"
        )
    return run if options["steps"] is None else _lengthened(run, options["steps"], out)


def custom_networks(run: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """The networks of the user by the name of their option, each as the words of the command line."""
    from precall.encoders.registry import may_name

    own = [name for name in (*NETWORKS, "bins_encoder") if run[name] is not None and not may_name(run[name])]
    return {name: (flag(name), run[name]) for name in own}


def _lengthened(run: dict[str, Any], steps: int, out: Path) -> dict[str, Any]:
    most = checks.count("steps", steps)
    if run["steps"] is not None and most < run["steps"]:
        raise ValueError(
            f"--steps must be at least {run['steps']}, as when `{out}` was started; got {steps}. A run can only be "
            "lengthened."
        )
    if most == run["steps"]:
        return run
    return checked({**run, "steps": most, "planned_steps": run["planned_steps"] or run["steps"]})


def write_run(out: Path, facts: Mapping[str, Any]) -> None:
    write_atomically(out / RUN, (json.dumps(facts, indent=1) + "\n").encode())


def read_run(path: Path) -> dict[str, Any]:
    """The options in a run.json, all of them checked."""
    if not path.is_file():
        raise ValueError(
            f"--out `{path.parent}` has no {path.name}, so there is no run to resume. Start it without --resume."
        )
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"it holds more than {LARGEST:,} bytes")
        found = reading.read_json(path)
        options = found.get("options") if isinstance(found, dict) else None
        if not isinstance(options, dict) or not options.get("data"):
            raise ValueError("it has no `options` that name the data")
        return checked(options)
    except ValueError as error:
        raise ValueError(
            f"`{path}` must describe a run as precall wrote it: {error}. Restore it, or start a new run in another "
            "folder."
        ) from None


def results_of_bins(out: Path) -> dict[str, Any]:
    """The results in run.json of a run with bins, by λ."""
    found = reading.read_json(out / RUN)
    results = found.get("results") if isinstance(found, dict) else None
    number = re.compile(r"[0-9.e+-]+")  # of `lam_text`
    return {lam: one for lam, one in results.items() if number.fullmatch(lam)} if isinstance(results, dict) else {}


def checked(run: dict[str, Any]) -> dict[str, Any]:
    """Options whose types and ranges are valid, before anything is built from them."""
    if names := sorted(set(FIELDS) ^ set(run)):
        raise ValueError(f"the option {shown(names[0][:40])} is missing or unknown")
    given = {name: value for name, value in run.items() if value is not None or DEFAULTS[name] is not None}
    check_schema(given, {"type": "object", "properties": FIELDS}, "options")
    lams = run["lam"] if isinstance(run["lam"], list) else []
    if len(set(lams)) < len(lams):
        raise ValueError(f"`lam` must be numbers that are each given once; got {', '.join(map(str, lams))}.")
    return run


def _whole(least: int, most: int = 10**12) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": most}


TEXT = {"type": "string", "pattern": f"[^\\x00-\\x1f\\x7f-\\x9f]{{1,{LONGEST}}}"}
POSITIVE = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": float("inf")}
FIELDS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("data", "init", "generator", "discriminator", "critic_encoder", "bins_encoder", "labels"), TEXT),
    "model": {"enum": get_args(Model)},
    "objective": {"enum": get_args(Objective)},
    "precision": {"enum": get_args(Precision)},
    "lam": {"anyOf": [POSITIVE, {"type": "array", "items": POSITIVE, "minItems": 1, "maxItems": LAMS}]},
    "budget": {"type": "number", "minimum": 1},
    "truncation": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    "steps": _whole(1),
    "planned_steps": _whole(1),  # the number of steps before the run was lengthened
    "batch_size": _whole(1, 1_000_000),
    "seed": _whole(0, 2**53),
    "assess_every": _whole(0),
    "checkpoint_every": _whole(0),
    "bins": _whole(0, 1000),
}
# the options of run.json, which are not to be changed when the run is resumed, except for more steps
DEFAULTS: dict[str, Any] = dict.fromkeys(FIELDS) | {
    "objective": "pr", "seed": 0, "assess_every": 0, "precision": "fp32", "bins": 0
}  # fmt: skip


class Result(NamedTuple):
    """Scores and samples of a run, and the held-out data with which they were compared."""

    scores: dict[str, Score]
    samples: Tensor
    real: Tensor


@dataclass(frozen=True)
class Place:
    """Where a run happens: what is not part of its result."""

    fabric: Fabric
    data_dir: Path | None = None
    log: tuple[str, ...] = ()  # trackers that receive the numbers of the training, such as wandb:project
    resume: Path | None = None  # the folder to name in the advice on how to resume, if not that of the run
    processes: int = 1


def told(results: Mapping[float, Result]) -> dict[str, Any]:
    """Scores at each λ for run.json."""
    return {
        lam_text(lam): {name: score.to_dict() for name, score in one.scores.items()} for lam, one in results.items()
    }


def lam_text(lam: float) -> str:
    """λ as a text that no other number has, such as "10" or "0.1"."""
    return str(float(lam)).removesuffix(".0")


def trained(out: Path, run: Mapping[str, Any], place: Place, *, resume: bool) -> dict[float, Result]:
    """Train the run in a folder, or resume it; draw and score samples at λ. With several λ, each has its folder."""
    folders = {_lam(run): out}
    if isinstance(run["lam"], list):
        folders = {lam: out / f"lam-{lam_text(lam)}" for lam in sorted(run["lam"])}
    from precall.tune.processes import helped, one_of

    made, total = recipe_of(run, place.data_dir)
    if place.processes > 1:
        place = replace(place, fabric=one_of(0, place.processes, PRECISIONS[run["precision"]]))
    trainer = _trainer(made, run, total, out, place, resume)
    if trainer.step > total:
        raise ValueError(f"--steps must be at least {trainer.step}, the steps already taken; got {total}.")
    lengthened = trainer.step < total and made.steps < total
    if lengthened and (depends := made.depends_on_steps(_lam(run), kind=run["objective"])):
        verb = "depends" if len(depends) == 1 and not depends[0].endswith("s") else "depend"
        alert(
            f"precall: the run was planned for {made.steps} steps, and {' and '.join(depends)} {verb} on that number. "
            f"It is continued as planned, which is not the same as a new run of {total} steps."
        )
    facts = {"options": {**run, "steps": total}, **_facts(made, trainer, total)}
    earlier = results_of_bins(out) if resume and run["bins"] and trainer.step == total else {}
    write_run(out, facts | ({"results": earlier} if earlier else {}))
    helping = helped(place.fabric, helper, dict(run), place.data_dir)
    with _advice(trainer, total, run, out, place), bars() as progress, helping:
        trainer.fit(total, progress=progress)
        for logger in trainer.loggers:
            logger.finalize("success")
    with _advice(trainer, total, run, out, place):
        found = {lam: _finish(made, trainer, folder, lam) for lam, folder in folders.items()}
    results = told(found)
    write_run(out, facts | {"results": earlier | (results if run["bins"] else next(iter(results.values())))})
    return found


def helper(rank: int, size: int, run: dict[str, Any], data_dir: Path | None) -> tuple[Trainer, int]:
    """The trainer of another process, which receives its state from the first and writes nothing, and its steps."""
    from precall.tune.processes import one_of

    made, total = recipe_of(run, data_dir)
    fabric = one_of(rank, size, PRECISIONS[run["precision"]])
    return _trainer(made, run, total, None, Place(fabric), resume=True), total


def recipe_of(run: Mapping[str, Any], data_dir: Path | None) -> tuple[Recipe, int]:
    """The recipe, with the number of steps for which the run was planned, and the number of steps to take.

    A run that is lengthened keeps the schedules with which it was started. Fine-tuning takes no plain steps.
    """
    from precall.tune.recipes import recipe

    given = {name: run[name] for name in (*NETWORKS, "bins", "bins_encoder")}
    labels = {"data": True, "none": False}.get(run["labels"], run["labels"])
    made = recipe(run["data"], run["model"], data_dir=data_dir, labels=labels, **given)
    usual = made.steps - (made.plain_steps if run["init"] else 0)
    planned = run["planned_steps"] or run["steps"] or usual
    return replace(made, steps=planned), run["steps"] or usual


def _lam(run: Mapping[str, Any]) -> float:
    return 1.0 if run["lam"] is None or isinstance(run["lam"], list) else float(run["lam"])


def _trainer(made: Recipe, run: Mapping[str, Any], total: int, out: Path | None, place: Place, resume: bool) -> Trainer:
    """The trainer of a run, at the step from which it continues; without `out`, that of a helping process."""
    from precall.tune.checkpoints import LAST, PREVIOUS

    begun_before = out is None or (resume and any((out / name).is_file() for name in (LAST, PREVIOUS)))
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
        loggers=[] if out is None else [_logger(target, out.name) for target in place.log],
        **given,
        **fixed,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer = trainer.resume() if resume and out is not None else trainer
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
    return made[tracker]()  # type: ignore[no-untyped-call]


def _facts(made: Recipe, trainer: Trainer, total: int) -> dict[str, Any]:
    """A complete description of the run."""
    networks = {"generator": trainer.generator, "discriminator": trainer.discriminator}
    return {
        "command": command_line(),
        "data": {"n": len(made.data.samples), "held_out": len(made.data.held_out), "shape": list(made.data.shape)},
        "model": made.model,
        "parameters": {name: sum(p.numel() for p in one.parameters()) for name, one in networks.items()},
        "objective": repr(trainer.objective),
        "steps": total,
        "settings": asdict(trainer.settings),
        "seed": trainer.settings.seed,
        "device": str(trainer.fabric.device),
        "versions": {
            "precall": precall.__version__,
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "lightning", "numpy")},
        },
    }


def _finish(made: Recipe, trainer: Trainer, out: Path, lam: float) -> Result:
    """Draw and save samples, and score them against held-out data. Images are compared by their pixels.

    Classes are drawn in the proportions of the training data, and bins in those at λ.
    """
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
