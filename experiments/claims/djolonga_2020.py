"""Djolonga et al. (2020)."""

from __future__ import annotations

from itertools import pairwise
from math import log
from statistics import mean

from experiments.claims import EXACT, Entry, entry, num, nums, ordered, pm, said
from experiments.common.summaries import Row

ENTRIES: list[Entry] = []


@ENTRIES.append
@entry(
    "Fig. 1",
    "for uniform measures precision and recall are ratios of sets",
    "agrees",
    "djolonga_2020.figure_1_sets",
    caption="Uniform measures on two sets: the exclusive frontier of every order from 1 on is the point that set operations give.",
    tolerance=EXACT,
)
def figure_1(r: Row) -> str:
    high = [row for row in r["rows"] if float(row["order"]) >= 1]
    same = all(max(abs(a - row[f"set_{k}"]) for a in row[k]) < 1e-6 for row in high for k in ("precision", "recall"))
    low = any(max(row["precision"]) > row["set_precision"] + 0.1 for row in r["rows"] if row["order"] == 0.5)
    return (
        said("at orders 1, 2 and ∞ the exclusive frontier of all four pairs is that one point", same)
        + "; "
        + said("at order ½ it is a curve above it", low)
        + ". Exact"
    )


@ENTRIES.append
@entry(
    "Fig. 2",
    "Rényi divergences of Gaussians grow faster at a larger order when the second argument lacks mass",
    "agrees",
    "djolonga_2020.figure_2_renyi",
    caption="Rényi divergences between a standard normal and a normal of width σ, in both directions.",
    tolerance=EXACT,
)
def figure_2(r: Row) -> str:
    at = r["sigma"].index(min(r["sigma"], key=lambda s: abs(s - 0.5)))
    values = [float(curve["to_q"][at]) for curve in r["orders"].values()]
    return (
        said(
            "D(P‖Q) grows with the order at every σ",
            all(
                float(a) <= float(b) + 1e-9
                for one, two in pairwise(r["orders"].values())
                for key in ("to_q", "to_p")
                for a, b in zip(one[key], two[key], strict=True)
            ),
        )
        + f"; at σ = .5 it is {nums(values)} for orders ½, 1, 2, 10 (infinite where (1 − a) + aσ² ≤ 0). Exact"
    )


@ENTRIES.append
@entry(
    "Figs 3–4, Props 6–7",
    "the exclusive frontier of order ∞ is the PR curve; precision and recall are ratios of distances on the simplex; the path is a geodesic",
    "agrees",
    "djolonga_2020.figure_3_frontiers",
    caption="Two distributions on three points: paths between them and their inclusive and exclusive frontiers.",
    tolerance=EXACT,
)
def figure_3(r: Row) -> str:
    ratios = all(abs(g["recall"] - g["beta"]) < 1e-6 and abs(g["precision"] - g["alpha"]) < 1e-6 for g in r["geometry"])
    geodesic = all(abs(g["funk"] - g["funk_through_r"]) < 1e-6 for g in r["geometry"])
    return (
        said("order ∞ is the PR curve within 1e-6", r["prop_6_largest_difference"] < 1e-6)
        + "; "
        + said("the ratios are α and β", ratios)
        + " and "
        + said("the Funk metric adds up along the path", geodesic)
        + ", within 1e-6 at five λ. Exact"
    )


@ENTRIES.append
@entry(
    "Fig. 5",
    "a case where k-NN precision and recall are essentially perfect, although the distributions are very different",
    "agrees",
    "djolonga_2020.figure_5_supports",
    caption="The same support with very different weights: k-NN precision and recall are nearly perfect, the exact curve is not.",
    tolerance=0.02,
)
def figure_5(r: Row) -> str:
    p, q = ([row[key] for row in r["seeds"]] for key in ("precision", "recall"))
    return (
        said("k-NN precision and recall exceed .85 with every seed", min(p + q) > 0.85)
        + f" ({pm(p)} and {pm(q)}), the exact α(1) is {num(r['alpha(1)'])}; coverage sees it ({pm([row['coverage'] for row in r['seeds']])}). n = {r['n']:,}"
    )


