"""Inception Score, groups and fairness gaps."""

import json
import re

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from precall import assess
from precall.metrics.assessing.prepared import PreparedReals
from precall.metrics.distances.inception import inception_score
from precall.metrics.scores.groups import FairnessGap, fairness, split_groups
from precall.theory.spectrum import RatioSpectrum

pytestmark = pytest.mark.usefixtures("small_committee")

SLOPES = np.concatenate([[0.0], np.exp(np.linspace(-9, 9, 20_001)), [np.inf]])


@st.composite
def class_probabilities(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, c = draw(st.integers(2, 30)), draw(st.integers(1, 6))
    logits = rng.normal(size=(n, c)) * draw(st.sampled_from([0.1, 1.0, 30.0]))
    rows = np.exp(logits - logits.max(1, keepdims=True))
    rows[rows < 1e-12] = 0  # confident predictions with exact zeros
    return rows / rows.sum(1, keepdims=True)


def entropy(masses):
    kept = masses[masses > 0]
    return -np.sum(kept * np.log(kept))


# ----------------------------------------------------------------------------------------------------- Inception Score


@given(class_probabilities())
def test_inception_score_is_the_exponential_mutual_information(rows):
    """log IS = H(mean) − mean H, between 0 and log of the number of classes."""
    wanted = entropy(rows.mean(0)) - np.mean([entropy(row) for row in rows])
    score = inception_score(rows)
    assert np.log(score.value) == pytest.approx(wanted, abs=1e-9)
    assert 1 - 1e-9 <= score.value <= rows.shape[1] + 1e-9
    assert score.interval.low <= score.value <= score.interval.high
    assert (score.n_real, score.n_fake) == (None, len(rows))


def test_the_marginal_is_the_models():
    """A model that produces only one of two classes scores 1, whatever the data."""
    assert inception_score(np.tile([1.0, 0.0], (10, 1))).value == 1.0
    assert inception_score(np.eye(2)[[0, 1] * 5]).value == pytest.approx(2.0)


def test_splits_are_consecutive_parts():
    rng = np.random.default_rng(0)
    rows = rng.dirichlet([0.3] * 5, size=23)
    parts = [rows[:7], rows[7:15], rows[15:]]
    assert inception_score(rows, splits=3).value == pytest.approx(np.mean([inception_score(p).value for p in parts]))


def test_tensors_and_single_precision():
    rows = np.random.default_rng(0).dirichlet([0.3] * 10, size=50)
    wanted = inception_score(rows).value
    assert inception_score(torch.from_numpy(rows)).value == pytest.approx(wanted, rel=1e-12)
    assert inception_score(rows.astype(np.float32)).value == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("splits", [1, 4])
def test_inception_interval_covers_the_mean_estimate(splits):
    rng = np.random.default_rng(0)
    scores = [inception_score(rng.dirichlet([0.5, 0.3, 0.1], size=200), splits=splits) for _ in range(400)]
    mean = np.mean([score.value for score in scores])
    widths = [score.interval.high - score.interval.low for score in scores]
    assert 0.91 <= np.mean([mean in score.interval for score in scores]) <= 0.98
    assert np.mean(widths) / (2 * 1.96) == pytest.approx(np.std([score.value for score in scores]), rel=0.15)


# --------------------------------------------------------------------------------------------------------------- groups


def test_groups_split_both_sets():
    groups = split_groups(
        groups_real=np.array(["b", "a", "b", "a", "x", "x"]),
        groups_fake=["a", "a", "a", "b", "b", "y", "y"],
        n_real=6,
        n_fake=7,
    )
    assert list(groups.rows) == ["a", "b"]
    assert [rows.tolist() for rows in groups.rows["a"]] == [[1, 3], [0, 1, 2]]
    assert [rows.tolist() for rows in groups.rows["b"]] == [[0, 2], [3, 4]]
    assert (groups.only_real, groups.only_fake) == (("x",), ("y",))


def test_integer_labels_may_be_tensors():
    groups = split_groups(groups_real=torch.tensor([1, 1, 0, 0]), groups_fake=[0, 0, 1, 1], n_real=4, n_fake=4)
    assert [rows.tolist() for rows in groups.rows[1]] == [[0, 1], [2, 3]]


def split(real, fake, n_real=4, n_fake=4):
    return lambda: split_groups(groups_real=real, groups_fake=fake, n_real=n_real, n_fake=n_fake)


# ------------------------------------------------------------------------------------------------------------- fairness


@st.composite
def spectra(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    groups = draw(st.integers(2, 4))
    found = {}
    for group in range(groups):
        p, q = rng.dirichlet([0.5] * 4, size=2)
        p[rng.random(4) < 0.2], q[rng.random(4) < 0.2] = 0, 0
        if p.sum() == 0 or q.sum() == 0:
            p = q = np.full(4, 0.25)
        found[f"g{group}"] = RatioSpectrum.from_masses(p=p / p.sum(), q=q / q.sum())
    return found


@given(spectra())
def test_fairness_is_the_largest_gap_over_all_slopes(found):
    gap = fairness(found)
    for part, curve in ((gap.precision, "alpha"), (gap.recall, "beta")):
        values = np.array([getattr(spectrum, curve)(SLOPES) for spectrum in found.values()])
        on_grid = (values.max(0) - values.min(0)).max()
        # never below the grid, and above it by no more than the grid's step
        assert on_grid - 1e-12 <= part.value <= on_grid + 1e-3
        lead = getattr(found[part.better], curve)(part.lam) - getattr(found[part.worse], curve)(part.lam)
        assert lead == pytest.approx(part.value, abs=1e-12)


def test_fairness_names_who_lacks_what():
    """Group `a` is modelled well, `b` has invented samples (precision), and `c` misses most of its data (recall)."""
    found = {
        "a": RatioSpectrum.from_masses(p=[0.5, 0.5], q=[0.5, 0.5]),
        "b": RatioSpectrum.from_masses(p=[1.0, 0.0], q=[0.4, 0.6]),
        "c": RatioSpectrum.from_masses(p=[0.1, 0.9], q=[1.0, 0.0]),
    }
    gap = fairness(found)
    assert (gap.precision.better, gap.precision.worse) == ("a", "c")
    assert gap.precision.value == pytest.approx(0.9)  # at λ = 1, α is 1 for a and 0.1 for c
    assert (gap.recall.better, gap.recall.worse) == ("a", "c")
    two = fairness({group: found[group] for group in "bc"})
    # α: 0.4 against 0.1 at λ = 0.4, 0.4 against 1 from λ = 10 on; β: 1 against 0.1 up to λ = 0.4
    assert (two.precision.better, two.precision.worse, two.precision.lam) == ("c", "b", 10.0)
    assert two.precision.value == pytest.approx(0.6)
    assert (two.recall.better, two.recall.worse) == ("b", "c")
    assert two.recall.value == pytest.approx(0.9)


def test_the_ends_of_the_curves_count():
    """Disjoint supports have no breakpoint: the gap occurs at the ends, and the dictionary is still valid JSON."""
    nothing = RatioSpectrum.from_masses(p=[1.0, 0.0], q=[0.0, 1.0])
    half = RatioSpectrum.from_masses(p=[0.5, 0.5, 0.0], q=[0.0, 0.25, 0.75])
    gap = fairness({"nothing": nothing, "half": half})
    assert (gap.precision.value, gap.precision.better) == (0.25, "half")
    assert (gap.recall.value, gap.recall.better) == (0.5, "half")
    same = fairness({1: nothing, 2: nothing})
    assert same.precision.value == same.recall.value == 0
    assert (same.precision.lam, same.recall.lam) == (np.inf, 0.0)
    assert json.loads(json.dumps(same.to_dict(), allow_nan=False))["precision"]["lam"] == "inf"


# --------------------------------------------------------------------------------------------------------------- errors

EVEN = np.full((6, 2), 0.5)
BAD = {
    "sum": (lambda: inception_score(EVEN * 0.9), "`probabilities` must sum to 1 in every row; row 0 sums to 0.9"),
    "negative": (lambda: inception_score(EVEN - [1, -1]), "`probabilities` must not be negative; got -0.5"),
    "nan": (lambda: inception_score(EVEN * np.nan), "`probabilities` must be finite"),
    "vector": (lambda: inception_score([0.5, 0.5]), "`probabilities` must be a matrix"),
    "splits": (lambda: inception_score(EVEN, splits=4), "`splits` must be between 1 and n // 2 = 3; got 4"),
    "no split": (lambda: inception_score(EVEN, splits=0), "`splits` must be between 1 and n // 2 = 3; got 0"),
    "length": (
        split("aabb", list("aabb")),
        "`groups_real` must hold one label for each of the 4 samples; got shape ()",
    ),
    "short": (split(list("aabb"), list("aab")), "`groups_fake` must hold one label for each of the 4 samples"),
    "single": (split(list("aaab"), list("aabb")), "`groups_real` must have at least 2 samples per group; got one in"),
    "floats": (split([0.1, 0.2, 0.3, 0.4], list("aabb")), "`groups_real` must be strings, integers or booleans"),
    "missing": (split(["a", "a", None, None], list("aabb")), "`groups_real` must be all strings or all integers"),
    "apart": (
        split(list("aabb"), [1, 1, 2, 2]),
        "must share at least one group; got 'a', 'b' in `groups_real` and 1, 2",
    ),
    "one group": (lambda: fairness({"a": None}), "`spectra` must hold at least two groups to compare; got 1"),
}


@pytest.mark.parametrize(("call", "sentence"), BAD.values(), ids=BAD.keys())
def test_bad_input_raises_one_clear_sentence(call, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)) as caught:
        call()
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------------------------------- gaps and chance


def gap_of(seed, change=1.0, share=0.25, metric="clusters"):
    """The gaps between a group and the rest; `change` is the scale of the model in that group."""
    rng = np.random.default_rng(seed)
    labels = np.where(np.arange(600) < 600 * share, "few", "many")
    real, fake = rng.normal(size=(2, 600, 3))
    fake[labels == "few"] *= change
    return assess(real=real, fake=fake, metrics=(metric,), groups={"real": labels, "fake": labels}).fairness


@pytest.mark.parametrize(("metric", "seeds"), [("clusters", (0, 6)), ("cover", (5, 11))])
def test_equal_groups_have_no_clear_gap(metric, seeds):
    """Not even with the seeds whose gaps come closest: with intervals of four fifths of the length, they would be."""
    found = [gap_of(seed, metric=metric) for seed in seeds]
    assert all(gap.precision.value > 0 and gap.precision.interval is not None for gap in found)
    assert not any(gap.precision.clear or gap.recall.clear for gap in found)


@pytest.mark.parametrize("metric", ["clusters", "cover"])
def test_a_group_that_is_represented_badly_has_a_clear_gap(metric):
    found = gap_of(0, change=0.3, metric=metric)
    assert found.recall.clear
    assert (found.recall.better, found.recall.worse) == ("many", "few")
    assert found.recall.interval.low < found.recall.value < found.recall.interval.high
    assert FairnessGap.from_dict(found.to_dict()) == found


def test_groups_are_refused_before_anything_is_computed(monkeypatch):
    """A minute of assessment was lost because one label was missing."""
    monkeypatch.setattr(PreparedReals, "_assess", lambda *_, **__: pytest.fail("computed first"))
    x = np.random.default_rng(0).normal(size=(100, 2))
    with pytest.raises(ValueError, match="`groups_fake` must hold one label for each of the 100 samples"):
        assess(real=x, fake=x + 1, groups={"real": ["a"] * 100, "fake": ["a"] * 99})
