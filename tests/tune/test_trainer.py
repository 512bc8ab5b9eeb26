"""The training loop: what it computes, and that it can be killed."""

import csv
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from precall.tune import FGAN, DensityPR, FlowGAN, OBRSObjective, PRObjective, Scheduled, Settings, Trainer
from precall.tune.batches import Batches
from precall.tune.checkpoints import read
from precall.tune.critics import gradient_penalty
from precall.tune.models.flows import RealNVP
from precall.tune.models.mlp import MLPDiscriminator, MLPGenerator
from precall.tune.watch import PATIENCE, TrainingStopped, Watch

SETTINGS = Settings(batch_size=16, generator_lr=1e-3, discriminator_lr=1e-3, log_every=2, checkpoint_every=3)


def points(n=100, seed=0):
    return np.random.default_rng(seed).normal(3.0, 1.0, (n, 2)).astype(np.float32)


def trainer(objective=None, *, settings=SETTINGS, flow=False, **others):
    torch.manual_seed(0)
    generator = RealNVP(hidden=(8,)) if flow else MLPGenerator(widths=(8,), latent=2)
    return Trainer(
        generator, MLPDiscriminator(widths=(8,)), objective or PRObjective(2.0), points(), settings=settings, **others
    )


def bits(path):
    tensors, facts = read(path)
    return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}, facts


@pytest.mark.parametrize(
    ("objective", "flow"),
    [
        (PRObjective(2.0), False),
        (PRObjective(3.0), False),
        (Scheduled(PRObjective(5.0), steps=6, start={"lam": 1.0, "smoothing": 2.0}), False),
        (OBRSObjective("kl", budget=2.0), False),
        (FlowGAN(FGAN("gan"), likelihood_weight=0.1), True),
        (Scheduled(DensityPR(5.0), steps=6, start={"power": 0.1}), True),
        (Scheduled(DensityPR(0.2), steps=6, start={"power": 0.1}), True),
    ],
    ids=["pr", "pr-noise", "scheduled", "obrs", "flow-gan", "density", "density-recall"],
)
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path, objective, flow):
    noise = 0.3 if objective == PRObjective(3.0) else 0.0
    settings = replace(
        SETTINGS, noise=noise, warmup=2 if flow else 0, r1=0.1, accumulate=2, refresh_every=2, cooldown=0.5, clip=1.0
    )
    whole = trainer(objective, settings=settings, flow=flow, out=tmp_path / "whole").fit(9)
    if isinstance(objective, OBRSObjective):
        objective.log_tau = None
    first = trainer(objective, settings=settings, flow=flow, out=tmp_path / "parts")
    first.set_learning_rates(9)  # the rates of a run of nine steps
    while first.step < 5:
        first.set_learning_rates(9)
        first.one_step(objective.at(first.step) if isinstance(objective, Scheduled) else objective)
        first.step += 1
    first.save(tmp_path / "parts" / "checkpoint.safetensors")
    if isinstance(objective, OBRSObjective):
        objective.log_tau = None  # must come back from the checkpoint
    torch.rand(3)  # whatever else the process draws must not matter
    second = trainer(objective, settings=settings, flow=flow, out=tmp_path / "parts")
    second.load(tmp_path / "parts" / "checkpoint.safetensors").fit(9)
    assert bits(tmp_path / "parts" / "checkpoint.safetensors") == bits(tmp_path / "whole" / "checkpoint.safetensors")
    assert whole.step == second.step == 9


class Remembers(torch.nn.Module):
    """A discriminator of points that keeps the last it saw."""

    def __init__(self):
        super().__init__()
        self.net = MLPDiscriminator(widths=(8,))

    def forward(self, x, labels=None):
        self.seen = x.detach().clone()
        return self.net(x, labels)


def test_noise_blurs_data_and_draws_alike():
    discriminator = Remembers()
    at_zero = torch.zeros(64, 2)
    settings = replace(SETTINGS, batch_size=512, noise=0.5)
    generator = MLPGenerator(widths=(8,), latent=2)
    run = Trainer(generator, discriminator, PRObjective(2.0), at_zero, settings=settings)
    run.discriminator_loss(run.objective)
    real, fake = discriminator.seen.split(512)
    assert abs(real.std().item() - 0.5) < 0.05
    assert abs(real.mean().item()) < 0.07
    run.generator_loss(run.objective)
    spread = generator(torch.randn(4000, 2)).detach().var(0)
    for blurred in (fake, discriminator.seen):
        torch.testing.assert_close(blurred.var(0), spread + 0.25, atol=0.06, rtol=0.1)


