"""Sajjadi et al. (2018)."""

from __future__ import annotations

from experiments.claims import EXACT, Entry, absent, entry, num, said
from experiments.common.summaries import Row

ENTRIES: list[Entry] = []


@ENTRIES.append
@entry(
    "Figs 2–4",
    "six pairs on two modes: (a) loses recall, (b) precision, (c) nothing, (d) both, (e) and (f) are softer; curves on an equiangular grid",
    "agrees",
    "sajjadi_2018.figure_2_six_cases",
    caption="Six pairs of distributions on two modes and their exact curves, drawn as ends of segments α = λβ.",
    tolerance=EXACT,
)
def six_cases(r: Row) -> str:
    c = r["cases"]
    pair = {name: (case["max_precision"], case["max_recall"]) for name, case in c.items()}
    right = pair["a"] == (1, 0.5) and pair["b"] == (0.5, 1) and pair["c"] == (1, 1) and pair["d"] == (0, 0)
    soft = c["e"]["f1_8"] > c["e"]["f8"] and c["f"]["f8"] > c["f"]["f1_8"]
    return (
        said("greatest precision and recall are 1, ½; ½, 1; 1, 1; 0, 0 for (a) to (d)", right)
        + f"; (e) has F₁⸝₈ {num(c['e']['f1_8'])} and F₈ {num(c['e']['f8'])}, (f) the reverse"
        + said("", soft)
        + ". "
        + said(
            "Algorithm 1's grid lies on the exact curve within 1e-6",
            max(case["largest_difference"] for case in c.values()) < 1e-6,
        )
    )


ENTRIES += [
    absent(
        "Figs 7, 10, 12",
        "800 GANs and VAEs: VAEs towards recall, GANs towards precision; Spearman −.83 and .89 with class scores",
        "a VAE and the losses of that population in `tune`, and hours to train it",
    ),
]
