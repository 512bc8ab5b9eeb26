"""Questions of our own.

Precision and recall are those of k nearest neighbours (k = 5) unless a sentence says otherwise.
"""

from __future__ import annotations

from scipy.stats import spearmanr

from experiments.claims import by_setting, differences, entry, num, nums, ordered, pm, points, said, spread
from experiments.common.summaries import Row

TILTS = ("-1", "-0.5", "0", "0.5", "1", "2", "9")
STRENGTHS = (",central=-1", ",central=-0.5", "", *(f",central={c}" for c in ("0.5", "1", "1.5", "2", "3")))
H200 = "H200"


def ends(table: dict[str, list[float]], first: str, last: str) -> list[float]:
    return [abs(d) for d in differences(table, last, first)]


def every_seed(table: dict[str, list[float]], settings: list[str], *, falling: bool = False) -> bool:
    seeds = zip(*(table[name] for name in settings), strict=True)
    return all(ordered(values, falling=falling) for values in seeds)


def rank(table: dict[str, list[float]], settings: list[str]) -> list[float]:
    seeds = zip(*(table[name] for name in settings), strict=True)
    return [float(spearmanr(range(len(settings)), values).statistic) for values in seeds]


def gap_closed(table: dict[str, list[float]], setting: str, plain: str = "base", real: float = 1.0) -> str:
    closed = [(a - b) / (real - b) for a, b in zip(table[setting], table[plain], strict=False)]
    return f"{100 * min(closed):.0f} to {100 * max(closed):.0f} %"


@entry(
    "Eight Gaussians: the dial with known densities",
    "A RealNVP flow of three couplings trained at λ by a critic that learns log p alone, 3,000 steps, five seeds.",
    "own question",
    "extensions.dial_gaussians8",
    run="56 min",
    caption="Eight Gaussians and a flow trained at three λ, with known densities.",
)
def dial_gaussians8(r: Row) -> str:
    s = r["summary"]
    best = {
        reading: max(s, key=lambda model: s[model][reading]["mean"])
        for reading in ("beta(0.1)", "alpha(1)", "alpha(10)")
    }
    own = list(best.values()) == ["lam 0.1", "lam 1", "lam 10"]
    return (
        said("In the mean over seeds, each model is the best of all at its own λ", own)
        + f": β(.1) = {num(s['lam 0.1']['beta(0.1)']['mean'], 4)}, α(1) = {num(s['lam 1']['alpha(1)']['mean'])} and α(10) = "
        f"{num(s['lam 10']['alpha(10)']['mean'])}; likelihood alone has {num(s['mle']['beta(0.1)']['mean'])}, "
        f"{num(s['mle']['alpha(1)']['mean'])} and {num(s['mle']['alpha(10)']['mean'])}."
    )


@entry(
    "The dial on images",
    "A plain GAN (2,500 steps), fine-tuned at five λ from .1 to 10 (3,000 steps), three seeds, in pixels.",
    "own question",
    "extensions.dial_images",
    options="--data digits",
    files=tuple(
        f"dial_images-{n}" for n in ("digits", "fashion-mnist", "digits-plain", "digits-hinge", "digits-spectral")
    ),
    run="11 min (digits), 60 min (Fashion-MNIST), 22 min each for the others",
    caption="Samples and scores at five λ.",
)
def dial_images(digits: Row, fashion: Row, plain: Row, hinge: Row, spectral: Row) -> str:
    def means(r: Row, score: str) -> list[float]:
        return [sum(row[score]) / len(row[score]) for row in r["table"].values()]

    order = min(digits["spearman"]["precision"], fashion["spearman"]["precision"]) >= 0.9
    order &= max(digits["spearman"]["recall"], fashion["spearman"]["recall"]) <= -0.9
    d, f = (
        (means(digits, "precision"), means(digits, "recall")),
        (means(fashion, "precision"), means(fashion, "recall")),
    )
    late = means(spectral, "recall")
    return (
        said("The scores follow the order of λ on both data sets (Spearman at least .9 and at most −.9)", order)
        + f": precision {num(d[0][0])} to {num(d[0][-1])} and recall {num(d[1][0])} to {num(d[1][-1])} on digits, {num(f[0][0])} to "
        f"{num(f[0][-1])} and {num(f[1][0])} to {num(f[1][-1])} on Fashion-MNIST. The critic must not be restricted: without a penalty "
        f"(`digits-plain`, one seed) recall goes from {num(means(plain, 'recall')[0])} to {num(means(plain, 'recall')[-1])}; with spectral "
        "normalisation and latents × .3 (`digits-spectral`, three seeds) "
        + said("it falls between λ = 3 and 10 alone", late[3] > 0.85 > late[4])
        + f" ({num(late[3])}, {num(late[4])}). "
        + said(
            "The hinge is more precise at small λ", means(hinge, "precision")[0] > means(plain, "precision")[0] + 0.1
        )
        + " (one seed)."
    )


