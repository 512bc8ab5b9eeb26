"""Lists of near pairs, as on a GPU, against float64 brute force. The kernels are emulated, one arithmetic each."""

import contextlib
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings, strategies as st

from metrics.test_blocks import assert_same, swept_by_blocks
from metrics.test_neighbors import SHAPES, assert_exact
from metrics.test_successors import SUPPORTS
from precall.metrics.distances.kernel_distance import kernel_of, kid
from precall.metrics.inputs.features import Pair
from precall.metrics.neighbors.sweep import balls_around, clipped, cross, cross_balls, sweep, within
from precall.metrics.pairs import kernels, survival, tallies
from precall.metrics.pairs.probabilistic import soft_supports, supports_of
from precall.metrics.tiles import bounds, listing
from precall.metrics.tiles.clouds import Cloud, common_centre, squared_distances, squared_lengths
from precall.metrics.tiles.cuda_steps import halving_order, steps_for


class Emulated:
    """The steps of the sweep on a GPU, in torch.

    Args:
        products: Computes the products of two matrices of float16 in float32.
        most: Number of pairs that fit into a list.
    """

    def __init__(self, products=lambda x, y: x.float() @ y.float().T, most=10**9):
        self.products, self.most, self.lists = products, most, []

    def rounded(self, cloud, centre, *, rest=False):
        z = cloud.rows(0, cloud.n).double() - centre
        exponent = torch.frexp(z.abs().amax(1)).exponent - 15
        scale = torch.exp2(exponent.double())[:, None]
        values = torch.nn.functional.pad(z / scale, (0, -cloud.dimension % 64)).half()
        errors = z - values[:, : cloud.dimension] * scale
        remaining = torch.nn.functional.pad(errors / scale * 2048, (0, -cloud.dimension % 64)).half() if rest else None
        return bounds.Rounded(values, exponent, z.square().sum(1), errors.square().sum(1), remaining)

    def _distances(self, rows, columns, side):
        products = self.products(rows.values, columns.values) * (rows.scale[:, None] * columns.scale)
        return (getattr(rows, side)[:, None] + getattr(columns, side)) - 2 * products

    def minima(self, rows, columns, weights, chosen, *, some, group):
        high = self._distances(rows, columns, "high")[some, chosen]
        out = (chosen == torch.arange(some.start, some.stop)[:, None]) & (rows is columns)
        value = torch.where((weights < torch.inf)[:, None] & ~out, high * weights[:, None], torch.inf)
        padded = torch.nn.functional.pad(value, (0, -value.shape[2] % group), value=torch.inf)
        return padded.unflatten(2, (-1, group)).amin(3)

    def collect(self, rows, columns, limits, factors, room, sums=None):
        if sums is not None:
            self._add(rows, columns, sums)
        low = self._distances(rows, columns, "low")
        limit = torch.maximum(limits[0][:, None], limits[1])
        for row, column in zip(*factors, strict=True):
            limit = torch.maximum(limit, row[:, None] * column)
        hit = low <= limit
        i, j = torch.nonzero(hit.triu(1) if rows is columns else hit, as_tuple=True)
        shuffled = torch.randperm(len(i))
        i, j = i[shuffled], j[shuffled]
        self.lists.append(len(i) / len(low))
        return (i, j, low[i, j]) if len(i) <= min(room, self.most) else None

    def _add(self, rows, columns, polynomial):
        u = self.products(rows.values, columns.values)
        if polynomial.rests is not None:
            rests = polynomial.rests
            u = u + (self.products(rows.values, rests[1]) + self.products(rests[0], columns.values)) / 2048
        u = u * (rows.scale[:, None] * columns.scale) * (rows.unit / polynomial.dimension)
        u = u + (polynomial.terms[0].float()[:, None] + polynomial.terms[1].float())
        value = ((1 + u) ** polynomial.degree - 1 - polynomial.shift).double()
        if rows is columns:
            value.fill_diagonal_(0)
        of_rows, of_columns = polynomial.weights
        polynomial.rows, polynomial.columns = value @ of_columns, of_rows @ value
        polynomial.squares = float(of_rows @ value.square() @ of_columns)

    settle = staticmethod(squared_distances)

    def smallest(self, starts, numbers, size):
        values = torch.full((len(starts) - 1, size), torch.inf, dtype=torch.float64)
        places = torch.full(values.shape, -1)
        for row, (first, last) in enumerate(pairwise(starts.tolist())):
            least, order = numbers[first:last].sort(stable=True)
            finite = min(size, int((least < torch.inf).sum()))
            values[row, :finite], places[row, :finite] = least[:finite], first + order[:finite]
        return values, places


