"""Tar archives, one or many, as WebDataset writes them: images, or texts in `.txt` and `.json` members.

A sample consists of the members that have the same path up to the first point of the file name: `0001.jpg`, `0001.txt`
and `0001.json` are three fields of one sample. Members are located once and read in place. Nothing is extracted to
disk, and links are ignored.
"""

from __future__ import annotations

import posixpath
import re
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

from precall.samples import reading
from precall.samples.arrays import OnDemand, absolute
from precall.samples.images import ImageFiles, is_image
from precall.samples.sampleset import ErrorPolicy, SampleSet, natural, shown
from precall.samples.texts import TextLines, json_text

EXPECTED = "an uncompressed .tar archive"
Part = tuple[Path, int, int]  # file, offset, size
HEADER = 1 << 16  # bytes of the headers of one member: long names and further attributes
DIGITS = re.compile(rb"[0-9]{65}")  # `tarfile` searches long numbers in quadratic time


class Member(NamedTuple):
    """A regular file in an archive."""

    sample: str  # its path up to the first point of the file name
    field: str  # the rest of its name in lower case, such as `jpg` or `seg.png`
    name: str
    part: Part


class _Headers:
    """A file of which `tarfile` reads the headers, with a limit on those of one member."""

    def __init__(self, file: BufferedReader) -> None:
        self.tell, self.seek, self._file, self.left = file.tell, file.seek, file, HEADER

    def read(self, size: int = -1) -> bytes:
        self.left -= size
        data = self._file.read(size) if size >= 0 and self.left >= 0 else b""
        if self.left < 0 or size < 0 or DIGITS.search(data):
            raise ValueError(f"the header of a member must have at most {HEADER:,} bytes of plain text.")
        return data


def open_tar(paths: Sequence[Path], name: str, key: str | None, on_error: ErrorPolicy) -> SampleSet:
    """Open `.tar` archives, one after the other; the members of each are in natural order.

    The samples are in the field `key`: the suffix of members (`png`, `seg.png`, `txt`), or a path into the `.json`
    members (`json.caption`, or `caption` alone). None means the images, or else `txt`, or else the path `text` in JSON.
    """
    members: list[Member] = []
    others = 0
    for path in paths:
        prefix = f"{path.name}/" if len(paths) > 1 else ""
        found, ignored = _members(path, prefix)
        members += sorted(found, key=lambda member: natural(member.name))
        others += ignored
        reading.check_count(f"`{shown(name)}` has too many members", len(members))
    fields = Counter(member.field for member in members)
    field, inside = _field(members, fields, key, name)
    chosen = [one for one in members if (is_image(one.name) if field is None else one.field == field)]
    ignored = others + len(members) - len(chosen)
    ids, places = tuple(member.name for member in chosen), absolute(paths)
    contents = OnDemand(len(chosen), lambda index: reading.read_part(*chosen[index].part))
    if field is None or is_image(f"a.{field}"):
        content = contents.__getitem__
        return ImageFiles("images", ids, name, on_error, ignored, content=content, paths=places, key=field)
    parse: Callable[[str], str] = (lambda record: json_text(record, inside)) if inside else str
    place, inner = f"{name}::{key or field}", f"{field}.{inside}"
    return TextLines("text", ids, place, on_error, ignored, lines=contents, parse=parse, paths=places, key=inner)


def _field(members: Sequence[Member], fields: Counter[str], key: str | None, name: str) -> tuple[str | None, str]:
    """The field that contains the samples (None: all images), and the path inside it, which is empty but for JSON."""
    if key is None:
        return _default_field(members, fields, name)
    first, _, rest = key.partition(".")
    if key.lower() in fields:
        return key.lower(), "text" if key.lower() == "json" else ""
    if first == "json" and rest and "json" in fields:
        return "json", rest
    if "json" in fields:
        return "json", key
    raise ValueError(f"`key` must be one of the fields in `{shown(name)}` ({_listed(fields)}); got {key!r}.")


def _default_field(members: Sequence[Member], fields: Counter[str], name: str) -> tuple[str | None, str]:
    pictures = [member for member in members if is_image(member.name)]
    repeated = {member.field for member in pictures if fields[member.field] > 1}
    samples = Counter(member.sample for member in pictures if member.field in repeated)
    if samples and max(samples.values()) > 1:
        known = f"the image fields in `{shown(name)}` ({_listed(repeated)})"
        raise ValueError(f"`key` must be one of {known}, since a sample has several; got no name.")
    choices: list[str | None] = [None] if pictures else [field for field in ("txt", "json") if field in fields]
    if choices:
        return choices[0], "text" if choices[0] == "json" else ""
    got = f"{_listed(fields) or 'none'}. Check the path"
    raise ValueError(f"`{shown(name)}` must contain images, .txt or .json members; got {got}.")


def _listed(fields: Counter[str] | set[str]) -> str:
    return shown(", ".join(sorted(fields, key=natural)[:20]))


def _members(path: Path, prefix: str) -> tuple[list[Member], int]:
    """The regular files in an archive, and the number of other members. Only headers are read."""
    found: list[Member] = []
    others, end = 0, path.stat().st_size
    with reading.open_file(path) as file, reading.parsing(path, EXPECTED):
        limited = _Headers(file)
        archive = tarfile.TarFile(fileobj=limited)  # type: ignore[arg-type]
        for member in _headers(archive, limited):
            name = member.name.replace("\\", "/").removeprefix("./").encode("utf-8", "backslashreplace").decode()
            if member.isdir():
                continue
            leaves = posixpath.isabs(name) or ".." in name.split("/") or not name  # nothing is extracted
            if not member.isreg() or member.issparse() or leaves or posixpath.basename(name).startswith("."):
                others += 1
                continue
            if not 0 <= member.offset_data <= member.offset_data + member.size <= end:
                raise ValueError(f"the member {member.name} goes beyond its end: it is truncated.")
            first, _, field = posixpath.basename(name).partition(".")
            sample, part = (
                posixpath.join(posixpath.dirname(prefix + name), first),
                (path, member.offset_data, member.size),
            )
            found.append(Member(sample, field.lower(), prefix + name, part))
            reading.check_count(f"`{shown(str(path))}` has too many members", len(found) + others)
        file.seek(archive.offset)
        if file.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):  # `tarfile` stops silently at a damaged header
            raise ValueError("it ends without the mark of the end, or a header is damaged: members would be missing.")
    return found, others


def _headers(archive: tarfile.TarFile, limited: _Headers) -> Iterator[tarfile.TarInfo]:
    """The headers in order. They are not kept: a million of them would take a gigabyte."""
    before = -1
    while (member := archive.next()) is not None:
        limited.left = HEADER
        if archive.offset <= before:
            raise ValueError("a header points backwards: it is damaged.")
        before = archive.offset
        archive.members.clear()  # type: ignore[attr-defined]
        yield member