@ENTRIES.append
@entry(
    "Fig. 6, Prop. 8",
    "too few buckets give overly optimistic frontiers; too few samples give pessimistic ones that fluctuate",
    "agrees",
    "djolonga_2020.figure_6_quantization",
    caption="Frontiers after quantisation: few buckets are optimistic, few samples pessimistic.",
    tolerance=1e-3,
)
def figure_6(r: Row) -> str:
    sides = ("exclusive", "inclusive")
    coarse = all(b[side]["area"] > r["truth"][side]["area"] for b in r["buckets"].values() for side in sides)
    few = [mean(r["samples"][n]["exclusive"]) for n in r["samples"]]
    return (
        said("every quantised frontier is above the truth", coarse)
        + f" (exclusive area {nums([b['exclusive']['area'] for b in r['buckets'].values()])} for 3, 5, 10, 40 buckets; truth "
        f"{num(r['truth']['exclusive']['area'])}). "
        + said("With few samples the area is far too low and rises with n", ordered(few) and few[0] < 0.5)
        + f": {', '.join(pm(v['exclusive']) for v in r['samples'].values())} for n = 30 to 10,000, 20 draws"
    )


@ENTRIES.append
@entry(
    "Fig. 7",
    "with Gaussian fits the exclusive frontier can look more pessimistic than the truth; Gaussian R make the inclusive one worse",
    "agrees",
    "djolonga_2020.figure_7_gaussian_fits",
    caption="Frontiers of order 1 with Gaussians in place of a mixture and of its barycentres.",
    tolerance=1e-4,
)
def figure_7(r: Row) -> str:
    exclusive, inclusive = r["sides"]["exclusive"], r["sides"]["inclusive"]
    truth, fit = exclusive["truth"]["recall"][-1], exclusive["Gaussian P and Q"]["recall"][-1]
    free, bound = inclusive["Gaussian P and Q"], inclusive["Gaussian R too"]

    def weighted(curve: Row) -> list[float]:
        n = len(curve["recall"]) - 1
        both = enumerate(zip(curve["recall"], curve["precision"], strict=True))
        return [-(i * log(b) + (n - i) * log(a)) / n for i, (b, a) in both]  # w KL(Q‖R) + (1 − w) KL(P‖R)

    worse = all(a <= b + 1e-6 for a, b in zip(weighted(free), weighted(bound), strict=True))
    same = (
        max(
            abs(a - b)
            for a, b in zip(exclusive["Gaussian R too"]["recall"], exclusive["Gaussian P and Q"]["recall"], strict=True)
        )
        < 1e-3
    )
    return (
        said("at precision 1 recall falls when Gaussians are fitted", fit < truth - 0.2)
        + f", from {num(truth)} to {num(fit)}. "
        + said("Gaussian R are worse at every weight on the inclusive side", worse)
        + said(" and no different on the exclusive one (Prop. 4)", same)
        + ". Exact"
    )


@ENTRIES.append
@entry(
    "Props 4, 9",
    "frontiers of order 1 in closed form for any exponential family; projection onto it only translates the inclusive region",
    "agrees",
    "djolonga_2020.propositions_4_9_families",
    caption="Frontiers of order 1 in five exponential families; dashed: inclusive with any R.",
    tolerance=1e-3,
)
def propositions(r: Row) -> str:
    f = r["families"]
    exact = all(row["exclusive_error"] < 2e-3 for row in f.values())
    flat = all(row["prop_9_spread"] < 1e-3 for row in f.values())
    gaps = ", ".join(f"{name} {num(row['prop_9_gap'])}" for name, row in f.items())
    return (
        said("in all five families the closed form of the exclusive frontier is the exact one within .002", exact)
        + "; "
        + said("the translate of Prop. 9 is constant within .001", flat)
        + f" ({gaps} nats for a mixture), as corrected in DJO-7 and DJO-9"
    )


@ENTRIES.append
@entry(
    "Sec. 6, direct estimate",
    "the inclusive frontier of order 1 can be estimated by a density fitted to the weighted union and judged on held-out samples",
    "in part",
    "djolonga_2020.section_6_direct",
    why="it works where the entropies of P and Q are known; samples alone do not give them",
    caption="The inclusive frontier of order 1, estimated by kernel densities of the weighted union; five seeds.",
    tolerance=0.05,
)
def direct(r: Row) -> str:
    truth = [(row["precision_loss"], row["recall_loss"]) for row in r["truth"]]
    errors = {}
    for n, runs in r["runs"].items():
        pairs = [(row, t) for run in runs for row, t in zip(run, truth, strict=True)]
        errors[n] = mean((abs(row["precision_loss"] - a) + abs(row["recall_loss"] - b)) / 2 for row, (a, b) in pairs)
    values = list(errors.values())
    return (
        f"mean absolute error of the losses {nums(values)} nats for n = {', '.join(errors)}, five seeds, five weights; "
        + said("it falls with n", ordered(values, falling=True))
    )