@contextlib.contextmanager
def emulated(**arguments):
    steps = Emulated(**arguments)
    with contextlib.ExitStack() as patches:
        for module in (tallies, kernels, survival):
            patches.enter_context(patch.object(module, "steps_for", lambda _: steps))
        yield steps


def truncated(x, y):
    """Tensor cores: blocks of 16 products and the sum are aligned to the largest of them and truncated to 24 bits."""
    total = torch.zeros(len(x), len(y))
    for a, b in zip(x.split(16, 1), y.split(16, 1), strict=True):
        terms = torch.cat([a.double()[:, None] * b.double(), total.double()[..., None]], 2)
        unit = torch.exp2(torch.frexp(terms.abs().amax(2, keepdim=True)).exponent - 24.0)
        total = ((terms / unit).trunc() * unit).sum(2).float()
    return total


def pessimal(x, y):
    """Each product is wrong by as much as the bound on accumulation allows."""
    d = max(int((one != 0).any(0).sum()) for one in (x, y))  # the rest is padding
    x, y = x.double(), y.double()
    gamma = (1.25 * d + 60) * 2.0**-23
    off = torch.randint(0, 2, (len(x), len(y))) * 2 - 1
    return (x @ y.T + off * gamma * x.norm(dim=1)[:, None] * y.norm(dim=1)).float()


PRODUCTS = {"float32": lambda x, y: x.float() @ y.float().T, "truncated": truncated, "pessimal": pessimal}


@given(
    seed=st.integers(0, 2**32 - 1),
    shapes=st.tuples(st.sampled_from(sorted(SHAPES)), st.sampled_from(["same", "copies", *sorted(SHAPES)])),
    n=st.integers(2, 70),
    m=st.integers(2, 70),
    d=st.sampled_from([1, 2, 3, 17, 200]),
    ties=st.sampled_from(["closed", "open"]),
    dtypes=st.tuples(*[st.sampled_from([np.float32, np.float64])] * 2),
    products=st.sampled_from(sorted(PRODUCTS)),
    data=st.data(),
)
@settings(max_examples=45, deadline=None)
def test_lists_equal_brute_force(seed, shapes, n, m, d, ties, dtypes, products, data):
    rng = np.random.default_rng(seed)
    real = SHAPES[shapes[0]](rng, n, d)
    second = SHAPES[shapes[0] if shapes[1] in ("same", "copies") else shapes[1]](rng, m, d)
    fake = real[rng.integers(0, n, m)] if shapes[1] == "copies" else second
    real, fake = real.astype(dtypes[0]), fake.astype(dtypes[1])
    k = data.draw(st.lists(st.integers(1, min(n, m) - 1), min_size=1, max_size=3))
    neighbors = data.draw(st.integers(1, min(n, m) - 1))
    with emulated(products=PRODUCTS[products]) as steps:
        assert_exact(sweep(real=real, fake=fake, k=k, ties=ties, neighbors=neighbors), real, fake)
    assert len(steps.lists) == 3


@pytest.mark.parametrize("products", PRODUCTS)
@given(seed=st.integers(0, 2**32 - 1), shape=st.sampled_from(sorted(SHAPES)), d=st.sampled_from([1, 5, 300]))
@settings(max_examples=30, deadline=None)
def test_half_precision_bounds_the_distances(products, seed, shape, d):
    rng, steps = np.random.default_rng(seed), Emulated(PRODUCTS[products])
    left, right = (Cloud(SHAPES[shape](rng, n, d), n) for n in (40, 25))
    centre = common_centre(left, right)
    sides = bounds.halves(steps.rounded(left, centre), steps.rounded(right, centre), d)
    i, j = (part.flatten() for part in torch.meshgrid(torch.arange(left.n), torch.arange(right.n), indexing="ij"))
    true = squared_distances(left, right, i, j).view(left.n, right.n)
    low, high = (steps._distances(*sides, side).double() * sides[0].unit for side in ("low", "high"))
    assert (low <= true).all()
    assert (true <= high).all()


def test_an_outlier_does_not_widen_the_bounds_of_others():
    """Rows have scales of their own: with one for all, small rows would be rounded to a few digits, or to 0."""
    x = np.random.default_rng(0).normal(size=(60, 20))
    x[0] *= 1e9
    cloud = Cloud(x, 5)
    side, _ = bounds.halves(*[Emulated().rounded(cloud, common_centre(cloud))] * 2, 20)
    assert (side.slack[1:] < 2e-3 * side.squared_norms[1:]).all()


def test_arithmetics_are_ordered_by_their_errors():
    errors = [
        bounds.relative_error(rounding, rounding, 1.25 * 2048 + 64, unit)
        for rounding, unit in ((2.0**-53, 2.0**-53), (2.0**-24, 2.0**-24), (2.0**-12, 2.0**-23), (2.0**-7, 2.0**-24))
    ]
    assert errors == sorted(errors)
    assert errors[0] < 1e-12
    assert errors[2] < 1e-3


