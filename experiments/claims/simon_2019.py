"""Simon et al. (2019)."""

from __future__ import annotations

from experiments.claims import Entry, absent, entry, num, said
from experiments.common.summaries import Row

ENTRIES: list[Entry] = []


@ENTRIES.append
@entry(
    "Fig. 1",
    "mode invention: full recall, partial precision; dropping: the reverse; re-weighting: neither",
    "agrees",
    "simon_2019.figure_1_modes",
    caption="Invented, dropped and re-weighted modes: exact curves and three estimates.",
    tolerance=0.03,
)
def figure_1(r: Row) -> str:
    t = r["toys"]
    simon = {name: t[name]["simon"] for name in t}
    seen = simon["invention"]["max_precision"] < 0.75 < 0.95 < simon["invention"]["max_recall"]
    seen &= simon["dropping"]["max_recall"] < 0.75 < 0.95 < simon["dropping"]["max_precision"]
    errors = [
        abs(t[name][metric]["area"] - t[name]["exact"]["area"])
        for name in t
        for metric in ("clusters", "simon", "auto")
    ]
    listed = ", ".join(f"{name} {num(t[name]['auto']['area'])} (exact {num(t[name]['exact']['area'])})" for name in t)
    return (
        said("Simon's estimate shows both one-sided cases", seen)
        + f"; area by `auto`: {listed}; "
        + said("every estimate is within .02", max(errors) < 0.02)
        + f". n = {r['n']:,}, one seed"
    )


ENTRIES += [
    absent(
        "Fig. 5",
        "PR curves of three GANs on CelebA-HQ: FID 25.2, 27.6, 67.8",
        "CelebA-HQ, VGG-Face and the three networks",
    ),
    absent(
        "Fig. 6",
        "clustering overestimates the similarity of BigGAN and ImageNet",
        "ImageNet and BigGAN's weights; Fig. 3 shows the cause",
    ),
]
