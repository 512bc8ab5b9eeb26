"""`precall cite`: the papers that introduced each score, which are in papers.bib."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Annotated

import typer

import precall
from precall.cli.console import emit, fitted

SOFTWARE = """@software{{precall,
  title = {{{{precall: precision and recall of generative models}}}},
  author = {{{{The precall authors}}}},
  version = {{{version}}},
}}
"""


def cite(bibtex: Annotated[bool, typer.Option("--bibtex", help="Print BibTeX entries.")] = False) -> None:
    """List the papers to cite for the scores you report.

    Examples:

    \b
      precall cite
      precall cite --bibtex
    """
    if bibtex:
        emit(f"{SOFTWARE.format(version=precall.__version__)}\n{_entries().rstrip()}")
        return
    for scores, reference, title in papers():
        emit(fitted(f"{scores}: {reference}, {title}"))


def papers() -> list[tuple[str, str, str]]:
    """The scores, the reference and the title of each paper.

    Example:
        >>> papers()[0][:2]
        ('curve, area, F-scores, clusters', 'Sajjadi et al. (2018)')
    """
    entries = (dict(re.findall(r"^  (\w+) = \{(.*)\},$", one, re.M)) for one in _entries().split("\n\n"))
    return [(one["note"].removeprefix("precall: "), _reference(one), one["title"].strip("{}")) for one in entries]


def _reference(entry: dict[str, str]) -> str:
    """Authors and year, as in "Park and Kim (2023)" or "Sajjadi et al. (2018)"."""
    names = [author.partition(",")[0] for author in entry["author"].split(" and ")]
    return f"{' and '.join(names) if len(names) < 3 else f'{names[0]} et al.'} ({entry['year']})"


def _entries() -> str:
    return files("precall.cli").joinpath("papers.bib").read_text(encoding="utf-8")