@pytest.mark.parametrize("most", [0, 3000])
def test_lists_that_are_too_long_leave_the_work_to_tiles(most):
    rng = np.random.default_rng(0)
    real, fake = rng.normal(size=(300, 5)), 0.01 * rng.normal(size=(200, 5))
    with emulated(most=most) as steps:
        assert_exact(sweep(real=real, fake=fake, k=(3, 5)), real, fake)
    # two attempts for each list that does not fit: none of them, or that of all fakes in many balls
    assert len(steps.lists) == (6 if most == 0 else 4)


def test_more_room_is_made_once():
    """Among few distinct distances, many pairs are as near as the nearest ones."""
    codes = np.random.default_rng(0).integers(0, 2, size=(400, 9)).astype(float)
    with emulated() as steps, patch.object(listing, "ROOM", (0, 128)):
        assert_exact(sweep(real=codes[:250], fake=codes[250:], k=2), codes[:250], codes[250:])
    assert len(steps.lists) == 6


@pytest.mark.parametrize("values", [3, None])
def test_shards_are_listed_too(values):
    rng = np.random.default_rng(1)
    real, fake = (rng.normal(size=(n, 2)) if values is None else rng.integers(values, size=(n, 2)) for n in (90, 70))
    real, fake = real.astype(float), fake.astype(float)
    with emulated() as steps:
        found = swept_by_blocks(real, fake, ([30, 31], [40]), (1, 3), "closed")
    assert len(steps.lists) > 10
    assert_same(found, sweep(real=real, fake=fake, k=(1, 3)))


@pytest.mark.parametrize("halves", [0, 512])
@pytest.mark.parametrize("shape", ["normal", "few distinct", "far clusters", "heavy tails"])
def test_products_of_a_listing_move_kid_by_a_small_part_of_its_standard_error(shape, halves):
    """Half precision by less than 1 %, and factors with what they leave out by much less."""
    rng = np.random.default_rng(2)
    real, fake = (0.3 * SHAPES[shape](rng, n, 30).astype(np.float32) for n in (120, 90))
    real, fake = (one / max(1.0, np.abs(real).max()) for one in (real, fake))
    expected = kid(real=real, fake=fake)
    most = (expected.interval.high - expected.interval.low) / (2 * 1.96) / (100 if halves == 0 else 1000)
    with emulated(products=truncated), patch.multiple(kernels, tiles=None, HALVES=halves):
        found = kid(real=real, fake=fake)
    assert found.value == pytest.approx(expected.value, abs=most)
    assert found.interval.high == pytest.approx(expected.interval.high, abs=most)


@pytest.mark.parametrize("scale", [1e3, 1e-9])
def test_kernels_that_float32_cannot_sum_are_read_off_tiles(scale):
    rng = np.random.default_rng(3)
    real, fake = (scale * rng.normal(size=(n, 6)).astype(np.float32) for n in (50, 40))
    with emulated():
        found = kid(real=real, fake=fake)
    assert found.value == pytest.approx(kid(real=real, fake=fake).value, rel=1e-9)


def test_sums_come_with_the_lists():
    """Also if a list is made again."""
    rng = np.random.default_rng(8)
    pair = Pair.checked(
        **{name: rng.integers(3, size=(n, 5)).astype("float32") for name, n in (("real", 150), ("fake", 90))}
    )
    kernel = kernel_of(pair)
    expected = [one.result() for one in kernels.kernel_sums(kernel, pair.real, pair.fake)]
    between = kernels.KernelSums(kernel)
    with emulated() as steps, patch.object(kernels, "tiles", None), patch.object(listing, "ROOM", (0, 128)):
        real, fake = (balls_around(side, k=3, kernel=kernel) for side in (pair.real, pair.fake))
        cross_balls(real, fake, ties="closed", sums=between)
    assert len(steps.lists) > 3
    for found, sums in zip((real.sums, fake.sums, between), expected, strict=True):
        for one, other in zip(found.result(), sums, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6 * np.abs(other).max())


