"""Which networks draw, and which images each is fine-tuned on: by their density ratio, or by how central they are."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from experiments.common.edm import Knobs, Labels
from precall.theory.arrays import Array

Rows = npt.NDArray[np.int64]

SPARE = 1.05  # more draws than rejection needs on average


@dataclass(frozen=True)
class Setting:
    """Which networks draw, and how; written as `main [guide:weight] [free:weight] [low:σ] [high:σ] [reject:K]`.

    `rejection-K` is short for `base reject:K`.

    Attributes:
        name: the setting as it is written.
        main: the network that draws.
        guide: the network that guides it; the same one if there is none.
        knobs: the weights.
        reject: draws per image that is kept.

    Example:
        >>> Setting.of("base weak:2 free:1.5").guide
        'weak'
    """

    name: str
    main: str
    guide: str
    knobs: Knobs
    reject: float = 1.0

    @classmethod
    def of(cls, name: str) -> Setting:
        main, *words = re.sub("^rejection-", "base reject:", name).split()
        values = {word: float(value) for word, value in (part.split(":") for part in words)}
        reject = values.pop("reject", 1.0)
        plain = {word: values.pop(word) for word in ("free", "low", "high") if word in values}
        [(guide, auto)] = values.items() or [(main, 1.0)]
        return cls(name, main, guide, Knobs(auto=auto, **plain), reject)

    @property
    def source(self) -> str:
        """The same setting without rejection."""
        return "base" if self.name.startswith("rejection-") else re.sub(" reject:[^ ]*", "", self.name)

    @property
    def kind(self) -> str:
        """The kind of the network that draws, or `real`."""
        return self.main.partition("-")[0]

    @property
    def value(self) -> float:
        """The number after the kind: a share."""
        return float(self.main.partition("-")[2])

    @property
    def networks(self) -> tuple[str, ...]:
        """The networks that must be trained."""
        if self.kind == "real":
            return ()
        return (self.main,) if self.guide == self.main else (self.main, self.guide)


def fine_tuning_rows(name: str, *, log_real: Array, log_fake: Array, central: Array, labels: Labels, n: int) -> Rows:
    """n rows of [data; draws] to train the network of this name on.

    Args:
        name: `further`, `surplus-λ`, `central-s`, `missed-λ` or `common-λ`.
        log_real: log-ratios of the data.
        log_fake: log-ratios of the draws.
        central: how central each image of the data is.
        labels: classes of the data.
        n: number of rows.
    """
    kind, _, number = name.partition("-")
    value = float(number or 1)
    r = value * np.exp(log_real)  # λr
    if kind == "surplus":
        surplus = np.maximum(0, 1 - value * np.exp(log_fake))  # (q − λp)₊/q
        return len(r) + chosen(surplus, n)
    if kind == "central":
        return most_central(central, labels, value)
    if kind == "missed":
        missed = np.where(r > 1, 1 / r, 0)
        return np.concatenate([chosen(np.ones(len(r)), round(0.7 * n)), chosen(missed, n - round(0.7 * n))])
    return chosen(np.minimum(1, 1 / r), n) if kind == "common" else np.arange(len(labels))


def most_central(central: Array, labels: Labels, share: float) -> Rows:
    """The most central images of each class."""
    classes = [np.flatnonzero(labels == c) for c in np.unique(labels)]
    return np.concatenate([of[np.argsort(-central[of], kind="stable")[: round(share * len(of))]] for of in classes])


def chosen(weights: Array, n: int) -> Rows:
    """n indices, drawn in proportion to weights, or uniformly if all weights are 0."""
    weights = weights + 1e-12
    return np.random.default_rng(0).choice(len(weights), n, p=weights / weights.sum())
