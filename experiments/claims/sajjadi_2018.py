"""Sajjadi et al. (2018)."""

from __future__ import annotations

from statistics import mean, median

from experiments.claims import EXACT, Entry, entry, num, nums, ordered, pm, said
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
    "topics dropped: recall falls, precision stays",
    "agrees",
    "sajjadi_2018.figure_5_text",
    options="--archive 20_newsgroups.tar.xz",
    caption="A stand-in: topics of 20 Newsgroups, of which Q has the first 1 to 20.",
)
def text(r: Row) -> str:
    def values(name: str, key: str) -> list[float]:
        return [row["curves"][name][key] for row in r["rows"]]

    recall, overlap = (
        {n: r["errors"][n]["exact"][k] for n in ("auto", "clusters", "simon")} for k in ("recall", "overlap")
    )
    best = all(table["auto"] == min(table.values()) for table in (recall, overlap))
    return (
        said("recall by clusters rises with the topics", ordered(values("clusters", "recall")))
        + f": β(.1) {nums(values('clusters', 'recall'))} for 1, 2, 5, 10, 15, 20 topics; "
        + said("precision stays above .98", min(v for n in recall for v in values(n, "precision")) > 0.98)
        + ". Mean errors of β(.1) and α(1) against the exact curve: "
        + ", ".join(f"{n} {nums([recall[n], overlap[n]])}" for n in recall)
        + "; "
        + said("auto is the closest", best)
        + f". 20 Newsgroups, n = {r['n']:,}"
    )


