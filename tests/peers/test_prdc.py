"""prdc side by side: the same four scores, to the last sample, where its float64 numbers are whole or without ties."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from precall.metrics.neighbors.sweep import sweep

prdc = pytest.importorskip("prdc")

FASHION = Path("/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz")  # Debian package dataset-fashion-mnist
LEVELS = (1, 3, 5, 10)


def digits():
    """All digits against the lower ones, brightened: whole numbers, many ties, strongly asymmetric."""
    pixels, labels = load_digits(return_X_y=True)
    return pixels[::2], pixels[1::2][labels[1::2] < 4] + 1


def normal():
    rng = np.random.default_rng(0)
    return rng.normal(size=(400, 20)), 0.6 * rng.normal(size=(250, 20)) + 0.2


def fashion():
    if not FASHION.exists():
        pytest.skip(f"{FASHION} is not installed (Debian package dataset-fashion-mnist)")
    pixels = np.frombuffer(gzip.decompress(FASHION.read_bytes()), np.uint8, offset=16).reshape(-1, 784)
    return pixels[:800].astype(np.float64), pixels[800:1300].astype(np.float64)


@pytest.mark.parametrize("pair", [digits, normal, fashion])
def test_scores_equal_prdc(pair):
    real, fake = pair()
    found = sweep(real=real, fake=fake, k=LEVELS, ties="open")
    for k in LEVELS:
        theirs = prdc.compute_prdc(real_features=real, fake_features=fake, nearest_k=k)
        assert found.precision(k) == theirs["precision"]
        assert found.recall(k) == theirs["recall"]
        assert found.coverage(k) == theirs["coverage"]
        assert found.fakes_in_ball[:, LEVELS.index(k)].sum() == round(theirs["density"] * k * len(fake))
        assert found.density(k) == pytest.approx(theirs["density"], rel=1e-12)


def test_the_digits_tell_precision_from_recall_and_open_from_closed():
    """Else the comparison above could not fail for the reasons it is there for."""
    real, fake = digits()
    opened, closed = (sweep(real=real, fake=fake, k=5, ties=ties) for ties in ("open", "closed"))
    assert opened.precision() > opened.recall() + 0.3
    assert opened.fakes_in_ball.sum() < closed.fakes_in_ball.sum()
