"""Prompted models with known conditional laws: error of the pairs' curve, coverage of its intervals, and verdicts.

    python -m benchmarks.prompts --jobs 8 --first-seed 100 --out benchmarks/results/prompts.json

The rules were made on seeds below 100.

Gaussian: prompts c ~ N(0, I₂), answers N(c, I/4) of the data. Discrete: prompts of six types, five answers with fixed
probabilities per type. One reference per prompt. Models: the data themselves ("same"), answers of another prompt
("permuted"), narrower answers ("narrow"), and one answer of the data repeated with a little noise ("repeated").
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from benchmarks.common import Row, parser, print_table
from benchmarks.pool import add_options, completed

SLOPES = (1 / 3, 1 / 2, 1.0, 2.0, 3.0)
TYPES, ANSWERS, WIDTH = 6, 5, 0.5
DRAWS = 400_000  # of the true curve of Gaussian laws
EXPECTED = {
    "same": "indistinguishable",
    "permuted": "misaligned",
    "narrow": "collapses within prompts",
    "repeated": "collapses within prompts",
}


@dataclass(frozen=True)
class Task:
    """One assessment: a law, a model, numbers of prompts and of answers per prompt, and a seed."""

    law: str
    model: str
    prompts: int
    answers: int
    seed: int


@cache
def table(model: str) -> np.ndarray:
    """Probabilities of the answers to each type of prompt."""
    data = np.random.default_rng(7).dirichlet(np.full(ANSWERS, 0.5), size=TYPES)
    if model == "permuted":
        return np.tile(data.mean(axis=0), (TYPES, 1))
    if model == "narrow":
        return np.where(np.eye(ANSWERS)[data.argmax(axis=1)] > 0, 0.96, 0.04 / (ANSWERS - 1))
    return data


def log_density(model: str, c: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Log-density of Gaussian answers up to a constant."""
    if model == "permuted":
        variance = 1 + WIDTH**2
        return -(x**2).sum(axis=1) / 2 / variance - np.log(variance)
    width = WIDTH / 2 if model == "narrow" else WIDTH
    return -((x - c) ** 2).sum(axis=1) / 2 / width**2 - 2 * np.log(width)


def gaussian(model: str, c: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Answers of a model, one per row of c."""
    if model == "permuted":
        return np.sqrt(1 + WIDTH**2) * rng.normal(size=c.shape)
    return c + (WIDTH / 2 if model == "narrow" else WIDTH) * rng.normal(size=c.shape)


def discrete(model: str, types: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Answers of a model, one per type."""
    drawn = (table(model)[types].cumsum(axis=1) < rng.random(len(types))[:, None]).sum(axis=1)
    return np.eye(ANSWERS)[np.minimum(drawn, ANSWERS - 1)]


@cache
def truth(law: str, model: str) -> Callable[[float], float]:
    """The true α(λ) of the pairs."""
    if law == "discrete":
        p, q = table("same"), table(model)
        return lambda lam: float(np.minimum(lam * p, q).sum(axis=1).mean())
    rng = np.random.default_rng(1)
    c = rng.normal(size=(DRAWS, 2))
    y = gaussian(model, c, rng)
    ratio = np.exp(log_density("same", c, y) - log_density(model, c, y))
    return lambda lam: float(np.minimum(lam * ratio, 1).mean())


def sides(task: Task) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features of prompts, references and answers."""
    rng = np.random.default_rng([task.seed, task.prompts, task.answers])
    if task.law == "discrete":
        types = rng.integers(TYPES, size=task.prompts)
        c = np.hstack([np.eye(TYPES)[types], rng.random((task.prompts, 1))])  # every prompt is its own
        real, many, draw = discrete("same", types, rng), np.repeat(types, task.answers), discrete
    else:
        c = types = rng.normal(size=(task.prompts, 2))
        real, many, draw = gaussian("same", c, rng), np.repeat(c, task.answers, axis=0), gaussian
    if task.model != "repeated":
        return c, real, draw(task.model, many, rng)
    one = np.repeat(draw("same", types, rng), task.answers, axis=0)
    return c, real, one + 0.02 * rng.normal(size=one.shape) * (task.law == "gaussian")


def measured(task: Task) -> list[Row]:
    """Assess one model."""
    import precall

    c, real, fake = sides(task)
    prompts = {"real": c, "fake": np.repeat(c, task.answers, axis=0)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = precall.assess(real=real, fake=fake, prompts=prompts, seed=task.seed)
    row: Row = {**vars(task), "kinds": [str(kind) for kind in found.verdict.kinds]}
    row |= {
        "answers_p": found.scores["c2st"].p_value,
        "pairs_p": found.scores["pairs_tv"].p_value,
    }
    row |= {"seen_p": found.scores["prompt_dependence"].p_value}
    if task.model != "repeated":  # its law is that of the data, as far as new prompts are concerned
        alpha, spectrum = truth(task.law, task.model), found.spectra["prompts"]
        errors = [abs(spectrum.alpha(lam) - alpha(lam)) / min(1.0, lam) for lam in SLOPES]
        values = {"tv": 1 - alpha(1.0), "invented": 1 - alpha(3.0), "missed": 1 - 3 * alpha(1 / 3)}
        ends = {name: found.scores[f"pairs_{name}"].interval for name in values}  # up to rounding
        covered = {name: ends[name].low - 1e-9 <= value <= ends[name].high + 1e-9 for name, value in values.items()}
        row |= {"error": float(np.mean(errors)), "covered": covered}
    return [row]


def summary(rows: list[Row]) -> list[Row]:
    """One line per setting."""
    settings = dict.fromkeys((row["law"], row["model"], row["prompts"], row["answers"]) for row in rows)
    lines = []
    for law, model, prompts, answers in settings:
        of = [r for r in rows if (r["law"], r["model"], r["prompts"], r["answers"]) == (law, model, prompts, answers)]
        covered = [share for r in of for share in r.get("covered", {}).values()]
        lines.append(
            {
                **{"law": law, "model": model, "prompts": prompts, "answers": answers, "seeds": len(of)},
                "error": float(np.mean([r.get("error", np.nan) for r in of])),
                "covered": float(np.mean(covered)) if covered else float("nan"),
                "named": float(np.mean([EXPECTED[model] in r["kinds"] for r in of])),
                "alarm": float(np.mean([bool({*r["kinds"]} & {"misaligned", "collapses within prompts"}) for r in of])),
                "answers alone": float(np.mean([r["answers_p"] > 0.05 for r in of])),
            }
        )
    return lines


def main() -> None:
    made = parser(__doc__, smoke="one seed of 100 prompts, one law")
    add_options(made)
    made.add_argument("--seeds", type=int, default=20)
    made.add_argument("--first-seed", type=int, default=0)
    options = made.parse_args()
    sizes = ((100, 1),) if options.smoke else ((100, 1), (500, 1), (100, 8), (500, 4))
    tasks = [
        Task(law, model, prompts, answers, seed)
        for seed in range(options.first_seed, options.first_seed + (1 if options.smoke else options.seeds))
        for prompts, answers in sizes
        for law in (("gaussian",) if options.smoke else ("gaussian", "discrete"))
        for model in EXPECTED
        if model != "repeated" or answers > 1
    ]
    print_table("prompts", summary(completed(tasks, measured, options)))


if __name__ == "__main__":
    main()
