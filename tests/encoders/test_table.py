"""The encoder of tables: every column weighs about the same, and nothing private is in the protocol."""

import datetime
import json
import warnings
from dataclasses import replace

import numpy as np
import pytest

import precall
from precall.encoders import encode
from precall.encoders.column_codes import bent
from precall.encoders.table import ColumnWarning, table_encoder
from precall.samples import open_samples
from precall.samples.columns import TableChoice
from precall.samples.sampleset import SampleWarning

rng = np.random.default_rng(0)
N = 400


def table(path, columns):
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return open_samples(path)


@pytest.fixture
def make(tmp_path):
    return lambda name="real", **columns: table(tmp_path / f"{name}.csv", columns)


def columns_of(encoder, samples):
    """The features of each column, by name, and the number of unexpected cells."""
    array = encode(samples, encoder, cache=False).array
    return {name: array[:, slice(*one["features"])] for name, one in encoder.protocol["columns"].items()}, array[:, -1]


WEIGHED = {
    "unit": [f"{x:.3f}" for x in rng.normal(0, 1e6, N)],
    "small": [f"{x:.9f}" for x in rng.normal(5, 1e-4, N)],
    "heavy": [f"{x:.3f}" for x in rng.standard_cauchy(N)],
    "lognormal": [f"{x:.3f}" for x in rng.lognormal(3, 1, N)],
    "age": rng.integers(18, 90, N),
    "twenty": [f"c{i}" for i in rng.integers(0, 20, N)],
    "two": rng.choice(["a", "b"], N),
    "flag": rng.choice(["yes", "no"], N),
    "day": [f"202{i % 4}-{i % 12 + 1:02d}-{i % 28 + 1:02d}" for i in range(N)],
    "level": rng.choice(["low", "medium", "high"], N),
    "gaps": ["" if i % 10 == 0 else f"{x:.3f}" for i, x in enumerate(rng.normal(size=N))],
}


def test_no_column_outweighs_the_others(make):
    """The mean squared distance of two rows is about 2 in every column, whatever its unit, tails and categories."""
    real = make(**WEIGHED)
    found, _ = columns_of(table_encoder(reference=real), real)
    weights = {name: 2 * block.astype(float).var(axis=0).sum() for name, block in found.items()}
    assert min(weights.values()) > 0.8, weights
    assert max(weights.values()) < 5, weights
    skewed = make(rare=["x"] * (N - 10) + ["y"] * 10, zeros=[0] * (N - 20) + list(range(1, 21)))
    found, _ = columns_of(table_encoder(reference=skewed), skewed)
    assert np.ptp(found["rare"], axis=0).max() <= np.sqrt(2) + 1e-6


def test_numbers_are_scaled_as_the_reals_are_and_stay_rounded(make):
    real = make(income=[100 * int(x) for x in rng.normal(450, 90, N)])
    fake = make("fake", income=[45_000, 10**9])
    encoder = table_encoder(reference=real)
    column = encoder.protocol["columns"]["income"]
    assert column["scale"] == 10_000
    assert column["centre"] % 100 == 0
    found, _ = columns_of(encoder, fake)
    assert found["income"][0, 0] == pytest.approx((45_000 - column["centre"]) / 10_000)
    assert found["income"][1, 0] < 20  # a single value does not outweigh everything else
    steps = columns_of(encoder, real)[0]["income"][:, 0].astype(float) * 100
    assert steps == pytest.approx(np.rint(steps), abs=1e-4)
    assert np.all(np.diff(bent(np.linspace(-50, 50, 999))) > 0)


def test_missing_values_have_an_indicator_or_a_category(make):
    real = make(x=["1", "", "3", "NaN", "2"] * 20, c=["a", "?", "b", "a", "b"] * 20)
    found, unexpected = columns_of(table_encoder(reference=real), real)
    assert found["x"][:5, 1].tolist() == [0, 1, 0, 1, 0]
    assert found["x"][1, 0] == found["x"][4, 0] == 0  # at the median
    assert (found["c"][1] != 0).sum() == 1
    assert len({tuple(row) for row in found["c"]}) == 3
    assert not unexpected.any()