@ENTRIES.append
@entry(
    "Figs 1, 6, 8",
    "models of equal FID: one draws few classes well, the other all classes badly; their curves differ, as does the confidence of a classifier (.967 and .886); two "
    "models that draw 1s differ in recall",
    "agrees",
    "sajjadi_2018.figure_6_equal_fid",
    caption="A stand-in: clean digits of six classes and noisy digits of all, with the same FID.",
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


@ENTRIES.append
@entry(
    "Figs 5, 11, Simon Fig. 2",
    "classes added and dropped one by one: the IS only grows, FID sees both errors, PRD tells them apart",
    "agrees",
    "sajjadi_2018.figure_5_classes",
    options="--data mnist --data-dir DIR",
    files=tuple(f"figure_5_classes-{data}-network" for data in ("mnist", "fashion-mnist", "cifar-10")),
    run="7 min per data set (CIFAR-10: H200 and 4 cores, 2 min)",
    caption="P has five classes and Q the first 1 to 10: FID and IS, the curves from class labels, and three estimates.",
)
def classes(mnist: Row, fashion: Row, cifar: Row) -> str:
    both = (mnist, fashion)
    lowest = all(min(r["rows"][:10], key=lambda row: row["fid"])["classes"] == 5 for r in both)
    grows = all(r["rows"][0]["is"] < r["rows"][4]["is"] < r["rows"][9]["is"] for r in both)

    def values(r: Row, name: str, key: str, rows: slice) -> list[float]:
        return [row["curves"][name][key] for row in r["rows"][:10][rows]]

    tells = all(
        ordered(values(r, "clusters", "recall", slice(0, 5)))
        and ordered(values(r, "auto", "recall", slice(0, 5)))
        and min(values(r, "auto", "precision", slice(0, 5))) > 0.99
        and min(values(r, "auto", "recall", slice(4, 10))) > 0.99
        for r in both
    )

    def errors(r: Row, truth: str, name: str) -> str:
        return nums([r["errors"][name][truth][key] for key in ("precision", "recall", "overlap")])

    def at_least_slope(r: Row, name: str) -> str:
        return nums([r["errors"][name]["share"][f"{key}, least slope"] for key in ("precision", "recall")])

    def closest(r: Row) -> bool:
        return all(
            r["errors"]["auto"]["exact"][key] <= min(r["errors"][name]["exact"][key] for name in ("clusters", "simon"))
            for key in ("precision", "recall", "overlap")
        )

    near = max(*mnist["errors"]["auto"]["share"].values(), *(r["errors"]["auto"]["exact"]["recall"] for r in both))
    far = min(fashion["errors"]["exact"]["share"].values())
    return (
        said("FID is least at five classes, and the IS grows", lowest and grows)
        + "; "
        + said("recall rises up to five classes at full precision, and stays full after", tells)
        + f". Mean errors of α(10), β(.1) and α(1) against the known share of classes, three seeds, n = {mnist['n']:,}: MNIST auto "
        f"{errors(mnist, 'share', 'auto')}. "
        + said("Classes of Fashion-MNIST overlap in the features", far > 0.03)
        + f": the exact curve (from labels) misses the share by {errors(fashion, 'share', 'exact')}, auto by {errors(fashion, 'share', 'auto')}. At slope 5, the least at "
        f"which disjoint classes give the share: MNIST auto {at_least_slope(mnist, 'auto')}, Fashion-MNIST exact {at_least_slope(fashion, 'exact')}, auto "
        f"{at_least_slope(fashion, 'auto')}. Against the exact curve: auto "
        f"{errors(mnist, 'exact', 'auto')} and {errors(fashion, 'exact', 'auto')}, clusters {errors(mnist, 'exact', 'clusters')} and "
        f"{errors(fashion, 'exact', 'clusters')}, Simon {errors(mnist, 'exact', 'simon')} and {errors(fashion, 'exact', 'simon')}; "
        + said("auto is the closest on both and on CIFAR-10", all(map(closest, (*both, cifar))) and near < 0.03)
        + f" ({cifar['n']} samples, accuracy {100 * mean(cifar['accuracy']):.0f} %: "
        f"{errors(cifar, 'exact', 'auto')})"
    )


@ENTRIES.append
@entry(
    "Figs 5, 11, stronger classifier",
    "the same on Fashion-MNIST, in features of a residual network",
    "agrees",
    "sajjadi_2018.figure_5_classes",
    options="--data fashion-mnist --features residual --data-dir DIR --device cuda --jobs 3",
    files=("figure_5_classes-fashion-mnist-residual",),
    run="H200 and 3 cores, 7 min",
    caption="The same on Fashion-MNIST, in features of a residual network.",
)
def residual(r: Row) -> str:
    def missed(name: str, key: str) -> list[float]:
        by_seed: dict[int, list[float]] = {}
        for row in r["rows"]:
            share = row["truth"].get(key.partition(",")[0], min(row["truth"].values()))
            by_seed.setdefault(row["seed"], []).append(abs(row["curves"][name][key] - share))
        return [mean(values) for values in by_seed.values()]

    keys, at_five = ("precision", "recall", "overlap"), ("precision, least slope", "recall, least slope")
    auto, exact = ({key: missed(name, key) for key in (*keys, *at_five)} for name in ("auto", "exact"))
    return (
        f"accuracy {100 * mean(r['accuracy']):.1f} %. Mean errors of α and β against the share of classes: at slope 5, "
        f"the least at which disjoint classes give it, auto {', '.join(pm(auto[key]) for key in at_five)}, exact "
        f"{', '.join(pm(exact[key]) for key in at_five)}"
        + said("", max(mean(auto[key]) for key in (*at_five, "overlap")) <= 0.03)
        + f". At slope 10, and α(1): auto {', '.join(pm(auto[key]) for key in keys)}, exact "
        f"{', '.join(pm(exact[key]) for key in keys)}"
        + said("", max(mean(auto[k]) - mean(exact[k]) for k in keys) < 0.005)
    )


@ENTRIES.append
@entry(
    "Figs 5, 11, default encoder",
    "the same, in the features that `assess` takes by itself",
    "in part",
    "sajjadi_2018.figure_5_classes",
    why="on Fashion-MNIST, α(1) by auto is no closer than the others",
    options="--data mnist --features default --n 800 --seeds 1 --data-dir DIR --device cuda --jobs 5",
    files=tuple(f"figure_5_classes-{data}-default" for data in ("mnist", "fashion-mnist")),
    run="H200 and 5 cores, 2 min per data set",
    caption="The same with the default encoder of images, n = 800.",
)
def default_classes(mnist: Row, fashion: Row) -> str:
    def errors(r: Row, name: str) -> list[float]:
        return [r["errors"][name]["exact"][key] for key in ("precision", "recall", "overlap")]

    def best(r: Row, keys: int) -> bool:
        rivals = [errors(r, name) for name in ("clusters", "simon")]
        return all(errors(r, "auto")[k] < min(rival[k] for rival in rivals) for k in range(keys))

    lowest = all(min(r["rows"], key=lambda row: row["fid"])["classes"] == 5 for r in (mnist, fashion))
    return (
        said("FID is least at five classes", lowest)
        + f". Mean errors against the exact curve, n = {mnist['n']}, one seed: auto {nums(errors(mnist, 'auto'))} and {nums(errors(fashion, 'auto'))}, clusters "
        f"{nums(errors(mnist, 'clusters'))} and {nums(errors(fashion, 'clusters'))}, Simon {nums(errors(mnist, 'simon'))} and {nums(errors(fashion, 'simon'))}; "
        + said("auto is the closest, except in α(1) on Fashion-MNIST", best(mnist, 3) and best(fashion, 2))
    )


@ENTRIES.append
@entry(
    "Figs 5, 11, Inception",
    "the same, in Inception features",
    "in part",
    "sajjadi_2018.figure_5_classes",
    why="clusters hardly see classes added on MNIST and CIFAR-10, and at slope 10 `auto` is not always the closest",
    options="--data mnist --features inception --n 1000 --data-dir DIR --inception FILE --jobs 6",
    files=tuple(f"figure_5_classes-{data}-inception" for data in ("mnist", "fashion-mnist", "cifar-10")),
    run="H200 and 16 cores, 2 min (CIFAR-10: `--n 800 --seeds 1`); weights in half precision",
    caption="The same in Inception features.",
)
def inception_classes(*data: Row) -> str:
    keys, estimates = ("precision", "recall", "overlap"), ("auto", "clusters", "simon")

    def errors(r: Row, name: str, truth: str = "exact") -> list[float]:
        return [r["errors"][name][truth][key] for key in keys]

    def seen(r: Row, name: str) -> float:
        return mean(row["curves"][name]["precision"] for row in r["rows"] if row["classes"] == 10)

    lowest = all(min(r["rows"][:10], key=lambda row: row["fid"])["classes"] == 5 for r in data)
    grows = all(r["rows"][0]["is"] < r["rows"][4]["is"] < r["rows"][9]["is"] for r in data)
    rises = all(
        ordered([row["curves"]["auto"]["recall"] for row in r["rows"][:4]])
        and min(row["curves"]["auto"]["precision"] for row in r["rows"][:5]) > 0.99
        and min(row["curves"]["auto"]["recall"] for row in r["rows"][4:10]) > 0.99
        for r in data
    )
    closest = all(errors(r, "auto")[2] == min(errors(r, name)[2] for name in estimates) for r in data)
    blind = min(seen(r, "clusters") for r in (data[0], data[2])) > 0.9
    return (
        said("FID is least at five classes, the IS grows, recall by auto rises as above", lowest and grows and rises)
        + ". Mean errors against the exact curve, on MNIST; Fashion-MNIST; CIFAR-10: "
        + ", ".join(f"{name} {'; '.join(nums(errors(r, name)) for r in data)}" for name in estimates)
        + "; "
        + said("auto is the closest in α(1)", closest)
        + ". "
        + said("With ten classes clusters report α(10) above .9 on MNIST and CIFAR-10", blind)
        + f" (exact {num(seen(data[0], 'exact'))}, {num(seen(data[2], 'exact'))})"
    )


@ENTRIES.append
@entry(
    "Figs 7, 10, 12",
    "800 models: VAEs towards recall, GANs towards precision; Spearman of precision with the entropy of p(y|x) −.83, of recall with that of p(y) .89",
    "in part",
    "sajjadi_2018.figure_7_population",
    why="112 small models; the correlation of precision is weaker, and WGAN-GP is strong in both",
    options="--data-dir DIR --device cuda --jobs 5",
    run="H200 and 5 cores, 6 min",
    caption="112 small GANs and VAEs on MNIST and Fashion-MNIST: F₈ and F₁⸝₈ by clusters, two models of equal FID, and the entropies of a classifier.",
)
def population(r: Row) -> str:
    def lean(data: str, kind: str, metric: str = "clusters") -> float:
        return float(
            median(m["f8"][metric] - m["f1_8"][metric] for m in r["models"] if (m["data"], m["kind"]) == (data, kind))
        )

    sets, kinds = ("mnist", "fashion-mnist"), ("non-saturating", "least squares", "wgan-gp", "vae")
    leans = {kind: [lean(data, kind) for data in sets] for kind in kinds}
    order = all(max(leans[k][i] for k in kinds[:2]) < leans["wgan-gp"][i] < leans["vae"][i] for i in (0, 1))
    ranks = [
        [r["ranks"][data]["clusters"][key] for data in sets] for key in ("f1_8 with entropy given x", "f8 with entropy")
    ]
    pairs = [[r["models"][i] for i in row["pair"]] for row in r["equal fid"]]
    cross = all(a["f1_8"][m] > b["f1_8"][m] and a["f8"][m] < b["f8"][m] for a, b in pairs for m in ("clusters", "auto"))
    shown = ", ".join(f"{kind} {nums(values)}" for kind, values in leans.items())
    (a, b), _ = pairs
    return (
        f"median F₈ − F₁⸝₈ by clusters on the two data sets: {shown}; "
        + said("VAEs lean most towards recall, the first two GANs towards precision", order)
        + f". Spearman: precision {nums(ranks[0])}, recall {nums(ranks[1])}. "
        + said(
            "Models of equal FID whose curves cross exist on both, by clusters and by `auto`", cross and len(pairs) == 2
        )
        + f" (Figs 1, 6), such as {a['kind']} and {b['kind']}"
    )


@ENTRIES.append
@entry(
    "Fig. 9",
    "clusters of real and generated images are meaningful",
    "agrees",
    "sajjadi_2018.figure_7_population",
    options="--data-dir DIR --device cuda --jobs 5",
    run="H200 and 5 cores, 6 min",
    caption="The population of Figs 7, 10, 12.",
)
def mosaics(r: Row) -> str:
    good = [r["mosaics"][f"{data}, wgan-gp"] for data in ("mnist", "fashion-mnist")]
    rest = [one["same class"] for name, one in r["mosaics"].items() if "wgan-gp" not in name]
    return (
        "ten clusters of test images and draws, one model per loss: for WGAN-GP "
        + said("nine or ten clusters have the same main class among both", min(g["same class"] for g in good) >= 0.9)
        + f" (purity {nums([p for g in good for p in g['purity']], 2)}); for worse models "
        + said("fewer clusters agree", mean(rest) < 0.9)
        + f" ({num(mean(rest), 2)} on average)"
    )
