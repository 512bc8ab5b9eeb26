"""The summary of the page: models in order of merit, and one recommendation per model that follows from its scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from precall.improve.planning import Range, of_assessment, planned
from precall.metrics.scores.results import Assessment
from precall.metrics.scores.score import FAR
from precall.metrics.scores.verdict import Kind
from precall.printing import shown
from precall.theory.spectrum import RatioSpectrum

BUDGETS = (1, 2, 4, 8)
MOST, LONGEST = 4, 30  # findings, and models of one finding, that are named; characters of a name
GAIN = 0.05  # least improvement of a share that makes curation worthwhile
WIDE, UNSURE = 0.2, 0.05  # an interval of this length that reaches down to this says little
SHARES: Mapping[str, Callable[[RatioSpectrum], float]] = {
    "invented": lambda spectrum: 1 - spectrum.alpha(FAR),
    "missed": lambda spectrum: 1 - spectrum.beta(1 / FAR),
    "total variation": lambda spectrum: spectrum.total_variation,
}


def ranking(comparison: Mapping[str, Assessment]) -> dict[str, Any]:
    """The order of the models, the score it follows, and which models cannot be told from the one before.

    Models are ranked by the area under their curve or, if one of them has no curve, by FID. A model that copies the
    data comes last whatever its scores are. Without a common score the order is the given one.
    """
    by = next((name for name in ("area", "fid") if all(name in one.scores for one in comparison.values())), None)
    names = list(comparison)
    if by is None:
        return {"by": None, "order": names, "close": []}
    sign = 1 if by == "fid" else -1
    names.sort(key=lambda name: (copies(comparison[name]), sign * comparison[name].scores[by].value))
    close = []  # models whose interval overlaps that of the model before
    for before, name in pairwise(names):
        one, other = comparison[before], comparison[name]
        first, second = one.scores[by].interval, other.scores[by].interval
        if first and second and copies(one) == copies(other) and first.low <= second.high and second.low <= first.high:
            close.append(name)
    return {"by": by, "order": names, "close": close}


def findings(comparison: Mapping[str, Assessment]) -> str:
    """What the models do, in one sentence in plain words, from the best model to the worst."""
    order = ranking(comparison)["order"]
    said: dict[str, list[str]] = {}
    for name in order:
        said.setdefault(_does(comparison[name]), []).append(_called(name))
    phrases = [f"{_listed(names)} {does}" for does, names in list(said.items())[:MOST]]
    rest = len(order) - sum(len(names) for names in list(said.values())[:MOST])
    sentence = "; ".join([*phrases, *([f"{rest} more below"] if rest else [])]) + "."
    return f"Each{sentence[4:]}" if sentence.startswith("each of ") else sentence  # a name stays as it is


def _called(name: str) -> str:
    """A name in a sentence: in quotes if it has spaces, and without its middle if it is long."""
    name = shown(name)
    name = name if len(name) <= LONGEST else f"{name[: LONGEST // 2]}…{name[-LONGEST // 2 :]}"
    return f"“{name}”" if " " in name else name


def _does(one: Assessment) -> str:
    """What a model does, in plain words."""
    kinds = [kind for kind in one.verdict.kinds if kind in _PLAIN]
    share = {name: f"{100 * one.scores[name].value:.0f} %" for name in ("missed", "invented") if name in one.scores}
    lost = [shown(str(group)) for group in one.record.groups.only_real] if one.record.groups else []
    said = [f"never produces {_listed(lost, 'the groups ')}"] if lost else []
    return " and ".join([*said, *(_PLAIN[kind].format(**share) for kind in kinds)])


def _listed(names: list[str], several: str = "each of ") -> str:
    if len(names) == 1:
        return names[0]
    last = names[-1] if len(names) <= MOST else f"{len(names) - MOST + 1} more"
    return f"{several}{', '.join(names[: min(len(names), MOST) - 1])} and {last}"


def nothing_to_show(one: Assessment) -> set[str]:
    """The galleries of missed or invented samples that would show what the verdict or the scores deny.

    A gallery is shown if the verdict names a difference and the whole interval of the share lies above chance.
    """
    shares = {name: one.scores[name] for name in ("missed", "invented") if name in one.scores}
    least = {name: score.value if score.interval is None else score.interval.low for name, score in shares.items()}
    if set(one.verdict.kinds) <= {*_FIXED, Kind.STORAGE}:
        return {"missed", "invented"}
    return {name for name, score in shares.items() if least[name] <= (score.chance or 0.0)}


def copies(one: Assessment) -> bool:
    """Whether the verdict is that the model copies the data."""
    return Kind.COPIES in one.verdict.kinds


def improvable(one: Assessment) -> bool:
    """Whether a sampling budget would bring the model closer to the data by a margin worth its cost."""
    if one.estimator is None or one.verdict.kind not in _CURABLE:
        return False
    return max(_gains(one, budgeted(one), "total variation").values()) >= GAIN


def recommendation(one: Assessment) -> str:
    """What to do next about a model, in one or two sentences."""
    kind = one.verdict.kind
    if kind in _FIXED:
        return _unsure(one, "tv") or _FIXED[kind] if kind is Kind.INDISTINGUISHABLE else _FIXED[kind]
    broader, narrower = _SAMPLING.get(one.encoder or "", _SAMPLING[""])
    share, otherwise = ("total variation", _TRAIN) if len(one.verdict.kinds) > 1 else _CURABLE[kind]
    otherwise = {_BROADER: broader, _NARROWER: narrower}.get(otherwise, otherwise)
    score = "tv" if share == "total variation" else share
    curation = _curation(one, share)
    if one.verdict.kinds == (Kind.DROPS,) and curation is not None:
        continued = curation[0].lower() + curation[1:]
        curation = f"{broader} If it produces the missed samples too rarely rather than never, {continued}"
    return _unsure(one, score) or curation or otherwise


_PLAIN = {  # kind of a verdict: what the model does
    Kind.COPIES: "copies its training data",
    Kind.DROPS: "misses about {missed} of the data",
    Kind.INVENTS: "invents about {invented} of its samples",
    Kind.FAR: "is far from the data",
    Kind.NARROW: "varies too little",
    Kind.WIDE: "varies too much",
    Kind.SHIFTED: "is off centre",
    Kind.PROPORTIONS: "has the right kinds of samples in the wrong proportions",
    Kind.SHAPE: "puts samples in the wrong places",
    Kind.REPEATS: "repeats its own samples",
    Kind.DIFFERS: "puts samples in the wrong places",
    Kind.MISALIGNED: "gives answers that do not fit their prompts",
    Kind.COLLAPSES_WITHIN_PROMPTS: "gives too few different answers to a prompt",
    Kind.BLIND_TO_THE_PROMPT: "cannot be judged by prompt in these features",
    Kind.CLOSE: "is close to the data",
    Kind.INDISTINGUISHABLE: "cannot be told from the data",
    Kind.CANNOT_TELL: "cannot be judged yet",
}
_BROADER, _NARROWER = "broader", "narrower"  # what to do depends on how such samples are made
_NEVER = "curation cannot add what it never produces."
_TEXTS = (
    f"Sample more broadly (a higher temperature or top-p): {_NEVER}",
    "Sample more conservatively: a lower temperature or top-p.",
)
_SAMPLING = {  # encoder: how to sample more broadly, and more conservatively
    "": (
        f"Sample more broadly (weaker truncation or guidance, a higher temperature): {_NEVER}",
        "Sample more conservatively: stronger truncation or guidance, or a lower temperature.",
    ),
    "words": _TEXTS,
    "ngrams": _TEXTS,
    "minilm": _TEXTS,
    "gpt2-large": _TEXTS,
    "table": (
        f"Let the model see the missing values and ranges more often (rebalance its training rows, or condition on the "
        f"column), or train it longer: {_NEVER}",
        "Constrain the model: reject rows with values, ranges or combinations that the data do not have, or train it "
        "longer.",
    ),
}
_TRAIN = "Train longer or with a larger model: selecting among its samples would not bring it closer to the data."
_FIXED = {  # kind of a verdict: what to do
    Kind.COPIES: "Look for memorisation: remove duplicates from the training data, train for fewer steps, or "
    "regularise. While the model copies, its other scores are too good.",
    Kind.REPEATS: "Look for a collapse: draw every sample with noise of its own, or sample more broadly.",
    Kind.INDISTINGUISHABLE: "Nothing to correct at this sample size. More samples would reveal smaller differences.",
    Kind.CANNOT_TELL: "The verdict says what would decide: more samples, a holdout, or another metric.",
    Kind.MISALIGNED: "Strengthen the condition on the prompt (guidance, or training on more pairs), and check that "
    "prompts and answers are paired as intended.",
    Kind.COLLAPSES_WITHIN_PROMPTS: "Sample more broadly (a higher temperature or top-p, weaker guidance), or tune less "
    "far from the base model: a stronger penalty keeps more answers.",
    Kind.BLIND_TO_THE_PROMPT: "Choose an encoder whose features show to which prompt an answer belongs.",
    Kind.CLOSE: "Nothing urgent. More samples would show whether the remaining difference matters.",
}
_CURABLE = {  # kind of a verdict: the share that curation should lower, and what to do if it does not
    Kind.DROPS: ("missed", _BROADER),
    Kind.INVENTS: ("invented", _NARROWER),
    Kind.NARROW: ("total variation", _BROADER),
    Kind.WIDE: ("total variation", _NARROWER),
    Kind.DIFFERS: ("total variation", "Collect more samples: they would show how the model differs from the data."),
    **dict.fromkeys((Kind.FAR, Kind.SHIFTED, Kind.PROPORTIONS, Kind.SHAPE), ("total variation", _TRAIN)),
}


def _unsure(one: Assessment, name: str) -> str | None:
    """The advice to collect more data if the interval of a score is long and reaches nearly to 0."""
    interval = one.scores[name].interval
    if interval is None or interval.high - interval.low < WIDE or interval.low > UNSURE:
        return None
    points = round(100 * (interval.high - interval.low))
    what = {"tv": "total variation"}.get(name, f"{name} share")
    return f"Collect more samples: the interval of the {what} spans {points} points."


def budgeted(one: Assessment) -> dict[int, Range]:
    """The curves that each budget reaches: supported by the samples, and at best. `precall improve` plans the same."""
    found = planned(*of_assessment(one), BUDGETS)
    return {K: Range(one.spectrum, one.spectrum) if K == 1 else found.refined(K) for K in BUDGETS}


def _gains(one: Assessment, curves: Mapping[int, Range], share: str) -> dict[int, float]:
    """How much each budget lowers a share, by what the samples support."""
    return {K: SHARES[share](one.spectrum) - SHARES[share](curve.supported) for K, curve in curves.items()}


def _curation(one: Assessment, share: str) -> str | None:
    """The smallest budget with at least half of what the best one gains, or None if that is too little."""
    curves, before = budgeted(one), SHARES[share](one.spectrum)
    gains = _gains(one, curves, share)
    most = max(gains.values())
    if most < GAIN:
        return None
    budget = next(K for K in BUDGETS if gains[K] >= most / 2)
    what = share if share == "total variation" else f"{share} share"
    ends = [100 * SHARES[share](spectrum) for spectrum in curves[budget]]
    after = f"{ends[0]:.0f} %" if round(ends[0]) == round(ends[1]) else f"{ends[1]:.0f} to {ends[0]:.0f} %"
    change = f"{what} {100 * before:.0f} % → {after}"
    return f"Curate: draw {budget} samples for each one that you keep (`precall improve`): {change}, estimated."
