"""Notices about tables whose files write numbers or categories differently."""

import numpy as np
import pytest

import precall
from precall.metrics.inputs.sides import side
from precall.metrics.tables.table_notices import table_notices
from precall.samples.columns import TableChoice
from precall.samples.sampleset import SampleWarning

pytestmark = pytest.mark.usefixtures("small_committee")


def notices_of(tmp_path, real, fake, **kinds):
    """The notices about two files; `real` and `fake` are their texts."""
    loaded, paths = {}, {"real": tmp_path / "real.csv", "fake": tmp_path / "fake.csv"}
    for name, text in (("real", real), ("fake", fake)):
        paths[name].write_text(text, encoding="utf-8")
    one = side("real", str(paths["real"]), table=TableChoice(kinds=kinds), loaded=loaded)
    return table_notices(one, side("fake", str(paths["fake"]), reference=one, loaded=loaded), "fake")


def csv_of(cells, delimiter=","):
    return "\n".join([f"v{delimiter}w", *(f"{cell}{delimiter}{i % 7}.5" for i, cell in enumerate(cells))])


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda x: f'"{x:.3f}"'.replace(".", ","), 1),  # read as thousands: the delimiter is a comma
        (lambda x: f"{x:.3f}", 0),
        (lambda x: f"{10 * x:.3f}", 0),
    ],
)
def test_a_factor_of_a_thousand_says_how_numbers_were_read(tmp_path, write, said):
    values = np.random.default_rng(0).uniform(10, 90, (2, 200))
    found = notices_of(tmp_path, csv_of(f"{x:.3f}" for x in values[0]), csv_of(map(write, values[1])))
    assert len(found) == said
    if said:
        assert found[0].startswith("column v: the median is")
        assert "a factor of about 1,000" in found[0]
        assert found[0].endswith("decimals follow a point in `real` and commas separate thousands in `fake`.")


def test_categories_that_never_agree_may_be_spelled_differently(tmp_path):
    codes = np.random.default_rng(0).integers(1, 6, (2, 200))
    real, fake = csv_of(codes[0]), csv_of(f"{code}.0" for code in codes[1])
    (said,) = notices_of(tmp_path, real, fake, v="category")
    assert said.startswith("fake: 100% of the cells of column v have a category that `real` does not have")
    assert said.endswith("Check that both tables spell the categories alike, for example 3 and 3.0, or yes and Yes.")
    assert notices_of(tmp_path, real, csv_of(codes[1]), v="category") == []


def test_quick_assessments_of_many_rows_name_the_part_that_the_k_nn_scores_use(monkeypatch):
    monkeypatch.setattr("precall.metrics.assessing.whole_run.MOST", 1000)
    rng = np.random.default_rng(0)
    real, fake = rng.normal(size=(2, 1200, 2))
    with pytest.warns(SampleWarning, match="those of 1,000 random samples"):
        found = precall.assess(real=real, fake=fake, metrics=("auto_quick", "neighbors", "fid"))
    score = found.scores["precision"]
    assert (score.n_real, score.n_fake, score.settings["rows"]) == (1000, 1000, 1000)
    assert found.protocol["sample"] == [1000, 1000]
    assert len(found.samples["real"].member) == len(found.sources["real"].features) == 1000
    ids = [int(found.sources["real"].identity(row)) for row in range(1000)]
    assert (real[ids] == found.sources["real"].features).all()
    assert found.scores["fid"].n_real == 1200
    assert "precision (1k)" in repr(found)
    whole = precall.assess(real=real, fake=fake, metrics=("neighbors", "fid"))
    assert whole.scores["precision"].n_real == 1200  # no quick assessment
