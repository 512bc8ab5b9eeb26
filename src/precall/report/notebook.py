"""What a notebook shows: the table, the curves, and the most missed, invented and copied samples, without scripts."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from html import escape
from typing import Any

from precall.metrics.scores.results import Comparison
from precall.report.figures import picture
from precall.report.galleries import samples_shown

SHOWN = 6  # samples per gallery
MODELS = 4  # models whose samples are shown; the page shows those of all models
TITLES = {  # gallery: its title, the side of its samples and the side of their nearest ones
    "missed": ("Missed: real samples that the model covers least, each with its nearest fake", "real", "fake"),
    "invented": ("Invented: fakes that the data supports least, each with its nearest real sample", "fake", "real"),
    "copies": ("Copies: fakes that nearly coincide with a real sample", "fake", "real"),
}


def inline(comparison: Comparison) -> str:
    """The table with its verdicts, the curves if there are any, and the first samples of the first models.

    Samples are read again from where they were. If they are no longer there, nothing is shown instead of an error.
    """
    curves = ""
    if any(one.estimator is not None for one in comparison.values()):
        data = b64encode(picture(comparison, "png", dpi=80)).decode()
        curves = f'<img alt="Precision over recall" src="data:image/png;base64,{data}">'
    shown = {}
    for name, one in list(comparison.items())[:MODELS]:
        with suppress(OSError, ValueError):
            found = samples_shown(one)
            parts = [_gallery(found[part][:SHOWN], *text) for part, text in TITLES.items() if found.get(part)]
            shown[name] = "".join(parts)
    begin = "<details open>" if len(comparison) == 1 else "<details>"
    galleries = [
        f"{begin}<summary>Samples of {escape(name)}</summary>{one}</details>" for name, one in shown.items() if one
    ]
    return f"<pre>{escape(repr(comparison))}</pre>{curves}{''.join(galleries)}"


def _gallery(entries: list[Mapping[str, Any]], title: str, side: str, other: str) -> str:
    style, cards = "display:flex;gap:4px;border:1px solid #8888;border-radius:4px;padding:4px", ""
    for entry in entries:
        nearest = "" if entry["nearest"] is None else _look(entry["nearest"], other)
        cards += f'<div style="{style}">{_look(entry["sample"], side)}{nearest}</div>'
    return f'<p>{title}</p><div style="display:flex;flex-wrap:wrap;gap:8px">{cards}</div>'


def _look(sample: Mapping[str, Any], side: str) -> str:
    """One sample: a small picture, or the beginning of its text or row."""
    name = f"{side}: {sample['id']}"
    if "image" in sample:
        picture = f'<img src="{escape(sample["image"])}" alt="{escape(name)}" title="{escape(name)}" width="64">'
        return f'<span style="image-rendering:pixelated">{picture}</span>'
    row = ", ".join(f"{column}: {cell}" for column, cell in sample.get("row", ()))
    text = (sample.get("text") or row or "")[:200]
    return f'<span style="max-width:220px;font-size:smaller"><b>{escape(name)}</b><br>{escape(text)}</span>'