def test_noise_is_not_for_known_densities():
    with pytest.raises(ValueError, match="`noise` must be 0 for `DensityPR`"):
        trainer(DensityPR(2.0), settings=replace(SETTINGS, noise=0.1), flow=True)
    with pytest.raises(ValueError, match="`noise` must not be negative"):
        replace(SETTINGS, noise=-0.1)


def test_truncation_narrows_the_latents_of_training_and_of_draws(tmp_path):
    narrow = replace(SETTINGS, truncation=0.25)
    base, tuned = trainer(out=tmp_path).fit(2), trainer(settings=narrow).initialize(tmp_path / "checkpoint.safetensors")
    z = base.latents(7, torch.Generator().manual_seed(3))
    assert torch.equal(tuned.latents(7, torch.Generator().manual_seed(3)), 0.25 * z)
    z = base.latents(7, base.sampling_rng(3))
    assert torch.equal(tuned.sample(7, seed=3), tuned.average(0.25 * z))
    seen = []
    tuned.generator.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    tuned.fit(20)
    assert abs(torch.cat(seen).std().item() - 0.25) < 0.02


def test_a_truncated_model_is_not_taken_for_another(tmp_path):
    trainer(settings=replace(SETTINGS, truncation=0.5), out=tmp_path).fit(2)
    with pytest.raises(ValueError, match=r"latents of standard deviation 0.5, this run has 1. Set `truncation` to 0.5"):
        trainer().initialize(tmp_path / "checkpoint.safetensors")
    trainer(settings=replace(SETTINGS, truncation=0.5)).initialize(tmp_path / "checkpoint.safetensors")


def test_truncation_is_not_for_known_densities():
    with pytest.raises(ValueError, match="must be 1 for a RealNVP"):
        trainer(settings=replace(SETTINGS, truncation=0.5), flow=True)
    for wrong in (0.0, 1.5):
        with pytest.raises(ValueError, match="`truncation` must be"):
            replace(SETTINGS, truncation=wrong)


RUN = """
import sys, torch
sys.path.insert(0, {tests!r})
from test_trainer import trainer, SETTINGS
from dataclasses import replace
from pathlib import Path
torch.set_num_threads(1)
out = Path({out!r})
run = trainer(settings=replace(SETTINGS, checkpoint_every=5), out=out)
if (out / "checkpoint.safetensors").exists():
    run.load(out / "checkpoint.safetensors")
print("from", run.step, flush=True)
run.fit({steps})
"""


def start(out, steps, said):
    code = RUN.format(tests=str(Path(__file__).parent), out=str(out), steps=steps)
    with said.open("w") as file:
        return subprocess.Popen([sys.executable, "-c", code], stdout=file)


