"""Memorisation against a holdout: planted copies are found and counted, and fresh samples are not called copies."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from precall import assess
from precall.metrics.assessing.assessment import Reference
from precall.metrics.copies import close_fakes
from precall.metrics.copies.close_fakes import BOTH, HOLDOUT, TRAIN, CloseFakes
from precall.metrics.copies.memorization import memorization
from precall.metrics.neighbors.sweep import within

pytestmark = pytest.mark.usefixtures("small_committee")

DOCS = Path(__file__).parents[2] / "docs"
DIGITS = load_digits().data


def features(rng, n):
    return rng.normal(size=(n, 64))


def table(rng, n):
    """Two categories, rounded and zero-inflated numbers: many ties."""
    group = rng.integers(0, 3, n)
    kind = np.minimum(rng.geometric(0.5, n), 5) - 1
    age = np.round(rng.normal(40 + 5 * group, 12)) / 12
    income = np.where(rng.random(n) < 0.4, 0, rng.lognormal(size=n)) / 2
    amount = np.round(rng.lognormal(3, 1, n)) / 30
    return np.c_[np.eye(3)[group] / 2**0.5, np.eye(5)[kind] / 2**0.5, age, income, amount]


def images(rng, n):
    return rng.permutation(DIGITS)[:n]


def drawn(law, rng, n):
    """Training samples, holdout and fakes of the same law."""
    return tuple(law(rng, 3 * n).reshape(3, n, -1).copy())


def planted(fake, train, share, jitter, rng):
    """Replace a share of the fakes by copies, moved by `jitter` times the typical distance to the nearest sample."""
    if not share:
        return
    copies = rng.permutation(len(fake))[: round(share * len(fake))]
    source = rng.integers(0, len(train), len(copies))
    nearest = within(np.unique(train, axis=0), k=1).radii
    direction = rng.normal(size=(len(copies), train.shape[1]))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    fake[copies] = train[source] + jitter * np.median(nearest) * direction


def twins(train, holdout, kind, rng):
    """Overwrite a quarter of the training samples, or of the holdout, by twins of training samples."""
    q = len(train) // 4
    if kind == "train":
        train[:q] = train[q : 2 * q]
    if kind == "near":
        train[:q] = train[q : 2 * q] + 1e-3 * rng.normal(size=train[:q].shape)
    if kind == "across":
        holdout[:q] = train[:q]


PLANTED = [("none", share, jitter) for share, jitter in ((0.0, 0.0), (0.05, 0.0), (0.05, 0.1), (0.5, 0.05))]


@pytest.mark.parametrize(
    ("kind", "share", "jitter"), [*PLANTED, *((one, 0.05, 0.1) for one in ("train", "near", "across"))]
)
@pytest.mark.parametrize("law", [features, table, images])
def test_the_share_of_planted_copies_is_recovered(monkeypatch, law, share, jitter, kind):
    monkeypatch.setattr(close_fakes, "PERMUTATIONS", 199)
    rng = np.random.default_rng(5)
    train, holdout, fake = drawn(law, rng, 599)
    twins(train, holdout, kind, rng)
    planted(fake, train, share, jitter, rng)
    score = memorization(real=train, holdout=holdout, fake=fake)["memorized"]
    assert score.value == pytest.approx(share, abs=0.03)
    assert share in score.interval
    assert score.interval.high - score.interval.low < 0.12
    if share:
        assert score.p_value <= 0.05
    else:
        assert score.p_value > 0.01


@pytest.mark.parametrize("repeated", ["none", "train", "holdout"])
def test_the_level_holds_for_fresh_samples(monkeypatch, repeated):
    """Rows that occur twice in one of the sets do not make the other set look closer."""
    monkeypatch.setattr(close_fakes, "PERMUTATIONS", 39)
    monkeypatch.setattr("precall.metrics.copies.memorization.PERMUTATIONS", 39)
    rejected = {"memorized": 0, "closer_to_train": 0}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        sets = dict(zip(("train", "holdout", "fake"), drawn(table, rng, 60), strict=True))
        if repeated != "none":
            sets[repeated][:15] = sets[repeated][15:30]
        scores = memorization(real=sets["train"], holdout=sets["holdout"], fake=sets["fake"], seed=seed)
        for name in rejected:
            rejected[name] += scores[name].p_value <= 0.05
    assert max(rejected.values()) <= 7  # binomial(40, .05) exceeds 7 with probability .001


@pytest.mark.parametrize(("n", "h"), [(1000, 300), (300, 1000)])
def test_sets_of_different_sizes(n, h):
    rng = np.random.default_rng(1)
    train, holdout, fake = table(rng, n), table(rng, h), table(rng, 1000)
    fresh = memorization(real=train, holdout=holdout, fake=fake)
    assert 0.0 in fresh["memorized"].interval
    assert fresh["closer_to_train"].chance == pytest.approx(n / (n + h), abs=0.03)
    assert fresh["closer_to_train"].chance in fresh["closer_to_train"].interval
    planted(fake, train, 0.2, 0.0, rng)
    copied = memorization(real=train, holdout=holdout, fake=fake)["memorized"]
    assert copied.value == pytest.approx(0.2, abs=0.03)
    assert copied.p_value == 0.001


def test_copies_of_the_holdout_are_not_copies_of_the_training_set():
    rng = np.random.default_rng(0)
    train, holdout, fake = drawn(features, rng, 300)
    fake[:100] = holdout[:100]
    scores = memorization(real=train, holdout=holdout, fake=fake)
    assert scores["memorized"].value == 0
    assert scores["memorized"].p_value == 1
    assert scores["closer_to_train"].value < scores["closer_to_train"].interval.high < 0.5


def test_a_holdout_that_equals_the_training_set_tells_nothing():
    rng = np.random.default_rng(0)
    train = rng.normal(size=(200, 5))
    score = memorization(real=train, holdout=rng.permutation(train), fake=train)["memorized"]
    assert (score.interval.low, score.interval.high) == (0, 1)
    assert score.p_value == 1
    assert score.details["identical_rows"] == 200
    assert score.details["visible"] == 0


def test_a_holdout_with_training_data_is_noticed():
    rng = np.random.default_rng(0)
    train, fresh = rng.normal(size=(2, 100, 5))
    how = {"real": train, "fake": rng.normal(size=(100, 5)), "metrics": ("memorization",)}
    with pytest.warns(UserWarning, match="^holdout: 40 of 100 samples are in `real`, too"):
        assess(**how, holdout=np.concatenate([train[:40], fresh[:60]]))


def test_a_holdout_is_on_the_grid_of_the_others():
    """The training data are rounded to the float32 of the fakes; a copy of them stays a copy."""
    rng = np.random.default_rng(0)
    train, fake = rng.normal(size=(2, 100, 5)).round(2)
    with pytest.warns(UserWarning, match="^holdout: 100 of 100 samples are in `real`, too"):
        assess(real=train, fake=fake.astype(np.float32), holdout=train.copy(), metrics=("memorization",))


def test_values_that_the_data_repeat_are_no_leak(recwarn):
    rng = np.random.default_rng(0)
    train, holdout, fake = rng.integers(0, 2, size=(3, 200, 6)).astype(float)
    assess(real=train, fake=fake, holdout=holdout, metrics=("memorization",))
    assert not [one for one in recwarn if "are in `real`" in str(one.message)]


def test_units_and_origin_change_nothing():
    rng = np.random.default_rng(0)
    train, holdout, fake = rng.normal(size=(3, 300, 6))
    planted(fake, train, 0.1, 0.05, rng)
    sets = {"real": train, "holdout": holdout, "fake": fake}
    here = memorization(**sets)
    for factor, shift, error in ((1e-20, 0, 1e-6), (1e20, 0, 1e-6), (1, 1e8, 1e-3)):
        there = memorization(**{name: factor * one + shift for name, one in sets.items()})
        for name, score in here.items():
            assert there[name].value == pytest.approx(score.value, abs=error)
            assert there[name].interval.high == pytest.approx(score.interval.high, abs=error)


def test_tensors_and_arrays_agree():
    train, holdout, fake = np.random.default_rng(0).normal(size=(3, 80, 4))
    fake[:20] = train[:20]
    arrays = memorization(real=train, holdout=holdout, fake=fake)
    tensors = memorization(real=torch.tensor(train), holdout=holdout, fake=torch.tensor(fake))
    assert {name: score.value for name, score in arrays.items()} == {name: one.value for name, one in tensors.items()}


# ------------------------------------------------------------------------------------------------------ close fakes


def test_close_to_one_set_means_that_no_sample_of_the_other_is_within_twice_the_distance():
    distance = np.array([[1.0, 2.0, 9.0], [1.0, 1.9, 9.0], [0.0, 3.0, 9.0], [1.0, 1.5, 4.0]])
    near = np.array([[0, 1, 2], [0, 1, 2], [1, 0, 2], [0, 3, 1]])
    owner = np.array([TRAIN, HOLDOUT, TRAIN, TRAIN])
    close = CloseFakes.of(distance, near, owner)
    close = CloseFakes(close.fakes, close.near, close.ratio, close.distinct, 99, close.factor)  # t = 1/2
    judged = close.judged(owner)
    assert judged.train.tolist() == [True, False, False, True]  # the second training record of the last fake is no bar
    assert judged.holdout.tolist() == [0, 0, 3 / 1, 0]  # (n)_b/(h)_b with n = 3, h = 1, b = 1
    assert judged.closeness.tolist() == [0, 0, 1, 0.5]  # 1 − r/t with r = 1/2, 1/1.9, 0, 1/4
    assert judged.statistic == 0.5 - 3


def test_a_fake_next_to_a_record_of_both_sets_counts_for_neither():
    distance, near = np.array([[0.0, 5.0], [1.0, 5.0]]), np.array([[0, 1], [1, 0]])
    close = CloseFakes.of(distance, near, np.array([BOTH, TRAIN]))
    assert close.fakes.tolist() == [1]


# ----------------------------------------------------------------------------------------------------------- assess


def sets():
    rng = np.random.default_rng(0)
    train, holdout, fake = rng.normal(size=(3, 120, 6))
    fake[:60] = train[:60]
    return train, holdout, fake


def test_assess_computes_memorization_whenever_there_is_a_holdout():
    train, holdout, fake = sets()
    models = {"copies": fake, "fresh": np.random.default_rng(1).normal(size=(100, 6))}
    found = assess(real=train, fake=models, holdout=holdout, metrics=("fid",))
    assert found["copies"].scores["memorized"].value == pytest.approx(0.5, abs=0.03)
    assert found["fresh"].scores["memorized"].value < 0.05
    assert found["fresh"].protocol["metrics"] == ["memorization", "fid"]
    assert found["fresh"].protocol["n_holdout"] == 120
    assert found["copies"].scores["memorized"].settings["n_holdout"] == 120
    assert "memorized" in repr(found)
    again = Reference.fit(train, holdout=holdout).assess(fake, metrics=("fid",))
    assert again.scores["memorized"] == found["copies"].scores["memorized"]


def test_groups_are_assessed_without_the_holdout():
    train, holdout, fake = sets()
    labels = {"real": ["a", "b"] * 60, "fake": ["a", "b"] * 60}
    found = assess(real=train, fake=fake, holdout=holdout, metrics=("fid",), groups=labels)
    assert "memorized" in found.scores
    assert all("memorized" not in group.scores for group in found.groups.values())


def test_samples_of_the_holdout_are_encoded_like_the_real_ones():
    rng = np.random.default_rng(0)
    train, holdout, fake = (255 * rng.random((3, 40, 8, 8, 3))).astype(np.uint8)
    fake[:20] = train[:20]
    found = assess(real=train, fake=fake, holdout=holdout, metrics=("fid",), encoder="pixels")
    assert found.scores["memorized"].value == pytest.approx(0.5, abs=0.05)
    assert found.protocol["holdout"]["encoder"] == found.protocol["real"]["encoder"]


@pytest.mark.parametrize(
    ("given", "message"),
    {
        "missing": (
            {"metrics": ("memorization",)},
            "the metric 'memorization' needs a holdout; got none. Pass `holdout=`",
        ),
        "dimension": ({"holdout": np.ones((9, 2))}, "`real` and `holdout` must have the same dimension; got real 6"),
        "nan": ({"holdout": np.full((9, 6), np.nan)}, "`holdout` must be finite"),
    }.values(),
)
def test_a_holdout_that_does_not_fit_is_refused(given, message):
    train, _, fake = sets()
    with pytest.raises(ValueError, match=message):
        assess(real=train, fake=fake, **{"metrics": ("fid",), **given})


def test_a_holdout_of_another_law_shows_no_copies():
    """It was the kind "copies", so that `--fail-on copies` failed, and the page began with "copies its training data".

    Copies that show without a holdout are still named.
    """
    rng = np.random.default_rng(5)
    train, fake, other = rng.normal(size=(3, 600, 8))
    found = assess(real=train, fake=fake, holdout=other + 1.0, metrics=("fid",))
    assert found.scores["memorized"].details["holdout_p_value"] == 0.001
    assert "but the holdout differs from the training data, p = 0.001" in found.verdict
    assert found.verdict.kinds == ("cannot tell",)
    fake[:200] = train[:200]
    found = assess(real=train, fake=fake, holdout=other + 1.0, metrics=("copies",))
    assert found.verdict.kinds == ("copies",)
    found = assess(real=train, fake=fake, holdout=other, metrics=("fid",))
    assert found.verdict.startswith("Copies")
    assert "differs" not in found.verdict


def test_the_test_of_the_holdout_has_its_level(monkeypatch):
    """Also with rows that both sets have, and with sets of different sizes; a fifth of the permutations is as exact."""
    for module in ("close_fakes", "memorization"):
        monkeypatch.setattr(f"precall.metrics.copies.{module}.PERMUTATIONS", 199)
    found = []
    for seed in range(40):
        rng = np.random.default_rng([6, seed])
        train, holdout = rng.normal(size=(150, 4)), rng.normal(size=(60, 4))
        holdout[:10], train[20:30] = train[:10], train[10:20]
        scores = memorization(real=train, fake=rng.normal(size=(100, 4)), holdout=holdout)
        found.append(scores["memorized"].details["holdout_p_value"])
    assert np.mean(np.array(found) <= 0.1) <= 0.225  # four standard errors above 0.1
    assert 0.35 < np.mean(found) < 0.65


def test_one_row_repeated_is_refused():
    with pytest.raises(ValueError, match="at least two different rows"):
        memorization(real=np.ones((9, 2)), holdout=np.ones((9, 2)), fake=np.ones((9, 2)))


def test_the_documented_example_prints_what_it_says(capsys):
    (block,) = re.findall(r"```python\n(.*?)```", (DOCS / "metrics.md").read_text(), re.DOTALL)
    exec(compile(block, "metrics.md", "exec"), {})
    assert capsys.readouterr().out.strip() == block.rpartition("# ")[2].strip()
