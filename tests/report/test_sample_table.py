"""Values per sample: one row per sample of both sides, in Python and as a file."""

import csv

import numpy as np
import pytest
from typer.testing import CliRunner

import precall
from precall.cli import app
from precall.report.sample_table import COLUMNS


@pytest.fixture(scope="module")
def report():
    rng = np.random.default_rng(0)
    real, fake = rng.normal(size=(60, 2)), rng.normal(size=(50, 2)) + np.array([2.0, 0.0])
    fake[7] = real[3] + 1e-6
    found = precall.assess(real=real, fake=fake, metrics=("linear", "neighbors", "copies", "clusters"))
    return found, real, fake


def test_there_is_one_row_per_sample_of_both_sides(report):
    found, *_ = report
    rows = found.sample_table()
    assert [tuple(row) for row in rows] == [COLUMNS] * 110
    assert [(row["side"], row["index"]) for row in rows] == [("real", i) for i in range(60)] + [
        ("fake", i) for i in range(50)
    ]
    np.testing.assert_array_equal([row["log_ratio"] for row in rows[60:]], found.fake.log_ratio)
    np.testing.assert_array_equal([row["member"] for row in rows[:60]], found.real.member)
    np.testing.assert_array_equal([row["realism"] for row in rows[60:]], found.fake.realism)
    np.testing.assert_array_equal([row["cluster"] for row in rows[:60]], found.real.cluster)
    assert rows[0]["realism"] is None  # only fakes have one


def test_the_nearest_sample_of_the_other_side_is_named_with_its_distance(report):
    found, real, fake = report
    rows = found.sample_table()
    copy = rows[60 + 7]
    assert (copy["nearest"], copy["nearest_index"]) == ("3", 3)
    assert copy["copy_ratio"] < 0.01
    distances = np.linalg.norm(real[:, None] - fake[None], axis=2)
    np.testing.assert_allclose([row["distance"] for row in rows[:60]], distances.min(axis=1), rtol=1e-6)
    np.testing.assert_allclose([row["distance"] for row in rows[60:]], distances.min(axis=0), rtol=1e-6)
    assert [row["nearest_index"] for row in rows[60:]] == distances.argmin(axis=0).tolist()


def test_values_that_were_not_computed_are_empty():
    x = np.random.default_rng(0).normal(size=(60, 2))
    row = precall.assess(real=x, fake=x + 1, metrics=("fid",)).sample_table()[0]
    assert {name for name, value in row.items() if value is None} == set(COLUMNS) - {
        *("model", "side", "name", "index", "galleries")
    }


def test_loaded_results_have_no_values_per_sample(report, tmp_path):
    from precall.metrics.scores.results import Comparison
    from precall.report import folder

    folder.write(Comparison({"fake": report[0]}), tmp_path)
    with pytest.raises(ValueError, match=r"not saved with the results\. Assess the samples again"):
        precall.load(tmp_path).sample_table()


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in ("real", "a", "b"):
        rows = [f"p{name}{i},{rng.normal()},{'xyz'[i % 3]}" for i in range(60)]
        (tmp_path / f"{name}.csv").write_text("patient_id,x,kind\n" + "\n".join(rows) + "\n")
        said = "a line about" if name == "real" else "another text of"
        (tmp_path / f"{name}.txt").write_text("".join(f"{said} {rng.integers(1000)}\n" for i in range(60)))
    return tmp_path


def run(*words):
    return CliRunner().invoke(app, ["assess", *words])


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_command_line_writes_a_file_also_if_the_results_are_in_the_cache(files, suffix):
    words = ["--real", "real.txt", "--fake", "a.txt", "--fake", "b.txt", "--metrics", "linear,neighbors"]
    run(*words)
    done = run(*words, "--samples", f"out.{suffix}")
    assert done.exit_code == 0, done.output
    if suffix == "csv":
        rows = list(csv.DictReader((files / "out.csv").read_text().splitlines()))
    else:
        from pyarrow import parquet

        rows = parquet.read_table(files / "out.parquet").to_pylist()
    assert tuple(rows[0]) == COLUMNS
    assert [row["model"] for row in rows[::60]] == ["a.txt", "a.txt", "b.txt", "b.txt"]
    galleries = [row["galleries"] for row in rows]
    assert galleries.count("missed") == galleries.count("invented") == 32
    assert {row["side"] for row in rows if row["galleries"] == "missed"} == {"real"}


def test_rows_of_tables_are_named_by_position_and_hold_no_cell(files):
    done = run("--real", "real.csv", "--fake", "a.csv", "--metrics", "neighbors", "--samples", "out.csv")
    assert done.exit_code == 0, done.output
    text = (files / "out.csv").read_text()
    assert "preal" not in text
    assert "pa1" not in text
    assert "\na.csv,real,row 1,0," in text


@pytest.mark.parametrize("name", ["out.txt", "out", "real.csv"])
def test_a_file_that_cannot_be_written_is_refused_first(files, name):
    before = (files / "real.csv").read_text()
    done = run("--real", "real.csv", "--fake", "a.csv", "--metrics", "fid", "--samples", name)
    assert done.exit_code == 1
    assert "values per sample must end in" in done.stderr or "one of the sources" in done.stderr
    assert (files / "real.csv").read_text() == before
