"""The parts that experiments share."""

import json
import re
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image
from torch import nn

from experiments.common import eight_gaussians
from experiments.common.added_classes import errors, read
from experiments.common.networks import SMALL_GAN, small_gan
from experiments.common.parallel import each
from experiments.common.residual_classifier import HOLE, augmented, mirrored
from experiments.common.residual_flow_training import GOES_ON, log_det
from experiments.common.saving import _small_png, save
from experiments.common.stages import STAGES, work_through
from experiments.common.summaries import spread
from experiments.common.truncation import hard, soft, truncated
from experiments.extensions import gan_features
from precall import RatioSpectrum
from precall.tune import FGAN, Trainer, load_data
from precall.tune.models.layers import SpectralLinear


def test_a_spectral_critic_is_normalised_and_sharpened():
    critic = small_gan((1, 8, 8), 4, 4, spectral=True)[1].eval()
    assert {type(layer) for layer in critic.modules() if isinstance(layer, nn.Linear)} == {SpectralLinear}
    x = torch.randn(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(critic(x), 4 * critic.critic(x))


def test_truncating_starts_from_the_models_own_latents():
    data, settings = load_data("digits"), replace(SMALL_GAN, truncation=0.5)
    run = Trainer(*small_gan((1, 8, 8), 4, 4), FGAN(), data.samples, settings=settings)
    torch.testing.assert_close(truncated(run, 500, soft(1.0)), run.sample(500, seed=99))
    with torch.no_grad():
        narrow = truncated(run, 500, hard(1e-3))  # all but the origin is cut off
        torch.testing.assert_close(narrow, run.average(torch.zeros(500, 4)), atol=1e-3, rtol=0)


def test_eight_gaussians_are_those_of_the_training_data():
    data = load_data("8-gaussians").samples
    assert eight_gaussians.mode_scores(data)["modes"] == 8
    assert eight_gaussians.mode_scores(data)["precision"] == pytest.approx(1 - np.exp(-4.5), abs=2e-3)
    assert eight_gaussians.spectrum_on_cells(data, 0.4).divergence("2js") < 0.01
    drawn = eight_gaussians.draw(50_000, seed=0)
    assert eight_gaussians.spectrum_on_cells(drawn.numpy(), 0.4).divergence("2js") < 0.01
    density = -eight_gaussians.log_density(drawn).mean()  # the entropy of eight modes that do not overlap
    assert density == pytest.approx(np.log(8 * 2 * np.pi * 0.3**2) + 1, abs=0.02)


def test_results_are_saved_only_where_requested(tmp_path):
    save(None, "name", {}, figure=lambda: pytest.fail("drawn for nobody"))
    save(tmp_path / "new", "name", {"a": 1}, figure=Figure)
    assert json.loads((tmp_path / "new" / "name.json").read_text()) == {"a": 1}
    assert (tmp_path / "new" / "name.png").exists()
    _small_png(Figure(), tmp_path / "small.png")
    with Image.open(tmp_path / "small.png") as picture:
        assert picture.mode == "P"


def test_cases_are_run_in_order():
    for jobs in (1, 2):
        assert list(each(max, [(1, 2), (4, 3)], jobs=jobs)) == [2, 4]
    assert list(each(max, [], jobs=2)) == []


def test_spread_is_mean_and_deviation():
    assert spread([1.0, 2.0]) == [1.5, 0.7071]
    assert spread([1.0]) == [1.0, 0.0]


class Waiting:
    """A stage whose one output needs a file of another stage."""

    def __init__(self, folder):
        self.folder = folder

    def outputs(self, plan):
        return [] if (self.folder / "out").exists() else ["out"]

    def jobs(self, plan):
        if self.outputs(plan) and (self.folder / "in").exists():
            yield (self.folder / "out").touch


def test_a_stage_that_waits_says_for_what(tmp_path, capsys, monkeypatch):
    def other_process(seconds):
        assert re.search("waiting: 1 outputs, such as out, need files of --stages draw score", capsys.readouterr().out)
        (tmp_path / "in").touch()

    monkeypatch.setattr(time, "sleep", other_process)
    work_through([Waiting(tmp_path)], lambda: ([], False), names=["train"])
    assert (tmp_path / "out").exists()


def test_stages_that_wait_for_nobody_stop(tmp_path):
    with pytest.raises(RuntimeError, match="1 outputs are missing that no stage makes, such as out"):
        work_through([Waiting(tmp_path)], lambda: ([], False), names=STAGES)


def test_stages_that_would_wait_in_a_folder_of_their_own_are_refused():
    with pytest.raises(SystemExit, match="--stages needs --work DIR"):
        gan_features.main(["--smoke", "--stages", "train"])


def classes_in_common(fake, least):
    """What is read where P has the first five of ten disjoint classes, and Q the first `fake`."""
    p, q = (np.where(np.arange(10) < classes, 1 / classes, 0.0) for classes in (5, fake))
    return read(RatioSpectrum.from_masses(p=p, q=q), least)


def test_disjoint_classes_give_their_share_from_the_least_slope_on():
    for fake in range(1, 11):
        truth = {"precision": min(1, 5 / fake), "recall": min(1, fake / 5)}
        rows = [{"truth": truth, "curves": {"exact": classes_in_common(fake, 5)}}]
        assert max(errors(rows, "exact").values()) < 1e-12
    assert classes_in_common(1, 4)["precision, least slope"] == pytest.approx(0.8)


def test_the_log_determinant_of_many_coordinates_is_unbiased():
    x, expected = torch.zeros(1, 1, dtype=torch.float64), 0.0
    for extra in range(60):  # the mean over the random number of terms, for one random vector
        torch.manual_seed(0)
        _, found = log_det(lambda x: 0.8 * x, x, extra)
        expected += (1 - GOES_ON) * GOES_ON**extra * found.item()
    torch.manual_seed(0)
    assert expected == pytest.approx(torch.randn_like(x).item() ** 2 * np.log(1.8), rel=1e-6)


def test_images_are_shifted_and_mirrored_only():
    x = torch.zeros(2000, 1, 9, 9)
    x[:, 0, 4, 3] = 1.0
    seen = {tuple(place[1:].tolist()) for place in augmented(x, torch.Generator().manual_seed(0)).squeeze(1).nonzero()}
    assert seen == {
        (row, column) for row in range(2, 7) for column in range(1, 8)
    }  # columns 3 ± 2 and, mirrored, 5 ± 2


def test_a_square_of_each_image_is_empty():
    x = augmented(torch.ones(50, 1, 28, 28), torch.Generator().manual_seed(0))[:, 0, 2:-2, 2:-2]
    empty = (x == 0).flatten(1).sum(1)
    assert (empty <= (2 * HOLE - 1) ** 2).all()
    assert (empty > 0).float().mean() > 0.9
    rows, columns = (x == 0).any(2).sum(1), (x == 0).any(1).sum(1)
    assert torch.equal(rows * columns, empty)


def test_features_are_those_of_an_image_and_its_mirror_image():
    x = torch.tensor([[[[1.0, 2.0, 6.0]]]])
    assert mirrored(lambda _, images: images[:, 0, 0, :2].numpy(), nn.Identity(), x).tolist() == [[3.5, 2.0]]
