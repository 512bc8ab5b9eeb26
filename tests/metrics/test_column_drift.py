"""Drift of columns and of dependences: what differs is named, and nothing is if nothing differs."""

import numpy as np
import pytest

from precall.metrics.tables.column_drift import ColumnDrift, column_drift, differing_columns

PLAN = {
    "a": {"kind": "number", "features": [0, 1], "centre": 0.0, "scale": 1.0},
    "b": {"kind": "number", "features": [1, 2], "centre": 0.0, "scale": 1.0},
    "c": {"kind": "category", "features": [2, 5]},
    "n": {"kind": "integer", "features": [5, 7], "centre": 10.0, "scale": 5.0},
}


def rows(n, rng, *, bent=True, shares=(0.5, 0.3, 0.2), digits=0, missing=0.1):
    """Two numbers with a U-shaped dependence, a category, and an integer with missing values."""
    a = rng.normal(size=n)
    b = (a**2 if bent else rng.normal(size=n) ** 2) + 0.3 * rng.normal(size=n)
    c = np.eye(3)[rng.choice(3, n, p=shares)]
    number = (rng.uniform(0, 20, n).round(digits) - 10) / 5
    gone = rng.random(n) < missing
    return np.column_stack([a, b, c, np.where(gone, 0, number), gone]).astype(np.float32)


def drift(seed, n=500, m=400, **fake):
    rng = np.random.default_rng(seed)
    return column_drift(real=rows(n, rng), fake=rows(m, rng, **fake), columns=PLAN, seed=seed)


def test_equal_tables_are_rarely_flagged():
    found = [drift(seed) for seed in range(30)]
    assert sum(bool(one.differing_columns()) for one in found) <= 5  # 5 % expected
    assert sum(bool(one.differing_pairs()) for one in found) <= 5
    assert sum(one.clearest() is not None for one in found) <= 2
    excess = [score.value - score.chance for one in found for score in one.columns.values()]
    assert np.mean(excess) == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize(
    ("fake", "columns", "pairs"),
    [
        ({"bent": False}, [], ["a × b"]),
        ({"shares": (0.2, 0.3, 0.5)}, ["c"], []),
        ({"digits": 3}, ["n"], []),
        ({"missing": 0.4}, ["n"], []),
    ],
)
def test_what_differs_is_named(fake, columns, pairs):
    one = drift(1, **fake)
    assert list(one.differing_columns()) == columns
    assert list(one.differing_pairs()) == pairs
    assert one.clearest()[0] == (columns + pairs)[0]


def test_the_total_variation_of_categories_is_exact_in_large_tables():
    score = drift(0, n=20_000, m=20_000, shares=(0.2, 0.3, 0.5)).columns["c"]
    assert score.value == pytest.approx(0.3, abs=0.015)
    assert 0.3 in score.interval
    assert score.interval.high - score.interval.low < 0.03


def test_a_drift_of_one_column_is_no_drift_of_a_dependence():
    """Independent columns, one of them with other shares: the table of the pair differs, its dependence does not."""
    pairs = [drift(seed, n=2000, m=2000, shares=(0.1, 0.2, 0.7)).pairs["a", "c"] for seed in range(8)]
    assert np.mean([pair.value - pair.chance for pair in pairs]) == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize(("n", "m"), [(3000, 100), (100, 3000)])
def test_the_smaller_table_decides_how_many_cells_there_are(n, m):
    found = drift(0, n=n, m=m)
    assert found.columns["a"].settings["cells"] == 5  # half the root of 100
    assert found.pairs["a", "b"].settings["cells"] == 4  # at least two per column


def test_a_column_that_is_constant_in_the_reals_has_no_dependence_to_compare():
    """With the single columns of the reals, the tables are equal, and so are all tables that are drawn from them."""
    plan = {"a": {"kind": "category", "features": [0, 2]}, "b": {"kind": "category", "features": [2, 4]}}
    first, half = np.eye(2)[np.zeros(400, dtype=int)], np.eye(2)[np.arange(400) % 2]
    rare = np.eye(2)[(np.arange(400) % 5 == 0).astype(int)]
    pair = column_drift(real=np.hstack([first, half]), fake=np.hstack([rare, rare]), columns=plan).pairs["a", "b"]
    assert pair.value == pytest.approx(0, abs=1e-12)
    assert (pair.interval.low, pair.interval.high) == (0, pytest.approx(3 / 400))


def test_disjoint_columns_are_compared():
    rng = np.random.default_rng(0)
    real, fake = rows(200, rng, shares=(1, 0, 0)), rows(200, rng, shares=(0, 0.5, 0.5))
    score = column_drift(real=real, fake=fake, columns=PLAN).columns["c"]
    assert (score.value, score.details["differs"]) == (1, True)


