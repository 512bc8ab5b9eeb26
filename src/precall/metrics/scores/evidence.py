"""What a verdict follows from: scores, the curve with its bootstrap draws, means, variances and cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from precall.metrics.scores.score import FAR, SEEN, CurveIntervals, Score, readings
from precall.theory.bands import Certificate
from precall.theory.chance import chance_corrected
from precall.theory.spectrum import RatioSpectrum

if TYPE_CHECKING:
    from precall.metrics.tables.column_drift import ColumnDrift

SHARE = 0.02  # least share of missed or invented mass, or of repeated samples, that is named
RESOLVED = 5.0  # largest ratio that a calibrated classifier resolves
BEYOND = 8.0  # ratio at which most of a slope has fallen and a plateau has not, though classifiers blur it
BLURRED, SLOPED = 2.0, 5.0  # how many times less a plateau may leave, since classifiers blur it, and a slope
MENDED = 0.5  # part of the difference between cells that remains if means and variances were all of it


@dataclass(frozen=True)
class Moved:
    """How means, variances and cells differ; the first three are parts of the KL divergence of diagonal Gaussians."""

    shift: float  # the part of the means, `½ Σ δ²/v`
    narrow: float  # the part of the axes along which the fakes vary less, `½ Σ (w − 1 − log w)` with w < 1
    wide: float  # the part of those along which they vary more
    cells: float | None = None  # tv between 20 cells of k-means, beyond chance
    matched: float | None = None  # the same with equal means and spreads; None if cells tell too little
    invented: float = 0.0  # mass of the fakes that Gaussians with these means and variances leave beyond λ = `BEYOND`
    missed: float = 0.0  # the same of the reals
    invented_fall: float = 0.0  # how much less of the fakes that is than beyond `FAR`
    missed_fall: float = 0.0  # the same of the reals
    draws: tuple[Moved, ...] = field(default=(), repr=False)  # the same of bootstrap samples

    @property
    def mended(self) -> bool | None:
        """Whether the difference between cells disappears once means and spreads are equal; None if it is not known."""
        if self.cells is None or self.matched is None:
            return None
        return self.matched < MENDED * self.cells

    def explains(self, evidence: Evidence) -> float:
        """Which part of the change of means and variances is there: it must leave and fall as expected on both sides.

        If modes are dropped, or something is invented, means and variances change as well, but one side shows nothing,
        or falls no further.
        """
        seen = [1.0]
        for side in ("missed", "invented"):
            expected, fall, left = getattr(self, side), getattr(self, f"{side}_fall"), evidence.plateau(side, SLOPED)
            if expected > SHARE:
                seen.append(left / expected)
            if min(expected, fall) > SHARE and evidence.resolvable(side) > FAR:
                seen.append((evidence.beyond_chance(side) - left) / fall)
        return 0.0 if self.mended is False else max(0.0, min(seen))

    def to_dict(self) -> dict[str, Any]:
        """The parts as JSON-ready values; the draws as lists of them."""
        parts = {name: value for name, value in vars(self).items() if name != "draws" and value is not None}
        draws = [list(vars(one).values())[:-1] for one in self.draws]
        return parts | ({"draws": draws} if draws else {})

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Moved:
        """The parts that `to_dict` wrote."""
        return cls(**{**saved, "draws": tuple(cls(*one) for one in saved.get("draws", ()))})


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a verdict follows from."""

    estimator: str | None  # the estimator of the curve, or None
    scores: Mapping[str, Score]  # the scores by name
    spectrum: RatioSpectrum | None = None  # the curve, or None
    certificate: Certificate | None = None  # upper band on the curve, or None
    drift: ColumnDrift | None = None  # which columns of a table differ, or None
    moved: Moved | None = None  # how means, variances and cells differ, or None
    storage: str | None = None  # how a side was rounded because the other one was stored in a coarser type, or None
    pairs: RatioSpectrum | None = None  # the curve of pairs of prompt and answer, or None
    curve: CurveIntervals | None = None  # intervals and bootstrap draws of the curve, or None

    @property
    def of_pairs(self) -> Evidence:
        """The evidence about pairs of prompt and answer."""
        named = {name.removeprefix("pairs_"): one for name, one in self.scores.items() if name.startswith("pairs_")}
        return Evidence(self.estimator, named, self.pairs)

    def draws(self) -> Iterator[Evidence]:
        """The evidence of every bootstrap draw, if there are any."""
        if self.curve is None or self.curve.draws is None:
            return
        lam = np.concatenate([[0.0], self.curve.lam])
        moved = self.moved.draws if self.moved is not None else ()
        for i, shares in enumerate(self.curve.draws):
            spectrum = RatioSpectrum.from_curve(lam=lam, alpha=np.minimum(1.0, lam) * np.append(1.0, shares))
            values = readings(spectrum)
            drawn = {name: replace(self.scores[name], value=values[name]) for name in ("tv", "missed", "invented")}
            here = moved[i] if i < len(moved) else self.moved
            yield replace(self, scores={**self.scores, **drawn}, spectrum=spectrum, moved=here, curve=None)

    def at_least(self, side: str, lam: float) -> float:
        """The certificate's lower bound on the invented mass `1 − α(λ)` or the missed mass `1 − β(1/λ)`."""
        if self.certificate is None:
            return 0.0
        return 1 - (self.certificate.alpha(lam) if side == "invented" else self.certificate.beta(1 / lam))

    def beyond_chance(self, name: str) -> float:
        """A share corrected for chance, but not less than its bound."""
        bound = self.at_least("invented", 1.0) if name == "tv" else self.at_least(name, FAR)
        return max(bound, corrected(self.scores[name]))

    def plateau(self, side: str, most: float = BLURRED) -> float:
        """The mass of one side that remains at λ = `BEYOND`, if it falls on as up to the largest λ that is resolved.

        It is at most `most` times what the order of held-out scores, if known, leaves at the λ of `SEEN` samples.
        """
        share, lam = self.beyond_chance(side), self.resolvable(side)
        if self.spectrum is None or lam <= FAR:
            return share
        near, left = self._left(side, FAR), self._left(side, lam)
        fall = (near - left) * float(np.log(BEYOND / lam) / np.log(lam / FAR))
        found = max(self.at_least(side, BEYOND), min(left - max(0.0, fall), share))
        return min(found, most * resolved(self.scores[side], side))

    def resolvable(self, side: str) -> float:
        """The λ at which a plateau is read, from `FAR` to `RESOLVED`.

        If a share e of one set had the other one 1/λ times as densely, e n/λ of its n samples would lie there.
        """
        score = self.scores[side]
        n = score.n_real if side == "invented" else score.n_fake
        return float(np.clip((n or 0) * self.beyond_chance(side) / SEEN, FAR, RESOLVED))

    def _left(self, side: str, lam: float) -> float:
        """The mass of one side beyond λ, by the curve."""
        assert self.spectrum is not None
        return 1 - (self.spectrum.alpha(lam) if side == "invented" else self.spectrum.beta(1 / lam))


def resolved(score: Score, side: str) -> float:
    """The mass of one side by the order of held-out scores at the largest λ that they resolve; 1 if it is not known."""
    return float(score.details.get("resolved", {}).get(side, 1.0))


def corrected(score: Score) -> float:
    """The value of a score beyond its chance level."""
    return chance_corrected(score.value, score.chance or 0.0)
