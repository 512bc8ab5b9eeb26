"""Columns with many categories: differences are seen, and equal distributions are not called different."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import precall
from precall.metrics.assessing.assessment import Reference
from precall.metrics.classifiers.estimators import classify
from precall.metrics.inputs.sides import side
from precall.metrics.tables.category_levels import (
    category_notices,
    named_category_codes,
    pooled_notices,
    with_shared_levels,
)
from precall.metrics.tables.column_drift import column_drift
from precall.samples.arrays import Positions
from precall.samples.columns import TableChoice
from precall.samples.sampleset import SampleWarning
from precall.samples.tables import TableRows
from precall.samples.typed_cells import text_cells

CATEGORY = TableChoice(kinds={"city": "category"})
ZIPF = 1 / np.arange(1, 501)


def table(cities, rng):
    """A column of categories, and one of numbers."""
    data = [text_cells(list(map(str, cities))), text_cells([f"{u:.4f}" for u in rng.normal(size=len(cities))])]
    return TableRows(kind="table", ids=Positions(len(cities), 1, "row "), name="t", columns=("city", "u"), data=data)


def encoded(real, fake, rng):
    loaded = {}
    one = side("real", table(real, rng), table=CATEGORY, loaded=loaded)
    return one, side("fake", table(fake, rng), reference=one, loaded=loaded)


def even(k, n, rng, name="city"):
    return [f"{name} {i}" for i in rng.integers(0, k, n)]


def zipf(n, rng):
    return [f"city {i}" for i in rng.choice(len(ZIPF), n, p=ZIPF / ZIPF.sum())]


def assess(real, fake, rng, metrics=("linear", "c2st")):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = precall.assess(real=table(real, rng), fake=table(fake, rng), metrics=metrics, kinds=CATEGORY.kinds)
    return found, [str(one.message) for one in said if issubclass(one.category, SampleWarning)]


def test_categories_that_are_all_made_up_are_invented():
    rng = np.random.default_rng(0)
    found, said = assess(even(150, 1000, rng), even(150, 1000, rng, "bogus"), rng)
    assert found.scores["area"].value < 0.02
    assert min(found.scores[name].value for name in ("invented", "missed")) > 0.95
    assert list(found.drift.differing_columns()) == ["city"]
    assert "Indistinguishable" not in found.verdict
    assert any("100% of the cells of column city have a category that `real` does not have" in one for one in said)


def test_categories_that_are_never_drawn_are_missed():
    rng = np.random.default_rng(0)
    real, fake = even(300, 2000, rng), even(30, 2000, rng)
    found, said = assess(real, fake, rng)
    assert found.scores["missed"].value == pytest.approx(0.9, abs=0.05)
    assert found.scores["area"].value < 0.2
    assert not said
    collapsed, _ = assess(even(150, 1000, rng), ["city 7"] * 1000, rng)
    assert collapsed.scores["area"].value < 0.05


def test_names_that_occur_once_are_invented_as_far_as_fresh_rows_do_not_have_them():
    rng = np.random.default_rng(0)
    real, fake = zipf(2000, rng), zipf(2000, rng)
    made_up = [f"made up {i}" if rng.random() < 0.4 else city for i, city in enumerate(fake)]
    found, said = assess(real, made_up, rng, metrics=("boosting",))
    assert 0.2 < found.scores["invented"].value < 0.45
    assert found.scores["tv"].value == pytest.approx(0.4, abs=0.1)
    assert any("of fresh real rows, about 8% would" in one for one in said)


@pytest.mark.parametrize(
    ("kind", "n", "m"), [("even", 400, 400), ("even", 600, 250), ("zipf", 600, 250), ("unique", 400, 400)]
)
def test_equal_distributions_of_many_categories_are_not_told_apart(kind, n, m):
    """The test holds its level for categories that occur in few rows, also with unequal numbers of rows."""
    p_values, drifts, said = [], [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        draw = {"even": lambda n: even(150, n, rng), "zipf": lambda n: zipf(n, rng)}  # noqa: B023
        draw["unique"] = lambda n: [f"name {i}" for i in rng.integers(0, 10**12, n)]  # noqa: B023
        sides = with_shared_levels(*encoded(draw[kind](n), draw[kind](m), rng))
        result = classify("linear", real=sides[0].features, fake=sides[1].features, seed=seed)
        p_values.append(result.p_value)
        drifts.append(_drift(*sides).columns["city"].p_value)
        said += [one for one in category_notices(*sides, "fake") if "does not have" in one]
    assert np.sum(np.array(p_values) <= 0.05) <= 1  # 0.2 expected
    assert np.sum(np.array(drifts) <= 0.05) <= 1
    assert min(drifts) > 1e-4
    assert not said


def _drift(real, fake):
    levels = {name: codes for name, (codes, _) in named_category_codes(real, fake).items()}
    return column_drift(real=real.features, fake=fake.features, columns=real.table["columns"], levels=levels)


def test_features_do_not_depend_on_the_side_of_a_row():
    """Rows exchanged between the tables keep their entries: nothing is learned from where a category was counted."""
    rng = np.random.default_rng(0)
    cities = np.array(even(150, 700, rng))
    order = rng.permutation(700)
    found = []
    for chosen in (np.arange(700), order):
        sides = with_shared_levels(*encoded(cities[chosen][:400], cities[chosen][400:], rng))
        start, stop = sides[0].table["columns"]["city"]["features"]
        found.append(np.concatenate([one.features[:, start:stop] for one in sides]))
    assert (found[0][order] == found[1]).all()


def test_categories_beyond_the_most_frequent_share_entries_by_their_frequency(monkeypatch):
    monkeypatch.setattr("precall.metrics.tables.category_levels.MOST_LEVELS", 2)
    rng = np.random.default_rng(0)
    real = ["a"] * 30 + ["b"] * 20 + ["c"] * 3 + ["d"] * 2 + ["e", "f"]
    fake = ["a"] * 30 + ["b"] * 20 + ["c"] * 3 + ["d", "g", "h"]
    one, other = with_shared_levels(*encoded(real, fake, rng))
    assert one.table["columns"]["city"]["categories"] == 5  # a, b, four to seven rows, three rows, one row
    assert one.table["columns"]["city"]["pooled"] == 6
    start, stop = one.table["columns"]["city"]["features"]
    place = np.concatenate([side.features[:, start:stop] for side in (one, other)]).argmax(axis=1)
    named = dict(zip(real + fake, place.tolist(), strict=True))
    assert named["e"] == named["f"] == named["g"] == named["h"]
    assert len({named[city] for city in "abcde"}) == 5
    assert one.features.shape[1] == other.features.shape[1] == one.table["columns"]["u"]["features"][1] + 1


def test_frequent_categories_and_matrices_stay_as_they_are():
    rng = np.random.default_rng(0)
    sides = encoded(even(4, 200, rng), even(4, 200, rng), rng)
    assert with_shared_levels(*sides) == sides
    matrices = side("real", rng.normal(size=(60, 2))), side("fake", rng.normal(size=(60, 2)))
    assert with_shared_levels(*matrices) == matrices
    assert category_notices(*matrices, "fake") == []


def test_a_holdout_is_encoded_in_the_same_way():
    rng = np.random.default_rng(0)
    real, holdout, fake = (table(even(150, 300, rng), rng) for _ in range(3))
    reference = Reference.fit(real, kinds=CATEGORY.kinds, holdout=holdout)
    assert "memorized" in reference.assess(fake, metrics=("neighbors",)).scores


def test_most_rows_in_the_pool_are_a_notice():
    rng = np.random.default_rng(0)
    one, other = encoded(*([f"{side} {i}" for i in range(200)] for side in ("real", "fake")), rng)
    for said in (category_notices(one, other, "fake"), pooled_notices(one)):
        assert [sentence.startswith("column city: 100% of the rows have a category") for sentence in said] == [True]
    features = replace(one, samples=None), replace(other, samples=None)  # without the cells
    assert category_notices(*features, "fake") == pooled_notices(one)
