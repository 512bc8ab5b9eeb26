"""Sajjadi et al. (2018)."""

from __future__ import annotations

from experiments.claims import EXACT, Entry, absent, entry, num, nums, ordered, pm, said
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


@ENTRIES.append
@entry(
    "Fig. 5, right",
    "topics of a text corpus are dropped: recall falls, precision stays",
    "agrees",
    "sajjadi_2018.figure_5_text",
    options="--archive 20_newsgroups.tar.xz",
    caption="A stand-in for Fig. 5 (right): topics of 20 Newsgroups, of which Q has the first 1 to 20.",
)
def text(r: Row) -> str:
    rows = r["rows"]
    recall, precision = ([row[k]["clusters"] for row in rows] for k in ("recall", "precision"))
    return (
        said("recall by clusters rises with the topics", ordered(recall[:-1]) and recall[-1] > recall[0])
        + f": β(.1) {nums(recall)} for 1, 2, 5, 10, 15, 20 topics; "
        + said("precision stays above .85", min(precision) > 0.85)
        + f". 20 Newsgroups in latent semantic components, n = {r['n']:,}"
    )


@ENTRIES.append
@entry(
    "Figs 1, 6, 8",
    "models of equal FID (49 and 49 on MNIST): one draws few classes well, the other all classes badly, and their curves differ, as does the confidence of a "
    "classifier (.967 and .886); two models that draw 1s differ in recall",
    "agrees",
    "sajjadi_2018.figure_6_equal_fid",
    caption="A stand-in for Fig. 6: clean digits of six classes and noisy digits of all, with the same FID.",
    tolerance=0.05,
)
def equal_fid(r: Row) -> str:
    def values(model: str, score: str, metric: str = "clusters") -> list[float]:
        return [seed["models"][model][score][metric] for seed in r["seeds"]]

    few, noisy = "six classes", "noisy"
    equal = all(abs(s["models"][few]["fid"] / s["models"][noisy]["fid"] - 1) < 0.01 for s in r["seeds"])
    apart = min(values(few, "precision")) > max(values(noisy, "precision"))
    apart &= max(values(few, "recall")) < min(values(noisy, "recall"))
    ones = all(a > b for a, b in zip(values("all 1s", "recall"), values("typical 1s", "recall"), strict=True))
    sure = [[s["models"][name]["confidence"] for s in r["seeds"]] for name in (few, noisy)]
    strict = all(
        a > b
        for k in ("precision", "recall")
        for a, b in zip(values(few, k, "auto"), values(noisy, k, "auto"), strict=True)
    )
    return (
        said("with FID equal within 1 %", equal)
        + ", "
        + said("clusters give the model of six classes more precision and less recall", apart)
        + f": F₁⸝₈ {pm(values(few, 'precision'))} and {pm(values(noisy, 'precision'))}, F₈ {pm(values(few, 'recall'))} and {pm(values(noisy, 'recall'))}; confidence "
        f"{pm(sure[0])} and {pm(sure[1])}. "
        + said("`auto` finds the noisy model worse in both", strict)
        + ": noise moves every image. "
        + said("Drawing all 1s has more recall than drawing typical ones", ones)
    )


ENTRIES += [
    absent(
        "Figs 5, 11, Simon Fig. 2",
        "classes of MNIST, Fashion-MNIST and CIFAR-10 added and dropped one by one: FID sees both, PRD tells them apart",
        "a committed run in features of a small classifier, some minutes per data set; CIFAR-10 needs Inception features",
    ),
    absent(
        "Figs 7, 10, 12",
        "800 GANs and VAEs: VAEs towards recall, GANs towards precision; Spearman −.83 and .89 with class scores",
        "a VAE and the losses of that population in `tune`, and hours to train it",
    ),
    absent(
        "Fig. 9", "clusters of real and generated images are meaningful", "a picture of samples; no number is claimed"
    ),
]