def test_what_the_reals_never_have_is_unexpected(make):
    real = make(x=range(100), when=["2024-01-01", "2024-02-01"] * 50, c=["a", "b"] * 50, w=[0.5, 1.5] * 50)
    real = replace(real, choice=TableChoice(kinds={"x": "number"}))
    fake = make("fake", x=["old", "1"], when=["2024-01-01", "soon"], c=["q", "a"], w=["", "1"])
    _, unexpected = columns_of(table_encoder(reference=real), fake)
    assert unexpected.tolist() == [3, 1]


def test_rare_categories_are_pooled_with_unknown_ones(make):
    real = make(c=[*["a", "b"] * 190, *[f"rare{i}" for i in range(20)]])
    fake = make("fake", c=["a", "rare3", "never seen", "NA"])
    encoder = table_encoder(reference=real)
    assert encoder.protocol["columns"]["c"]["categories"] == 3
    assert encoder.protocol["columns"]["c"]["pooled"] == 20
    found, unexpected = columns_of(encoder, fake)
    assert (found["c"][1] == found["c"][2]).all()
    assert (found["c"][0] != found["c"][1]).any()
    assert unexpected.tolist() == [0, 0, 0, 1]  # fresh real rows have unknown categories, too


def test_dates_have_the_cycles_in_which_they_vary(make):
    days = [f"2024-01-{i % 31 + 1:02d}" for i in range(N)]
    times = [f"2024-01-{i % 31 + 1:02d} {i % 24}:00" for i in range(N)]
    real = make(day=days, time=times, years=WEIGHED["day"], one=["2024-01-01"] * N)
    columns = table_encoder(reference=real).protocol["columns"]
    assert {name: one["cycles"] for name, one in columns.items()} == {
        "day": ["weekday"],
        "time": ["time of day", "weekday"],
        "years": ["weekday", "month"],
        "one": [],
    }
    found, _ = columns_of(table_encoder(reference=real), real)
    assert found["day"][0, 1:] == pytest.approx(found["day"][7, 1:], abs=1e-6)
    assert np.linalg.norm(found["day"][0, 1:] - found["day"][3, 1:]) > 0.09


def test_spellings_of_booleans_are_the_same(make):
    encoder = table_encoder(reference=make(b=["True", "False", "True"] * 20))
    found, unexpected = columns_of(encoder, make("fake", b=["yes", "1", "no", "0.0", "maybe"]))
    assert (found["b"][0] == found["b"][1]).all()
    assert (found["b"][2] == found["b"][3]).all()
    assert unexpected.tolist() == [0, 0, 0, 0, 1]


def test_identifiers_are_left_out_with_a_warning_and_kinds_can_be_given(make):
    real = make(patient_id=[f"P{i}" for i in rng.permutation(10**4)[:N]], x=rng.normal(size=N), n=range(N))
    with pytest.warns(ColumnWarning) as said:
        encoder = table_encoder(reference=real)
    assert [str(one.message).partition(":")[0] for one in said] == [
        "column patient_id is left out",
        "column n is left out",
    ]
    assert ["=category" in str(one.message) for one in said] == [True, False]
    assert "--kinds n=integer" in str(said[1].message)
    assert list(encoder.protocol["columns"]) == ["x"]
    assert encoder.protocol["left_out"] == {"patient_id": "identifier", "n": "identifier"}
    given = table_encoder(reference=replace(real, choice=TableChoice(kinds={"n": "number"}, ignore=["patient_id"])))
    assert list(given.protocol["columns"]) == ["x", "n"]
    with pytest.raises(ValueError, match="must have a column to compare; all are left out"):
        table_encoder(reference=replace(real, choice=TableChoice(columns=["n"])))


def test_free_text_is_left_out_or_encoded_by_its_length(make):
    notes = [" ".join(["word"] * (4 + i % 7)) + f" {i}" for i in range(N)]
    real = make(note=notes, x=rng.normal(size=N))
    with pytest.warns(ColumnWarning, match="column note is left out: it looks like free text"):
        table_encoder(reference=real)
    encoder = table_encoder(reference=replace(real, choice=TableChoice(kinds={"note": "text"})))
    found, _ = columns_of(encoder, real)
    assert np.corrcoef(found["note"][:, 0], list(map(len, notes)))[0, 1] > 0.999


