"""The k-NN sweep against float64 brute force, entry by entry, on ties and on inputs for which float32 fails."""

import contextlib
import json
import re
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from torch.utils._python_dispatch import TorchDispatchMode

from experiments.common.cover_curve import cover_curve, expected_precision_cover
from precall.metrics.neighbors.ball_scores import medians
from precall.metrics.neighbors.sweep import cross, sweep, within
from precall.metrics.pairs import tallies
from precall.metrics.tiles import clouds, distances
from precall.theory.chance import (
    chance_corrected,
    expected_coverage,
    expected_recall_cover,
)

COUNTS = ("fakes_in_ball", "balls_over_fake", "reals_in_ball", "balls_over_real")
DIRECTIONS = ("real_to_real", "real_to_fake", "fake_to_real", "fake_to_fake")


# ------------------------------------------------------------------------------------------------ brute force


def squared_distances(x, y):
    """All pairs in float64, summed by adding halves as documented (for integers, any order gives the same sum)."""
    squares = (x.astype(np.float64)[:, None] - y.astype(np.float64)[None]) ** 2
    while (width := squares.shape[2]) > 1:
        half = (width + 1) // 2
        squares = np.concatenate(
            [squares[..., : width - half] + squares[..., half:], squares[..., width - half : half]], 2
        )
    return squares[..., 0]


def brute_force(real, fake, k, ties):
    """All results of a sweep, from the three distance matrices."""
    within_real, within_fake, pairs = (squared_distances(a, b) for a, b in ((real, real), (fake, fake), (real, fake)))
    np.fill_diagonal(within_real, np.inf)
    np.fill_diagonal(within_fake, np.inf)
    columns = [level - 1 for level in k]
    radii_real, radii_fake = (np.sort(own, axis=1)[:, columns] for own in (within_real, within_fake))
    inside = np.less_equal if ties == "closed" else np.less
    in_real = inside(pairs[:, :, None], radii_real[:, None])
    in_fake = inside(pairs[:, :, None], radii_fake[None])
    found = {
        "radii_real": np.sqrt(radii_real),
        "radii_fake": np.sqrt(radii_fake),
        "fakes_in_ball": in_real.sum(1),
        "balls_over_fake": in_real.sum(0),
        "reals_in_ball": in_fake.sum(0),
        "balls_over_real": in_fake.sum(1),
        "realisms": np.stack([realism(pairs, column) for column in radii_real.T], axis=1),
    }
    matrices = dict(zip(DIRECTIONS, (within_real, pairs, pairs.T, within_fake), strict=True))
    order = {name: np.argsort(matrix, axis=1, kind="stable") for name, matrix in matrices.items()}
    return found, order, {name: np.sqrt(np.take_along_axis(matrices[name], order[name], 1)) for name in order}


def realism(pairs, squared_radii):
    kept = np.sqrt(squared_radii) <= np.median(np.sqrt(squared_radii))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = squared_radii[kept, None] / pairs[kept]
    ratios[(squared_radii[kept, None] == 0) & (pairs[kept] == 0)] = 1
    return np.sqrt(ratios.max(axis=0))


def assert_exact(found, real, fake):
    expected, order, ordered = brute_force(real, fake, found.k, found.ties)
    for name in COUNTS:
        np.testing.assert_array_equal(getattr(found, name), expected[name], err_msg=name)
    for name in ("radii_real", "radii_fake", "realisms"):
        np.testing.assert_allclose(getattr(found, name), expected[name], rtol=1e-14, err_msg=name)
    for name in DIRECTIONS:
        nearest = getattr(found, name)
        kept = nearest.index.shape[1]
        np.testing.assert_array_equal(nearest.index, order[name][:, :kept], err_msg=name)
        np.testing.assert_allclose(nearest.distance, ordered[name][:, :kept], rtol=1e-14, err_msg=name)


@contextlib.contextmanager
def small_tiles(rows=32, columns=48, at_once=40, crowd=tallies.CROWD):
    """Use many ragged tiles, strips and chunks instead of one of each; with crowd 0, every hit is listed."""
    with (
        patch.dict(distances.TILE_SIDES, cpu=(rows, columns)),
        patch.object(clouds, "SETTLED_VALUES", {"cpu": 40 * at_once}),
        patch.object(clouds, "GROUPS_AT_ONCE", at_once),
        patch.object(distances, "TRIANGLE", (4, 8)),
        patch.object(clouds, "STRIP", 16),
        patch.object(tallies, "CROWD", crowd),
    ):
        yield


