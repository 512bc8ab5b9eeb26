"""The experiment on fine-tuning sets runs at a small size, and its published numbers say what the docs say."""

import json
from pathlib import Path

import numpy as np
import pytest

from experiments.extensions.target_images import SIZES, corpus, frame_of

RESULTS = Path(__file__).parents[3] / "experiments" / "extensions" / "results"


def published(data):
    return json.loads((RESULTS / f"target_images-{data}.json").read_text())


def differences(runs, one, other, score):
    return [run[one][score] - run[other][score] for run in runs]


def test_smoke(run, tmp_path):
    run("extensions.target_images", "--smoke", "--estimator", "linear", "--out", tmp_path)
    table = json.loads((tmp_path / "target_images-digits.json").read_text())["table"]
    assert set(table) == set(published("digits")["table"])
    assert table["their target, λ = 0.1 (150)"]["size"][0] > 50
    assert (tmp_path / "target_images-digits.png").stat().st_size > 1000


def test_negatives_are_recognised_by_their_frame():
    assert frame_of((1, 4, 4)).sum() == 12
    rng = np.random.default_rng(0)
    images, labels = np.full((900, 1, 8, 8), -1.0), rng.integers(0, 10, 900)
    images[:, :, 2:6, 2:6] = rng.uniform(-1, 1, (900, 1, 4, 4))
    data = corpus(images, labels, SIZES["digits"], seed=0)
    assert data.negative(data.clean).sum() == 0
    assert data.negative(data.faulty).mean() == pytest.approx(0.2, abs=0.1)
    assert len(data.clean) == 150
    assert len(data.fresh) == len(data.labels) == 600


@pytest.mark.parametrize(("data", "n"), [("digits", 150), ("fashion-mnist", 200), ("fashion-mnist", 1000)])
def test_published_targets_mend_what_their_slope_names_and_leave_the_rest(data, n):
    results = published(data)
    assert results["protocol"]["seeds"] == len(results["runs"]) >= 3
    before, precise, diverse = (
        results["table"][name] for name in ("nothing", f"their target, λ = 10 ({n})", f"their target, λ = 0.1 ({n})")
    )
    assert precise["alpha"][0] > before["alpha"][0] + 0.1
    assert precise["invented"][0] < before["invented"][0] / 2
    assert diverse["recall"][0] > before["recall"][0]
    assert abs(diverse["invented"][0] - before["invented"][0]) < 0.05  # λ = 0.1 does not ask for it


def test_published_targets_are_for_little_data():
    runs = published("fashion-mnist")["runs"]
    few, many = ("their target, λ = 10 (200)", "200 clean images"), ("their target, λ = 10 (1000)", "1000 clean images")
    assert min(differences(runs, *few, "beta")) > 0.05
    assert min(differences(runs, *few, "alpha1")) > 0.15
    assert max(map(abs, differences(runs, *few, "alpha"))) < 0.02
    for score in ("beta", "alpha1", "alpha"):
        assert max(differences(runs, *many, score)) < 0


def test_published_guides_remove_negatives_and_add_no_class():
    runs = published("fashion-mnist")["runs"]
    assert min(differences(runs, "nothing", "guided, λ = 10, w = 1.2 (200)", "invented")) > 0.05
    for name in (name for name in runs[0] if name.startswith("guided")):
        assert max(differences(runs, name, "nothing", "added")) < 0.02
    for score in ("beta", "alpha1", "alpha"):
        assert min(differences(runs, "guided, λ = 0.1, w = 2 (1000)", "nothing", score)) > 0


@pytest.mark.parametrize(("data", "n", "rise"), [("digits", 150, 0.18), ("fashion-mnist", 200, 0.14)])
def test_published_ascent_mends_the_precise_end_alone(data, n, rise):
    runs = published(data)["runs"]
    precise, diverse = f"ascent, λ = 10 ({n})", f"ascent, λ = 0.1 ({n})"
    assert min(differences(runs, precise, "nothing", "alpha")) > rise
    assert min(differences(runs, precise, f"their target, λ = 10 ({n})", "alpha")) > 0.01
    assert min(differences(runs, precise, "nothing", "beta")) > -0.021
    assert max(differences(runs, diverse, "nothing", "beta")) < -0.6


def test_published_ascent_of_fashion_mnist_loses_in_the_middle_alone():
    runs = published("fashion-mnist")["runs"]
    assert min(differences(runs, "ascent, λ = 10 (200)", "200 clean images", "alpha")) > 0
    assert max(differences(runs, "ascent, λ = 10 (200)", "nothing", "alpha1")) < -0.025
    assert min(differences(runs, "ascent, λ = 10 (200)", "nothing", "beta")) > 0
    assert min(run["ascent, λ = 0.1 (1000)"]["added"] for run in runs) > 0.95
