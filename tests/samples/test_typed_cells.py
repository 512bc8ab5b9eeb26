"""Typed columns: what is kept of a type, and how much memory a column takes."""

import csv
import datetime
import tracemalloc
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import precall
from precall.samples import open_samples
from precall.samples.cells import moment
from precall.samples.typed_cells import DateCells, NumberCells, TextBuilder, text_cells


@pytest.mark.parametrize("unit", ["D", "s", "ms", "us"])
def test_dates_are_read_as_their_texts_are(unit):
    seconds = np.random.default_rng(0).integers(-(10**9), 10**9, 200).astype("datetime64[s]")
    values = seconds.astype(f"datetime64[{unit}]") + np.arange(200).astype(f"timedelta64[{unit}]")
    cells = DateCells(np.append(values, np.datetime64("NaT")))
    texts = [cells.text(index) for index in range(200)]
    assert cells.days(day_first=False)[:200].tolist() == [moment(text) for text in texts]
    assert (cells.text(200), cells.absent(frozenset()).sum()) == ("", 1)
    with pytest.raises(ValueError, match="years 1 to 9999"):
        DateCells(np.array([4 * 10**6], "datetime64[D]"))


def test_numbers_are_read_as_their_texts_are():
    values = np.array([0.1, -2.0, np.nan, np.inf, 2**60 + 1], dtype=object)
    cells, texts = NumberCells(values.astype(float)), text_cells([str(float(value)) for value in values])
    np.testing.assert_array_equal(cells.numbers(), texts.numbers())
    assert cells.levels().counts == texts.levels().counts | {"nan": 1}
    whole = NumberCells(np.array([5, 2**60 + 1, 7]), np.array([False, False, True]))
    assert [whole.text(index) for index in range(3)] == ["5", str(2**60 + 1), ""]


def test_durations_are_numbers_of_seconds(tmp_path):
    """They were texts that hardly ever repeat, so that a column of them was left out as an identifier."""
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    # in nanoseconds, 200 days are no integer that a float holds exactly
    seconds = np.append(np.random.default_rng(0).exponential(3600, 99).round(3), 200 * 86400 + 1e-9 * (2**20 + 1))
    frame = pandas.DataFrame(
        {"wait": pandas.to_timedelta([*seconds, None], unit="s").astype("timedelta64[ns]"), "n": range(101)}
    )
    table = pa.Table.from_pandas(frame)
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    for source in (frame, polars.from_pandas(frame), table, tmp_path / "a.parquet"):
        cells = open_samples(source).cells("wait")
        np.testing.assert_allclose(cells.numbers(), [*seconds, np.nan], rtol=1e-12)


def test_many_distinct_texts_are_stored_as_they_are():
    built = TextBuilder()
    blocks = [["a", "b"] * 200, [f"x{i}" for i in range(900)], ["é", "\ud83d", "b"]]
    for block in blocks:
        built.add(block)
    cells = built.cells()
    assert type(cells).__name__ == "PlainCells"
    expected = [cell for block in blocks for cell in block]
    expected[-2] = "\ufffd"
    assert [cells.text(index) for index in range(len(cells))] == expected
    assert cells.levels().counts["b"] == 201


