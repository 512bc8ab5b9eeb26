"""Blocks of shards add up to the sweep over all samples, however the samples are cut."""

from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from precall.metrics.neighbors.scores import Neighborhoods
from precall.metrics.neighbors.sweep import cross_plan, list_size, neighborhoods, radii_of, sweep, within
from precall.metrics.pairs import blocks, tallies
from precall.metrics.tiles.clouds import Cloud


def cut(n, places):
    """Slices of n rows between the given places."""
    ends = sorted({0, n, *(place % (n + 1) for place in places)})
    return [slice(a, b) for a, b in pairwise(ends)]


def radii_by_blocks(x, shards, k, neighbors=1):
    """The radii of one set, from the blocks of its shards."""
    size = list_size(k, neighbors, len(x))
    clouds, lists = [Cloud(x[rows], size) for rows in shards], blocks.Lists.empty(len(x), size)
    for i, left in enumerate(shards):
        for j, right in enumerate(shards[i:], start=i):
            ours, theirs = tallies.read_within(clouds[i], clouds[j], size)
            lists.add(ours, left, right.start)
            if i != j:
                lists.add(theirs, right, left.start)
    return radii_of(lists, k, neighbors)


def swept_by_blocks(real, fake, cuts, k, ties, order=1):
    """The sweep from the blocks of shards, in either order of the blocks."""
    shards = cut(len(real), cuts[0]), cut(len(fake), cuts[1])
    radii = [radii_by_blocks(x, own, k) for x, own in zip((real, fake), shards, strict=True)]
    plan = cross_plan(*radii, ties)
    total = blocks.Crossing.empty(len(real), len(fake), plan)
    for i, j in [(i, j) for i in shards[0] for j in shards[1]][::order]:
        sides = [
            (Cloud(x[rows], k[-1] + 2), of.squared_margins[rows])
            for x, rows, of in zip((real, fake), (i, j), radii, strict=True)
        ]
        total.add(tallies.read_cross(*sides, plan), i, j)
    return neighborhoods(*radii, ties, total)


def arrays(found):
    """Everything in the result that depends on the samples, as arrays."""
    for one in fields(Neighborhoods):
        value = getattr(found, one.name)
        for part in value if one.name.startswith("margins") else [value]:
            inside = vars(part).values() if hasattr(part, "__dataclass_fields__") else [part]
            yield from ((one.name, np.asarray(array)) for array in inside if not isinstance(array, str))


def assert_same(found, expected):
    for (name, mine), (_, theirs) in zip(arrays(found), arrays(expected), strict=True):
        np.testing.assert_array_equal(mine, theirs, err_msg=name)
    for k in expected.k:
        assert found.intervals(k) == expected.intervals(k)


places = st.lists(st.integers(0, 99), max_size=4)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    sizes=st.tuples(st.integers(4, 60), st.integers(4, 60)),
    cuts=st.tuples(places, places),
    values=st.sampled_from([2, 4, 50, None]),
    ties=st.sampled_from(["closed", "open"]),
    order=st.sampled_from([1, -1]),
)
def test_any_cut_into_shards_gives_the_same_counts_and_intervals(seed, sizes, cuts, values, ties, order):
    """Few distinct values give ties and duplicates across shards; shards may be smaller than k."""
    rng = np.random.default_rng(seed)
    real, fake = (
        rng.normal(size=(n, 2)) if values is None else rng.integers(values, size=(n, 2)).astype(float) for n in sizes
    )
    k = (1, min(3, min(sizes) - 1))
    expected = sweep(real=real, fake=fake, k=k, ties=ties)
    assert_same(swept_by_blocks(real, fake, cuts, expected.k, ties, order), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shards_with_far_centres_and_many_copies(dtype):
    """Each shard has its own centre, and more copies of one sample than are kept."""
    rng = np.random.default_rng(0)
    real = np.sort(rng.normal(size=(900, 3)) * 100, axis=0).astype(dtype)
    real[100:160] = real[500:530] = real[7]
    fake = np.concatenate([real[::3], rng.normal(size=(300, 3)).astype(dtype)])
    found = swept_by_blocks(real, fake, ([10, 400], [300, 301, 500]), (5,), "closed")
    assert_same(found, sweep(real=real, fake=fake, k=5))


@pytest.mark.parametrize("spread", [1.0, 0.01])
def test_the_named_owner_is_the_first_one(spread):
    """Among several balls around a point, the first is named, in crowded tiles too."""
    rng = np.random.default_rng(1)
    real, fake = rng.normal(size=(300, 2)), spread * rng.normal(size=(200, 2))
    balls = within(real, k=5), within(fake, k=5)
    found = tallies.read_cross(*((one.cloud, one.squared_margins) for one in balls), cross_plan(*balls, "closed"))
    inside = ((real[:, None] - fake) ** 2).sum(2) <= balls[0].radii ** 2
    expected = np.where(inside.any(0), inside.argmax(0), blocks.NOBODY)
    np.testing.assert_array_equal(found.around_real.owner[:, 0], expected)


def test_lists_merge_by_value_and_then_by_index():
    lists = blocks.Lists.empty(1, 2)
    lists.add(blocks.Lists(np.array([[1.0, 2.0]]), np.array([[0, 1]])), slice(0, 1), 10)
    lists.add(blocks.Lists(np.array([[1.0, np.inf]]), np.array([[3, -1]])), slice(0, 1), 0)
    assert lists.values.tolist() == [[1.0, 1.0]]
    assert lists.index.tolist() == [[3, 10]]
