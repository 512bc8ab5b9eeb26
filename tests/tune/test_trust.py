"""What a trainer refuses, what it survives, and what it must not disturb."""

import os
import signal
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import nn

from precall.tune import FGAN, DensityPR, OBRSObjective, PRObjective, Scheduled, Settings, Trainer, recipe
from precall.tune.checkpoints import read
from precall.tune.data import TrainingData
from precall.tune.models.flows import RealNVP
from precall.tune.models.mlp import MLPDiscriminator, MLPGenerator

SETTINGS = Settings(batch_size=16, generator_lr=1e-3, discriminator_lr=1e-3, log_every=2, checkpoint_every=3)
LAST, PREVIOUS = "checkpoint.safetensors", "checkpoint.previous.safetensors"


def points(n=100, seed=0):
    return np.random.default_rng(seed).normal(3.0, 1.0, (n, 2)).astype(np.float32)


def trainer(objective=None, *, settings=SETTINGS, flow=False, **others):
    torch.manual_seed(0)
    generator = RealNVP(hidden=(8,)) if flow else MLPGenerator(widths=(8,), latent=2)
    pair = generator, MLPDiscriminator(widths=(8,))
    return Trainer(*pair, objective or PRObjective(2.0), points(), settings=settings, **others)


def bits(path):
    tensors, facts = read(path)
    return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}, facts


def flipped(path, at):
    """The file with one bit changed, at a share of its length."""
    content = bytearray(path.read_bytes())
    content[int(at * (len(content) - 1))] ^= 4
    path.write_bytes(content)


# -------------------------------------------------------------------------------------------------------- checkpoints


@pytest.mark.parametrize("at", [0.0, 0.001, 0.05, 0.3, 0.5, 0.7, 0.9, 1.0])
def test_a_changed_bit_is_noticed_wherever_it_is(tmp_path, at):
    trainer(out=tmp_path).fit(3)
    flipped(tmp_path / LAST, at)
    with pytest.raises(ValueError, match="is not a checkpoint as precall wrote it"):
        trainer().load(tmp_path / LAST)
    with pytest.raises(ValueError, match="is not a checkpoint as precall wrote it"):
        trainer().initialize(tmp_path / LAST)


def test_a_damaged_checkpoint_is_set_aside_for_the_previous_one(tmp_path):
    whole = trainer(out=tmp_path / "whole").fit(7)
    trainer(out=tmp_path / "run").fit(7)
    flipped(tmp_path / "run" / LAST, 0.9)
    again = trainer(out=tmp_path / "run")
    with pytest.warns(UserWarning, match=r"It was renamed to .*\.damaged\. The run continues from checkpoint.previous"):
        again.resume()
    assert again.step == 6
    assert (tmp_path / "run" / f"{LAST}.damaged").is_file()
    again.fit(7)
    assert bits(tmp_path / "run" / LAST) == bits(tmp_path / "whole" / LAST)
    assert (tmp_path / "run" / "log.csv").read_bytes() == (tmp_path / "whole" / "log.csv").read_bytes()
    assert whole.step == 7


def test_without_a_sound_checkpoint_there_is_a_sentence(tmp_path):
    trainer(out=tmp_path).fit(4)
    for name in (LAST, PREVIOUS):
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-1])
    with pytest.raises(ValueError, match="No other checkpoint is left"):
        trainer(out=tmp_path).resume()
    assert {f"{LAST}.damaged", f"{PREVIOUS}.damaged"} <= set(os.listdir(tmp_path))


@pytest.mark.parametrize("tail", [b"6,generator_loss,0.1", b"6,generator", b"\x00\xff\n", b"x,y,z\r\n"])
def test_a_damaged_log_is_cut_at_the_last_whole_row(tmp_path, tail):
    trainer(out=tmp_path).fit(6)
    sound = (tmp_path / "log.csv").read_bytes()
    (tmp_path / "log.csv").write_bytes(sound + tail)
    with pytest.warns(UserWarning, match="is damaged in row 13"):
        trainer(out=tmp_path).load(tmp_path / LAST)
    assert (tmp_path / "log.csv").read_bytes() == sound
    assert (tmp_path / "log.csv.damaged").read_bytes() == sound + tail


def test_a_run_has_a_checkpoint_before_its_first_step(tmp_path):
    def kill(objective):
        raise InterruptedError

    killed = trainer(out=tmp_path / "killed")
    killed.one_step = kill
    with pytest.raises(InterruptedError):
        killed.fit(5)
    assert read(tmp_path / "killed" / LAST)[1]["step"] == 0
    torch.rand(3)  # must come back from the checkpoint
    trainer(out=tmp_path / "killed").load(tmp_path / "killed" / LAST).fit(5)
    trainer(out=tmp_path / "whole").fit(5)
    assert bits(tmp_path / "killed" / LAST) == bits(tmp_path / "whole" / LAST)


