"""Run experiments as the command line does."""

import pytest


@pytest.fixture
def run(run_module, tmp_path, monkeypatch):
    """Run `python -m experiments.<module> <words>` in an empty folder, and return what it printed."""
    monkeypatch.chdir(tmp_path)
    return lambda module, *words: run_module(f"experiments.{module}", *words)


@pytest.fixture
def two_folds(monkeypatch):
    """Train the classifiers of a density ratio on two folds instead of five, which took half of the time of a run."""
    monkeypatch.setattr("experiments.common.feature_ratio.FOLDS", 2)
