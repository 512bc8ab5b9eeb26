"""Cells of tables one by one: numbers, dates, decimal signs, kinds, and the small sequences behind them."""

import math

import numpy as np
import pytest

from precall.encoders.column_codes import bent
from precall.samples import cells, columns
from precall.samples.arrays import JoinedArrays, OnDemand, Positions, as_pixels, pick
from precall.samples.hashing import combined
from precall.samples.images import is_image_content
from precall.samples.remote import is_url, without_secrets
from precall.samples.sampleset import natural
from precall.samples.shards import expanded, is_pattern, splits_of
from precall.samples.tables import typed
from precall.samples.texts import json_text, without_surrogates
from precall.samples.typed_cells import TextCells, TextLevels


@pytest.mark.parametrize(
    ("cell", "value"),
    [(" -1e3 ", -1000), ("$1,200.50", 1200.5), ("1 200 %", 1200), ("inf", math.nan), ("1,5", math.nan)]
    + [("70.1 kg", 70.1), ("70kg", 70), ("-3 °C", -3), ("1 200 km/h", 1200), ("USD 1,200.50", 1200.5), ("7 m²", 7)]
    + [(code, math.nan) for code in ("2nd", "12A", "20s", "5m", "12 apples", "kg", "3D")],
)
def test_numbers(cell, value):
    assert cells.number(cell) == pytest.approx(value, nan_ok=True)


@pytest.mark.parametrize(
    ("own", "cell", "value"),
    [
        *[("€", "5 €", 5), ("€", "5", 5), ("€", "$5", math.nan), ("", "$5", 5)],
        *[("kg", "5kg", 5), ("kg", "5 lb", math.nan), ("EUR", "USD 5", math.nan), ("EUR", "5 EUR", 5)],
    ],
)
def test_numbers_in_a_unit(own, cell, value):
    assert cells.number_in(own, cell) == pytest.approx(value, nan_ok=True)


def test_units():
    assert list(map(cells.unit, ["$ 5", "5 %", "5", "USD 5", "1 200 kg", "20°C"])) == ["$", "%", "", "USD", "kg", "°C"]


@pytest.mark.parametrize("cell", ["1.234,50 €", "€ 1.234,5", "1.234,5 kg", "EUR 1 234,50", "1.234,5%"])
def test_decimal_commas_before_a_unit(cell):
    assert cells.has_decimal_commas({cell: 3})
    assert cells.number(cells.with_point(cell)) == 1234.5


@pytest.mark.parametrize(
    ("cell", "day"),
    [
        *[("1970-01-02 12:00", 1.5), ("2.1.1970", 1), ("Jan 2, 1970", 1), ("6:00 pm", 0.75), ("19700102", 1)],
        *[
            ("1970-01-01T01:00+01:00", 0),
            ("1970-01-01 00:00 -01:30", 1 / 16),
            ("2024-02-30", math.nan),
            ("soon", math.nan),
        ],
    ],
)
def test_dates(cell, day):
    assert cells.moment(cell, day_first=True) == pytest.approx(day, nan_ok=True)


def test_which_part_of_a_date_is_the_day():
    assert cells.puts_day_first(["3/4/2024", "25/4/2024"])
    assert not cells.puts_day_first(["3/4/2024"])
    assert cells.puts_day_first(["3.4.2024"])


def test_decimal_signs():
    assert cells.has_decimal_commas({"1,5": 1, "1.234,25": 1})
    assert not cells.has_decimal_commas({"1,234": 1, "5,678": 1})
    assert cells.has_decimal_commas({"1,234": 1}, expected=True)
    assert not cells.has_decimal_commas({"1,234,567": 1}, expected=True)
    assert cells.has_decimal_points({"1.5": 1, "0.125": 1})
    assert not cells.has_decimal_points({"1.234": 1, "29.2.2024": 1})
    assert cells.has_thousands_points({"1.234": 2})
    assert not cells.has_thousands_points({"1.234": 2, "0.125": 1})
    assert list(map(cells.with_point, ["1.234,5", "1.234", "3.14", "n/a"])) == ["1234.5", "1234", "3.14", "n/a"]


