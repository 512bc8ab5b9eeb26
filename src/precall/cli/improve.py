"""`precall improve`: keep the better part of a set of samples, plan a budget, or write a fine-tuning set."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from precall.cli.console import EncoderName, Key, OnError, bars, command_line, emit, note, tell_skipped
from precall.cli.encoder_options import DeviceName
from precall.devices import check_device
from precall.files import create, create_link, inside, one_per_line, staged_folder

if TYPE_CHECKING:
    from precall.improve.judging import JudgedSamples
    from precall.improve.selection import Selection
    from precall.samples import SampleSet
    from precall.samples.images import ImageFiles

OTHER_FOLDER = "Choose another folder, or remove that file."
FILES = (".txt", ".npy", ".json", ".jsonl", ".csv", ".tsv")


def improve(
    real: Annotated[str, typer.Option(help="The data: a folder or zip of images, .npy, .npz, .csv, .txt, …")],
    fake: Annotated[str, typer.Option(help="The model's samples, of the same kind.")],
    budget: Annotated[float | None, typer.Option(help="K: keep about one sample in K.", show_default=False)] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Output file or folder: .txt (one name per line), .npy (positions), .json (the full result), .jsonl "
            "(texts), .csv or .tsv (rows), or a folder of images with --copy or --link. Without it, names are printed."
        ),
    ] = None,
    copy: Annotated[bool, typer.Option("--copy", help="Copy the kept images into the folder --out.")] = False,
    link: Annotated[bool, typer.Option("--link", help="Create links to the kept images in the folder --out.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Predict the effect of each budget; keep nothing.")] = False,
    min_precision: Annotated[
        float | None,
        typer.Option(help="With --plan: compute the smallest budget that reaches this precision.", show_default=False),
    ] = None,
    at_recall: Annotated[
        float | None, typer.Option(help="With --min-precision: the recall at which it is required.", show_default=False)
    ] = None,
    lam: Annotated[
        float | None,
        typer.Option(
            help="The trade-off λ. With --budget: above 1, prefer central samples too (precision); below 1, the others "
            "(recall). With --target: 10 mends what the model invents, 0.1 what it misses. With --surplus: 10 is what "
            "the model invents, 0.1 nearly every draw, except where the model misses the data.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option(help="New folder for the samples on which to fine-tune the model: draws to keep, data to add."),
    ] = None,
    surplus: Annotated[
        Path | None,
        typer.Option(
            help="New folder for the draws that are too many, on which to fine-tune a guide to sample away from."
        ),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(help="With --target: number of samples; by default as many as possible.", show_default=False),
    ] = None,
    estimator: Annotated[
        str,
        typer.Option(help="Estimator of the ratios: auto, the panel of classifiers, or one of them, such as boosting."),
    ] = "auto",
    encoder: EncoderName = None,
    key: Key = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    device: DeviceName = "auto",
    on_error: OnError = "fail",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Keep the better part of a model's samples, predict the effect of each budget, or write a fine-tuning set.

    Examples:

      precall improve --real data/ --fake samples/ --budget 2 --out kept.txt

      precall improve --real data/ --fake samples/ --budget 2 --out kept/ --link

    \b
      precall improve --real data/ --fake samples/ --budget 4 --lam 3 --out kept.txt

      precall improve --real real.npy --fake a.npy --plan

    \b
      precall improve --real real.npy --fake a.npy --plan --min-precision 0.9 --at-recall 0.5

      precall improve --real data/ --fake samples/ --lam 10 --target tuning/

      precall improve --real data/ --fake samples/ --lam 0.1 --surplus guide/

    With --min-precision, the exit status is 3 if no budget reaches it.
    """
    from precall.cli.target_folder import check_new, write_set, writer_of
    from precall.improve.judging import ESTIMATORS, judge
    from precall.samples.opening import KEYED, open_samples, takes_key

    folder, option = (target, "--target") if surplus is None else (surplus, "--surplus")
    if folder is not None or size is not None or (lam is not None and budget is None):
        others = {"--budget": budget, "--plan": plan or None, "--out": out}
        others |= {"--min-precision": min_precision, "--at-recall": at_recall}
        others |= {} if surplus is None else {"--target": target, "--size": size}
        given = [name for name, value in others.items() if value is not None]
        _check_folder_usage(lam, option, folder, copy and link, given)
    else:
        _check_usage(plan, budget, lam, out, copy, link, min_precision, at_recall)
    check_device(device)
    if estimator not in ESTIMATORS:
        raise _wrong("--estimator", f"unknown estimator {estimator!r}; choose one of {', '.join(ESTIMATORS)}")
    if key is not None and not any(map(takes_key, (real, fake))):
        raise _wrong("--key", f"none of the sources has keys to choose from ({' '.join(KEYED)})")
    data, samples = (open_samples(path, key=key, on_error=on_error) for path in (real, fake))
    write = None if out is None else _writer(out, samples, Path(fake), Path(real), link=link, copy=copy)
    if folder is not None:
        check_new(folder, (real, fake), option)
    write_rows = None if folder is None else writer_of(real=data, fake=samples, link=link)
    with _sample_warnings_as_notes(), bars() as progress:
        judged = judge(
            real=data,
            fake=samples,
            estimator=estimator,
            encoder=encoder,
            seed=seed,
            device=device,
            progress=progress,
        )
    for name, one in (("real", data), ("fake", samples)):
        tell_skipped(name, one)
    command = command_line()
    if folder is not None and write_rows is not None and lam is not None:
        choose = _choice(judged, option, lam, size, seed)
        write_set(folder, choose, write_rows, name=option[2:], command=command, as_json=as_json)
    elif plan:
        _show_plan(judged, budget, min_precision, at_recall, command if as_json else None)
    else:
        assert budget is not None
        _keep(judged, budget, 1.0 if lam is None else lam, seed, write, out, command if as_json else None)


