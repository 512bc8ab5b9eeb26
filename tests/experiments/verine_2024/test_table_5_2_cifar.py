"""The stages of the CIFAR-10 experiment run at a small size, on random images."""

import json

import numpy as np
import pytest
import torch
from torch import nn


class Features(nn.Module):
    """Stands in for Inception: 12 numbers of an image."""

    def forward(self, x):
        return nn.functional.adaptive_avg_pool2d(x, 2).flatten(1)


@pytest.fixture
def little_cifar(tmp_path):
    rng = np.random.default_rng(0)
    for name in (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"):
        rows = rng.integers(0, 256, (20, 3073), dtype=np.uint8)
        rows[:, 0] = np.arange(20) % 10
        rows.tofile(tmp_path / name)
    torch.jit.script(Features()).save(str(tmp_path / "features.pt"))
    return tmp_path


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_stages(run, little_cifar):
    def stage(name, *words, lams=("1",)):
        sizes = ("--ch", "4", "--steps", "2", "--batch-size", "8", "--n", "20", "--lam", *lams)
        return run("verine_2024.table_5_2_cifar", name, "--data-dir", ".", *sizes, *words)

    assert "2 steps" in stage("base")
    stage("truncate")
    for seed, lam in (("0", "1"), ("0", "10"), ("1", "10")):  # one λ at a time needs no other processes
        stage("tune", "--seed", seed, lams=(lam,))
    stage("score", "--inception", "features.pt", "--out", "results")
    table = json.loads((little_cifar / "results" / "table_5_2_cifar.json").read_text())["table"]
    truncated = ["truncated-0.3", "truncated-0.5", "truncated-0.7", "truncated-0.85"]
    models = ["training images", "base", *truncated, "lam-1-seed-0", "lam-10-seed-0", "lam-10-seed-1"]
    assert [row["model"] for row in table] == models
    assert all(row.keys() >= {"fid", "precision", "recall", "density", "coverage"} for row in table)
    assert [row.get("lam") for row in table] == [None] * 6 + [1, 10, 10]
    assert [row.get("truncation") for row in table] == [None, 1.0, 0.3, 0.5, 0.7, 0.85, 0.3, 0.3, 0.3]
