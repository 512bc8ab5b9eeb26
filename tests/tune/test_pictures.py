"""The picture of a dial: panels that can be compared."""

import numpy as np
import pytest
import torch

from precall.metrics.scores.score import Score
from precall.tune.pictures import GAP, LEAST, PANEL, dial_figure


def panels(samples, real):
    half = Score(0.5, n_real=50, n_fake=40)
    scores = {lam: {"precision": half, "recall": half} for lam in samples}
    return dial_figure(samples, scores, real).axes[1:]


def test_panels_of_points_share_their_limits_and_show_the_data():
    rng = torch.Generator().manual_seed(0)
    real = torch.randn(50, 2, generator=rng)
    samples = {lam: lam * torch.randn(40, 2, generator=rng) for lam in (0.1, 1.0, 10.0)}
    found = panels(samples, real)
    assert len({(axes.get_xlim(), axes.get_ylim()) for axes in found}) == 1
    low, high = found[0].get_xlim()
    assert low < samples[10.0][:, 0].min() < samples[10.0][:, 0].max() < high  # the widest, which is drawn last
    for axes, points in zip(found, samples.values(), strict=True):
        behind, front = axes.collections
        np.testing.assert_allclose(behind.get_offsets(), real)
        np.testing.assert_allclose(front.get_offsets(), points)
        assert len({*behind.get_facecolor()[0][:3]}) == 1  # grey


@pytest.mark.parametrize(("channels", "side"), [(1, 8), (3, 32), (3, 64)])
def test_panels_of_images_have_few_tiles_with_gaps(channels, side):
    samples = {lam: torch.ones(200, channels, side, side) for lam in (0.1, 10.0)}
    for axes in panels(samples, samples[0.1]):
        [image] = axes.images
        picture = np.asarray(image.get_array())
        tile = max(1, LEAST // side) * side + GAP
        assert picture.shape[:2] == (PANEL * tile, PANEL * tile)
        assert (picture[tile - GAP :: tile] == 127).all()
        assert (picture[: tile - GAP, : tile - GAP] == 255).all()
