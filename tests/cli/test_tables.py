"""The table of a clinic through the command line: the verdicts, what the report contains, and the options."""

import csv
import json
import re
from datetime import date, timedelta

import jsonschema
import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from typer.testing import CliRunner

import precall
from precall.cli import app
from precall.encoders.table import ColumnWarning

COLUMNS = ("patient_id", "visit_date", "sex", "ward", "severity", "age", "pressure", "bmi")
N = 300
QUICK = ("--metrics", "clusters,neighbors")


def clinic(rng, n=N):
    """Rows of a clinic: blood pressure is lowest at 50 years, a dependence without correlation."""
    age = rng.normal(50, 15, n)
    pressure = 120 + 0.04 * (age - 50) ** 2 + rng.normal(0, 5, n)
    severity = np.array(["mild", "moderate", "severe"])[np.clip((pressure - 115) / 15, 0, 2).astype(int)]
    days = [str(date(2022, 1, 1) + timedelta(days=int(day))) for day in rng.integers(0, 700, n)]
    bmi = rng.normal(26, 4, n).round(1)
    ward, sex = rng.choice(["cardiology", "surgery", "oncology"], n, p=[0.5, 0.3, 0.2]), rng.choice(["f", "m"], n)
    cells = (_ids(rng, n), days, sex, ward, severity, age.astype(int), pressure.astype(int), bmi)
    return [list(map(str, row)) for row in zip(*cells, strict=True)]


def _ids(rng, n):
    return [f"P{number}" for number in rng.choice(np.arange(10**6, 10**7), n, replace=False)]


def with_gaps(rows, rng):
    """Four per cent of the cells are missing, in several spellings."""
    gaps = ["", "NA", "?"]
    return [[row[0], *(gaps[rng.integers(3)] if rng.random() < 0.04 else cell for cell in row[1:])] for row in rows]


def jittered(rows, rng):
    """A bootstrap of the rows with fresh ids, dates moved by up to two days, and numbers by about one per cent."""
    drawn = [list(rows[i]) for i in rng.integers(len(rows), size=len(rows))]
    for row, name in zip(drawn, _ids(rng, len(drawn)), strict=True):
        row[0] = name
        if re.match(r"\d{4}", row[1]):
            row[1] = str(date.fromisoformat(row[1]) + timedelta(days=int(rng.integers(-2, 3))))
        for place, digits in ((5, 0), (6, 0), (7, 1)):
            if re.match(r"\d", row[place]):
                row[place] = f"{float(row[place]) * (1 + 0.01 * rng.normal()):.{digits}f}"
    return drawn


def gaussian_copula(rows, rng):
    """Rows with the columns of the table, and its rank correlations as the only dependence."""
    columns = [sorted(column, key=_key) for column in list(zip(*rows, strict=True))[1:]]
    ranks = np.array([_ranks(column, rng) for column in list(zip(*rows, strict=True))[1:]])
    uniform = ndtr(rng.multivariate_normal(np.zeros(len(ranks)), np.corrcoef(ndtri(ranks)), size=len(rows)))
    places = (uniform * len(rows)).astype(int)
    drawn = [[column[place] for column, place in zip(columns, row, strict=True)] for row in places]
    return [[name, *row] for name, row in zip(_ids(rng, len(rows)), drawn, strict=True)]


def _key(cell):
    return (float(cell), "") if re.match(r"^\d+(\.\d+)?$", cell) else (-1.0, cell)


def _ranks(column, rng):
    order = sorted(rng.permutation(len(column)), key=lambda i: _key(column[i]))
    ranks = np.empty(len(column))
    ranks[order] = (np.arange(len(column)) + 0.5) / len(column)
    return ranks


def write(path, rows, columns=COLUMNS):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


def tables(folder, seed):
    rng = np.random.default_rng(seed)
    real, fresh = (with_gaps(clinic(rng), rng) for _ in range(2))
    sets = {"real": real, "fresh": fresh, "jittered": jittered(real, rng), "copula": gaussian_copula(real, rng)}
    return {name: write(folder / f"{name}.csv", rows) for name, rows in sets.items()}


def words_of(files, *names):
    return (
        "assess",
        "--real",
        files["real"],
        *(part for name in names for part in ("--fake", f"{name}={files[name]}")),
    )


@pytest.mark.whole_panel
def test_a_clinic_is_judged_rightly_and_no_identifier_leaves(run, tmp_path):
    files = tables(tmp_path, 1)
    done = run(*words_of(files, "fresh", "jittered", "copula"), "--out", tmp_path / "report")
    assert done.exit_code == 0, done.output
    report = precall.load(tmp_path / "report")
    verdicts = {name: one.verdict for name, one in report.items()}
    assert verdicts["fresh"].startswith(("Indistinguishable", "Close", "Cannot tell")), verdicts
    assert verdicts["jittered"].startswith("Copies"), verdicts
    assert report["jittered"].scores["copies"].value >= 0.95
    assert not verdicts["copula"].startswith(("Indistinguishable", "Copies", "Close")), verdicts
    assert "age × pressure" in report["copula"].drift.differing_pairs()
    assert "column patient_id is left out: it looks like an identifier" in done.stderr
    written = [path for folder in ("report", "cache") for path in (tmp_path / folder).rglob("*") if path.is_file()]
    assert len(written) > 8
    content = b"\n".join(path.read_bytes() + str(path).encode() for path in written) + done.output.encode()
    assert not re.search(rb"P\d{7}", content)
    assert not any(word in content for word in (b"cardiology", b"oncology", b'"moderate"'))


