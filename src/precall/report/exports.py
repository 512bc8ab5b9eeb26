"""Results for other programs: tables for papers and spreadsheets, model cards, test reports, and runs over time."""

from __future__ import annotations

import csv
import glob
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from precall.metrics.assessing.registry import SCORES
from precall.metrics.scores.results import Comparison
from precall.metrics.scores.score import Score
from precall.printing import blocks, shown, wrapped
from precall.report.table import columns, most_decimals
from precall.samples.reading import matching
from precall.samples.sampleset import natural

WORDS = {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
TEX = str.maketrans({c: f"\\{c}" for c in "&%$#_{}"} | WORDS)


def rows(comparison: Comparison) -> list[dict[str, str | float | None]]:
    """One row per model: every score with the ends of its interval, and the verdict."""
    found: list[dict[str, str | float | None]] = []
    for name, one in comparison.items():
        row: dict[str, str | float | None] = {"model": name, "verdict": str(one.verdict)}
        for score, value in one.scores.items():
            ends = (None, None) if value.interval is None else (value.interval.low, value.interval.high)
            row |= {score: value.value, f"{score}_low": ends[0], f"{score}_high": ends[1]}
        found.append(row)
    return found


def as_csv(comparison: Comparison) -> str:
    """All scores with their intervals, one row per model."""
    found = rows(comparison)
    names = list(dict.fromkeys(name for row in found for name in row))
    file = io.StringIO()
    writer = csv.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    formula = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would take for one is quoted
    writer.writerows(
        {name: f"'{cell}" if isinstance(cell, str) and cell.startswith(formula) else cell for name, cell in row.items()}
        for row in found
    )
    return file.getvalue()


def as_markdown(comparison: Comparison) -> str:
    head, *body = [[one.replace("|", r"\|") for one in row] for row in _grid(comparison)]
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *body))


def as_latex(comparison: Comparison) -> str:
    """The table as LaTeX, for the package booktabs."""
    head, *body = [" & ".join(one.translate(TEX) for one in row) + r" \\" for row in _grid(comparison)]
    begin = rf"\begin{{tabular}}{{l{'r' * len(columns(comparison))}}}"
    return "\n".join([begin, r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _grid(comparison: Comparison) -> list[list[str]]:
    """The printed table without chance levels: models and their scores with intervals."""
    names = columns(comparison)
    by_column = []
    for name in names:  # all to the decimals that the shortest interval warrants
        scores = [one.scores.get(name) for one in comparison.values()]
        by_column.append(["–" if score is None else score.text(most_decimals(scores)) for score in scores])
    labels = [SCORES[name].label if name in SCORES else name for name in names]
    return [["model", *labels], *([shown(name), *row] for name, *row in zip(comparison, *by_column, strict=True))]


def as_model_card(comparison: Comparison) -> str:
    """Results for the head of a model card on the Hugging Face hub, as YAML."""
    models = []
    for name, one in comparison.items():
        known = {score: one.scores[score] for score in columns(comparison) if score in one.scores}
        metrics = [{"type": score, "value": found.value, "name": f"{score} {found}"} for score, found in known.items()]
        data = {"name": f"{one.record.n_real} real samples", "type": "precall"}
        results = [{"task": {"type": "unconditional-generation"}, "dataset": data, "metrics": metrics}]
        models.append({"name": name, "results": results})
    return json.dumps({"model-index": models}, indent=1) + "\n"  # JSON is YAML


def as_junit(comparison: Comparison) -> str:
    """The gates as JUnit XML: one test case per model and gate."""
    found = [  # model, gate, and what is wrong
        (name, f"{gate.kind} {gate.score} {gate.limit:g}", missed)
        for gate in comparison.gates
        for name, one in comparison.items()
        for missed in ["" if gate.met(one.scores) else gate.missed(one.scores, one.label(gate.score))]
    ]
    if comparison.fail_on:
        found += [(name, "verdict", ", ".join(comparison.forbidden(name))) for name in comparison]
    cases = [
        f"<testcase classname={quoteattr(shown(name))} name={quoteattr(gate)}>"
        + (f"<failure message={quoteattr(wrong)}/>" if wrong else "")
        + "</testcase>"
        for name, gate, wrong in found
    ]
    head = f'<testsuite name="precall" tests="{len(cases)}" failures="{sum(bool(wrong) for *_, wrong in found)}">'
    verdicts = escape("\n".join(f"{shown(name)}: {one.verdict}" for name, one in comparison.items()))
    return f'<?xml version="1.0"?>\n{head}{"".join(cases)}<system-out>{verdicts}</system-out></testsuite>\n'


EXPORTS = {".csv": as_csv, ".md": as_markdown, ".tex": as_latex, ".yaml": as_model_card, ".xml": as_junit}


def history(runs: Mapping[str, Comparison], level: float = 0.05) -> str:
    """Scores of runs in their order, one table per model; a regression is marked by an exclamation mark.

    Whoever looks after every run will see one that looks worse by chance. The t-th interval is therefore widened to the
    level 6 δ / (π² t²), so that all of them hold together, however many runs there are (docs/theory.md).
    """
    names = columns({f"{run}/{name}": one for run, found in runs.items() for name, one in found.items()})
    lines = []
    for model in dict.fromkeys(model for found in runs.values() for model in found):
        scores = [found[model].scores if model in found else {} for found in runs.values()]
        table = [[name, *_marked([one.get(name) for one in scores], name, level)] for name in names]
        lines += [*wrapped(shown(model)), *blocks([["run", *map(shown, runs)], *table], indent="  ")]
    said = "! worse than an earlier run; valid while looking at each checkpoint"
    return "\n".join([*lines, *([said] if any(" !" in line for line in lines) else [])])


def _marked(scores: Sequence[Score | None], name: str, level: float) -> Iterator[str]:
    """Scores with wider intervals, marked where all of it is worse than the cautious end of an earlier one."""
    from scipy.special import ndtri

    sign, best = -1 if name in SCORES and SCORES[name].better == "lower" else 1, float("-inf")
    for t, score in enumerate(scores, start=1):
        if score is None or score.interval is None:
            yield "–" if score is None else str(score)
            continue
        wider = float(ndtri(1 - 3 * level / (9.8696 * t**2)) / ndtri(0.975))  # δ_t / 2, with π² = 9.8696
        low, high = (score.value + wider * (end - score.value) for end in (score.interval.low, score.interval.high))
        worst, most = sorted((sign * low, sign * high))
        yield f"{score.value:.3g} [{low:.3g}, {high:.3g}]{' !' if most < best else ''}"
        best = max(best, worst)


def runs_in(folder: Path, load: Callable[[Path], Comparison]) -> dict[str, Comparison]:
    """The results in the folders of a folder, in natural order."""
    found = sorted(matching(f"{glob.escape(str(folder))}/*/results.json"), key=lambda path: natural(path.parent.name))
    if not found:
        raise ValueError(f"`{shown(str(folder))}` must contain folders with results.json; got none.")
    return {path.parent.name: load(path) for path in found}
