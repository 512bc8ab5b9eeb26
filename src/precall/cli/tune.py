"""`precall tune`: train or fine-tune a model at a chosen precision/recall trade-off, or at several.

With several λ and without bins there is one run per λ. A generator without density is first trained as a plain GAN,
once for all λ; each λ then fine-tunes it in a folder of its own, which is an ordinary run. With bins there is one run,
and λ acts when samples are drawn.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from precall.cli import tune_run
from precall.cli.console import command_line, emit, note
from precall.cli.options import blaming, takes
from precall.cli.tune_run import DEFAULTS, PRECISIONS, RUN, SCORES, Model, Objective, Place, Precision, Result, lam_text
from precall.printing import aligned
from precall.theory import checks

if TYPE_CHECKING:
    from precall.metrics.scores.score import Score

PLAIN, PICTURE = "plain", "dial.png"
Scores = Mapping[float, Mapping[str, "Score"]]


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """The options of `precall tune`. None means that an option was not given, or has its default.

    Options:
        out (FOLDER): Folder for the checkpoint, the log, pictures, samples and run.json.
        data (NAME): 8-gaussians, 25-gaussians, digits, mnist, fashion-mnist, cifar-10, celeba-64, or a path to samples.
        model: Family of networks. The default depends on the data.
        lam (X): Trade-off λ: above 1 favours precision, below 1 favours recall. Give it several times to train at each
            λ and to compare them in a picture. [default: 1]
        objective: Training objective. pr, tail and smoothed use --lam; obrs uses --budget. [default: pr]
        steps (N): Number of generator steps. The default depends on data and model. With --resume, more steps lengthen
            the run.
        init (FILE): Checkpoint, or folder of a run, whose networks are fine-tuned.
        resume: Resume the run in --out.
        device (NAME): auto, cpu, cuda, cuda:1, mps.
        seed (N): Random seed. [default: 0]

    Training:
        budget (K): Draws per kept sample, for obrs. [default: 2]
        batch_size (N): Number of samples per step. The default depends on data and model.
        truncation (X): Scale the latents by this factor, to start with higher precision. [default: 1]
        labels (NAME): Class labels for the networks: data (those of the data set, or the folders of the images), none,
            or a text file with one label per line. [default: data for biggan and with --bins, otherwise none]

    Networks:
        generator (NAME): Custom generator, package.module:Class; to be passed again with --resume. For a module in the
            working directory, set PYTHONPATH=. first.
        discriminator (NAME): Custom discriminator, package.module:Class.
        bins (N): Train one model for every λ: the networks see in which of so many bins a sample is, by how central it
            is, and --lam chooses among the bins when samples are drawn. With --resume, λ may be another one. [default:
            0, none]
        bins_encoder (NAME): Encoder in whose features the bins are computed. [default: none, the samples themselves]
        critic_encoder (NAME): Also train a critic on the features of this frozen encoder, and add both losses:
            efficientnet, random-vgg, inception, vgg16, dinov2, clip, or a TorchScript file, which may return feature
            maps. For images.

    Computing:
        precision: Number format: fp32, or bf16 for mixed precision. [default: fp32]
        processes (N): Number of processes on the CPU that share each batch; the weights are those of one process up to
            rounding and the noise of the recipe. [default: 1]
        data_dir (FOLDER): First folder to search for the data.

    Output:
        assess_every (N): Steps between two assessments on held-out data. [default: 0, at the end only]
        checkpoint_every (N): Steps between two checkpoints; 0 for one at the end only. [default: 1000]
        log (TARGET): Log the numbers of the training to wandb:project, mlflow:experiment, comet:project or
            tensorboard:folder.
        tensorboard: The same as --log tensorboard:OUT/tensorboard.
        as_json: Print JSON instead of text.
    """

    out: Path
    data: str | None = None
    model: Model | None = None
    lam: list[float] | None = None
    objective: Objective | None = None
    steps: int | None = None
    init: str | None = None
    resume: bool = False
    device: str = "auto"
    seed: int | None = None
    budget: float | None = None
    batch_size: int | None = None
    truncation: float | None = None
    labels: str | None = None
    generator: str | None = None
    discriminator: str | None = None
    bins: int | None = None
    bins_encoder: str | None = None
    critic_encoder: str | None = None
    precision: Precision | None = None
    processes: int = 1
    data_dir: Path | None = None
    assess_every: int | None = None
    checkpoint_every: int | None = None
    log: list[str] | None = None
    tensorboard: bool = False
    as_json: bool = False


@takes(TuneOptions)
def tune(options: TuneOptions) -> None:
    """Train or fine-tune a model at a chosen precision/recall trade-off.

    \b
    Examples:
      precall tune --data digits --steps 30 --lam 5 --out runs/lam5
      precall tune --data digits --steps 30 --lam 0.1 --lam 10 --out runs/dial
    """
    from precall.tune.data import check_known

    log = (*(options.log or ()), *([f"tensorboard:{options.out / 'tensorboard'}"] if options.tensorboard else []))
    if log:
        from precall.integrations.loggers import checked_target

        with blaming("--log"):
            for target in log:
                checked_target(target)
    out, resume = options.out, options.resume
    given = {name: getattr(options, name, None) for name in DEFAULTS}
    given["lam"] = options.lam[0] if options.lam is not None and len(options.lam) == 1 else options.lam
    run = tune_run.resumed(out, given) if resume else tune_run.begun(out, given)
    check_known(run["data"])  # before Lightning is imported
    from precall.tune.processes import on_device

    fabric = on_device(PRECISIONS[run["precision"]], options.device)
    if checks.count("--processes", options.processes) > 1 and fabric.device.type != "cpu":
        raise ValueError("--processes share a training on the CPU only. Add --device cpu, or use one GPU without it.")
    place = Place(fabric, options.data_dir, log, processes=options.processes)
    if isinstance(run["lam"], list):
        results, steps = dial(out, run, place, resume=resume)
        found = pictured(results, out)
        emit((out / RUN).read_text().rstrip() if options.as_json else table(found, steps))
        note(sentence(found))
        note(f"picture: {out / PICTURE}; one folder per λ: {out}")
        return
    [scores] = (one.scores for one in tune_run.trained(out, run, place, resume=resume).values())
    text = "\n".join(f"{name:<9}  {score}" for name, score in scores.items())
    emit((out / RUN).read_text().rstrip() if options.as_json else text)
    n = scores["precision"].n_real
    note(f"scores: {n} held-out samples and as many draws; 95 % intervals; images compared by pixels")
    note(f"model: {out / 'checkpoint.safetensors'}; samples: {out / 'samples.npy'}; log, pictures: {out}")


def dial(out: Path, run: Mapping[str, Any], place: Place, *, resume: bool) -> tuple[Any, dict[float, int]]:
    """Train at each λ, and return results and steps by λ. Runs with fewer steps than the dial are lengthened."""
    if run["bins"]:
        return tune_run.trained(out, run, place, resume=resume), {}
    made, total = tune_run.recipe_of(run, place.data_dir)
    facts = {"options": {**run, "steps": total}, "command": command_line()}
    parts = _parts(out, run, made.plain_steps, total)
    tune_run.write_run(out, facts)
    ready = {name: _options(out / name, part) for name, part in parts.items()}
    found: dict[str, Mapping[float, Result]] = {}
    for name, one in ready.items():
        note(f"{name}: {one['steps']} steps")
        begun_before = (out / name / RUN).is_file()
        found |= {name: tune_run.trained(out / name, one, replace(place, resume=out), resume=begun_before)}
    by_lam = {lam: one for name, results in found.items() if name != PLAIN for lam, one in results.items()}
    tune_run.write_run(out, facts | {"results": tune_run.told(by_lam)})
    steps = {one["lam"]: one["steps"] for name, one in ready.items() if name != PLAIN}
    if longer := max(steps.values()) - min(steps.values()):
        again = shlex.join(["precall", "tune", "--resume", "--steps", str(total + longer), "--out", str(out)])
        note(f"the runs have different numbers of steps; lengthen the shorter ones with: {again}")
    return by_lam, steps


def pictured(results: Mapping[float, Result], out: Path) -> Scores:
    """Write the picture of the dial, and return the scores."""
    from precall.tune.pictures import dial_figure, write

    scores = {lam: one.scores for lam, one in results.items()}
    [real, *_] = (one.real for one in results.values())
    write(dial_figure({lam: one.samples for lam, one in results.items()}, scores, real), out / PICTURE)
    return scores


def _parts(out: Path, run: Mapping[str, Any], plain_steps: int, total: int) -> dict[str, dict[str, Any]]:
    """The options of each run by the name of its folder: the plain GAN, if there is one, and one run per λ."""
    plain = 0 if run["init"] else plain_steps
    planned = None if run["planned_steps"] is None else run["planned_steps"] - plain
    first = {**run, "lam": None, "objective": "gan", "steps": plain, "planned_steps": None}
    start = str(out / PLAIN) if plain else run["init"]
    each = {**run, "init": start, "steps": total - plain, "planned_steps": planned}
    parts = {f"lam-{lam_text(lam)}": {**each, "lam": lam} for lam in sorted(run["lam"])}
    return ({PLAIN: first} if plain else {}) | parts


def _options(out: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a part, which may exist with more or fewer steps, and whose folder may have been moved."""
    if not (out / RUN).is_file():
        return tune_run.begun(out, options)
    same = {**options, "steps": None, "planned_steps": None, "init": None}
    run = tune_run.resumed(out, same)
    if options["steps"] > run["steps"]:
        run = tune_run.resumed(out, {**same, "steps": options["steps"]})
    return run | {"init": options["init"]}