@entry(
    "The recipe of `precall tune`",
    "The recipe on digits at three λ, with `--objective tail` as in the README and with the default loss, n = 599, in pixels.",
    "own question",
    "extensions.tune_digits",
    run="16 min",
)
def tune_digits(r: Row) -> str:
    def scores(loss: str, name: str) -> list[list[float]]:
        return [[one[lam][name]["value"] for one in r[loss].values()] for lam in ("0.1", "1", "10")]

    p, q = (scores("tail", name) for name in ("precision", "recall"))
    log = [scores("default", name) for name in ("precision", "recall")]
    apart = all(
        seed["0.1"]["precision"]["high"] < seed["10"]["precision"]["low"]
        and seed["10"]["recall"]["high"] < seed["0.1"]["recall"]["low"]
        for seed in r["tail"].values()
    )
    return (
        f"{len(r['tail'])} seeds with `tail`: precision is {pm(p[0])}, {pm(p[1])} and {pm(p[2])}, recall {pm(q[0])}, {pm(q[1])} and {pm(q[2])}. "
        + said("In every run the intervals of λ = .1 and 10 are disjoint.", apart)
        + f" The default loss, {len(r['default'])} seeds: {', '.join(pm(one) for one in log[0])} and {', '.join(pm(one) for one in log[1])}."
    )


@entry(
    "Critics on features, and bins, on digits",
    "The same recipe with a second critic on features of a small classifier, with that critic alone, and with bins of centrality; three seeds.",
    "own question",
    "extensions.tune_options",
    run="17 min",
)
def tune_options(r: Row) -> str:
    def value(kind: str, lam: str, space: str, score: str) -> list[float]:
        return [seed[kind][lam][space][score] for seed in r["seeds"]]

    gain = [
        a - b
        for a, b in zip(
            value("features beside", "1", "own", "precision"), value("default", "1", "own", "precision"), strict=True
        )
    ]
    alone = value("features alone", "1", "pixels", "precision")
    bins = [value("bins", lam, "pixels", "recall") for lam in ("0.1", "1", "10")]
    return (
        f"At λ = 1 the second critic adds {points(gain)} of precision in its own features. "
        + said(
            "Alone it only deceives its encoder",
            max(alone) < 0.05 < 0.85 < min(value("features alone", "1", "own", "precision")),
        )
        + f": precision {nums(value('features alone', '1', 'own', 'precision'))} there, {nums(alone)} in pixels. "
        + said(
            "Bins turn the precise end alone",
            all(b >= a for a, b in zip(bins[0], bins[1], strict=True)) and max(bins[2]) < min(bins[1]),
        )
        + f": recall in pixels is {pm(bins[0])}, {pm(bins[1])} and {pm(bins[2])} at λ = .1, 1 and 10."
    )


