"""The options that define a run of `precall tune`: checked, written to run.json, and read back from it.

A run folder may come from somebody else. Nothing in it chooses code: families of models and objectives are names of
precall's own, and the import paths and files of custom networks are only compared with those that the user passes
again.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from math import isfinite
from pathlib import Path
from typing import Any, Literal, get_args

from precall.cli.options import flag, wrong
from precall.samples import reading
from precall.theory import checks

Objective = Literal["pr", "tail", "smoothed", "obrs", "gan", "likelihood"]
Precision = Literal["fp32", "bf16"]
Model = Literal["mlp", "conv", "realnvp", "biggan"]
DIALLED = ("pr", "tail", "smoothed")  # objectives that depend on λ
PRECISIONS = {"fp32": "32-true", "bf16": "bf16-mixed"}
NETWORKS = ("generator", "discriminator", "critic_encoder")
RUN = "run.json"
LARGEST = 1 << 20  # bytes of a run.json
LONGEST = 4096  # characters of a path or an import path
MOST = 10**12  # steps
LAMS = 20  # values of λ in one command
BINS = 1000


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


def labels_of(run: Mapping[str, Any]) -> bool | str | None:
    """The option --labels as `precall.tune.recipe` takes it."""
    known = {None: None, "data": True, "none": False}
    return known[run["labels"]] if run["labels"] in known else str(run["labels"])


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


# ------------------------------------------------------------------------------------------------------------ run.json


def write_run(out: Path, facts: Mapping[str, Any]) -> None:
    """Write run.json."""
    from precall.files import write_atomically

    write_atomically(out / RUN, (json.dumps(facts, indent=1) + "\n").encode())


def read_run(path: Path) -> dict[str, Any]:
    """The options in a run.json, all of them checked.

    Raises:
        ValueError: if there is no such file, or if it does not hold valid options.
    """
    if not path.is_file():
        raise ValueError(
            f"--out `{path.parent}` has no {path.name}, so there is no run to resume. Start it without --resume."
        )
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"it holds more than {LARGEST:,} bytes")
        return checked(_options(reading.read_json(path)))
    except ValueError as error:
        raise ValueError(
            f"`{path}` must describe a run as precall wrote it: {error}. Restore it, or start a new run in another "
            "folder."
        ) from None


def results_of_bins(out: Path) -> dict[str, Any]:
    """The results in run.json of a run with bins, by λ."""
    found = reading.read_json(out / RUN)
    results = found.get("results") if isinstance(found, dict) else None
    return {lam: one for lam, one in results.items() if _is_number(lam)} if isinstance(results, dict) else {}


def _is_number(text: str) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return False


def _options(found: object) -> dict[str, Any]:
    options = found.get("options") if isinstance(found, dict) else None
    if not isinstance(options, dict):
        raise ValueError("it has no `options`")
    if missing := [name for name in DEFAULTS if name not in options]:
        raise ValueError(f"its options lack {', '.join(missing)}")
    if unknown := [name for name in options if name not in DEFAULTS]:
        raise ValueError(f"its options hold {len(unknown)} unknown names")
    if options["data"] is None:
        raise ValueError("its options name no data")
    return options


# ------------------------------------------------------------------------------------------------------------- checks


def checked(run: dict[str, Any]) -> dict[str, Any]:
    """Options whose types and ranges are valid, before anything is built from them."""
    for name, value in run.items():
        if value is not None or DEFAULTS[name] is not None:
            CHECKS[name](name, value)
    return run


def _text(name: str, value: object) -> None:
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST or not value.isprintable():
        got = f"{len(value)} characters" if isinstance(value, str) else type(value).__name__
        raise ValueError(f"`{name}` must be a printable text of at most {LONGEST} characters; got {got}")


def _whole(least: int, most: int) -> Callable[[str, object], None]:
    def check(name: str, value: object) -> None:
        if type(value) is not int or not least <= value <= most:
            got = f"{value:.6g}" if isinstance(value, int | float) and abs(value) < 1e300 else type(value).__name__
            raise ValueError(f"`{name}` must be a whole number from {least:,} to {most:,}; got {got}")

    return check


def _number(name: str, value: object) -> float:
    if type(value) not in (int, float):
        raise ValueError(f"`{name}` must be a number; got {type(value).__name__}")
    return checks.positive(name, value)


def _lams(name: str, value: object) -> None:
    """One λ, or several different ones."""
    values = value if isinstance(value, list) else [value]
    for one in values:
        _number(name, one)
    if not len(set(values)) == len(values) <= LAMS or not values:
        got = ", ".join(f"{one:g}" for one in values[:LAMS])
        raise ValueError(f"`{name}` must be at most {LAMS} numbers, each given once; got {got}. Leave out the others.")


def _one_of(choices: tuple[str, ...]) -> Callable[[str, object], None]:
    def check(name: str, value: object) -> None:
        if value not in choices:
            got = repr(value) if isinstance(value, str) and len(value) < 100 else type(value).__name__
            raise ValueError(f"`{name}` must be one of {', '.join(choices)}; got {got}")

    return check


# the options of run.json, which are not to be changed when the run is resumed, except for more steps
CHECKS: dict[str, Callable[[str, object], object]] = {
    "data": _text,
    "model": _one_of(get_args(Model)),
    "objective": _one_of(get_args(Objective)),
    "lam": _lams,
    "budget": lambda name, value: checks.budget(_number(name, value)),
    "steps": _whole(1, MOST),
    "planned_steps": _whole(1, MOST),  # the number of steps before the run was lengthened
    "batch_size": _whole(1, 1_000_000),
    "seed": _whole(0, 2**53),
    "init": _text,
    "truncation": lambda name, value: checks.unit(name, _number(name, value)),
    "generator": _text,
    "discriminator": _text,
    "critic_encoder": _text,
    "assess_every": _whole(0, MOST),
    "checkpoint_every": _whole(0, MOST),
    "labels": _text,
    "precision": _one_of(get_args(Precision)),
    "bins": _whole(0, BINS),
    "bins_encoder": _text,
}
DEFAULTS: dict[str, Any] = dict.fromkeys(CHECKS) | {
    "objective": "pr", "seed": 0, "assess_every": 0, "precision": "fp32", "bins": 0
}  # fmt: skip
