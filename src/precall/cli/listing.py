"""`precall list` and `precall cite`: what can be named, and the papers behind it."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Annotated, Literal

import typer

import precall
from precall.cli.console import emit, fitted
from precall.plugins import listed
from precall.printing import hanging, wrapped

SOFTWARE = """@software{{precall,
  title = {{{{precall: precision and recall of generative models}}}},
  author = {{{{The precall authors}}}},
  version = {{{version}}},
}}
"""


def list_names(
    what: Annotated[Literal["encoders", "metrics", "presets"], typer.Argument(help="What to list.")],
) -> None:
    """List encoders or metrics, with those that other packages add, or presets, with every choice that they make.

    \b
    Examples:
      precall list encoders
      precall list presets
    """
    from precall.encoders.forms import FORMS
    from precall.encoders.registry import ENCODERS
    from precall.metrics.assessing.registry import METRICS
    from precall.metrics.protocols.presets import PRESETS

    if what == "presets":
        return emit("\n\n".join("\n".join(described(one.to_dict())) for one in PRESETS.values()))
    forms = {f"{name}:…": make for name, make in FORMS.items()}
    known = {
        "encoders": {name: (make.__doc__ or "").split("\n")[0] for name, make in (ENCODERS | forms).items()},
        "metrics": {name: metric.reads for name, metric in METRICS.items()},
    }
    emit("\n".join(hanging(listed(what, known[what]))))


def described(preset: dict[str, object]) -> list[str]:
    """The lines about a preset: its name and source, then one line per choice."""
    said = {True: "yes", False: "no", None: "all samples"}
    rest = {key: value for key, value in preset.items() if key not in ("name", "source") and value not in ("", [])}
    lines = list(wrapped(f"{preset['name']}: {preset['source']}"))
    for key, value in rest.items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        text = said[value] if value is None or isinstance(value, bool) else text
        head, *more = wrapped(text, indent=" " * 17)
        lines += [f"  {key.replace('_', ' '):<14} {head.lstrip()}", *more]
    return lines


def cite(bibtex: Annotated[bool, typer.Option("--bibtex", help="Print BibTeX entries.")] = False) -> None:
    """List the papers to cite for the scores you report.

    \b
    Examples:
      precall cite
      precall cite --bibtex
    """
    entries = files("precall.cli").joinpath("papers.bib").read_text(encoding="utf-8")
    if bibtex:
        emit(f"{SOFTWARE.format(version=precall.__version__)}\n{entries.rstrip()}")
        return
    for one in (dict(re.findall(r"^  (\w+) = \{(.*)\},$", entry, re.M)) for entry in entries.split("\n\n")):
        names = [author.partition(",")[0] for author in one["author"].split(" and ")]
        authors = " and ".join(names) if len(names) < 3 else f"{names[0]} et al."
        scores, title = one["note"].removeprefix("precall: "), one["title"].strip("{}")
        emit(fitted(f"{scores}: {authors} ({one['year']}), {title}"))
