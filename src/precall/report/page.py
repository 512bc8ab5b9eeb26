"""The page: one self-contained HTML file.

It works from file://, needs no network, and contains its numbers as JSON. Strings reach the page only through that JSON
and `textContent`, so a hostile file name cannot become markup or code. The Content-Security-Policy allows the script
and the style sheet by their hashes, and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from base64 import b64encode
from collections.abc import Mapping
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from textwrap import indent
from typing import Any

from precall.files import write_atomically
from precall.metrics.assessing.registry import METRICS, SCORES, metric_of
from precall.metrics.protocols.several_encoders import disagreements, each_encoder
from precall.metrics.protocols.tradeoff import Tradeoff
from precall.metrics.scores.groups import FairnessGap
from precall.metrics.scores.results import Assessment, Comparison
from precall.metrics.scores.score import Score, encoded, named, plain
from precall.metrics.tables.column_drift import ColumnDrift
from precall.printing import shown
from precall.report.galleries import fitting, galleries
from precall.report.summary import budgeted, findings, improvable, ranking, recommendation
from precall.report.table import departures, heading, rows_of
from precall.report.tradeoff import ahead, best_for
from precall.theory.spectrum import RatioSpectrum

SCRIPTS = ("page_dom", "page_charts", "page_scores", "page_stability", "page_curve", "page_samples", "page_map", "page")
MOST_BYTES = 4_000_000  # of samples on the page, which then stays below 5 MB
ALSO_SHOWN = ("invented", "missed", "copies")  # on the page, but not in the printed table
HEADLINES = (("invented", "missed"), ("precision", "recall"), ("fid",))  # the scores that matter most, or the next ones
NEIGHBORS = ("neighbors", "symmetric", "clipped", "probabilistic")
BLOCKS = {  # title: what the scores of the block mean
    "Nearest neighbours": "Is there a real sample close to each fake (precision), and a fake close to each real sample "
    "(recall)? Density and coverage count the neighbours. These scores only look at who is near, so a model that "
    "produces a region far too often still scores high.",
    "Precision-recall curve": "These scores compare how likely the model and the data are to produce a sample. "
    "“Invented” is the share of the model’s samples that it produces more than three times as often as the data; "
    "“missed” is the share of the data that it produces less than a third as often. They can be much worse than the "
    "nearest-neighbour scores, which do not see proportions.",
    "Distances, tests and copies": "One number for the whole difference. FID and KID depend on the scale of the "
    "features, and FID is larger for fewer samples: compare them only on this page and at equal sample sizes.",
}
TRENDS = {  # setting: its name on an axis; the page draws one chart for each setting that the results hold
    "k": "neighbours k",
    "n": "samples per side",
    "encoder": "encoder",
}
PROTOCOL_NAMES = {
    "n_real": "real samples",
    "n_fake": "samples of the first model",
    "n_holdout": "held-out samples",
    "dimension": "dimension of the features",
    "constant_columns": "constant columns (from 0)",
    "k": "neighbours k",
    "ties": "balls",
    "real": "encoding of the data",
    "fake": "encoding of the first model",
    "holdout": "encoding of the held-out samples",
    "date": "computed",
    "groups": "groups on one side only",
}


def write(comparison: Comparison, path: str | Path, *, command: str | None = None) -> Path:
    """Write the page of all models to `path`, atomically, and return the path."""
    write_atomically(Path(path), render(comparison, command=command).encode("utf-8"))
    return Path(path)


def render(comparison: Comparison, *, command: str | None = None, version: str | None = None) -> str:
    """The page as a string. A page that is served has a `version`, and reloads when the server reports another one."""
    folder = files("precall.report")
    template, css = (folder.joinpath(f"page.{kind}").read_text("utf-8") for kind in ("html", "css"))
    js = "".join(folder.joinpath(f"{name}.js").read_text("utf-8") for name in SCRIPTS)
    # "<" cannot appear in the JSON, so no string in it can close its script element
    data = json.dumps(page_data(comparison, command) | {"version": version}, allow_nan=False, separators=(",", ":"))
    policy = f"script-src {_hash(js)}; style-src {_hash(css)}" + ("" if version is None else "; connect-src 'self'")
    parts = {"css": css, "js": js, "data": data.replace("<", "\\u003c"), "policy": policy}
    head, *rest = template.split("{{")
    return head + "".join(parts[piece.split("}}", 1)[0]] + piece.split("}}", 1)[1] for piece in rest)


def page_data(comparison: Comparison, command: str | None = None) -> dict[str, Any]:
    """The content of the page, as plain values."""
    first = next(iter(comparison.values()))
    halves = f"real against real ({next((_count(one.n_real) for one in first.baseline.values()), 0)} samples each)"
    samples = fitting([galleries(one) for one in comparison.values()], MOST_BYTES)
    protocol = [(PROTOCOL_NAMES.get(key, key.replace("_", " ")), _shown(of)) for key, of in first.protocol.items()]
    return {
        "title": _title(command),
        "about": _about(comparison),
        "findings": findings(comparison),
        "settings": [heading(comparison), *departures(comparison), *disagreements(comparison)],
        "gates": _gates(comparison),
        "ranking": ranking(comparison),
        "knob": _knob(comparison) if isinstance(comparison, Tradeoff) else None,
        "blocks": _blocks(comparison),
        "baseline": {"name": halves, "scores": _scores(first.baseline)} if first.baseline else None,
        "trends": _trends(comparison),
        "models": [{**_model(*one), **found} for one, found in zip(comparison.items(), samples, strict=True)],
        "protocol": [(name, value) for name, value in [*protocol, ("command", command)] if value],
    }


def _title(command: str | None) -> str:
    """What the page is about: the name of the data in the command that made the results."""
    words = [] if command is None else shlex.split(command)
    given = [word.removeprefix("--real=") for word in words if word.startswith("--real=")]
    given += [word for option, word in pairwise(words) if option == "--real"]
    name = "handwritten digits" if words[1:2] == ["demo"] else Path(given[0].rstrip("/")).name if given else ""
    return f"{shown(name)}: precision and recall" if name else "Precision and recall"


def _about(comparison: Comparison) -> str:
    """The number of samples and of models, and the day of the results."""
    records = [one.record for one in comparison.values()]
    n_fake = sorted({_count(one.n_fake) for one in records}, key=lambda n: (len(n), n))
    several, each = (f"{len(records)} models", " each" * (len(n_fake) == 1)) if len(records) > 1 else ("1 model", "")
    models = f"{several} with {n_fake[0]}{'–' + n_fake[-1] if n_fake[1:] else ''} samples{each}"
    dates = dict.fromkeys(one.date for one in records if one.date is not None)
    return " · ".join([f"{_count(records[0].n_real)} real samples, {models}", *dates])


def _knob(found: Tradeoff) -> dict[str, Any]:
    """The settings of each model with their scores and the λ that they are best for, and which model is ahead."""
    models = []
    for model in found.settings:
        envelope, best = found.envelope(model), best_for(found, model)
        settings = [
            {"name": f"{value:.12g}", "best": best[value], "scores": _scores(one.scores)}
            for value, one in found.of(model).items()
        ]
        curve = {"x": envelope.beta.tolist(), "y": envelope.alpha.tolist()}
        models.append({"name": model, "settings": settings, **curve})
    return {"models": models, "ahead": ahead(found)}


def _gates(comparison: Comparison) -> list[dict[str, Any]]:
    """Each gate for each model, those that are not met first."""
    rows = [
        {
            **gate.to_dict(),
            "column": _column(gate.score, one),
            "model": name,
            "found": None if (score := one.scores.get(gate.score)) is None else _score(score),
            "met": gate.met(one.scores),
            "certain": score is None or score.interval is None or gate.certain(one.scores),
        }
        for gate in comparison.gates
        for name, one in comparison.items()
    ]
    return sorted(rows, key=lambda row: bool(row["met"]))


def _blocks(comparison: Comparison) -> list[dict[str, Any]]:
    """The score tables: the columns of each, and what they mean."""
    first = next(iter(comparison.values()))
    available = [name for name in SCORES if any(name in one.scores for one in comparison.values())]
    names: dict[str, list[str]] = {title: [] for title in BLOCKS}
    neighbors, curve, rest = names.values()
    for name in available:
        metric = METRICS[metric_of(name)]
        (curve if metric.is_curve else neighbors if metric.name in NEIGHBORS else rest).append(name)
    main = {
        title: [name for name in of if SCORES[name].shown != "json" or name in ALSO_SHOWN]
        for title, of in names.items()
    }
    return [
        {"title": title, "about": BLOCKS[title], "columns": [_column(name, first) for name in main[title] or of]}
        for title, of in names.items()
        if of
    ]


def _trends(comparison: Comparison) -> dict[str, Any]:
    """Scores against k, n and the encoder, one line per model: the scores, the settings, and each model's points."""
    first = next(iter(comparison.values()))
    lines = {by: {name: points for name, one in comparison.items() if (points := _points_of(by, one))} for by in TRENDS}
    drawn = {by: of for by, of in lines.items() if of}
    computed = {score for of in drawn.values() for points in of.values() for score in points["scores"]}
    return {
        "scores": [_column(name, first) for name in SCORES if name in computed],
        "settings": [{"by": by, "label": TRENDS[by], "models": of} for by, of in drawn.items()],
        "used": {"k": first.record.k},
    }


