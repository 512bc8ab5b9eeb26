"""Run experiments as the command line does."""

from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

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


@pytest.fixture(autouse=True)
def small_pictures(monkeypatch):
    """Figures with a quarter of the pixels, drawn once: their texts and lines are laid out all the same."""

    def draw(figure, path):
        figure.set_dpi(45)
        FigureCanvasAgg(figure).print_png(path)

    monkeypatch.setattr("experiments.common.saving._small_png", draw)


@pytest.fixture
def small_steps(monkeypatch):
    """Two folds and small networks of few steps for a density ratio, few draws for the statistics of a GAN.

    These took most of the time of the runs that need them.
    """
    from experiments.common import feature_ratio, gan

    monkeypatch.setattr(feature_ratio, "FOLDS", 2)
    monkeypatch.setattr(feature_ratio, "HIDDEN", (16, 8))
    monkeypatch.setattr(feature_ratio, "LEAST", 6)
    for name, few in {"batches": 2, "batch": 60}.items():
        monkeypatch.setitem(gan.standing.__wrapped__.__kwdefaults__, name, few)