def _choice(judged: JudgedSamples, option: str, lam: float, size: int | None, seed: int) -> Callable[[], Selection]:
    """What chooses the fine-tuning set: a target for the model, or the surplus for a guide."""
    from precall.improve.targets import surplus_of, target_of

    if option == "--surplus":
        return lambda: surplus_of(judged, lam=lam, seed=seed)
    return lambda: target_of(judged, lam=lam, size=size, seed=seed)


# ------------------------------------------------------------------------------------------------------------- keeping


def _keep(
    judged: JudgedSamples,
    budget: float,
    lam: float,
    seed: int,
    write: Callable[[Selection], None] | None,
    out: Path | None,
    command: str | None,
) -> None:
    from precall.improve.ratio import RatioWarning
    from precall.improve.selection import selection

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RatioWarning)  # printed as notes below
        kept = selection(judged, budget=budget, lam=lam, seed=seed)
    if write is not None:
        write(kept)
    if command is not None:
        emit(json.dumps(kept.to_dict() | {"command": command}, indent=1))
    elif write is None:
        emit(one_per_line(kept.ids).decode().removesuffix("\n"))
    _print_summary(kept, out)


@contextmanager
def _sample_warnings_as_notes() -> Iterator[None]:
    """Print warnings about samples as remarks, each once."""
    from precall.samples.sampleset import SampleWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SampleWarning)
        yield
    about = dict.fromkeys(str(one.message) for one in caught if issubclass(one.category, SampleWarning))
    for sentence in about:
        note(sentence)
    for one in (one for one in caught if not issubclass(one.category, SampleWarning)):
        warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def _print_summary(kept: Selection, out: Path | None) -> None:
    """Print the number of kept samples and the predicted effect to stderr."""
    for sentence in kept.notes:
        note(f"note: {sentence}")
    note(f"{kept.summary}{'' if out is None else f': {out}'}")
    note(f"predicted, at best: {kept.changes}")


def _writer(
    out: Path, samples: SampleSet, fake: Path, real: Path, *, link: bool, copy: bool
) -> Callable[[Selection], None]:
    """A function that writes the kept samples to `out`. An impossible output is refused before the computation."""
    suffix = out.suffix.lower()
    for source in (fake, real):
        if _within(out, source):
            raise ValueError(
                f"--out must not be, or lie inside, one of the sources; got {out} and {source}. Choose another path."
            )
    if copy or link:
        return _into_folder(out, samples, fake, link=link)
    if suffix not in FILES or out.is_dir():
        raise _wrong("--out", f"expected a file ({' '.join(FILES)}), or a folder with --copy or --link; got {out}")
    if suffix == ".jsonl" and samples.kind != "text":
        raise ValueError(f"--out {out} takes texts; {samples.name} holds {samples.kind}. Use .txt, .npy or .json.")
    if suffix in (".csv", ".tsv") and (samples.kind != "table" or fake.suffix.lower() != suffix):
        raise ValueError(
            f"--out {out} takes the rows of a {suffix} table; got {samples.name}. Use .txt, .npy or .json."
        )
    if suffix == ".txt":
        one_per_line(samples.ids)  # refuses names with a line break
    return lambda kept: _to_file(out, suffix, samples, kept)


