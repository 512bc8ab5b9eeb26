"""The verdict: what a model does, as kinds and as a sentence that follows from the scores beside it.

A difference is named if the two-sample test rejects P = Q. What it is called follows from the curve (docs/theory.md,
Kinds of differences): mass of the model that stays where there are no data however large λ is, a *plateau* of
1 − α(λ), is invented, and mass of the data that stays is dropped. If both fall towards 0, a *slope*, the model has a
wrong place, spread or proportions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from precall.metrics.inputs.features import Pair, uniform_rows
from precall.metrics.scores.score import FAR, Score
from precall.theory.bands import Certificate
from precall.theory.chance import chance_corrected

if TYPE_CHECKING:
    from precall.metrics.tables.column_drift import ColumnDrift
    from precall.theory.spectrum import RatioSpectrum

LEVEL = 0.05  # significance level of the tests
COPIED = 0.2  # share of near-copies beyond chance that is named without a holdout
SHARE = 0.02  # least share of missed or invented mass, or of repeated samples, that is named
MAIN = 0.4  # missed or invented mass is named if it is at least this part of the total variation
MISPLACED = 0.1  # least total variation that is not "close"
SEEN = 10  # samples of the other set that would lie beyond a plateau if it were none
RESOLVED = 5.0  # largest ratio that a calibrated classifier resolves
BEYOND = 8.0  # ratio at which most of a slope has fallen and a plateau has not, though classifiers blur it
APART = 0.5  # share of both sets beyond three times the other from which they hardly overlap
ROWS = 5000  # rows on which means and variances are compared
BETWEEN = 0.8  # part of the total variation that wrong proportions show between cells
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
    STORAGE = "mixed storage"
    MISALIGNED = "misaligned"
    COLLAPSES_WITHIN_PROMPTS = "collapses within prompts"
    BLIND_TO_THE_PROMPT = "blind to the prompt"
    CLOSE = "close"
    INDISTINGUISHABLE = "indistinguishable"
    CANNOT_TELL = "cannot tell"


class Verdict(str):
    """A sentence about a model, with its kinds: `verdict.kinds`, and the first of them as `verdict.kind`.

    Example:
        >>> said = Verdict("Invents: about 12 % of its samples.", (Kind.INVENTS,))
        >>> said.kind == "invents", said.startswith("Invents")
        (True, True)
    """

    kinds: tuple[Kind, ...]

    def __new__(cls, sentence: str, kinds: tuple[Kind, ...]) -> Verdict:
        """The sentence and its kinds."""
        made = super().__new__(cls, sentence)
        made.kinds = kinds
        return made

    def __getnewargs__(self) -> tuple[str, tuple[Kind, ...]]:  # type: ignore[override]
        return str(self), self.kinds

    @property
    def kind(self) -> Kind:
        """The first of the kinds."""
        return self.kinds[0]


@dataclass(frozen=True)
class Moved:
    """How far two Gaussians with independent coordinates differ: parts of the Kullback-Leibler divergence.

    Attributes:
        shift: The part of the means, `½ Σ δ²/v`.
        narrow: The part of the axes along which the fakes vary less, `½ Σ (w − 1 − log w)` with w < 1.
        wide: The part of those along which they vary more.
        cells: Total variation between 20 cells of k-means, beyond chance; None in results of earlier versions.
    """

    shift: float
    narrow: float
    wide: float
    cells: float | None = None

    @classmethod
    def between(cls, pair: Pair, seed: int) -> Moved:
        """The parts of all columns of at most `ROWS` samples per set, less what is expected if P = Q."""
        p, q = (one.astype(np.float64) for one in pair.rows(*uniform_rows(pair.sizes, ROWS, seed)).to_numpy())
        largest = np.maximum(np.abs(p).max(axis=0), np.abs(q).max(axis=0))
        p, q = (np.ldexp(one, -np.frexp(largest)[1]) for one in (p, q))  # squares of tiny units would be 0
        varied = p.std(axis=0) > 1e-9
        p, q = p[:, varied], q[:, varied]
        variance, noise = p.var(axis=0), (1 / len(p) + 1 / len(q)) / 2 * p.shape[1]
        w = np.maximum(q.var(axis=0) / variance, 1e-9)
        spread = (w - 1 - np.log(w)) / 2
        shift = float(((p.mean(axis=0) - q.mean(axis=0)) ** 2 / variance).sum()) / 2
        parts = shift - noise, float(spread[w < 1].sum()) - noise / 2, float(spread[w > 1].sum()) - noise / 2
        return cls(*(max(0.0, part) for part in parts))

    def kind(self, misplaced: float) -> Kind:
        """The kind of the largest part; a wrong shape if even that is small beside the total variation."""
        parts = {Kind.SHIFTED: self.shift, Kind.NARROW: self.narrow, Kind.WIDE: self.wide}
        largest = max(parts, key=lambda kind: parts[kind])
        return largest if parts[largest] >= misplaced**2 / 2 else Kind.SHAPE  # tv² ≤ KL/2 (Pinsker)

    def to_dict(self) -> dict[str, float]:
        """The parts as JSON-ready values."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a verdict follows from.

    Attributes:
        estimator: The estimator of the curve, or None.
        scores: The scores by name.
        spectrum: The curve, or None.
        certificate: Upper band on the curve, or None.
        drift: Which columns of a table differ, or None.
        moved: How means and variances differ, or None.
        storage: How a side was rounded because the other one was stored in a coarser type, or None.
        pairs: The curve of pairs of prompt and answer, or None.
    """

    estimator: str | None
    scores: Mapping[str, Score]
    spectrum: RatioSpectrum | None = None
    certificate: Certificate | None = None
    drift: ColumnDrift | None = None
    moved: Moved | None = None
    storage: str | None = None
    pairs: RatioSpectrum | None = None

    @property
    def of_pairs(self) -> Evidence:
        """The evidence about pairs of prompt and answer."""
        named = {name.removeprefix("pairs_"): one for name, one in self.scores.items() if name.startswith("pairs_")}
        return Evidence(self.estimator, named, self.pairs)

    def at_least(self, side: str, lam: float) -> float:
        """The certificate's lower bound on the invented mass `1 − α(λ)` or the missed mass `1 − β(1/λ)`."""
        if self.certificate is None:
            return 0.0
        return 1 - (self.certificate.alpha(lam) if side == "invented" else self.certificate.beta(1 / lam))

    def beyond_chance(self, name: str) -> float:
        """A share corrected for chance, but not less than its bound."""
        bound = self.at_least("invented", 1.0) if name == "tv" else self.at_least(name, FAR)
        return max(bound, _corrected(self.scores[name]))

    def plateau(self, side: str) -> float:
        """The mass of one side that remains at λ = `BEYOND`, if it falls on as up to the largest λ that is resolved.

        If a share e of one set had the other one 1/λ times as densely, e n/λ of its n samples would lie there.
        """
        share, n = (
            self.beyond_chance(side),
            self.scores[side].n_real if side == "invented" else self.scores[side].n_fake,
        )
        lam = float(np.clip((n or 0) * share / SEEN, FAR, RESOLVED))
        if self.spectrum is None or lam <= FAR:
            return share
        near, left = self._left(side, FAR), self._left(side, lam)
        fall = (near - left) * float(np.log(BEYOND / lam) / np.log(lam / FAR))
        return max(self.at_least(side, BEYOND), min(left - max(0.0, fall), share))

    def _left(self, side: str, lam: float) -> float:
        """The mass of one side beyond λ, by the curve."""
        assert self.spectrum is not None
        return 1 - (self.spectrum.alpha(lam) if side == "invented" else self.spectrum.beta(1 / lam))


