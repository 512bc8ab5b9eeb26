"""The metric "prompts": the curve of the pairs (prompt, answer), what the features see, and answers within prompts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from precall.metrics.assessing.run import Run
from precall.metrics.classifiers.folds import FEWEST
from precall.metrics.classifiers.result import ClassifierResult
from precall.metrics.inputs.features import Pair
from precall.metrics.inputs.sides import Prompted
from precall.metrics.prompts.within import around_prompts, spread_score, within_scores
from precall.metrics.scores.metric import Found, Metric, curve_found
from precall.metrics.scores.score import CURVE_SCORES, INFINITY, Score, ScoreInfo
from precall.theory.arrays import Array, Index, to_numpy

LEVEL = 0.05  # of the test of the pairs


def swapped(number: Index, seed: int) -> tuple[Index, Index, Index]:
    """Prompts in couples that exchange their answers: the rows, the rows whose prompts they get, and their couples.

    A couple of prompts is in one fold, so that no answer is trained on in one pairing and tested in the other.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(number))
    _, first = np.unique(number[order], return_index=True)
    one_each = rng.permutation(order[first])[: len(first) // 2 * 2]  # one sample per prompt
    couples = one_each.reshape(-1, 2)
    return one_each, couples[:, ::-1].ravel(), np.repeat(np.arange(len(couples)), 2)


def _dependence(run: Run, x: Array, prompted: Prompted, c: Array) -> ClassifierResult:
    """Real pairs against real pairs whose answers were exchanged between prompts."""
    seed = run.seed
    if prompted.drawn:
        rows, partners, couples = swapped(prompted.number, seed)
        true, false = np.hstack([c[rows], x[rows]]), np.hstack([c[partners], x[rows]])
        return run.classified("auto", Pair(true, false, (couples, couples)))
    rows = np.random.default_rng(seed).permutation(len(x))
    half = len(rows) // 2
    shuffled = np.random.default_rng(seed + 1).permutation(rows[half:])
    true, false = np.hstack([c, x])[rows[:half]], np.hstack([c[shuffled], x[rows[half:]]])
    return run.classified("auto", Pair(true, false))


def _compute(run: Run) -> Found:
    real, fake = run.sources["real"], run.sources["fake"]
    a, b = real.prompted, fake.prompted
    assert a is not None  # `Reference.assess` sets them
    assert b is not None
    scores = within_scores(real, fake, run.seed)
    if a.features is None or b.features is None:
        return Found(scores)
    x, y = (to_numpy(side.features).astype(np.float64) for side in (real, fake))
    run.stage("pairs")(0, 2)
    given = (a.features, b.features), (x, y), (a.number, b.number)
    off = around_prompts(*given)
    pair = Pair(np.hstack([a.features, x, off[0]]), np.hstack([b.features, y, off[1]]), run.pair.units)
    found = run.classified("auto", pair)
    if found.p_value <= LEVEL:  # the difference is clear, so that nothing is shrunk
        found = replace(found, spectrum=replace(found.held_out, shrunk=False).spectrum())
    run.stage("pairs")(1, 2)
    uncertainty = found.uncertainty(seed=run.seed)
    uncertainty["details"] = {**uncertainty["details"], "examples": _examples(found, b)}
    curve = curve_found(pair, found.spectrum, p_value=found.p_value, **uncertainty)
    seen = _dependence(run, x, a, a.features)
    tested: dict[str, Any] = {"settings": {"test": seen.test}, "p_value": seen.p_value}
    dependence = Score(seen.spectrum.total_variation, n_real=len(seen.scores_real), **tested)
    spread = spread_score(*given)
    named = {f"pairs_{name}": score for name, score in curve.scores.items()}
    return Found({**named, "prompt_dependence": dependence, "prompt_spread": spread, **scores}, curve.spectrum)


def _examples(found: ClassifierResult, prompted: Prompted) -> list[str]:
    """The prompts whose answers fit worst."""
    worst = np.argsort(found.log_ratio_fake, kind="stable")
    texts = dict.fromkeys(prompted.texts[i][:200] for i in prompted.number[worst[:64]].tolist())
    return list(texts)[:8]


def _of_pairs(info: ScoreInfo) -> ScoreInfo:
    shown: Literal["table", "page", "json"] = "table" if info.name in ("area", "invented", "missed") else "json"
    shown = "page" if info.name == "tv" else shown
    return replace(info, name=f"pairs_{info.name}", label=f"{info.label} of pairs", meaning="of the pairs", shown=shown)


WITHIN = (
    ScoreInfo("prompt_dependence", "dependence on prompt", 0, 1, None, "tv of real pairs and exchanged ones", "page"),
    ScoreInfo(
        "prompt_spread", "spread around prompt", 0, INFINITY, None, "off its prediction, fakes over reals", "page"
    ),
    ScoreInfo("answers_per_prompt", "answers per prompt", 1, INFINITY, "higher", "effective number", "table"),
    ScoreInfo("near_duplicates", "near-duplicates", 0, 1, "lower", "share of pairs of answers to one prompt", "page"),
    ScoreInfo("distinct_2", "distinct-2", 0, 1, "higher", "share of different word pairs per prompt", "page"),
)
PROMPTS = Metric(
    name="prompts",
    reads="pairs of prompt and answer, and answers within prompts",
    scores=(*map(_of_pairs, CURVE_SCORES), *WITHIN),
    interval="bootstrap of the prompts with a new calibration; answers: Student's t over the prompts",
    compute=_compute,
    needs="prompts (`prompts=`, `--prompt`), and is then always computed",
    fewest=FEWEST,
    shares="classifiers",
)
