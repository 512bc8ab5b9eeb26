"""Options that several commands share about encoders: where they run."""

from __future__ import annotations

from typing import Annotated

import typer

DeviceName = Annotated[
    str,
    typer.Option(
        help="Where networks, the k-NN sweep and k-means run: auto (CUDA, else MPS, else the CPU), cpu, cuda or mps. "
        "Comparisons that need float64 run on the CPU instead of MPS."
    ),
]
