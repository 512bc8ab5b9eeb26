"""Density ratios to sample by: `x → log p(x)/q(x)`, from whatever tells real from fake, and how far to trust them.

Samplers need the ratio up to a constant only, but they need its order and its spread right: an over-confident
discriminator keeps the few draws it likes best. So a ratio is calibrated on held-out samples before it is used, and its
`reliability` is looked at. The mathematics is in docs/theory.md, Classifiers and Rejection.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from precall.theory import checks
from precall.theory.arrays import is_tensor
from precall.theory.checks import Array
from precall.theory.divergences import Divergence, divergence
from precall.theory.hull import score_blocks

Map = Callable[[Any], Any]

METHODS = ("mean", "temperature", "isotonic")
THIN = 0.01  # an effective sample size below this share of the samples is worth a warning
FEW = 10  # and so is half of the mass on this many samples
ENOUGH = 1000  # with fewer samples than this, a few of them always carry much of the mass
FEWEST = 100  # samples of each kind to learn a ratio from


class RatioWarning(UserWarning):
    """The largest ratios rest on few samples."""


@dataclass(frozen=True, eq=False)
class Ratio:
    """A log-ratio `x → log p(x)/q(x)`, real over fake, of samples of any shape.

    Called on an array of n samples it returns an array of n numbers in [−∞, ∞]; on a tensor, a tensor, through which
    gradients flow if `score` and `calibration` let them.

    Attributes:
        score: what was learnt: n samples to n numbers that grow with realness. Samplers that follow a gradient take
            this one, since a step-wise calibration has none.
        calibration: turns scores into log-ratios; None where they are that already.

    Example:
        >>> ratio = Ratio.from_densities(log_p=lambda x: -(x**2) / 2, log_q=lambda x: -((x - 1) ** 2) / 2)
        >>> ratio(np.array([0.0, 1.0])).tolist()
        [0.5, -0.5]
    """

    score: Map
    calibration: Map | None = None

    def __call__(self, x: Any) -> Any:
        """Log-ratios of the samples `x`, shape (n,)."""
        score = _column("ratio", self.score(x), len(x))
        return score if self.calibration is None else self.calibration(score)

    @classmethod
    def from_discriminator(
        cls, discriminator: Map, divergence: str | Divergence = "gan", *, prior: float = 0.5
    ) -> Ratio:
        """The ratio that a discriminator's free logits w state: `log (f*)'(a(w)) + log (1 − π)/π`.

        Args:
            discriminator: samples to logits, shape (n,) or (n, 1). A torch module gets tensors on its own device,
                also where the samples are arrays.
            divergence: the row of the divergence table it was trained with; "gan" is binary cross-entropy, `r = e^w`.
            prior: share π of real samples in its training batches.

        Raises:
            ValueError: for a row whose conjugate is piecewise linear (TV, λ-PR): it carries no ratio.

        Example:
            >>> ratio = Ratio.from_discriminator(lambda x: x[:, 0], "kl", prior=0.75)
            >>> ratio(np.array([[1.0], [2.0]])).round(3).tolist()
            [-1.099, -0.099]

        References:
            docs/theory.md, Divergences; Verine (2024), eq. 6.5.
        """
        row, offset = _row(divergence), _prior_odds(prior)
        return cls(lambda x: row.log_ratio(_applied(discriminator, x)) - offset)

    @classmethod
    def from_classifier(cls, classifier: Any, *, prior: float = 0.5, encode: Map | None = None) -> Ratio:
        """The ratio of a fitted scikit-learn classifier: its decision function, else its log-odds, less those of π.

        Args:
            classifier: fitted on two labels, the larger one (True, 1) meaning real.
            prior: share π of real samples it was fitted on.
            encode: samples to features, shape (n, d); without it each sample is flattened.

        Example:
            >>> from sklearn.linear_model import LogisticRegression
            >>> rng = np.random.default_rng(0)
            >>> x = np.concatenate([rng.normal(1, 1, (2000, 1)), rng.normal(0, 1, (2000, 1))])
            >>> ratio = Ratio.from_classifier(LogisticRegression().fit(x, np.arange(4000) < 2000))
            >>> bool(np.abs(ratio(np.array([[0.5], [2.5]])) - [0.0, 2.0]).max() < 0.3)  # log p/q = x − 1/2
            True
        """
        if len(getattr(classifier, "classes_", ())) != 2:
            raise ValueError("`classifier` must be fitted on two classes, fake and real; got one that is not.")
        offset = _prior_odds(prior)

        def score(x: Any) -> Array:
            features = _flat(x if encode is None else encode(x))
            if hasattr(classifier, "decision_function"):
                return np.asarray(classifier.decision_function(features)) - offset
            with np.errstate(divide="ignore"):
                fake, real = np.log(classifier.predict_proba(features)).T
            return np.asarray(real - fake - offset)

        return cls(score)

    @classmethod
    def from_densities(cls, *, log_p: Map, log_q: Map) -> Ratio:
        """The exact ratio `log p − log q` of two known log-densities; NaN where neither law has mass."""

        def score(x: Any) -> Any:
            with np.errstate(invalid="ignore"):
                return log_p(x) - log_q(x)

        return cls(score)

    @classmethod
    def from_scores(cls, score: Map, *, real: Any, fake: Any) -> Ratio:
        """Any score that grows with realness, made a ratio by its isotonic blocks on held-out samples.

        Args:
            score: samples to numbers, shape (n,) or (n, 1), on any scale.
            real: held-out real samples.
            fake: held-out fake samples.
        """
        return cls(score).calibrated(real=real, fake=fake, method="isotonic")

    @classmethod
    def fitted(cls, *, real: Any, fake: Any, classifier: Any = None, encode: Map | None = None, seed: int = 0) -> Ratio:
        """A ratio for a model that came without one: a classifier of one half of the samples, calibrated on the other.

        Args:
            real: real samples.
            fake: draws of the model.
            classifier: an unfitted scikit-learn classifier; gradient-boosted trees when None.
            encode: samples to features; without it each sample is flattened.
            seed: seeds the halves (and the trees).

        Example:
            >>> rng = np.random.default_rng(0)
            >>> ratio = Ratio.fitted(real=rng.normal(1, 1, (4000, 1)), fake=rng.normal(0, 1, (4000, 1)))
            >>> bool(ratio(np.array([[-1.0]]))[0] < 0 < ratio(np.array([[2.0]]))[0])
            True
        """
        from sklearn.base import clone
        from sklearn.ensemble import HistGradientBoostingClassifier

        model = clone(classifier) if classifier else HistGradientBoostingClassifier(random_state=seed)
        rng = np.random.default_rng(seed)
        (real, real_held), (fake, fake_held) = (_halves(name, x, rng) for name, x in (("real", real), ("fake", fake)))
        features = [_flat(x if encode is None else encode(x)) for x in (real, fake)]
        labels = np.arange(len(real) + len(fake)) < len(real)
        model.fit(np.concatenate(features), labels)
        ratio = cls.from_classifier(model, prior=float(labels.mean()), encode=encode)
        return ratio.calibrated(real=real_held, fake=fake_held)

    def calibrated(self, *, fake: Any, real: Any = None, method: str = "isotonic") -> Ratio:
        """This ratio, corrected on held-out samples that it was not trained on.

        - "mean" takes `log E_Q[r]` off: the ratio then has mean one under the model, as p/q has. It reads `fake` only.
        - "temperature" fits a scale and a shift, `a · log r + b` with a ≥ 0, by logistic regression.
        - "isotonic" takes each block of the score's error hull for its ratio `p_b/q_b` (half a sample of each kind
          added, so that it is finite): any monotone distortion is undone, and the order of the draws is kept.

        Warns (`RatioWarning`) where the largest ratios rest on few samples.

        Args:
            fake: held-out draws of the model.
            real: held-out real samples.
            method: one of the three.

        Example:
            >>> overconfident = Ratio(lambda x: 3 * (x[:, 0] - 0.5))  # the truth is x − 1/2
            >>> rng = np.random.default_rng(0)
            >>> held_out = {"real": rng.normal(1, 1, (20_000, 1)), "fake": rng.normal(0, 1, (20_000, 1))}
            >>> overconfident.calibrated(**held_out, method="temperature")(np.array([[1.5]])).round(1).tolist()
            [1.0]
            >>> overconfident.calibrated(**held_out, method="isotonic")(np.array([[1.5]])).round(1).tolist()
            [0.9]

        References:
            docs/theory.md, Classifiers; Verine (2024), section 6.2.3, for mean one.
        """
        checks.choice("method", method, METHODS)
        if method != "mean" and real is None:
            raise ValueError(f"`real` must be given for the calibration {method!r}; got None. Pass held-out samples.")
        fakes = log_ratios(self, fake)
        if method == "mean":
            step: Map = Affine(1.0, -_log_mean_exp(fakes))
        else:
            step = (_temperature if method == "temperature" else _isotonic)(real=log_ratios(self, real), fake=fakes)
        warn_if_thin(step(fakes))
        before = self.calibration
        return replace(self, calibration=step if before is None else lambda score: step(before(score)))

    def reliability(self, *, real: Any, fake: Any, blocks: int = 10) -> Reliability:
        """What the ratio predicts against what is observed, in blocks of equal size by predicted ratio.

        For the true ratio `E_Q[r 1_b] = P(b)` in every block b. Warns (`RatioWarning`) where few samples rule.

        Args:
            real: held-out real samples.
            fake: held-out fake samples.
            blocks: how many; fewer come back where ratios are tied.

        Example:
            >>> rng = np.random.default_rng(0)
            >>> held_out = {"real": rng.normal(1, 1, (20_000, 1)), "fake": rng.normal(0, 1, (20_000, 1))}
            >>> good = Ratio(lambda x: x[:, 0] - 0.5).reliability(**held_out)
            >>> bad = Ratio(lambda x: 0.3 * (x[:, 0] - 0.5)).reliability(**held_out)
            >>> good.error < 0.02, bad.error > 0.2
            (True, True)
        """
        reals, fakes = log_ratios(self, real), log_ratios(self, fake)
        warn_if_thin(fakes)
        share = np.linspace(0, 1, checks.count("blocks", blocks) + 1)[:-1]
        edges = np.unique(np.quantile(np.concatenate([reals, fakes]), share, method="lower"))
        real_block, fake_block = (np.searchsorted(edges, side, side="right") - 1 for side in (reals, fakes))
        count = edges.size
        with np.errstate(over="ignore"):
            predicted = np.bincount(fake_block, weights=np.exp(fakes), minlength=count) / fakes.size
        return Reliability(
            edges=edges,
            predicted=predicted,
            observed=np.bincount(real_block, minlength=count) / reals.size,
            fake=np.bincount(fake_block, minlength=count) / fakes.size,
            effective_sample_size=effective_sample_size(fakes),
            n_real=reals.size,
            n_fake=fakes.size,
        )


@dataclass(frozen=True, eq=False)
class Reliability:
    """Predicted against observed real mass of blocks of samples with similar ratios.

    Attributes:
        edges: least log-ratio of each block, shape (m,), increasing.
        predicted: real mass of each block as the ratio states it from fake samples alone, `E_Q[r 1_b]`.
        observed: share of the real samples in each block.
        fake: share of the fake samples in each block.
        effective_sample_size: `(Σ r)²/Σ r²` over the fake samples: how many of them the ratio really uses.
        n_real: number of real samples.
        n_fake: number of fake samples.
    """

    edges: Array
    predicted: Array
    observed: Array
    fake: Array
    effective_sample_size: float
    n_real: int
    n_fake: int

    @property
    def error(self) -> float:
        """`½ Σ_b |predicted − observed|`: 0 for the true ratio, up to sampling."""
        return float(np.abs(self.predicted - self.observed).sum() / 2)

    def to_dict(self) -> dict[str, Any]:
        """The table, column by column."""
        columns = {name: getattr(self, name).tolist() for name in ("edges", "predicted", "observed", "fake")}
        sizes = {"n_real": self.n_real, "n_fake": self.n_fake}
        return {**columns, **sizes, "effective_sample_size": self.effective_sample_size, "error": self.error}

    def plot(self) -> Any:
        """Observed over predicted ratio of each block, on logarithmic axes; points on the diagonal are right."""
        from matplotlib.figure import Figure

        seen = (self.fake > 0) & (self.observed > 0) & (self.predicted > 0)
        x, y = self.predicted[seen] / self.fake[seen], self.observed[seen] / self.fake[seen]
        figure = Figure(figsize=(4.5, 4.5), layout="constrained")
        axes = figure.subplots()
        ends = [min(x.min(), y.min()), max(x.max(), y.max())]
        axes.plot(ends, ends, color="#7f7f7f", linewidth=1)
        axes.plot(x, y, "o-", color="#0072b2")
        axes.set(xscale="log", yscale="log", xlabel="predicted ratio p/q", ylabel="observed ratio p/q")
        axes.set_title(f"{self.n_real:,} real, {self.n_fake:,} fake; ESS {self.effective_sample_size:,.0f}", fontsize=9)
        axes.grid(alpha=0.3)
        return figure


@dataclass(frozen=True)
class Affine:
    """Calibration `scale · s + shift`."""

    scale: float
    shift: float

    def __call__(self, score: Any) -> Any:
        return self.scale * score + self.shift


@dataclass(frozen=True, eq=False)
class Steps:
    """Calibration by blocks: the log-ratio of the block a score falls in; below all edges, of the first one."""

    edges: Array
    log_ratio: Array

    def __call__(self, score: Any) -> Any:
        scores = score.detach().cpu().double().numpy() if is_tensor(score) else np.asarray(score)
        found = self.log_ratio[np.maximum(np.searchsorted(self.edges, scores, side="right") - 1, 0)]
        return sys.modules["torch"].as_tensor(found).to(score) if is_tensor(score) else found


def log_ratios(ratio: Map, x: Any) -> Array:
    """Log-ratios of the samples `x` as a checked float64 vector, without a gradient: n numbers, none NaN."""
    if "torch" in sys.modules:
        with sys.modules["torch"].no_grad():
            values = _column("ratio", ratio(x), len(x))
    else:
        values = _column("ratio", ratio(x), len(x))
    array = np.asarray(values.detach().cpu().double() if is_tensor(values) else values, dtype=np.float64)
    if wrong := int(np.isnan(array).sum()):
        raise ValueError(f"`ratio` must not return NaN; got {wrong} among {len(x)} samples.")
    return array


def effective_sample_size(log_ratio: Any) -> float:
    """`(Σ r)² / Σ r²`: how many equally weighted samples the ratios are worth, between 1 and n.

    Infinite ratios outweigh all others; they count alone.

    Example:
        >>> effective_sample_size([0.0, 0.0, 0.0, 0.0]), round(effective_sample_size([0.0, 0.0, 0.0, 9.0]), 2)
        (4.0, 1.0)
    """
    weight = _weights(log_ratio)
    return float(weight.sum() ** 2 / (weight @ weight))


def warn_if_thin(log_ratio: Any) -> None:
    """Warn in one sentence where few of many samples carry the ratio's mass."""
    if np.size(log_ratio) >= ENOUGH and (thin := thinness(log_ratio)) is not None:
        warnings.warn(f"{thin} Calibrate the ratio, or lower the budget.", RatioWarning, stacklevel=3)


def thinness(log_ratio: Any, few: int = FEW) -> str | None:
    """A sentence where few of the samples carry the ratio's mass, else None.

    Args:
        log_ratio: log-ratios of draws, shape (n,).
        few: how many samples are few: half of the mass on them is worth the sentence.
    """
    weight = _weights(log_ratio)
    n, size = weight.size, float(weight.sum() ** 2 / (weight @ weight))
    top = float(np.sort(weight)[-few:].sum() / weight.sum())
    if size >= THIN * n and top <= 0.5:
        return None
    return (
        f"the largest ratios rest on few samples: the {few} largest of {n:,} carry {top:.0%} of the mass, an effective "
        f"sample size of {size:,.1f}."
    )


def _weights(log_ratio: Any) -> Array:
    """Ratios divided by the largest; where some are infinite, 1 for them and 0 for the rest."""
    values = checks.vector("log_ratio", log_ratio, infinite=True)
    top = values.max()
    return np.asarray(np.exp(values - top) if np.isfinite(top) else values == top, dtype=np.float64)


def _log_mean_exp(values: Array) -> float:
    from scipy.special import logsumexp

    mean = float(logsumexp(values)) - math.log(values.size)
    if not math.isfinite(mean):
        raise ValueError(f"`ratio` must have a finite, positive mean over `fake`; got {math.exp(mean):g}.")
    return mean


def _temperature(*, real: Array, fake: Array) -> Affine:
    """Scale and shift with the least balanced log-loss."""
    from precall.metrics.classifiers.logistic import nonnegative_logistic

    scores = checks.numbers("ratio", np.concatenate([real, fake]))
    labels = np.arange(scores.size) < real.size
    scale, shift = nonnegative_logistic(scores[:, None], labels, ridge=0.0, centre=np.array([1.0, 0.0]))
    return Affine(float(scale), float(shift))


def _isotonic(*, real: Array, fake: Array) -> Steps:
    """The log-ratio of each block of the score's error hull, with half a sample of each kind added."""
    from precall.metrics.classifiers.calibration import finite_log_ratio

    blocks = score_blocks(real=real, fake=fake)
    return Steps(blocks.edges, finite_log_ratio(blocks, n=real.size, m=fake.size))


def _row(which: str | Divergence) -> Divergence:
    """The row of the table, refused with its own sentence if it carries no ratio."""
    row = divergence(which)
    row.log_ratio(np.zeros(1))
    return row


def _prior_odds(prior: float) -> float:
    share = checks.level("prior", prior)
    return math.log(share / (1 - share))


def _applied(network: Map, x: Any) -> Any:
    """`network(x)`; a torch module gets a tensor of its own kind, and answers an array with an array."""
    torch = sys.modules.get("torch")
    if is_tensor(x) or torch is None or not isinstance(network, torch.nn.Module):
        return _column("discriminator", network(x), len(x))
    like = next(network.parameters(), torch.zeros(()))
    with torch.no_grad():
        answer = network(torch.tensor(np.asarray(x), dtype=like.dtype, device=like.device))
    return _column("discriminator", answer, len(x)).cpu().double().numpy()


def _column(name: str, values: Any, n: int) -> Any:
    """n values as a vector; (n, 1) is taken for it."""
    values = values if is_tensor(values) else np.asarray(values)
    if values.shape not in ((n,), (n, 1)):
        raise ValueError(f"`{name}` must return one number a sample, shape ({n},); got shape {tuple(values.shape)}.")
    return values.reshape(n)


def _flat(x: Any) -> npt.NDArray[Any]:
    """Samples as rows of a matrix on the CPU."""
    array = x.detach().cpu().numpy() if is_tensor(x) else np.asarray(x)
    return array.reshape(len(array), -1)


def _halves(name: str, x: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """Two random halves."""
    if len(x) < FEWEST:
        raise ValueError(f"`{name}` must hold at least {FEWEST} samples to learn a ratio from; got {len(x)}.")
    order = rng.permutation(len(x))
    return x[order[: len(x) // 2]], x[order[len(x) // 2 :]]
