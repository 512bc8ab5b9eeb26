"""Texts: one per line of a file, as plain text (`.txt`) or JSON (`.jsonl`), or one per record of another source."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from precall.samples import hashing, reading
from precall.samples.sampleset import ErrorPolicy, SampleError, SampleSet, shown

SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, eq=False)
class TextLines(SampleSet):
    """Texts that are stored as bytes. In a file with one text per line, the ids are `"line 1"`, `"line 2"`, …"""

    lines: Sequence[bytes] = field(default_factory=list, repr=False)  # each text, or the record that contains it
    parse: Callable[[str], str] = field(default=str, repr=False)  # takes the text from a record
    paths: tuple[Path, ...] = ()
    key: str | None = None  # the name of the field or column that is read
    is_json: bool = False  # whether a line is a JSON record

    def read(self, index: int) -> str:
        try:
            line = self.lines[index]
            if len(line) > reading.text_limit():
                way_out = f"Split it into several lines, or set {reading.VARIABLE} to raise this limit"
                raise ValueError(f"longer than {reading.text_limit():,} bytes. {way_out}")
            return repaired(self, index, self.parse(line.decode()))
        except UnicodeDecodeError:
            raise SampleError(index, self.ids[index], "not UTF-8") from None
        except (ValueError, OSError) as error:
            raise SampleError(index, self.ids[index], str(error)) from None

    def fingerprint(self, index: Path | None = None) -> str:
        """SHA-256 of the files' bytes and of the name of the field that is read, or of all texts."""
        if not self.paths:
            return hashing.combined(line.decode("utf-8", "backslashreplace") for line in self.lines)
        return hashing.combined([*hashing.of_files(self.paths, index), str(self.key)])


def repaired(samples: SampleSet, index: int, text: str) -> str:
    """The text without lone surrogates, which no encoding can store; such texts are named in `samples.notes`."""
    if not SURROGATE.search(text):
        return text
    samples.notice("surrogates", index)
    return without_surrogates(text)


def without_surrogates(text: str) -> str:
    """The text with pairs of surrogates joined, and U+FFFD in the place of lone ones.

    JSON can contain half of a surrogate pair, for example if a model's output was cut inside an emoji.
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def open_lines(path: Path, on_error: ErrorPolicy) -> TextLines:
    """Open a `.txt` file: one UTF-8 text per line, unchanged except for the line ending."""
    return _text_lines(path, str, None, on_error)


def open_jsonl(path: Path, key: str | None, on_error: ErrorPolicy) -> TextLines:
    """Open a `.jsonl` file: each line is a JSON string, or an object with the text under `key` (default `"text"`)."""
    return _text_lines(path, lambda line: json_text(line, key or "text"), key or "text", on_error)


def json_text(record: str, key: str) -> str:
    """The text under `key` (a name, or a path of names and positions) in JSON, or the record if it is a string."""
    try:
        value = reading.parse_json(record)
    except ValueError as error:
        raise ValueError(f"not JSON ({error})") from None
    if isinstance(value, str):
        return value
    text = at_key(value, key)
    if isinstance(text, str):
        return text
    raise ValueError(f"no text: expected a string, or an object with a string under {key!r}{_found(text)}")


def at_key(value: object, key: str) -> object:
    """The value under a key, or under a path of keys and positions; None if there is none."""
    if isinstance(value, dict) and key in value:
        return value[key]
    first, point, rest = key.partition(".")
    inside: object = None
    if isinstance(value, dict):
        inside = value.get(first)
    elif isinstance(value, list) and re.fullmatch(r"-?[0-9]{1,9}", first) and -len(value) <= int(first) < len(value):
        inside = value[int(first)]
    return at_key(inside, rest) if point and inside is not None else inside


def _found(value: object) -> str:
    """How to continue from what is under the key: the positions of a list, or the names in an object."""
    if isinstance(value, list):
        return f"; there is a list of {len(value)}. Add a position, as in `.0`"
    if isinstance(value, dict):
        return f"; there is an object with {shown(', '.join(list(value)[:9])) or 'nothing'}. Add a name, as in `.name`"
    return ""


def _text_lines(path: Path, parse: Callable[[str], str], key: str | None, on_error: ErrorPolicy) -> TextLines:
    data = reading.read_file(path).removeprefix(b"\xef\xbb\xbf")
    reading.check_count(f"`{shown(str(path))}` has too many lines", data.count(b"\n"))
    ends = ((line[:-2] if line.endswith(b"\r\n") else line.removesuffix(b"\n")) for line in io.BytesIO(data))
    numbered = [(number, line) for number, line in enumerate(ends, start=1) if line.strip()]
    if not numbered:
        raise ValueError(f"`{shown(str(path))}` must contain at least one line of text; got none.")
    ids, lines = tuple(f"line {number}" for number, _ in numbered), [line for _, line in numbered]
    read: dict[str, Any] = {"lines": lines, "parse": parse, "paths": (Path(os.path.abspath(path)),), "key": key}
    return TextLines("text", ids, str(path), on_error, **read, is_json=key is not None)
