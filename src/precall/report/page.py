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
from typing import TYPE_CHECKING, Any

import numpy as np

from precall.files import write_atomically
from precall.metrics.assessing.registry import METRICS, SCORES, metric_of
from precall.metrics.protocols.several_encoders import disagreements, each_encoder
from precall.metrics.scores.score import encoded, named, plain
from precall.printing import shown
from precall.report.galleries import fitting, galleries
from precall.report.summary import (
    budgeted,
    findings,
    headline,
    improvable,
    nothing_to_show,
    ranking,
    recommendation,
)
from precall.report.table import rows_of
from precall.theory.divergences import DIVERGENCES

if TYPE_CHECKING:
    from precall.metrics.scores.gates import Gate
    from precall.metrics.scores.groups import FairnessGap, Gap
    from precall.metrics.scores.results import Assessment, Comparison
    from precall.metrics.scores.score import Score
    from precall.metrics.tables.column_drift import ColumnDrift
    from precall.theory.spectrum import RatioSpectrum

SCRIPTS = ("page_dom", "page_charts", "page_scores", "page_stability", "page_curve", "page_samples", "page_map", "page")
MOST_BYTES = 4_000_000  # of samples on the page, which then stays below 5 MB
ALSO_SHOWN = ("invented", "missed", "copies")  # on the page, but not in the printed table
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
DIVERGENCE_NAMES = {
    "kl": "Kullback-Leibler",
    "reverse_kl": "reverse KL",
    "chi2": "Pearson χ²",
    "half_chi2": "½ Pearson χ²",
    "hellinger2": "squared Hellinger",
    "jeffreys": "Jeffreys",
    "js": "Jensen-Shannon",
    "2js": "2 × Jensen-Shannon",
    "tv": "total variation",
}
PROTOCOL_NAMES = {
    "n_real": "real samples",
    "n_fake": "samples of the first model",
    "n_holdout": "held-out samples",
    "dimension": "dimension of the features",
    "constant_columns": "constant columns (from 0)",
    "metrics": "metrics",
    "k": "neighbours k",
    "ties": "balls",
    "seed": "seed",
    "device": "device",
    "real": "encoding of the data",
    "fake": "encoding of the first model",
    "holdout": "encoding of the held-out samples",
    "date": "computed",
    "versions": "versions",
    "groups": "groups on one side only",
}


def write(comparison: Comparison, path: str | Path, *, command: str | None = None, section: str = "") -> Path:
    """Write the page of all models to `path`. The write is atomic.

    Args:
        comparison: The models, by name.
        path: The file to write; a missing folder is created.
        command: The command that reproduces the page, shown in its protocol.
        section: HTML to show above the summary.

    Returns:
        The path written.
    """
    path = Path(path)
    write_atomically(path, render(comparison, command=command, section=section).encode("utf-8"))
    return path


def render(comparison: Comparison, *, command: str | None = None, version: str | None = None, section: str = "") -> str:
    """The page as a string.

    Args:
        comparison: The models, by name.
        command: The command that reproduces the page.
        version: For a page that is served: it reloads when the server reports another version.
        section: HTML to show above the summary.
    """
    folder = files("precall.report")
    template, css = (folder.joinpath(f"page.{kind}").read_text("utf-8") for kind in ("html", "css"))
    js = "".join(folder.joinpath(f"{name}.js").read_text("utf-8") for name in SCRIPTS)
    # "<" cannot appear in the JSON, so no string in it can close its script element
    data = json.dumps(page_data(comparison, command) | {"version": version}, allow_nan=False, separators=(",", ":"))
    policy = f"script-src {_hash(js)}; style-src {_hash(css)}" + ("" if version is None else "; connect-src 'self'")
    parts = {"css": css, "js": js, "data": data.replace("<", "\\u003c"), "policy": policy, "section": section}
    head, *rest = template.split("{{")
    return head + "".join(parts[piece.split("}}", 1)[0]] + piece.split("}}", 1)[1] for piece in rest)


def page_data(comparison: Comparison, command: str | None = None) -> dict[str, Any]:
    """The content of the page, as plain values."""
    first = next(iter(comparison.values()))
    samples = fitting([galleries(one) for one in comparison.values()], MOST_BYTES)
    return {
        "title": _title(command),
        "about": _about(comparison),
        "findings": findings(comparison),
        "facts": _facts(comparison),
        "gates": _gates(comparison),
        "ranking": ranking(comparison),
        "blocks": _blocks(comparison),
        "baseline": _baseline(comparison),
        "trends": _trends(comparison),
        "models": [
            _model(name, one) | {key: of for key, of in found.items() if key not in nothing_to_show(one)}
            for (name, one), found in zip(comparison.items(), samples, strict=True)
        ],
        "weights": _weights(),
        "protocol": _protocol(first.protocol, command),
    }