def verdict(evidence: Evidence) -> Verdict:
    """What a model does: copies, drops, invents, too narrow, …, close, indistinguishable, or cannot tell.

    A difference is named only if the two-sample test rejects P = Q, or, without a test, if the interval of the total
    variation excludes its chance level. In tables it is also enough that a single column, or the dependence of two
    columns, differs beyond doubt. A model is called indistinguishable only if, in addition, no interval of a score
    excludes chance. Copies are named beside whatever else there is.

    References:
        docs/theory.md, Kinds of differences.
    """
    copies, found = _copies(evidence.scores), _of_prompts(evidence, _other(evidence))
    if copies is not None:
        named = _named_kinds(found)
        found = Verdict(f"{copies} {found}" if named else copies, (Kind.COPIES, *named))
    if evidence.storage is None:
        return found
    return Verdict(f"{found} Mixed storage: one side was {evidence.storage}.", (*found.kinds, Kind.STORAGE))


def _other(evidence: Evidence) -> Verdict:
    """The verdict without copies."""
    scores, drift = evidence.scores, evidence.drift
    if evidence.estimator is None:
        return Verdict("No verdict: add `auto` to the metrics.", (Kind.CANNOT_TELL,))
    basis, clearest = _basis(evidence.estimator, scores), None if drift is None else drift.clearest()
    if clearest is not None:
        basis += f"; {clearest[0]}, p = {clearest[1].settings['p_value'] * clearest[1].settings['tests']:.2g}"
    elif not _rejected(evidence):
        return _unconfirmed(evidence, basis)
    columns = None if clearest is None else clearest[1]
    sentence, kinds = _difference(evidence, 0.0 if columns is None else _corrected(columns))
    return Verdict(f"{sentence} ({basis}).", kinds)


