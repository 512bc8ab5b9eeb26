"""Sketches of shards: merged in any way, they give the numbers of one pass over all fakes; mixtures are refused."""

import json
from collections import Counter
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from precall import Reference, Sketch, merge_sketches
from precall.metrics.neighbors import influence
from precall.metrics.neighbors.ball_sums import Shortest
from precall.metrics.neighbors.influence import jackknife
from precall.metrics.scale import sketch as sketch_module
from precall.metrics.scale.sketch_reference import RandomSample
from precall.samples.archives import ArrayArchive

pytestmark = pytest.mark.usefixtures("small_committee")

RNG = np.random.default_rng(7)
REAL = RNG.normal(size=(150, 3)).astype(np.float32)
FAKE = (0.7 * RNG.normal(size=(170, 3)) + [0.8, 0, 0]).astype(np.float32)
FAKE[5:12], FAKE[60], REAL[3:6] = FAKE[4], REAL[40], REAL[2]  # a collapsed part, a copy, and repeated reals
SWEPT = ("precision", "density", "coverage", "corrected_coverage", "recall_cover")
CLIPPED = ("clipped_density", "clipped_coverage")


@pytest.fixture(scope="module")
def reference():
    return Reference.fit(REAL)


@pytest.fixture(scope="module")
def whole(reference):
    return reference.sketch(FAKE)


def assert_same(one, other):
    """Counts and values of lists exactly, moments to 1e-10. Rows of lists are numbered by shard."""
    arrays, expected = (each.counts.arrays() for each in (one, other))
    assert arrays.keys() == expected.keys()
    for name in arrays:
        if not name.endswith((" shard", " row")):
            assert np.array_equal(arrays[name], expected[name]), name
    assert one.n == other.n == one.moments.n == other.moments.n
    for name in ("mean", "scatter"):
        moment = getattr(other.moments, name)
        assert np.abs(getattr(one.moments, name) - moment).max() <= 1e-10 * np.abs(moment).max()


# -------------------------------------------------------------------------------------------------------- one pass


@pytest.mark.parametrize(("k", "ties"), [(1, "closed"), (5, "open"), (7, "closed")])
def test_merged_shards_have_the_values_and_intervals_of_one_assessment(k, ties):
    """Whole numbers: many distances are equal to radii. One shard has a single fake."""
    real, fake = np.round(2 * REAL), np.round(2 * FAKE)
    reference = Reference.fit(real, k=k, ties=ties)
    expected = reference.assess(fake, metrics=("neighbors", "clipped", "copies", "fid")).scores
    found = merge_sketches(reference.sketch(part) for part in np.split(fake, [1, 30, 100])).scores
    for name in (*SWEPT, *CLIPPED, "copies"):
        assert found[name].value == expected[name].value, name
        assert found[name].chance == expected[name].chance, name
        assert found[name].settings == expected[name].settings, name
        ends = [(score.interval.low, score.interval.high) for score in (found[name], expected[name])]
        assert ends[0] == pytest.approx(ends[1], rel=1e-9), name
    assert found["fid"].value == pytest.approx(expected["fid"].value, rel=1e-10)
    assert found["fid"].interval is None
    assert "none" in found["fid"].settings["interval"]


@given(st.data())
@settings(max_examples=12, deadline=None)
def test_merging_is_associative_and_commutative(reference, whole, data):
    cuts = data.draw(st.lists(st.integers(1, len(FAKE) - 1), min_size=2, max_size=4, unique=True))
    parts = [reference.sketch(part) for part in np.split(FAKE, sorted(cuts))]
    order = data.draw(st.permutations(parts))
    from_left, from_right = reduce(Sketch.merge, order), reduce(lambda one, other: other + one, reversed(order))
    for found in (from_left, from_right, merge_sketches(order)):
        assert_same(found, whole)
    assert from_left.shards == from_right.shards
    for name, array in from_left.counts.arrays().items():
        assert np.array_equal(array, from_right.counts.arrays()[name]), name


