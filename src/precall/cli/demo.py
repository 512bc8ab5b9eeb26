"""`precall demo`: six textbook pairs, their curves and what the curves say."""

from __future__ import annotations

from precall.theory.spectrum import RatioSpectrum
from precall.theory.toys import textbook

BLOCKS = " ▁▂▃▄▅▆▇█"
CASES = {
    "a": "drops one of two modes",
    "b": "invents a second mode",
    "c": "is the data",
    "d": "has nothing in common with the data",
    "e": "nearly drops one of two modes",
    "f": "makes too much of a rare mode",
}


def demo() -> None:
    """Show the six textbook cases of Sajjadi et al. (2018) with their precision-recall curves.

    Example:  precall demo
    """
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Six models of one data set: what precision and recall tell apart", title_justify="left")
    for heading, style in (("case", "bold"), ("the model", ""), ("precision", ""), ("recall", ""), ("area", "")):
        table.add_column(
            heading, style=style, justify="right" if heading in ("precision", "recall", "area") else "left"
        )
    table.add_column("precision over recall 0…1")
    for case, said in CASES.items():
        spectrum = textbook(case).spectrum
        table.add_row(
            case,
            said,
            f"{spectrum.max_precision:.2f}",
            f"{spectrum.max_recall:.2f}",
            f"{spectrum.area:.3f}",
            sparkline(spectrum),
        )
    console = Console()
    console.print(table)
    console.print("precision: share of the model where there is data · recall: share of the data the model can reach")


def sparkline(spectrum: RatioSpectrum, width: int = 24) -> str:
    """The curve as a line of blocks: precision at recalls evenly spread over (0, 1]."""
    recalls = [(i + 1) / width for i in range(width)]
    return "".join(BLOCKS[round(float(spectrum.precision(recall=r)) * 8)] for r in recalls)
