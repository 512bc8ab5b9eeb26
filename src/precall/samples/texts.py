"""Text files with one sample per line, as plain text (`.txt`) or JSON (`.jsonl`)."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from precall.samples import hashing, reading
from precall.samples.sampleset import ErrorPolicy, SampleError, SampleSet, shown


@dataclass(frozen=True, eq=False)
class TextLines(SampleSet):
    """The non-blank lines of a file. Their ids are `"line 1"`, `"line 2"`, …, numbered as in an editor."""

    lines: list[bytes] = field(default_factory=list, repr=False)
    parse: Callable[[str], str] = field(default=str, repr=False)
    path: Path = Path()
    key: str | None = None

    def read(self, index: int) -> str:
        """Return the text at `index`."""
        if len(self.lines[index]) > reading.text_limit():
            way_out = f"Split it into several lines, or set {reading.VARIABLE} to raise this limit"
            raise SampleError(index, self.ids[index], f"longer than {reading.text_limit():,} bytes. {way_out}")
        try:
            return self.parse(self.lines[index].decode())
        except UnicodeDecodeError:
            raise SampleError(index, self.ids[index], "not UTF-8") from None
        except ValueError as error:
            raise SampleError(index, self.ids[index], str(error)) from None

    def fingerprint(self, index: Path | None = None) -> str:
        """SHA-256 of the file's bytes and of the name of the field that is read."""
        return hashing.combined([*hashing.of_files([self.path], index), str(self.key)])


def open_lines(path: Path, on_error: ErrorPolicy) -> TextLines:
    """Open a `.txt` file: one UTF-8 text per line, unchanged except for the line ending."""
    return _text_lines(path, str, None, on_error)


def open_jsonl(path: Path, key: str | None, on_error: ErrorPolicy) -> TextLines:
    """Open a `.jsonl` file: each line is a JSON string, or an object with the text under `key` (default `"text"`)."""
    return _text_lines(path, lambda line: _json_text(line, key or "text"), key or "text", on_error)


def _text_lines(path: Path, parse: Callable[[str], str], key: str | None, on_error: ErrorPolicy) -> TextLines:
    lines = io.BytesIO(reading.read_file(path).removeprefix(b"\xef\xbb\xbf"))
    numbered = [(number, _without_end(line)) for number, line in enumerate(lines, start=1) if line.strip()]
    if not numbered:
        raise ValueError(f"`{shown(str(path))}` must contain at least one line of text; got none.")
    return TextLines(
        kind="text",
        ids=tuple(f"line {number}" for number, _ in numbered),
        name=str(path),
        on_error=on_error,
        lines=[line for _, line in numbered],
        parse=parse,
        path=Path(os.path.abspath(path)),
        key=key,
    )


def _without_end(line: bytes) -> bytes:
    return line[:-2] if line.endswith(b"\r\n") else line.removesuffix(b"\n")


def _json_text(line: str, key: str) -> str:
    try:
        value = reading.parse_json(line)
    except ValueError as error:
        raise ValueError(f"not JSON ({error})") from None
    text = value.get(key) if isinstance(value, dict) else value
    if not isinstance(text, str):
        raise ValueError(f"no text: expected a string, or an object with a string under {key!r}")
    return text