def test_rows_are_written_only_if_requested(run, tmp_path):
    files = tables(tmp_path, 0)
    words = (*words_of(files, "jittered"), *QUICK, "--metrics", "clusters,neighbors,copies,linear")
    hidden = run(*words, "--out", tmp_path / "hidden")
    shown = run(*words, "--out", tmp_path / "shown", "--show-rows")
    assert "no rows and no names of categories" in hidden.stderr
    assert "contains rows of the tables and names of categories" in shown.stderr
    for name, said in (("hidden", "no rows"), ("shown", "contains rows")):
        results = json.loads((tmp_path / name / "results.json").read_text())
        assert said in results["models"]["jittered"]["protocol"]["contains"]
        assert said in (tmp_path / name / "report.html").read_text()
    galleries = [
        json.loads((tmp_path / name / "galleries.json").read_text())["jittered"] for name in ("hidden", "shown")
    ]
    first = [one["copies"][0] for one in galleries]
    assert re.fullmatch(r"row \d+", first[0]["sample"]["text"])
    assert set(first[0]["differs"][0]) == {"column", "share"}
    assert "ward" in dict(first[1]["sample"]["row"])
    assert "map" not in json.loads((tmp_path / "hidden" / "galleries.json").read_text())["jittered"]
    assert set(first[1]["differs"][0]) == {"column", "share", "sample", "nearest"}
    content = b"".join(path.read_bytes() for path in (tmp_path / "shown").iterdir())
    assert b"cardiology" in content
    assert not re.search(rb"P\d{7}", content)


def test_results_have_the_drift_and_follow_the_schema(run, tmp_path, request):
    files = tables(tmp_path, 0)
    done = run(*words_of(files, "copula"), *QUICK, "--json")
    saved = json.loads(done.stdout)
    schema = json.loads((request.config.rootpath / "docs" / "results.schema.json").read_text())
    jsonschema.validate(saved, schema)
    drift = saved["models"]["copula"]["drift"]
    assert set(drift["columns"]) == set(COLUMNS) - {"patient_id"}
    assert set(drift["pairs"][0]["columns"]) < {"age", "pressure", "severity"}
    table = run(*words_of(files, "copula"), *QUICK).stdout
    assert "copula: what differs most" in table
    assert re.search(r"dependence +TV +chance", table)
    assert re.search(r"age × pressure +0\.\d+ \[0\.\d+, 0\.\d+\]", table)


def test_columns_can_be_chosen_and_kinds_given(run, tmp_path):
    files = tables(tmp_path, 0)
    words = (*words_of(files, "fresh"), *QUICK)

    def kinds(*given):
        done = run(*words, *given, "--json")
        assert done.exit_code == 0, done.output
        plan = json.loads(done.stdout)["models"]["fresh"]["protocol"]["real"]["protocol"]
        return {name: column["kind"] for name, column in plan["columns"].items()}

    assert kinds() == {
        "visit_date": "date",
        "sex": "category",
        "ward": "category",
        "severity": "ordered",
        "age": "integer",
        "pressure": "integer",
        "bmi": "number",
    }
    assert kinds("--columns", "age,bmi") == {"age": "integer", "bmi": "number"}
    assert "ward" not in kinds("--ignore", "ward, sex")
    assert kinds("--kinds", "severity=category,age=ordered", "--columns", "severity,age") == {
        "severity": "category",
        "age": "ordered",
    }


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        (("--ignore", "weight"), 1, "`ignore` must name columns of the table (patient_id, visit_date,"),
        (("--kinds", "age"), 2, "expected column=kind"),
        (("--kinds", "age=years"), 1, "`kinds` must be one of number, integer, category"),
        (("--columns", "patient_id"), 1, "must have a column to compare; all are left out"),
    ],
)
def test_a_wrong_option_costs_a_line(run, tmp_path, given, status, said):
    done = run(*words_of(tables(tmp_path, 0), "fresh"), *QUICK, *given)
    assert done.exit_code == status
    assert said in " ".join(done.output.replace("│", " ").split())


def test_a_column_that_the_fakes_lack_is_named(run, tmp_path):
    files = tables(tmp_path, 0)
    rows = [row[1:-1] for row in clinic(np.random.default_rng(5))]
    files["short"] = write(tmp_path / "short.csv", rows, COLUMNS[1:-1])
    done = run(*words_of(files, "short"), *QUICK)
    assert done.exit_code == 1
    assert "it lacks bmi. Add them, or leave them out (--ignore)" in done.stderr
    assert run(*words_of(files, "short"), *QUICK, "--ignore", "bmi").exit_code == 0  # an identifier is not needed


def test_options_of_tables_are_for_tables(run, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(60, 2)))
    done = run("assess", "--real", tmp_path / "x.npy", "--fake", tmp_path / "x.npy", *QUICK, "--ignore", "a")
    assert done.exit_code == 1
    assert "are for tables; `real` holds features" in done.stderr


def test_the_same_in_python(tmp_path, monkeypatch):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    files = tables(tmp_path, 0)
    options = {"metrics": ("clusters",), "kinds": {"age": "number"}}
    with pytest.warns(ColumnWarning, match="patient_id"):
        one = precall.assess(real=files["real"], fake=files["fresh"], **options)
    assert one.protocol["real"]["protocol"]["columns"]["age"]["kind"] == "number"
    other = precall.assess(real=files["real"], fake=files["fresh"], ignore=["patient_id"], **options)
    assert other.drift.columns == one.drift.columns
    assert list(precall.assess(real=files["real"], fake=files["fresh"], columns=["age"], **options).drift.columns) == [
        "age"
    ]