def test_a_csv_file_takes_less_memory_than_lists_of_texts(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{i % 7 / 3:.6f},{'abc'[i % 3]},{x}" for i, x in enumerate(rng.integers(0, 10**7, 20_000))]
    (tmp_path / "a.csv").write_text("x,kind,id\n" + "\n".join(lines) + "\n")
    tracemalloc.start()
    table = open_samples(tmp_path / "a.csv")
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert table.row(5) == lines[5].split(",")
    assert taken < 40 * len(lines)  # 16 bytes of a distinct text, 1 of a category; lists take 250


def test_dates_with_a_time_zone_are_compared_in_utc():
    zone = datetime.timezone(datetime.timedelta(hours=2))
    days = [datetime.datetime(2024, 1, 1 + i % 28, 1, tzinfo=zone) for i in range(60)]
    table = open_samples(pa.table({"at": pa.array(days, pa.timestamp("us", "+02:00")), "x": range(60)}))
    assert table[0]["at"] == "2023-12-31T23:00:00+00:00"
    assert table.cells("at").days(day_first=False)[0] == moment("2024-01-01 01:00:00+02:00")


def test_uneven_rows_are_left_out_of_every_column(tmp_path):
    lines = [f"{i % 5},{'ab'[i % 2]}" for i in range(40)]
    lines[3] = "1"
    (tmp_path / "a.csv").write_text("x,kind\n" + "\n".join(lines) + "\n")
    real = open_samples(tmp_path / "a.csv", on_error="skip")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = precall.assess(real=real, fake=real, metrics=("fid",))
    assert [str(error) for error in real.errors] == ["row 4: 1 cells in a table of 2 columns"]
    assert found.scores["fid"].n_real == 39


def test_uneven_rows_are_counted_with_and_without_a_header_and_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("precall.samples.tables.CELLS", 2000)
    rows = [f"{i},{i + 1}" for i in range(3000)]
    rows[5], rows[2500] = ",".join("1" * 100_000), "7"
    for header in ([], ["a,b"]):
        (tmp_path / "a.csv").write_text("\n".join([*header, *rows]) + "\n")
        table = open_samples(tmp_path / "a.csv", on_error="skip")
        assert table.uneven == {5: 100_000, 2500: 1}
        assert (len(table), table.row(5), table.row(2501)) == (3000, ["", ""], ["2501", "2502"])


def test_a_table_of_uneven_rows_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("a\n" + "1,2\n" * 30)
    with pytest.raises(ValueError, match="must have 1 cells per row, as its first line; 30 of 30 rows"):
        open_samples(tmp_path / "a.csv", on_error="skip")


def test_a_file_of_empty_lines_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("PRECALL_MAX_BYTES", str(1 << 22))
    (tmp_path / "a.csv").write_bytes(b"\n" * ((1 << 20) + 5))
    with pytest.raises(ValueError, match="too many rows: more than 1,048,576"):
        open_samples(tmp_path / "a.csv")


def test_categories_that_no_row_has_change_nothing():
    """As in a table of which rows were taken."""
    codes = np.random.default_rng(0).integers(3, size=90)
    plain, spare = (
        pa.table({"c": pa.DictionaryArray.from_arrays(codes + shift, names), "x": np.arange(90.0) % 7})
        for shift, names in ((0, ["a", "b", "c"]), (1, ["z", "a", "b", "c", "y"]))
    )
    found = [precall.assess(real=one, fake=one, metrics=["fid"]).to_dict()["scores"] for one in (plain, spare)]
    assert found[0] == found[1]


@pytest.mark.parametrize("pad", range(3))
def test_lines_may_cross_the_blocks_in_which_a_file_is_read(tmp_path, pad):
    """Ends of lines, quoted cells and rows of another width lie across the boundaries."""
    rows = [["x" * (i % 3), f"{i},\r\n{i}", str(i)][: 3 - (i % 1009 == 5)] for i in range(60_000)]
    with (tmp_path / "a.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\r\n").writerows([["a" + "b" * pad, "c", "d"], *rows])
    table = open_samples(tmp_path / "a.csv", on_error="skip")
    assert len(table) == len(rows)
    assert dict(table.uneven) == {i: 2 for i in range(60_000) if i % 1009 == 5}
    assert all(table.row(i) == row for i, row in enumerate(rows) if i not in table.uneven)


@pytest.mark.parametrize("ends", [(0, 255), (-1, 128), (-128, 127), (0, 2**64 - 1), (-(2**63), 2**63 - 1)])
def test_whole_numbers_are_exact_in_the_fewest_bytes(ends):
    column = pa.array([*ends, None], pa.uint64() if ends[1] > 2**63 else pa.int64())
    found = open_samples(pa.table({"x": column, "y": [0.5, 1.5, 2.5]})).data[0]
    assert [found.text(index) for index in range(3)] == [*map(str, ends), ""]
    assert found._values.itemsize == {255: 1, 128: 2, 127: 1}.get(ends[1], 8)
