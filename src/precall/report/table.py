"""Results as text: scores with intervals, chance levels, and one verdict per model."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from precall.encoders.registry import publication_hint
from precall.metrics.assessing.registry import DEFAULT, METRICS, SCORES
from precall.metrics.protocols.several_encoders import disagreements, each_encoder
from precall.metrics.scores.metric import QUICK
from precall.metrics.scores.results import Assessment, Comparison
from precall.metrics.scores.score import Score, named
from precall.metrics.tables.column_drift import ColumnDrift
from precall.printing import aligned, blocks, cut, shown, wrapped
from precall.report.summary import findings

HALVES = ("precision", "recall")  # scores whose chance level is that of one half of the data against the other
LABEL = 24  # characters of a group's name
SHOWN_COLUMNS = 5  # columns, and pairs of columns, of a table that are printed


def text(comparison: Comparison) -> str:
    """The findings in one sentence, then one block per model: its verdict, and its scores with intervals and chance."""
    drifts = [line for name, one in comparison.items() if one.drift for line in drift(shown(name), one.drift)]
    hints = publication_hint(next(iter(comparison.values())).encoder)
    above = [line for one in (heading(comparison), *hints, *departures(comparison)) for line in wrapped(one)]
    halves = [one.baseline[name].n_real for one in comparison.values() for name in HALVES if name in one.baseline]
    said = "Chance of precision and recall: one half of the data against the other, {:,} samples each."
    notes = (*(said.format(n) for n in halves[:1]), *disagreements(comparison))
    below = [line for sentence in notes for line in wrapped(sentence)]
    digits = {
        score: most_decimals(one.scores.get(score) for one in comparison.values()) for score in columns(comparison)
    }
    models = [line for name, one in comparison.items() for line in ("", *_block(name, one, digits))]
    return "\n".join([*above, "", *wrapped(findings(comparison)), *models, *(["", *below] if below else []), *drifts])


def _block(name: str, one: Assessment, digits: Mapping[str, int | None]) -> list[str]:
    """The name of a model, its verdict, and its scores: one row per encoder and group, then the chance levels."""
    rows = [(encoder if one.encoders else "value", found) for encoder, found in each_encoder(one).items()]
    rows += [(cut(str(label), LABEL), group) for label, group in one.groups.items()]
    columns = [["", *(cell for label, _ in rows for cell in (shown(str(label)), "  95 %")), "chance"]]
    for score, decimals in digits.items():
        cells = [cell for _, found in rows for cell in two_lines(found.scores.get(score), decimals)]
        label = named(score, score, "encoder" if one.encoders else one.encoder, rows_of(one, score))
        columns.append([label, *cells, _chance(one, score, decimals)])
    kept = [i for i, cells in enumerate(zip(*columns[1:], strict=True)) if any(cells)]
    table = [[column[i] for i in kept] for column in columns]
    return [*wrapped(shown(name)), *wrapped(one.verdict, indent="  "), *blocks(table, indent="  ")]


def two_lines(score: Score | None, decimals: int | None = None) -> tuple[str, str]:
    """A score, and the interval that stands below it."""
    if score is None:
        return "–", ""
    value, _, interval = score.text(decimals).partition(" [")
    return value, interval.removesuffix("]").replace(", ", " to " if "-" in interval else "–")


def _chance(one: Assessment, name: str, decimals: int | None) -> str:
    """The chance level of a score, or what one half of the data has against the other."""
    chance = one.scores[name].chance if name in one.scores else None
    if chance is None and name in HALVES and name in one.baseline:
        chance = one.baseline[name].value
    if chance is None:
        return ""
    return f"{chance:.3g}" if decimals is None else f"{chance:z.{decimals}f}"


def departures(comparison: Mapping[str, Assessment]) -> list[str]:
    """Where the models' runs depart from the preset, one line per departure."""
    presets = [one.record.preset for one in comparison.values()]
    found = dict.fromkeys(line for preset in presets if preset is not None for line in preset.departures)
    return [f"  departs from the preset: {shown(line)}" for line in found]