# ------------------------------------------------------------------------------------------------ hard inputs

SHAPES = {
    "normal": lambda rng, n, d: rng.normal(size=(n, d)),
    "grid": lambda rng, n, d: rng.integers(0, 4, (n, d)).astype(float),
    "zeros and ones": lambda rng, n, d: rng.integers(0, 2, (n, d)).astype(float),
    "constant": lambda rng, n, d: np.full((n, d), 3.25),
    "few distinct": lambda rng, n, d: np.arange(5.0)[rng.integers(0, 5, n), None] * np.ones(d),
    "far offset": lambda rng, n, d: 2.0**20 + 2.0**-10 * rng.normal(size=(n, d)),
    "far clusters": lambda rng, n, d: rng.normal(size=(n, d)) + 1e6 * rng.integers(0, 2, (n, 1)),
    "tiny": lambda rng, n, d: 1e-30 * rng.normal(size=(n, d)),
    "huge": lambda rng, n, d: 1e30 * rng.normal(size=(n, d)),
    "all scales": lambda rng, n, d: rng.normal(size=(n, d)) * 10.0 ** rng.integers(-12, 8, (n, 1)),
    "heavy tails": lambda rng, n, d: rng.standard_cauchy((n, d)),
    "inside": lambda rng, n, d: 0.05 * rng.normal(size=(n, d)),
    "outside": lambda rng, n, d: 50 + rng.normal(size=(n, d)),
}


@given(
    seed=st.integers(0, 2**32 - 1),
    shapes=st.tuples(st.sampled_from(sorted(SHAPES)), st.sampled_from(["same", "copies", *sorted(SHAPES)])),
    n=st.integers(2, 70),
    m=st.integers(2, 70),
    d=st.sampled_from([1, 2, 3, 17, 200]),
    ties=st.sampled_from(["closed", "open"]),
    dtypes=st.tuples(*[st.sampled_from([np.float32, np.float64])] * 2),
    data=st.data(),
)
@settings(max_examples=60)
def test_sweep_equals_brute_force(seed, shapes, n, m, d, ties, dtypes, data):
    rng = np.random.default_rng(seed)
    real = SHAPES[shapes[0]](rng, n, d)
    second = SHAPES[shapes[0] if shapes[1] in ("same", "copies") else shapes[1]](rng, m, d)
    fake = real[rng.integers(0, n, m)] if shapes[1] == "copies" else second
    real, fake = real.astype(dtypes[0]), fake.astype(dtypes[1])
    k = data.draw(st.lists(st.integers(1, min(n, m) - 1), min_size=1, max_size=3))
    neighbors = data.draw(st.integers(1, min(n, m) - 1))
    tiles = data.draw(st.sampled_from([{"crowd": 0}, {"crowd": 1000}, {"rows": 2048, "columns": 8192, "crowd": 0}]))
    with small_tiles(**tiles):
        assert_exact(sweep(real=real, fake=fake, k=k, ties=ties, neighbors=neighbors), real, fake)


def test_realism_far_from_tiny_balls_is_not_lost():
    """d²/r² is 10⁶⁷ here, beyond float32."""
    real, fake = np.array([[1e-31], [-1e-31]], dtype=np.float32), np.array([[1e-9], [1e3]], dtype=np.float32)
    assert_exact(sweep(real=real, fake=fake, k=1), real, fake)


@pytest.mark.parametrize("ties", ["closed", "open"])
@pytest.mark.parametrize("d", [1, 10_000])
def test_extreme_dimensions_and_k_up_to_n(d, ties):
    rng = np.random.default_rng(d)
    real, fake = rng.normal(size=(21, d)), rng.normal(0.1, 1, size=(13, d))
    assert_exact(sweep(real=real, fake=fake, k=(1, 12), ties=ties, neighbors=12), real, fake)


def test_two_samples_of_each_are_enough():
    real, fake = np.array([[0.0], [1.0]]), np.array([[0.5], [4.0]])
    assert_exact(sweep(real=real, fake=fake, k=1), real, fake)