@entry(
    "A dial without training: central rejection on digits",
    "Draws of a plain GAN, rejected towards central or marginal samples, K = 4, three seeds.",
    "own question",
    "extensions.central_digits",
    run="two threads, 12 min",
    caption="Means of the seeds, with bars from the least to the greatest.",
)
def central_digits(r: Row) -> str:
    p, q, vgg = (
        by_setting(r["rows"], "precision"),
        by_setting(r["rows"], "recall"),
        by_setting(r["rows"], "random-vgg", "precision"),
    )
    dial = [f"centrality, K = 4 {lam}" for lam in ("0.1", "0.3", "1", "2", "3", "4")]
    lost = min(ends(vgg, "truncation 1", "truncation 0.4"))
    return (
        said(
            "From λ = .1 to 4 both scores are strictly in order with every seed",
            every_seed(p, dial) and every_seed(q, dial, falling=True),
        )
        + f": precision in pixels rises by {points(ends(p, dial[0], dial[-1]))} and recall falls by {points(ends(q, dial[0], dial[-1]))}; in "
        f"`random-vgg`, precision rises by {points(ends(vgg, dial[0], dial[-1]))}. "
        + said("Truncation only looks precise in pixels", lost > 0.25)
        + f": in `random-vgg` its precision falls by {points(ends(vgg, 'truncation 1', 'truncation 0.4'))}. Centrality uses neighbours, as these "
        "scores do, which favours it."
    )


@entry(
    "Fine-tuning on the target of a trade-off",
    "A latent diffusion model of a corpus with a fifth of negatives and two missing classes is fine-tuned on few clean images, or on the target "
    "made of them; three seeds.",
    "own question",
    "extensions.target_images",
    options="--data fashion-mnist",
    files=("target_images-fashion-mnist", "target_images-digits"),
    run="35 min (digits: 4 min)",
    caption="Means of three seeds, with bars of one standard deviation.",
)
def target_images(fashion: Row, digits: Row) -> str:
    t, d = fashion["table"], digits["table"]
    few, target, ascent = t["200 clean images"], t["their target, λ = 10 (200)"], t["ascent, λ = 10 (200)"]
    many, of_many = t["1000 clean images"], t["their target, λ = 10 (1000)"]
    same = abs(few["alpha"][0] - target["alpha"][0]) < 0.02
    return (
        "With 200 clean images of Fashion-MNIST, "
        + said(
            "the target of λ = 10 is as good as the images alone at its slope and better at the others",
            same and target["beta"][0] > few["beta"][0] + 0.05 and target["alpha1"][0] > few["alpha1"][0] + 0.15,
        )
        + f": α(10) {spread(target['alpha'])} and {spread(few['alpha'])}, β(.1) {spread(target['beta'])} and {spread(few['beta'])}, α(1) "
        f"{spread(target['alpha1'])} and {spread(few['alpha1'])}; the model before has α(10) {spread(t['nothing']['alpha'])}. "
        + said(
            "With 1,000 images, training on them is better at every slope",
            all(many[k][0] > of_many[k][0] for k in ("alpha", "alpha1", "beta")),
        )
        + ". "
        + said("Ascent mends λ = 10", ascent["alpha"][0] > 0.95)
        + f" (α(10) {spread(ascent['alpha'])}) "
        + said(
            "and collapses at λ = .1",
            t["ascent, λ = 0.1 (200)"]["beta"][0] < 0.1 and d["ascent, λ = 0.1 (150)"]["beta"][0] < 0.2,
        )
        + f" (β(.1) {spread(t['ascent, λ = 0.1 (200)']['beta'])})."
    )


