"""The training loop: what it computes, and that it can be killed."""

import csv
import subprocess
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from precall.tune import FGAN, DensityPR, OBRSObjective, PRObjective, Scheduled, Settings, Trainer
from precall.tune.batches import Batches
from precall.tune.checkpoints import read
from precall.tune.critics import gradient_penalty
from precall.tune.models.flows import RealNVP
from precall.tune.models.mlp import MLPDiscriminator, MLPGenerator
from precall.tune.watch import PATIENCE, TrainingStopped, Watch
from tune import launches
from tune.launches import SETTINGS, points


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
        (FGAN("gan"), True),
        (Scheduled(DensityPR(5.0), steps=6, start={"power": 0.1}), True),
        (Scheduled(DensityPR(0.2), steps=6, start={"power": 0.1}), True),
    ],
    ids=["pr", "pr-noise", "scheduled", "obrs", "flow", "density", "density-recall"],
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


@pytest.fixture(scope="module")
def launched(tmp_path_factory, python):
    """The folders of the runs that had processes of their own."""
    out = tmp_path_factory.mktemp("launched")
    command = [*python("lightning.fabric"), launches.__file__, out]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


def test_killed_and_resumed_to_the_same_bits_and_log(launched):
    killed, whole = launched / "killed", launched / "whole"
    assert 0 < int((killed / "from").read_text()) < launches.STEPS
    for name in ("checkpoint.safetensors", "log.csv"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()


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


def test_two_processes_train_as_one(launched):
    """Half a batch each and averaged gradients, against one process with the whole batch."""
    one, two = (read(launched / name / "checkpoint.safetensors")[0] for name in ("alone", "together"))
    for name in one:
        if name.startswith("generator/"):
            torch.testing.assert_close(one[name], two[name], atol=1e-5, rtol=1e-4)
    one, two = (
        list(csv.reader((launched / name / "log.csv").read_text().splitlines())) for name in ("alone", "together")
    )
    assert [row[:2] for row in one] == [row[:2] for row in two]
    assert [float(row[2]) for row in two] == pytest.approx([float(row[2]) for row in one], abs=1e-4)


@pytest.mark.parametrize(("trouble", "checkpoint"), [("interrupt", 8), ("nan", 5)])
def test_a_process_in_trouble_stops_the_other_with_a_checkpoint(launched, trouble, checkpoint):
    assert [torch.load(launched / trouble / f"stopped.{rank}") for rank in (0, 1)] == [8, 8]
    assert read(launched / trouble / "checkpoint.safetensors")[1]["step"] == checkpoint


@pytest.fixture(scope="module")
def apart(launched):
    return [torch.load(launched / "apart" / f"found.{rank}", weights_only=True) for rank in (0, 1)]


def test_processes_share_weights_and_tau(apart):
    first, second = apart
    assert all(torch.equal(tensor, second["weights"][name]) for name, tensor in first["weights"].items())
    assert first["log_tau"] == second["log_tau"]


@pytest.mark.parametrize("when", ["fresh", "resumed"])
@pytest.mark.parametrize("what", ["latents", "noise"])
def test_processes_draw_each_their_own(apart, when, what):
    first, second = (found[when][what] for found in apart)
    assert not torch.isclose(first, second).any()