def test_two_sketches_have_the_same_bits_in_either_order(reference):
    one, other = (reference.sketch(part) for part in np.split(FAKE, [50]))
    assert np.array_equal((one + other).moments.scatter, (other + one).moments.scatter)


def test_the_shard_is_read_in_pieces(reference, whole, monkeypatch, tmp_path):
    """No piece is longer than the limit, and pieces change neither the counts nor the identity of the shard."""
    from precall.metrics.pairs import one_way

    sizes, plain = [], one_way.count_fakes
    monkeypatch.setattr(one_way, "count_fakes", lambda *a, **b: sizes.append(len(a[2])) or plain(*a, **b))
    monkeypatch.setattr(sketch_module, "PIECE_ROWS", (16, 64))
    np.save(tmp_path / "fake.npy", FAKE)
    found = reference.sketch(tmp_path / "fake.npy")
    assert sizes == [64, 64, 42]
    assert_same(found, whole)
    assert found.shards[0].identity == whole.shards[0].identity
    for name, array in whole.counts.arrays().items():  # rows as well: both have one shard
        assert np.array_equal(array, found.counts.arrays()[name]), name


def test_lists_name_the_shard_and_the_row(reference):
    parts = {"first": FAKE[:100], "second": FAKE[100:]}
    found = merge_sketches(reference.sketch(part, name=name) for name, part in parts.items())
    swept = reference.assess(FAKE, metrics=("neighbors",)).neighborhoods
    copy = found.closest_copies[0]
    assert (copy.shard, copy.row, copy.value, copy.real) == ("first", 60, 0.0, 40)
    realism = np.sort(swept.realism())
    assert [one.value for one in found.least_realistic] == realism[: len(found.least_realistic)].tolist()
    for one in found.least_realistic:
        row = one.row + (100 if one.shard == "second" else 0)
        assert swept.realism()[row] == one.value
        assert swept.fake_to_real.index[row, 0] == one.real


def test_a_pattern_is_several_shards(reference, whole, tmp_path):
    for i, part in enumerate(np.split(FAKE, [70, 90])):
        np.save(tmp_path / f"shard-{i}.npy", part)
    found = reference.sketch(tmp_path / "shard-*.npy")
    assert sorted(shard.n for shard in found.shards) == [20, 70, 80]
    assert_same(found, whole)
    twice = tmp_path / "copy.npy"
    np.save(twice, FAKE[:70])
    with pytest.raises(ValueError, match=r"counted once; `.*` and `.*` have the same content"):
        found + reference.sketch(twice)


def test_recall_is_not_there_and_the_error_says_why(whole):
    for name in ("recall", "symmetric_precision", "precision_cover"):
        assert name not in whole.scores
        with pytest.raises(KeyError, match="distances between fakes") as raised:
            whole.scores[name]
        assert str(raised.value).startswith(f"`{name}`")
    with pytest.raises(KeyError, match="a sketch has the scores"):
        whole.scores["realism"]


def test_the_assessment_has_the_default_answer(reference, whole):
    """All samples are kept, so the panel sees the same rows as in one assessment, in another order."""
    found, expected = whole.assessment("ours"), reference.assess(FAKE)
    assert "n = 150 real and n = 170 fake" in repr(found)
    assert found.estimator == "auto"
    assert found.spectrum.area == found.scores["area"].value
    assert found.scores["tv"].value == pytest.approx(expected.scores["tv"].value, abs=0.1)
    assert found.certificate.n_fake > 50
    assert "indistinguishable" not in (*found.verdict.kinds, *expected.verdict.kinds)
    assert json.dumps(found.to_dict())


def test_a_small_difference_is_seen_in_many_shards():
    """Cells would hide it: they are too coarse for a scale of 1.05."""
    rng = np.random.default_rng(0)
    reference = Reference.fit(rng.normal(size=(3000, 32)))
    parts = [1.05 * rng.normal(size=(500, 32)) for _ in range(6)]
    found = merge_sketches(reference.sketch(part) for part in parts).assessment(metrics=("auto", "c2st"))
    assert found.scores["tv"].value == pytest.approx(0.154, abs=0.05)
    assert not found.verdict.startswith("Indistinguishable")