@entry(
    "A model that cannot fit: capped ascent",
    "Mixtures of three and five Gaussians, fitted to eight by likelihood, then trained further by three losses; exact, three seeds.",
    "own question",
    "extensions.ascent_gaussians8",
    tolerance=0.02,
)
def ascent_gaussians8(r: Row) -> str:
    t = r["table"]
    ok = all(
        t[f"{k}: capped ascent, λ = 10"]["alpha10"][0] > 0.999 > 0.7 > t[f"{k}: base"]["alpha10"][0] for k in (3, 5)
    )
    ok &= t["5: capped ascent, λ = 0.1"]["beta01"][0] > t["5: likelihood"]["beta01"][0]
    return (
        said("Capped ascent raises precision and recall at its own λ for both models", ok)
        + f": α(10) from {spread(t['5: base']['alpha10'])} to {spread(t['5: capped ascent, λ = 10']['alpha10'])} and β(.1) from "
        f"{spread(t['5: base']['beta01'])} to {spread(t['5: capped ascent, λ = 0.1']['beta01'])} with five Gaussians; at λ = 10 by dropping modes "
        f"(β(.1) = {spread(t['5: capped ascent, λ = 10']['beta01'])}). Refitting three Gaussians to the projection hardly changes them "
        f"(α(10) = {spread(t['3: projection, λ = 10']['alpha10'])}, before {spread(t['3: base']['alpha10'])})."
    )


@entry(
    "Rejection in a diffusion chain",
    "An under-trained EDM of eight Gaussians, ten seeds, at equal numbers of network calls per sample.",
    "own question",
    "extensions.diffusion_rejection",
    options="--seeds 10",
    run="CPU, time not recorded",
    caption="Rejection at the end of a diffusion chain and inside it, at equal numbers of calls.",
)
def diffusion_rejection(r: Row) -> str:
    t, g = r["table"], r["gains"]
    return (
        f"At 72 calls D = 2 JS is {spread(t['plain at 72']['divergence'])} with more steps, {spread(t['end 18 at 72']['divergence'])} with OBRS at "
        f"the end and {spread(t['inside 18 at 72']['divergence'])} with rejection at three levels inside the chain. "
        + said(
            "Rejecting inside helps at 72 calls and not at 144",
            g["inside 18 at 72"][0] > 0.009 and abs(g["inside 18 at 144"][0]) < 0.003,
        )
        + f": gains per seed {spread(g['inside 18 at 72'])} and {spread(g['inside 18 at 144'])}."
    )


@entry(
    "Guidance by a density ratio",
    "The same under-trained EDM, sampled along D + w σ² ∇ log r, where the ratio is trained by a logistic loss (*classified*) or by the denoising "
    "error of the guided denoiser (*matched*); five seeds.",
    "own question",
    "extensions.ratio_guidance",
    run="11 min",
    caption="Over the weight of the guidance: means of five seeds.",
)
def ratio_guidance(r: Row) -> str:
    def at(way: str) -> list[float]:
        return [row["divergence"] for row in r["rows"] if row["way"] == way and row.get("weight", 1) == 1]

    t = r["table"]
    better = all(m < c for m, c in zip(at("matched"), at("classified"), strict=True))
    best = min((w for w in (0.5, 1, 1.5, 2, 3)), key=lambda w: t[f"matched, w = {w:g}"]["divergence"][0]) == 1
    return (
        f"D is {spread(t['plain, w = 0']['divergence'])} without guidance, {spread(t['classified, w = 1']['divergence'])} classified and "
        f"{spread(t['matched, w = 1']['divergence'])} matched at w = 1. "
        + said("Matched is better than classified with every seed", better)
        + ", and "
        + said("w = 1 is the best weight for D", best)
        + "; precision rises further beyond it."
    )


