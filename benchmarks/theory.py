"""How long the exact readings of a spectrum of 10⁶ cells take.

python benchmarks/theory.py            # 10⁶ cells
python benchmarks/theory.py --smoke    # 10⁴ cells, a second
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from precall.theory.acceptance import obrs
from precall.theory.spectrum import RatioSpectrum

DIVERGENCES = ("kl", "reverse_kl", "chi2", "hellinger2", "js", "tv")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="10⁴ cells instead of 10⁶")
    parser.add_argument("--out", type=Path, help="write the times as JSON")
    arguments = parser.parse_args()
    cells = 10_000 if arguments.smoke else 1_000_000
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(cells)), rng.dirichlet(np.ones(cells))
    real, fake = rng.normal(1, 1, cells), rng.normal(0, 1, cells)
    RatioSpectrum.from_masses(p=p[:9] / p[:9].sum(), q=q[:9] / q[:9].sum()).frontier(order=1)  # imports
    times: dict[str, float] = {}

    def timed(name, action):
        start = time.perf_counter()
        result = action()
        times[name] = time.perf_counter() - start
        return result

    spectrum = timed("build", lambda: RatioSpectrum.from_masses(p=p, q=q))
    timed("alpha at 1,001 slopes", lambda: spectrum.alpha(np.geomspace(1e-3, 1e3, 1001)))
    timed("area", lambda: spectrum.area)
    timed("F_8 and F_1/8", lambda: (spectrum.f_score(8), spectrum.f_score(1 / 8)))
    timed("six divergences", lambda: [spectrum.divergence(name) for name in DIVERGENCES])
    timed("frontier of 101 points", lambda: spectrum.frontier(order=1, points=101))
    times["together"] = sum(times.values())
    timed("τ of as many ratios", lambda: obrs(ratios=np.exp(fake), budget=2.5))
    timed("curve from as many scores", lambda: RatioSpectrum.from_scores(real=real, fake=fake).area)
    for name, seconds in times.items():
        print(f"{name:28s} {seconds:8.3f} s")
    if arguments.out:
        arguments.out.write_text(json.dumps({"cells": cells, "seconds": times}, indent=1) + "\n")


if __name__ == "__main__":
    main()