def _title(command: str | None) -> str:
    """What the page is about: the name of the data in the command that made the results."""
    words = [] if command is None else shlex.split(command)
    given = [word.removeprefix("--real=") for word in words if word.startswith("--real=")]
    given += [word for option, word in pairwise(words) if option == "--real"]
    name = "handwritten digits" if words[1:2] == ["demo"] else Path(given[0].rstrip("/")).name if given else ""
    return f"{shown(name)}: precision and recall" if name else "Precision and recall"


def _about(comparison: Comparison) -> str:
    """The sizes, and the day of the results."""
    records = [one.record for one in comparison.values()]
    sizes = f"{_count(records[0].n_real)} real samples, {_models(comparison)}"
    return " · ".join([sizes, *dict.fromkeys(one.date for one in records if one.date is not None)])


def _models(comparison: Comparison) -> str:
    """The number of models, and of their samples."""
    n_fake = sorted({_count(one.record.n_fake) for one in comparison.values()}, key=lambda n: (len(n), n))
    several = f"{len(comparison)} models with " if len(comparison) > 1 else "1 model with "
    each = " each" if len(comparison) > 1 and len(n_fake) == 1 else ""
    return f"{several}{n_fake[0]}{'–' + n_fake[-1] if n_fake[1:] else ''} samples{each}"


def _facts(comparison: Comparison) -> list[tuple[str, str]]:
    """What was compared, and how."""
    first = next(iter(comparison.values())).record
    preset = first.preset
    known = {
        **({} if preset is None else {"Preset": "; ".join([preset.name, *preset.departures])}),
        "Data": f"{_count(first.n_real)} real samples",
        "Compared": _models(comparison),
        "Encoder": _encoders(comparison),
        "Features": f"{first.dimension:,} dimensions",
        "Settings": f"k = {first.k}, {first.ties} balls, seed {first.seed}",
        "Device": first.device or "cpu",
        "Computed": first.date or "at an unknown date",
    }
    return list(known.items())


def _gates(comparison: Comparison) -> list[dict[str, Any]]:
    """Each gate for each model, those that are not met first."""
    shown = [_gated(gate, name, one) for gate in comparison.gates for name, one in comparison.items()]
    return sorted(shown, key=lambda row: bool(row["met"]))


def _gated(gate: Gate, name: str, one: Assessment) -> dict[str, Any]:
    score = one.scores.get(gate.score)
    return {
        **gate.to_dict(),
        "column": _column(gate.score, one.encoder, rows_of(one, gate.score)),
        "model": name,
        "found": None if score is None else _score(score),
        "met": gate.met(one.scores),
        "certain": score is None or score.interval is None or gate.certain(one.scores),
    }


def _encoders(comparison: Comparison) -> str:
    """The encoders, and where they disagree."""
    first = next(iter(comparison.values()))
    if not first.encoders:
        return first.encoder or "none: features were given"
    others = ", ".join(first.encoders)
    return " ".join([f"{first.encoder}; scores also with {others}.", *disagreements(comparison)])


def _one_encoder(comparison: Comparison) -> str | None:
    """The encoder that names a distance; "encoder" if there are several."""
    first = next(iter(comparison.values()))
    return "encoder" if first.encoders else first.encoder


def _blocks(comparison: Comparison) -> list[dict[str, Any]]:
    """The score tables: the columns of each, and what they mean."""
    first, encoder = next(iter(comparison.values())), _one_encoder(comparison)
    available = [name for name in SCORES if any(name in one.scores for one in comparison.values())]
    blocks: dict[str, list[str]] = {title: [] for title in BLOCKS}
    for name in available:
        blocks[_block(name)].append(name)
    return [
        {
            "title": title,
            "about": BLOCKS[title],
            "columns": [_column(name, encoder, rows_of(first, name)) for name in _visible(names)],
        }
        for title, names in blocks.items()
        if names
    ]


def _baseline(comparison: Comparison) -> dict[str, Any] | None:
    """The row of one half of the data against the other, or None."""
    scores = next(iter(comparison.values())).baseline
    if not scores:
        return None
    n = _count(next(iter(scores.values())).n_real)
    return {
        "name": f"real against real ({n} samples each)",
        "scores": {key: _score(one) for key, one in scores.items()},
    }