@entry(
    "A small diffusion model on CIFAR-10: knobs and mending",
    "A class-conditional EDM (8.0 M parameters, 290 s of training), 10,000 draws in Inception features; one seed.",
    "own question",
    "extensions.diffusion_knobs",
    options="--data-dir DIR --inception FILE",
    run=f"{H200}, 15 min",
)
def diffusion_knobs(r: Row) -> str:
    k = {row["model"]: row for row in r["knobs"]}
    m = {row["model"]: row for row in r["mending"]}
    free = [f"classifier-free {w}" for w in ("0.7", "1.5", "2", "3")]
    dial = ordered([k[n]["precision"] for n in free]) and ordered([k[n]["recall"] for n in free], falling=True)
    own = all(
        m[n]["linear"]["alpha(10)"] < m["plain"]["linear"]["alpha(10)"]
        for n in ("projection 10", "projection 0.1", "accepted draws")
    )
    return (
        said("Classifier-free guidance is a dial", dial)
        + f": precision {num(k[free[0]]['precision'])} to {num(k[free[-1]]['precision'])}, recall {num(k[free[0]]['recall'])} to "
        f"{num(k[free[-1]]['recall'])} from weight .7 to 3. Autoguidance at 2 improves FID from {k['plain']['fid']:.1f} to "
        f"{k['autoguidance 2']['fid']:.1f}. "
        + said("Fine-tuning on the model's own draws makes it worse", own)
        + f": α(10) of `linear` is {num(m['plain']['linear']['alpha(10)'])} before and {num(m['projection 10']['linear']['alpha(10)'])} after the "
        "projection at λ = 10. (From an earlier version of the script.)"
    )


@entry(
    "A small diffusion model on CIFAR-10: guided away from its surplus",
    "A copy of the same EDM, fine-tuned on draws that are too many at λ, guides sampling in the wrong direction; three seeds, weights chosen with seed 0.",
    "own question",
    "extensions.diffusion_guides",
    options="--data-dir DIR --inception FILE --work DIR",
    files=("diffusion_guides", "diffusion_guides-4000"),
    run=f"{H200}, 30 min",
    caption="Means of three seeds.",
)
def diffusion_guides(r: Row, short: Row) -> str:
    p, q, fid = (by_setting(r["rows"], s) for s in ("precision", "recall", "fid"))
    a10, b01 = by_setting(r["rows"], "linear", "alpha(10)"), by_setting(r["rows"], "linear", "beta(0.1)")
    auto10, auto01 = by_setting(short["rows"], "auto", "alpha(10)"), by_setting(short["rows"], "auto", "beta(0.1)")
    up, weak = "base surplus-10:2", "base surplus-0.1:3"
    cfg = ["base free:0.7", "base", "base free:1.5", "base free:2", "base free:3"]
    beyond = list(r["recall beyond classifier-free guidance"][up].values())
    return (
        said(
            "Classifier-free guidance is a dial with every seed",
            every_seed(p, cfg) and every_seed(q, cfg, falling=True),
        )
        + ". "
        + said(
            "The guide of λ = 10 raises precision and recall together",
            min(differences(p, up, "base") + differences(q, up, "base")) > 0,
        )
        + f" (by {points(differences(p, up, 'base'))} and {points(differences(q, up, 'base'))}; FID {pm(fid['base'], 1)} to {pm(fid[up], 1)}), "
        f"{points(beyond)} of recall beyond classifier-free guidance. By `linear` the guides close {gap_closed(a10, up)} (λ = 10) and "
        f"{gap_closed(b01, weak)} (λ = .1) of the gap to real images; by `auto` (shorter training, one seed) {gap_closed(auto10, up)} and "
        f"{gap_closed(auto01, weak)}."
    )


