"""A dial of a GAN that is trained further from a plain one: the experiment runs at a small size."""

import json
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from experiments.common.feature_maps import frozen
from experiments.common.gan import Adversaries, copied, late_bins, summed
from experiments.common.trade_off import beyond_the_line
from experiments.extensions.gan_dials import Options
from experiments.extensions.gan_features import (
    CENTRAL as STRENGTHS_OF,
    DIALS,
    KNOBS,
    PLAIN,
    SETTINGS,
    gentle,
    planned,
    settings,
)

CPU = torch.device("cpu")
RESULTS = Path(__file__).parents[3] / "experiments" / "extensions" / "results"
PLAN = ["base", "further,psi=0.8", "features,reject=2", "bins,tilt=0", "bins,tilt=9,reject=2"]


@pytest.mark.usefixtures("small_steps")
def test_smoke(run, tmp_path):
    (tmp_path / "plan").write_text("".join(f"3 {name}\n" for name in PLAN))
    words = ("--smoke", "--seeds", 3, "--plan", tmp_path / "plan", "--work", tmp_path / "work", "--out", tmp_path)
    printed = run("extensions.gan_features", *words)
    rows = json.loads((tmp_path / "gan_features.json").read_text())["rows"]
    assert [(row["seed"], row["setting"]) for row in rows] == [(3, name) for name in PLAN]
    assert (tmp_path / "gan_features.png").stat().st_size > 1000
    assert [f"{name} of seed 3: {n} steps" in printed for name, n in (("base", 3), ("bins", 2))] == [True] * 2
    assert "steps" not in run("extensions.gan_features", *words)  # nothing is trained twice
    with np.load(tmp_path / "work" / "seed-3" / "draws base.npz") as pool:
        kept = np.load(tmp_path / "work" / "seed-3" / "features" / "base.npy")
        assert np.array_equal(kept, pool["features"][: len(kept)])


def test_central_rejection_is_a_dial_of_eight_strengths():
    lines = planned(Namespace(plan=None, central=True, seeds=[5]))[0]
    names = [setting.name for _, setting in lines]
    strengths = [Options.of(name).central for name in names if name.startswith("features,reject=2")]
    assert strengths == [-1, -0.5, 0, 0.5, 1, 1.5, 2, 3]
    assert {Options.of(name).network for name in names} == set(PLAIN)
    assert len(set(names)) == len(names)


def adversaries(**others):
    images = torch.as_tensor(np.random.default_rng(0).integers(256, size=(40, 1, 32, 32), dtype=np.uint8))
    return Adversaries(
        images, torch.arange(40) % 2, ch=2, batch=4, table=40, seed=0, device=CPU, **others
    ), np.arange(40)  # fmt: skip


def test_with_bins_a_network_begins_as_the_plain_one():
    plain, rows = adversaries()
    plain.start(rows, plain.first)
    plain.step(1e-3)
    base = {**plain.weights(), "present": copied(plain.net)}
    run, _ = adversaries(bins=5, maps=frozen(True, CPU), late=True)
    nets = {"generator": run.net, "present": run.net, "discriminator": run.critic}
    run.start(rows, {key: late_bins(base[key], net) for key, net in nets.items()}, labels=rows % 10, age=1000)
    z, labels, x = torch.randn(6, *run.net.latent_shape), torch.arange(6) % 2, torch.randn(6, 1, 32, 32)
    pairs = labels + 2 * torch.arange(6).clamp(max=4)
    for one, other, first in ((plain.net, run.net, z), (plain.critic, run.critic, x)):
        one.eval()
        other.eval()
        assert torch.equal(one(first, labels), other(first, pairs))
        other.train()
    run.step(1e-2)
    for net in (run.net, run.critic):
        assert net.embedding.of_pair.weight.abs().sum() > 0  # and learns the bins
    moved = [mean - base["generator"][name.replace(".of_class", "")] for name, mean in run.average.named_parameters()
             if "of_pair" not in name]  # fmt: skip
    assert max(change.abs().max() for change in moved) < 1e-3  # the average goes on as an old one


def test_critics_on_maps_are_trained_and_their_network_is_not():
    run, rows = adversaries(maps=frozen(True, CPU))
    run.start(rows, run.first)
    before, heads = copied(run.heads.network), copied(run.heads)
    run.step(1e-2)
    assert all(torch.equal(value, before[name]) for name, value in run.heads.network.state_dict().items())
    assert any(not torch.equal(value, heads[name]) for name, value in run.heads.state_dict().items())


def test_losses_of_maps_count_as_one():
    first, a, b = (torch.tensor(value) for value in (1.0, 2.0, 4.0))
    assert summed([first, a, b]) == 4
    assert summed([first]) == 1


def test_the_rate_rises_stays_and_falls():
    assert gentle(0.0, 1.0) < 0.05
    assert gentle(0.3, 1.0) == 1
    assert 0 < gentle(0.9, 1.0) < 0.5


CENTRAL = "{}, rejection by ratio and centrality, K = 2"
TILTS = ("-1", "-0.5", "0", "0.5", "1", "2", "9")
SEEDS = ("0", "1", "2")


@pytest.fixture(scope="module", params=["cifar-10", "fashion-mnist"])
def found(request):
    """The data, and what was published."""
    return request.param, json.loads((RESULTS / f"gan_features-{request.param}.json").read_text())


