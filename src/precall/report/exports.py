"""Results for other programs: tables for papers and spreadsheets, model cards, test reports, and runs over time."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

from precall.metrics.assessing.registry import SCORES
from precall.printing import aligned, shown
from precall.report.table import cells, columns

if TYPE_CHECKING:
    from precall.metrics.scores.results import Comparison
    from precall.metrics.scores.score import Score

TEX = str.maketrans({c: f"\\{c}" for c in "&%$#_{}"} | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}"})
TEX[ord("\\")] = r"\textbackslash{}"


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
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in found)
    return file.getvalue()


def _cell(value: str | float | None) -> str | float | None:
    """A text that a spreadsheet would take for a formula is quoted."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def as_markdown(comparison: Comparison) -> str:
    """The table as Markdown."""
    head, *body = [[one.replace("|", r"\|") for one in row] for row in _grid(comparison)]
    lines = [head, ["---"] * len(head), *body]
    return "".join(f"| {' | '.join(row)} |\n" for row in lines)


def as_latex(comparison: Comparison) -> str:
    """The table as LaTeX, for the package booktabs."""
    head, *body = [" & ".join(one.translate(TEX) for one in row) + r" \\" for row in _grid(comparison)]
    begin = rf"\begin{{tabular}}{{l{'r' * len(columns(comparison))}}}"
    lines = [begin, r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]
    return "\n".join(lines) + "\n"


def _grid(comparison: Comparison) -> list[list[str]]:
    """The printed table without chance levels: models and their scores with intervals."""
    names = columns(comparison)
    by_column = [cells([one.scores.get(score) for one in comparison.values()]) for score in names]
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
    cases, failures = [], 0
    for gate in comparison.gates:
        for name, one in comparison.items():
            missed = not gate.met(one.scores)
            failures += missed
            said = f"<failure message={quoteattr(gate.missed(one.scores, one.label(gate.score)))}/>" if missed else ""
            about = f"classname={quoteattr(shown(name))} name={quoteattr(f'{gate.kind} {gate.score} {gate.limit:g}')}"
            cases.append(f"<testcase {about}>{said}</testcase>")
    for name in comparison if comparison.fail_on else ():
        forbidden = ", ".join(comparison.forbidden(name))
        failures += bool(forbidden)
        said = f"<failure message={quoteattr(forbidden)}/>" if forbidden else ""
        cases.append(f'<testcase classname={quoteattr(shown(name))} name="verdict">{said}</testcase>')
    head = f'<testsuite name="precall" tests="{len(cases)}" failures="{failures}">'
    verdicts = escape("\n".join(f"{shown(name)}: {one.verdict}" for name, one in comparison.items()))
    return f'<?xml version="1.0"?>\n{head}{"".join(cases)}<system-out>{verdicts}</system-out></testsuite>\n'


EXPORTS: dict[str, Callable[[Comparison], str]] = {
    ".csv": as_csv,
    ".md": as_markdown,
    ".tex": as_latex,
    ".yaml": as_model_card,
    ".xml": as_junit,
}


# ---------------------------------------------------------------------------------------------------------- history


def history(runs: Mapping[str, Comparison], level: float = 0.05) -> str:
    """Scores of runs in their order, with intervals; a regression is marked by an exclamation mark.

    Whoever looks after every run will see one that looks worse by chance. The t-th interval is therefore widened to the
    level 6 δ / (π² t²), so that all of them hold together, however many runs there are (docs/theory.md).

    Args:
        runs: The results by the name of the run, in order.
        level: δ, the probability that any interval fails.
    """
    from scipy.special import ndtri

    names = columns({f"{run}/{name}": one for run, found in runs.items() for name, one in found.items()})
    lines, best = [["run", "model", *names]], dict[tuple[str, str], float]()
    for t, (run, found) in enumerate(runs.items(), start=1):
        wider = float(ndtri(1 - 3 * level / (9.8696 * t**2)) / ndtri(0.975))  # δ_t / 2, with π² = 9.8696
        for model, one in found.items():
            row = [_marked(one.scores.get(score), score, (model, score), best, wider) for score in names]
            lines.append([shown(run), shown(model), *row])
    said = "! worse than an earlier run; valid while looking at each checkpoint"
    return "\n".join([*aligned(lines), *([said] if any(row.endswith(" !") for line in lines for row in line) else [])])


def _marked(score: Score | None, name: str, key: tuple[str, str], best: dict[Any, float], wider: float) -> str:
    """A score with its wider interval, marked if all of it is worse than the cautious end of an earlier run."""
    if score is None or score.interval is None:
        return "–" if score is None else str(score)
    sign = -1 if name in SCORES and SCORES[name].better == "lower" else 1
    low, high = (score.value + wider * (end - score.value) for end in (score.interval.low, score.interval.high))
    worst, most = sorted((sign * low, sign * high))
    worse = key in best and most < best[key]
    best[key] = max(best.get(key, worst), worst)
    return f"{score.value:.3g} [{low:.3g}, {high:.3g}]{' !' if worse else ''}"


def runs_in(folder: Path, load: Callable[[Path], Comparison]) -> dict[str, Comparison]:
    """The results in the folders of a folder, in natural order.

    Raises:
        ValueError: If there are none.
    """
    from glob import escape

    from precall.samples.reading import matching
    from precall.samples.sampleset import natural

    found = sorted(matching(f"{escape(str(folder))}/*/results.json"), key=lambda path: natural(path.parent.name))
    if not found:
        raise ValueError(f"`{shown(str(folder))}` must contain folders with results.json; got none.")
    return {path.parent.name: load(path) for path in found}