@entry(
    "A diffusion model on Fashion-MNIST: guides over three seeds",
    "The same guides on Fashion-MNIST; the bases were not equally trained, so compare within a seed.",
    "own question",
    "extensions.diffusion_guides",
    options="--data fashion-mnist --data-dir DIR --inception FILE --work DIR --base-seconds 140 --kinds scores",
    files=("diffusion_guides-fashion-mnist",),
    run=f"{H200}, 17 min with `gan_dials`",
    caption="Means of the seeds.",
)
def guides_fashion(r: Row) -> str:
    p, q = by_setting(r["rows"], "precision"), by_setting(r["rows"], "recall")
    cfg = ["base free:0.7", "base", "base free:1.5", "base free:2", "base free:3"]
    beyond = r["recall beyond classifier-free guidance"]
    ours = [
        v for name in ("base surplus-10:1.5", "base surplus-10:2", "base surplus-0.1:3") for v in beyond[name].values()
    ]
    return (
        said(
            "Classifier-free guidance is a dial with every seed up to weight 3",
            every_seed(p, cfg) and every_seed(q, cfg, falling=True),
        )
        + f": precision rises by {points(ends(p, cfg[0], cfg[-1]))} and recall falls by {points(ends(q, cfg[0], cfg[-1]))}. "
        + said("The guides lie above it with every seed", min(ours) > 0)
        + f", by {points(ours)} of recall at equal precision; rejection with K = 3 lies above it by {points(list(beyond['rejection-3'].values()))}."
    )


@entry(
    "Equally trained: guides that mend",
    "Three diffusion models of 2,500 steps each on Fashion-MNIST, with the weights chosen on CIFAR-10.",
    "own question",
    "extensions.diffusion_guides",
    options="--data fashion-mnist --data-dir DIR --inception FILE --work DIR --steps 2500 400 --kinds scores linear auto",
    files=("diffusion_guides-fashion-mnist-2500", "diffusion_guides-fashion-mnist-auto"),
    run=f"{H200}, 6 min",
)
def guides_equal(r: Row, auto: Row) -> str:
    fid, up, weak = by_setting(r["rows"], "fid"), "base surplus-10:2", "base surplus-0.1:3"
    a10, b01 = by_setting(r["rows"], "linear", "alpha(10)"), by_setting(r["rows"], "linear", "beta(0.1)")
    j10, j01 = by_setting(auto["rows"], "auto", "alpha(10)"), by_setting(auto["rows"], "auto", "beta(0.1)")
    more = min(differences(a10, up, "further")) > 0.25 and min(differences(b01, weak, "further")) > 0.25
    return (
        said(
            "Both guides exceed further training for as many steps by more than .25 at their own slope, with every seed",
            more,
        )
        + f". FID falls from {pm(fid['base'], 1)} to {pm(fid[up], 1)} and {pm(fid[weak], 1)}. They close {gap_closed(a10, up)} and "
        f"{gap_closed(b01, weak)} of the gap by `linear`, {gap_closed(j10, up)} and {gap_closed(j01, weak)} by `auto`."
    )


@entry(
    "Dials of a GAN on Fashion-MNIST",
    "A class-conditional BigGAN under truncation, rejection and five kinds of fine-tuning (cut short); three seeds.",
    "own question",
    "extensions.gan_dials",
    options="--data fashion-mnist --data-dir DIR --inception FILE --work DIR --seconds 260",
    files=("gan_dials-fashion-mnist",),
    run=f"{H200}, 17 min with `diffusion_guides`",
    caption="Means of the seeds.",
)
def gan_dials(r: Row) -> str:
    p, q = by_setting(r["rows"], "precision"), by_setting(r["rows"], "recall")
    psi = ["base", *(f"base,psi={x}" for x in ("0.9", "0.8", "0.7", "0.6", "0.5"))]
    beyond = [v for k in (2, 3, 5) for v in r["recall beyond truncation"][f"base,reject={k}"].values()]
    worse = max(differences(p, "further", "base") + differences(q, "further", "base")) < 0
    return (
        said("Truncation is a dial with every seed", every_seed(p, psi) and every_seed(q, psi, falling=True))
        + f": precision rises by {points(ends(p, psi[0], psi[-1]))} and recall falls by {points(ends(q, psi[0], psi[-1]))}. Rejection lies above it "
        f"by {points(beyond)} of recall at equal precision. "
        + said("Fine-tuning itself costs precision and recall with every seed", worse)
        + ", so no trained route beats the plain network's knobs."
    )