@pytest.mark.parametrize("crowd", [0, 1000])
@pytest.mark.parametrize("repeated", ["real", "fake"])
def test_left_out_copies_count_in_every_tile(repeated, crowd):
    """Samples have different numbers of duplicates, over several tiles, inside many balls of the other set."""
    rng = np.random.default_rng(11)
    copies = np.repeat(0.1 * rng.normal(size=(50, 2)), np.arange(50) % 7 + 1, axis=0)
    pair = {"real": rng.normal(size=(60, 2)), "fake": rng.normal(size=(60, 2)), repeated: copies}
    assert clouds.Cloud(copies, 1).n < len(copies) / 2
    with small_tiles(crowd=crowd):
        assert_exact(sweep(**pair, k=(1, 30)), **pair)
        assert_exact(sweep(**pair, k=2), **pair)


@pytest.mark.parametrize("bits", [10, 7])
def test_counts_do_not_depend_on_what_the_product_rounds_its_factors_to(bits):
    """Round as tensor cores do in TF32 (10 bits) and bfloat16 (7): the counts are equal, and the probe detects it."""
    exact_mm = torch.mm

    def rounded(x):
        mantissa, exponent = torch.frexp(x)
        cut = torch.ldexp((mantissa * 2 ** (bits + 1)).trunc() / 2 ** (bits + 1), exponent)
        return torch.where(x.isfinite(), cut, x)

    def coarse_mm(a, b, out=None):
        assert a.dtype == torch.float32
        return exact_mm(rounded(a), rounded(b), out=out)

    rng = np.random.default_rng(bits)
    real, fake = rng.normal(size=(90, 30)).astype(np.float32), rng.normal(size=(80, 30)).astype(np.float32)
    in_float32 = patch.object(distances.Precision, "_is_vague", lambda *frames: False)
    with patch.object(torch, "mm", coarse_mm), in_float32, small_tiles():
        assert distances.factor_roundoff(torch.device("cpu")) == 2.0**-bits
        assert_exact(sweep(real=real, fake=fake, k=(3, 5), neighbors=4), real, fake)
    assert distances.factor_roundoff(torch.device("cpu")) == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_either_precision_gives_the_same_counts(dtype):
    """For two distant clusters, bounds in float32 decide almost no pair; bounds in float64 decide most of them."""
    rng = np.random.default_rng(3)
    real, fake = (rng.normal(size=(60, 8)) + 1000 * rng.integers(0, 2, (60, 1)) for _ in range(2))
    with patch.object(distances.Precision, "of", lambda left, right: distances.Precision(dtype, 0.0)):
        assert_exact(sweep(real=real, fake=fake, k=4), real, fake)


def test_float64_tiles_where_float32_would_be_vague():
    def chosen(real):
        frame = distances.Frame(cloud := clouds.Cloud(real, 5), clouds.common_centre(cloud))
        return distances.Precision.of(frame, frame).dtype

    normal = np.random.default_rng(0).normal(size=(300, 16))
    assert chosen(normal) == torch.float32
    assert chosen(normal + 1e4 * (np.arange(300) % 2)[:, None]) == torch.float64
    assert chosen(1e40 * normal) == chosen(1e-40 * normal) == torch.float64


@given(seed=st.integers(0, 2**32 - 1), shape=st.sampled_from(sorted(SHAPES)), d=st.sampled_from([1, 5, 300]))
def test_tiles_bound_the_distances(seed, shape, d):
    rng = np.random.default_rng(seed)
    both = [clouds.Cloud(SHAPES[shape](rng, n, d), n) for n in (40, 25)]
    centre = clouds.common_centre(*both)
    truth = squared_distances(*(cloud.features for cloud in both))
    with small_tiles():
        for tile in distances.tiles(*(distances.Frame(cloud, centre) for cloud in both)):
            true = truth[tile.rows, tile.columns]
            low = tile.low[: true.shape[0], : true.shape[1]]
            i, j = torch.meshgrid(*(torch.arange(n) for n in true.shape), indexing="ij")
            assert (low.double().numpy() <= true).all()
            assert (true <= tile.high(i, j, low).numpy()).all()


# ------------------------------------------------------------------------------------------------ inputs