def _of_prompts(evidence: Evidence, answers: Verdict) -> Verdict:
    """What the pairs of prompt and answer show beyond the answers alone (docs/theory.md, Prompts)."""
    scores = evidence.scores
    seen, tv = scores.get("prompt_dependence"), scores.get("pairs_tv")
    beyond = None if tv is None or tv.settings["p_value"] > LEVEL else _misplaced_pairs(evidence, tv)
    if beyond is None and seen is not None and seen.settings["p_value"] > LEVEL:
        why = f"real answers do not show to which prompt they belong, p = {seen.settings['p_value']:.2g}"
        sentence = f"Blind to the prompt: in these features {why}. Answers alone: {answers}"
        return Verdict(sentence, (Kind.BLIND_TO_THE_PROMPT, *answers.kinds))
    beyond = beyond or _fewer_answers(evidence)
    if beyond is None:
        return answers
    return Verdict(f"{beyond} Answers alone: {answers}", (*beyond.kinds, *_named_kinds(answers)))


def _misplaced_pairs(evidence: Evidence, tv: Score) -> Verdict | None:
    """What is lost from answers to pairs, named by its side: precision, or recall alone."""
    pairs, alone = evidence.of_pairs, evidence.scores
    known = evidence.estimator is not None and _rejected(evidence)
    lost = {
        name: pairs.beyond_chance(name) - (evidence.beyond_chance(name) if known else 0.0)
        for name in ("tv", "invented", "missed")
    }
    spread = alone["prompt_spread"]
    elsewhere = spread.interval is not None and 1.0 not in spread.interval  # around what the prompts predict
    most = 0.0 if tv.interval is None else chance_corrected(tv.interval.high, tv.chance or 0.0)
    if lost["tv"] < MISPLACED and not (elsewhere and most >= MISPLACED):
        return None
    basis = f"pairs, p = {tv.settings['p_value']:.2g}"
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
    if found is None or found.chance is None or found.settings["p_value"] > LEVEL:
        return None
    fits = evidence.beyond_chance("invented") if tv is None else evidence.of_pairs.beyond_chance("invented")
    if 1 - found.value / found.chance < MISPLACED or (
        found.settings["against"] != "two references" and fits >= MISPLACED
    ):
        return None
    number = f"{found.value:.3g} different answers in effect, and {found.chance:.3g} in the data"
    said = f"Collapses within prompts: a prompt has {number} (p = {found.settings['p_value']:.2g})."
    return Verdict(said, (Kind.COLLAPSES_WITHIN_PROMPTS,))


def _named_kinds(found: Verdict) -> tuple[Kind, ...]:
    """The kinds of a verdict that names a difference."""
    none = (Kind.CLOSE, Kind.INDISTINGUISHABLE, Kind.CANNOT_TELL)
    return () if found.kind in none else found.kinds


def _unconfirmed(evidence: Evidence, basis: str) -> Verdict:
    """Indistinguishable, unless an interval excludes chance, or there was no test: then nobody can tell."""
    scores = evidence.scores
    if "c2st" not in scores and evidence.estimator not in FINE:
        unseen = (
            f"Cannot tell: no difference shows, but {evidence.estimator} sees coarse ones only. Add `auto` ({basis})."
        )
        return Verdict(unseen, (Kind.CANNOT_TELL,))
    above = [name for name in ("tv", "missed", "invented") if above_chance(scores[name])]
    if not above:
        sentence = f"Indistinguishable from the data at this sample size ({basis})."
        return Verdict(sentence, (Kind.INDISTINGUISHABLE,))
    moved = f"{_amount(scores['tv'])} of its samples seem to be misplaced"
    return Verdict(
        f"Cannot tell: {moved}, but the two-sample test does not confirm it. Collect more samples ({basis}).",
        (Kind.CANNOT_TELL,),
    )


def above_chance(score: Score) -> bool:
    """Whether the whole interval of a score lies above its chance level."""
    return score.interval is not None and score.interval.low > (score.chance or 0.0)


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
    return f"Copies: {_percent(_corrected(copies))} of its samples nearly coincide with a real sample."


def _basis(estimator: str, scores: Mapping[str, Score]) -> str:
    """What the verdict rests on: the estimator, the test, and samples that were counted once."""
    test, tv = scores.get("c2st"), scores["tv"]
    repeats = tv.settings.get("repeats_left_out", 0)
    basis = estimator if test is None else f"{estimator}, p = {test.settings['p_value']:.2g}"
    many = repeats > SHARE * ((tv.n_real or 0) + (tv.n_fake or 0))
    return f"{basis}; {repeats:,} repeated samples are not counted" if many else basis


