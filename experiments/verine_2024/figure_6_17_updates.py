"""Algorithm 7 of Verine (2024) as printed beside its exact gradient, and a stand-in for Figure 6.17, on 8 Gaussians.

    python -m experiments.verine_2024.figure_6_17_updates [--jobs 5] [--smoke] [--seeds 3] [--out DIR]

The printed loss of the generator is E_Q[K a f(r/(K a))], a = min(1, τ r), with the gradient through r. The exact one,
`OBRSObjective`, is E_Q[K h(max(r/K, 1/κ))], h = f − u f' (docs/theory.md, Training losses). Both are trained at K = 2
and 5 with the settings of `common.eight_gaussians_gan`, without R1 too, and the exact one at K = 2 with τ updated every
1, 10, 100 or 1,000 steps. Each model is refined by its own budget with the ideal ratio. D is twice the Jensen-Shannon
divergence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from experiments.common.arguments import parser
from experiments.common.eight_gaussians import mode_scores, spectrum_on_cells
from experiments.common.eight_gaussians_gan import drawn, trainer
from experiments.common.parallel import each
from experiments.common.program import plain, sheet_of
from experiments.common.saving import save
from experiments.common.summaries import Row
from experiments.verine_2024.figure_6_16_gan import readings
from precall.theory.divergences import divergence
from precall.tune import OBRSObjective

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEPS = 2000


@dataclass
class Printed(OBRSObjective):
    """Algorithm 7, step 4."""

    def generator_loss(self, fake_logits: Tensor) -> Tensor:
        if self.log_tau is None:
            self.refresh(fake_logits)
        assert self.log_tau is not None
        log_r = self.log_ratio(fake_logits)
        K, a = self.budget, torch.clamp(log_r + self.log_tau, max=0.0).exp()  # a = min(1, τ r)
        loss: Tensor = (K * a * divergence(self.divergence).f(log_r.exp() / (K * a))).mean()
        return loss


CASES = {  # objective, steps between updates of τ, R1
    **{f"exact, K = {K}": (OBRSObjective("gan", budget=K), 10, 0.1) for K in (2, 5)},
    **{f"printed, K = {K}": (Printed("gan", budget=K), 10, 0.1) for K in (2, 5)},
    **{f"exact, K = 2, every {every}": (OBRSObjective("gan", budget=2), every, 0.1) for every in (1, 100, 1000)},
    "exact, K = 2, no R1": (OBRSObjective("gan", budget=2), 10, 0.0),
    "printed, K = 2, no R1": (Printed("gan", budget=2), 10, 0.0),
}


def trained(name: str, seed: int, steps: int) -> Row:
    """Train one GAN; readings of its law after rejection, and mode scores before."""
    objective, every, r1 = CASES[name]
    run = trainer(replace(objective), seed, refresh_every=every, r1=r1)
    started, rows = perf_counter(), []
    for mark in (steps // 4, steps // 2, steps):
        run.fit(mark)
        points = drawn(run)
        refined = spectrum_on_cells(points, 0.1).refined(objective.budget)
        rows.append({"step": mark, **readings(refined), "modes": mode_scores(points)["modes"]})
    return {"case": name, "seed": seed, "marks": rows, "seconds": perf_counter() - started}


def draw(results: Row, sheet: Figure) -> None:
    panel = sheet.subplots()
    names = list(dict.fromkeys(run["case"] for run in results["runs"]))
    for i, name in enumerate(names):
        values = [run["marks"][-1]["divergence"] for run in results["runs"] if run["case"] == name]
        panel.plot(values, [i] * len(values), "o", ms=4)
    panel.set_yticks(range(len(names)), names, fontsize=7)
    panel.set(xlabel="D after rejection, one dot per seed")


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, smoke="20 steps of one case", seeds=3, jobs=1).parse_args(arguments)
    names, steps, seeds = (["printed, K = 2"], 20, 1) if options.smoke else (list(CASES), STEPS, options.seeds)
    started, cases = perf_counter(), [(name, seed, steps) for name in names for seed in range(seeds)]
    runs = list(each(trained, cases, jobs=options.jobs))
    results = plain({"smoke": options.smoke, "steps": steps, "runs": runs, "seconds": perf_counter() - started}, 4)
    print(results)
    figure = partial(sheet_of, draw, results, (6, 3), "Verine (2024), Fig. 6.17: eight Gaussians")
    save(options.out, "figure_6_17_updates", results, figure=figure, indent=None)


if __name__ == "__main__":
    main()
