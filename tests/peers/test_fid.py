"""FID equals pytorch-fid and torch-fidelity on the same features: their formulas, written down here."""

import json

import numpy as np
import pytest
from scipy.linalg import sqrtm
from typer.testing import CliRunner

from precall.cli import app
from precall.metrics.assessing.assessment import assess


def features(n, d, seed, *, shift=0.0):
    """Features like those of a network: many dimensions, few of which vary much, and no negative values."""
    rng = np.random.default_rng(seed)
    scales, mixing = 2 / np.sqrt(1 + np.arange(d)), np.random.default_rng(9).normal(size=(d, d)) / np.sqrt(d)
    return np.maximum(rng.normal(size=(n, d)) * scales @ mixing + 0.3 + shift, 0).astype(np.float32)


def pytorch_fid(mu, sigma, nu, tau):
    """`calculate_frechet_distance` of pytorch-fid 0.3: the matrix root of Σ₁Σ₂, with 1e-6 I added if it fails."""
    root = sqrtm(sigma @ tau)
    if not np.isfinite(root).all():
        root = sqrtm((sigma + 1e-6 * np.eye(len(mu))) @ (tau + 1e-6 * np.eye(len(mu))))
    return float((mu - nu) @ (mu - nu) + np.trace(sigma) + np.trace(tau) - 2 * np.trace(root.real))


def torch_fidelity(mu, sigma, nu, tau):
    """`fid_statistics_to_metric` of torch-fidelity 0.4: the roots of the eigenvalues of Σ₁Σ₂."""
    trace = np.sqrt(np.linalg.eigvals(sigma @ tau).astype(complex)).real.sum()
    return float((mu - nu) @ (mu - nu) + np.trace(sigma) + np.trace(tau) - 2 * trace)


def statistics(x):
    x = x.astype(np.float64)
    return x.mean(axis=0), np.cov(x, rowvar=False)


@pytest.mark.parametrize(("n", "d", "shift"), [(600, 32, 0.0), (600, 128, 0.2), (100, 160, 0.1)], ids=str)
def test_the_preset_fid_is_their_number(n, d, shift):
    real, fake = features(n, d, 0), features(n - 20, d, 1, shift=shift)
    found = assess(real=real, fake=fake, preset="fid")
    given = *statistics(real), *statistics(fake)
    assert list(found.scores) == ["fid"]
    assert found.scores["fid"].value == pytest.approx(torch_fidelity(*given), abs=1e-3)
    if n > d:  # the matrix root of a singular product is not determined
        assert found.scores["fid"].value == pytest.approx(pytorch_fid(*given), abs=1e-3)


def test_the_preset_fid_from_stored_statistics_on_the_command_line(tmp_path):
    real, fake = features(300, 16, 0), features(200, 16, 1, shift=0.1)
    mu, sigma = statistics(real)
    np.savez(tmp_path / "real.npz", mu=mu, sigma=sigma)
    np.save(tmp_path / "fake.npy", fake)
    words = ["assess", "--real", str(tmp_path / "real.npz"), "--fake", str(tmp_path / "fake.npy"), "--preset", "fid"]
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    (one,) = json.loads(done.stdout)["models"].values()
    assert list(one["scores"]) == ["fid"]
    assert one["scores"]["fid"]["value"] == pytest.approx(pytorch_fid(mu, sigma, *statistics(fake)), abs=1e-3)