def test_sigterm_saves_a_checkpoint_after_the_step(tmp_path):
    run = trainer(out=tmp_path)
    one_step = run.one_step

    def terminated(objective):
        if run.step == 4:
            signal.raise_signal(signal.SIGTERM)
        return one_step(objective)

    run.one_step = terminated
    before = signal.signal(signal.SIGTERM, lambda *_: pytest.fail("not held until the end of the step"))
    try:
        with pytest.raises(KeyboardInterrupt):
            run.fit(100)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert read(tmp_path / LAST)[1]["step"] == 5


def test_a_lengthened_run_equals_a_longer_one(tmp_path):
    trainer(out=tmp_path / "whole").fit(8)
    trainer(out=tmp_path / "parts").fit(5)
    trainer(out=tmp_path / "parts").load(tmp_path / "parts" / LAST).fit(8)
    assert bits(tmp_path / "parts" / LAST) == bits(tmp_path / "whole" / LAST)


def other_data(**others):
    torch.manual_seed(0)
    pair = MLPGenerator(widths=(8,), latent=2), MLPDiscriminator(widths=(8,))
    return Trainer(*pair, PRObjective(2.0), points(seed=7), settings=SETTINGS)


def other_network():
    torch.manual_seed(0)
    generator = MLPGenerator(widths=(8,), latent=2)
    generator.net[1] = nn.Tanh()
    return Trainer(generator, MLPDiscriminator(widths=(8,)), PRObjective(2.0), points(), settings=SETTINGS)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (lambda: trainer(PRObjective(5.0)), r"objective lam = 2.0, this run has 5.0"),
        (lambda: trainer(PRObjective(2.0, form="smoothed")), "objective form = log, this run has smoothed"),
        (lambda: trainer(FGAN("gan")), "objective class = PRObjective, this run has FGAN"),
        (lambda: trainer(Scheduled(PRObjective(2.0), steps=3, start={"lam": 1.0})), "objective class = PRObjective"),
        (other_network, "generator layers"),
        (other_data, "data sha256"),
    ],
    ids=["lam", "form", "objective", "scheduled", "network", "data"],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path, other, said):
    trainer().save(tmp_path / "run.safetensors")
    run = other()
    with pytest.raises(ValueError, match=said):
        run.load(tmp_path / "run.safetensors")


# ------------------------------------------------------------------------------------------------ state of objectives


@dataclass
class Doubled:
    """A wrapper that somebody else wrote, which knows nothing of state."""

    inner: object

    def discriminator_loss(self, real_logits, fake_logits):
        return 2 * self.inner.discriminator_loss(real_logits, fake_logits)

    def generator_loss(self, fake_logits):
        return 2 * self.inner.generator_loss(fake_logits)