def _to_file(out: Path, suffix: str, samples: SampleSet, kept: Selection) -> None:
    from precall.files import write_atomically

    write_atomically(out, _content(suffix, samples, kept))


def _content(suffix: str, samples: SampleSet, kept: Selection) -> bytes:
    if suffix == ".npy":
        return _npy(kept)
    if suffix == ".json":
        return (json.dumps(kept.to_dict(), indent=1) + "\n").encode()
    if suffix == ".jsonl":
        return b"".join(_record(samples, int(index)) for index in kept.indices)
    if suffix == ".txt":
        return one_per_line(kept.ids)
    return _rows(samples, kept)


def _npy(kept: Selection) -> bytes:
    import io

    import numpy as np

    buffer = io.BytesIO()
    np.save(buffer, kept.indices, allow_pickle=False)
    return buffer.getvalue()


def _record(samples: Any, index: int) -> bytes:
    """The original line of a JSON Lines file, or a text as a JSON string."""
    if getattr(samples, "is_json", False):
        return bytes(samples.lines[index]) + b"\n"
    return json.dumps(samples[index], ensure_ascii=False).encode() + b"\n"


def _rows(samples: Any, kept: Selection) -> bytes:
    """The kept rows below the header, with the original delimiter."""
    import csv
    import io

    text = io.StringIO()
    table = csv.writer(text, delimiter=samples.delimiter, lineterminator="\n")
    if samples.has_header:
        table.writerow(samples.columns)
    table.writerows(samples.rows[int(index)] for index in kept.indices)
    return text.getvalue().encode()


def _into_folder(out: Path, samples: SampleSet, fake: Path, *, link: bool) -> Callable[[Selection], None]:
    from precall.samples.images import ImageFiles

    if not isinstance(samples, ImageFiles):
        way_out = "Use --out kept.txt."
        raise ValueError(f"--copy and --link take a folder or zip of images; {samples.name} is neither. {way_out}")
    if link and not samples.own_files:
        raise ValueError(f"--link takes a folder of images; {fake} is not one. Use --copy.")
    if os.path.lexists(out) and not out.is_dir():
        raise ValueError(f"--out must be a folder for --copy and --link; {out} is a file. Choose another path.")
    _check_only(out, samples.ids)

    def write(kept: Selection) -> None:
        _check_only(out, kept.ids)
        images = {inside(out, name): int(index) for name, index in zip(kept.ids, kept.indices, strict=True)}
        if len(images) < len(kept):
            raise ValueError(f"--copy needs a different name for each image; {samples.name} holds one twice.")
        missing = {target: index for target, index in images.items() if not _stands(target, samples, index, link=link)}
        with staged_folder(out) as folder:
            for target, index in missing.items():
                _create(folder / target.relative_to(out), samples, index, link=link)

    return write


def _check_only(out: Path, names: Iterable[str]) -> None:
    """Check that the folder holds no other files than `names`, which an earlier run may have put there.

    Otherwise it would hold a mixture of two selections. Hidden files do not count as images and are left alone.
    """
    allowed = {os.path.normpath(name) for name in names}
    for place, folders, files in os.walk(out):
        folders[:] = [name for name in folders if not name.startswith(".")]
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        for name in [*(name for name in files if not name.startswith(".")), *links]:
            path = os.path.join(place, name)
            if os.path.relpath(path, out) not in allowed:
                raise ValueError(f"--out must hold nothing but the kept images; {path} is not one. {OTHER_FOLDER}")


