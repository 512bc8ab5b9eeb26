"""Looking at every checkpoint: certificates and tests that hold for all of them together."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from precall.metrics.classifiers.estimators import classify_pair
from precall.metrics.inputs.features import Pair
from precall.theory.bands import Certificate


@dataclass(frozen=True)
class Look:
    """What one checkpoint shows."""

    number: int  # t, which look it was: 1, 2, …
    name: str  # name of the checkpoint
    p_value: float  # P-value of P = Q, corrected for all looks before and after: min(1, δ / (δ_t E))
    differs: bool  # whether it is at most δ
    certificate: Certificate  # upper band on the true curve, at the level 1 − δ_t

    def __str__(self) -> str:
        least = 1 - self.certificate.alpha(1.0)
        said = f"differs from the data, by at least {100 * least:.0f} %" if self.differs else "no difference shown"
        return f"{self.name}: {said} (p = {self.p_value:.2g}, valid while looking at each checkpoint)"


@dataclass(eq=False)
class Monitor:
    """Checkpoints of one training run, looked at one by one.

    Whoever tests every checkpoint at 5 % raises an alarm sooner or later. Look t therefore has the level

        δ_t = 6 δ / (π² t²),   Σ δ_t = δ,

    so that all certificates hold together, and a false alarm has probability at most δ whenever one stops. The test is
    an e-value, which is exact at any level:

        E = Π 4 D(x) (1 − D(y)),   E ≥ 1/δ_t is an alarm,

    over pairs of a real x and a fake y that the classifier D was not trained on.

    Example:
        >>> import numpy as np
        >>> from precall import Reference
        >>> rng = np.random.default_rng(0)
        >>> monitor = Reference.fit(rng.normal(size=(300, 2))).monitor(estimator="linear")
        >>> [monitor.look(rng.normal(size=(300, 2)) + shift).differs for shift in (2.0, 0.0)]
        [True, False]

    References:
        Ville (1939); Pandeva et al. (2024), E-valuating classifier two-sample tests; docs/theory.md, Confidence bands.
    """

    features: Callable[[object], Pair]
    seed: int
    level: float
    estimator: str
    looks: list[Look] = field(default_factory=list)

    def look(self, fake: object, *, name: str | None = None) -> Look:
        """Look at the samples of the next checkpoint, whose name is its number by default."""
        found = classify_pair(self.estimator, self.features(fake), seed=self.seed)
        t, delta = len(self.looks) + 1, 1 - self.level
        spent = 6 * delta / (math.pi * t) ** 2  # δ_t
        p_value = min(1.0, math.exp(min(0.0, -found.log_e)) * delta / spent)
        look = Look(t, name or str(t), p_value, p_value <= delta, found.certificate.at(1 - spent))
        self.looks.append(look)
        return look
