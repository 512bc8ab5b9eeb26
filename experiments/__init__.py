"""Experiments on generative models: one module per figure, table or question, run from a checkout.

    python -m experiments.verine_2024.table_6_1_gaussians25 --smoke
    python -m experiments.extensions.dial_images --data digits --out experiments/extensions/results

What belongs here: programs that train models or draw samples to reproduce a published figure or table
(`<author>_<year>/<figure or table>_<subject>.py`) or to answer a question of our own (`extensions/`). Each module
prints its numbers, and with `--out DIR` it also writes `DIR/<module>.json` and usually `DIR/<module>.png`; the
published files are in the `results/` folder next to the module. `--smoke` runs a module with tiny settings, to show
that it works. Parts that several modules need are in `common/`. `claims/` says what each document claims and what was
found; `index.py` makes docs/experiments.md from it, and `check.py` asserts it (`make experiments`).

What does not belong here: measurements of time, memory or estimation error (`benchmarks/`), short programs that show
how to use the library (`examples/`), and anything that the library itself needs. Experiments use only public names of
precall.
"""