def test_a_drift_survives_its_json():
    one = drift(0, bent=False)
    again = ColumnDrift.from_dict(one.to_dict())
    assert again == one
    assert list(again.pairs) == list(one.pairs)


def test_rows_differ_where_their_features_do():
    one = rows(1, np.random.default_rng(0))[0]
    other = one.copy()
    assert differing_columns(one, other, PLAN) == {}
    other[2:5], other[0] = np.roll(other[2:5], 1), other[0] + 0.1
    found = differing_columns(one, other, PLAN)
    assert list(found) == ["c", "a"]
    assert sum(found.values()) == pytest.approx(1)


def test_a_wide_table_has_its_pairs_compared_among_the_columns_that_differ_most(monkeypatch):
    """All pairs of 4,096 columns would take hours, and those of 128 take seconds."""
    monkeypatch.setattr("precall.metrics.tables.column_drift.MOST_PAIRED", 24)
    rng = np.random.default_rng(0)
    plan = {f"c{i}": {"kind": "number", "features": [i, i + 1], "centre": 0.0, "scale": 1.0} for i in range(150)}
    real, fake = rng.normal(size=(2, 40, 150))
    fake[:, [3, 140]] += 3
    found = column_drift(real=real, fake=fake, columns=plan)
    assert len(found.columns) == 150
    assert {*list(found.columns)[:2]} == {"c3", "c140"}
    assert next(iter(found.pairs.values())).details["tests"] == 24 * 23 // 2


def test_a_category_that_is_lost_is_named_although_it_is_rare():
    """8 % of the rows: the total variation of four categories hardly exceeds chance, but the category is gone."""
    found = [drift(seed, 600, 600, shares=(0.55, 0.37, 0.08)) for seed in range(3)]
    assert all("c" in one.differing_columns() for one in found)
    rng = np.random.default_rng(0)
    plan = {"c": {"kind": "category", "features": [0, 3], "names": ["x", "y", "gone"]}}
    p, q = (np.eye(3)[rng.choice(3, 600, p=shares)] for shares in ((0.55, 0.37, 0.08), (0.6, 0.4, 0.0)))
    score = column_drift(real=p, fake=q, columns=plan).columns["c"]
    assert score.details["differs"]
    cells = {cell["label"]: cell for cell in score.details["histogram"]}
    assert (cells["gone"]["fake"], cells["gone"]["clear"]) == (0, True)
    assert cells["gone"]["real"] == p[:, 2].mean()


def test_a_histogram_names_ranges_dates_gaps_and_categories_but_no_name_that_is_private():
    rng = np.random.default_rng(1)
    days = np.floor(rng.uniform(-40, 40, (2, 800))) / 10
    plan = {"day": {"kind": "date", "features": [0, 2], "centre": 19723.0, "scale": 10.0}}
    plan |= {
        "c": {"kind": "category", "features": [2, 4]},
        "n": {"kind": "integer", "features": [4, 5], "centre": 7.0, "scale": 1.0},
    }
    gone = rng.random((2, 800)) < 0.2
    sides = [
        np.column_stack(
            [np.where(gone[i], 0, days[i]), gone[i], np.eye(2)[rng.choice(2, 800)], rng.integers(0, 3, 800)]
        )
        for i in range(2)
    ]
    found = column_drift(real=sides[0], fake=sides[1], columns=plan).columns
    labels = {name: [cell["label"] for cell in score.details["histogram"]] for name, score in found.items()}
    assert labels["c"] == ["category 1", "category 2"]
    assert labels["n"] == ["7", "8", "9"]
    assert labels["day"][0] == "missing"
    assert labels["day"][1].startswith("below 2023-11")
    assert labels["day"][-1].endswith("or more")
    for score in found.values():
        assert sum(cell["real"] for cell in score.details["histogram"]) == pytest.approx(1)


def test_pairs_of_a_large_table_are_those_of_a_stated_number_of_rows(monkeypatch):
    from precall.metrics.tables import column_drift as module

    monkeypatch.setattr(module, "PAIR_ROWS", 500)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 900, 1))
    real, fake = np.hstack([x, x + 0.1 * y]), rng.normal(size=(800, 2))  # the fakes are independent
    plan = {name: {"kind": "number", "features": [i, i + 1], "centre": 0, "scale": 1} for i, name in enumerate("ab")}
    found = column_drift(real=real, fake=fake, columns=plan)
    pair = found.pairs["a", "b"]
    assert (pair.n_real, pair.n_fake, pair.settings["rows"], pair.details["differs"]) == (500, 500, 500, True)
    assert (found.columns["a"].n_real, found.columns["a"].n_fake) == (900, 800)
    assert "rows" not in found.columns["a"].settings
