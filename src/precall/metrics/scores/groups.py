"""Precision-recall curves per group of samples, and fairness gaps: how much these curves differ."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np

from precall.metrics.scores.score import SLOPES, CurveIntervals, Interval, encoded, plain
from precall.theory.arrays import Index, to_numpy
from precall.theory.spectrum import RatioSpectrum

CURVES = (("alpha", np.inf), ("beta", 0.0))  # the curves of precision and recall, and their ends
COVERS = "the gap between these groups at this slope, simultaneously for all pairs of groups"


@dataclass(frozen=True, eq=False)
class GroupRows:
    """Rows of each group in both sets, and the groups that are in one set only."""

    rows: Mapping[Hashable, tuple[Index, Index]]  # group → (rows in real, rows in fake), for groups of both sets
    only_real: tuple[Hashable, ...]  # groups that the model never produces: its recall on them is 0
    only_fake: tuple[Hashable, ...]  # groups that the model invents: its precision on them is 0


def split_groups(groups_real: Any, groups_fake: Any, n_real: int, n_fake: int) -> GroupRows:
    """Rows of each group in the real and the fake set, from one label per sample.

    Groups that are in one set only are reported separately. A group with a single sample is refused: it has no curve.
    """
    real, fake = _rows_by_group("groups_real", groups_real, n_real), _rows_by_group("groups_fake", groups_fake, n_fake)
    if not real.keys() & fake.keys():
        got = f"{_listed(real)} in `groups_real` and {_listed(fake)} in `groups_fake`"
        raise ValueError(f"The two sets must share at least one group; got {got}. Use the same labels on both sides.")
    return GroupRows(
        {group: (real[group], fake[group]) for group in real if group in fake},
        tuple(group for group in real if group not in fake),
        tuple(group for group in fake if group not in real),
    )


@dataclass(frozen=True)
class Gap:
    """Largest difference between the curves of two groups: `value` at slope `lam`, in favour of `better`."""

    value: float  # the difference
    lam: float  # the slope λ at which it is attained
    better: Hashable  # the group with the higher curve there
    worse: Hashable  # the group with the lower one
    interval: Interval | None = None  # simultaneous for all pairs of groups, or None

    @property
    def clear(self) -> bool:
        """Whether the gap exceeds what curves of equal groups would show by chance."""
        return self.interval is not None and self.interval.low > 0

    def to_dict(self) -> dict[str, Any]:
        named = {"better": plain(self.better), "worse": plain(self.worse)}
        found = {"value": self.value, "lam": encoded(self.lam), **named}
        return found if self.interval is None else found | {"interval": self.interval.to_dict()}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Gap:
        interval = Interval.from_dict(saved["interval"]) if "interval" in saved else None
        return cls(saved["value"], float(saved["lam"]), saved["better"], saved["worse"], interval)


@dataclass(frozen=True)
class FairnessGap:
    """The largest gaps between the curves of any two groups: of α_g(λ) − α_h(λ) over all λ, and the same for β."""

    precision: Gap
    recall: Gap

    def to_dict(self) -> dict[str, Any]:
        return {"precision": self.precision.to_dict(), "recall": self.recall.to_dict()}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> FairnessGap:
        return cls(Gap.from_dict(saved["precision"]), Gap.from_dict(saved["recall"]))


def fairness(
    spectra: Mapping[Any, RatioSpectrum], intervals: Mapping[Any, CurveIntervals | None] | None = None
) -> FairnessGap:
    """Largest gap between the precision-recall curves of any two groups, over every trade-off λ.

        max_{g,h} max_λ |α_g(λ) − α_h(λ)|,   and the same for β

    It is exact: α is concave and piecewise linear in λ, and β in 1/λ, so that the difference of two curves is largest
    at a breakpoint of the higher one. Curves of fewer samples are lower: compare groups of equal sizes. The groups are
    independent, so that the squares of the half-widths of their intervals add up; the level is that of all pairs.

    Example:
        >>> a = RatioSpectrum.from_masses(p=[0.5, 0.5], q=[0.5, 0.5])
        >>> b = RatioSpectrum.from_masses(p=[0.5, 0.5, 0.0], q=[0.25, 0.5, 0.25])
        >>> fairness({"a": a, "b": b}).precision
        Gap(value=0.25, lam=1.0, better='a', worse='b', interval=None)

    References:
        Verine (2024), section 7.2.1; docs/theory.md, The curve.
    """
    if len(spectra) < 2:
        raise ValueError(f"`spectra` must hold at least two groups to compare; got {len(spectra)}.")
    precision, recall = (max(_gaps(spectra, *curve), key=lambda gap: gap.value) for curve in CURVES)
    known = dict(intervals or {})
    if any(known.get(group) is None for group in spectra):
        return FairnessGap(precision, recall)
    return FairnessGap(_bounded(precision, "alpha", spectra, known), _bounded(recall, "beta", spectra, known))


def _bounded(gap: Gap, curve: str, spectra: Mapping[Any, RatioSpectrum], intervals: Mapping[Any, Any]) -> Gap:
    """The gap with its interval, from those of both curves at the nearest slope that has one."""
    from scipy.special import ndtri

    lam = float(np.clip(gap.lam, SLOPES[0], SLOPES[-1]))
    scale, pairs = 1.0 if curve == "alpha" else 1 / lam, len(spectra) * (len(spectra) - 1)
    alpha = {group: float(spectra[group].alpha(lam)) for group in (gap.better, gap.worse)}
    ends = {group: intervals[group].at(lam, alpha[group]) for group in alpha}
    up, down = ends[gap.better], ends[gap.worse]
    below = np.hypot(alpha[gap.better] - up.low, down.high - alpha[gap.worse])
    above = np.hypot(up.high - alpha[gap.better], alpha[gap.worse] - down.low)
    factor = scale * float(ndtri(1 - (1 - up.level) / (2 * pairs)) / ndtri((1 + up.level) / 2))  # Bonferroni
    low, high = gap.value - factor * below, gap.value + factor * above
    return replace(gap, interval=Interval(float(low), float(min(1.0, high)), up.level, COVERS))


def _gaps(spectra: Mapping[Any, RatioSpectrum], curve: str, end: float) -> Iterator[Gap]:
    """The largest lead of each curve over each other one; its end counts: disjoint supports have no breakpoints."""
    for (g, better), (h, worse) in permutations(spectra.items(), 2):
        lam = np.append(better.breakpoints, end)
        lead = getattr(better, curve)(lam) - getattr(worse, curve)(lam)
        at = int(np.argmax(lead))
        yield Gap(float(lead[at]), float(lam[at]), g, h)


def _rows_by_group(name: str, labels: Any, n: int) -> dict[Hashable, Index]:
    values = to_numpy(labels)
    if values.shape != (n,):
        raise ValueError(f"`{name}` must hold one label for each of the {n} samples; got shape {values.shape}.")
    if values.dtype.kind not in "biuUSO":
        raise ValueError(
            f"`{name}` must be strings, integers or booleans; got dtype {values.dtype}. Bin the numbers first."
        )
    if values.dtype.kind == "O" and not any(all(isinstance(label, kind) for label in values) for kind in (str, int)):
        raise ValueError(f"`{name}` must be all strings or all integers; got a mixture. Fill in missing labels first.")
    groups, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    if (single := groups[counts < 2]).size:
        raise ValueError(
            f"`{name}` must have at least 2 samples per group; got one in {_listed(single)}. Merge or drop it."
        )
    return {group: np.flatnonzero(inverse == i) for i, group in enumerate(groups.tolist())}


def _listed(groups: Any) -> str:
    names = [repr(plain(group)) for group in groups]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