WRAPPED = {
    "flow": (lambda: Doubled(OBRSObjective("kl", budget=2.0)), True),
    "scheduled": (lambda: Scheduled(OBRSObjective("kl", budget=3.0), steps=20, start={"budget": 1.5}), False),
    "both": (lambda: Doubled(Scheduled(OBRSObjective("kl"), steps=6, start={"budget": 1.5}).at(0)), True),
    "own": (lambda: Doubled(OBRSObjective("kl", budget=2.0)), False),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_tau_survives_in_any_wrapper(tmp_path, name):
    make, flow = WRAPPED[name]
    settings = replace(SETTINGS, refresh_every=4)
    trainer(make(), settings=settings, flow=flow, out=tmp_path / "whole").fit(8)
    first = trainer(make(), settings=settings, flow=flow, out=tmp_path / "parts")
    first.fit(7)
    state = read(tmp_path / "parts" / LAST)[1]["objective"]
    assert [key.rpartition(".")[2] for key in state] == ["log_tau"]
    assert all(np.isfinite(value) for value in state.values())
    second = trainer(make(), settings=settings, flow=flow, out=tmp_path / "parts").load(tmp_path / "parts" / LAST)
    second.fit(8)
    assert bits(tmp_path / "parts" / LAST) == bits(tmp_path / "whole" / LAST)


def test_tau_is_refreshed_inside_a_wrapper():
    settings = replace(SETTINGS, refresh_every=1)
    run = trainer(Doubled(OBRSObjective("kl", budget=2.0)), settings=settings, flow=True).fit(1)
    first = run.objective.inner.log_tau
    run.fit(3)
    assert run.objective.inner.log_tau != first


# ------------------------------------------------------------------------------------------------ modes and randomness


def batch_normed():
    generator = MLPGenerator(widths=(8,), latent=2)
    generator.net.insert(1, nn.BatchNorm1d(8))
    return Trainer(generator, MLPDiscriminator(widths=(8,)), FGAN(), points(), settings=SETTINGS).fit(2)


def test_sampling_disturbs_no_batch_statistics_and_no_mode():
    run = batch_normed()
    before = {name: value.clone() for name, value in run.generator.state_dict().items()}
    one, two = run.sample(16, average=False), run.sample(64, average=False)[:16]
    torch.testing.assert_close(one, two)  # no sample depends on the others
    assert all(torch.equal(value, before[name]) for name, value in run.generator.state_dict().items())
    assert all(layer.training for layer in run.generator.modules())


@pytest.mark.parametrize("seed", [0, 1])
def test_samples_have_latents_of_their_own(seed):
    seen = []
    run = trainer(settings=replace(SETTINGS, seed=seed))
    run.generator.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    run.fit(1)
    run.sample(SETTINGS.batch_size, seed=0, average=False)
    *trained, drawn = seen
    assert not any(torch.isclose(drawn, z).all(1).any() for z in trained)
    run.sample(SETTINGS.batch_size, seed=1009 * seed, average=False)
    assert not any(torch.isclose(seen[-1], z).all(1).any() for z in trained)


# ------------------------------------------------------------------------------------------------------------- tables


def table(n=400):
    """Columns of very different location and scale, one of them constant."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 4)) * [1e5, 1e-6, 2.0, 0.0] + [1e9, 0.0, -3e4, 12.5]
    return TrainingData(x[: n // 2], None, x[n // 2 :], None, 0, "mine")


@pytest.mark.parametrize("model", ["realnvp", "mlp"])
def test_own_tables_are_standardised_and_samples_have_their_units(model, tmp_path):
    made = replace(recipe(table(), model), steps=3)
    run = made.trainer(batch_size=64, log_every=1, out=tmp_path).fit(3)
    drawn = run.sample(300).numpy()
    data = made.data.samples
    assert (drawn[:, 3] == 12.5).all()
    if model != "mlp":  # a flow starts as a standard normal in standardised units
        spread = drawn[:, :3].std(0) / data[:, :3].std(0)
        assert ((spread > 0.5) & (spread < 2)).all()
        assert (np.abs(drawn[:, :3].mean(0) - data[:, :3].mean(0)) < data[:, :3].std(0)).all()
    assert (np.abs(run.batches.at(0)[0].numpy()) < 6).all()


def test_the_likelihood_of_a_table_is_that_of_its_units(tmp_path):
    made = replace(recipe(table(), "realnvp"), steps=2)
    made.trainer(kind="likelihood", log_every=1, out=tmp_path).fit(1)
    x = made.data.samples
    mean, scale = x[:, :3].mean(0), x[:, :3].std(0)
    z = (x[:, :3] - mean) / scale
    exact = -(z**2).sum(1) / 2 - 1.5 * np.log(2 * np.pi) - np.log(scale).sum()  # a flow that is not yet trained
    fresh = made.trainer(kind="likelihood")
    np.testing.assert_allclose(fresh.log_prob(x).numpy(), exact, rtol=1e-4)
    assert fresh.log_prob(x + np.eye(4)[3]).isneginf().all()
    logged = float((tmp_path / "log.csv").read_text().split()[0].rpartition(",")[2])
    assert abs(logged + exact.mean()) < 1


def test_the_standardisation_is_in_the_checkpoint(tmp_path):
    made = replace(recipe(table(), "realnvp"), steps=2)
    run = made.trainer(out=tmp_path).fit(2)
    moved = replace(table(), samples=table().samples * [2, 2, 2, 1])
    tuned = replace(recipe(moved, "realnvp"), steps=2).trainer(init=tmp_path / LAST)
    torch.testing.assert_close(tuned.sample(20), run.sample(20))
    again = made.trainer(out=tmp_path).resume()
    assert torch.equal(again.sample(20), run.sample(20))
    varied = replace(table(), samples=table().samples + np.arange(200)[:, None])
    with pytest.raises(ValueError, match=r"column of `data` that varies|another generator"):
        replace(recipe(varied, "realnvp"), steps=2).trainer(init=tmp_path / LAST)


def test_tables_without_variation_cost_a_sentence():
    with pytest.raises(ValueError, match="a column that varies; all are constant"):
        recipe(replace(table(), samples=np.ones((20, 3)), held_out=np.ones((20, 3))))


def test_extreme_scales_are_standardised():
    from precall.tune.standardization import Standardization

    x = np.random.default_rng(0).normal(size=(100, 3)) * [1e-200, 1e200, 1.0] + [0, 0, 1e12]
    z = Standardization.of(x).apply(x)
    np.testing.assert_allclose(z.std(0), 1, rtol=1e-3)
    np.testing.assert_allclose(z.mean(0), 0, atol=1e-3)


def test_data_sets_of_precall_keep_their_scale():
    assert recipe("8-gaussians").standard is None


def test_wrong_settings_cost_a_sentence():
    for wrong in ({"seed": -1}, {"seed": 2**70}, {"batch_size": 10**9}, {"warmup": -1}, {"generator_lr": float("nan")}):
        with pytest.raises(ValueError, match=f"`{next(iter(wrong))}` must"):
            replace(SETTINGS, **wrong)


def test_density_objectives_work_on_tables():
    run = replace(recipe(table(), "realnvp"), steps=3).trainer(lam=5.0, batch_size=32)
    assert isinstance(run.objective.objective, DensityPR)
    assert run.fit(3).sample(5).isfinite().all()
