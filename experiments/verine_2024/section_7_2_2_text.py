"""Section 7.2.2 of Verine (2024): the conditional curve of a language model, at several temperatures.

    python -m experiments.verine_2024.section_7_2_2_text --archive 20_newsgroups.tar.xz [--smoke] [--out DIR]

The section asks for a PR-divergence between conditional distributions. Here a context is the word before. P has the
next words of people, counted in one half of the posts of 20 Newsgroups, and Q_T the next words of a bigram model of the
other half at temperature T, q^(1/T)/Z. With the same contexts on both sides the curve of the pairs (context, word) is
the mean of the curves of all contexts (docs/theory.md, Prompts), so everything is a sum over counts. The curve of the
words alone, without their contexts, is above it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING

import numpy as np

from experiments.common.arguments import parser
from experiments.common.newsgroups import body, read_posts
from experiments.common.program import plain, sheet_of, unit
from experiments.common.saving import save
from experiments.common.summaries import Row
from precall import RatioSpectrum
from precall.theory.arrays import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEMPERATURES = (0.5, 0.7, 1.0, 1.4, 2.0)


def counts(archive: Path, contexts: int, words: int) -> list[Array]:
    """Counts (contexts, words) of the next word after the most frequent words, in each half of the posts."""
    texts = [re.findall(r"[a-z']+", body(text).lower()) for _, text in read_posts(archive)]
    frequent = [word for word, _ in Counter(word for text in texts for word in text).most_common(words)]
    index = {word: i for i, word in enumerate(frequent)}
    found = [np.zeros((contexts, words)) for _ in range(2)]
    for number, text in enumerate(texts):
        for first, second in pairwise(index.get(word, -1) for word in text):
            if 0 <= first < contexts and second >= 0:
                found[number % 2][first, second] += 1
    return found


def tempered(next_words: Array, temperature: float) -> Array:
    """Conditional distributions q^(1/T)/Z, one row per context."""
    q = (next_words / next_words.max(1, keepdims=True)) ** (1 / temperature)
    return np.asarray(q / q.sum(1, keepdims=True))


def compute(archive: Path, *, smoke: bool) -> Row:
    model, people = counts(archive, *((5, 50) if smoke else (200, 3000)))
    seen = (model.sum(1) > 0) & (people.sum(1) > 0)
    model, people = model[seen], people[seen]
    share, p = people.sum(1) / people.sum(), people / people.sum(1, keepdims=True)
    rows = []
    for T in TEMPERATURES:
        q = tempered(model, T)
        pairs = RatioSpectrum.from_counts(real=(share[:, None] * p).ravel(), fake=(share[:, None] * q).ravel())
        alone = RatioSpectrum.from_counts(real=share @ p, fake=share @ q)
        each = [RatioSpectrum.from_counts(real=a, fake=b).alpha(1.0) for a, b in zip(p, q, strict=True)]
        found = {"pairs": read(pairs), "alone": read(alone)}
        rows.append({"temperature": T, "mean of curves": share @ each, **found})
    return {"contexts": len(share), "rows": rows}


def read(spectrum: RatioSpectrum) -> Row:
    curve = spectrum.curve(30)
    scores = {"precision": spectrum.alpha(10.0), "recall": spectrum.beta(0.1), "alpha(1)": spectrum.alpha(1.0)}
    return {**scores, "curve": [curve.beta, curve.alpha]}


def draw(results: Row, sheet: Figure) -> None:
    for panel, name in zip(sheet.subplots(1, 2), ("pairs", "alone"), strict=True):
        for row in results["rows"]:
            panel.plot(*row[name]["curve"], label=f"T = {row['temperature']:g}")
        unit(panel, {"pairs": "pairs (context, word)", "alone": "words alone"}[name])
    panel.legend(fontsize=6)


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__, smoke="five contexts, 50 words")
    made.add_argument("--archive", type=Path, required=True, help="20_newsgroups.tar.xz, or another archive of it")
    options, started = made.parse_args(arguments), process_time()
    found = compute(options.archive, smoke=options.smoke)
    results = plain({"smoke": options.smoke, **found, "seconds": process_time() - started}, 4)
    print([[row["temperature"], row["pairs"]["precision"], row["pairs"]["recall"]] for row in results["rows"]])
    save(options.out, "section_7_2_2_text", results, figure=partial(sheet_of, draw, results, (6, 3)), indent=None)


if __name__ == "__main__":
    main()