def _stands(target: Path, samples: ImageFiles, index: int, *, link: bool) -> bool:
    """Whether an earlier run has copied or linked this image; another file in its place is refused."""
    if not os.path.lexists(target):
        return False
    if link:
        same = target.is_symlink() and os.readlink(target) == os.path.abspath(samples.paths[index])
    else:
        same = target.is_file() and not target.is_symlink() and target.read_bytes() == samples.content(index)
    if not same:
        raise ValueError(f"--out must hold nothing but the kept images; {target} exists and differs. {OTHER_FOLDER}")
    return True


def _create(target: Path, samples: ImageFiles, index: int, *, link: bool) -> None:
    """Copy or link one image."""
    if link:
        create_link(target, samples.paths[index])
    else:
        create(target, samples.content(index))


def _within(out: Path, source: Path) -> bool:
    """Whether `out` is `source` or lies inside it, after resolving links."""
    return out.resolve().is_relative_to(source.resolve())


# ------------------------------------------------------------------------------------------------------------ planning


def _show_plan(
    judged: JudgedSamples, budget: float | None, precision: float | None, recall: float | None, command: str | None
) -> None:
    from precall.improve.planning import plan

    found = judged.plan
    if budget is not None:
        found = plan(found.spectrum, sorted({budget, *(outcome.budget for outcome in found.outcomes)}))
    least = None
    if precision is not None and recall is not None:
        least = found.least_budget(precision=precision, recall=recall)
    if command is not None:
        asked = {} if least is None else {"precision": precision, "recall": recall, "least_budget": _finite(least)}
        emit(json.dumps(found.to_dict() | asked | {"command": command}, indent=1))
    else:
        emit(repr(found))
        if least is not None and _finite(least) is not None:
            emit(f"\nsmallest budget with precision {precision:g} at recall {recall:g}: {least:.4g}")
    if least is not None and _finite(least) is None:
        share = f"{1 - found.spectrum.beta(0.1):.0%}"
        reason = f"the model hardly ever produces {share} of the data, and rejection creates no samples"
        typer.echo(f"no budget reaches precision {precision:g} at recall {recall:g}: {reason}", err=True)
        raise typer.Exit(3)


def _finite(value: float) -> float | None:
    return value if value < float("inf") else None


# --------------------------------------------------------------------------------------------------------------- usage


def _check_usage(
    plan: bool,
    budget: float | None,
    lam: float | None,
    out: Path | None,
    copy: bool,
    link: bool,
    min_precision: float | None,
    at_recall: float | None,
) -> None:
    from precall.theory import checks

    for name, value in (("min-precision", min_precision), ("at-recall", at_recall)):
        checks.unit(f"--{name}", 0.0 if value is None else value)
    checks.budget(1.0 if budget is None else budget)
    if not plan and budget is None:
        raise _wrong("--budget", "pass the number of samples per kept sample, as in --budget 2, or use --plan")
    checks.positive("--lam", 1.0 if lam is None else lam)
    if plan and lam is not None:
        raise _wrong("--lam", "--plan predicts budgets, not trade-offs; remove --lam, or remove --plan")
    if plan and (out is not None or copy or link):
        raise _wrong("--plan", "--plan writes nothing; remove --out, --copy and --link, or remove --plan")
    if (min_precision is None) != (at_recall is None) or (min_precision is not None and not plan):
        raise _wrong("--min-precision", "use all three options together: --plan --min-precision 0.9 --at-recall 0.5")
    if copy and link:
        raise _wrong("--copy", "choose one of --copy and --link")
    if (copy or link) and out is None:
        raise _wrong("--out", "pass a folder for --copy or --link")


def _check_folder_usage(lam: float | None, option: str, folder: Path | None, both: bool, others: list[str]) -> None:
    from precall.theory import checks

    if lam is None:
        raise _wrong("--lam", f"pass the trade-off of the fine-tuning set, as in --lam 10 {option} tuning/")
    checks.positive("--lam", lam)
    if folder is None:
        way = "pass --budget to keep samples at this trade-off, or a new folder for a fine-tuning set: --target tuning/"
        raise _wrong("--lam", way)
    if others:
        raise _wrong(option, f"the fine-tuning set follows from --lam alone; remove {' and '.join(others)}")
    if both:
        raise _wrong("--copy", "choose one of --copy and --link")


def _wrong(option: str, sentence: str) -> typer.BadParameter:
    return typer.BadParameter(sentence, param_hint=option)
