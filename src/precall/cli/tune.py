"""`precall tune`: train or fine-tune a model at a chosen precision/recall trade-off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from precall.cli.console import emit, note
from precall.cli.options import blaming, takes
from precall.cli.tune_dial import PICTURE, dial, dial_of_bins, sentence, table
from precall.cli.tune_options import DEFAULTS, RUN, Model, Objective, Precision, begun, resumed
from precall.cli.tune_run import Place, fabric_of, trained

if TYPE_CHECKING:
    from precall.metrics.scores.score import Score


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
    data_dir: Path | None = None
    assess_every: int | None = None
    checkpoint_every: int | None = None
    log: list[str] | None = None
    tensorboard: bool = False
    as_json: bool = False


@takes(TuneOptions)
def tune(options: TuneOptions) -> None:
    """Train or fine-tune a model at a chosen precision/recall trade-off.

    Examples:

    \b
      precall tune --data digits --steps 30 --lam 5 --out runs/lam5
      precall tune --data digits --steps 30 --lam 0.1 --lam 10 --out runs/dial
    """
    from precall.integrations.loggers import checked_target
    from precall.tune.data import check_known

    log = (*(options.log or ()), *([f"tensorboard:{options.out / 'tensorboard'}"] if options.tensorboard else []))
    with blaming("--log"):
        for target in log:
            checked_target(target)
    out, resume = options.out, options.resume
    given = {name: getattr(options, name, None) for name in DEFAULTS}
    given["lam"] = options.lam[0] if options.lam is not None and len(options.lam) == 1 else options.lam
    run = resumed(out, given) if resume else begun(out, given)
    check_known(run["data"])  # before Lightning is imported
    fabric = fabric_of(options.device, run["precision"])
    place = Place(fabric, options.data_dir, log)
    if isinstance(run["lam"], list):
        found, taken = dial_of_bins(out, run, place, resume=resume) if run["bins"] else dial(out, run, place)
        emit((out / RUN).read_text().rstrip() if options.as_json else table(found, taken))
        note(sentence(found))
        note(f"picture: {out / PICTURE}; one folder per λ: {out}")
        return
    _print_summary(out, trained(out, run, place, resume=resume).scores, options.as_json)


def _print_summary(out: Path, scores: Mapping[str, Score], as_json: bool) -> None:
    if as_json:
        emit((out / RUN).read_text().rstrip())
    else:
        emit("\n".join(f"{name:<9}  {score}" for name, score in scores.items()))
    from precall.tune.checkpoints import LAST

    n = scores["precision"].n_real
    note(f"scores: {n} held-out samples and as many draws; 95 % intervals; images compared by pixels")
    note(f"model: {out / LAST}; samples: {out / 'samples.npy'}; log, pictures: {out}")
