"""Metrics fed with shares of the same samples in two processes that synchronise over gloo.

python two_processes.py OUT: each process writes what it computed to OUT.<rank>.
"""

import socket
import sys
import warnings
from itertools import pairwise

import numpy as np
import torch

from precall.integrations.torchmetrics import (
    FrechetDistance,
    NearestNeighborScores,
    PRCurve,
    ReferenceScores,
)

MAKE = {
    "neighbors": lambda: NearestNeighborScores(k=4),
    "fid": lambda: FrechetDistance(dimension=3),
    "clusters": lambda: PRCurve(points=21),
}


def samples():
    """The model drops a mode: precision and recall are far apart."""
    rng = np.random.default_rng(0)
    real = rng.normal(0, 0.3, (160, 3)) + 4 * np.eye(3)[rng.integers(3, size=160)]
    fake = rng.normal(0, 0.3, (110, 3)) + 4 * np.eye(3)[rng.integers(2, size=110)]
    return torch.tensor(real, dtype=torch.float32), torch.tensor(fake, dtype=torch.float32)


def fed(metric, real, fake, batches=3):
    for i, j in pairwise(torch.linspace(0, 1, batches + 1).tolist()):
        for side, rows in ((True, real), (False, fake)):
            if len(batch := rows[round(i * len(rows)) : round(j * len(rows))]):
                metric.update(batch, real=side)
    return metric


# where the share of the second process begins and ends: unequal shares; and a process that sees nothing at all
SHARES = {"unequal": ((0, 100, 160), (0, 30, 110)), "idle": ((0, 160, 160), (0, 110, 110))}


def work(rank, port, out):
    torch.set_num_threads(1)
    # torchmetrics warns if `compute` is called before `update`, which the idle process does on purpose
    warnings.filterwarnings("ignore", message="The ``compute`` method")
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    real, fake = samples()
    found = {}
    for share, (reals, fakes) in SHARES.items():
        mine = real[reals[rank] : reals[rank + 1]], fake[fakes[rank] : fakes[rank + 1]]
        for name, make in MAKE.items():
            found[f"{share} {name}"] = fed(make(), *mine).compute()
        fixed = ReferenceScores(reference=real)  # it knows the data already
        found[f"{share} reference"] = fed(fixed, real[:0], mine[1]).compute()
    torch.save(found, f"{out}.{rank}")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # forked, because importing torchmetrics again takes seconds
    torch.multiprocessing.start_processes(work, (port, sys.argv[1]), nprocs=2, start_method="fork")
