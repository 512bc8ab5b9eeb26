"""Registry entries of the metrics that are computed from the k-nearest-neighbour sweep."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from precall.metrics.intervals import subsampling_intervals
from precall.metrics.metric import Card, Found, Metric, curve_found
from precall.metrics.neighbors.cover import spectra_by_chance
from precall.metrics.neighbors.successors import symmetric_scores
from precall.metrics.score import CURVE_SCORES, INFINITY, ScoreInfo, readings
from precall.theory.arrays import Index
from precall.theory.spectrum import RatioSpectrum

if TYPE_CHECKING:
    from precall.metrics.run import Run

BALL_SCORES = (
    ScoreInfo("precision", "precision", 0, 1, "higher", "share of fakes in a real ball (Kynkäänniemi)", "table"),
    ScoreInfo("recall", "recall", 0, 1, "higher", "share of reals in a fake ball (Kynkäänniemi)", "table"),
    ScoreInfo("density", "density", 0, INFINITY, "higher", "real balls around a fake, over k (Naeem)", "table"),
    ScoreInfo("coverage", "coverage", 0, 1, "higher", "share of reals with a fake in their ball (Naeem)", "table"),
    ScoreInfo("corrected_coverage", "corrected coverage", -INFINITY, 1, "higher", "coverage; 0 is chance"),
    ScoreInfo("precision_cover", "precision cover", 0, 1, "higher", "share of fakes near enough reals (Cheema)"),
    ScoreInfo("recall_cover", "recall cover", 0, 1, "higher", "share of reals near enough fakes (Cheema)"),
    ScoreInfo("realism", "realism", 0, INFINITY, "higher", "median realism of the fakes (Kynkäänniemi)"),
)
COPY_SCORES = (ScoreInfo("copies", "copies", 0, 1, "lower", "share of fakes that nearly coincide with a real sample"),)
SYMMETRIC_SCORES = (
    ScoreInfo(
        "symmetric_precision",
        "symmetric precision",
        0,
        1,
        "higher",
        "precision by balls of both sets (Khayatkhoei)",
    ),
    ScoreInfo("symmetric_recall", "symmetric recall", 0, 1, "higher", "recall by balls of both sets (Khayatkhoei)"),
)
CLIPPED_SCORES = (
    ScoreInfo("clipped_density", "clipped density", 0, 1, "higher", "density in proportion to good fakes (Salvy)"),
    ScoreInfo("clipped_coverage", "clipped coverage", 0, 1, "higher", "coverage in proportion to good fakes (Salvy)"),
)
PROBABILISTIC_SCORES = (
    ScoreInfo("p_precision", "P-precision", 0, 1, "higher", "probability that a fake is in the real support (Park)"),
    ScoreInfo("p_recall", "P-recall", 0, 1, "higher", "probability that a real is in the fake support (Park)"),
)
SWEPT = "jackknife from the sweep: the expectation at these sample sizes, not the bias"


def _found(run: Run, scores: tuple[ScoreInfo, ...]) -> Found:
    """The scores of one metric."""
    available = run.ball_scores()
    return Found({info.name: available[info.name] for info in scores if info.name in available})


def _symmetric(run: Run) -> Found:
    return Found(symmetric_scores(run.neighborhoods, run.k))


def _probabilistic(run: Run) -> Found:
    (n_real, n_fake), (of_real, of_fake) = run.sizes, run.soft_supports
    sizes = {"n_real": n_real, "n_fake": n_fake}
    return Found({"p_precision": of_real.score(**sizes), "p_recall": of_fake.score(**sizes)})


def _cover(run: Run) -> Found:
    """The curve of precision-recall cover. Counts in small balls are noisy, so the balls grow with the samples."""

    def spectrum_of(real: Index | None = None, fake: Index | None = None) -> RatioSpectrum:
        sizes = run.sizes if real is None or fake is None else (len(real), len(fake))
        return run.swept(cover_k(run.k, sizes), real, fake).cover_spectrum()

    k, spectrum = cover_k(run.k, run.sizes), spectrum_of()
    n_real, n_fake = run.sizes
    by_chance = [readings(one) for one in spectra_by_chance(n_real=n_real, n_fake=n_fake, k=k)]
    return curve_found(
        run,
        spectrum,
        intervals=subsampling_intervals(
            lambda real, fake: readings(spectrum_of(real, fake)),
            readings(spectrum),
            n_real=n_real,
            n_fake=n_fake,
            at_least=10,
            seed=run.seed,
            within={info.name: (info.low, info.high) for info in CURVE_SCORES},
        ),
        chance={info.name: float(np.mean([one[info.name] for one in by_chance])) for info in CURVE_SCORES},
        settings={"estimator": "cover", "k_prime": k, "ties": run.ties},
    )


def cover_k(k: int, sizes: tuple[int, int]) -> int:
    """k' of the curve: √n of the smaller set, or k if that is more; less than the size of the set.

    Example:
        >>> cover_k(5, (2000, 3000)), cover_k(5, (10, 10))
        (44, 5)
    """
    return min(max(k, math.isqrt(min(sizes))), min(sizes) - 1)


NEIGHBORS = Metric(
    name="neighbors",
    reads='k-nearest-neighbour balls, k = 5, closed unless `ties="open"`',
    scores=BALL_SCORES,
    interval=SWEPT,
    compute=lambda run: _found(run, BALL_SCORES),
    default=True,
    shares="sweep",
    libraries=("torch",),
    card=Card(
        measures="Whether each fake lies close to some real sample (precision, density), and whether each real sample "
        "has a fake close to it (recall, coverage). Close means within the distance to the k-th neighbour of the same "
        "set.",
        formula="\n".join(
            (
                r"\text{precision} = \tfrac1M \#\{ j : Y_j \in B(X_i) \text{ for some } i \}",
                r"\text{recall} = \tfrac1N \#\{ i : X_i \in B(Y_j) \text{ for some } j \}",
                r"\text{density} = \tfrac1{kM} \#\{ (i, j) : Y_j \in B(X_i) \}",
                r"\text{coverage} = \tfrac1N \#\{ i : Y_j \in B(X_i) \text{ for some } j \}",
            )
        ),
        symbols="$X_1 \\dots X_N$ are the reals, $Y_1 \\dots Y_M$ the fakes, and $B(x)$ is the ball around $x$ that "
        "reaches to its $k$-th nearest neighbour of the same set. The other scores are defined in the "
        "[theory](../theory.md#neighbours).",
        chance="Exactly 1 for density. For coverage and the covers it is less than 1 and follows from k, N and M "
        "alone; `corrected_coverage` is 0 there. For precision, recall and realism it is not known.",
        protocol="Encoder, k (5), closed or open balls (`ties`), and numbers of samples on both sides. k = 3 is "
        "common in papers that use stylegan's code.",
        limits="The balls say nothing about proportions: a region that the model produces ten times too often costs "
        "no precision. The values depend on the numbers of samples.",
        misleads="One outlier among the reals has a huge ball, and every fake inside it counts as precise. In many "
        "dimensions the balls of the wider set contain almost everything. Copies of the training data are perfect by "
        "all these scores.",
        papers=("Kynkäänniemi et al. (2019)", "Naeem et al. (2020)", "Cheema and Urner (2023)"),
    ),
)
SYMMETRIC = Metric(
    name="symmetric",
    reads="k-nearest-neighbour balls of both sets, and the smaller of two shares",
    scores=SYMMETRIC_SCORES,
    interval=SWEPT,
    compute=_symmetric,
    shares="sweep",
    libraries=("torch",),
    card=Card(
        measures="Precision and recall that do not depend on which of the two sets spreads further.",
        formula="\n".join(
            (
                r"\text{symmetric precision} = \min(\text{precision}, \text{precision cover with one real})",
                r"\text{symmetric recall} = \min(\text{recall}, \text{coverage})",
            )
        ),
        symbols="The scores on the right are those of [`neighbors`](neighbors.md).",
        chance="Not known: the smaller of two scores is below both.",
        protocol="Encoder, k, closed or open balls, and numbers of samples, as for [`neighbors`](neighbors.md).",
        limits="As for `neighbors`: proportions do not count.",
        misleads="A perfect model scores visibly below 1. Compare with real against real.",
        papers=("Khayatkhoei and AbdAlmageed (2023)",),
    ),
)
CLIPPED = Metric(
    name="clipped",
    reads="k-nearest-neighbour balls, with clipped radii and counts",
    scores=CLIPPED_SCORES,
    interval=SWEPT,
    compute=lambda run: Found(run.clipped_scores()),
    shares="sweep",
    libraries=("torch",),
    card=Card(
        measures="Density and coverage on a scale on which a model with a share x of bad samples scores about 1 − x.",
        formula=r"\text{clipped density} = \frac{\mathrm{mean}_j \min(c_j / k, 1)}{\mathrm{mean}_i \min(c_i / k, 1)}",
        symbols="$c$ is the number of real balls, none larger than the median ball, that contain a fake $j$ (above) "
        "or a real $i$ (below). Clipped coverage inverts its exact expectation ([theory](../theory.md#neighbours)).",
        chance="About 1 for both.",
        protocol="Encoder, k, closed or open balls, and numbers of samples, as for [`neighbors`](neighbors.md).",
        limits="Values are cut at 1, so the scores do not rank models that are better than the data are among "
        "themselves.",
        misleads="Copies of the training data score 1.",
        papers=("Salvy et al. (2026)",),
    ),
)
PROBABILISTIC = Metric(
    name="probabilistic",
    reads="soft supports: distances to the other set, relative to the mean distance to the 4th neighbour",
    scores=PROBABILISTIC_SCORES,
    interval="jackknife over the support, variance over the scored set: the expectation at these sample sizes",
    compute=_probabilistic,
    shares="sweep",
    libraries=("torch",),
    card=Card(
        measures="Precision and recall with soft supports, in which an outlier has no large ball.",
        formula=r"\text{P-precision} = \mathrm{mean}_j \left[ 1 - \prod_{i=1}^N \min\left( 1, "
        r"\frac{\lVert Y_j - X_i \rVert}{1.2\, R} \right) \right]",
        symbols="$R$ is the mean distance of the reals to their fourth nearest neighbour. P-recall exchanges the "
        "roles.",
        chance="Not known.",
        protocol="Encoder and numbers of samples. k = 4 and the factor 1.2 are those of the paper.",
        limits="All balls have the same size, so sparse regions of the data hardly count.",
        misleads="In many dimensions all distances are similar; both scores are then near 1 for every model.",
        papers=("Park and Kim (2023)",),
    ),
)
COPIES = Metric(
    name="copies",
    reads="share of fakes whose distance to a real sample is less than half that sample's distance to its nearest "
    "real neighbour",
    scores=COPY_SCORES,
    interval=SWEPT,
    compute=lambda run: _found(run, COPY_SCORES),
    default=True,
    shares="sweep",
    libraries=("torch",),
    card=Card(
        measures="How many fakes nearly coincide with a real sample. It is a first look at copying that needs no "
        "holdout.",
        formula=r"\text{copies} = \tfrac1M \#\left\{ j : \lVert Y_j - X_i \rVert < \tfrac12 \, \mathrm{rad}_1(X_i) "
        r"\text{ for some } i \right\}",
        symbols="$\\mathrm{rad}_1(X_i)$ is the distance of the real $X_i$ to its nearest other real.",
        chance="The share of reals that look like copies of another real: near 0 in many dimensions, about a quarter "
        "in the plane.",
        protocol="Encoder and numbers of samples.",
        limits="A fake can be close to a real sample because the data are dense there. With a holdout, "
        "[`memorization`](memorization.md) decides.",
        misleads="In one or two dimensions honest samples look like copies. With a coarse encoder, different images "
        "can have nearly the same features.",
        papers=(),
        figure="copies",
    ),
)
COVER = Metric(
    name="cover",
    reads="the curve from counts in k'-nearest-neighbour balls, k' = √n but at least k",
    scores=CURVE_SCORES,
    interval="disjoint subsamples: the expectation at these sample sizes, not the bias",
    compute=_cover,
    is_curve=True,
    card=Card(
        measures="The whole precision-recall curve, from how many real and fake samples lie in the ball around each "
        "sample.",
        formula=r"\alpha(\lambda) = \lim_{b \to 0} \left[ \mathrm{PC}_{b/\lambda, b} + \lambda \, "
        r"\mathrm{RC}_{\lambda b, b} \right] "
        r"- \lambda P(\lambda p = q)",
        symbols="$\\mathrm{PC}_{a,b}$ is the probability that a ball of $Q$-mass $b$ around a fake has $P$-mass at "
        "least $a$; $\\mathrm{RC}$ exchanges the roles. With samples, the balls contain the square root of n points.",
        chance="For area, F8 and F1/8 near 1, for the others near 0. At finite sample sizes precall reports the mean "
        "over draws from the exact distribution of the counts.",
        protocol="Encoder, numbers of samples, and k if it exceeds the square root of n.",
        limits="Balls average the density ratio over their extent, which raises the curve.",
        misleads="In many dimensions the balls are large, and differences of scale disappear.",
        papers=("Cheema and Urner (2023)",),
    ),
)
