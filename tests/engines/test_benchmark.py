"""The benchmark of sharded assessments, at tiny sizes."""

import numpy as np
import pytest
from scipy.stats import norm

from benchmarks import scale


def test_a_simulated_schedule_reads_every_block_and_keeps_workers_busy():
    (found,) = scale.schedule(10, 1000, 16, 200)
    assert 0 < found["busy"] <= 1
    least = (10 + 2 * 45) * 2 + 100 * 2  # shards that the blocks read, if none is read again
    assert found["traffic TB"] >= least * 1000 * 16 * 4 / 1e12
    assert len(list(scale.blocks(10))) == 2 * 55 + 100


def test_counts_by_threads_are_those_of_one_process(tmp_path):
    scale.write_shards(tmp_path, 300, 4, 3)
    one, threads = (scale.run_one(engine, tmp_path, tmp_path / "w") for engine in ("one process", "local"))
    assert one["digest"] == threads["digest"]


def test_auto_has_the_same_area_in_shards_and_in_one_process(tmp_path, monkeypatch):
    """200 rows of each side train, and the panel scores the others."""
    monkeypatch.setattr("precall.metrics.scale.sharded.ROWS", 200)
    monkeypatch.setattr(scale, "ROWS", 200)
    scale.write_shards(tmp_path, 1000, 3, 4, centre=0.5)
    in_shards, of_all = scale.area_in_shards_and_of_all(tmp_path)
    assert (in_shards["rows"], of_all["rows"]) == (400, 2000)
    assert of_all["area"] == pytest.approx(in_shards["area"], abs=0.1)


def test_the_exact_ratio_is_that_of_the_two_normal_laws():
    x = np.random.default_rng(0).normal(size=(5, 3))
    real, fake = (norm(centre, width).logpdf(x).sum(axis=1) for centre, width in ((0, 1), (scale.CENTRE, scale.WIDTH)))
    np.testing.assert_allclose(scale.exact_log_ratios(x), real - fake, atol=1e-6)


def test_finished_tasks_are_counted_before_and_after_they_are_merged(tmp_path):
    stage = tmp_path / "work" / f"real-balls-{32 * 'a'}"
    stage.mkdir(parents=True)
    (stage / "b.npz").touch()
    assert scale.finished_tasks(tmp_path, {"real-balls": 6, "neighbors": 9}) == 1
    (stage / "b.npz").rename(stage / "stage.npz")
    assert scale.finished_tasks(tmp_path, {"real-balls": 6, "neighbors": 9}) == 6


def test_tables_are_written_from_saved_numbers(tmp_path, monkeypatch):
    page = tmp_path / "scale.md"
    page.write_text(f"before\n{scale.BEGIN}{scale.END}after\n")
    monkeypatch.setattr(scale, "PAGE", page)
    scale.write_page({"overhead": [{"n": 1000, "ratio": 1.25, "same": True}]})
    assert "| 1,000 | 1.25 | yes |" in page.read_text()
    assert page.read_text().startswith("before")
    assert page.read_text().endswith("after\n")


def test_kills_are_counted_by_the_process_that_was_killed():
    about = {"while running": True, "all": 9, "same bytes": True}
    rows = [
        {"killed": who, "computed by the rerun": n, **about} for who, n in (("worker", 0), ("driver", 4), ("driver", 3))
    ]
    text = scale.tables({"kills": rows})
    assert "| worker | 1 | 1 | 0 of 9 tasks | yes |" in text
    assert "| driver | 2 | 2 | 7 of 18 tasks | yes |" in text
    assert "**no**" in scale.tables({"kills": [*rows, {**rows[0], "same bytes": False}]})


def test_the_command_runs(tmp_path, run_module):
    words = ["--smoke", "--only", "schedule", "--out", tmp_path / "a.json"]
    assert "makespan" in run_module("benchmarks.scale", *words)