def _points_of(by: str, one: Assessment) -> dict[str, Any] | None:
    """The trend of one model. Against n it ends with the scores of all samples, if both sides have as many."""
    if by == "encoder":
        return _points_by_encoder(one) if one.encoders else None
    if by not in one.stability:
        return None
    trend, n = one.stability[by].to_dict(), one.record.n_fake
    if by == "n" and n == one.record.n_real:
        ends = {name: one.scores.get(name) for name in trend["scores"]}
        trend["at"], trend["n"] = [*trend["at"], n], [*trend["n"], n]
        trend["scores"] = {
            name: [*trend["scores"][name], None if end is None else encoded(end.value)] for name, end in ends.items()
        }
    return trend


def _points_by_encoder(one: Assessment) -> dict[str, Any]:
    """The scores with each encoder. The encoders are at 1, 2, … in the order in which they were requested."""
    found = each_encoder(one)
    scores = {
        name: [encoded(other.scores[name].value) if name in other.scores else None for other in found.values()]
        for name in one.scores
    }
    return {
        "at": list(range(1, len(found) + 1)),
        "n": [other.record.n_fake for other in found.values()],
        "names": list(map(str, found)),
        "scores": scores,
    }


def _column(name: str, one: Assessment) -> dict[str, Any]:
    """A score as the heading of a column; the encoder and a number of rows name distances and scores of a part."""
    if (info := SCORES.get(name)) is None:
        return {"key": name, "label": name.replace("_", " "), "better": None, "meaning": "", "unit": False}
    unit = info.low >= 0 and info.high == 1
    label = named(info.label, name, "encoder" if one.encoders else one.encoder, rows_of(one, name))
    return {"key": name, "label": label, "better": info.better, "meaning": info.meaning, "unit": unit}


