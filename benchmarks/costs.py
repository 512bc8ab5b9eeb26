"""Time and peak memory of an assessment against the number of samples, the dimension and the number of models.

    python -m benchmarks.costs [--smoke] [--device cpu|cuda] [--only neighbors quick default] [--out results.json]
    python -m benchmarks.costs --draw results.json other.json

On the CPU each point is a process of its own: imports, a small assessment, then the measured one. On a GPU the points
share a process, and the measured assessment is the second one of its size, so that nothing is compiled. Memory is the
peak of the process beyond what it had before, or that of the GPU. Points that would take more than 60 s or 20 GB are
not run: they are extrapolated with the exponent of the last two, and marked. Inputs are normal float32 with fixed
seeds. The exponent of a series is fitted to the upper half of its measured points. `--draw` writes the figure of the
docs, docs/images/costs.svg.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.common import ROOT, Row, in_new_process, machine, parser, peak_memory, print_table, save, synchronize
from precall.metrics.assessing.assessment import assess

WORKS: dict[str, Any] = {"neighbors": ["neighbors"], "quick": "quick", "default": None}
SERIES = {  # what varies, and its values; the others stay at BASE
    "n": [1000 * 2**i for i in range(11)],
    "d": [16, 64, 256, 1024, 4096],
    "models": [1, 2, 4],
}
BASE = {"n": 2000, "d": 64, "models": 1}
SMOKE = {"n": [60, 120], "d": [2, 4], "models": [1]}
MOST_SECONDS, MOST_BYTES = 60.0, 20e9


def point(work: str, device: str, *, n: int, d: int, models: int) -> dict[str, float]:
    """Seconds and peak bytes of one assessment, in this process."""
    rng = np.random.default_rng(0)
    sets = [torch.from_numpy(rng.standard_normal((n, d), dtype=np.float32)).to(device) for _ in range(models + 1)]
    where, fake = torch.device(device), {str(i): one for i, one in enumerate(sets[1:])}
    for size in (50, n) if device != "cpu" else (50,):  # kernels are compiled for the sizes they meet
        assess(real=sets[0][:size], fake={name: one[:size] for name, one in fake.items()}, metrics=WORKS[work])
    before = peak_memory()
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
    synchronize(where)
    start = time.perf_counter()
    assess(real=sets[0], fake=fake, metrics=WORKS[work])
    synchronize(where)
    seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "bytes": float(max(0, peak_memory() - before) if device == "cpu" else torch.cuda.max_memory_allocated()),
    }


def series(work: str, device: str, varied: str, values: Sequence[int], most: float) -> Iterator[Row]:
    """The points of one series, in increasing order; those that would cost too much are extrapolated."""
    rows: list[Row] = []
    for value in values:
        size = {**BASE, varied: value}
        row: Row = {"work": work, "device": device, "varied": varied, **size}
        found = extrapolated(rows, varied, value)
        if found["seconds"] <= most and found["bytes"] <= MOST_BYTES and not _given_up(rows):
            rows.append(row | _measured(work, device, size) | {"extrapolated": False})
        else:
            rows.append(row | found | {"extrapolated": True})
        yield rows[-1]


def _measured(work: str, device: str, size: dict[str, int]) -> dict[str, float]:
    if device != "cpu":
        return point(work, device, **size)
    words = json.dumps({"work": work, "device": device, **size})
    found: dict[str, float] = json.loads(in_new_process("benchmarks.costs", "--point", words))
    return found


def _given_up(rows: Sequence[Row]) -> bool:
    return bool(rows) and rows[-1]["extrapolated"]


def extrapolated(rows: Sequence[Row], varied: str, value: int) -> dict[str, float]:
    """Seconds and bytes at a further value, with the exponent between the last two points."""
    if len(rows) < 2:
        return {"seconds": 0.0, "bytes": 0.0}
    last = rows[-1]
    steps = {name: max(0.0, exponent(rows[-2:], varied, name)) for name in ("seconds", "bytes")}
    return {name: last[name] * (value / last[varied]) ** step for name, step in steps.items()}


def exponent(rows: Sequence[Row], varied: str, of: str = "seconds") -> float:
    """Slope of log(seconds) over log(value), by least squares."""
    x, y = (np.log([max(row[name], 1e-9) for row in rows]) for name in (varied, of))
    return float(np.polyfit(x, y, 1)[0])


def fitted(rows: Sequence[Row]) -> list[Row]:
    """The exponent of each series, from the upper half of its measured points."""
    found: list[Row] = []
    for key in dict.fromkeys((row["work"], row["device"], row["varied"]) for row in rows):
        measured = [
            row for row in rows if (row["work"], row["device"], row["varied"]) == key and not row["extrapolated"]
        ]
        if len(measured) > 1:
            upper = measured[-max(2, len(measured) // 2) :]
            names = {"work": key[0], "device": key[1], "varied": key[2]}
            slopes = {"exponent": exponent(upper, key[2]), "of memory": exponent(upper, key[2], "bytes")}
            found.append({**names, "points": len(upper), **slopes})
    return found


def draw(results: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw seconds and gigabytes against the number of samples; extrapolated points are hollow."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots(1, 2)
    rows = [row for one in results for row in one["points"] if row["varied"] == "n"]
    for number, (work, device) in enumerate(dict.fromkeys((row["work"], row["device"]) for row in rows)):
        own = [row for row in rows if (row["work"], row["device"]) == (work, device)]
        for axis, name, unit in ((axes[0], "seconds", 1.0), (axes[1], "bytes", 1e9)):
            x, y = [row["n"] for row in own], [max(row[name] / unit, 1e-3) for row in own]
            axis.loglog(x, y, color=f"C{number}", linestyle="-" if device == "cpu" else "--", label=f"{work}, {device}")
            faces = ["none" if row["extrapolated"] else f"C{number}" for row in own]
            axis.scatter(x, y, color=f"C{number}", facecolors=faces, s=16, zorder=3)
    axes[0].set(xlabel="samples per side (64 columns)", ylabel="seconds")
    axes[1].set(xlabel="samples per side (64 columns)", ylabel="gigabytes")
    axes[0].legend(fontsize=7)
    with rc_context({"svg.hashsalt": "costs", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__, smoke="tiny sizes, a few seconds", parts=list(WORKS))
    made.add_argument("--device", default="cpu", help="device of torch")
    made.add_argument("--most", type=float, default=MOST_SECONDS, help="seconds from which a point is extrapolated")
    made.add_argument("--point", type=json.loads, metavar="JSON", help="only print the cost of one point")
    made.add_argument("--draw", type=Path, nargs="+", metavar="FILE", help="draw the figure from these results")
    options = made.parse_args(arguments)
    if options.point:
        print(json.dumps(point(**options.point)))
        return
    if options.draw:
        draw([json.loads(path.read_text()) for path in options.draw], ROOT / "docs" / "images" / "costs.svg")
        return
    works = options.only[:1] if options.smoke else options.only
    chosen = SMOKE if options.smoke else SERIES
    rows: list[Row] = []
    about = {"machine": machine(torch.device(options.device)), "most": options.most}
    for work in works:
        for varied, values in chosen.items():
            for row in series(work, options.device, varied, values, options.most):
                rows.append(row)
                save({**about, "points": rows, "exponents": fitted(rows)}, options.out)  # in case it is stopped
    print_table("costs", rows)
    print_table("exponents", fitted(rows))
    print(f"{sum(row['extrapolated'] for row in rows)} of {len(rows)} points are extrapolated")


if __name__ == "__main__":
    main()
