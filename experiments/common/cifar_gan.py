"""A conditional BigGAN of CIFAR-10: a plain one, narrower draws of it, and fine-tuning at many λ.

Each stage writes the draws of its models, and the settings that produced them, below the folder `--work`.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

from experiments.common.biggan import SharedGenerator
from experiments.common.networks import Sharpened
from experiments.common.parallel import each
from experiments.common.truncation import update_batch_statistics
from precall.tune import FGAN, PRObjective, Scheduled, Settings, Trainer, load_data
from precall.tune.models import BigGANDiscriminator

TRUNCATIONS = (0.3, 0.5, 0.7, 0.85)


def settings_of(options: argparse.Namespace) -> Settings:
    """The settings that all stages share."""
    return Settings(
        batch_size=options.batch_size,
        discriminator_steps=options.discriminator_steps,
        generator_lr=2e-4,
        discriminator_lr=4e-4,
        betas=(0.0, 0.99),
        ema=0.999,
        noise=options.noise,
        flip=True,
        log_every=200,
        checkpoint_every=0,
        precision="bf16-mixed" if torch.cuda.is_available() else "32-true",
        seed=options.seed,
    )


def trainer(
    options: argparse.Namespace, objective: FGAN | Scheduled, out: Path, *, gain: float = 1.0, **changes: float
) -> Trainer:
    """Build the trainer of a conditional BigGAN of width `--ch` on CIFAR-10."""
    data = load_data("cifar-10", options.data_dir)
    torch.manual_seed(options.seed)
    torch.backends.cudnn.benchmark = True
    generator = SharedGenerator(ch=options.ch, classes=10)
    critic = Sharpened(BigGANDiscriminator(32, ch=options.ch, classes=10), gain)
    pair = [network.to(memory_format=torch.channels_last) for network in (generator, critic)]
    settings = replace(settings_of(options), **changes)
    return Trainer(*pair, objective, data.samples, labels=data.labels, settings=settings, out=out)


def start_from_base(run: Trainer, options: argparse.Namespace) -> Trainer:
    """Load the weights of the plain GAN."""
    return run.initialize(options.work / "base" / "checkpoint.safetensors")


def base(options: argparse.Namespace) -> None:
    """Train the plain GAN from which all fine-tuning starts."""
    started = perf_counter()
    run = trainer(options, FGAN("gan", play="nonsaturating"), options.work / "base")
    run.fit(options.steps, progress=lambda _, done, total: print(done, total, flush=True) if done % 1000 == 0 else None)
    draw(run, options.n)
    seconds = perf_counter() - started
    print(f"base: {options.steps} steps in {seconds:.0f} s, {options.steps / seconds:.1f} steps/s")


def truncate(options: argparse.Namespace) -> None:
    """Draw from the plain GAN with narrower latents, the baseline of the dial."""
    for scale in TRUNCATIONS:
        run = trainer(options, FGAN(), options.work / f"truncated-{scale:g}", truncation=scale)
        update_batch_statistics(start_from_base(run, options), 5 * options.n // 2)
        draw(run, options.n)


def tune(options: argparse.Namespace) -> None:
    """Fine-tune at all λ at once, on one device."""
    for line in each(tuned, [(options, lam) for lam in options.lam], jobs=len(options.lam)):
        print(line, flush=True)


def tuned(options: argparse.Namespace, lam: float) -> str:
    """Fine-tune at one λ and draw from the model."""
    started = perf_counter()
    objective = Scheduled(PRObjective(lam, form=options.form), steps=max(1, options.steps // 8), start={"lam": 1.0})
    out = options.work / f"lam-{lam:g}-seed-{options.seed}"
    changes = {"generator_lr": options.rate, "truncation": options.truncation}
    run = trainer(options, objective, out, gain=options.gain, **changes)
    start_from_base(run, options).fit(options.steps)
    draw(run, options.n, lam=lam, form=options.form, gain=options.gain)
    return f"λ = {lam:g}: {options.steps} steps in {perf_counter() - started:.0f} s"


def draw(run: Trainer, n: int, **facts: float | str) -> None:
    """Write n draws as bytes, and the settings that produced them."""
    assert run.out is not None
    run.out.mkdir(parents=True, exist_ok=True)
    images = run.sample(n, seed=7)
    np.save(run.out / "samples.npy", ((images.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8).numpy())
    kept = ("seed", "batch_size", "discriminator_steps", "noise", "generator_lr", "truncation")
    facts |= {"steps": run.step} | {name: getattr(run.settings, name) for name in kept}
    (run.out / "facts.json").write_text(json.dumps(facts))
