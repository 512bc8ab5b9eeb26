"""`precall improve`: keep the better part of a set of samples, plan a budget, or write a fine-tuning set."""

from __future__ import annotations

import csv
import io
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from precall.cli.console import alert, bars, command_line, emit, note, tell_skipped
from precall.cli.options import EncodingOptions, flag, named_path, takes, wrong
from precall.cli.target_folder import check_images, check_new, copy_image, text_content, write_set, writer_of
from precall.files import check_output, inside, one_per_line, staged_folder, write_atomically
from precall.samples import SampleSet, SampleWarning
from precall.theory import checks

if TYPE_CHECKING:
    from precall.improve.judging import JudgedSamples
    from precall.improve.selection import Selection

FILES = (".txt", ".npy", ".json", ".jsonl", ".csv", ".tsv")
NOT_IN_A_BLEND = ("plan", "target", "surplus", "size", "at_recall", "centrality", "copy", "link")


@dataclass(frozen=True, kw_only=True)
class ImproveOptions(EncodingOptions):
    """The options of `precall improve`.

    Options:
        real (FILE): The data: a folder or zip of images, .npy, .npz, .csv, .txt, …
        fake ([NAME=]FILE): The model's samples, of the same kind; with --blend, several times.
        budget (K): Keep about one sample in K.
        out (FILE): Output file or folder: .txt (one name per line), .npy (positions), .json (the full result), .jsonl
            (texts), .csv or .tsv (rows), or a folder of images with --copy or --link. Without it, names are printed.
        plan: Predict the effect of each budget; keep nothing.
        lam (X): The slope λ. With --target: 10 replaces draws that are 10 times as frequent as in the data; 0.1 adds
            data that the model produces less than a tenth as often, up to a tenth of the set; 1 mends everything. With
            --surplus: 10 is what the model invents, 0.1 nearly every draw, except where the model misses the data.
        target (FOLDER): New folder for the samples on which to fine-tune the model: draws to keep, data to add.
        seed (N): Seed of everything random.
        as_json: Print JSON.

    Fine-tuning sets:
        surplus (FOLDER): New folder for the draws that are too many, on which to fine-tune a guide to sample away from.
        size (N): With --target: number of samples; by default as many as possible.

    Planning a budget:
        blend: Mix several models (--fake a=… --fake b=…) for the largest precision at --lam, within --budget, or for
            the largest recall at --min-precision.
        cost (NAME=X): With --blend: cost of a draw of a model; --budget is then the mean cost of a kept sample.
        centrality (X): With --budget: above 1, prefer central samples too (precision); below 1, the others (recall).
        min_precision (X): With --plan: compute the smallest budget that reaches this precision.
        at_recall (X): With --min-precision: the recall at which it is required.

    Computing:
        estimator (NAME): Estimator of the ratios: auto, the panel of classifiers, or one of them, such as boosting.

    Output:
        copy: Copy the kept images into the folder --out.
        link: Create links to the kept images in the folder --out.
    """

    real: str
    fake: list[str]
    budget: float | None = None
    out: Path | None = None
    plan: bool = False
    lam: float | None = None
    target: Path | None = None
    seed: int = 0
    as_json: bool = False
    surplus: Path | None = None
    size: int | None = None
    blend: bool = False
    cost: list[str] | None = None
    centrality: float | None = None
    min_precision: float | None = None
    at_recall: float | None = None
    estimator: str = "auto"
    copy: bool = False
    link: bool = False

    @property
    def folder(self) -> tuple[str, Path | None]:
        """The option that names the folder of a fine-tuning set, and the folder."""
        return ("--target", self.target) if self.surplus is None else ("--surplus", self.surplus)