# --------------------------------------------------------------------------------------------------------- refusals


def test_a_shard_is_counted_once(reference, whole):
    part = reference.sketch(FAKE[:50], name="part")
    rest = reference.sketch(FAKE[50:])
    with pytest.raises(ValueError, match="a shard must be counted once; `part` is in two"):
        merge_sketches([part, rest, part])
    with pytest.raises(ValueError, match="at least one sketch"):
        merge_sketches([])


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"k": 4}, r"k \(5 and 4\)"),
        ({"ties": "open"}, r"ties \(closed and open\)"),
        ({"seed": 1}, r"seed \(0 and 1\)"),
        ({"real": REAL[1:]}, r"n_real \(150 and 149\)"),
        ({"real": REAL + np.float32(1e-3)}, "the features or the radii"),
    ],
)
def test_mixed_protocols_are_refused(reference, other, said):
    real = other.pop("real", REAL)
    with pytest.raises(ValueError, match=said):
        merge_sketches([reference.sketch(FAKE[:9]), Reference.fit(real, **other).sketch(FAKE[9:])])


def test_wrong_shards_are_refused(reference):
    with pytest.raises(ValueError, match="same dimension"):
        reference.sketch(FAKE[:, :2])
    with pytest.raises(ValueError, match="finite"):
        reference.sketch(np.full((4, 3), np.nan))
    with pytest.raises(ValueError, match="statistics"):
        reference.sketch(sketch_module.Moments.of(FAKE))
    with pytest.raises(ValueError, match="at least 2 fakes"):
        reference.sketch(FAKE[:1]).assessment()


# ------------------------------------------------------------------------------------------------------------ files


@pytest.fixture
def path(whole, tmp_path):
    return whole.save(tmp_path / "part.sketch")


def test_a_saved_sketch_is_the_same_sketch(whole, path, reference):
    found = Sketch.load(path)
    assert found.shards == whole.shards
    for name, array in whole.counts.arrays().items():
        assert np.array_equal(array, found.counts.arrays()[name]), name
    assert {name: score.to_dict() for name, score in found.scores.items()} == {
        name: score.to_dict() for name, score in whole.scores.items()
    }
    with pytest.raises(ValueError, match="counted once"):
        found + whole
    assert (found + reference.sketch(FAKE + 1)).n == 2 * len(FAKE)
    with pytest.raises(ValueError, match=r"ends in \.sketch"):
        whole.save(path.with_suffix(".npz"))


def test_every_damaged_byte_is_noticed(path):
    """One sentence, or the same content: a flipped bit in a header of the zip file may not matter."""
    data, expected = path.read_bytes(), Sketch.load(path).counts.arrays()
    for place in np.random.default_rng(0).integers(len(data), size=60):
        changed = bytearray(data)
        changed[place] ^= 1 << int(place % 8)
        path.write_bytes(bytes(changed))
        try:
            found = Sketch.load(path).counts.arrays()
        except ValueError:
            continue
        assert all(np.array_equal(array, found[name]) for name, array in expected.items())
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match="zip"):
        Sketch.load(path)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("sample_rows", lambda a: a[1:]),
        ("sample_keys", lambda a: a[::-1]),
        ("real_rows", lambda a: a * np.nan),
        ("balls_inside", lambda a: a[:-1]),
        ("balls_histogram", lambda a: a + 1),
        ("clipped_lost", lambda a: -1 - a),
        ("nearest_row", lambda a: a + 10**6),
        ("nearest_value", lambda a: a.astype(np.float32)),
        ("closest_shard", lambda a: a + 1),
        ("real_neighbors", lambda a: a + 200),
        ("scatter", lambda a: a * np.nan),
        ("copies_changes", lambda a: a.astype(float)),
    ],
)
def test_parts_that_do_not_fit_are_refused(path, name, change):
    """Such a file has correct checksums."""
    kind: ArrayArchive = sketch_module.SKETCH
    about = kind.about(path, {})
    arrays = {each: kind.array(path, each, sha256) for each, sha256 in about.pop("sha256").items()}
    kind.write(path, arrays | {name: change(arrays[name])}, about)
    with pytest.raises(ValueError, match=r"must hold a complete sketch|does not hold numbers"):
        Sketch.load(path)