def test_killed_and_resumed_to_the_same_bits_and_log(tmp_path):
    """A real SIGKILL, wherever it falls, as often as it takes to see a run resumed."""
    steps, said = 300, tmp_path / "said.txt"
    assert start(tmp_path / "whole", steps, said).wait() == 0
    killed = start(tmp_path / "killed", steps, said)
    log = tmp_path / "killed" / "log.csv"
    while not log.exists() or log.stat().st_size < 2000:
        time.sleep(0.005)
    os.kill(killed.pid, signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    assert start(tmp_path / "killed", steps, said).wait() == 0
    assert 0 < int(said.read_text().split()[1]) < steps
    name = "checkpoint.safetensors"
    assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert log.read_text() == (tmp_path / "whole" / "log.csv").read_text()


def test_training_moves_the_model_to_the_data():
    settings = Settings(batch_size=64, generator_lr=3e-3, discriminator_lr=3e-3, betas=(0.5, 0.99), ema=0.98)
    run = trainer(FGAN("gan", play="nonsaturating"), settings=settings)
    before = run.sample(500).mean(0)
    after = run.fit(400).sample(500).mean(0)
    assert (before - 3).norm() > 2
    assert (after - 3).norm() < 1


def test_accumulated_batches_are_one_large_batch():
    """Two batches of 16 a step give the gradient of the mean over both."""
    small, large = (trainer(settings=replace(SETTINGS, accumulate=k, batch_size=32 // k)) for k in (2, 1))
    z = torch.randn(32, 2, generator=torch.Generator().manual_seed(5))
    parts = iter([z[:16], z[16:], z])
    for run in (small, large):
        run.latents = lambda n, rng: next(parts)
        run.optimizer_step("discriminator", lambda run=run: run.discriminator_loss(PRObjective(2.0)))
    for a, b in zip(small.discriminator.parameters(), large.discriminator.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)


def test_gradient_penalty_is_that_of_a_linear_discriminator():
    class Linear(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.tensor([3.0, 4.0]))

        def forward(self, x, labels=None):
            return x @ self.w

    assert gradient_penalty(Linear(), torch.zeros(5, 2), None).item() == pytest.approx(25.0)


def test_side_assessment_logs_and_does_not_disturb(tmp_path):
    watched = replace(SETTINGS, assess_every=2, assess_n=40)
    plain = trainer().fit(4)
    seen = trainer(settings=watched, held_out=points(60, seed=1), out=tmp_path).fit(4)
    for a, b in zip(plain.generator.parameters(), seen.generator.parameters(), strict=True):
        assert torch.equal(a, b)
    rows = list(csv.reader((tmp_path / "log.csv").read_text().splitlines()))
    assert {name for _, name, _ in rows} >= {"precision", "recall", "density", "coverage", "generator_loss"}
    assert (tmp_path / "samples-0000004.png").stat().st_size > 0


def test_numbers_go_to_the_standard_loggers(tmp_path):
    from lightning.fabric.loggers import CSVLogger

    logger = CSVLogger(tmp_path, name="run")
    trainer(loggers=[logger]).fit(4)
    logger.save()
    header = next(tmp_path.glob("run/*/metrics.csv")).read_text().splitlines()[0]
    assert "generator_loss" in header


def test_conditional_networks_get_the_labels():
    labels = np.arange(100) % 3
    run = Trainer(
        MLPGenerator(widths=(8,), latent=2, classes=3),
        MLPDiscriminator(widths=(8,), classes=3),
        FGAN(),
        points(),
        labels=labels,
        settings=SETTINGS,
    ).fit(2)
    assert run.sample(7).shape == (7, 2)


def test_fine_tuning_starts_from_the_networks_alone(tmp_path):
    base = trainer(out=tmp_path).fit(3)
    tuned = trainer(PRObjective(0.1)).initialize(tmp_path / "checkpoint.safetensors")
    assert tuned.step == 0
    assert torch.equal(tuned.sample(5), base.sample(5))


def test_a_layer_that_comes_frozen_stays_frozen():
    torch.manual_seed(0)
    generator, discriminator = MLPGenerator(widths=(8,), latent=2), MLPDiscriminator(widths=(8,))
    first, *rest = generator.parameters()
    first.requires_grad_(False)
    before = [p.clone() for p in (first, *rest)]
    Trainer(generator, discriminator, FGAN(), points(), settings=SETTINGS).fit(2)
    assert torch.equal(first, before[0])
    assert not any(torch.equal(now, then) for now, then in zip(rest, before[1:], strict=True))
    assert not first.requires_grad
    assert all(p.requires_grad for p in (*rest, *discriminator.parameters()))  # fit to be trained again
    with pytest.raises(ValueError, match="every parameter of the MLPGenerator is frozen"):
        Trainer(generator.requires_grad_(False), discriminator, FGAN(), points(), settings=SETTINGS)


def test_batches_cover_an_epoch_and_split_over_processes():
    data = np.arange(10.0)
    whole = Batches(data, size=4, seed=3)
    assert sorted(torch.cat([whole.at(i)[0] for i in range(5)]).tolist()) == sorted([*data, *data])
    halves = [Batches(data, size=4, seed=3, rank=rank, world=2).at(1)[0] for rank in (0, 1)]
    assert torch.equal(torch.cat(halves), whole.at(1)[0])


def test_bytes_are_images_and_datasets_are_read():
    assert Batches(np.array([[0], [255]], dtype=np.uint8), size=2, seed=0).at(0)[0].sort(0).values.tolist() == [
        [-1],
        [1],
    ]
    pairs = [(torch.full((2,), float(i)), i) for i in range(4)]
    samples, labels = Batches(pairs, size=4, seed=0).at(0)
    assert samples[:, 0].tolist() == labels.tolist()


def row(real, fake, loss=1.0):
    return {
        "generator_loss": torch.tensor(loss),
        "discriminator_loss": torch.tensor(1.0),
        "real_logits": torch.tensor(real),
        "fake_logits": torch.tensor(fake),
    }


@pytest.mark.parametrize(
    ("reading", "sentence"),
    [
        (row([1.0], [0.0], loss=float("nan")), "generator_loss is nan at step 7. Lower the learning rates"),
        (row([2.0, 2.0], [2.0, 2.0]), "same logit"),
        (row([50.0, 51.0], [-1.0, 0.0]), "gets no gradient"),
    ],
)
def test_a_hopeless_run_stops_with_a_sentence(reading, sentence):
    watch = Watch()
    watch.flat = watch.far = PATIENCE - 1
    with pytest.raises(TrainingStopped, match=sentence):
        watch.read(reading, step=7)


def test_a_healthy_run_is_left_alone():
    watch = Watch()
    for _ in range(3 * PATIENCE):
        assert watch.read(row([1.0, 2.0], [-1.0, 0.5]), step=1)["real_logit"] == 1.5


def test_not_a_number_keeps_the_last_checkpoint(tmp_path):
    run = trainer(out=tmp_path).fit(3)
    before = (tmp_path / "checkpoint.safetensors").read_bytes()
    with torch.no_grad():
        next(run.generator.parameters()).fill_(float("nan"))
    with pytest.raises(TrainingStopped, match="Lower the learning rates"):
        run.fit(10)
    assert (tmp_path / "checkpoint.safetensors").read_bytes() == before


def test_errors_say_what_to_do(tmp_path):
    with pytest.raises(ValueError, match="requires a generator with a known density"):
        trainer(DensityPR(2.0))
    with pytest.raises(ValueError, match="there is no such file"):
        trainer().load(tmp_path / "none.safetensors")
    (tmp_path / "broken.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(ValueError, match="cannot be read"):
        trainer().load(tmp_path / "broken.safetensors")
    trainer().save(tmp_path / "run.safetensors")
    with pytest.raises(ValueError, match="was written with batch_size = 16"):
        trainer(settings=replace(SETTINGS, batch_size=8)).load(tmp_path / "run.safetensors")
    with pytest.raises(ValueError, match="another generator"):
        trainer(flow=True).initialize(tmp_path / "run.safetensors")
    with pytest.raises(ValueError, match="at least 2 samples"):
        Batches(points(1), size=1, seed=0)
    with pytest.raises(ValueError, match="`precision` must be one of"):
        Settings(precision="16")


TWO = """
import sys, torch
sys.path.insert(0, {tests!r})
from test_trainer import trainer, SETTINGS
from dataclasses import replace
from lightning.fabric import Fabric

torch.set_num_threads(1)
fabric = Fabric(accelerator="cpu", devices={devices}, strategy={strategy!r})
fabric.launch()
run = trainer(settings=replace(SETTINGS, checkpoint_every=0), out={out!r}, fabric=fabric)
latents = torch.randn(1000, 2, generator=torch.Generator().manual_seed(7))
count = [0]


def share(n, rng):  # the same latents for the same global batch, whoever draws them
    whole = n * fabric.world_size
    start = count[0] * whole + fabric.global_rank * n
    count[0] += 1
    return latents[start : start + n]


run.latents = share
run.fit(3)
"""


@pytest.mark.filterwarnings("ignore")
def test_two_processes_train_as_one(tmp_path):
    """Half a batch each and averaged gradients, against one process with the whole batch."""
    for devices, strategy in ((1, "auto"), (2, "ddp")):
        out = str(tmp_path / str(devices))
        code = TWO.format(tests=str(Path(__file__).parent), devices=devices, strategy=strategy, out=out)
        script = tmp_path / f"run{devices}.py"
        script.write_text(code)
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
    one, two = (read(tmp_path / str(n) / "checkpoint.safetensors")[0] for n in (1, 2))
    for name in one:
        if name.startswith("generator/"):
            torch.testing.assert_close(one[name], two[name], atol=1e-5, rtol=1e-4)
    one, two = (list(csv.reader((tmp_path / str(n) / "log.csv").open())) for n in (1, 2))
    assert [row[:2] for row in one] == [row[:2] for row in two]
    assert [float(row[2]) for row in two] == pytest.approx([float(row[2]) for row in one], abs=1e-4)


APART = """
import sys, torch
sys.path.insert(0, {tests!r})
from test_trainer import SETTINGS, points
from dataclasses import replace
from lightning.fabric import Fabric
from precall.tune.models.mlp import MLPDiscriminator, MLPGenerator
from precall.tune.objectives import OBRSObjective
from precall.tune.trainer import Trainer

torch.set_num_threads(1)
fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
fabric.launch()


class Measured(MLPGenerator):
    def __init__(self):
        super().__init__(widths=(8,), latent=2)
        self.scale = torch.nn.Parameter(torch.zeros(2))

    def forward(self, z, labels=None):
        made = super().forward(z, labels)
        if not self.scale.any():  # takes its scale from the first batch, as the layers of a Glow do
            self.scale.data = 1 / made.detach().std(0)
        return self.scale * made


def made():
    torch.manual_seed(fabric.global_rank)
    pair = Measured(), MLPDiscriminator(widths=(8,))
    torch.manual_seed(0)
    settings = replace(SETTINGS, noise=0.1, refresh_every=2)
    return Trainer(*pair, OBRSObjective("kl", budget=2.0), points(), settings=settings, out={out!r}, fabric=fabric)


def drawn(run):
    return dict(latents=run.next_batch()[2], noise=torch.randn(4))


found = dict(fresh=drawn(made()))
run = made().fit(3)
found["weights"], found["log_tau"] = run.generator.state_dict(), torch.tensor(run.objective.log_tau)
fabric.barrier()
found["resumed"] = drawn(made().load({out!r} + "/checkpoint.safetensors"))
torch.save(found, {out!r} + "/found." + str(fabric.global_rank))
"""


TROUBLE = """
import math, os, signal, sys, torch
sys.path.insert(0, {tests!r})
from test_trainer import SETTINGS, TrainingStopped, trainer
from dataclasses import replace
from lightning.fabric import Fabric

torch.set_num_threads(1)
fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
fabric.launch()
run = trainer(settings=replace(SETTINGS, log_every=4, checkpoint_every=5), out={out!r}, fabric=fabric)
one_step = run.one_step


def troubled(objective):
    row, trouble = one_step(objective), {trouble!r} if fabric.global_rank == 1 else ""
    if run.step == 5 and trouble == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
    if run.step == 7 and trouble == "nan":
        row["generator_loss"] += math.nan
    return row


run.one_step = troubled
try:
    run.fit(1000)
except (KeyboardInterrupt, TrainingStopped):
    torch.save(run.step, {out!r} + "/stopped." + str(fabric.global_rank))
"""


@pytest.mark.parametrize(("trouble", "checkpoint"), [("interrupt", 8), ("nan", 5)])
@pytest.mark.filterwarnings("ignore")
def test_a_process_in_trouble_stops_the_other_with_a_checkpoint(tmp_path, trouble, checkpoint):
    script = tmp_path / "run.py"
    script.write_text(TROUBLE.format(tests=str(Path(__file__).parent), out=str(tmp_path), trouble=trouble))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300)
    assert [torch.load(tmp_path / f"stopped.{rank}") for rank in (0, 1)] == [8, 8], done.stderr
    assert read(tmp_path / "checkpoint.safetensors")[1]["step"] == checkpoint


@pytest.fixture(scope="module")
def apart(tmp_path_factory):
    """What two processes found, with networks that began differently and torch seeded alike."""
    out = tmp_path_factory.mktemp("apart")
    script = out / "run.py"
    script.write_text(APART.format(tests=str(Path(__file__).parent), out=str(out)))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [torch.load(out / f"found.{rank}", weights_only=True) for rank in (0, 1)]


def test_processes_share_weights_and_tau(apart):
    first, second = apart
    assert all(torch.equal(tensor, second["weights"][name]) for name, tensor in first["weights"].items())
    assert first["log_tau"] == second["log_tau"]


@pytest.mark.parametrize("when", ["fresh", "resumed"])
@pytest.mark.parametrize("what", ["latents", "noise"])
def test_processes_draw_each_their_own(apart, when, what):
    first, second = (found[when][what] for found in apart)
    assert not torch.isclose(first, second).any()