def test_the_protocol_has_names_of_categories_only_if_rows_may_be_shown(make):
    real = make(city=["Rome", "Oslo"] * 200, level=["low", "high"] * 200, who=[f"name{i}" for i in range(N)])
    ignored = TableChoice(ignore=["who"])
    hidden = json.dumps(table_encoder(reference=replace(real, choice=ignored)).protocol)
    assert not any(word in hidden for word in ("Rome", "Oslo", '"low"', "name1"))
    shown = TableChoice(show_rows=True, kinds={"who": "category"})
    protocol = json.dumps(table_encoder(reference=replace(real, choice=shown)).protocol)
    assert "Rome" in protocol
    assert "name1" not in protocol  # an identifier is never shown, whatever kind it is given


def test_the_plan_is_part_of_the_protocol(make):
    one = table_encoder(reference=make(c=["a", "b"] * 50)).protocol
    other = table_encoder(reference=make("other", c=["a", "z"] * 50)).protocol
    assert one["columns"] == other["columns"]
    assert one["plan"] != other["plan"]  # otherwise features of one would be read from the cache for the other


def test_tables_need_their_reference_and_its_columns(make):
    real = make(age=["10", "30"] * 5, city=["Rome", "Paris"] * 5)
    with pytest.raises(ValueError, match="encoder `table` needs `reference`, the real set"):
        encode(real)
    with pytest.raises(ValueError, match=r"fake.csv: the table must have the columns of the real one; it lacks city"):
        encode(make("fake", age=["1"], town=["x"]), reference=real)
    with pytest.raises(ValueError, match="`reference` must be a table; got text"):
        table_encoder(reference=open_samples(["a"]))
    mixed = make("mixed", city=["Rome"], more=["1"], age=["10"])
    assert (encode(mixed, reference=real).array == encode(real, reference=real).array[:1]).all()


def _frame(module):
    """A frame of pandas, Polars or Arrow with a column of each type whose text would say something else."""
    codes = [1, 2, 3, 2] * 30
    days = [datetime.date(2024, 1, 1 + i % 28) for i in range(120)]
    if module == "pandas":
        pd = pytest.importorskip("pandas")
        return pd.DataFrame(
            {
                "code": pd.Categorical(codes),
                "flag": pd.array([0, 1, None, 1] * 30, dtype="Int64"),
                "day": pd.to_datetime(days),
                "yes": [True, False] * 60,
            }
        )
    pa = pytest.importorskip("pyarrow")
    table = pa.table(
        {
            "code": pa.array(list(map(str, codes))).dictionary_encode(),
            "flag": pa.array([0, 1, None, 1] * 30, pa.int64()),
            "day": pa.array(days),
            "yes": [True, False] * 60,
        }
    )
    return pytest.importorskip("polars").from_arrow(table) if module == "polars" else table


@pytest.mark.parametrize("module", ["pandas", "polars", "pyarrow"])
def test_the_types_of_a_frame_are_kept(module):
    columns = table_encoder(reference=open_samples(_frame(module))).protocol["columns"]
    kinds = {name: column["kind"] for name, column in columns.items()}
    assert kinds == {"code": "category", "flag": "integer", "day": "date", "yes": "boolean"}
    assert columns["flag"]["missing"] == 0.25


def test_a_category_by_type_that_names_persons_stays_private():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"name": pd.Categorical([f"person {i}" for i in range(90)]), "x": np.arange(90) % 7 * 1.5})
    with pytest.warns(ColumnWarning, match="name is left out"):
        assert set(table_encoder(reference=open_samples(frame)).protocol["columns"]) == {"x"}


def test_another_currency_is_kept_apart(tmp_path):
    rng = np.random.default_rng(0)
    prices = rng.lognormal(3, 0.5, (3, 200)).round(2)
    for name, sign, own in (("real", "€", prices[0]), ("same", "€", prices[1]), ("other", "$", prices[2])):
        (tmp_path / f"{name}.csv").write_text("\n".join(["price", *(f"{sign}{price}" for price in own)]))
    paths = {name: str(tmp_path / f"{name}.csv") for name in ("same", "other")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SampleWarning)  # the notices below, among them that the rows are equal
        found = precall.assess(real=str(tmp_path / "real.csv"), fake=paths, metrics=("clusters",))
    assert found["same"].scores["tv"].value < 0.3 < 0.9 < found["other"].scores["tv"].value
    assert not found["same"].protocol.get("notices")
    said = " ".join(found["other"].protocol["notices"])
    assert "column price has several units: € in `real` and $ in `fake`" in said
