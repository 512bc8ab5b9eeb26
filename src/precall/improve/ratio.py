"""Density ratios `x → log p(x)/q(x)` for sampling, from discriminators, classifiers or densities, with diagnostics.

Samplers need the ratio only up to a constant, but its order and its spread must be right: with an overconfident
discriminator, a sampler keeps only a few favourite draws. A ratio should therefore be calibrated on held-out samples
before it is used. The mathematics is in docs/theory.md, Classifiers and Rejection.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from precall.improve.calibration import isotonic, warn_if_concentrated
from precall.improve.interfaces import LogRatio, Samples
from precall.lazy import torch
from precall.networks import evaluating, is_network
from precall.theory import checks
from precall.theory.arrays import Array, is_tensor, to_numpy
from precall.theory.divergences import Divergence, divergence as table_row

FEWEST = 100  # minimum number of samples of each kind to fit a ratio


class BinaryClassifier(Protocol):
    """A scikit-learn classifier."""

    def fit(self, X: npt.NDArray[Any], y: npt.NDArray[np.bool_], /) -> object:
        """Fit to features (n, d) and labels (n,)."""

    def predict_proba(self, X: npt.NDArray[Any], /) -> Array:
        """Probabilities of the classes, shape (n, 2)."""


@dataclass(frozen=True, eq=False)
class Ratio:
    """A log-ratio `x → log p(x)/q(x)`, real over fake, for samples of any shape.

    Called on an array of n samples, it returns an array of n numbers in [−∞, ∞]. Called on a tensor, it returns a
    tensor; gradients flow through it if `score` and `calibration` are differentiable.

    Attributes:
        score: the learned function from n samples to n numbers that increase with realism. Methods that follow a
            gradient use it without the calibration, which may be piecewise constant.
        calibration: map from scores to log-ratios; None if the scores are log-ratios.

    Example:
        >>> ratio = Ratio.from_densities(log_p=lambda x: -(x**2) / 2, log_q=lambda x: -((x - 1) ** 2) / 2)
        >>> ratio(np.array([0.0, 1.0])).tolist()
        [0.5, -0.5]
    """

    score: LogRatio
    calibration: Callable[[Samples], Samples] | None = None

    def __call__(self, x: Samples) -> Samples:
        """Log-ratios of the samples `x`, shape (n,)."""
        with evaluating(self.score):
            score = _column("ratio", self.score(x), len(x))
        return score if self.calibration is None else self.calibration(score)

    @classmethod
    def from_discriminator(
        cls, discriminator: LogRatio, divergence: str | Divergence = "gan", *, prior: float = 0.5
    ) -> Ratio:
        """The ratio of a discriminator with logits w, `log (f*)'(a(w)) + log (1 − π)/π`.

        Args:
            discriminator: maps samples to logits, shape (n,) or (n, 1). If it is a torch module, arrays are converted
                to tensors on its device, and it is evaluated in evaluation mode.
            divergence: row of the divergence table with which it was trained; "gan" is binary cross-entropy, `r = e^w`.
                A row whose conjugate is piecewise linear (TV, λ-PR) carries no ratio and is refused.
            prior: share π of real samples in its training batches.

        Example:
            >>> ratio = Ratio.from_discriminator(lambda x: x[:, 0], "kl", prior=0.75)
            >>> ratio(np.array([[1.0], [2.0]])).round(3).tolist()
            [-1.099, -0.099]

        References:
            docs/theory.md, Divergences; Verine (2024), eq. 6.5.
        """
        row, offset = table_row(divergence), _prior_odds(prior)
        row.log_ratio(np.zeros(1))  # raises the row's own error if it carries no ratio
        return cls(lambda x: row.log_ratio(_applied(discriminator, x)) - offset)  # type: ignore[type-var]

    @classmethod
    def from_classifier(
        cls, classifier: BinaryClassifier, *, prior: float = 0.5, encode: Callable[[Any], Samples] | None = None
    ) -> Ratio:
        """The ratio of a fitted scikit-learn classifier: its decision function or log-odds, minus the log-odds of π.

        Args:
            classifier: a classifier fitted on two labels, the larger of which (True, 1) means real.
            prior: share π of real samples in the data it was fitted on.
            encode: maps samples to features, shape (n, d). If None, each sample is flattened.
        """
        if len(getattr(classifier, "classes_", ())) != 2:
            raise ValueError(
                "`classifier` must be fitted on two classes, fake and real; it is not. Call its `fit` first, or use "
                "`Ratio.fitted`."
            )
        offset, decision = _prior_odds(prior), getattr(classifier, "decision_function", None)

        def score(x: Samples) -> Array:
            features = _encoded(x, encode)
            if decision is not None:
                return np.asarray(decision(features)) - offset
            with np.errstate(divide="ignore"):
                fake, real = np.log(classifier.predict_proba(features)).T
            return np.asarray(real - fake - offset)

        return cls(score)

    @classmethod
    def from_densities(cls, *, log_p: LogRatio, log_q: LogRatio) -> Ratio:
        """The exact ratio `log p − log q` of two known log-densities; NaN where both densities are 0."""

        def score(x: Samples) -> Samples:
            with np.errstate(invalid="ignore"), evaluating(log_p, log_q):
                return log_p(x) - log_q(x)

        return cls(score)

    @classmethod
    def fitted(
        cls,
        *,
        real: Samples,
        fake: Samples,
        classifier: BinaryClassifier | Literal["auto"] = "auto",
        encode: Callable[[Any], Samples] | None = None,
        seed: int = 0,
    ) -> Ratio:
        """Fit a ratio to samples.

        "auto" estimates held-out ratios with the panel that `select` uses, and trains a small network to follow them.
        The network is fast, and can be saved. Any other classifier is trained on one half of the samples and calibrated
        on the other half.

        Args:
            real: real samples.
            fake: draws of the model.
            classifier: "auto", or an unfitted scikit-learn classifier.
            encode: maps samples to features. If None, each sample is flattened.
            seed: seed of folds, halves and classifiers.

        Example:
            >>> rng = np.random.default_rng(0)
            >>> ratio = Ratio.fitted(real=rng.normal(1, 1, (400, 1)), fake=rng.normal(0, 1, (400, 1)))
            >>> bool(ratio(np.array([[-1.0]]))[0] < 0 < ratio(np.array([[2.0]]))[0])
            True
        """
        for name, x in (("real", real), ("fake", fake)):
            if len(x) < FEWEST:
                raise ValueError(f"`{name}` must hold at least {FEWEST} samples to learn a ratio from; got {len(x)}.")
        if isinstance(classifier, str):
            checks.choice("classifier", classifier, ("auto",))
            return cls._distilled(real, fake, encode, seed)
        from sklearn.base import clone

        model: BinaryClassifier = clone(classifier)
        rng = np.random.default_rng(seed)
        (real, real_held), (fake, fake_held) = _halves(real, rng), _halves(fake, rng)
        features = [_encoded(x, encode) for x in (real, fake)]
        labels = np.arange(len(real) + len(fake)) < len(real)
        model.fit(np.concatenate(features), labels)
        ratio = cls.from_classifier(model, prior=float(labels.mean()), encode=encode)
        return ratio.calibrated(real=real_held, fake=fake_held)

    @classmethod
    def _distilled(cls, real: Samples, fake: Samples, encode: Callable[[Any], Samples] | None, seed: int) -> Ratio:
        """The network that follows the panel."""
        from precall.improve.distillation import NetworkScore, distilled
        from precall.metrics.classifiers.estimators import classify

        sides = {"real": _encoded(real, encode), "fake": _encoded(fake, encode)}
        found = classify("auto", real=sides["real"], fake=sides["fake"], seed=seed)
        network = distilled(**sides, log_real=found.log_ratio_real, log_fake=found.log_ratio_fake, seed=seed)
        return cls(NetworkScore(network, encode))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a ratio of `Ratio.fitted(classifier="auto")` without `encode` to a file of arrays, without code."""
        from precall.improve.distillation import NetworkScore, save_network

        if not isinstance(self.score, NetworkScore) or self.score.encode is not None or self.calibration is not None:
            raise ValueError('only a ratio of `Ratio.fitted(classifier="auto")` without `encode` can be saved.')
        save_network(self.score.network, Path(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Ratio:
        """The ratio of a file that `save` wrote; any other file is refused."""
        from precall.improve.distillation import NetworkScore, load_network

        return cls(NetworkScore(load_network(Path(path))))

    def calibrated(self, *, fake: Samples, real: Samples) -> Ratio:
        """This ratio, or any score that increases with realism, calibrated on samples that did not train it.

        Each block of the score's error hull is assigned its ratio `p_b/q_b`, with half a sample of each kind added to
        keep it finite. This corrects any monotone distortion and keeps the order of the draws. Warns (`RatioWarning`)
        if the largest ratios rest on few samples.

        Example:
            >>> overconfident = Ratio(lambda x: 3 * (x[:, 0] - 0.5))  # the truth is x − 1/2
            >>> rng = np.random.default_rng(0)
            >>> held_out = {"real": rng.normal(1, 1, (20_000, 1)), "fake": rng.normal(0, 1, (20_000, 1))}
            >>> overconfident.calibrated(**held_out)(np.array([[1.5]])).round(1).tolist()
            [0.9]

        References:
            docs/theory.md, Classifiers.
        """
        fakes, before = log_ratios(self, fake), self.calibration
        step = isotonic(real=log_ratios(self, real), fake=fakes)
        warn_if_concentrated(np.asarray(step(fakes)))
        return replace(self, calibration=step if before is None else lambda score: step(before(score)))


def log_ratios(ratio: LogRatio, x: Samples) -> Array:
    """Log-ratios of the samples `x` as a validated float64 vector without gradient: n numbers, none of them NaN."""
    without_gradient = torch.no_grad() if "torch" in sys.modules else nullcontext()
    with without_gradient, evaluating(ratio):
        values = _column("ratio", ratio(x), len(x))
    array = np.asarray(values.detach().cpu().double() if is_tensor(values) else values, dtype=np.float64)
    if wrong := int(np.isnan(array).sum()):
        raise ValueError(f"`ratio` must not return NaN; got {wrong} among {len(x)} samples.")
    return array


def _prior_odds(prior: float) -> float:
    share = checks.level("prior", prior)
    return math.log(share / (1 - share))


def _applied(network: LogRatio, x: Samples) -> Samples:
    """`network(x)`. A torch module gets a tensor of its own dtype and device, and returns an array for an array."""
    if is_tensor(x) or not is_network(network):
        with evaluating(network):
            return _column("discriminator", network(x), len(x))
    like = next(network.parameters(), torch.zeros(()))
    with torch.no_grad(), evaluating(network):
        answer = network(torch.tensor(np.asarray(x), dtype=like.dtype, device=like.device))
    return to_numpy(_column("discriminator", answer.cpu().double(), len(x)))


def _column(name: str, values: Samples, n: int) -> Samples:
    """n values of shape (n,) or (n, 1) as a vector."""
    values = values if is_tensor(values) else np.asarray(values)
    if tuple(values.shape) not in ((n,), (n, 1)):
        raise ValueError(f"`{name}` must return one number per sample, shape ({n},); got shape {tuple(values.shape)}.")
    return values.reshape((n,))


def _encoded(x: Samples, encode: Callable[[Any], Samples] | None) -> npt.NDArray[Any]:
    """The features of samples, or the flattened samples if there is no encoder, as rows of a matrix on the CPU."""
    with evaluating(encode):
        found = x if encode is None else encode(x)
    array = to_numpy(found)
    return array.reshape(len(array), -1)


def _halves(x: Samples, rng: np.random.Generator) -> tuple[Samples, Samples]:
    order = rng.permutation(len(x))
    return x[order[: len(x) // 2]], x[order[len(x) // 2 :]]
