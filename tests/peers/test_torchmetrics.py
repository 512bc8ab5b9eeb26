"""FID, KID and Inception Score side by side with torchmetrics, on the same numbers."""

from functools import reduce
from operator import add

import numpy as np
import pytest
import torch

from precall.metrics.distances.frechet_distance import fid
from precall.metrics.distances.inception import inception_score
from precall.metrics.distances.kernel_distance import kid
from precall.metrics.distances.moments import Moments

pytest.importorskip("torchmetrics")
from torchmetrics.image.fid import FrechetInceptionDistance
from torchmetrics.image.inception import InceptionScore
from torchmetrics.image.kid import KernelInceptionDistance, poly_mmd

pytestmark = [
    pytest.mark.filterwarnings("ignore:Metric .* will save all extracted features:UserWarning"),
    pytest.mark.filterwarnings("ignore:std.* degrees of freedom:UserWarning"),  # theirs, of a single split
]


class Flat(torch.nn.Module):
    """An encoder that returns its input: features go in, features come out."""

    num_features = 6

    def forward(self, x):
        return x.flatten(1)


@pytest.fixture
def sets():
    rng = np.random.default_rng(0)
    real = rng.normal(size=(300, 6)) @ rng.normal(size=(6, 6))
    return real, rng.exponential(size=(200, 6)) + 0.5


def as_images(features):
    return torch.from_numpy(features)[:, :, None, None]


def test_fid(sets):
    real, fake = sets
    theirs = FrechetInceptionDistance(feature=Flat(), input_img_size=(6, 1, 1)).set_dtype(torch.float64)
    shards = np.array_split(real, 3)
    for shard in shards:
        theirs.update(as_images(shard), real=True)
    theirs.update(as_images(fake), real=False)
    ours = fid(real=reduce(add, map(Moments.of, shards)), fake=fake)
    assert ours.value == pytest.approx(theirs.compute().item(), rel=1e-5)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_kid_of_a_subset(sets, degree):
    """Their definition wants equal sizes: `subset_size` rows of each."""
    real, fake = (features[:150] for features in sets)
    theirs = poly_mmd(torch.from_numpy(real), torch.from_numpy(fake), degree=degree).item()
    assert kid(real=real, fake=fake, degree=degree).value == pytest.approx(theirs, rel=1e-6)


def test_kid_of_the_metric(sets):
    """With subsets of all the rows, each of their subsets is the whole set."""
    real, fake = (features[:150] for features in sets)
    theirs = KernelInceptionDistance(feature=Flat(), subsets=2, subset_size=150).set_dtype(torch.float64)
    theirs.update(as_images(real), real=True)
    theirs.update(as_images(fake), real=False)
    mean, _ = theirs.compute()
    assert kid(real=real, fake=fake).value == pytest.approx(mean.item(), rel=1e-6)


@pytest.mark.parametrize("splits", [1, 4])
def test_inception_score(monkeypatch, splits):
    """They shuffle by the global generator before splitting: held still here, so that the parts are the same."""
    monkeypatch.setattr(torch, "randperm", torch.arange)
    logits = torch.from_numpy(3 * np.random.default_rng(0).normal(size=(200, 6)))
    theirs = InceptionScore(feature=Flat(), splits=splits).set_dtype(torch.float64)
    theirs.update(logits[:, :, None, None])
    mean, _ = theirs.compute()
    ours = inception_score(logits.softmax(dim=1), splits=splits)
    assert ours.value == pytest.approx(mean.item(), rel=1e-6)
