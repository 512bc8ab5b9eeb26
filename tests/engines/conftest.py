"""Two small sets in shards, as files, for all tests of engines."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def sets():
    """Real and fake features, which differ clearly and asymmetrically."""
    rng = np.random.default_rng(0)
    real = rng.normal(size=(500, 6)).astype(np.float32)
    fake = np.concatenate([0.5 * rng.normal(size=(290, 6)) + 0.3, real[:10]]).astype(np.float32)
    return real, fake


@pytest.fixture(scope="session")
def write_shards(sets):
    """A function that writes the shards of both sets into a folder: five real ones, one of them tiny, and three fake
    ones; it returns their patterns."""

    def write(folder):
        for name, x, cuts in (("r", sets[0], (100, 103, 300, 400)), ("f", sets[1], (150, 200))):
            for i, part in enumerate(np.split(x, cuts)):
                np.save(folder / f"{name}{i}.npy", part)
        return {"real": str(folder / "r*.npy"), "fake": str(folder / "f*.npy")}

    return write


@pytest.fixture
def shards(write_shards, tmp_path):
    """Patterns of the shards of both sets, which a test may change."""
    return write_shards(tmp_path)