def _model(name: str, one: Assessment) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": name,
        "alone": _missing_groups(one),
        "verdict": str(one.verdict),
        "recommendation": recommendation(one),
        "headline": next((names for names in HEADLINES if set(names) <= set(one.scores)), ()),
        "n": one.record.n_fake,
        "scores": _scores(one.scores),
        "encoders": [
            {"name": f"{name} ({encoder})", "scores": _scores(other.scores)} for encoder, other in one.encoders.items()
        ],
        **({} if one.drift is None else {"drift": _drift(one.drift)}),
        **({"prompts": prompts} if (prompts := _prompts(one)) else {}),
    }
    if one.estimator is None:
        return shown
    groups = {label: group for label, group in one.groups.items() if group.estimator is not None}
    shown |= plain(
        {
            "estimator": one.estimator,
            "curve": one.curve.points(),
            # the supported curve with each budget, if a budget improves the model at all
            "budgets": [
                {"budget": K, **_points(curve.supported)}
                for K, curve in (budgeted(one) if improvable(one) else {}).items()
            ],
            "groups": [
                {"name": str(label), "scores": _scores(group.scores), **_points(group.spectrum)}
                for label, group in groups.items()
            ],
            "fairness": " ".join(filter(None, [_missing_groups(one), _gaps(one.fairness) if one.fairness else ""])),
        }
    )
    return shown


