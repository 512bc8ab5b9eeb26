"""Run experiments as the command line does."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    """Tests that run a whole program are in `make smoke`."""
    for item in items:
        if HERE in item.path.parents and getattr(item, "originalname", None) in ("test_smoke", "test_stages"):
            item.add_marker("smoke")


@pytest.fixture
def run(run_module, tmp_path, monkeypatch):
    """Run `python -m experiments.<module> <words>` in an empty folder, and return what it printed."""
    monkeypatch.chdir(tmp_path)
    return lambda module, *words: run_module(f"experiments.{module}", *words)


@pytest.fixture
def two_folds(monkeypatch):
    """Train the classifiers of a density ratio on two folds instead of five, which took half of the time of a run."""
    monkeypatch.setattr("experiments.common.feature_ratio.FOLDS", 2)