def _rejected(evidence: Evidence) -> bool:
    """Whether the model is known to differ from the data."""
    if (test := evidence.scores.get("c2st")) is not None:
        return bool(test.settings["p_value"] <= LEVEL)
    tv, chance = evidence.scores["tv"], evidence.scores["tv"].chance or 0.0
    least = tv.value if tv.interval is None else tv.interval.low
    return max(evidence.at_least("invented", 1.0), least - chance) > 0


def _difference(evidence: Evidence, columns: float) -> tuple[str, tuple[Kind, ...]]:
    """What the difference is, and how large: all in all at least as large as in single columns or pairs of them."""
    scores, misplaced = evidence.scores, max(evidence.beyond_chance("tv"), columns)
    if min(evidence.beyond_chance(side) for side in ("missed", "invented")) >= APART:
        overlap = f"{_amount(scores['tv'], misplaced)} of its samples would have to move"
        return f"Far from the data: the two hardly overlap; {overlap}", (Kind.FAR,)
    missed, invented = evidence.plateau("missed"), evidence.plateau("invented")
    if max(missed, invented) >= max(SHARE, misplaced * MAIN):
        return _beyond(scores, missed, invented)
    return _closeness(evidence, misplaced) if misplaced < MISPLACED else _displacement(evidence, scores, misplaced)


def _beyond(scores: Mapping[str, Score], missed: float, invented: float) -> tuple[str, tuple[Kind, ...]]:
    """Mass of one side where there is little or nothing of the other."""
    lost = f"{_amount(scores['missed'], missed)} of the data"
    made_up = f"{_amount(scores['invented'], invented)} of its samples"
    if missed > 2 * invented:
        return f"Drops modes: it produces {lost}, or more, far too rarely or never", (Kind.DROPS,)
    if invented > 2 * missed:
        return f"Invents: {made_up}, or more, lie where there is little or no data", (Kind.INVENTS,)
    both = f"Both drops modes ({lost}, or more) and invents ({made_up}, or more)"
    return both, (Kind.DROPS, Kind.INVENTS)


def _closeness(evidence: Evidence, misplaced: float) -> tuple[str, tuple[Kind, ...]]:
    """Close, if the interval of the total variation says so as well; otherwise nobody can tell how large it is."""
    tv = evidence.scores["tv"]
    if evidence.estimator not in FINE:
        seen = f"{evidence.estimator} sees {_percent(misplaced)} of it, and may miss most. Add `auto`"
        return f"Differs from the data, but nobody can tell how much: {seen}", (Kind.CANNOT_TELL,)
    most = 0.0 if tv.interval is None else chance_corrected(tv.interval.high, tv.chance or 0.0)
    if most > MISPLACED:
        unknown = f"up to {_percent(most)} of its samples may be misplaced"
        return f"Differs from the data, but more samples are needed to say how: {unknown}", (Kind.CANNOT_TELL,)
    most = max(most, misplaced)
    return f"Close to the data: at most {_percent(most)} of its samples would have to move", (Kind.CLOSE,)


def _displacement(evidence: Evidence, scores: Mapping[str, Score], misplaced: float) -> tuple[str, tuple[Kind, ...]]:
    """Too narrow or too wide; else wrong proportions, if nearly all of it shows between cells; else what means show."""
    moved = f"{_amount(scores['tv'], misplaced)} of its samples would have to move"
    found = evidence.moved or Moved(0.0, 0.0, 0.0)
    kind = found.kind(misplaced)
    if kind not in (Kind.NARROW, Kind.WIDE) and (found.cells or 0.0) >= BETWEEN * misplaced:
        return f"Covers the data in the wrong proportions: {moved}", (Kind.PROPORTIONS,)
    said = {
        Kind.NARROW: "Too narrow: it covers the data, but varies too little",
        Kind.WIDE: "Too wide: it covers the data, but varies too much",
        Kind.SHIFTED: "Shifted: it covers the data, but around another centre",
        Kind.SHAPE: "Covers the data with a wrong shape",
    }
    return f"{said[kind]}: {moved}", (kind,)


def _corrected(score: Score) -> float:
    return chance_corrected(score.value, score.chance or 0.0)


def _amount(score: Score, share: float | None = None) -> str:
    """A share in per cent with its interval: "about 12 % [9 %, 15 %]"."""
    value = score.value if share is None else max(share, score.value)
    if score.interval is None or value > score.interval.high:
        return f"about {_percent(value)}"
    return f"about {_percent(value)} [{_percent(score.interval.low)}, {_percent(score.interval.high)}]"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
