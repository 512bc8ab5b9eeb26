"""Tables as people have them: delimiters, decimal commas, headers, missing values, dates, and kinds of columns."""

import math
from dataclasses import replace
from uuid import UUID

import numpy as np
import pyarrow
import pytest

from precall.samples import open_samples, tables
from precall.samples.cells import MISSING, moment, number
from precall.samples.columns import TableChoice, kind_of, levels_of
from precall.samples.tables import open_csv

rng = np.random.default_rng(0)
N = 300
WORDS = ("pain", "in", "the", "left", "knee", "since", "two", "days", "after", "a", "long", "walk")
NOTES = [" ".join(rng.choice(WORDS, 9)) for _ in range(N)]
CELLS = {  # kind: columns of that kind
    "number": {
        "x": [f"{x:.4f}" for x in rng.normal(size=N)],
        "price": [f"${x:,.2f}" for x in rng.lognormal(8, 1, N)],
        "share": [f"{x:.1f} %" for x in rng.uniform(0, 100, N)],
        "with_gaps": ["?" if i % 9 == 0 else f"{x:.3f}" for i, x in enumerate(rng.normal(size=N))],
        "mostly": ["<5" if i % 20 == 0 else f"{x:.1f}" for i, x in enumerate(rng.uniform(5, 50, N))],
        "sorted": [f"{x:.6f}" for x in sorted(rng.normal(size=N))],
        "patient_weight": [f"{x:.1f}" for x in rng.normal(70, 9, N)],
    },
    "integer": {
        "age": [str(x) for x in rng.integers(18, 95, N)],
        "income": [str(int(x)) for x in rng.lognormal(10.5, 0.4, N)],
        "count": [str(x) for x in rng.poisson(2, N)],
        "year": [str(x) for x in rng.integers(1950, 2024, N)],
        "account_balance": [str(x) for x in rng.integers(-90_000, 90_000, N)],
        "sorted_income": [str(x) for x in np.sort(rng.choice(np.arange(10_000, 90_000), N, replace=False))],
        "sorted_price": [str(x) for x in np.unique(rng.lognormal(12, 0.6, N).astype(int))],
        "start_year": [str(1400 + i) for i in range(N)],
        "timestamp": [str(x) for x in np.sort(rng.integers(16 * 10**8, 17 * 10**8, N))],
    },
    "boolean": {"smokes": ["yes", "no", "no"] * 100, "flag": ["0", "1", "1"] * 100, "ok": ["True", "False", ""] * 100},
    "category": {
        "ward": ["A", "B", "C"] * 100,
        "code": ["007", "012", "100"] * 100,
        "state": [f"S{i}" for i in rng.integers(0, 50, N)],
        "empty": ["", "NA", "NaN"] * 100,
        "constant": ["k"] * N,
    },
    "ordered": {
        "severity": ["mild", "severe", "moderate", "none", "mild"] * 60,
        "stage": ["stage 1", "stage 10", "stage 2"] * 100,
        "ages": ["0-17", "18-39", "40-64"] * 100,
    },
    "date": {
        "iso": [f"2023-{i % 12 + 1:02d}-{i % 28 + 1:02d}" for i in range(N)],
        "german": [f"{i % 28 + 1}.{i % 12 + 1}.2023" for i in range(N)],
        "american": [f"{i % 12 + 1}/{i % 28 + 1}/2023 {i % 24}:30" for i in range(N)],
        "named": [f"{i % 28 + 1} Mar 2023" for i in range(N)],
        "compact": [f"2023{i % 12 + 1:02d}{i % 28 + 1:02d}" for i in range(N)],
        "several": [("2023-01-05", "6.1.2023", "Jan 7, 2023", "")[i % 4] for i in range(N)],
        "clock": [f"{i % 24:02d}:{i % 60:02d}" for i in range(N)],
    },
    "identifier": {
        "patient_id": [f"P{x}" for x in rng.permutation(10**5)[:N]],
        "id": [str(x) for x in rng.permutation(10**7)[:N]],
        "customerId": [str(x) for x in rng.integers(10**6, 10**7, N)],
        "running": [str(i + 1) for i in range(N)],
        "shuffled": [str(x) for x in rng.permutation(N)],
        "by_tens": [str(10 * i + 5) for i in range(N)],
        "gaps": [str(x) for x in np.sort(rng.permutation(2 * N)[:N])],
        "customer": [str(x) for x in np.sort(rng.permutation(10**6)[:N])],
        "rising": [str(x) for x in np.cumsum(rng.integers(1, 999, N))],
        "u": [str(UUID(bytes=rng.bytes(16))) for _ in range(N)],
        "phone": [str(x) for x in rng.integers(10**9, 10**10, N)],
        "surname": [f"{'abcdefgh'[i % 8]}{i % 61}son" for i in rng.integers(0, 10**4, N)],
        "mail": [f"a{x}@b.org" for x in rng.permutation(N)],
    },
    "text": {"note": NOTES},
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, columns in CELLS.items() for name in columns])
def test_kinds_are_inferred(kind, name):
    assert kind_of(name, CELLS[kind][name]) == kind


