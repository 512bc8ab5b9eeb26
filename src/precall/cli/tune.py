"""`precall tune`: train or fine-tune a model at a chosen precision/recall trade-off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from precall.cli.console import emit, note
from precall.cli.help_pages import COMPUTING, NETWORKS, OUTPUT, TRAINING
from precall.cli.options import takes
from precall.cli.tune_dial import PICTURE, dial, dial_of_bins, sentence, table
from precall.cli.tune_options import DEFAULTS, RUN, Model, Objective, Precision, begun, resumed
from precall.cli.tune_run import Place, fabric_of, trained

if TYPE_CHECKING:
    from precall.metrics.score import Score


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """The options of `precall tune`. None means that an option was not given, or has its default."""

    out: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help="Folder for the checkpoint, the log, pictures, samples and run.json."),
    ]
    data: Annotated[
        str | None,
        typer.Option(
            help="8-gaussians, 25-gaussians, digits, mnist, fashion-mnist, cifar-10, celeba-64, or a path to samples."
        ),
    ] = None
    model: Annotated[
        Model | None, typer.Option(help="Family of networks. The default depends on the data.", show_default=False)
    ] = None
    lam: Annotated[
        list[float] | None,
        typer.Option(
            help="Trade-off λ: above 1 favours precision, below 1 favours recall. Give it several times to train at "
            "each λ and to compare them in a picture.  [default: 1]",
            show_default=False,
        ),
    ] = None
    objective: Annotated[
        Objective | None,
        typer.Option(
            help="Training objective. pr, tail, smoothed and hinge use --lam; obrs uses --budget.  [default: pr]",
            show_default=False,
        ),
    ] = None
    steps: Annotated[
        int | None,
        typer.Option(
            help="Number of generator steps. The default depends on data and model. With --resume, more steps lengthen "
            "the run."
        ),
    ] = None
    init: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Checkpoint, or folder of a run, whose networks are fine-tuned."),
    ] = None
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in --out.")] = False
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")] = "auto"
    seed: Annotated[int | None, typer.Option(help="Random seed.  [default: 0]")] = None
    budget: Annotated[
        float | None, typer.Option(rich_help_panel=TRAINING, help="Draws per kept sample, for obrs.  [default: 2]")
    ] = None
    batch_size: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=TRAINING, help="Number of samples per step. The default depends on data and model."
        ),
    ] = None
    truncation: Annotated[
        float | None,
        typer.Option(
            rich_help_panel=TRAINING,
            help="Scale the latents by this factor, to start with higher precision.  [default: 1]",
        ),
    ] = None
    labels: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=TRAINING,
            help="Class labels for the networks: data (those of the data set, or the folders of the images), none, or "
            "a text file with one label per line.  [default: data for biggan and with --bins, otherwise none]",
        ),
    ] = None
    generator: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=NETWORKS,
            help="Custom generator, package.module:Class; to be passed again with --resume. For a module in the "
            "working directory, set PYTHONPATH=. first.",
        ),
    ] = None
    discriminator: Annotated[
        str | None, typer.Option(rich_help_panel=NETWORKS, help="Custom discriminator, package.module:Class.")
    ] = None
    bins: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=NETWORKS,
            help="Train one model for every λ: the networks see in which of so many bins a sample is, by how central "
            "it is, and --lam chooses among the bins when samples are drawn. With --resume, λ may be another one.  "
            "[default: 0, none]",
        ),
    ] = None
    bins_encoder: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=NETWORKS,
            help="Encoder in whose features the bins are computed.  [default: none, the samples themselves]",
        ),
    ] = None
    critic_encoder: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=NETWORKS,
            help="Also train a critic on the features of this frozen encoder, and add both losses: random-vgg, "
            "inception, vgg16, dinov2, clip, or a TorchScript file, which may return feature maps. For images.",
        ),
    ] = None
    precision: Annotated[
        Precision | None,
        typer.Option(
            rich_help_panel=COMPUTING, help="Number format: fp32, or bf16 for mixed precision.  [default: fp32]"
        ),
    ] = None
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", rich_help_panel=COMPUTING, help="First folder to search for the data."),
    ] = None
    cuda_graphs: Annotated[
        bool,
        typer.Option(
            "--cuda-graphs",
            rich_help_panel=COMPUTING,
            help="Take whole steps as CUDA graphs, which is faster for small networks.",
        ),
    ] = False
    assess_every: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=OUTPUT,
            help="Steps between two assessments on held-out data.  [default: 0, at the end only]",
        ),
    ] = None
    checkpoint_every: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=OUTPUT, help="Steps between two checkpoints; 0 for one at the end only.  [default: 1000]"
        ),
    ] = None
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", rich_help_panel=OUTPUT, help="Also write TensorBoard logs.")
    ] = False
    as_json: Annotated[bool, typer.Option("--json", rich_help_panel=OUTPUT, help="Print JSON instead of text.")] = False


@takes(TuneOptions)
def tune(options: TuneOptions) -> None:
    """Train or fine-tune a model at a chosen precision/recall trade-off.

    Examples:

    \b
      precall tune --data digits --steps 30 --lam 5 --out runs/lam5
      precall tune --data digits --steps 30 --lam 0.1 --lam 10 --out runs/dial
    """
    from precall.tune.data import check_known

    out, resume = options.out, options.resume
    given = {name: getattr(options, name, None) for name in DEFAULTS}
    given["lam"] = options.lam[0] if options.lam is not None and len(options.lam) == 1 else options.lam
    run = resumed(out, given) if resume else begun(out, given)
    check_known(run["data"])  # before Lightning is imported
    fabric = fabric_of(options.device, run["precision"])
    place = Place(fabric, options.data_dir, options.tensorboard, graphs=options.cuda_graphs)
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
