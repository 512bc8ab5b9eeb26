"""`precall improve --target` and `--surplus`: the folder of samples on which to fine-tune a model or a guide of it.

Images become files of their own, with the prefix "real-" or "fake-", in the subfolders in which they lay. Arrays become
`samples.npy`, tables `samples.csv` and texts `samples.jsonl`. `target.json` or `surplus.json` lists the origin of each
row.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from precall.files import check_output_folder, create, create_link, inside, staged_folder
from precall.printing import shown
from precall.samples import SampleSet
from precall.samples.arrays import Rows
from precall.samples.images import ImageFiles, is_image
from precall.samples.tables import TableRows

if TYPE_CHECKING:
    from precall.improve.selection import ChosenRow, Selection

    Writer = Callable[[Path, Iterable[ChosenRow]], None]

NEED = "--target and --surplus need"
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
    if link:
        create_link(target, samples.paths[index])
    else:
        create(target, samples.content(index))


def writer_of(*, real: SampleSet, fake: SampleSet, link: bool) -> Writer:
    """A function that writes the rows of a target to a folder. Sources that cannot be joined are refused."""
    if isinstance(real, ImageFiles) and isinstance(fake, ImageFiles):
        return _images({"real": real, "fake": fake}, link=link)
    if link:
        raise ValueError("--link takes two folders of images; got other samples. Leave it out.")
    if isinstance(real, Rows) and isinstance(fake, Rows):
        shapes = real.array.shape[1:], fake.array.shape[1:]
        if shapes[0] != shapes[1]:
            raise ValueError(f"{NEED} rows of equal shape; got {shapes[0]} (real), {shapes[1]} (fake).")
        name, content = "samples.npy", array_content
    elif isinstance(real, TableRows) and isinstance(fake, TableRows):
        if differing := ", ".join(sorted(set(real.columns) ^ set(fake.columns))):
            raise ValueError(f"{NEED} tables with the same columns; only one has {shown(differing)}.")
        name, content = "samples.csv", partial(table_content, like=real)
    elif real.kind == fake.kind == "text":
        name, content = "samples.jsonl", text_content
    else:
        got = " and ".join(f"{shown(one.name)} ({one.kind})" for one in (real, fake))
        raise ValueError(f"--target and --surplus take {TAKES}; got {got}. In Python, use `precall.improve`.")
    sides: dict[str, Any] = {"real": real, "fake": fake}
    return lambda folder, rows: create(folder / name, content([(sides[row.source], row.index) for row in rows]))


def array_content(rows: Sequence[tuple[Any, int]]) -> bytes:
    """Rows of arrays as a .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, np.stack([samples.array[index] for samples, index in rows]), allow_pickle=False)
    return buffer.getvalue()


def table_content(rows: Sequence[tuple[Any, int]], like: TableRows) -> bytes:
    """Rows of tables as a .csv file with the columns of one of them."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    if like.has_header:
        table.writerow(like.columns)
    for samples, index in rows:
        cells = samples.read(index)
        table.writerow([cells[column] for column in like.columns])
    return text.getvalue().encode()


def text_content(rows: Sequence[tuple[Any, int]]) -> bytes:
    """Texts as JSON Lines: the original records if all sources are such files; otherwise with the field "text"."""
    if all(getattr(samples, "is_json", False) for samples, _ in rows):
        return b"".join(bytes(samples.lines[index]) + b"\n" for samples, index in rows)
    return "".join(json.dumps({"text": samples[i]}, ensure_ascii=False) + "\n" for samples, i in rows).encode()


def _images(sides: Mapping[str, ImageFiles], *, link: bool) -> Writer:
    for samples in sides.values():
        check_images(samples, link=link)

    def write(folder: Path, rows: Iterable[ChosenRow]) -> None:
        for row in rows:
            name, samples = PurePosixPath(row.id), sides[row.source]
            path = inside(folder, str(name.with_name(f"{row.source}-{name.name}")))
            copy_image(path, samples, row.index, link=link)

    return write


def check_images(samples: SampleSet, *, link: bool) -> None:
    """Refuse samples that are not image files, each with a name of its own, which can be linked if requested."""
    name = shown(samples.name)
    if not isinstance(samples, ImageFiles) or not all(map(is_image, samples.ids)):
        raise ValueError(f"expected a folder or zip of images; {name} is neither.")
    if link and not samples.own_files:
        raise ValueError(f"--link takes folders of images; {name} is not one. Use --copy.")
    if len({str(inside(Path("target"), one)) for one in samples.ids}) < len(samples):
        raise ValueError(f"expected a different name for each image; {name} has one twice.")