@pytest.mark.parametrize("spelling", sorted(MISSING - {"none"}))
def test_a_missing_value_does_not_change_the_kind(spelling):
    for kind in ("number", "integer", "date"):
        for name, cells in CELLS[kind].items():
            assert kind_of(name, [spelling.upper(), *cells[:99]]) == kind


def test_levels_are_in_order():
    assert levels_of(CELLS["ordered"]["stage"]) == ["stage 1", "stage 2", "stage 10"]
    assert levels_of(["Severe", "None", "Mild"]) == ["None", "Mild", "Severe"]


@pytest.mark.parametrize(
    ("cell", "day"),
    [
        ("2024-02-29", 19782),
        ("2024-02-29T12:00:00Z", 19782.5),
        ("2024-02-29 14:00+02:00", 19782.5),
        ("2/29/2024", 19782),
        ("29/2/2024", 19782),
        ("29.02.24", 19782),
        ("Thu, 29 Feb 2024", 19782),
        ("February 29, 2024 12:00 PM", 19782.5),
        ("2024-02", 19754),
        ("30.2.2024", math.nan),
        ("2024-13-01", math.nan),
        ("25:00", math.nan),
        ("3.14", math.nan),
        ("29 Foo 2024", math.nan),
    ],
)
def test_dates(cell, day):
    assert moment(cell) == pytest.approx(day, nan_ok=True)


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("1,234,567.5", 1234567.5),
        ("123 456", 123456),
        ("1'234.5", 1234.5),
        ("-1\u202f234 €", -1234),
        ("12 34", math.nan),
        ("1 2345", math.nan),
        ("€ 12", 12),
        ("-$5", -5),
        ("\u22123", -3),
        ("1_0", math.nan),
        ("1e999", math.nan),
    ],
)
def test_numbers(cell, value):
    assert number(cell) == pytest.approx(value, nan_ok=True)


# ------------------------------------------------------------------------------------------------------------- files


