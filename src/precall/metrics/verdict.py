"""The verdict: one sentence that follows from the scores beside it and names what it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from precall.metrics.score import FAR, Score
from precall.theory.bands import Certificate
from precall.theory.chance import chance_corrected

if TYPE_CHECKING:
    from precall.metrics.column_drift import ColumnDrift

LEVEL = 0.05  # significance level of the tests
COPIED = 0.2  # share of near-copies beyond chance that is named without a holdout
SHARE = 0.02  # least share of missed or invented mass, or of repeated samples, that is named
MAIN = 0.4  # missed or invented mass is named if it is at least this part of the total variation
MISPLACED = 0.1  # least total variation that is not "close"


def verdict(
    estimator: str | None,
    scores: Mapping[str, Score],
    certificate: Certificate | None,
    drift: ColumnDrift | None = None,
) -> str:
    """One sentence about a model: copies, indistinguishable, drops, invents, wrong proportions, wrong shape, close.

    A difference is named only if the two-sample test rejects P = Q, or, without a test, if the interval of the total
    variation excludes its chance level. In tables it is also enough that a single column, or the dependence of two
    columns, differs beyond doubt. What it is called depends on the scores beyond their chance levels, and on the
    certificate's bounds.

    Args:
        estimator: The estimator of the curve, or None.
        scores: The scores by name.
        certificate: Upper band on the curve, or None.
        drift: Which columns of a table differ, or None.
    """
    if copied := _copies(scores):
        return copied
    if estimator is None:
        return "No verdict: add `auto` or `clusters` to the metrics."
    basis, clearest = _basis(estimator, scores), None if drift is None else drift.clearest()
    if clearest is not None:
        basis += f"; {clearest[0]}, p = {clearest[1].settings['p_value'] * clearest[1].settings['tests']:.2g}"
    elif not _differs(scores, certificate):
        return f"Indistinguishable from the data at this sample size ({basis})."
    return f"{_difference(estimator, scores, certificate, None if clearest is None else clearest[1])} ({basis})."


def _copies(scores: Mapping[str, Score]) -> str | None:
    """The sentence about copies, or None."""
    if (memorized := scores.get("memorized")) is not None:
        if memorized.settings["p_value"] > LEVEL or memorized.value < SHARE:
            return None
        basis = f"holdout, p = {memorized.settings['p_value']:.2g}"
        if (other_law := memorized.settings.get("holdout_p_value", 1.0)) <= LEVEL:
            basis += f"; but the holdout differs from the training data, p = {other_law:.2g}, which looks the same"
        return f"Copies: {_amount(memorized)} of its samples are copies of the training data ({basis})."
    copies = scores.get("copies")
    # in few dimensions many samples look copied by chance
    if copies is None or copies.chance is None or copies.value - copies.chance <= COPIED:
        return None
    share = _percent(chance_corrected(copies.value, copies.chance))
    return f"Copies: {share} of its samples nearly coincide with a real sample."


def _basis(estimator: str, scores: Mapping[str, Score]) -> str:
    """What the verdict rests on: the estimator, the test, and samples that were counted once."""
    test, tv = scores.get("c2st"), scores["tv"]
    repeats = tv.settings.get("repeats_left_out", 0)
    basis = estimator if test is None else f"{estimator}, p = {test.settings['p_value']:.2g}"
    many = repeats > SHARE * ((tv.n_real or 0) + (tv.n_fake or 0))
    return f"{basis}; {repeats:,} repeated samples are not counted" if many else basis


def _differs(scores: Mapping[str, Score], certificate: Certificate | None) -> bool:
    """Whether the model is known to differ from the data."""
    if (test := scores.get("c2st")) is not None:
        return bool(test.settings["p_value"] <= LEVEL)
    tv, chance = scores["tv"], scores["tv"].chance or 0.0
    least = tv.value if tv.interval is None else tv.interval.low
    return max(_at_least("tv", certificate), least - chance) > 0


def _difference(
    estimator: str, scores: Mapping[str, Score], certificate: Certificate | None, columns: Score | None
) -> str:
    """What the difference is, and how large: all in all at least as large as in single columns or pairs of them."""
    missed, invented, misplaced = (
        _beyond_chance(scores[name], _at_least(name, certificate)) for name in ("missed", "invented", "tv")
    )
    misplaced = max(misplaced, 0.0 if columns is None else _beyond_chance(columns, 0.0))
    lost = f"{_amount(scores['missed'], missed)} of the data"
    made_up = f"{_amount(scores['invented'], invented)} of its samples"
    if max(missed, invented) >= max(SHARE, misplaced * MAIN):
        if missed > 2 * invented:
            return f"Drops modes: it produces {lost}, or more, far too rarely or never"
        if invented > 2 * missed:
            return f"Invents: {made_up}, or more, lie where there is little or no data"
        return f"Both drops modes ({lost}, or more) and invents ({made_up}, or more)"
    if misplaced < MISPLACED:
        return _closeness(scores["tv"])
    return _displacement(estimator, scores, misplaced)


def _closeness(tv: Score) -> str:
    """Close, if the interval of the total variation says so as well; otherwise nobody can tell how large it is."""
    most = 0.0 if tv.interval is None else chance_corrected(tv.interval.high, tv.chance or 0.0)
    if most > MISPLACED:
        unknown = f"up to {_percent(most)} of its samples may be misplaced"
        return f"Differs from the data, but more samples are needed to say how: {unknown}"
    return f"Close to the data: it neither drops nor invents more than {_percent(SHARE)}"


def _displacement(estimator: str, scores: Mapping[str, Score], misplaced: float) -> str:
    """Wrong proportions if the difference shows between clusters; wrong shape if it shows within them only."""
    moved = f"{_amount(scores['tv'], misplaced)} of its samples would have to move"
    between = scores["tv"] if estimator == "clusters" else scores.get("clusters_tv")
    if between is None:
        return f"Covers the data with a wrong density: {moved}"
    if chance_corrected(between.value, between.chance or 0.0) >= misplaced / 2:
        return f"Covers the data in the wrong proportions: {moved}"
    return f"Covers the data with a wrong shape: {moved}"


def _at_least(name: str, certificate: Certificate | None) -> float:
    """The certificate's lower bound on a score: `1 − α(1)`, `1 − α(3)` or `1 − β(1/3)`."""
    if certificate is None:
        return 0.0
    if name == "missed":
        return 1 - certificate.beta(1 / FAR)
    return 1 - certificate.alpha({"tv": 1.0, "invented": FAR}[name])


def _beyond_chance(score: Score, at_least: float) -> float:
    """A share corrected for chance, but not less than its bound."""
    return max(at_least, chance_corrected(score.value, score.chance or 0.0))


def _amount(score: Score, share: float | None = None) -> str:
    """A share in per cent with its interval: "about 12 % [9 %, 15 %]"."""
    value = score.value if share is None else max(share, score.value)
    if score.interval is None or value > score.interval.high:
        return f"about {_percent(value)}"
    return f"about {_percent(value)} [{_percent(score.interval.low)}, {_percent(score.interval.high)}]"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
