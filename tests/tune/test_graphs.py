"""Training steps with all that varies at fixed places, as CUDA graphs need them; the capture itself needs a GPU."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from experiments.common.linear_critic import LinearChiSquared
from experiments.common.self_normalised import SelfNormalised
from precall.tune import FGAN, DensityPR, OBRSObjective, PRObjective, Scheduled, Settings, Trainer
from precall.tune.batches import Batches
from precall.tune.graphs import WARM_UP, StaticStep
from precall.tune.models.flows import RealNVP
from precall.tune.models.mlp import MLPDiscriminator, MLPGenerator
from precall.tune.parameters import move_average

SETTINGS = Settings(batch_size=16, generator_lr=1e-3, discriminator_lr=1e-3, discriminator_steps=2, noise=0.1)
cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="requires a GPU")


def trainer(objective, *, settings=SETTINGS, flow=False, classes=0, **others):
    torch.manual_seed(0)
    generator = RealNVP(hidden=(8,)) if flow else MLPGenerator(widths=(8,), latent=2, classes=classes)
    points = np.random.default_rng(0).normal(3.0, 1.0, (100, 2)).astype(np.float32)
    labels = np.arange(100) % classes if classes else None
    critic = MLPDiscriminator(widths=(8,), classes=classes)
    return Trainer(generator, critic, objective, points, labels=labels, settings=settings, **others)


def static(run):
    """The trainer with steps of fixed places, without a graph."""
    run.static = StaticStep(run)
    return run


def assert_equal_networks(one, other):
    for name in ("generator", "discriminator", "average"):
        for a, b in zip(getattr(one, name).parameters(), getattr(other, name).parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


RUNS = {
    "pr": (lambda: Scheduled(PRObjective(5.0), steps=4, start={"lam": 1.0}), {}, {}),
    "labels": (lambda: FGAN("gan"), {"accumulate": 2, "cooldown": 0.5, "clip": 1.0}, {"classes": 3}),
    "obrs": (lambda: OBRSObjective("gan"), {"refresh_every": 8}, {}),
    "penalty": (lambda: PRObjective(2.0), {"r1": 1.0, "r1_every": 3}, {}),
    "order": (lambda: SelfNormalised(order=-0.5), {}, {}),
    "tail": (lambda: SelfNormalised(lam=5.0), {}, {}),
    "linear": (lambda: PRObjective(2.0, form="tail", critic=LinearChiSquared()), {}, {}),
    "density": (lambda: DensityPR(2.0), {"noise": 0.0, "warmup": 2}, {"flow": True}),
}


@pytest.mark.parametrize("name", RUNS)
def test_steps_at_fixed_places_are_those_of_the_plain_loop(name):
    objective, changes, others = RUNS[name]
    settings = replace(SETTINGS, **changes)
    torch.manual_seed(7)
    plain = trainer(objective(), settings=settings, **others).fit(10)
    torch.manual_seed(7)
    fixed = static(trainer(objective(), settings=settings, **others)).fit(10)
    assert_equal_networks(plain, fixed)
    assert plain.batch == fixed.batch
    assert torch.equal(plain.rng.get_state(), fixed.rng.get_state())


def test_nothing_that_varies_moves():
    """The graph would read the old place."""
    run = static(trainer(PRObjective(2.0), settings=replace(SETTINGS, cooldown=1.0)))
    run.fit(1)
    step = run.static
    groups = [group for optimizer in run.optimizers.values() for group in optimizer.param_groups]
    places = [one.data_ptr() for one in (step.rows, step.weight, *(group["lr"] for group in groups))]
    before = [value.clone() for value in (step.rows, step.weight, groups[0]["lr"])]
    run.set_learning_rates(10)
    run.step += 1
    run.one_step(run.objective)
    assert places == [one.data_ptr() for one in (step.rows, step.weight, *(group["lr"] for group in groups))]
    for old, new in zip(before, (step.rows, step.weight, groups[0]["lr"]), strict=True):
        assert not torch.equal(old, new)


def test_a_checkpoint_serves_both_kinds_of_steps(tmp_path):
    settings = replace(SETTINGS, checkpoint_every=3)
    whole = trainer(PRObjective(2.0), settings=settings).fit(8)
    trainer(PRObjective(2.0), settings=settings, out=tmp_path).fit(4)
    again = static(trainer(PRObjective(2.0), settings=settings, out=tmp_path)).resume()
    assert_equal_networks(whole, again.fit(8))


def test_constants_of_a_graph_are_all_that_a_step_depends_on():
    run = static(trainer(PRObjective(2.0), settings=replace(SETTINGS, r1=1.0, r1_every=2, warmup=0)))
    constants = run.static._constants
    first = constants(PRObjective(2.0))
    assert constants(PRObjective(2.0)) == first
    assert constants(PRObjective(3.0)) != first
    assert constants(OBRSObjective("gan", log_tau=0.5)) != constants(OBRSObjective("gan", log_tau=0.6))
    run.step = 1  # no penalty
    assert constants(PRObjective(2.0)) != first
    run.step = 2
    assert constants(PRObjective(2.0)) == first


def test_a_step_is_captured_once_its_constants_stay(monkeypatch):
    """Without a GPU: what would be captured and replayed is counted."""
    run, told = static(trainer(Scheduled(PRObjective(5.0), steps=6, start={"lam": 1.0}))), []

    class Graph:
        def __init__(self, objective):
            self.objective = objective

        def replay(self):
            told.append("replay")
            run.static._step(self.objective)

    def captured(objective):
        told.append("capture")
        return Graph(objective), {name: torch.zeros(2) for name in rows}

    rows = run.one_step(run.objective.at(0))
    monkeypatch.setattr(run.static, "_captured", captured)
    for number in range(6 + WARM_UP + 3):
        run.static._fill()
        run.static._captured_or_not(run.objective.at(number))
    assert told == ["capture", "replay", "replay", "replay"]
    run.static.forget()
    assert not run.static.graphs


@pytest.mark.parametrize("weight", [0.001, 0.9])
def test_the_average_moves_by_a_number_as_by_a_tensor(weight):
    torch.manual_seed(0)
    network, one, other = (torch.nn.BatchNorm1d(3) for _ in range(3))
    network.weight.data.normal_()
    network.num_batches_tracked += 5
    move_average(one, network, weight)
    move_average(other, network, torch.tensor(weight))
    for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b)
    torch.testing.assert_close(one.weight, 1 + weight * (network.weight - 1))
    assert one.num_batches_tracked == 5


def test_the_rows_of_a_batch_cross_the_end_of_an_epoch():
    batches = Batches(np.arange(5.0), size=12, seed=0)
    rows = batches.indices(0)
    assert sorted(rows[:5].tolist()) == sorted(rows[5:10].tolist()) == list(range(5))
    assert torch.equal(batches.gathered(rows)[0], batches.at(0)[0])


def test_graphs_are_refused_on_the_cpu():
    from lightning.fabric import Fabric

    with pytest.raises(ValueError, match="`graphs` requires a CUDA device; got cpu"):
        trainer(PRObjective(2.0), fabric=Fabric(accelerator="cpu"), graphs=True)


@cuda
@pytest.mark.parametrize("name", RUNS)
def test_captured_steps_are_those_of_the_plain_loop(name):
    objective, changes, others = RUNS[name]
    settings = replace(SETTINGS, **changes)
    torch.manual_seed(7)
    plain = trainer(objective(), settings=settings, **others).fit(30)
    torch.manual_seed(7)
    run = trainer(objective(), settings=settings, graphs=True, **others).fit(30)
    assert run.static.graphs
    for a, b in zip(plain.generator.parameters(), run.generator.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-3)
    assert torch.equal(plain.rng.get_state(), run.rng.get_state())
