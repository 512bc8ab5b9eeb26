"""`precall improve --target` and `--surplus`: the folder of samples on which to fine-tune a model or a guide of it.

Images become files of their own, with the prefix "real-" or "fake-", in the subfolders in which they lay. Arrays become
`samples.npy`, tables `samples.csv` and texts `samples.jsonl`. `target.json` or `surplus.json` lists the origin of each
row.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from precall.files import check_output_folder, create, create_link, inside, staged_folder
from precall.printing import shown

if TYPE_CHECKING:
    from precall.improve.selection import ChosenRow, Selection
    from precall.samples import SampleSet
    from precall.samples.arrays import Rows
    from precall.samples.images import ImageFiles
    from precall.samples.tables import TableRows

    Writer = Callable[[Path, Iterable[ChosenRow]], None]

TAKES = "two folders or zips of images, two arrays, two tables, or two sets of texts"


def check_new(path: Path, sources: Iterable[str], option: str) -> None:
    """Refuse a folder that holds something already, or that lies inside a source."""
    check_output_folder(path, sources=sources)
    if path.is_dir() and (found := next(path.iterdir(), None)) is not None:
        raise ValueError(f"{option} must be a new or empty folder; {path} contains {shown(found.name)}.")


def write_set(path: Path, chosen: Selection, saved: str, write: Writer) -> None:
    """Write a target or a surplus into a new folder: its rows, and `target.json` or `surplus.json`."""
    check_new(path, (), f"--{chosen.purpose}")
    with staged_folder(path) as folder:
        write(folder, chosen.rows)
        create(folder / f"{chosen.purpose}.json", f"{saved}\n".encode())


def copy_image(target: Path, samples: ImageFiles, index: int, *, link: bool) -> None:
    """Copy or link one image."""
    if link:
        create_link(target, samples.paths[index])
    else:
        create(target, samples.content(index))


def writer_of(*, real: SampleSet, fake: SampleSet, link: bool) -> Writer:
    """A function that writes the rows of a target to a folder. Sources that cannot be joined are refused.

    Args:
        real: The data.
        fake: The draws of the model.
        link: Whether to create links to images instead of copies.
    """
    from precall.samples.arrays import Rows
    from precall.samples.images import ImageFiles
    from precall.samples.tables import TableRows

    if isinstance(real, ImageFiles) and isinstance(fake, ImageFiles):
        return _images({"real": real, "fake": fake}, link=link)
    if link:
        raise ValueError("--link takes two folders of images; got other samples. Leave it out.")
    if isinstance(real, Rows) and isinstance(fake, Rows):
        return _arrays({"real": real, "fake": fake})
    if isinstance(real, TableRows) and isinstance(fake, TableRows):
        return _tables(real, fake)
    if real.kind == fake.kind == "text":
        return _texts({"real": real, "fake": fake})
    got = " and ".join(f"{shown(one.name)} ({one.kind})" for one in (real, fake))
    raise ValueError(f"--target and --surplus take {TAKES}; got {got}. In Python, use `precall.improve`.")


def _images(sides: Mapping[str, ImageFiles], *, link: bool) -> Writer:
    for samples in sides.values():
        _check_images(samples, link=link)

    def write(folder: Path, rows: Iterable[ChosenRow]) -> None:
        for row in rows:
            name, samples = PurePosixPath(row.id), sides[row.source]
            path = inside(folder, str(name.with_name(f"{row.source}-{name.name}")))
            copy_image(path, samples, row.index, link=link)

    return write


def _check_images(samples: ImageFiles, *, link: bool) -> None:
    from precall.samples.images import is_image

    if link and not samples.own_files:
        raise ValueError(f"--link takes two folders of images; {shown(samples.name)} is not one. Use --copy.")
    names = {str(inside(Path("target"), name)) for name in samples.ids}
    if len(names) < len(samples):
        raise ValueError(
            f"--target and --surplus need a different name for each image; {shown(samples.name)} has one twice."
        )
    if not all(map(is_image, samples.ids)):
        raise ValueError(f"--target and --surplus take {TAKES}; {shown(samples.name)} is none of them.")


def _arrays(sides: Mapping[str, Rows]) -> Writer:
    shapes = {name: samples.array.shape[1:] for name, samples in sides.items()}
    if shapes["real"] != shapes["fake"]:
        raise ValueError(
            f"--target and --surplus need rows of equal shape; got {shapes['real']} (real), {shapes['fake']} (fake)."
        )

    def write(folder: Path, rows: Iterable[ChosenRow]) -> None:
        import numpy as np

        arrays, buffer = {name: samples.array for name, samples in sides.items()}, io.BytesIO()
        np.save(buffer, np.stack([arrays[row.source][row.index] for row in rows]), allow_pickle=False)
        create(folder / "samples.npy", buffer.getvalue())

    return write


def _tables(real: TableRows, fake: TableRows) -> Writer:
    if set(real.columns) != set(fake.columns):
        differing = ", ".join(sorted(set(real.columns) ^ set(fake.columns)))
        raise ValueError(f"--target and --surplus need tables with the same columns; only one has {shown(differing)}.")

    def write(folder: Path, rows: Iterable[ChosenRow]) -> None:
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        if real.has_header:
            table.writerow(real.columns)
        for row in rows:
            cells = (real if row.source == "real" else fake).read(row.index)
            table.writerow([cells[column] for column in real.columns])
        create(folder / "samples.csv", text.getvalue().encode())

    return write


def _texts(sides: Mapping[str, SampleSet]) -> Writer:
    """The original records if both sources are JSON Lines; otherwise records with the field "text"."""
    originals = {name: getattr(samples, "lines", ()) for name, samples in sides.items()}
    verbatim = all(getattr(samples, "is_json", False) for samples in sides.values())

    def record(row: ChosenRow) -> bytes:
        if verbatim:
            return bytes(originals[row.source][row.index]) + b"\n"
        return json.dumps({"text": sides[row.source][row.index]}, ensure_ascii=False).encode() + b"\n"

    def write(folder: Path, rows: Iterable[ChosenRow]) -> None:
        create(folder / "samples.jsonl", b"".join(map(record, rows)))

    return write