@pytest.mark.parametrize(
    ("name", "found", "kind"),
    [
        ("age", ["31", "45", "31", ""], "integer"),
        ("visit", ["2024-01-31", "2024-02-29"], "date"),
        ("", [str(i) for i in range(50)], "identifier"),
        ("smokes", ["yes", "no", "no"], "boolean"),
        ("smokes", ["yes", "no", "true"], "category"),
        ("code", ["0012", "0034"], "category"),
    ],
)
def test_kinds(name, found, kind):
    assert columns.kind_of(name, found) == kind


def test_spellings_of_missing_values():
    assert "none" in columns.missing_spellings(["None", "3.5"])
    assert "none" not in columns.missing_spellings(["none", "mild", "severe"])
    assert "none" not in columns.missing_spellings(["none", "n/a", "3.5"])


def test_a_category_that_no_row_has_does_not_decide_what_is_missing():
    unused = TextCells(TextLevels(["none", "3.5", "n/a"], np.array([0, 1, 1])))
    assert "none" in columns.missing_spellings(unused)
    assert columns.kind_of("x", unused) == "number"


def test_levels_are_ordered():
    assert columns.levels_of(["high", "low", "medium", "low"]) == ["low", "medium", "high"]
    assert columns.levels_of(["40-59", "0-17", "18-39"]) == ["0-17", "18-39", "40-59"]


def test_the_limit_of_rare_categories():
    assert list(map(columns.rarest, [10, 300, 100_000])) == [2, 9, 159]


def test_types_say_kinds():
    known = {"a": "datetime64[ns]", "b": "bool", "c": "dictionary<values=string>", "d": "Int64", "e": "string"}
    assert typed(known) == {"a": "date", "b": "boolean", "c": "category", "d": "integer"}


def test_levels_of_texts():
    found = TextLevels.of(["b", "a", "b"])
    assert (found.names, found.codes.tolist(), found.each(len).tolist()) == (["b", "a"], [0, 1, 0], [1, 1, 1])


def test_far_numbers_are_bent():
    np.testing.assert_allclose(bent(np.array([-2.5, 4.0, 1e6])), [-2.5, 4, 4 + np.log(1e6 - 3)])


def test_sequences_on_demand():
    assert (list(OnDemand(3, lambda index: index**2)), OnDemand(3, str)[1:]) == ([0, 1, 4], ["1", "2"])
    assert (list(Positions(3)), Positions(3, 1, "row ")[-1]) == (["0", "1", "2"], "row 3")


def test_joined_arrays():
    joined = JoinedArrays({"a": np.zeros((2, 3)), "b": np.ones((1, 3))})
    assert (joined.shape, joined[2].tolist(), joined[1:].tolist()) == ((3, 3), [1, 1, 1], [[0, 0, 0], [1, 1, 1]])


def test_small_choices():
    assert pick(["labels", "features"], None, "a.npz") == "features"
    assert [is_pattern(name) for name in ("data-{0..3}.tar", "*.parquet", "data.tar")] == [True, True, False]
    assert [is_image_content(value) for value in (b"GIF89a", b"text", None)] == [True, False, False]
    assert without_surrogates("a\ud83d\ude00b\ud83d") == "a😀b�"
    assert as_pixels(np.array([[0.0, 1.0]])).tolist() == [[[0] * 3, [255] * 3]]


def test_splits_of_files():
    from pathlib import PurePath

    names = ["train-00000-of-00001.parquet", "test-00000-of-00001.parquet"]
    assert splits_of([PurePath(name) for name in names]) == ["test", "train"]


def test_names_and_hashes():
    assert sorted(["img10", "img2", "b/1"], key=natural) == ["b/1", "img2", "img10"]
    assert expanded("data-{08..10}.{tar,zip}")[:3] == ["data-08.tar", "data-08.zip", "data-09.tar"]
    assert expanded("data.tar") == ["data.tar"]
    assert without_secrets("https://me:secret@host/a.npy?signature=1") == "https://host/a.npy"
    assert json_text('{"resps": [["an answer"]]}', "resps.0.0") == "an answer"
    assert combined(["ab", "c"]) != combined(["a", "bc"])
    assert [is_url(one) for one in ("s3://bucket/images", "images/a.npy", "C://images")] == [True, False, False]
