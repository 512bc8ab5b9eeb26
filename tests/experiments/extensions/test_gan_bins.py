"""The experiment on a GAN that sees how central an image is runs at a small size, and its laws of bins are right."""

import json

import numpy as np
import pytest
import torch

from experiments.common.gan import networks
from experiments.common.selection import binned
from experiments.extensions.gan_bins import BINS, DATA, SETTINGS, first_rows, given_bins, proportions, quota
from experiments.extensions.gan_dials import Options

PLAN = ["base", "bins,tilt=0", "bins,tilt=9,reject=2", "data,tilt=-1"]


def test_smoke(run, tmp_path):
    (tmp_path / "plan").write_text("".join(f"3 {name}\n" for name in PLAN))
    words = ("--smoke", "--seeds", 3, "--plan", tmp_path / "plan", "--work", tmp_path / "work", "--out", tmp_path)
    printed = run("extensions.gan_bins", *words)
    rows = json.loads((tmp_path / "gan_bins.json").read_text())["rows"]
    assert [(row["seed"], row["setting"]) for row in rows] == [(3, name) for name in PLAN]
    assert all(0 <= row["recall"] <= 1 for row in rows)
    assert "base of seed 3: 6 steps" in printed
    assert "bins of seed 3: 6 steps" in printed
    assert "6 steps" not in run("extensions.gan_bins", *words)  # nothing is trained twice
    with np.load(tmp_path / "work" / "seed-3" / "draws bins.npz") as pool:
        assert np.bincount(pool["bins"]).tolist() == [10, 10, 10, 10, 105]  # what the two settings need


def test_bins_are_quantiles_within_each_class():
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=3000)
    central = rng.random(3000) + 10 * labels  # the classes differ, the bins must not
    bins = binned(central, labels, BINS)
    for c in range(3):
        own = central[labels == c], bins[labels == c]
        assert np.ptp(np.bincount(own[1], minlength=BINS)) <= 1
        assert (np.diff(own[1][np.argsort(own[0])]) >= 0).all()


@pytest.mark.parametrize("name", [name for name in (*SETTINGS, *DATA) if "tilt" in name])
def test_a_setting_draws_the_bins_in_its_proportions(name):
    o = Options.of(name)
    counts = quota(o, 10_000)
    assert counts.sum() == (10_000 if o.reject == 1 else round(10_500 * o.reject))
    assert counts / counts.sum() == pytest.approx(proportions(o.tilt), abs=1e-4)
    assert counts[-1] / max(counts[0], 1) == pytest.approx(np.exp(4 * o.tilt), rel=0.01) or o.tilt > 1
    assert name.startswith("bins") or counts.max() <= 10_000  # CIFAR-10 has 10,000 training images per bin


def test_too_few_images_in_a_bin_are_an_error():
    bins = np.repeat(np.arange(BINS), 4)
    assert bins[first_rows(bins, np.array([1, 0, 2, 0, 4]))].tolist() == [0, 2, 2, 4, 4, 4, 4]
    with pytest.raises(ValueError, match="hold"):
        first_rows(bins, np.full(BINS, 5))


def test_a_ratio_given_the_bin_does_not_see_the_proportions_of_the_draws():
    real, fake = np.repeat(np.arange(BINS), 20), np.repeat(np.arange(BINS), [5, 10, 10, 15, 60])
    joint = np.log([0.2 / share for share in (0.05, 0.1, 0.1, 0.15, 0.6)])[fake]  # p(b)/q(b), and p(x|b) = q(x|b)
    assert given_bins(joint, real=real, fake=fake) == pytest.approx(0, abs=1e-12)


def test_both_networks_see_class_and_bin():
    torch.manual_seed(0)
    net, critic = networks(1, 3, 2, torch.device("cpu"), bins=BINS)
    z, images = torch.randn(1, *net.latent_shape), torch.randn(1, 1, 32, 32)
    net.eval()
    critic.eval()
    labels = [torch.tensor([label]) for label in range(3 * BINS)]
    for values in ([net(z, y).sum().item() for y in labels], [critic(images, y).item() for y in labels]):
        assert len({round(value, 5) for value in values}) == 3 * BINS