def opened(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return open_csv(path, "skip")


def test_rows_have_names_and_missing_values_are_no_errors(tmp_path):
    samples = opened(tmp_path / "x.csv", 'age,city\n31,"Paris, 5e"\n40,Rome\n\n50,\n60\n')
    assert (samples.kind, list(samples.ids)) == ("table", ["row 1", "row 2", "row 3", "row 4"])
    assert samples[0] == {"age": "31", "city": "Paris, 5e"}
    assert samples[2] == {"age": "50", "city": ""}
    (batch,) = samples.batches(9)
    assert batch.indices == [0, 1, 2]
    assert [str(error) for error in samples.errors] == ["row 4: 1 cells in a table of 2 columns"]


def test_rows_are_not_described_unless_they_may_be_shown(tmp_path):
    samples = opened(tmp_path / "x.csv", "age,name\n31,Ada\n")
    assert samples.describe(0) == "row 1"
    assert replace(samples, visible=("age",)).describe(0) == "age=31"


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("a;b\n1,5;2\n1.234,5;3\n", {"a": "1.5", "b": "2"}),
        ("a;b\n12,345;x\n67,890;y\n", {"a": "12.345", "b": "x"}),
        ("a;b\n12,345;0.53\n67,890;1.5\n", {"a": "12,345", "b": "0.53"}),
        ("a;b\n1,234,567;x\n2,345,678;y\n", {"a": "1,234,567", "b": "x"}),
        ("a;b\n123.456;1,5\n999;2,5\n", {"a": "123456", "b": "1.5"}),
        ("a;b\n0.456;1,5\n1.234;2,5\n", {"a": "0.456", "b": "1.5"}),
        ("a\tb\n12,345\tx\n", {"a": "12,345", "b": "x"}),
        ("1,5;2,5\n3,5;4,5\n", {"column 1": "1.5", "column 2": "2.5"}),
        ("a\tb\n1\t2\n", {"a": "1", "b": "2"}),
        ("a|b\n1|x,y\n", {"a": "1", "b": "x,y"}),
        ("\ufeffa,b\n1,2\n", {"a": "1", "b": "2"}),
        ("1,2\n3,4\n", {"column 1": "1", "column 2": "2"}),
        (",a\n0,2\n", {"column 1": "0", "a": "2"}),
        ("a,a,a\n1,2,3\n", {"a": "1", "a (2)": "2", "a (3)": "3"}),
        ("P17,52,f\nP18,60,m\nP19,47,f\n", {"column 1": "P17", "column 2": "52", "column 3": "f"}),
        ("name,2019,2020\nx,1,2\n", {"name": "x", "2019": "1", "2020": "2"}),
        ('a,b\n"1,234",x\n', {"a": "1,234", "b": "x"}),
        ("only\n1\n", {"only": "1"}),
    ],
)
def test_delimiters_decimal_commas_and_headers(tmp_path, text, row):
    assert opened(tmp_path / "x.csv", text)[0] == row


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"a,b\n", "must contain at least one row"),
        (b'a,b\n"open,1\n', "must be a UTF-8 table"),
        (b"a,b\n\xff,1\n", "must be a UTF-8 table"),
        (b"a,b\n" + b"x" * 200_000 + b",1\n", "must be a UTF-8 table"),
    ],
)
def test_tables_that_cannot_be_read(tmp_path, text, sentence):
    with pytest.raises(ValueError, match=sentence):
        opened(tmp_path / "x.csv", text)


# ------------------------------------------------------------------------------------------------------------ frames


class Pandas:
    """What a pandas frame offers, as far as it is used here."""

    def __init__(self, columns):
        self.columns, self._cells = list(columns), list(columns.values())
        self.shape = len(self._cells[0]), len(self._cells)
        self.iloc = self

    def __getitem__(self, place):
        return np.array(self._cells[place[1]], dtype=object)


def test_data_frames_are_tables():
    columns = {"age": [31, None], "x": [0.1, float("nan")], "smokes": [True, False]}
    arrow, pandas = open_samples(pyarrow.table(columns)), open_samples(Pandas(columns))
    assert arrow.kind == pandas.kind == "table"
    assert arrow[0] == pandas[0] == {"age": "31", "x": "0.1", "smokes": "True"}
    assert arrow[1]["age"] == ""
    assert arrow.fingerprint() == open_samples(pyarrow.table(columns)).fingerprint() != pandas.fingerprint()
    assert arrow.fingerprint() != open_samples(pyarrow.table(columns | {"x": [0.1, 0.2]})).fingerprint()
    with pytest.raises(ValueError, match="at least one row"):
        open_samples(pyarrow.table({"a": []}))


def test_a_choice_names_columns_and_kinds_that_exist():
    with pytest.raises(ValueError, match=r"`kinds` must be one of .*; got 'day'"):
        TableChoice(kinds={"visit": "day"})
    with pytest.raises(ValueError, match=r"`ignore` must name columns of the table \(a, b\); got 'c'"):
        TableChoice(ignore=["c"]).check(["a", "b"])


@pytest.mark.parametrize(
    "content", ["a,b\n1,2\n\n3,4", "a;b\n\n1,5;x\n2;y;z\n2;\n", "\n\n", "a\n 1\n\n \n2\n", "\u00e9,b\n\0,2\n"]
)
def test_a_file_without_quotes_is_read_as_others(tmp_path, monkeypatch, content):
    (tmp_path / "a.csv").write_text(content, "utf-8", newline="")

    def found():
        try:
            table = open_samples(tmp_path / "a.csv")
        except ValueError as error:
            return str(error)
        return table.columns, [table.row(index) for index in range(len(table))], table.uneven, table.delimiter

    plain = found()
    monkeypatch.setattr(tables, "_is_plain", lambda path: False)
    assert found() == plain
