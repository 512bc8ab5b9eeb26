"""MAUVE against the authors' package, on the same histograms."""

from __future__ import annotations

import sys
import warnings
from types import ModuleType

import numpy as np
import pytest

from precall.theory.mauve import mauve


@pytest.fixture(scope="module")
def peer() -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its k-means library warns while it is imported
        pytest.importorskip("mauve")
    return sys.modules["mauve.compute_mauve"]


def histogram(rng: np.random.Generator, cells: int, zeros: bool) -> np.ndarray:
    counts = rng.poisson(rng.gamma(0.3 if zeros else 3.0, 5.0, size=cells)) + (0 if zeros else 1)
    counts[rng.integers(cells)] += 5
    return counts / counts.sum()


def peer_score(peer: ModuleType, monkeypatch: pytest.MonkeyPatch, p: np.ndarray, q: np.ndarray, **settings) -> float:
    """The package's own score, its clustering step replaced by the given histograms."""
    monkeypatch.setattr(peer, "cluster_feats", lambda *_, **__: (p, q, p, q))
    features = np.zeros((4, 2))
    return float(peer.compute_mauve(p_features=features, q_features=features, **settings).mauve)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_equal_to_the_package_on_random_histograms(peer, monkeypatch, seed: int, zeros: bool) -> None:
    rng = np.random.default_rng(seed)
    for cells in (2, 10, 50, 300):
        p, q = histogram(rng, cells, zeros), histogram(rng, cells, zeros)
        # for equal histograms the package sorts rounding errors: 1 on some machines and .75 on others
        expected = 1.0 if np.array_equal(p, q) else peer_score(peer, monkeypatch, p, q)
        assert mauve(p, q) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize(("c", "points"), [(1.0, 25), (5.0, 10), (12.0, 101)])
def test_equal_to_the_package_with_other_settings(peer, monkeypatch, c: float, points: int) -> None:
    rng = np.random.default_rng(7)
    p, q = histogram(rng, 30, True), histogram(rng, 30, True)
    settings = {"mauve_scaling_factor": c, "divergence_curve_discretization_size": points}
    assert mauve(p, q, c=c, points=points) == pytest.approx(peer_score(peer, monkeypatch, p, q, **settings), abs=1e-10)


def test_equal_to_the_package_on_extreme_histograms(peer, monkeypatch) -> None:
    for p, q in (([1.0, 0.0], [0.0, 1.0]), ([0.5, 0.5], [1.0, 0.0]), ([0.999, 0.001], [0.001, 0.999])):
        p, q = np.array(p), np.array(q)
        assert mauve(p, q) == pytest.approx(peer_score(peer, monkeypatch, p, q), abs=1e-8)


def test_equal_to_the_package_from_features(peer) -> None:
    rng = np.random.default_rng(0)
    real, fake = rng.normal(size=(200, 5)), rng.normal(0.7, 1.3, size=(200, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = peer.compute_mauve(
            p_features=real, q_features=fake, num_buckets=12, kmeans_num_redo=1, kmeans_max_iter=50
        )
    assert mauve(theirs.p_hist, theirs.q_hist) == pytest.approx(theirs.mauve, abs=1e-10)
    assert 0.1 < theirs.mauve < 0.99
