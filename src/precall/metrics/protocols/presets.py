"""Protocols of published evaluations by name: every choice that changes a number, in one place.

Results carry the name of their preset, and every way in which a run departs from it. Parity with the arithmetic of the
original evaluators is tested in tests/metrics/test_presets.py and tests/peers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from precall.encoders.hub import has_weights
from precall.theory import checks

NONE = "none"
UNIT_PCA = "rows of length 1, then the principal axes of both sets that hold 90 % of the variance"
EXACT = "float32 features, float64 comparisons and sums"


@dataclass(frozen=True)
class Preset:
    """The protocol of a published evaluation."""

    name: str  # its name in `preset=` and `--preset`
    source: str  # the evaluator or paper that defines it
    encoder: str  # the encoder of samples that are not features
    metrics: tuple[str, ...]  # the metrics that are computed
    scores: tuple[str, ...]  # the scores that are reported
    n_real: int | None = None  # customary number of real samples, or None for all there are
    n_fake: int | None = None  # customary number of fake samples, or None for all there are
    k: int = 5  # number of neighbours that define a ball
    ties: str = "closed"  # "closed" (d ≤ radius) or "open" (d < radius)
    clusters: str = NONE  # number of k-means cells, in words; "none" if there is no clustering
    runs: int = 0  # number of k-means runs whose curves are averaged; 0 if there is no clustering
    normalisation: str = NONE  # what is done to the features before they are compared
    dtype: str = EXACT  # precision of features and of the arithmetic
    part: int | None = None  # number of samples per part of the Inception Score; None for all in one part
    stored: bool = False  # whether statistics beside the samples of a `.npz` are used for Fréchet distances
    balanced: bool = False  # whether both sets must have the same number of samples
    remark: str = ""  # what differs from the original, or needs attention; empty if nothing
    fallbacks: tuple[str, ...] = ()  # encoders in its place, in order, where its weights are missing; a departure

    @property
    def default_encoder(self) -> str:
        """The first of `encoder` and `fallbacks` that needs no download, or the last of them."""
        *first, last = (self.encoder, *self.fallbacks)
        return next(filter(has_weights, first), last)

    def to_dict(self) -> dict[str, Any]:
        """All choices as JSON-ready values."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    def departures(self, *, encoder: str | None, n_real: int | None, n_fake: int | None) -> list[str]:
        """In which ways a run departs from the protocol, as sentences without a full stop.

        Example:
            >>> PRESETS["prdc"].departures(encoder="vgg16", n_real=10_000, n_fake=900)
            ['900 fake samples instead of 10000']
        """
        used = "given features" if encoder in (None, "identity") else f"the encoder {encoder}"
        found = [] if encoder == self.encoder else [f"{used} instead of the encoder {self.encoder}"]
        counts = (("real", n_real, self.n_real), ("fake", n_fake, self.n_fake))
        found += [f"{n} {side} samples instead of {usual}" for side, n, usual in counts if usual not in (None, n)]
        if self.balanced and n_real != n_fake:
            found.append(f"unequal numbers of samples, {n_real} and {n_fake}; the original requires equal numbers")
        return found


BALLS = ("precision", "recall", "density", "coverage")
PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            "fid",
            "Heusel et al. (2017); pytorch-fid, torch-fidelity, clean-fid",
            "inception",
            n_fake=50_000,
            metrics=("fid",),
            scores=("fid",),
            stored=True,
            remark="k is not used; resizing is that of the network, as in torch-fidelity",
        ),
        Preset(
            "adm",
            "Dhariwal and Nichol (2021), evaluator of guided-diffusion",
            "inception-adm",
            n_fake=50_000,
            k=3,
            metrics=("neighbors", "fid", "sfid", "is"),
            scores=("inception_score", "fid", "sfid", "precision", "recall"),
            part=5000,
            stored=True,
            remark="the original compares distances in float16 where they are finite",
        ),
        Preset(
            "stylegan",
            "Karras et al. (2020), pr50k3_full of stylegan2-ada; Kynkäänniemi et al. (2019)",
            "vgg16",
            n_fake=50_000,
            k=3,
            metrics=("neighbors",),
            scores=("precision", "recall"),
            remark="the original uses at most 200,000 real samples and rounds features and radii to float16",
        ),
        Preset(
            "dgm-eval",
            "Stein et al. (2023), dgm-eval",
            "dinov2",
            n_real=50_000,
            n_fake=50_000,
            ties="open",
            metrics=("neighbors", "fid"),
            scores=("fid", *BALLS),
            remark="the original computes the k-NN scores on 10,000 random samples of each set",
        ),
        Preset(
            "prdc",
            "Naeem et al. (2020), package prdc",
            "vgg16",
            n_real=10_000,
            n_fake=10_000,
            ties="open",
            metrics=("neighbors",),
            scores=BALLS,
        ),
        Preset(
            "prd",
            "Sajjadi et al. (2018), precision-recall-distributions",
            "inception",
            metrics=("clusters",),
            scores=("f8", "f1_8", "area", "tv", "invented", "missed"),
            clusters="20",
            runs=10,
            balanced=True,
            remark="k is not used; the original reads the curve at 1001 angles, and here it is exact",
        ),
        Preset(
            "mauve",
            "Pillutla et al. (2021), package mauve-text",
            "gpt2-large",
            n_real=5000,
            n_fake=5000,
            metrics=("mauve",),
            scores=("mauve",),
            clusters="a tenth of the samples of the smaller set",
            runs=1,
            normalisation=UNIT_PCA,
            remark="k is not used; features of GPT-2 large can also be given as arrays",
            fallbacks=("minilm",),
        ),
        Preset(
            "llm",
            "Le Bronnec et al. (2024), with strict balls",
            "gpt2-large",
            ties="open",
            metrics=("auto", "neighbors", "copies", "mauve", "c2st"),
            scores=(*BALLS, "copies", "mauve", "area", "tv", "invented", "missed", "f8", "f1_8", "c2st"),
            clusters="a tenth of the samples of the smaller set",
            runs=1,
            normalisation=UNIT_PCA,
            remark="without weights, words sees topics and spelling; minilm and gpt2-large see meaning",
            fallbacks=("minilm", "words"),
        ),
    )
}


def preset_named(
    name: str, *, metrics: Iterable[str] | None = None, k: int | None = None, ties: str | None = None
) -> Preset:
    """The preset of this name, after checking that no other choice than a default is made beside it."""
    found = PRESETS[checks.choice("preset", name, PRESETS)]
    given = (("metrics", metrics and tuple(metrics), None), ("k", k, 5), ("ties", ties, "closed"))
    for what, value, default in given:
        if value not in (None, default, getattr(found, what)):
            raise ValueError(f"the preset {name!r} chooses `{what}`; got {value!r} as well. Leave out one of the two.")
    return found
