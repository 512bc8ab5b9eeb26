"""The verdict: what a model does, as kinds and as a sentence that follows from the scores beside it.

A difference is named if the two-sample test rejects P = Q. What it is called follows from the curve (docs/theory.md,
Kinds of differences): mass of the model that stays where there are no data however large λ is, a *plateau* of
1 − α(λ), is invented, and mass of the data that stays is dropped. If both fall towards 0, a *slope*, the model has a
wrong place, spread or proportions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import asin, ceil, sqrt

from precall.metrics.scores.evidence import SHARE, Evidence, Moved, corrected, resolved
from precall.metrics.scores.score import Score
from precall.theory.chance import chance_corrected

LEVEL = 0.05  # significance level of the tests
NORMAL = 1.96  # two-sided 95 % quantile
COPIED = 0.2  # share of near-copies beyond chance that is named without a holdout
MAIN = 0.3  # part of the total variation from which a plateau is the main thing
MISPLACED = 0.1  # least total variation that is not "close"
LARGE = 0.2  # total variation that must be excluded before a model is called indistinguishable
APART = 0.5  # share of both sets where the other is not, from which they are far apart
SURE = 0.8  # a kind is named if this share of the bootstrap draws has it, too
KIN = {"wrong proportions": "wrong shape", "wrong shape": "wrong proportions"}  # draws of one do not refute the other
BETWEEN = 0.5  # part of the total variation that wrong proportions show between cells
LEAN = 0.25  # part of the total variation that lies on one side, from which a difference is not the same on both
CURVE = ("tv", "missed", "invented")  # the scores that a verdict is about
FINE = ("auto", "auto_quick")  # estimators that may call a model close: others are blind to whole kinds of differences


class Kind(StrEnum):
    """What a model does. A verdict has one or more kinds."""

    COPIES = "copies"
    DROPS = "drops"
    INVENTS = "invents"
    FAR = "far from the data"
    NARROW = "too narrow"
    WIDE = "too wide"
    SHIFTED = "shifted"
    PROPORTIONS = "wrong proportions"
    SHAPE = "wrong shape"
    REPEATS = "repeats"
    DIFFERS = "differs"
    STORAGE = "mixed storage"
    MISALIGNED = "misaligned"
    COLLAPSES_WITHIN_PROMPTS = "collapses within prompts"
    BLIND_TO_THE_PROMPT = "blind to the prompt"
    CLOSE = "close"
    INDISTINGUISHABLE = "indistinguishable"
    CANNOT_TELL = "cannot tell"


SIDES = {Kind.DROPS: "missed", Kind.INVENTS: "invented"}  # the score that each side is about
OF_PROMPTS = {Kind.MISALIGNED, Kind.COLLAPSES_WITHIN_PROMPTS, Kind.BLIND_TO_THE_PROMPT}


class Verdict(str):
    """A sentence about a model, with its kinds: `verdict.kinds`, and the first of them as `verdict.kind`.

    Example:
        >>> said = Verdict("Invents: about 12 % of its samples.", (Kind.INVENTS,))
        >>> said.kind == "invents", said.startswith("Invents")
        (True, True)
    """

    kinds: tuple[Kind, ...]

    def __new__(cls, sentence: str, kinds: tuple[Kind, ...]) -> Verdict:
        made = super().__new__(cls, sentence)
        made.kinds = kinds
        return made

    def __getnewargs__(self) -> tuple[str, tuple[Kind, ...]]:  # type: ignore[override]
        return str(self), self.kinds

    @property
    def kind(self) -> Kind:
        return self.kinds[0]


def verdict(evidence: Evidence) -> Verdict:
    """What a model does: copies, drops, invents, too narrow, …, close, indistinguishable, or cannot tell.

    A difference is named only if the two-sample test rejects P = Q, or, without a test, if the interval of the total
    variation excludes its chance level. In tables it is also enough that a single column, or the dependence of two
    columns, differs beyond doubt. A model is called indistinguishable only if, in addition, no interval of a score of
    the curve or of copies excludes chance. Copies are named beside whatever else there is.

    References:
        docs/theory.md, Kinds of differences.
    """
    found = _other(evidence)
    if found.kind in (Kind.CLOSE, Kind.INDISTINGUISHABLE) and not {"copies", "memorized"} & evidence.scores.keys():
        found = Verdict(f"{found} Copies were not looked for: add `copies` to the metrics.", found.kinds)
    found = _of_prompts(evidence, found)
    for first in (_repeats(evidence), _copies(evidence.scores)):
        if first is not None:
            same = found.kind in (Kind.CLOSE, Kind.INDISTINGUISHABLE) or found.startswith("No verdict")
            kinds = dict.fromkeys((*first.kinds, *_named_kinds(found)))
            found = Verdict(first if same else f"{first} {found}", tuple(kinds))
    if evidence.storage is None:
        return found
    return Verdict(f"{found} Mixed storage: one side was {evidence.storage}.", (*found.kinds, Kind.STORAGE))


def _other(evidence: Evidence) -> Verdict:
    scores, drift = evidence.scores, evidence.drift
    if evidence.estimator is None:
        return Verdict("No verdict: add `auto` to the metrics.", (Kind.CANNOT_TELL,))
    basis, clearest = _basis(evidence.estimator, scores), None if drift is None else drift.clearest()
    if clearest is not None:
        basis += f"; {clearest[0]}, p = {(clearest[1].p_value or 0.0) * clearest[1].details['tests']:.2g}"
    elif not _rejected(evidence):
        return _unconfirmed(evidence, basis)
    sentence, kinds = _difference(evidence, 0.0 if clearest is None else corrected(clearest[1]))
    return Verdict(f"{sentence} ({basis}).", kinds)


def _of_prompts(evidence: Evidence, answers: Verdict) -> Verdict:
    """What the pairs of prompt and answer show beyond the answers alone (docs/theory.md, Prompts)."""
    scores = evidence.scores
    seen, tv = scores.get("prompt_dependence"), scores.get("pairs_tv")
    beyond = None if tv is None or not tv.rejects(LEVEL) else _misplaced_pairs(evidence, tv)
    beyond = beyond or _fewer_answers(evidence)  # which shows whether or not answers depend on prompts
    if beyond is None and seen is not None and not seen.rejects(LEVEL):
        why = f"real answers do not show to which prompt they belong, p = {seen.p_value:.2g}"
        sentence = f"Blind to the prompt: in these features {why}. Answers alone: {answers}"
        return Verdict(sentence, (Kind.BLIND_TO_THE_PROMPT, *answers.kinds))
    if beyond is None:
        return answers
    return Verdict(f"{beyond} Answers alone: {answers}", (*beyond.kinds, *_named_kinds(answers)))


def _misplaced_pairs(evidence: Evidence, tv: Score) -> Verdict | None:
    """What is lost from answers to pairs, named by its side: precision, or recall alone."""
    pairs, alone = evidence.of_pairs, evidence.scores
    known = evidence.estimator is not None and _rejected(evidence)
    lost = {name: pairs.beyond_chance(name) - (evidence.beyond_chance(name) if known else 0.0) for name in CURVE}
    spread = alone["prompt_spread"]
    elsewhere = spread.interval is not None and 1.0 not in spread.interval  # around what the prompts predict
    most = _most(tv)
    if lost["tv"] < MISPLACED and not (elsewhere and most >= MISPLACED):
        return None
    basis = f"pairs, p = {tv.p_value:.2g}"
    if max(lost["invented"], lost["missed"]) < SHARE and not elsewhere:
        said = f"Answers in the wrong proportions to their prompts: {_amount(tv)} would have to move ({basis})."
        return Verdict(said, (Kind.PROPORTIONS,))
    # strong differences of any kind lose much on both sides
    fewer = lost["missed"] > lost["invented"] * (1 if spread.value < 1 else 2)
    if spread.value < 1 if elsewhere else fewer:
        missed = f"{_amount(alone['pairs_missed'])} of the answers of the data, or more, are missing"
        said = f"Collapses within prompts: answers fit their prompts, but {missed} ({basis})."
        return Verdict(said, (Kind.COLLAPSES_WITHIN_PROMPTS,))
    wrong = f"{_amount(alone['pairs_invented'])} of its answers, or more, do not fit their prompt"
    return Verdict(f"Misaligned: {wrong} ({basis}).", (Kind.MISALIGNED,))


def _fewer_answers(evidence: Evidence) -> Verdict | None:
    """Whether a prompt gets fewer different answers than in the data.

    Without two references per prompt, answers are compared with the similarity of an answer and a reference. Answers
    that do not fit would lower that, too, so that they must fit.
    """
    found, tv = evidence.scores.get("answers_per_prompt"), evidence.scores.get("pairs_invented")
    if found is None or found.chance is None or not found.rejects(LEVEL):
        return None
    fits = evidence.beyond_chance("invented") if tv is None else evidence.of_pairs.beyond_chance("invented")
    alike = 1 - found.value / found.chance < MISPLACED
    if alike or (found.settings["against"] != "two references" and fits >= MISPLACED):
        return None
    number = f"{found.value:.3g} different answers in effect, and {found.chance:.3g} in the data"
    said = f"Collapses within prompts: a prompt has {number} (p = {found.p_value:.2g})."
    return Verdict(said, (Kind.COLLAPSES_WITHIN_PROMPTS,))


def _named_kinds(found: Verdict) -> tuple[Kind, ...]:
    none = (Kind.CLOSE, Kind.INDISTINGUISHABLE, Kind.CANNOT_TELL)
    return () if found.kind in none else found.kinds


def _unconfirmed(evidence: Evidence, basis: str) -> Verdict:
    """Indistinguishable, if no interval excludes chance and all exclude a large difference; else nobody can tell."""
    scores = evidence.scores
    if "c2st" not in scores and evidence.estimator not in FINE:
        said = f"no difference shows, but {evidence.estimator} sees coarse ones only. Add `auto`"
    elif any(one.low > (scores[name].chance or 0.0) for name in CURVE if (one := scores[name].interval) is not None):
        seem = f"{_amount(scores['tv'])} of its samples seem to be misplaced"
        said = f"{seem}, but the two-sample test does not confirm it. Collect more samples"
    elif (most := _most(scores["tv"])) > LARGE:
        enough = min(scores["tv"].n_real or 0, scores["tv"].n_fake or 0) * (most / LARGE) ** 2  # widths fall as 1/√n
        unseen = f"no difference shows, but up to {_percent(most)} of its samples may be misplaced"
        said = f"{unseen}. About {100 * ceil(enough / 100):,} samples of each set would decide"
    elif _copies(scores) is None and (copied := _some_copies(scores)) is not None:
        decides = "Collect more samples" if "memorized" in scores else "A holdout would show whether they are"
        said = (
            f"no other difference shows, but {_percent(corrected(copied))} of its samples seem to be copies. {decides}"
        )
    else:
        return Verdict(f"Indistinguishable from the data at this sample size ({basis}).", (Kind.INDISTINGUISHABLE,))
    return Verdict(f"Cannot tell: {said} ({basis}).", (Kind.CANNOT_TELL,))


def _most(tv: Score) -> float:
    """The largest total variation that is not excluded, beyond chance."""
    return 0.0 if tv.interval is None else chance_corrected(tv.interval.high, tv.chance or 0.0)


def _copies(scores: Mapping[str, Score]) -> Verdict | None:
    """Copies, or that nobody can tell, or None; a holdout of another law shows none."""
    near, memorized = _near_copies(scores), scores.get("memorized")
    if memorized is None:
        return near
    if memorized.value < SHARE or (memorized.interval is not None and memorized.interval.low <= 0):
        return None
    if not memorized.rejects(LEVEL):  # copies of a few samples: permutations of their labels say little
        return near if memorized.value > COPIED else None
    if (other_law := memorized.details.get("holdout_p_value", 1.0)) <= LEVEL:
        why = f"the holdout differs from the training data, p = {other_law:.2g}, which looks the same"
        said = f"Cannot tell copies: {_amount(memorized)} of its samples seem to be copies, but {why}."
        return near or Verdict(f"{said} A holdout of the same law would show whether they are.", (Kind.CANNOT_TELL,))
    basis = f"holdout, p = {memorized.p_value:.2g}"
    said = f"Copies: {_amount(memorized)} of its samples are copies of the training data ({basis})."
    return Verdict(said, (Kind.COPIES,))


def _near_copies(scores: Mapping[str, Score]) -> Verdict | None:
    """Copies, as far as they show without a holdout, or None."""
    copies = scores.get("copies")  # in few dimensions many samples look copied by chance
    if copies is None or copies.chance is None or copies.value - copies.chance <= COPIED:
        return None
    said = f"Copies: {_percent(corrected(copies))} of its samples nearly coincide with a real sample."
    return Verdict(said, (Kind.COPIES,))


def _some_copies(scores: Mapping[str, Score]) -> Score | None:
    """The score that excludes chance, if one does; that of `copies` is a share of the reals with its own error."""
    memorized, copies = scores.get("memorized"), scores.get("copies")
    if memorized is not None and memorized.interval is not None and memorized.interval.low > 0:
        return memorized
    if copies is None or copies.interval is None or copies.interval.low <= (chance := copies.chance or 0.0):
        return None
    error = sqrt(1 / (copies.n_fake or 1) + 1 / (copies.n_real or 1)) / 2  # asin √share has the variance 1/4n
    return copies if asin(sqrt(copies.value)) - asin(sqrt(chance)) > NORMAL * error else None


def _repeats(evidence: Evidence) -> Verdict | None:
    """Samples that repeat each other far more often than those of the data do, or None."""
    if not _repeated(evidence):
        return None
    share = evidence.scores["tv"].details["repeated"]["fake"]
    return Verdict(f"Repeats: {_percent(share)} of its samples repeat another one.", (Kind.REPEATS,))


def _repeated(evidence: Evidence) -> float:
    """The share of the fakes that repeat each other beyond that of the data, or 0 if it is not far larger."""
    shares = evidence.scores["tv"].details.get("repeated") if "tv" in evidence.scores else None
    more = 0.0 if shares is None else shares["fake"] - shares["real"]
    return float(more) if shares is not None and more >= max(MISPLACED, shares["real"]) else 0.0


def _basis(estimator: str, scores: Mapping[str, Score]) -> str:
    """What the verdict rests on: the estimator, the test, and samples that were counted once."""
    test, tv = scores.get("c2st"), scores["tv"]
    repeats = tv.details.get("repeats_left_out", 0)
    basis = estimator if test is None else f"{estimator}, p = {test.p_value:.2g}"
    many = repeats > SHARE * ((tv.n_real or 0) + (tv.n_fake or 0))
    return f"{basis}; {repeats:,} repeated samples are not counted" if many else basis


def _rejected(evidence: Evidence) -> bool:
    """Whether the model is known to differ from the data."""
    if (test := evidence.scores.get("c2st")) is not None:
        return test.rejects(LEVEL)
    tv, chance = evidence.scores["tv"], evidence.scores["tv"].chance or 0.0
    least = tv.value if tv.interval is None else tv.interval.low
    return max(evidence.at_least("invented", 1.0), least - chance) > 0


def _difference(evidence: Evidence, columns: float) -> tuple[str, tuple[Kind, ...]]:
    """What the difference is, and how large: all in all at least as large as in single columns or pairs of them."""
    scores, misplaced = evidence.scores, max(evidence.beyond_chance("tv"), columns)
    kinds = _kinds(evidence, columns)
    draws = [_kinds(one, columns) for one in evidence.draws()]
    named = [kind for kind in kinds if kind is not Kind.DIFFERS]
    sure = tuple(kind for kind in named if _agreed(kind, draws) and _shown(kind, scores))
    if len(sure) == 1 and not _is_larger(sure[0], evidence):
        sure = ()  # the larger side may remain unnamed
    moved = f"{_amount(scores['tv'], misplaced)} of its samples would have to move"
    if kinds == (Kind.REPEATS,):
        return f"All in all, {moved}", kinds
    if kinds == (Kind.CLOSE,) or (not sure and misplaced < MISPLACED):
        return _closeness(evidence, misplaced)
    if not sure:
        return f"Differs from the data: {moved}. More samples would show how", (Kind.DIFFERS,)
    lost = f"{_amount(scores['missed'], evidence.plateau('missed'))} of the data"
    made_up = f"{_amount(scores['invented'], evidence.plateau('invented'))} of its samples"
    if sure == (Kind.DROPS, Kind.INVENTS):
        return f"Both drops modes ({lost}, or more) and invents ({made_up}, or more)", sure
    said = {
        Kind.FAR: f"Far from the data: most of each set lies where the other does not; {moved}",
        Kind.DROPS: f"Drops modes: it produces {lost}, or more, far too rarely or never",
        Kind.INVENTS: f"Invents: {made_up}, or more, lie where there is little or no data",
        Kind.NARROW: f"Too narrow: it varies less than the data; {moved}",
        Kind.WIDE: f"Too wide: it varies more than the data; {moved}",
        Kind.SHIFTED: f"Shifted: its centre is not that of the data; {moved}",
        Kind.PROPORTIONS: f"Wrong proportions: some kinds of samples come too often, others too rarely; {moved}",
        Kind.SHAPE: f"Wrong shape: neither centre, spread nor clusters explain the difference; {moved}",
    }
    return said[sure[0]], sure


def _agreed(kind: Kind, draws: Sequence[tuple[Kind, ...]]) -> bool:
    """Whether the draws have a kind, or some of them its kin."""
    own, kin = (sum(one in each for each in draws) for one in (kind, KIN.get(kind)))
    return own + kin >= SURE * len(draws) and own >= 2 * kin


def _is_larger(kind: Kind, evidence: Evidence) -> bool:
    """Whether a kind is not about one of two sides, or its interval lies above what is resolved of the other side."""
    if kind not in SIDES:
        return True
    own, other = (SIDES[one] for one in (kind, *(SIDES.keys() - {kind})))
    score, left = evidence.scores[own], evidence.scores[other]
    most = min(left.value, resolved(left, other)) - (_repeated(evidence) if other == "invented" else 0.0)
    return (score.value if score.interval is None else score.interval.low) > most


def _shown(kind: Kind, scores: Mapping[str, Score]) -> bool:
    """Whether the interval of the score that a kind is about excludes 0, or, for a slope, what would be close."""
    name, least = (SIDES[kind], 0.0) if kind in SIDES else ("tv", MISPLACED)
    return (interval := scores[name].interval) is None or interval.low > least


def _kinds(evidence: Evidence, columns: float) -> tuple[Kind, ...]:
    """The kinds of a difference, by the curve and by how means, variances and cells differ."""
    misplaced, moved = max(evidence.beyond_chance("tv"), columns), evidence.moved or Moved(0.0, 0.0, 0.0)
    repeated = _repeated(evidence)  # which is named so, and not invented as well
    missed, invented = evidence.plateau("missed"), evidence.plateau("invented") - repeated
    far = (Kind.FAR, *SIDES) if min(missed, invented) >= APART else ()
    part = moved.explains(evidence)  # what the change of means and variances leaves there is no plateau,
    least = max(SHARE, misplaced * MAIN)
    if max(missed - part * moved.missed, invented - part * moved.invented) >= least:  # unless one side shows another
        return far or tuple(kind for kind, share in zip(SIDES, (missed, invented), strict=True) if share >= least)
    if repeated and misplaced - repeated < MISPLACED:
        return (Kind.REPEATS,)
    lean = evidence.beyond_chance("invented") - evidence.beyond_chance("missed")
    named = Kind.CLOSE if misplaced < MISPLACED else _slope(moved, misplaced, lean / misplaced)
    # means and variances explain a plateau only if they name the difference
    return (*far, Kind.DIFFERS if named in KIN and max(missed, invented) >= least else named)


def _slope(moved: Moved, misplaced: float, lean: float) -> Kind:
    """What means and variances show, if they explain the difference between cells; else what cells show.

    A shift shows alike on both sides. What is too narrow leans to missed mass, and what is too wide to invented mass;
    what leans otherwise may be a plateau that is not resolved.
    """
    parts = {Kind.SHIFTED: moved.shift, Kind.NARROW: moved.narrow, Kind.WIDE: moved.wide}
    largest = max(parts, key=lambda kind: parts[kind])
    leans = {Kind.NARROW: lean > LEAN, Kind.WIDE: lean < -LEAN}.get(largest, abs(lean) > LEAN)
    if parts[largest] >= misplaced**2 / 2 and moved.mended is not False and not leans:  # tv² ≤ KL/2 (Pinsker)
        return largest
    if (moved.cells or 0.0) >= BETWEEN * misplaced:
        return Kind.PROPORTIONS
    return Kind.SHAPE if abs(lean) <= LEAN else Kind.DIFFERS


def _closeness(evidence: Evidence, misplaced: float) -> tuple[str, tuple[Kind, ...]]:
    """Close, if the interval of the total variation says so as well; otherwise nobody can tell how large it is."""
    if evidence.estimator not in FINE:
        seen = f"{evidence.estimator} sees {_percent(misplaced)} of it, and may miss most. Add `auto`"
        return f"Differs from the data, but nobody can tell how much: {seen}", (Kind.CANNOT_TELL,)
    if (most := max(_most(evidence.scores["tv"]), misplaced)) > MISPLACED:
        unknown = f"up to {_percent(most)} of its samples may be misplaced"
        return f"Differs from the data, but more samples are needed to say how: {unknown}", (Kind.CANNOT_TELL,)
    return f"Close to the data: at most {_percent(most)} of its samples would have to move", (Kind.CLOSE,)


def _amount(score: Score, share: float | None = None) -> str:
    """A share in per cent with its interval: "about 12 % [9 %, 15 %]"."""
    value = score.value if share is None else max(share, score.value)
    if score.interval is None or value > score.interval.high:
        return f"about {_percent(value)}"
    return f"about {_percent(value)} [{_percent(score.interval.low)}, {_percent(score.interval.high)}]"


def _percent(share: float) -> str:
    digits = 1 if 0 < share < 0.005 else 0  # a bound that excludes 0 does not read as 0
    return f"{100 * share:.{digits}f} %"
