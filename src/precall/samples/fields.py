"""Fields beside the samples, such as the prompt of each answer, and answers in the logs of evaluation harnesses.

| source | a field |
|---|---|
| `.jsonl` | a name or a path into nested objects, such as `doc.question` |
| `.csv`, `.tsv`, `.parquet`, `.arrow` | a column |
| folder of images | a column of `metadata.jsonl`, `metadata.csv`, `captions.jsonl` or `captions.csv` in it |
| logs: `.jsonl` of lm-evaluation-harness, `.json` of Inspect | `prompt`, and `answer`: responses, or targets |
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from precall.samples import reading
from precall.samples.images import ImageFiles
from precall.samples.opening import open_samples
from precall.samples.sampleset import ErrorPolicy, SampleSet, shown
from precall.samples.tables import TableRows, open_csv
from precall.samples.texts import TextLines, at_key

CAPTIONS = ("metadata.jsonl", "metadata.csv", "captions.jsonl", "captions.csv")
PROMPT, ANSWER = "prompt", "answer"  # the fields of a log


def open_prompted(
    source: str, *, prompt: str, key: str | None, is_real: bool, on_error: ErrorPolicy = "fail"
) -> tuple[SampleSet, list[str | int]]:
    """Samples with the prompt of each: the fields `key` and `prompt` of a path. Of a log, reals are the targets."""
    log = _log(Path(source), is_real)
    if log is not None:
        lines = [json.dumps(record).encode() for record in log]
        if not lines:
            raise ValueError(f"`{shown(source)}` must hold at least one answer; got none.")
        ids = tuple(f"answer {i}" for i in range(1, len(lines) + 1))
        opened: SampleSet = replace(_of_lines(source, lines), ids=ids, on_error=on_error)
        return opened, field_of(opened, PROMPT, source)
    if Path(source).suffix.lower() in (".csv", ".tsv"):
        table = open_csv(Path(source), on_error)
        texts = [json.dumps({ANSWER: cell}).encode() for cell in field_of(table, key or ANSWER, source)]
        return replace(_of_lines(source, texts), ids=table.ids, on_error=on_error), field_of(table, prompt, source)
    opened = open_samples(source, key=key, on_error=on_error)
    return opened, field_of(opened, prompt, source)


def field_of(samples: SampleSet, name: str, source: str | None = None) -> list[str | int]:
    """A field of the record of each sample: a text or a whole number."""
    if isinstance(samples, TextLines) and samples.is_json:
        found = [_plain(line, name, samples.on_error) for line in samples.lines]
    elif isinstance(samples, TableRows) and name in samples.columns:
        cells = samples.data[samples.columns.index(name)]
        found = [cells.text(index).strip() for index in range(len(samples))]
    elif isinstance(samples, ImageFiles) and source is not None and Path(source).is_dir():
        found = _captions(Path(source), samples, name)
    elif source is not None and not isinstance(samples, TableRows | TextLines | ImageFiles):
        column = open_samples(source, key=name)
        found = [str(column[i]) for i in range(len(column))] if column.kind == "text" else [None]
    else:
        found = [None]
    if len(found) != len(samples) or None in found:
        where = f"; it has the columns {', '.join(samples.columns)}" if isinstance(samples, TableRows) else ""
        expected = f"a text or a whole number under {name!r} in every record"
        raise ValueError(f"{shown(samples.name)} must have {expected}{where}.")
    return [one for one in found if one is not None]


def _of_lines(source: str, lines: list[bytes]) -> TextLines:
    """JSON records as texts; their fingerprint is that of the records."""
    parse = lambda line: str(reading.parse_json(line)[ANSWER])  # noqa: E731
    ids = tuple(map(str, range(len(lines))))
    return TextLines(kind="text", ids=ids, name=source, lines=lines, parse=parse, key=ANSWER, is_json=True)


def _plain(line: bytes, name: str, on_error: ErrorPolicy) -> str | int | None:
    """The value under a name or path in a JSON record. A list of messages becomes one text."""
    try:
        value = at_key(reading.parse_json(line), name)
    except ValueError:
        if on_error == "fail":
            raise
        return None
    if isinstance(value, list | dict) and value:
        return _message(value)
    return value if isinstance(value, str | int) else None


def _message(value: object) -> str:
    if isinstance(value, list):
        return "\n".join(_message(one) for one in value)
    if isinstance(value, Mapping) and "content" in value:
        return _message(value["content"])
    if isinstance(value, Mapping) and isinstance(value.get("text"), str):
        return str(value["text"])
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _captions(folder: Path, samples: ImageFiles, name: str) -> list[str | int | None]:
    place = next((folder / one for one in CAPTIONS if (folder / one).is_file()), None)
    if place is None:
        expected = f"{CAPTIONS[0]} or {CAPTIONS[1]} with its prompts"
        raise ValueError(f"`{shown(str(folder))}` must contain {expected}; got none.")
    rows = open_samples(str(place), key="file_name")
    files = [str(one) for one in field_of(rows, "file_name")]
    by_file = dict(zip(files, field_of(rows, name), strict=True))
    return [by_file.get(one) for one in samples.ids]


def _log(path: Path, is_real: bool) -> list[dict[str, Any]] | None:
    """The records of a log of lm-evaluation-harness or Inspect as prompts and answers; None if it is none."""
    if path.suffix.lower() == ".json" and path.is_file():
        samples = at_key(reading.read_json(path), "samples")
        if not isinstance(samples, list):
            raise ValueError(f"`{shown(str(path))}` must be a log of Inspect with `samples`.")
        return [one for sample in samples if isinstance(sample, dict) for one in _of_inspect(sample, is_real)]
    if path.suffix.lower() != ".jsonl" or not path.is_file():
        return None
    lines = [line for line in reading.read_file(path).splitlines() if line.strip()]
    first = reading.parse_json(lines[0]) if lines else None
    if not isinstance(first, dict) or not {"resps", "doc"} <= set(first):
        return None
    return [one for line in lines for one in _of_harness(reading.parse_json(line), is_real)]


def _of_harness(record: object, is_real: bool) -> Iterator[dict[str, Any]]:
    if not isinstance(record, dict):
        return
    given = at_key(record, "arguments.0.0") or at_key(record, "arguments.gen_args_0.arg_0") or record.get("doc_id")
    answers = [record.get("target")] if is_real else list(_texts(record.get("resps")))
    for answer in answers:
        yield {PROMPT: given if isinstance(given, str | int) else _message(given), ANSWER: str(answer)}


def _of_inspect(sample: Mapping[str, Any], is_real: bool) -> Iterator[dict[str, Any]]:
    if is_real and sample.get("epoch", 1) != 1:
        return  # the target of a sample is the same in every epoch
    said = at_key(sample, "output.choices.0.message.content") or at_key(sample, "output.completion") or ""
    targets = sample.get("target")
    answers = (targets if isinstance(targets, list) else [targets]) if is_real else [said]
    for answer in answers:
        yield {PROMPT: _message(sample.get("input")), ANSWER: _message(answer)}


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