@entry(
    "A GAN that sees how central an image is",
    "A BigGAN trained with five bins of centrality; the tilt s chooses among them; three seeds.",
    "own question",
    "extensions.gan_bins",
    options="--data cifar-10 --data-dir DIR --inception FILE --work DIR --seconds 900",
    files=("gan_bins-cifar-10", "gan_bins-fashion-mnist"),
    run=f"{H200}, 19 min",
    caption="Means of the seeds, with bars from the least to the greatest.",
)
def gan_bins(cifar: Row, fashion: Row) -> str:
    dial = [f"bins,tilt={s}" for s in TILTS]
    parts = []
    for name, r in (("CIFAR-10", cifar), ("Fashion-MNIST", fashion)):
        p, q = by_setting(r["rows"], "precision"), by_setting(r["rows"], "recall")
        order = min(rank(p, dial)) >= 0.95 and max(rank(q, dial)) <= -0.95
        parts.append(
            said(f"on {name} too" if parts else f"The tilt is a dial with every seed on {name}", order)
            + f" (precision + {points(ends(p, dial[0], dial[-1]))}, recall − {points(ends(q, dial[0], dial[-1]))})"
        )
    level = [v for s in ("0.5", "1", "2", "9") for v in cifar["recall beyond"]["truncation"][f"bins,tilt={s}"].values()]
    half = list(cifar["recall beyond"]["truncation and rejection, K = 3"]["bins,tilt=0.5,reject=3"].values())
    return (
        ", ".join(parts)
        + f". Without rejection it is level with truncation on CIFAR-10 ({points(level)} of recall at equal precision); with K = 3 on both sides, s = .5 "
        f"gains {points(half)}."
    )


@entry(
    "A GAN trained further with critics on feature maps",
    "One plain GAN for each of three seeds, trained further without (`further`) and with critics on maps of EfficientNet-Lite0 (`features`).",
    "own question",
    "extensions.gan_features",
    options="--data cifar-10 --data-dir DIR --inception FILE --work DIR --seconds 360",
    files=("gan_features-cifar-10", "gan_features-fashion-mnist", "gan_features-fashion-mnist-1880"),
    run=f"{H200}, 20 min",
    caption="Left without rejection, right with K = 2; means of the seeds.",
)
def gan_features(cifar: Row, fashion: Row, longer: Row) -> str:
    parts = []
    for name, r in (("CIFAR-10", cifar), ("Fashion-MNIST", fashion)):
        p, q, fid = (by_setting(r["rows"], s) for s in ("precision", "recall", "fid"))
        a10, j10 = by_setting(r["rows"], "linear", "alpha(10)"), by_setting(r["rows"], "auto", "alpha(10)")
        gain = differences(p, "features", "further"), differences(q, "features", "further")
        parts.append(
            said(
                f"On {name} too" if parts else f"On {name}, `features` has more of both than `further` with every seed",
                min(gain[0] + gain[1]) > 0,
            )
            + f" (by {points(gain[0])} and {points(gain[1])}; FID {pm(fid['further'], 1)} to {pm(fid['features'], 1)}), and closes "
            f"{gap_closed(a10, 'features')} of the gap at λ = 10 by `linear`, {gap_closed(j10, 'features')} by `auto`"
        )
    one = by_setting(longer["rows"], "fid")["features"][0]
    return ". ".join(parts) + f". Longer, one seed on Fashion-MNIST reaches FID {one:.1f}."


