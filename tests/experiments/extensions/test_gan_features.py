"""A dial of a GAN that is trained further from a plain one: the experiment runs at a small size."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from experiments.common.feature_maps import frozen
from experiments.common.gan import Adversaries, copied, late_bins, summed
from experiments.common.trade_off import beyond_the_line
from experiments.extensions.gan_features import DIALS, KNOBS, SETTINGS, gentle

CPU = torch.device("cpu")
RESULTS = Path(__file__).parents[3] / "experiments" / "extensions" / "results"
PLAN = ["base", "further,psi=0.8", "features,reject=2", "bins,tilt=0", "bins,tilt=9,reject=2"]


@pytest.mark.usefixtures("two_folds")
def test_smoke(run, tmp_path):
    (tmp_path / "plan").write_text("".join(f"3 {name}\n" for name in PLAN))
    words = ("--smoke", "--seeds", 3, "--plan", tmp_path / "plan", "--work", tmp_path / "work", "--out", tmp_path)
    printed = run("extensions.gan_features", *words)
    rows = json.loads((tmp_path / "gan_features.json").read_text())["rows"]
    assert [(row["seed"], row["setting"]) for row in rows] == [(3, name) for name in PLAN]
    assert (tmp_path / "gan_features.png").stat().st_size > 1000
    assert [f"{name} of seed 3: {n} steps" in printed for name, n in (("base", 6), ("bins", 2))] == [True] * 2
    assert "steps" not in run("extensions.gan_features", *words)  # nothing is trained twice
    with np.load(tmp_path / "work" / "seed-3" / "draws base.npz") as pool:
        kept = np.load(tmp_path / "work" / "seed-3" / "features" / "base.npy")
        assert np.array_equal(kept, pool["features"][: len(kept)])


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


@pytest.fixture(scope="module")
def published():
    return json.loads((RESULTS / "gan_features-fashion-mnist.json").read_text())


def test_the_published_rows_are_of_these_settings(published):
    names = [row["setting"] for row in published["rows"]]
    assert names == [name for name in SETTINGS if name in names]
    assert {row["n"] for row in published["rows"]} == {10_000}
    for label, line in KNOBS.items():
        assert published["recall beyond"][label] == beyond_the_line(published["rows"], line)


def test_the_published_numbers_say_what_the_docs_say(published):
    rows = {row["setting"]: row for row in published["rows"]}
    dial = [rows[name] for name in DIALS["bins"] if name in rows]
    assert len(dial) == 7
    assert (np.diff([row["precision"] for row in dial]) > 0).all()
    assert (np.diff([row["recall"] for row in dial]) < 0).all()
    gain = published["recall beyond"]
    assert min(gain["base"][f"bins,tilt={s}"]["0"] for s in ("-1", "-0.5")) > 0.21
    assert min(gain["features"][f"bins,tilt={s}"]["0"] for s in ("0.5", "1", "2", "9")) > 0.03
    central = gain["further, rejection by ratio and centrality, K = 2"]
    assert min(central[f"bins,tilt={s},reject=2"]["0"] for s in ("-0.5", "0", "0.5", "1")) > 0.05
    middle = [rows[name]["fid"] for name in ("bins,tilt=0", "features", "further", "base")]
    assert middle == sorted(middle)