def rows_of(one: Assessment, score: str) -> int | None:
    """Number of rows of each side that a score was computed from, if that is a part of them."""
    found = one.scores.get(score)
    return None if found is None else found.settings.get("rows")


def heading(comparison: Mapping[str, Assessment]) -> str:
    """How the numbers were made, in one line: the encoder, the numbers of samples, k and the device."""
    first = next(iter(comparison.values()))
    record, own = first.record, first.record.device or "cpu"
    fakes = dict.fromkeys(_count(one.record.n_fake) for one in comparison.values())
    sizes = f"{_count(record.n_real)} real and {', '.join(fakes)} fake samples"
    other = own if record.real is None else (record.real.protocol or {}).get("device", own)
    settings = f"k = {record.k}, device {own if other == own else f'{own} (encoder {other})'}"
    preset = "" if record.preset is None else f"preset {record.preset.name}, "
    encoders = ", ".join(shown(str(name)) for name in each_encoder(first)) if first.encoders else first.encoder
    plural = "s" if first.encoders else ""
    said = shown("none (features were given)" if encoders in (None, "identity") else encoders)
    return f"{preset}encoder{plural} {said}, {sizes}, {settings}"


def _count(n: int | None) -> str:
    return "an unknown number of" if n is None else f"n = {n}"


def drift(name: str, found: ColumnDrift) -> list[str]:
    """The columns, and pairs of columns, of a table that differ most, with the total variation and its chance level."""
    columns, pairs = found.differing_columns(), found.differing_pairs()
    if not columns and not pairs:
        return ["", f"{name}: no single column differs, and no dependence between two columns."]
    rows = []
    for kind, scores in (("column", columns), ("dependence", pairs)):
        listed = list(scores.items())[:SHOWN_COLUMNS]
        part = [f" (of {score.settings['rows']:,} rows)" for _, score in listed if "rows" in score.settings]
        rows += [["".join([kind, *part[:1]]), "TV", "chance"]] if listed else []
        rows += [[shown(str(one)), str(score), f"{score.chance:.2g}"] for one, score in listed]
    more = max(0, len(columns) - SHOWN_COLUMNS) + max(0, len(pairs) - SHOWN_COLUMNS)
    head = f"{name}: what differs most" + (f" (results.json has {more} more)" if more else "")
    lines = []
    for column, score in list(columns.items())[:SHOWN_COLUMNS]:
        cells = [cell for cell in score.details.get("histogram", ()) if cell["clear"]]
        said = [
            f"{shown(cell['label'])}: {100 * cell['real']:.1f} % of the data, {100 * cell['fake']:.1f} % of the model"
            for cell in sorted(cells, key=lambda cell: -abs(cell["real"] - cell["fake"]))[:3]
        ]
        lines += wrapped(f"{shown(column)}: {'; '.join(said)}", indent="  ") if said else []
    return ["", head, *(f"  {line}" for line in aligned(rows)), *lines]


def columns(comparison: Mapping[str, Assessment]) -> list[str]:
    """The scores to show: the main ones that are available and those requested by name, or else all of them."""
    available = dict.fromkeys(name for one in comparison.values() for name in one.scores)
    if any(one.record.preset is not None for one in comparison.values()):
        return list(available)  # a preset names the scores it reports
    named = {name for one in comparison.values() for name in _named(one.record.metrics)}
    main = [name for name, info in SCORES.items() if (info.shown == "table" or name in named) and name in available]
    return main or list(available)


def _named(metrics: Collection[str]) -> list[str]:
    """The scores of metrics without a column of their own, if the metrics were chosen by name."""
    if set(metrics) - {"memorization"} in (set(DEFAULT), set(QUICK)):
        return []
    chosen = [METRICS[name] for name in metrics if name in METRICS and not METRICS[name].is_curve]
    alone = [metric for metric in chosen if all(info.shown != "table" for info in metric.scores)]
    return [info.name for metric in alone for info in metric.scores]


def most_decimals(scores: Iterable[Score | None]) -> int | None:
    """The number of decimals of a column; None if no score has an interval."""
    known = [score.decimals for score in scores if score is not None and score.decimals is not None]
    return max(known, default=None)
