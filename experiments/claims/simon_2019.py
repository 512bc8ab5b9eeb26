"""Simon et al. (2019)."""

from __future__ import annotations

from statistics import mean

from experiments.claims import Entry, entry, num, pm, said
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


@ENTRIES.append
@entry(
    "Fig. 3",
    "80 classes, a share ρ of them common: clustering (k = 20) mixes them and is far too high, the classifier is not",
    "agrees",
    "simon_2019.figure_3_many_classes",
    caption="A stand-in: 80 synthetic classes on each side, a share ρ of them common, by three estimates.",
    tolerance=0.03,
)
def figure_3(r: Row) -> str:
    def error(name: str) -> float:
        return mean(abs(row[k][name] - row["share"]) for row in r["rows"] for k in ("precision", "recall"))

    none = next(row for row in r["rows"] if row["share"] == 0)
    return (
        said("clusters see much in common where nothing is", none["precision"]["clusters"] > 0.3)
        + f": α(10) {num(none['precision']['clusters'])} at ρ = 0, Simon {num(none['precision']['simon'])}, auto {num(none['precision']['auto'])}. Mean error over ρ "
        f"= 0 to 1: clusters {num(error('clusters'))}, Simon {num(error('simon'))}, auto {num(error('auto'))}; "
        + said("both classifiers are better", max(error("simon"), error("auto")) < error("clusters"))
        + f". Synthetic classes, n = {r['n']:,}"
    )


@ENTRIES.append
@entry(
    "Fig. 4",
    "P has 60 % of one attribute, Q nothing else: the expected drop at recall .6 is seen by the classifier, smoothed by clustering",
    "agrees",
    "simon_2019.figure_4_attribute",
    caption="A stand-in: sneakers and ankle boots against sneakers alone; three seeds.",
)
def figure_4(r: Row) -> str:
    def recalls(name: str) -> list[float]:
        return [seed["recall"][name] for seed in r["seeds"]]

    errors = {name: mean(abs(v - 0.6) for v in recalls(name)) for name in ("clusters", "simon", "auto")}
    return (
        f"β(.1): clusters {pm(recalls('clusters'))}, Simon {pm(recalls('simon'))}, auto {pm(recalls('auto'))}; "
        + said(
            "both classifiers are nearer to .6 than clusters", max(errors["simon"], errors["auto"]) < errors["clusters"]
        )
        + f". Fashion-MNIST in principal components, n = {r['n']:,}"
    )


@ENTRIES.append
@entry(
    "Figs 5–6",
    "curves of three GANs on CelebA-HQ (FID 25.2, 27.6, 67.8); clustering overestimates the similarity of BigGAN and ImageNet",
    "in part",
    "sajjadi_2018.figure_7_population",
    why="own small models; CelebA-HQ, VGG-Face, ImageNet and the published networks are missing",
    options="--data-dir DIR --device cuda --jobs 5",
    run="H200 and 5 cores, 6 min",
    caption="The population of Figs 7, 10, 12.",
)
def own_gans(r: Row) -> str:
    models = r["models"]
    above = [m[key]["clusters"] > m[key]["auto"] for m in models for key in ("f8", "f1_8")]
    gap = mean(m[key]["clusters"] - m[key]["auto"] for m in models for key in ("f8", "f1_8"))
    return (
        "with 112 small GANs and VAEs, clusters give higher F-scores than `auto` "
        + said("for almost all models", mean(above) > 0.95)
        + f" ({100 * mean(above):.0f} %), by {num(gap, 2)} on average"
    )
