"""`precall reference sketch` and `merge`: shards counted apart give the table of all; mistakes cost one sentence."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import precall
from precall.cli import app

RNG = np.random.default_rng(0)
REAL, FAKE = RNG.normal(size=(120, 4)), RNG.normal(0.5, 0.6, size=(140, 4))


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    np.save("real.npy", REAL)
    for i, part in enumerate(np.split(FAKE, [30, 100])):
        np.save(f"shard-{i}.npy", part)
    np.save("all.npy", FAKE)
    precall.Reference.fit(REAL, k=4, seed=3).save("data.precall")
    return tmp_path


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def done(*words):
    found = run(*words)
    assert found.exit_code == 0, found.output
    return found


def refused(*words, status=1):
    found = run(*words)
    assert found.exit_code == status, found.output
    assert "Traceback" not in found.output
    return found.stderr


def test_shards_sketched_apart_give_the_scores_of_all(workplace):
    done("reference", "sketch", "--real", "data.precall", "--fake", "shard-[01].npy", "--out", "one.sketch")
    made = done("reference", "sketch", "--real", "data.precall", "--fake", "shard-2.npy", "--out", "two.sketch")
    assert "two.sketch: 40 samples in 1 shard, 120 real samples" in made.stderr
    merged = done(
        "reference", "merge", "*.sketch", "--out", "all.sketch", "--report", "report", "--name", "ours", "--json"
    )
    found = json.loads(merged.stdout)["models"]["ours"]
    words = ("--real", "data.precall", "--fake", "all.npy", "--k", 4, "--seed", 3, "--json")
    once = done("assess", *words, "--metrics", "neighbors,clipped,copies,fid")
    expected = json.loads(once.stdout)["models"]["all.npy"]["scores"]
    for name in ("precision", "density", "coverage", "recall_cover", "clipped_density", "clipped_coverage", "copies"):
        assert found["scores"][name] == expected[name]
    assert found["scores"]["fid"]["value"] == pytest.approx(expected["fid"]["value"], rel=1e-10)
    assert "recall" not in found["scores"]
    assert (found["protocol"]["k"], found["protocol"]["seed"]) == (4, 3)
    assert precall.load("report")["ours"].scores["coverage"].value == expected["coverage"]["value"]
    assert (workplace / "report" / "report.html").exists()
    assert precall.Sketch.load("all.sketch").n == len(FAKE)


def test_the_table_is_printed(workplace):
    done(
        "reference",
        "sketch",
        "--real",
        "real.npy",
        "--fake",
        "all.npy",
        "--out",
        "all.sketch",
        "--k",
        3,
        "--ties",
        "open",
    )
    table = done("reference", "merge", "all.sketch").stdout
    assert "n = 120 real and n = 140 fake samples, k = 3" in " ".join(table.split())
    assert "coverage" in table
    assert "recall" not in table


def test_mistakes_cost_one_sentence(workplace):
    sketch = ("reference", "sketch", "--real", "data.precall", "--fake")
    done(*sketch, "shard-0.npy", "--out", "one.sketch")
    done(*sketch, "shard-{0..1}.npy", "--out", "two.sketch")
    done(*sketch, "shard-1.npy", "--out", "three.sketch", "--k", 3)
    assert "a shard must be counted once; `shard-0.npy`" in refused("reference", "merge", "one.sketch", "two.sketch")
    assert "a shard must be counted once" in refused("reference", "merge", "one.sketch", "one.sketch")
    assert "they differ in: k (4 and 3)" in refused("reference", "merge", "one.sketch", "three.sketch")
    assert "counted once" in refused(*sketch, "shard-0.npy", "--fake", "shard-*.npy", "--out", "x.sketch")
    assert "must be a sketch" in refused("reference", "merge", "data.precall")
    assert "no such file" in refused("reference", "merge", "missing.sketch").lower()
    assert "ends in .sketch" in refused(*sketch, "shard-0.npy", "--out", "x.npz", status=2)
    assert "one of the sources" in refused(
        "reference", "sketch", "--real", "a.sketch", "--fake", "all.npy", "--out", "a.sketch"
    )
    assert "stands for" in refused(*sketch, "nothing-*.npy", "--out", "x.sketch")
    assert not (workplace / "x.sketch").exists()


def test_approximations_are_named(workplace):
    done("reference", "make", "real.npy", "--subsample", 100, "--out", "part.precall")
    done("reference", "sketch", "--real", "part.precall", "--fake", "all.npy", "--out", "part.sketch")
    merged = done("reference", "merge", "part.sketch", "--json")
    assert "real: only 100 of 120 samples, seed 0" in merged.stderr
    assert json.loads(merged.stdout)["models"]["fake"]["protocol"]["n_real"] == 100


def test_the_merged_answer_is_the_default_one(workplace):
    done("reference", "sketch", "--real", "real.npy", "--fake", "shard-*.npy", "--out", "all.sketch")
    found = json.loads(done("reference", "merge", "all.sketch", "--json").stdout)["models"]["fake"]
    assert found["estimator"] == "auto"
    assert found["certificate"] is not None


def test_options_that_are_gone_say_so(workplace):
    make = ("reference", "make", "real.npy", "--out", "x.precall")
    assert "no longer needed" in refused(*make, "--pilot", "all.npy", status=2)
    assert "no longer needed" in refused(*make, "--approximate-radii", status=2)