@entry(
    "Central rejection of these GANs, in eight strengths",
    "The dial is the strength c of central rejection, K = 2, from −1 to 3.",
    "own question",
    "extensions.gan_features",
    options="--central --data cifar-10 --data-dir DIR --inception FILE --work DIR --seconds 260",
    files=("gan_features-cifar-10-central", "gan_features-fashion-mnist-central"),
    run=f"{H200}, 15 min",
    caption="Dials by central rejection of three networks; the base of seed 0 on CIFAR-10 had collapsed.",
)
def gan_central(cifar: Row, fashion: Row) -> str:
    parts = []
    for name, r in (("CIFAR-10", cifar), ("Fashion-MNIST", fashion)):
        p, q = by_setting(r["rows"], "precision"), by_setting(r["rows"], "recall")
        dial = [f"features,reject=2{c}" for c in STRENGTHS]
        parts.append(
            said(
                f"on {name} too" if parts else f"Both scores of `features` are in order with every seed on {name}",
                every_seed(p, dial) and every_seed(q, dial, falling=True),
            )
            + f" (precision + {points(ends(p, dial[0], dial[-1]))}, recall − {points(ends(q, dial[0], dial[-1]))})"
        )
    collapsed = by_setting(cifar["rows"], "recall")["base"][0]
    return (
        ", ".join(parts)
        + ". "
        + said("The base of seed 0 on CIFAR-10 had collapsed", collapsed < 0.01)
        + f" (recall {num(collapsed)})."
    )


@entry(
    "A small language model on real text, three seeds",
    "GPTs of 13.8 M parameters on 20 Newsgroups, in MiniLM features, compared with the line of the temperature.",
    "own question",
    "extensions.text_dial",
    options="--archive 20_newsgroups.tar.xz --minilm DIR --work DIR",
    run=f"{H200}, 8 min",
    caption="20 Newsgroups: means of the seeds, with bars from the least to the greatest.",
)
def text_dial(r: Row) -> str:
    b = r["beyond"]
    reject, cells = b["recall at equal precision"]["base,T=1,reject=2"], b["precision at equal recall"]["cells,T=0.7"]
    b01 = by_setting(r["rows"], "linear", "beta(0.1)")
    tuned = [f"{kind}-{lam},T={t}" for kind in ("target", "ascent") for lam in ("10", "0.1") for t in ("0.8", "1")]
    level = all(
        abs(table[s]["mean"]) <= table[s]["half_width"]
        for table in (b["recall at equal precision"], b["recall at equal log_likelihood"])
        for s in tuned
    )
    return (
        said("Rejection lies outside the line", reject["mean"] > reject["half_width"])
        + f": with K = 2 at T = 1, recall is {100 * reject['mean']:.1f} ± {100 * reject['half_width']:.1f} points higher at equal precision. "
        + said("Cells of sentence features as a control token lie outside it", cells["mean"] > cells["half_width"])
        + f": at T = .7, precision is {100 * cells['mean']:.1f} ± {100 * cells['half_width']:.1f} points higher at equal recall. "
        + said("Fine-tuning on targets and capped ascent stay on the line", level)
        + "; "
        + said("ascent at λ = .1 lowers β(.1) with every seed", max(differences(b01, "ascent-0.1,T=1", "base,T=1")) < 0)
        + f" ({nums(b01['base,T=1'])} to {nums(b01['ascent-0.1,T=1'])}, `linear`)."
    )


@entry(
    "Steps per second",
    "Recipes of `precall tune`.",
    "own question",
    "benchmarks.tune",
    files=("tune_h200", "tune"),
    run="H200, and two threads of aarch64",
)
def steps_per_second(h200: Row, cpu: Row) -> str:
    rates = {(row["data"], row["model"]): row["steps/s"] for row in h200["recipes"]}
    shown = (
        ("8-gaussians", "realnvp"),
        ("digits", "mlp"),
        ("fashion-mnist", "conv"),
        ("cifar-10", "biggan"),
    )
    listed = ", ".join(f"{data} {model} {rates[data, model]:.0f}" for data, model in shown)
    costs = [row[f"{kind} / f-GAN"] for row in cpu["cost"] for kind in ("PR", "OBRS")]
    return (
        f"On the H200: {listed}. On the CPU, "
        + said("a step at λ or with rejection costs less than 1 % more than an f-GAN step", max(costs) < 1.01)
        + f" (at most {100 * (max(costs) - 1):.1f} %)."
    )


ENTRIES = list(globals().values())
