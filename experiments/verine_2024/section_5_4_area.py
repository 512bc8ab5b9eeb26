"""Section 5.4 of Verine (2024): the area under the curve as an objective, trained on eight Gaussians.

    python -m experiments.verine_2024.section_5_4_area [--jobs 3] [--smoke] [--seeds 3] [--out DIR]

The thesis derives the objective and trains nothing with it. Here perceptrons are trained with `Area` (whose weights are
those of docs/errata.md, VER-44), with the f-GAN and with the PR divergence at λ = 1, with the settings of
`common.eight_gaussians_gan`. The area, α(1), α(10) and β(.1) follow from the exact masses of the data on small cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from time import process_time
from typing import TYPE_CHECKING

from experiments.common.arguments import parser
from experiments.common.eight_gaussians import mode_scores, spectrum_on_cells
from experiments.common.eight_gaussians_gan import drawn, trainer
from experiments.common.other_objectives import Area
from experiments.common.parallel import each
from experiments.common.program import plain, sheet_of
from experiments.common.saving import save
from experiments.common.summaries import Row
from precall.tune import FGAN, PRObjective

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OBJECTIVES = {
    "area": Area(),
    "f-GAN": FGAN("gan"),
    "λ = 1": PRObjective(1.0, form="smoothed"),
}
STEPS = 2000


def trained(name: str, seed: int, steps: int) -> Row:
    """Train one GAN, and read its curve at three times."""
    run, started, rows = trainer(OBJECTIVES[name], seed), process_time(), []
    for mark in (steps // 4, steps // 2, steps):
        run.fit(mark)
        points = drawn(run)
        s = spectrum_on_cells(points, 0.1)
        read = {"area": s.area, "alpha(1)": s.alpha(1.0), "alpha(10)": s.alpha(10.0), "beta(.1)": s.beta(0.1)}
        rows.append({"step": mark, **read, "modes": mode_scores(points)["modes"]})
    return {"objective": name, "seed": seed, "marks": rows, "seconds": process_time() - started}


def draw(results: Row, sheet: Figure) -> None:
    panel = sheet.subplots()
    for i, name in enumerate(OBJECTIVES):
        for run in (run for run in results["runs"] if run["objective"] == name):
            steps, areas = zip(*((mark["step"], mark["area"]) for mark in run["marks"]), strict=True)
            panel.plot(steps, areas, f"C{i}o-", lw=0.9, label=name if run["seed"] == 0 else None)
    panel.set(title="area under the curve", xlabel="step", ylim=(0, 1))
    panel.legend(fontsize=7)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__, smoke="20 steps of one objective", seeds=3, jobs=1).parse_args(arguments)
    names, steps, seeds = (["area"], 20, 1) if options.smoke else (list(OBJECTIVES), STEPS, options.seeds)
    runs = list(each(trained, [(name, seed, steps) for name in names for seed in range(seeds)], jobs=options.jobs))
    seconds = sum(run["seconds"] for run in runs)
    results = plain({"smoke": options.smoke, "steps": steps, "runs": runs, "seconds": seconds}, 4)
    print(results)
    save(options.out, "section_5_4_area", results, figure=partial(sheet_of, draw, results, (5, 3)), indent=None)


if __name__ == "__main__":
    main()