@takes(ImproveOptions)
def improve(options: ImproveOptions) -> None:
    """Keep the better part of a model's samples, predict the effect of each budget, or write a fine-tuning set.

    \b
    Examples:
      precall improve --real data/ --fake samples/ --budget 2 --out kept.txt
      precall improve --real data/ --fake samples/ --budget 2 --out kept/ --link
      precall improve --real real.npy --fake a.npy --plan
      precall improve --real data/ --fake samples/ --lam 10 --target tuning/
      precall improve --real data/ --fake samples/ --lam 0.1 --surplus guide/

    With --plan --min-precision 0.9 --at-recall 0.5, the smallest budget that reaches them is printed as well. The exit
    status is 3 if no budget does.
    """
    from precall.improve.judging import ESTIMATORS, judge

    if options.blend:
        _blend(options)
        return
    if len(options.fake) > 1 or options.cost:
        raise wrong("--fake", "several models, and --cost, need --blend")
    fake = options.fake[0]
    (option, folder), estimator = options.folder, options.estimator
    if options.copy and options.link:
        raise wrong("--copy", "choose one of --copy and --link")
    is_set = folder is not None or options.size is not None or options.lam is not None
    (_check_set_usage if is_set else _check_usage)(options)
    options.check(options.real, fake)
    if estimator not in ESTIMATORS:
        raise wrong("--estimator", f"unknown estimator {estimator!r}; choose one of {', '.join(ESTIMATORS)}")
    data, samples = options.opened(options.real), options.opened(fake)
    write = None if options.out is None else _writer(options, options.out, samples)
    if folder is not None:
        check_new(folder, (options.real, fake), option)
        write_rows = writer_of(real=data, fake=samples, link=options.link)
    how: Any = {"encoder": options.encoder, "seed": options.seed, "device": options.device}
    with warnings.catch_warnings(record=True) as caught, bars() as progress:
        warnings.simplefilter("always", SampleWarning)
        judged = judge(real=data, fake=samples, estimator=estimator, progress=progress, **how)
    for sentence in dict.fromkeys(str(one.message) for one in caught):
        note(sentence)
    for name, one in (("real", data), ("fake", samples)):
        tell_skipped(name, one.errors, len(one))
    if options.plan:
        _show_plan(judged, options)
        return
    chosen = _chosen(judged, options)
    saved = json.dumps(chosen.to_dict() | {"command": command_line()}, indent=1)
    if folder is not None:
        write_set(folder, chosen, saved, write_rows)
    elif write is not None:
        write(chosen)
    if options.as_json:
        emit(saved)
    elif folder is None and write is None:
        emit(one_per_line(chosen.ids).decode().removesuffix("\n"))
    for sentence in chosen.notes:
        note(f"note: {sentence}")
    note(repr(chosen))
    if (place := folder or options.out) is not None:
        note(f"written: {place}")


def _chosen(judged: JudgedSamples, options: ImproveOptions) -> Selection:
    """The samples to keep, or the fine-tuning set: a target for the model, or the surplus for a guide."""
    from precall.improve.calibration import RatioWarning
    from precall.improve.selection import selection
    from precall.improve.targets import surplus_of, target_of

    lam, centrality = (1.0 if value is None else value for value in (options.lam, options.centrality))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RatioWarning)  # printed as notes
        if options.surplus is not None:
            return surplus_of(judged, lam=lam, seed=options.seed)
        if options.target is not None:
            return target_of(judged, lam=lam, size=options.size, seed=options.seed)
        assert options.budget is not None
        return selection(judged, budget=options.budget, centrality=centrality, seed=options.seed)


def _writer(options: ImproveOptions, out: Path, samples: SampleSet) -> Callable[[Selection], None]:
    """A function that writes the kept samples to `out`. An impossible output is refused before the computation."""
    suffix = out.suffix.lower()
    sources = (options.fake[0], options.real)
    if options.copy or options.link:
        check_new(out, sources, "--out")
        check_images(samples, link=options.link)
        return lambda kept: _write_images(out, samples, kept, link=options.link)
    if suffix not in FILES or out.is_dir():
        raise wrong("--out", f"expected a file ({' '.join(FILES)}), or a folder with --copy or --link; got {out}")
    check_output(out, sources=sources)
    if suffix == ".jsonl" and samples.kind != "text":
        raise ValueError(f"--out {out} takes texts; {samples.name} holds {samples.kind}. Use .txt, .npy or .json.")
    if suffix in (".csv", ".tsv") and (samples.kind != "table" or Path(options.fake[0]).suffix.lower() != suffix):
        raise ValueError(f"--out {out} takes the rows of a {suffix} table; {samples.name}. Use .txt, .npy or .json.")
    if suffix == ".txt":
        one_per_line(samples.ids)  # refuses names with a line break
    return lambda kept: write_atomically(out, _content(suffix, samples, kept))


def _content(suffix: str, samples: Any, kept: Selection) -> bytes:
    """The content of the file: positions, names, the full result, or the original texts or rows."""
    if suffix == ".npy":
        buffer = io.BytesIO()
        np.save(buffer, kept.indices, allow_pickle=False)
        return buffer.getvalue()
    if suffix == ".json":
        return (json.dumps(kept.to_dict(), indent=1) + "\n").encode()
    if suffix == ".txt":
        return one_per_line(kept.ids)
    if suffix == ".jsonl":
        return text_content([(samples, int(index)) for index in kept.indices])
    text = io.StringIO()
    table = csv.writer(text, delimiter=samples.delimiter, lineterminator="\n")
    if samples.has_header:
        table.writerow(samples.columns)
    table.writerows(samples.row(int(index)) for index in kept.indices)
    return text.getvalue().encode()


def _write_images(out: Path, samples: Any, kept: Selection, *, link: bool) -> None:
    with staged_folder(out) as folder:
        for name, index in zip(kept.ids, kept.indices.tolist(), strict=True):
            copy_image(inside(folder, name), samples, index, link=link)


