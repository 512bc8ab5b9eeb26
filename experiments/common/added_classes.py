"""Classes added and dropped one by one: P has the first classes, Q the first i, and the common share is known.

Where classes overlap in the features, the known share is not the value of the curve. `oracle` is therefore a second
truth, from labels that no estimator sees: class posteriors π of a cross-fitted logistic regression on all features
give the densities of P and Q up to a common factor, Σ π_c(x) over the classes of each, and so the curve.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.common.summaries import Row
from precall import assess
from precall.metrics import inception_score
from precall.theory.arrays import Array
from precall.theory.spectrum import RatioSpectrum

AXES, STRENGTHS = 128, (0.1, 1.0)
HIGH = 10.0  # slope at which precision is α(λ) and recall β(1/λ)
READ = ("precision", "recall", "precision, least slope", "recall, least slope", "overlap")  # off a curve


@dataclass(frozen=True, eq=False)
class Labelled:
    """Features of samples, their classes, and the class probabilities of a classifier trained on other samples."""

    features: Array
    labels: np.ndarray
    probabilities: Array | None = None


def posteriors(of: Labelled) -> Array:
    """Probability of each class given the features, from a model that has not seen the sample.

    Features are reduced to at most `AXES` principal axes; the penalty is the one with the smallest held-out log-loss.
    """
    folds, found = StratifiedKFold(3, shuffle=True, random_state=0), list[Array]()
    axes = PCA(min(AXES, of.features.shape[1]), random_state=0)
    x = axes.fit_transform(StandardScaler().fit_transform(of.features))
    for strength in STRENGTHS:
        model = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=500))
        found.append(cross_val_predict(model, x, of.labels, cv=folds, method="predict_proba"))
    losses = [log_loss(of.labels, p) for p in found]
    return np.asarray(found[int(np.argmin(losses))])


def oracle(posterior: Array, real: int, fake: int) -> RatioSpectrum:
    """Curve of the first `fake` classes against the first `real`, from posteriors under balanced classes."""
    balanced = posterior / posterior.mean(axis=0)
    p, q = (balanced[:, :classes].mean(1) / len(balanced) for classes in (real, fake))
    return RatioSpectrum.from_masses(p=p, q=q)


def first(labels: np.ndarray, classes: int, n: int, rows: np.ndarray) -> np.ndarray:
    """Among these rows, the first n of the first classes, equally many of each."""
    found = [rows[labels[rows] == c][: n // classes] for c in range(classes)]
    return np.concatenate(found)


def read(spectrum: RatioSpectrum, least: float) -> Row:
    """What is compared: precision and recall at a high slope and at the slope `least`, α(1), and the curve."""
    curve = spectrum.curve(30)
    pairs = [value for lam in (HIGH, least) for value in (spectrum.alpha(lam), spectrum.beta(1 / lam))]
    return {**dict(zip(READ, (*pairs, spectrum.alpha(1.0)), strict=True)), "curve": [curve.beta, curve.alpha]}


@dataclass(frozen=True, eq=False)
class Setting:
    """Features of n samples of P and of Q, and what is known of them: their classes, and the exact curve."""

    real: Array
    fake: Array
    classes: tuple[int, int]
    exact: RatioSpectrum
    probabilities: Array | None


def setting(of: Labelled, posterior: Array, real: int, fake: int, n: int, seed: int) -> Setting:
    """Samples of Q, the first `fake` classes, and of P, the first `real`: n on each side."""
    order = np.random.default_rng(seed).permutation(len(of.labels))
    reals = first(of.labels, real, n, order)
    fakes = first(of.labels, fake, n, order[~np.isin(order, reals)])
    probabilities = None if of.probabilities is None else of.probabilities[fakes]
    exact = oracle(posterior, real, fake)
    return Setting(of.features[reals], of.features[fakes], (real, fake), exact, probabilities)


def curves(of: Setting, seed: int, metrics: tuple[str, ...]) -> Row:
    """All curves of a setting, FID and IS.

    The slope `real`, the number of classes of P, is the least at which disjoint classes give the known share even if
    Q has one class: α(λ) = min(1, λ/real).
    """
    found = assess(real=of.real, fake=of.fake, metrics=(*metrics, "fid"), seed=seed)
    real, fake = of.classes
    spectra = {"exact": of.exact} | {name: found.spectra[name] for name in metrics}
    row = {
        "classes": fake,
        "truth": {"precision": min(1.0, real / fake), "recall": min(1.0, fake / real)},
        "fid": found.scores["fid"].value,
        "curves": {name: read(one, real) for name, one in spectra.items()},
    }
    if of.probabilities is not None:
        row["is"] = inception_score(of.probabilities).value
    return row


def errors(rows: list[Row], name: str, truth: str = "") -> dict[str, float]:
    """Mean absolute errors of a curve against the known shares, or against another curve.

    `overlap` is compared with the share in common, min(i, r)/max(i, r), which is α(1) of disjoint classes.
    """
    found: dict[str, list[float]] = {key: [] for key in READ}
    for row in rows:
        known = {key: row["truth"].get(key.partition(",")[0], min(row["truth"].values())) for key in READ}
        expected = row["curves"][truth] if truth else known
        for key, values in found.items():
            values.append(abs(row["curves"][name][key] - expected[key]))
    return {key: float(np.mean(values)) for key, values in found.items()}