def test_memory_mapped_inputs(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {"real": rng.normal(size=(70, 6)).astype(np.float32), "fake": rng.normal(size=(50, 6))}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    mapped = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in arrays}
    with small_tiles():
        assert_exact(sweep(**mapped, k=(2, 5)), **arrays)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.uint8, np.int64, ">f4"])
def test_dtypes_and_tensors(dtype):
    rng = np.random.default_rng(1)
    real, fake = ((20 * rng.random((n, 5))).astype(dtype) for n in (40, 30))
    assert_exact(sweep(real=real, fake=fake, k=3), real, fake)
    if dtype != ">f4":
        assert_exact(sweep(real=torch.from_numpy(real), fake=torch.from_numpy(fake), k=3), real, fake)
        assert_exact(sweep(real=torch.from_numpy(real), fake=fake, k=3), real, fake)


def test_strided_and_reversed_views():
    base = np.random.default_rng(2).normal(size=(60, 12))
    real, fake = base[::2, ::3], base[1::2, ::-3]
    assert_exact(sweep(real=real, fake=fake, k=3), real, fake)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_inputs_are_left_alone(dtype):
    rng = np.random.default_rng(4)
    real, fake = rng.normal(size=(50, 3)).astype(dtype), rng.normal(size=(50, 3)).astype(dtype)
    real[7] = real[3]
    before = real.copy(), fake.copy()
    sweep(real=real, fake=fake, k=3)
    np.testing.assert_array_equal(real, before[0])
    np.testing.assert_array_equal(fake, before[1])