def _trends(comparison: Comparison) -> dict[str, Any]:
    """Scores against k, n and the encoder, one line per model: the scores, the settings, and each model's points."""
    lines = {by: {name: points for name, one in comparison.items() if (points := _points_of(by, one))} for by in TRENDS}
    drawn = {by: of for by, of in lines.items() if of}
    computed = {score for of in drawn.values() for points in of.values() for score in points["scores"]}
    return {
        "scores": [_column(name, _one_encoder(comparison)) for name in SCORES if name in computed],
        "settings": [{"by": by, "label": TRENDS[by], "models": of} for by, of in drawn.items()],
        "used": {"k": next(iter(comparison.values())).record.k},
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


def _block(score: str) -> str:
    neighbors, curve, rest = BLOCKS
    metric = METRICS[metric_of(score)]
    return curve if metric.is_curve else neighbors if metric.name in NEIGHBORS else rest


def _visible(names: list[str]) -> list[str]:
    """The main scores of a block, or all of them if none is a main one."""
    return [name for name in names if SCORES[name].shown != "json" or name in ALSO_SHOWN] or names


def _column(name: str, encoder: str | None, rows: int | None = None) -> dict[str, Any]:
    if (info := SCORES.get(name)) is None:
        return {"key": name, "label": name.replace("_", " "), "better": None, "meaning": "", "unit": False}
    unit = info.low >= 0 and info.high == 1
    label = named(info.label, name, encoder, rows)
    return {"key": name, "label": label, "better": info.better, "meaning": info.meaning, "unit": unit}


def _model(name: str, one: Assessment) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": name,
        "alone": _missing_groups(one),
        "verdict": str(one.verdict),
        "recommendation": recommendation(one),
        "headline": headline(one.scores),
        "n": one.record.n_fake,
        "scores": {score: _score(found) for score, found in one.scores.items()},
        "encoders": [
            {"name": f"{name} ({encoder})", "scores": {score: _score(found) for score, found in other.scores.items()}}
            for encoder, other in one.encoders.items()
        ],
    }
    if one.drift is not None:
        shown["drift"] = _drift(one.drift)
    if prompts := _prompts(one):
        shown["prompts"] = prompts
    if one.estimator is None:
        return shown
    frontier = one.spectrum.frontier(order=1)
    groups = {label: group for label, group in one.groups.items() if group.estimator is not None}
    shown |= plain(
        {
            "estimator": one.estimator,
            "curve": one.curve.points(),
            "divergences": {label: one.spectrum.divergence(key) for key, label in DIVERGENCE_NAMES.items()},
            "frontier": {"precision": frontier.precision, "recall": frontier.recall},
            # the supported curve with each budget, if a budget improves the model at all
            "budgets": [
                {"budget": K, **_points(curve.supported)}
                for K, curve in (budgeted(one) if improvable(one) else {}).items()
            ],
            "groups": [{"name": str(label), **_points(group.spectrum)} for label, group in groups.items()],
            "fairness": " ".join(filter(None, [_missing_groups(one), _gaps(one.fairness) if one.fairness else ""])),
        }
    )
    return shown


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
    return [{"prompt": text, "answers": answers.get(text, [])[:4]} for text in one.scores[by].settings["examples"]]


def _drift(drift: ColumnDrift) -> dict[str, Any]:
    """The drift of columns and of pairs of columns, as the page's script reads it."""
    named = {"columns": drift.columns, "pairs": {" × ".join(pair): score for pair, score in drift.pairs.items()}}
    return {
        of: [
            {"name": name, **_score(one), **{key: one.settings.get(key) for key in ("differs", "histogram")}}
            for name, one in scores.items()
        ]
        for of, scores in named.items()
    }


def _gaps(fairness: FairnessGap) -> str:
    """The largest gaps between groups, as a sentence."""
    gaps = {"precision": fairness.precision, "recall": fairness.recall}
    clear = {what: gap for what, gap in gaps.items() if gap.clear or gap.interval is None}
    if not clear:
        return "No gap between the groups exceeds what equal groups would show by chance."
    named = [f"in {what} {_gap(gap)} ({gap.better} over {gap.worse})" for what, gap in clear.items()]
    return f"Largest gaps: {', '.join(named)}."


def _gap(gap: Gap) -> str:
    ends = "" if gap.interval is None else f" [{max(0.0, gap.interval.low):.2f}, {gap.interval.high:.2f}]"
    return f"{gap.value:.2f}{ends}"


def _missing_groups(one: Assessment) -> str:
    """Groups that only one side has, as sentences; empty if there are none."""
    if (alone := one.record.groups) is None:
        return ""
    said = {"The model never produces": alone.only_real, "The data do not contain": alone.only_fake}
    return " ".join(f"{what}: {', '.join(map(str, groups))}." for what, groups in said.items() if groups)


def _points(spectrum: RatioSpectrum) -> dict[str, Any]:
    curve = spectrum.curve(101)
    return {"alpha": curve.alpha, "beta": curve.beta}


def _weights() -> list[dict[str, Any]]:
    """λ times the weight of each divergence: its weight per unit of log λ."""
    lam = np.geomspace(1e-2, 1e2, 81)
    named = {"Kullback-Leibler": "kl", "reverse KL": "reverse_kl", "Jensen-Shannon": "js", "Hellinger²": "hellinger2"}
    return [
        {"name": label, "x": lam.tolist(), "y": np.minimum(lam * DIVERGENCES[key].weight(lam), 3).tolist()}
        for label, key in named.items()
    ]


def _protocol(protocol: Mapping[str, Any], command: str | None) -> list[tuple[str, str]]:
    lines = [(PROTOCOL_NAMES.get(key, key.replace("_", " ")), _shown(value)) for key, value in protocol.items()]
    return [*((name, value) for name, value in lines if value), *([("command", command)] if command else [])]


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
