"""Figures 5 and 11 of Sajjadi et al. (2018) with Figure 2 of Simon et al. (2019): classes are added and dropped.

    python -m experiments.sajjadi_2018.figure_5_classes --data mnist [--features network] [--data-dir DIR] [--jobs 2]
        [--inception FILE [--cache FILE]] [--device cuda] [--smoke] [--out DIR]

P has the first five classes and Q the first i, for i = 1 to 10, so precision is min(1, 5/i) and recall min(1, i/5) if
classes are disjoint. Both are drawn from a half of the data; the other half trains a small network, whose penultimate
layer gives the features (`network`). `residual` takes them from a larger network, trained with changed and mixed images
(`common.residual_classifier`), and `residuals` from three such networks side by side. `default` are the features
that `assess` takes by itself. A seed decides networks, halves and samples.

`inception` are features of a given TorchScript network, each image encoded once (convolutions on CUDA in TF32), and a
seed decides samples only. Classes are then predicted by the logistic regression that gives the exact curve.

The curves: `exact` (from class labels, see `common.added_classes`), clusters as published (PRD), Simon's ensemble, and
`auto`, each read at slope 10 and at slope 5, the least at which disjoint classes give these shares; the Inception Score
with the class probabilities of the small network, and FID.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING

from experiments.common.added_classes import curves, errors, posteriors, setting
from experiments.common.arguments import parser
from experiments.common.half_features import NETWORKS, halves, pool
from experiments.common.parallel import each
from experiments.common.program import plain, sheet_of, unit
from experiments.common.saving import save
from experiments.common.summaries import Row

if TYPE_CHECKING:
    from argparse import Namespace

    from matplotlib.figure import Figure

METRICS, CLASSES = ("clusters", "simon", "auto"), tuple(range(1, 11))


def compute(options: Namespace) -> Iterator[Row]:
    """The results so far, after each seed."""
    seeds, counts, n = options.seeds, CLASSES, options.n
    if options.smoke:
        seeds, counts, n = 1, (3, 10), 100
    inception = options.features == "inception"
    sides = [pool(options, 5, counts[-1])] if inception else [halves(options, seed) for seed in range(seeds)]
    truth = list(each(posteriors, [(side,) for side in sides], jobs=min(options.jobs, len(sides))))
    accuracy = [(p.argmax(1) == side.labels).mean() for p, side in zip(truth, sides, strict=True)]
    if inception:  # the same features for every seed, which decides only the samples
        sides, truth = [replace(sides[0], probabilities=truth[0])] * seeds, truth * seeds
    metrics = METRICS[:2] if options.smoke else METRICS
    cases = [(setting(sides[seed], truth[seed], 5, i, n, seed), seed, metrics) for seed in range(seeds) for i in counts]
    rows = list[Row]()
    for (case, seed, _), found in zip(cases, each(curves, cases, jobs=options.jobs), strict=True):
        if seed:  # the picture shows the first seed
            for curve in found["curves"].values():
                del curve["curve"]
        rows.append({"seed": seed, **found})
        if case.classes[1] == counts[-1]:
            names = list(found["curves"])
            table = {name: {"share": errors(rows, name), "exact": errors(rows, name, "exact")} for name in names}
            yield {"n": n, "accuracy": accuracy, "errors": table, "rows": rows}


def draw(results: Row, sheet: Figure) -> None:
    rows = [row for row in results["rows"] if row["seed"] == 0]
    names = list(rows[0]["curves"])
    panels = sheet.subplots(1, len(names) + 1)
    for panel, name in zip(panels[1:], names, strict=True):
        for row in rows:
            panel.plot(*row["curves"][name]["curve"], label=f"{row['classes']}", lw=0.9)
        unit(panel, name)
    panels[0].plot([row["classes"] for row in rows], [row["fid"] for row in rows], label="FID")
    other = panels[0].twinx()
    other.plot([row["classes"] for row in rows], [row["is"] for row in rows], "C1--")
    panels[0].set(title="FID (left), IS (right)", xlabel="classes of Q")
    panels[-1].legend(fontsize=5)


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__, smoke="digits of scikit-learn, two values of i, 100 samples", jobs=1, seeds=3)
    made.add_argument("--data", default="mnist", help="mnist, fashion-mnist or cifar-10")
    made.add_argument("--features", default="network", choices=(*NETWORKS, "default", "inception"))
    made.add_argument("--data-dir", type=Path, help="folder of the data")
    made.add_argument("--inception", type=Path, help="TorchScript network from images to features")
    made.add_argument("--cache", type=Path, help="keep the features of `inception` in this .npy file, and use it again")
    made.add_argument("--n", type=int, default=2000, help="samples on each side")
    made.add_argument("--images", type=int, help="use only the first images of the data")
    made.add_argument("--device", default="cpu", help="where networks run")
    options, started = made.parse_args(arguments), process_time()
    stem = f"figure_5_classes-{options.data}-{options.features}"
    for found in compute(options):  # saved after each seed
        results = plain({"smoke": options.smoke, **found, "seconds": process_time() - started}, 4)
        save(options.out, stem, results, figure=partial(sheet_of, draw, results, (12, 2.8)), indent=None)
    print(results["accuracy"], results["errors"])


if __name__ == "__main__":
    main()