def _scores(scores: Mapping[str, Score]) -> dict[str, Any]:
    return {name: _score(one) for name, one in scores.items()}


def _score(score: Score) -> dict[str, Any]:
    """A score as the page's script reads it: numbers that are not finite become "inf", "-inf" or "nan"."""
    interval = score.interval
    return {
        "value": encoded(score.value),
        "interval": None if interval is None else {"low": encoded(interval.low), "high": encoded(interval.high)},
        "chance": None if score.chance is None else encoded(score.chance),
    }


def _prompts(one: Assessment) -> list[dict[str, Any]]:
    """The prompts whose answers collapse or fit worst, with some answers if these are texts that are still known."""
    collapses = "collapses within prompts" in one.verdict.kinds
    by = "answers_per_prompt" if collapses and "answers_per_prompt" in one.scores else "pairs_tv"
    if by not in one.scores or not (collapses or "misaligned" in one.verdict.kinds):
        return []
    answers: dict[str, list[str]] = {}
    fake = one.sources.get("fake")
    if fake is not None and fake.prompted is not None and fake.samples is not None and fake.samples.kind == "text":
        for i, number in enumerate(fake.prompted.number.tolist()):
            answers.setdefault(fake.prompted.texts[number][:200], []).append(str(fake.samples[int(fake.rows[i])])[:200])
    return [{"prompt": text, "answers": answers.get(text, [])[:4]} for text in one.scores[by].details["examples"]]


def _drift(drift: ColumnDrift) -> dict[str, Any]:
    """The drift of columns and of pairs of columns, as the page's script reads it."""
    named = {"columns": drift.columns, "pairs": {" × ".join(pair): score for pair, score in drift.pairs.items()}}
    return {
        of: [
            {"name": name, **_score(one), **one.details, "rows": one.settings.get("rows")}
            for name, one in scores.items()
        ]
        for of, scores in named.items()
    }


def _gaps(fairness: FairnessGap) -> str:
    """The largest gaps between groups, as a sentence."""
    named = []
    for what, gap in (("precision", fairness.precision), ("recall", fairness.recall)):
        ends = "" if gap.interval is None else f" [{max(0.0, gap.interval.low):.2f}, {gap.interval.high:.2f}]"
        if gap.clear or gap.interval is None:
            named.append(f"in {what} {gap.value:.2f}{ends} ({gap.better} over {gap.worse})")
    none = "No gap between the groups exceeds what equal groups would show by chance."
    return f"Largest gaps: {', '.join(named)}." if named else none


def _missing_groups(one: Assessment) -> str:
    """Groups that only one side has, as sentences; empty if there are none."""
    if (alone := one.record.groups) is None:
        return ""
    said = {"The model never produces": alone.only_real, "The data do not contain": alone.only_fake}
    return " ".join(f"{what}: {', '.join(map(str, groups))}." for what, groups in said.items() if groups)


def _points(spectrum: RatioSpectrum) -> dict[str, Any]:
    curve = spectrum.curve(101)
    return {"alpha": curve.alpha, "beta": curve.beta}


def _count(n: int | None) -> str:
    """A number of samples; stored statistics may not include it."""
    return "an unknown number of" if n is None else f"{n:,}"


def _shown(value: object) -> str:
    """A value of the protocol as text: one line, or a line for each entry if some entries have entries of their own."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        items = [_shown(item) for item in value]
        return (" " if all(item.endswith(".") for item in items) else ", ").join(items)
    if not isinstance(value, Mapping):
        return str(value)
    parts = {key: shown for key, item in value.items() if (shown := _shown(item))}
    if not any(isinstance(item, Mapping) for item in value.values()):
        return ", ".join(f"{key} {item}" for key, item in parts.items())
    lines = (f"{key}\n{indent(item, '  ')}" if "\n" in item else f"{key}: {item}" for key, item in parts.items())
    return "\n".join(lines)


def _hash(text: str) -> str:
    """The source expression by which a Content-Security-Policy allows an inline script or style sheet."""
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