CROWDS = {
    "crowd": lambda rng: (rng.normal(size=(900, 300)), 0.3 * rng.normal(size=(500, 300))),
    "crowd and others": lambda rng: (rng.normal(size=(900, 50)), rng.normal(size=(500, 50)) * rng.random((500, 1))),
    "crowd of copies": lambda rng: (rng.normal(size=(900, 2)), np.repeat(rng.normal(size=(400, 2)), 2, axis=0)),
}


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", [*SUPPORTS, *CROWDS])
def test_soft_supports_of_a_listing_are_those_of_tiles(name, shared):
    """Of a list of their own, and of that of the sweep."""
    real, fake = (SUPPORTS | CROWDS)[name](np.random.default_rng(4))
    balls = within(real, k=4), within(fake, k=4)
    expected = soft_supports(real=balls[0], fake=balls[1])
    with (
        emulated(products=truncated if len(real) < 100 else PRODUCTS["float32"]),
        patch.object(survival, "tiles", None),
    ):
        supports = supports_of(*balls) if shared else None
        if supports is not None:
            cross_balls(*balls, ties="closed", supports=supports)
            assert supports.complete
        found = soft_supports(*balls, supports=supports)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.probabilities, other.probabilities, atol=1e-8)
        np.testing.assert_allclose(one.changes, other.changes, atol=1e-8 * np.abs(other.changes).max() + 1e-15)
        assert one.noise == pytest.approx(other.noise, rel=1e-6, abs=1e-18)


def test_clipped_balls_are_counted_from_the_same_list():
    rng = np.random.default_rng(7)
    real, fake = rng.standard_cauchy((200, 3)), rng.standard_cauchy((150, 3))
    plain = within(real, k=(2, 4)), within(fake, k=(2, 4))
    expected = cross(real=clipped(plain[0]), fake=plain[1])
    with emulated() as steps:
        found = cross_balls(*plain, ties="closed", with_clipped=True)
    assert len(steps.lists) == 1
    for one, other in zip(found.margins_clipped, expected.margins_real, strict=True):
        for name, values in vars(other).items():
            np.testing.assert_array_equal(getattr(one, name), values)
    assert (found.margins_clipped[1].inside < found.margins_real[1].inside).any()


def test_the_sweep_has_the_same_counts_if_its_list_has_the_pairs_within_reach_as_well():
    """Also if that list would be too long."""
    real, fake = CROWDS["crowd and others"](np.random.default_rng(4))
    balls = within(real, k=4), within(fake, k=4)
    expected = cross(real=balls[0], fake=balls[1])
    for most, complete in ((10**9, True), (230_000, False)):
        supports = supports_of(*balls)
        with emulated(most=most), patch.object(tallies, "tiles", None):
            assert_same(cross_balls(*balls, ties="closed", supports=supports), expected)
        assert supports.complete == complete


def test_crowded_points_are_not_listed():
    """All fakes are within reach of all reals."""
    real, fake = CROWDS["crowd"](np.random.default_rng(4))
    with emulated() as steps:
        found, _ = soft_supports(real=within(real, k=4), fake=within(fake, k=4))
    assert found.mean == 1
    assert steps.lists[-1] < 1


def test_a_copy_with_little_else_nearby_is_not_crowded():
    """Its product is 0, but not if the sample that it copies is left out. At the centre, bounds are exact."""
    x = np.arange(-100.0, 101.0)[:, None]
    with emulated():
        fake = np.array([[0.0], [50.5], [60.5], [70.5], [80.5]])
        found, _ = soft_supports(real=within(x, k=4), fake=within(fake, k=4))
    assert found.probabilities[0] == 1
    assert found.changes[100] < -0.01


@given(st.integers(1, 3000))
@example(128)  # dimensions that the CPU halves by panels of columns: one, three and five times
@example(784)
@example(2048)
def test_the_order_of_halving_is_that_of_the_exact_sums(d):
    values = torch.rand(3, d, dtype=torch.float64, generator=torch.Generator().manual_seed(d)).sqrt()
    order = halving_order(d, "cpu").long()
    total = torch.where(order < 0, 0.0, values.square()[:, order]).T
    while len(total) > 1:
        total = total[: len(total) // 2] + total[len(total) // 2 :]
    assert torch.equal(total[0], squared_lengths(values, torch.zeros(1, d)))


@given(st.integers(2, 10**5), st.sampled_from([2, 16, 64]), st.sampled_from([1, 4, 8]))
def test_the_columns_for_thresholds_are_different_and_spread(m, size, share):
    groups = m // share // size
    chosen = listing.spread(m, groups, size, torch.device("cpu"))
    assert len(chosen.unique()) == len(chosen) == groups * size
    assert not len(chosen) or 0 <= chosen.min() <= chosen.max() < m
    # consecutive members of a group are far apart
    assert (chosen.view(groups, size).diff(dim=1) > m // size - 2 * share * size).all()


def test_sorted_samples_have_lists_as_short_as_others():
    x = np.sort(np.random.default_rng(4).normal(size=(1000, 1)), axis=0)
    with emulated() as steps:
        for order in (np.arange(1000), np.random.default_rng(5).permutation(1000)):
            sweep(real=x[order], fake=x[order] + 0.01, k=3)
    assert np.divide(steps.lists[:3], steps.lists[3:]).max() < 1.3


def test_the_cpu_has_no_kernels():
    assert steps_for(Cloud(np.zeros((3, 2)), 1)) is None