def _show_plan(judged: JudgedSamples, options: ImproveOptions) -> None:
    from precall.improve.planning import BUDGETS, planned

    found, precision, recall, least = judged.plan, options.min_precision, options.at_recall, None
    if options.budget is not None:
        budgets = sorted({options.budget, *(outcome.budget for outcome in found.outcomes)})
        found = planned(found.spectrum, found.evidence, budgets)
    if precision is not None and recall is not None:
        least = found.least_budget(precision=precision, recall=recall)
    if options.as_json:
        known = None if least is None else [K if float("inf") > K else None for K in least]
        asked = {} if least is None else {"precision": precision, "recall": recall, "least_budget": known}
        emit(json.dumps(found.to_dict() | asked | {"command": command_line()}, indent=1))
    else:
        emit(repr(found))
    if least is None:
        return
    wanted = f"precision {precision:g} at recall {recall:g}"
    if least.at_best == float("inf"):
        never = f"the model never produces about {1 - found.max_recall.supported:.0%} of the data"
        reason = f": {never}, and rejection creates no samples" if recall > found.max_recall.at_best else ""
        alert(f"no budget{'' if reason else f' up to {BUDGETS[-1]:g}'} reaches {wanted}{reason}")
        raise typer.Exit(3)
    if not options.as_json:
        most = f"{least.supported:.3g}" if least.supported < float("inf") else "unknown; draw more samples to tell"
        emit(f"\nsmallest budget with {wanted}: {most}; at best {least.at_best:.3g}")


def _check_usage(options: ImproveOptions) -> None:
    """Refuse options that do not fit together, for a budget or a plan."""
    plan, out, images = options.plan, options.out, options.copy or options.link
    checks.unit("--min-precision", options.min_precision or 0.0)
    checks.unit("--at-recall", options.at_recall or 0.0)
    checks.budget(1.0 if options.budget is None else options.budget)
    if not plan and options.budget is None:
        raise wrong("--budget", "pass the number of samples per kept sample, as in --budget 2, or use --plan")
    checks.positive("--centrality", 1.0 if options.centrality is None else options.centrality)
    if plan and options.centrality is not None:
        raise wrong("--centrality", "--plan predicts budgets, not trade-offs; remove --centrality, or remove --plan")
    if plan and (out is not None or images):
        raise wrong("--plan", "--plan writes nothing; remove --out, --copy and --link, or remove --plan")
    least = options.min_precision is not None
    if least != (options.at_recall is not None) or (least and not plan):
        raise wrong("--min-precision", "use all three options together: --plan --min-precision 0.9 --at-recall 0.5")
    if images and out is None:
        raise wrong("--out", "pass a folder for --copy or --link")


def _check_set_usage(options: ImproveOptions) -> None:
    """Refuse options that do not fit together, for a fine-tuning set."""
    option, folder = options.folder
    if folder is None and options.budget is not None:
        raise wrong("--lam", "--lam is the slope λ of a fine-tuning set; with --budget use --centrality")
    if options.lam is None or folder is None:
        raise wrong("--lam", f"pass λ and a new folder for the fine-tuning set, as in --lam 10 {option} tuning/")
    checks.positive("--lam", options.lam)
    names = ["budget", "centrality", "plan", "out", "min_precision", "at_recall"]
    names += [] if options.surplus is None else ["target", "size"]
    if given := [flag(name) for name in names if getattr(options, name) not in (None, False)]:
        raise wrong(option, f"the fine-tuning set follows from --lam alone; remove {' and '.join(given)}")


def _blend(options: ImproveOptions) -> None:
    """Print the best blend, or write it as JSON."""
    from precall.improve.blending import blend

    models = dict(map(named_path, options.fake))
    if len(models) < max(2, len(options.fake)):
        raise wrong("--blend", "give two models or more with different names, as in --fake a=one.npy --fake b=two.npy")
    if given := [flag(name) for name in NOT_IN_A_BLEND if getattr(options, name) not in (None, False)]:
        raise wrong("--blend", f"remove {' and '.join(given)}; a blend takes --lam, --budget, --cost, --min-precision")
    if options.out is not None and options.out.suffix.lower() != ".json":
        raise wrong("--out", f"a blend is written as .json; got {options.out}")
    try:
        costs = {name: float(cost) for name, _, cost in (one.partition("=") for one in options.cost or ())}
    except ValueError:
        raise wrong("--cost", f"expected NAME=NUMBER, as in --cost a=2; got {options.cost}") from None
    options.check(options.real, *models.values())
    found = blend(
        real=options.opened(options.real),
        fakes={name: options.opened(path) for name, path in models.items()},
        lam=1.0 if options.lam is None else options.lam,
        costs=costs or None,
        precision_at_least=options.min_precision,
        **{name: getattr(options, name) for name in ("budget", "encoder", "seed", "device")},
    )
    saved = json.dumps(found.to_dict() | {"command": command_line()}, indent=1)
    if options.out is not None:
        write_atomically(options.out, (saved + "\n").encode())
        note(f"written: {options.out}")
    emit(saved if options.as_json else repr(found))