def test_a_reference_is_no_sketch(reference, tmp_path):
    made = reference.save(tmp_path / "data.precall")
    with pytest.raises(ValueError, match="must be a sketch of `precall reference sketch`"):
        Sketch.load(made)


def test_a_stored_reference_makes_the_same_sketch(reference, whole, tmp_path):
    found = Reference.load(reference.save(tmp_path / "data.precall")).sketch(FAKE)
    assert found.reference.identity == whole.reference.identity
    assert np.array_equal(found.sample.rows, whole.sample.rows)


# ----------------------------------------------------------------------------------------------------------- samples


def test_every_row_is_equally_likely_to_be_kept():
    """Shards of different sizes; the share of rows that are kept does not depend on the shard."""
    kept = Counter()
    for seed in range(60):
        shards = [np.full((size, 1), size) + np.arange(size)[:, None] / size for size in (40, 160, 400)]
        samples = [RandomSample.of(shard, most=60, seed=seed) for shard in shards]
        kept.update(np.floor(reduce(RandomSample.merged, samples).rows[:, 0]).astype(int).tolist())
    assert sum(kept.values()) == 60 * 60
    for size in (40, 160, 400):
        assert kept[size] / 3600 == pytest.approx(size / 600, abs=0.03)


def test_samples_merge_in_any_order():
    parts = [RandomSample.of(part, most=50, seed=0) for part in np.split(FAKE, [30, 90])]
    orders = [(0, 1, 2), (2, 0, 1), (1, 2, 0)]
    found = [reduce(RandomSample.merged, [parts[i] for i in order]).rows for order in orders]
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
    assert len(found[0]) == 50


# ------------------------------------------------------------------------------------------------------ fresh samples


def test_fresh_samples_in_many_dimensions_are_not_told_from_the_data():
    rng = np.random.default_rng(10)
    reference = Reference.fit(rng.normal(size=(200, 50)))
    found = reference.sketch(rng.normal(size=(200, 50))).assessment(metrics=("auto", "c2st"))
    assert found.verdict.kind in ("indistinguishable", "cannot tell")


# ------------------------------------------------------------------------------------------------------------- parts


def test_equal_values_are_listed_in_one_order_however_they_are_merged():
    one, other = (
        Shortest.of(np.array([[0.5, 0.5]]), shard=shard, row=np.array([[3, 1]]), real=0, size=3) for shard in (1, 0)
    )
    for found in (one.merged(other), other.merged(one)):
        assert found.shard.tolist() == [[0, 0, 1]]
        assert found.row.tolist() == [[1, 3, 1]]


@pytest.mark.filterwarnings("ignore:.* samples repeat each other")
def test_points_without_influence_count_in_the_variance():
    """The spread of coverage against a jackknife over all fakes, most of which lie in no ball that could lose them."""
    real, fake = RNG.normal(size=(40, 2)), np.concatenate([RNG.normal(size=(8, 2)), np.full((60, 2), 50.0)])
    swept = Reference.fit(real, k=3).assess(fake, metrics=("neighbors",)).neighborhoods
    margins = swept.margins_real[0]
    count = margins.inside[:, 0]
    lost = np.bincount(margins.nearest[count == 1, 0], minlength=len(fake))
    pairs = Counter(tuple(sorted(pair)) for pair in margins.nearest[count == 2, :2].tolist())
    joint = sum(times**2 - times for times in pairs.values()) / 40**2
    expected = jackknife(-lost / 40, noise=lost.sum() / 40**2, joint=joint)
    found = influence.points_of_balls(margins, 1)
    assert found.variance == pytest.approx(expected.variance, rel=1e-12)
    assert found.freedom == pytest.approx(expected.freedom, rel=1e-12)
    assert expected.variance > 0
