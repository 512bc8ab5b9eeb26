"""Training runs in processes of their own, all forked from one process, because importing Lightning takes ten seconds.

python launches.py OUT: each run has a folder in OUT.
"""

import math
import multiprocessing
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from lightning.fabric import Fabric

from precall.tune import OBRSObjective, PRObjective, Settings, Trainer
from precall.tune.models.mlp import MLPDiscriminator, MLPGenerator
from precall.tune.watch import TrainingStopped

SETTINGS = Settings(batch_size=16, generator_lr=1e-3, discriminator_lr=1e-3, log_every=2, checkpoint_every=3)
STEPS = 300  # of the run that is killed


def points(n=100, seed=0):
    return np.random.default_rng(seed).normal(3.0, 1.0, (n, 2)).astype(np.float32)


def trainer(settings, **others):
    torch.manual_seed(0)
    networks = MLPGenerator(widths=(8,), latent=2), MLPDiscriminator(widths=(8,))
    return Trainer(*networks, PRObjective(2.0), points(), settings=settings, **others)


# --------------------------------------------------------------------------------------- a run that is killed, resumed


def resumable(out, last=STEPS):
    """Train up to `STEPS`, but stand still when the step `last` has been logged."""

    def wait(stage, done, total):
        while last <= done < total:
            time.sleep(1)

    checkpoint = out / "checkpoint.safetensors"
    run = trainer(replace(SETTINGS, checkpoint_every=5), out=out)
    if checkpoint.exists():
        run.load(checkpoint)
    (out / "from").write_text(str(run.step))
    run.fit(STEPS, progress=wait)


def forked(work, *given):
    process = multiprocessing.get_context("fork").Process(target=work, args=given)
    process.start()
    return process


def succeed(process):
    process.join()
    assert process.exitcode == 0


def whole(out):
    succeed(forked(resumable, out))


def killed(out):
    """A real SIGKILL, wherever it falls after some steps, and the rest of the run in another process."""
    first, log = forked(resumable, out, STEPS - 50), out / "log.csv"
    while not log.exists() or log.stat().st_size < 2000:
        time.sleep(0.005)
    first.kill()
    first.join()
    assert first.exitcode == -signal.SIGKILL
    succeed(forked(resumable, out))


# ------------------------------------------------------------------------------------------ one process, two processes


def as_one(fabric, out):
    """The same batches and latents, whoever draws them."""
    trainer(replace(SETTINGS, checkpoint_every=0), out=out, fabric=fabric).fit(3)


class Measured(MLPGenerator):
    """Takes its scale from the first batch, as the layers of a Glow do."""

    def __init__(self):
        super().__init__(widths=(8,), latent=2)
        self.scale = torch.nn.Parameter(torch.zeros(2))

    def forward(self, z, labels=None):
        made = super().forward(z, labels)
        if not self.scale.any():
            self.scale.data = 1 / made.detach().std(0)
        return self.scale * made


def apart(fabric, out):
    """Networks that begin differently, and torch seeded alike."""

    def made():
        torch.manual_seed(fabric.global_rank)
        pair = Measured(), MLPDiscriminator(widths=(8,))
        torch.manual_seed(0)
        settings = replace(SETTINGS, noise=0.1, refresh_every=2)
        return Trainer(*pair, OBRSObjective("kl", budget=2.0), points(), settings=settings, out=out, fabric=fabric)

    def drawn(run):
        return {"latents": run.next_batch()[2], "noise": torch.randn(4)}

    found = {"fresh": drawn(made())}
    run = made().fit(3)
    found |= {"weights": run.generator.state_dict(), "log_tau": torch.tensor(run.objective.log_tau)}
    fabric.barrier()
    found["resumed"] = drawn(made().load(out / "checkpoint.safetensors"))
    torch.save(found, out / f"found.{fabric.global_rank}")


def in_trouble(fabric, out):
    """The second process is interrupted, or its loss is not a number: the name of the folder says which."""
    run = trainer(replace(SETTINGS, log_every=4, checkpoint_every=5), out=out, fabric=fabric)
    one_step = run.one_step

    def troubled(objective):
        row, trouble = one_step(objective), out.name if fabric.global_rank == 1 else ""
        if run.step == 5 and trouble == "interrupt":
            os.kill(os.getpid(), signal.SIGINT)
        if run.step == 7 and trouble == "nan":
            row["generator_loss"] += math.nan
        return row

    run.one_step = troubled
    try:
        run.fit(1000)
    except (KeyboardInterrupt, TrainingStopped):
        torch.save(run.step, out / f"stopped.{fabric.global_rank}")


def together(fabric, out):
    as_one(fabric, out / "together")
    apart(fabric, out / "apart")
    for trouble in ("interrupt", "nan"):
        in_trouble(fabric, out / trouble)


def main(out):
    torch.set_num_threads(1)
    for name in ("whole", "killed", "alone", "together", "apart", "interrupt", "nan"):
        (out / name).mkdir()
    whole(out / "whole")
    killed(out / "killed")
    succeed(forked(as_one, Fabric(accelerator="cpu", devices=1), out / "alone"))
    Fabric(accelerator="cpu", devices=2, strategy="ddp_fork").launch(together, out)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
