"""Recipes: the networks fit the data, λ arrives where it should, and one's own networks take part."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from precall.tune.data import TrainingData
from precall.tune.objectives import FGAN, DensityPR, OBRSObjective, PRObjective
from precall.tune.recipes import DEFAULT_MODEL, FAMILIES, OBJECTIVES, Recipe, dequantized, imported, recipe
from precall.tune.schedules import Scheduled

SHAPES = {
    "8-gaussians": (2,),
    "25-gaussians": (2,),
    "digits": (1, 8, 8),
    "mnist": (1, 28, 28),
    "fashion-mnist": (1, 28, 28),
    "cifar-10": (3, 32, 32),
    "celeba-64": (3, 64, 64),
}


def fake(name, n=24):
    """Random data of the shape and type that `name` has."""
    rng, shape = np.random.default_rng(0), SHAPES[name]
    classes = 0 if name == "celeba-64" else 10
    labels = rng.integers(0, 10, n) if classes else None
    if len(shape) == 1:
        both = [rng.normal(size=(n, *shape)).astype(np.float32) for _ in range(2)]
    else:
        both = [rng.integers(0, 256, (n, *shape), dtype=np.uint8) for _ in range(2)]
    return TrainingData(both[0], labels, both[1], labels, classes, name)


@pytest.fixture(autouse=True)
def quick_start(monkeypatch):
    """Orthogonal weights take BigGAN a quarter of a minute, and are tested with the models."""
    monkeypatch.setattr(nn.init, "orthogonal_", lambda tensor: tensor)


CASES = [
    *(("8-gaussians", model) for model in ("realnvp", "mlp")),
    *(("digits", model) for model in ("mlp", "conv", "realnvp")),
    ("mnist", "conv"),
    ("cifar-10", "biggan"),
]


@pytest.mark.parametrize(("name", "model"), CASES)
def test_every_family_trains_on_what_it_is_for(name, model):
    steps = 1 if model == "biggan" else 3  # for flows: likelihood first, then the objective
    made = replace(recipe(fake(name), model), steps=steps)
    trainer = made.trainer(lam=5.0, batch_size=2).fit(steps)
    assert trainer.sample(2).shape == (2, *made.data.shape)
    assert trainer.settings.batch_size == 2


def test_every_data_set_has_a_model_of_its_own():
    assert set(DEFAULT_MODEL) == set(SHAPES)
    assert set(DEFAULT_MODEL.values()) <= set(FAMILIES)
    assert {name: recipe(fake(name)).model for name in SHAPES} == DEFAULT_MODEL
    assert recipe(replace(fake("digits"), name="mine")).model == "conv"
    assert recipe(replace(fake("8-gaussians"), name="mine")).model == "realnvp"


@pytest.mark.parametrize(
    ("name", "model", "shape"),
    [
        ("mnist", "biggan", (1, 32, 32)),
        ("mnist", "conv", (1, 28, 28)),
        ("mnist", "mlp", (1, 28, 28)),
        ("cifar-10", "biggan", (3, 32, 32)),
    ],
)
def test_images_are_padded_where_networks_halve_them(name, model, shape):
    data, made = fake(name), recipe(fake(name), model)
    assert made.data.shape == shape
    assert made.data.held_out.shape[1:] == shape
    edge = (shape[1] - 28) // 2 if name == "mnist" else 0
    inside = made.data.held_out[..., edge : shape[1] - edge, edge : shape[2] - edge]
    assert (inside == data.held_out).all()
    assert made.data.held_out.sum() == data.held_out.sum()  # black around


def test_flows_get_noise_below_a_grey_level_and_others_bytes():
    assert recipe(fake("digits"), "conv").data.samples.dtype == np.uint8
    noisy = recipe(fake("digits"), "realnvp").data
    assert noisy.samples.dtype == np.float32
    assert (np.floor((noisy.samples + 1) * 128) == fake("digits").samples).all()
    assert noisy.held_out.dtype == np.uint8
    assert len(np.unique(dequantized(np.zeros((1, 1, 8, 8), np.uint8)))) == 64


def test_published_sizes():
    """Verine (2024), App. C.1.4 and C.2.1."""

    def counts(name, model):
        return [sum(p.numel() for p in network.parameters()) for network in recipe(fake(name), model).networks()]

    assert counts("cifar-10", "biggan") == [4_304_387, 4_207_361]
    assert counts("25-gaussians", "mlp") == [659_714, 659_457]
    assert counts("mnist", "mlp") == [1_486_352, 1_460_225]


def test_only_biggan_is_given_the_classes():
    assert {model: recipe(fake("mnist"), model).classes for model in ("mlp", "conv", "realnvp", "biggan")} == {
        "mlp": 0,
        "conv": 0,
        "realnvp": 0,
        "biggan": 10,
    }
    assert recipe(fake("celeba-64"), "biggan").classes == 0


@pytest.mark.parametrize("lam", [0.1, 10.0])
@pytest.mark.parametrize(
    ("name", "model", "kind", "expected"),
    [
        ("8-gaussians", "realnvp", "pr", DensityPR),
        ("8-gaussians", "mlp", "pr", PRObjective),
        ("digits", "conv", "pr", PRObjective),
        ("digits", "realnvp", "pr", PRObjective),
        ("8-gaussians", "realnvp", "tail", PRObjective),
        ("digits", "mlp", "smoothed", PRObjective),
    ],
)
def test_lam_starts_at_one_or_softly_and_arrives(name, model, kind, expected, lam):
    made = recipe(fake(name), model)
    objective = made.objective(lam, kind=kind)
    assert isinstance(objective, Scheduled)
    assert objective.first_steps + objective.steps < made.steps
    assert (objective.first_steps > 0) == (not made.flow)
    first, last = objective.at(objective.first_steps), objective.at(made.steps)
    assert isinstance(last, expected)
    assert last.lam == lam
    if expected is DensityPR:
        assert (first.lam, first.power, last.power) == (lam, pytest.approx(0.05), 1.0)
    else:
        assert first.lam == pytest.approx(1.0)
    if expected is PRObjective:
        assert last.form == (PRObjective.form if kind == "pr" else kind)


def test_a_generator_without_density_is_a_plain_gan_before_lam_acts():
    made = replace(recipe(fake("digits"), "mlp"), steps=200)
    for lam in (0.1, 1.0, 10.0):
        objective = made.trainer(lam=lam).objective
        assert objective.at(0) == objective.at(89) == FGAN("gan", play="nonsaturating")
        assert objective.at(90) == PRObjective(1.0)
        assert objective.at(90 + 27) == objective.at(199) == PRObjective(lam)
    assert made.plain_steps == 90
    assert replace(recipe(fake("digits"), "realnvp"), steps=200).plain_steps == 0


def test_a_trained_model_is_tuned_without_plain_steps(tmp_path):
    made = replace(recipe(fake("digits"), "mlp"), steps=4)
    made.trainer(kind="gan", batch_size=4, out=tmp_path).fit(2)
    for given in ({"init": tmp_path / "checkpoint.safetensors"}, {"tuned": True}):
        assert made.trainer(lam=5.0, batch_size=4, **given).objective.at(0) == PRObjective(1.0)


def test_the_first_objective_trains_and_leaves_the_state_of_the_next_alone():
    schedule = Scheduled(OBRSObjective("gan", 4.0, log_tau=0.5), 2, {"budget": 1.0}, FGAN("gan"), 3)
    assert [schedule.at(step) for step in range(3)] == [FGAN("gan")] * 3
    assert [schedule.at(step).budget for step in (3, 4, 5)] == pytest.approx([1.0, 2.0, 4.0])
    assert schedule.at(9).log_tau == 0.5


def test_scores_have_enough_held_out_data():
    made = recipe("digits")
    assert (len(made.data.samples), len(made.data.held_out)) == (1198, 599)
    assert len(recipe(fake("digits")).data.held_out) == 24  # a split that was given is kept


def test_labels_are_for_networks_with_classes():
    for model in ("mlp", "conv"):
        made = replace(recipe(fake("digits"), model, labels=True), steps=2)
        trainer = made.trainer(batch_size=4).fit(2)
        assert trainer.generator.classes == trainer.discriminator.classes == 10
    assert recipe(fake("cifar-10"), labels=False).classes == 0
    with pytest.raises(ValueError, match="flows have none"):
        recipe(fake("digits"), "realnvp", labels=True)
    with pytest.raises(ValueError, match="`celeba-64` has none"):
        recipe(fake("celeba-64"), labels=True)


def test_the_other_objectives():
    made = recipe(fake("digits"))
    assert made.objective(kind="obrs", budget=4.0) == OBRSObjective("gan", 4.0)
    assert made.objective(kind="gan") == FGAN("gan", play="nonsaturating")
    for kind in set(OBJECTIVES) - {"likelihood"}:
        replace(made, steps=2).trainer(kind=kind, batch_size=4).fit(2)


def test_likelihood_is_for_flows_and_lasts_the_whole_run():
    made = replace(recipe(fake("8-gaussians"), "realnvp"), steps=7)
    assert made.trainer(kind="likelihood").settings.warmup == 7
    with pytest.raises(ValueError, match="likelihood requires a flow"):
        recipe(fake("8-gaussians"), "mlp").trainer(kind="likelihood")


def test_warmup_is_a_share_of_the_steps_and_of_flows():
    points = replace(recipe(fake("8-gaussians"), "realnvp"), steps=1000)
    assert [points.warmup(lam) for lam in (0.1, 1.0, 10.0)] == [40, 500, 40]
    assert replace(recipe(fake("digits"), "realnvp"), steps=900).warmup(10.0) == 600
    assert recipe(fake("digits"), "conv").warmup() == 0


def test_fine_tuning_starts_from_the_checkpoint_without_warmup(tmp_path):
    made = replace(recipe(fake("8-gaussians"), "realnvp"), steps=8)
    first = made.trainer(kind="likelihood", out=tmp_path).fit(8)
    second = made.trainer(lam=0.1, init=tmp_path / "checkpoint.safetensors", seed=3)
    assert second.settings.warmup == 0
    assert second.step == 0
    for ours, theirs in zip(second.generator.parameters(), first.generator.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_networks_follow_from_the_seed_and_disturb_nobody():
    made = recipe(fake("digits"), "mlp")
    before = torch.get_rng_state()
    one, same, other = (made.networks(seed)[0].net[0].weight for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


# ------------------------------------------------------------------------------------------------- one's own networks


class OwnGenerator(nn.Module):
    classes = 0
    latent_shape = (3,)

    def __init__(self, shape):
        super().__init__()
        self.shape, self.net = shape, nn.Linear(3, int(np.prod(shape)))

    def forward(self, z, labels=None):
        return self.net(z).view(-1, *self.shape)


class OwnFlow(OwnGenerator):
    def forward_with_log_prob(self, z):
        raise NotImplementedError


def own_discriminator(**arguments):
    network = nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(arguments["shape"])), 1), nn.Flatten(0))
    network.told = arguments
    network.forward = lambda x, labels=None: nn.Sequential.forward(network, x)
    return network


def plain_discriminator():
    return own_discriminator(shape=(2,))


number = 3
HERE = __name__


@pytest.fixture
def here(monkeypatch):
    """This module under a name that imports."""
    import sys

    monkeypatch.setitem(sys.modules, "own_networks", sys.modules[HERE])
    return "own_networks"


def test_own_networks_are_called_with_what_they_take(here):
    made = recipe(
        fake("mnist"), generator=f"{here}:OwnGenerator", discriminator=f"{here}:own_discriminator"
    )  # `shape` only; and anything
    made = replace(made, steps=2)
    trainer = made.trainer(lam=2.0, batch_size=4).fit(2)
    assert isinstance(trainer.generator, OwnGenerator)
    assert trainer.discriminator.told == {"shape": (1, 28, 28), "classes": 0}
    assert made.model == f"{here}:OwnGenerator"
    points = recipe(fake("8-gaussians"), "mlp", discriminator=f"{here}:plain_discriminator")
    assert isinstance(points.networks()[1], nn.Sequential)


def test_an_own_generator_with_a_density_is_a_flow(here):
    assert recipe(fake("digits"), generator=f"{here}:OwnFlow").flow
    assert not recipe(fake("digits"), "realnvp", generator=f"{here}:OwnGenerator").flow


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("networks.Mine", "must be given as `package.module:Class`"),
        (":Mine", "must be given as"),
        ("no_such_module:Mine", "cannot be imported: No module named 'no_such_module'"),
        ("precall.tune.data:Mine", "cannot be imported: .* has no attribute 'Mine'"),
        ("precall.tune.data:POINTS", "must be a class or a function; got int"),
    ],
)
def test_a_network_that_cannot_be_had_costs_a_sentence(path, said):
    with pytest.raises(ValueError, match=said):
        imported(path)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: recipe(fake("digits"), "gan"), "`model` must be one of mlp, conv"),
        (lambda: recipe(fake("8-gaussians"), "conv"), r"`model` conv requires images; .* shape \(2,\). Use mlp"),
        (
            lambda: recipe(fake("digits"), "biggan").networks(),
            "biggan requires images of 32 × 32 or 64 × 64; got 8 × 8",
        ),
        (lambda: recipe(fake("digits")).trainer(batchsize=3), "`overrides` must be one of batch_size.*'batchsize'"),
        (lambda: recipe(fake("digits")).trainer(lam=-1), "`lam` must be positive"),
        (lambda: recipe(fake("digits")).trainer(kind="wgan"), "`kind` must be one of pr, tail"),
        (lambda: recipe(fake("digits")).trainer(kind="obrs", budget=0.5), "`budget` must be at least 1"),
    ],
)
def test_wrong_wishes_cost_a_sentence(call, said):
    with pytest.raises(ValueError, match=said) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_a_recipe_is_frozen():
    with pytest.raises(AttributeError):
        recipe(fake("digits")).steps = 5
    assert isinstance(recipe("digits"), Recipe)