def scores_of(results, seed, names, score):
    rows = {row["setting"]: row for row in results["rows"] if str(row["seed"]) == seed}
    return np.array([rows[name][score] for name in names])


def test_the_published_rows_are_of_these_settings(found):
    _, results = found
    lines = [(row["seed"], row["setting"]) for row in results["rows"]]
    assert lines == [(seed, name) for name in SETTINGS for seed in (0, 1, 2)]
    assert {row["n"] for row in results["rows"]} == {10_000}
    for label, line in KNOBS.items():
        assert results["recall beyond"][label] == beyond_the_line(results["rows"], line)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_published_dials_turn_as_the_docs_say(found, seed):
    data, results = found
    for label, line in DIALS.items():
        precision, recall = (scores_of(results, seed, line, score) for score in ("precision", "recall"))
        turns = np.arange(len(line))
        assert spearmanr(turns, precision)[0] > 0.9
        assert spearmanr(turns, recall)[0] < (-0.84 if (data, seed) == ("fashion-mnist", "1") else -0.9)
        assert precision[-1] - precision[0] > (0.05 if data == "cifar-10" or "K" in label else 0.035)
        assert recall[0] - recall[-1] > 0.15
    middle = scores_of(results, seed, ("bins,tilt=0", "further", "base"), "fid")
    assert middle[0] < middle[1] - 1


@pytest.mark.parametrize("seed", SEEDS)
def test_the_published_gains_are_those_of_the_docs(found, seed):
    data, results = found
    gain = results["recall beyond"][CENTRAL.format("base")]
    assert min(gain[f"bins,tilt={s},reject=2"][seed] for s in TILTS) > (0.06 if data == "cifar-10" else 0.037)
    assert gain["features,reject=2"][seed] > 0.06
    above = results["recall beyond"][CENTRAL.format("features")]
    assert max(of.get(seed, 0.0) for name, of in above.items() if name.startswith("bins")) < 0.0045
    for score, sign in (("precision", 1), ("recall", 1), ("fid", -1)):
        features, further = scores_of(results, seed, ("features", "further"), score)
        assert sign * (features - further) > 0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("judge", ["linear", "auto"])
def test_the_published_critics_mend_at_every_slope(found, judge, seed):
    data, results = found
    base, further, features = scores_of(results, seed, ("base", "further", "features"), judge)
    slopes = list(features["low"])
    assert all(features[name] > max(base[name], further[name]) for name in slopes)
    if (data, judge) != ("fashion-mnist", "auto"):
        for name in ("beta(0.1)", "alpha(10)"):
            assert features["low"][name] > further["high"][name]
            assert features[name] - base[name] > (1 - base[name]) / 3


@pytest.fixture(scope="module", params=["cifar-10", "fashion-mnist"])
def central(request):
    """The data, and what was published about central rejection."""
    return request.param, json.loads((RESULTS / f"gan_features-{request.param}-central.json").read_text())


def dial_of(name):
    return STRENGTHS_OF[f"{name}, central rejection, K = 2"]


def test_the_published_strengths_are_these(central):
    _, results = central
    lines = [(row["seed"], row["setting"]) for row in results["rows"]]
    assert lines == [(seed, name) for name in settings(STRENGTHS_OF) for seed in (0, 1, 2)]
    assert {row["n"] for row in results["rows"]} == {10_000}
    for label, line in STRENGTHS_OF.items():
        assert results["recall beyond"][label] == beyond_the_line(results["rows"], line)


@pytest.mark.parametrize("seed", SEEDS)
def test_central_rejection_meets_every_requirement_of_a_dial(central, seed):
    data, results = central
    dial = dial_of("features")
    precision, recall = (scores_of(results, seed, dial, score) for score in ("precision", "recall"))
    assert (np.diff(precision) > 0).all()
    assert (np.diff(recall) < 0).all()
    assert precision[-1] - precision[0] > 0.149
    assert recall[0] - recall[-1] > 0.18
    middle, *others = scores_of(results, seed, [f"{n}{r}" for n in PLAIN[::-1] for r in (",reject=2", "")], "fid")
    assert middle < min(others[1:]) - 0.6  # others[0] is `features` without rejection
    rival = "further" if (data, seed) == ("cifar-10", "0") else "base"  # that base had collapsed
    gains = results["recall beyond"][f"{rival}, central rejection, K = 2"]
    compared = [gains[name][seed] for name in dial if seed in gains.get(name, {})]
    assert len(compared) > 4
    assert min(compared) > 0.05


def test_one_published_base_had_collapsed():
    results = json.loads((RESULTS / "gan_features-cifar-10-central.json").read_text())
    recall = {seed: scores_of(results, seed, ["base"], "recall")[0] for seed in SEEDS}
    assert recall["0"] < 0.01
    assert min(recall["1"], recall["2"]) > 0.4


def test_a_longer_training_makes_a_wider_tilt():
    results = json.loads((RESULTS / "gan_features-fashion-mnist-1880.json").read_text())
    dial = [f"bins,tilt={s}" for s in TILTS]
    precision, recall = (scores_of(results, "0", dial, score) for score in ("precision", "recall"))
    assert (np.diff(precision) > 0).all()
    assert (np.diff(recall) < 0).all()
    assert precision[-1] - precision[0] > 0.035
    assert recall[0] - recall[-1] > 0.09
    assert scores_of(results, "0", ("features", "bins,tilt=0"), "fid").max() < 7.7
