"""Near-copies of rows with missing values."""

import numpy as np
import pytest

from precall import assess

pytestmark = pytest.mark.usefixtures("small_committee")

pd = pytest.importorskip("pandas")


def with_gaps(x, rng, share=0.04):
    return pd.DataFrame(np.where(rng.uniform(size=x.shape) < share, np.nan, x)).add_prefix("c")


def copies(real, fake):
    return assess(real=real, fake=fake, metrics=("copies",)).scores["copies"]


@pytest.mark.parametrize("seed", range(3))
def test_copies_are_compared_on_the_columns_that_both_rows_have(seed):
    """On all features, 58 to 65 % of such copies are found."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, 300, 6))
    found = copies(with_gaps(x, rng), with_gaps(x, rng))
    assert found.value > 0.98
    assert found.chance < 0.1
    fresh = copies(with_gaps(x, rng), with_gaps(y, rng))
    assert abs(fresh.value - fresh.chance) < 0.05
    y[:90] = x[:90]
    assert copies(with_gaps(x, rng), with_gaps(y, rng)).value == pytest.approx(0.3, abs=0.05)


@pytest.mark.parametrize(("columns", "gone"), [(2, 1), (4, 2), (6, 3)])
def test_fresh_rows_without_some_columns_are_no_copies(columns, gone):
    """On fewer columns more is near: with 3 of 6 columns missing in all fakes, 69 % of fresh rows were copies."""
    rng = np.random.default_rng(0)
    real, fake, same = (pd.DataFrame(rng.normal(size=(400, columns))).add_prefix("c") for _ in range(3))
    fake.iloc[:, :gone] = same.iloc[:, :gone] = np.nan
    fresh = copies(real, fake)
    assert abs(fresh.value - fresh.chance) < 0.1
    same.iloc[:, gone:] = real.iloc[:, gone:]
    assert copies(real, same).value > 0.98


@pytest.mark.filterwarnings("ignore:.*column c have a category")
def test_gaps_in_one_table_and_in_categories():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=400), "b": rng.normal(size=400), "c": rng.choice(list("xyz"), 400)})
    gone = table.copy()
    gone.loc[rng.uniform(size=400) < 0.1, "c"] = None
    gone.loc[rng.uniform(size=400) < 0.1, "a"] = None
    assert copies(gone, table).value > 0.8
    assert copies(table, gone).value > 0.8


def test_a_table_without_gaps_is_compared_by_all_features():
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(100, 3))).add_prefix("c")
    assert "compared" not in copies(x, x + 1).settings