def test_memory_grows_with_n_and_not_with_pairs():
    """No tensor of the sweep has close to N² entries, with or without duplicates."""

    class Largest(TorchDispatchMode):
        entries = 0

        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            result = function(*arguments, **(keywords or {}))
            tensors = [
                one for one in (result if isinstance(result, tuple | list) else [result]) if torch.is_tensor(one)
            ]
            self.entries = max([self.entries, *(one.untyped_storage().nbytes() // 4 for one in tensors)])
            return result

    rng, n = np.random.default_rng(0), 420
    real = rng.normal(size=(n, 2)).astype(np.float32)
    probe = patch.object(distances, "factor_roundoff", lambda device: 0.0)  # the probe allocates one matrix
    for fake in (rng.normal(size=(n, 2)), 0.01 * rng.normal(size=(n, 2)), np.repeat(real[:3], n // 3, axis=0)):
        with probe, small_tiles(112, 112, at_once=400), Largest() as largest:
            sweep(real=real, fake=fake.astype(np.float32), k=5)
        assert largest.entries < n * n / 10


def test_progress_ends_at_the_total():
    rng = np.random.default_rng(0)
    real, fake = rng.normal(size=(90, 2)), np.repeat(rng.normal(size=(10, 2)), 7, axis=0)
    calls = []
    with small_tiles():
        sweep(real=real, fake=fake, k=2, progress=lambda done, total: calls.append((done, total)))
    done = [call[0] for call in calls]
    assert done == sorted(done)
    assert len(calls) > 5
    assert calls[-1] == (160**2, 160**2)


# ------------------------------------------------------------------------------------------------ readings


@pytest.fixture(scope="module")
def narrow():
    """A model that covers a small part of the data well: strongly asymmetric, with unequal sizes."""
    rng = np.random.default_rng(5)
    return {"real": rng.normal(size=(400, 3)), "fake": 0.2 * rng.normal(size=(250, 3))}


def test_precision_and_recall_are_not_exchanged(narrow):
    found = sweep(**narrow, k=5)
    assert found.precision() == 1
    assert found.recall() < 0.15
    assert found.coverage() < 0.2
    assert found.scores()["corrected_coverage"].value < -5
    assert found.members_fake().shape == (250,)
    assert found.members_real().shape == (400,)


def test_exchanging_the_sets_exchanges_the_scores(narrow):
    one, other = sweep(**narrow, k=(3, 5)), sweep(real=narrow["fake"], fake=narrow["real"], k=(3, 5))
    for k in (3, 5):
        assert one.precision(k) == other.recall(k)
        assert one.precision_cover(2, k) == other.recall_cover(2, k)
        np.testing.assert_array_equal(one.members_fake(k), other.members_real(k))


def test_several_k_at_once_are_each_k_alone(narrow):
    together = sweep(**narrow, k=(7, 1, 3, 3))
    assert together.k == (1, 3, 7)
    for k in together.k:
        alone = sweep(**narrow, k=k)
        assert {name: score.value for name, score in together.scores(k).items()} == {
            name: score.value for name, score in alone.scores().items()
        }


def test_balls_are_reused(narrow):
    real, fake = (within(narrow[name], k=(3, 5), neighbors=4) for name in ("real", "fake"))
    found = cross(real=real, fake=fake, ties="open")
    assert_exact(found, **narrow)
    assert found.real_to_fake.index.shape == (400, 4)
    again = cross(real=real, fake=within(narrow["fake"] + 1, k=(3, 5)))
    assert_exact(again, narrow["real"], narrow["fake"] + 1)


def test_ties_closed_and_open_differ_on_a_lattice():
    lattice = np.arange(20.0)[:, None]
    closed, opened = (sweep(real=lattice, fake=lattice + 1, k=1, ties=ties) for ties in ("closed", "open"))
    assert closed.density() == pytest.approx((1 + 2 + 18 * 3) / 20)
    assert opened.density() == pytest.approx(19 / 20)


def test_scores_carry_their_chance_and_protocol(narrow):
    scores = sweep(**narrow, k=6).scores()
    assert scores["density"].chance == 1
    assert scores["coverage"].chance == expected_coverage(n_real=400, n_fake=250, k=6)
    assert scores["recall_cover"].chance == expected_recall_cover(n_real=400, n_fake=250, k=2, k_prime=6)
    assert scores["precision_cover"].chance == expected_precision_cover(n_real=400, n_fake=250, k=2, k_prime=6)
    assert scores["corrected_coverage"].value == chance_corrected(scores["coverage"].value, scores["coverage"].chance)
    assert scores["precision"].chance is None
    assert scores["recall_cover"].settings == {"k": 2, "k_prime": 6, "ties": "closed"}
    assert (scores["recall"].n_real, scores["recall"].n_fake) == (400, 250)


def test_copies_are_found():
    rng = np.random.default_rng(8)
    real, fresh = rng.normal(size=(300, 8)), rng.normal(size=(100, 8))
    copied = np.concatenate([real[:60] + 1e-3 * rng.normal(size=(60, 8)), real[60:80], fresh])
    found = sweep(real=real, fake=copied, k=3)
    assert found.scores()["copies"].value == pytest.approx(80 / 180, abs=0.01)
    np.testing.assert_array_equal(found.fake_to_real.index[:80, 0], np.arange(80))
    assert (found.copy_ratios()[60:80] == 0).all()
    assert (found.copy_ratios() < 1e-9).mean() == pytest.approx(20 / 180)


def test_values_that_reals_repeat_are_atoms_and_no_copies():
    real = np.array([[0.0], [0.0], [5.0], [9.0]])
    found = sweep(real=real, fake=np.array([[0.0], [0.1], [5.5]]), k=1)
    np.testing.assert_array_equal(found.copy_ratios(), [1.0, np.inf, 0.5 / 4])


def test_copies_under_the_data_law_come_to_t_to_the_d():
    rng = np.random.default_rng(9)
    for d in (1, 2, 3):
        found = sweep(real=rng.random((4000, d)), fake=rng.random((4000, d)), k=1)
        assert found.scores()["copies"].value == pytest.approx(0.5**d, abs=4 * np.sqrt(0.5**d / 4000) + 0.01)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_fresh_data_seem_copies_as_often_as_the_data_of_each_other(d):
    rng = np.random.default_rng(9)
    found = sweep(real=rng.random((4000, d)), fake=rng.random((4000, d)), k=2)
    copies = found.scores()["copies"]
    assert copies.chance == pytest.approx(copies.value, abs=0.03)


def test_expected_copies_leave_each_real_out_in_turn():
    real = np.array([[0.0], [1.0], [5.0], [5.5], [5.5], [20.0], [21.0]])
    alone = [
        sweep(real=np.delete(real, i, 0), fake=real[[i, i]], k=1).scores()["copies"].value for i in range(len(real))
    ]
    assert sweep(real=real, fake=real[:3], k=2).scores()["copies"].chance == np.mean(alone)
    assert sweep(real=real, fake=real[:3], k=1).scores()["copies"].chance == np.mean(alone)
    assert sweep(real=real[:2], fake=real[:2], k=1).scores()["copies"].chance is None


def test_realism_says_how_deep():
    real = np.array([[0.0], [1.0], [3.0], [4.0], [20.0], [50.0]])  # radii 1, 1, 1, 1, 16, 30: the last two are excluded
    found = sweep(real=real, fake=np.array([[1.5], [1.0], [8.0], [20.0]]), k=1)
    np.testing.assert_array_equal(found.realism(), [2.0, np.inf, 0.25, 1 / 16])


def test_cover_asks_for_shares_of_unequal_sets():
    """Three times as many fakes from the same distribution: λ = 1 requires 3k' fakes and k'/3 reals."""
    curve = cover_curve(lam=1.0, fakes_in_ball=np.arange(10), reals_in_ball=np.repeat([0, 1, 2], 10), k=3)
    assert curve.recall_cover == pytest.approx(0.1)  # the one real with at least 9 fakes
    assert curve.ties == pytest.approx(0.1)  # has exactly 9
    assert curve.precision_cover == pytest.approx(2 / 3)  # fakes with at least 1 real
    assert curve.alpha == pytest.approx(2 / 3)


def test_cover_takes_whole_numbers_as_meant():
    counts = {"fakes_in_ball": np.full(200, 7), "reals_in_ball": np.full(200, 10)}
    assert 0.07 * 100 > 7
    curve = cover_curve(lam=[0.07], k=100, **counts)
    assert curve.recall_cover == curve.ties == 1


def test_cover_curve_at_the_ends():
    counts = {"fakes_in_ball": np.array([0, 3, 9, 9]), "reals_in_ball": np.array([0, 0, 1, 40])}
    curve = cover_curve(lam=[0.0, 1e-9, 1e9], k=3, **counts)
    np.testing.assert_allclose(curve.alpha, [0, 1e-9 * 0.75, 0.5])
    assert np.isnan(curve.beta[0])
    assert curve.beta[1] == pytest.approx(0.75)


# ------------------------------------------------------------------------------------------------ wrong inputs

GOOD = np.arange(12.0).reshape(6, 2)
NAN, INFINITE = GOOD.copy(), GOOD.copy()
NAN[2, 1], INFINITE[3, 0] = np.nan, -np.inf
COUNTED = {"fakes_in_ball": np.ones(4, int), "reals_in_ball": np.ones(4, int)}

ERRORS = {
    "nan": (lambda: sweep(real=NAN, fake=GOOD, k=1), "`real` must be finite; row 2"),
    "infinite": (lambda: sweep(real=GOOD, fake=INFINITE, k=1), "`fake` must be finite; row 3"),
    "one sample": (lambda: sweep(real=GOOD, fake=GOOD[:1], k=1), "`fake` must hold at least 2 samples; got 1"),
    "k too large": (
        lambda: sweep(real=GOOD, fake=GOOD[:4], k=(1, 4)),
        "`k` must be between 1 and 3, one less than the number of `fake` samples; got 4. Lower it or pass more",
    ),
    "k zero": (lambda: sweep(real=GOOD, fake=GOOD, k=0), "`k` must be between 1 and 5"),
    "k fraction": (lambda: sweep(real=GOOD, fake=GOOD, k=2.5), "`k` must be whole numbers; got 2.5"),
    "k none": (lambda: sweep(real=GOOD, fake=GOOD, k=()), "`k` must be whole numbers; got ()"),
    "k text": (lambda: sweep(real=GOOD, fake=GOOD, k="5"), "`k` must be whole numbers; got '5'"),
    "neighbors": (lambda: sweep(real=GOOD, fake=GOOD, k=1, neighbors=6), "`neighbors` must be between 1 and 5"),
    "dimensions": (lambda: sweep(real=GOOD, fake=GOOD[:, :1], k=1), "`real` and `fake` must have the same dimension"),
    "dtype": (lambda: sweep(real=GOOD.astype(complex), fake=GOOD, k=1), "`real` must hold real numbers"),
    "text": (lambda: sweep(real=GOOD.astype(str), fake=GOOD, k=1), "`real` must hold real numbers"),
    "flat": (lambda: sweep(real=GOOD[:, 0], fake=GOOD, k=1), "`real` must be a matrix"),
    "ties": (lambda: sweep(real=GOOD, fake=GOOD, k=1, ties="half"), "`ties` must be one of closed, open; got 'half'"),
    "overflow": (lambda: sweep(real=GOOD, fake=1e200 * GOOD, k=1), "`fake` must stay below 1e150 in absolute value"),
    "overflow across": (lambda: sweep(real=GOOD, fake=GOOD + 1e200, k=1), "`fake` must stay below 1e150 in abs"),
    "within k": (lambda: within(GOOD, k=6), "one less than the number of `samples` samples"),
    "cross k": (lambda: cross(real=within(GOOD, k=1), fake=within(GOOD, k=2)), "must have balls for the same k"),
    "cross dimension": (
        lambda: cross(real=within(GOOD, k=1), fake=within(GOOD[:, :1], k=1)),
        "`real` and `fake` must have the same dimension",
    ),
    "unswept": (lambda: sweep(real=GOOD, fake=GOOD, k=(1, 2)).precision(3), "`k` must be one of 1, 2; got 3"),
    "which k": (lambda: sweep(real=GOOD, fake=GOOD, k=(1, 2)).recall(), "`k` must be one of 1, 2; got None"),
    "cover k": (lambda: sweep(real=GOOD, fake=GOOD, k=1).recall_cover(-1), "`k` must not be negative"),
    "lam": (lambda: cover_curve(lam=-1, k=2, **COUNTED), "`lam` must not be negative; got -1"),
    "lam infinite": (lambda: cover_curve(lam=np.inf, k=2, **COUNTED), "`lam` must be finite"),
    "chance k": (lambda: expected_coverage(n_real=5, n_fake=5, k=5), "`k` must be between 1 and 4"),
    "chance n": (lambda: expected_coverage(n_real=5, n_fake=0, k=2), "`n_fake` must be at least 1; got 0"),
    "chance one": (lambda: chance_corrected(1.0, 1.0), "`chance` must be less than 1"),
}


@pytest.mark.parametrize(("call", "sentence"), ERRORS.values(), ids=ERRORS.keys())
def test_a_wrong_input_costs_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)) as caught:
        call()
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------------------------------ benchmark


def test_the_benchmark_runs(tmp_path, run_module):
    options = ["--smoke", "--repeats", "1", "--threads", "1", "--out", tmp_path / "out.json"]
    printed = run_module("benchmarks.neighbors", *options)
    results = json.loads((tmp_path / "out.json").read_text())
    assert {row["d"] for row in results["speed"]} == {64, 8}
    assert all(row["prdc / sweep"] > 0 for row in results["speed"])
    assert results["memory"][0]["beyond"] < 100
    assert "sweep / products" in printed


def test_the_benchmark_of_exactness_finds_none_but_equal_results(tmp_path, run_module):
    run_module("benchmarks.exactness", "--smoke", "--out", tmp_path / "out.json")
    cases = json.loads((tmp_path / "out.json").read_text())["cases"]
    assert len(cases) > 15
    assert all(case["same"] for case in cases)


def test_realism_has_no_interval_if_many_fakes_have_the_same():
    """Codes of categories have few distances, so that the median realism is 1 in most runs and far off in others."""
    rng = np.random.default_rng(0)
    codes = {side: rng.integers(0, 4, size=(200, 6)).astype(float) for side in ("real", "fake")}
    tied = sweep(**codes, k=5).scores()["realism"]
    assert tied.interval is None
    assert tied.settings["interval"] == "none: many fakes have exactly this value"
    noisy = {side: one + 0.1 * rng.normal(size=one.shape) for side, one in codes.items()}
    plain = sweep(**noisy, k=5).scores()["realism"]
    assert plain.interval is not None
    assert "interval" not in plain.settings


@given(
    arrays(
        np.float64, st.tuples(st.integers(1, 3), st.integers(1, 9)), elements=st.sampled_from([0, 0.1, 0.7, 3, np.inf])
    )
)
def test_medians_are_those_of_numpy(rows):
    np.testing.assert_array_equal(medians(rows), np.median(rows, axis=1))
    assert medians(rows[0]) == np.median(rows[0])