def table(scores: Scores, steps: Mapping[float, int]) -> str:
    """The scores of each λ, with the intervals below them, and with the steps of each run if they differ."""
    from precall.report.table import two_lines

    rows = [["λ", "steps", *SCORES]]
    for lam, one in scores.items():
        values, intervals = zip(*(two_lines(one[name]) for name in SCORES), strict=True)
        rows += [[lam_text(lam), str(steps.get(lam)), *values], ["", "", *intervals]]
    equal = len(set(steps.values())) < 2
    return "\n".join(aligned([[*row[:1], *row[2:]] if equal else row for row in rows]))


def sentence(scores: Scores) -> str:
    """Whether precision rises and recall falls from the smallest to the largest λ by more than the intervals."""
    low, high = scores[min(scores)], scores[max(scores)]
    pairs = {
        "precision rises": (high["precision"].interval, low["precision"].interval),
        "recall falls": (low["recall"].interval, high["recall"].interval),
    }
    unclear = [name for name, (one, other) in pairs.items() if not (one and other and one.low > other.high)]
    span = f"from λ = {min(scores):g} to {max(scores):g}"
    if not unclear:
        return f"precision rises and recall falls {span}, by more than the intervals"
    return f"{span}: cannot tell whether {' and '.join(unclear)}, since intervals overlap or are in the other order"
