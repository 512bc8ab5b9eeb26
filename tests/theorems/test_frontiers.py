"""Rényi frontiers: the definition, the optimum, the errata of Djolonga et al. (DJO-*) and Verine (VER-20, VER-21)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import optimize, special, stats

from precall.theory.frontiers import SIDES, Frontier, frontier, renyi_divergence
from precall.theory.gaussians import gaussian_frontier
from precall.theory.mauve import mauve

Array = np.ndarray
ORDERS = [0.0, 0.3, 0.5, 0.999, 1.0, 1.0001, 1.5, 2.0, 3.0, 4.0, 20.0, np.inf]
FINITE = [0.2, 0.5, 0.95, 1.0, 1.05, 1.7, 2.0, 2.9, 3.5, 10.0]
EXAMPLES = settings(max_examples=30, deadline=None)

# strongly asymmetric on purpose: an exchange of precision and recall cannot hide
P3, Q3 = np.array([0.70, 0.25, 0.05]), np.array([0.05, 0.05, 0.90])


def normed(x: Array) -> Array:
    return x / x.sum()


def extended(x: Array) -> Array:
    return x.astype(np.longdouble) if x.size < 100 else x


def power_mean(p: Array, q: Array, w: float, b: float) -> Array:
    """The density of R by its formula, cells of either law included; in extended precision where that is quick."""
    p, q = extended(p), extended(q)
    with np.errstate(divide="ignore"):
        if b == 0:
            return normed(q**w * p ** (1 - w))
        return normed((w * q**b + (1 - w) * p**b) ** (1 / b))


def exclusive_law(p: Array, q: Array, w: float, a: float) -> Array:
    return power_mean(p, q, w, 1 - a)


def inclusive_law(p: Array, q: Array, w: float, a: float) -> Array:
    return power_mean(p, q, w, a)


def renyi(a: float, x: Array, y: Array) -> float:
    """`D_a(X‖Y)` as it is defined."""
    x, y = extended(x), extended(y)
    if a == 0:
        return float(-np.log(y[x > 0].sum()))
    seen = x > 0
    x, y = x[seen], y[seen]
    with np.errstate(divide="ignore"):
        if a == np.inf:
            return float(np.log((x / y).max()))
        if a == 1:
            return float(np.sum(x * np.log(x / y)))
        return float(np.log(np.sum(x**a * y ** (1 - a))) / (a - 1))


def losses_of(law: Array, p: Array, q: Array, a: float, side: str) -> tuple[float, float]:
    """(precision loss, recall loss) of a law R, by the definition of each side."""
    if side == "exclusive":
        return renyi(a, law, q), renyi(a, law, p)
    return renyi(a, p, law), renyi(a, q, law)


def hat(a: float, x: Array, y: Array) -> float:
    return float(np.sum(x**a * y ** (1 - a)) / (a - 1))


def minimiser(objective: Callable[[Array], float], cells: int) -> Array:
    """The law that minimises the objective, over the whole simplex."""
    softmax = lambda z: normed(np.exp(z - z.max()))  # noqa: E731
    found = optimize.minimize(lambda z: objective(softmax(z)), np.zeros(cells), method="BFGS", options={"gtol": 1e-9})
    return softmax(found.x)


@st.composite
def pairs(draw: st.DrawFn, zeros: bool = True) -> tuple[Array, Array]:
    """Two laws on 2 to 7 cells; with zeros, cells may be missed or invented."""
    cells = draw(st.integers(2, 7))
    mass = st.floats(0.01, 1.0)
    entry = st.one_of(st.just(0.0), mass) if zeros else mass
    p, q = (np.array(draw(st.lists(entry, min_size=cells, max_size=cells))) for _ in range(2))
    p[draw(st.integers(0, cells - 1))] += 0.5
    q[draw(st.integers(0, cells - 1))] += 0.5
    return normed(p), normed(q)


# --------------------------------------------------------------------------------------------- the divergence itself


@given(pairs(), st.sampled_from(ORDERS))
@EXAMPLES
def test_renyi_divergence_is_its_definition(pair: tuple[Array, Array], a: float) -> None:
    p, q = pair
    with np.errstate(divide="ignore"):  # disjoint supports: the definition is log 0
        assert renyi_divergence(p, q, order=a) == pytest.approx(max(0.0, renyi(a, p, q)), abs=1e-11, rel=1e-11)


@given(pairs())
@EXAMPLES
def test_renyi_divergence_grows_with_the_order(pair: tuple[Array, Array]) -> None:
    values = [renyi_divergence(*pair, order=a) for a in ORDERS]
    assert all(low <= high + 1e-12 for low, high in pairwise(values))


@given(pairs(), st.sampled_from(ORDERS), st.randoms(use_true_random=False))
@EXAMPLES
def test_renyi_divergence_falls_when_cells_are_merged(pair: tuple[Array, Array], a: float, random) -> None:
    p, q = pair
    label = np.array([random.randrange(3) for _ in p])
    coarse = (np.bincount(label, x, minlength=3) for x in pair)
    assert renyi_divergence(*coarse, order=a) <= renyi_divergence(p, q, order=a) + 1e-12


def test_renyi_divergence_has_full_precision_next_to_order_one() -> None:
    kl = renyi_divergence(P3, Q3, order=1)
    log_u = np.log(P3 / Q3)
    slope = P3 @ (log_u - kl) ** 2 / 2  # the derivative of D_a at a = 1
    for step in (1e-4, -1e-6, 1e-9, -1e-12):
        assert renyi_divergence(P3, Q3, order=1 + step) == pytest.approx(kl + slope * step, abs=4 * step**2 + 1e-13)


def test_djo_01_above_order_one_it_is_p_that_must_live_where_q_does() -> None:
    p, q = [0.5, 0.5], [1.0, 0.0]  # here Q << P, the printed condition, and the divergence is infinite all the same
    assert renyi_divergence(p, q, order=2) == np.inf
    assert renyi_divergence(q, p, order=2) == pytest.approx(np.log(2))


def test_order_zero_is_the_limit_and_sees_supports_only() -> None:  # [E.D_0]
    p, q = [0.4, 0.6, 0.0], [0.2, 0.3, 0.5]
    assert renyi_divergence(p, q, order=0) == pytest.approx(np.log(2))
    assert renyi_divergence(p, q, order=1e-9) == pytest.approx(np.log(2), abs=1e-8)
    assert renyi_divergence([1.0, 0.0], [0.0, 1.0], order=0) == np.inf


# ------------------------------------------------------------------------------------------------ points by definition


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("a", FINITE)
@given(pair=pairs())
@settings(max_examples=12, deadline=None)
def test_inner_points_are_the_divergences_of_the_power_mean(pair: tuple[Array, Array], a: float, side: str) -> None:
    p, q = pair
    curve = frontier(p, q, order=a, side=side, points=5)
    law = exclusive_law if side == "exclusive" else inclusive_law
    for w, precision_loss, recall_loss in zip(
        curve.weight[1:-1], curve.precision_loss[1:-1], curve.recall_loss[1:-1], strict=True
    ):
        if side == "exclusive" and a >= 1 and not ((p > 0) & (q > 0)).any():
            expected = (np.inf, np.inf)
        else:
            expected = losses_of(law(p, q, w, a), p, q, a, side)
        assert precision_loss == pytest.approx(expected[0], abs=1e-11, rel=1e-11)
        assert recall_loss == pytest.approx(expected[1], abs=1e-11, rel=1e-11)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("a", FINITE)
@given(pair=pairs())
@settings(max_examples=8, deadline=None)
def test_end_points_are_limits(pair: tuple[Array, Array], a: float, side: str) -> None:
    p, q = pair
    curve = frontier(p, q, order=a, side=side, points=2)
    both = (p > 0) & (q > 0)
    first, last = p, q
    if side == "exclusive" and a >= 1:
        if not both.any():
            assert np.isinf([curve.precision_loss, curve.recall_loss]).all()
            return
        first, last = normed(np.where(both, p, 0.0)), normed(np.where(both, q, 0.0))
    expected = np.array([losses_of(first, p, q, a, side), losses_of(last, p, q, a, side)]).T
    np.testing.assert_allclose(np.stack([curve.precision_loss, curve.recall_loss]), expected, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("a", [0.5, 1.0, 2.0, 2.5])
def test_the_ends_are_approached_by_inner_points(a: float, side: str) -> None:
    p, q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.1, 0.3, 0.0, 0.6])
    curve = frontier(p, q, order=a, side=side, points=8001)
    for losses in (curve.precision_loss, curve.recall_loss):
        for end, near in ((losses[0], losses[1]), (losses[-1], losses[-2])):
            far = near > 2.5 if np.isinf(end) else abs(end - near) < 0.02
            assert far, (losses[:3], losses[-3:])


@given(pairs(), st.sampled_from([a for a in ORDERS if a > 0]))
@EXAMPLES
def test_exchanging_the_laws_exchanges_precision_and_recall(pair: tuple[Array, Array], a: float) -> None:
    p, q = pair
    for side in SIDES:
        one, other = frontier(p, q, order=a, side=side, points=7), frontier(q, p, order=a, side=side, points=7)
        np.testing.assert_allclose(one.precision_loss, other.recall_loss[::-1], rtol=1e-7, atol=1e-9)


@given(pairs(), st.sampled_from(FINITE), st.sampled_from(SIDES))
@EXAMPLES
def test_weights_run_from_p_to_q(pair: tuple[Array, Array], a: float, side: str) -> None:
    curve = frontier(*pair, order=a, side=side, points=9)
    assert curve.weight[0] == 0
    assert curve.weight[-1] == 1
    with np.errstate(invalid="ignore"):  # inf - inf on disjoint supports
        toward_q = np.diff(curve.precision if side == "exclusive" else curve.recall)
        toward_p = np.diff(curve.recall if side == "exclusive" else curve.precision)
    assert (np.diff(curve.weight) >= 0).all()
    assert (toward_q >= -1e-12).all()
    assert (toward_p <= 1e-12).all()
    assert ((curve.precision >= 0) & (curve.precision <= 1)).all()


@pytest.mark.parametrize("a", [0.4, 0.9, 1.0, 1.2, 2.5, 6.0, np.inf])
def test_an_invented_mode_costs_precision_and_a_dropped_one_recall(a: float) -> None:
    whole, part = [0.5, 0.5], [1.0, 0.0]
    dropped = frontier(whole, part, order=a, points=11)  # P has two modes, Q one
    assert dropped.precision.max() == pytest.approx(1.0)
    assert dropped.recall[-1] == pytest.approx(0.5)
    invented = frontier(part, whole, order=a, points=11)
    assert invented.recall.max() == pytest.approx(1.0)
    assert invented.precision[0] == pytest.approx(0.5)
    cover = frontier(part, whole, order=a, side="inclusive", points=11)
    at_q = 0 if a == np.inf else -1  # the cover R = Q recalls all of Q and wastes half of itself on the invention
    assert cover.recall[at_q] == pytest.approx(1.0)
    assert cover.precision[at_q] == pytest.approx(0.5)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("a", ORDERS)
def test_equal_laws_lose_nothing(a: float, side: str) -> None:
    curve = frontier(P3, P3, order=a, side=side, points=5)
    np.testing.assert_allclose([curve.precision, curve.recall], 1.0, atol=1e-14)


@pytest.mark.parametrize("a", [0.5, 0.95, 1.0, 2.0, 8.0, np.inf])
def test_disjoint_supports(a: float) -> None:
    p, q = [1.0, 0.0], [0.0, 1.0]
    part = frontier(p, q, order=a, points=5)
    if a >= 1:
        assert np.isinf([part.precision_loss, part.recall_loss]).all()
    else:
        assert np.isinf([part.precision_loss[0], part.recall_loss[-1]]).all()
        assert np.isfinite(part.precision_loss[1:]).all()
    cover = frontier(p, q, order=a, side="inclusive", points=5)
    np.testing.assert_allclose(cover.precision + cover.recall, 1.0, atol=1e-12)  # R(supp P) + R(supp Q) = 1
    assert set(np.round(cover.precision[[0, -1]], 12)) == {0.0, 1.0}


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("tiny", [0.0, 5e-324, 1e-310, 1e-300, 1e-20])
def test_extreme_masses_neither_overflow_nor_warn(tiny: float, side: str) -> None:
    p, q = np.array([tiny, 0.5, 0.5]), np.array([0.5, 0.5, tiny])
    apart = np.array([tiny, 1.0]), np.array([1.0, tiny])
    for x, y in ((p, q), (q, p), apart):
        for a in (1e-5, 0.01, 0.5, 0.999, 1 - 1e-9, 1.0, 1 + 1e-9, 2.0, 7.0, 1e6, np.inf):
            curve = frontier(x, y, order=a, side=side, points=9)
            assert not np.isnan([curve.precision, curve.recall]).any(), a
            assert np.isfinite(np.minimum(curve.precision_loss, curve.recall_loss)[1:-1]).any() or tiny == 0


def test_small_orders_with_hardly_any_overlap_keep_their_precision() -> None:
    """Disjoint supports have closed forms: R puts w^(1/b) : (1−w)^(1/b) on Q and P."""
    for a in (0.003, 0.3):
        cover = frontier([1.0, 0.0], [0.0, 1.0], order=a, side="inclusive", points=101)
        w = cover.weight[1:-1]
        log_odds = np.log(w / (1 - w)) / a
        for got, expected in (
            (cover.recall_loss[1:-1], np.logaddexp(0, -log_odds)),
            (cover.precision_loss[1:-1], np.logaddexp(0, log_odds)),
        ):
            seen = expected < 700  # beyond, exp(-loss) is zero
            assert (got[~seen] >= 700).all()
            np.testing.assert_allclose(got[seen], expected[seen], rtol=1e-9, atol=1e-12)


def test_many_cells_run_in_blocks_and_give_the_same_numbers() -> None:
    rng = np.random.default_rng(3)
    p, q = normed(rng.gamma(0.6, size=20_000)), normed(rng.gamma(0.6, size=20_000) * np.arange(1, 20_001))
    for side, law in (("exclusive", exclusive_law), ("inclusive", inclusive_law)):
        for a in (0.5, 1.0, 1.05, 5.0):
            curve = frontier(p, q, order=a, side=side, points=151)
            for i in (1, 64, 65, 149):
                expected = losses_of(law(p, q, curve.weight[i], a), p, q, a, side)
                got = curve.precision_loss[i], curve.recall_loss[i]
                tolerance = 1e-12 if a <= 3 else 1e-6  # there the weight as a float is not the whole story: λ is
                assert got == pytest.approx(expected, abs=tolerance)
            again = frontier(p, q, order=a, side=side, points=151)
            assert (again.precision_loss == curve.precision_loss).all()


def test_rounding_does_not_grow_with_the_number_of_points() -> None:
    curve = frontier(P3, Q3, order=1, points=100_001)
    for i in (50_000, 99_998):
        expected = losses_of(exclusive_law(P3, Q3, curve.weight[i], 1.0), P3, Q3, 1.0, "exclusive")
        assert (curve.precision_loss[i], curve.recall_loss[i]) == pytest.approx(expected, abs=1e-14, rel=3e-14)


@pytest.mark.parametrize("side", SIDES)
def test_the_frontier_is_smooth_in_the_order_across_one(side: str) -> None:
    p, q = np.append(P3, 0.0), np.append(Q3 * 0.9, 0.1)
    at = lambda a: frontier(p, normed(q), order=a, side=side, points=11).precision_loss[1:-1]  # noqa: E731
    slope = (at(1.001) - at(0.999)) / 0.002
    for step in (1e-5, -1e-5, 1e-8, -1e-8, 1e-11):
        np.testing.assert_allclose(at(1 + step), at(1.0) + slope * step, atol=100 * step**2 + 2e-13, rtol=0)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("a", [2.0, 3.0])
def test_the_two_parametrisations_trace_one_curve(a: float, side: str) -> None:
    """Orders just below and above the change from equally spaced weights to equally spaced angles."""
    low, high = (frontier(P3, Q3, order=a + step, side=side, points=2001) for step in (-1e-9, 1e-9))
    order = slice(None, None, 1 if side == "exclusive" else -1)
    np.testing.assert_allclose(
        np.interp(high.precision, low.precision[order], low.recall[order]), high.recall, atol=1e-4
    )


# ------------------------------------------------------------------------------------------------------ the optimum


@pytest.mark.parametrize("w", [0.25, 0.75])
@pytest.mark.parametrize("a", [0.4, 1.6, 2.0])
def test_djo_04_the_exclusive_law_is_the_one_minus_a_power_mean(a: float, w: float) -> None:
    exclusive = minimiser(lambda r: w * hat(a, r, Q3) + (1 - w) * hat(a, r, P3), 3)
    inclusive = minimiser(lambda r: w * hat(a, Q3, r) + (1 - w) * hat(a, P3, r), 3)
    index = round(4 * w)
    for side, law in (("exclusive", exclusive), ("inclusive", inclusive)):
        curve = frontier(P3, Q3, order=a, side=side, points=5)
        assert curve.weight[index] == w
        got = curve.precision_loss[index], curve.recall_loss[index]
        assert got == pytest.approx(losses_of(law, P3, Q3, a, side), abs=1e-5)
        printed = inclusive_law if side == "exclusive" else exclusive_law  # Prop. 1 has the two exchanged
        assert losses_of(printed(P3, Q3, w, a), P3, Q3, a, side) != pytest.approx(got, abs=1e-2)


@pytest.mark.parametrize("w", [0.25, 0.75])
def test_order_one_is_optimal_too(w: float) -> None:
    kl = lambda x, y: float(np.sum(x * np.log(x / y)))  # noqa: E731
    geometric = minimiser(lambda r: w * kl(r, Q3) + (1 - w) * kl(r, P3), 3)
    arithmetic = minimiser(lambda r: w * kl(Q3, r) + (1 - w) * kl(P3, r), 3)
    for side, law in (("exclusive", geometric), ("inclusive", arithmetic)):
        curve = frontier(P3, Q3, order=1, side=side, points=5)
        got = curve.precision_loss[round(4 * w)], curve.recall_loss[round(4 * w)]
        assert got == pytest.approx(losses_of(law, P3, Q3, 1, side), abs=1e-6)


def test_djo_03_the_scalarised_divergence_is_exp_of_a_minus_one_times_d() -> None:
    a, w = 4.0, 0.25
    assert hat(a, P3, Q3) == pytest.approx(np.exp((a - 1) * renyi_divergence(P3, Q3, order=a)) / (a - 1))
    printed = lambda x, y: np.exp(renyi(a, x, y) / (a - 1)) / (a - 1)  # noqa: E731
    ours = minimiser(lambda r: w * hat(a, Q3, r) + (1 - w) * hat(a, P3, r), 3)
    theirs = minimiser(lambda r: w * printed(Q3, r) + (1 - w) * printed(P3, r), 3)
    np.testing.assert_allclose(ours, inclusive_law(P3, Q3, w, a).astype(float), atol=1e-5)
    assert np.abs(theirs - ours).max() > 1e-2


def test_djo_05_the_inclusive_objective_is_z_to_the_a_times_the_divergence_to_the_union() -> None:
    a, w, r = 2.5, 0.3, normed(np.array([1.0, 4.0, 2.0]))
    Z = float(np.sum((w * Q3**a + (1 - w) * P3**a) ** (1 / a)))
    objective = w * hat(a, Q3, r) + (1 - w) * hat(a, P3, r)
    union, intersection = (law(P3, Q3, w, a).astype(float) for law in (inclusive_law, exclusive_law))
    assert objective == pytest.approx(Z**a * hat(a, union, r))
    assert objective != pytest.approx(Z * hat(a, intersection, r), rel=0.05)
    assert objective != pytest.approx(Z * hat(a, union, r), rel=0.05)


@given(pairs(zeros=False), st.sampled_from([0.0, 0.5, 1.0, 2.0, 5.0, np.inf]), st.sampled_from(SIDES), st.data())
@settings(max_examples=50, deadline=None)
def test_djo_02_frontier_points_are_minimal_no_law_beats_one_in_both_losses(
    pair: tuple[Array, Array], a: float, side: str, data: st.DataObject
) -> None:
    p, q = pair
    law = normed(np.array(data.draw(st.lists(st.floats(0.01, 1.0), min_size=p.size, max_size=p.size))))
    precision_loss, recall_loss = losses_of(law, p, q, a, side)
    curve = frontier(p, q, order=a, side=side, points=21)
    assert not ((precision_loss < curve.precision_loss - 1e-9) & (recall_loss < curve.recall_loss - 1e-9)).any()


def test_djo_02_the_pair_is_precision_then_recall() -> None:
    """Definition 2's order, not that of Propositions 2 and 7: the printed orders contradict each other."""
    w, index = 0.25, 1
    part = frontier(P3, Q3, order=2, points=5)
    law = exclusive_law(P3, Q3, w, 2)
    assert part.precision_loss[index] == pytest.approx(renyi(2, law, Q3))  # how far R is from the model
    assert part.recall_loss[index] == pytest.approx(renyi(2, law, P3))
    assert abs(renyi(2, law, Q3) - renyi(2, law, P3)) > 0.5
    cover = frontier(P3, Q3, order=2, side="inclusive", points=5)
    law = inclusive_law(P3, Q3, w, 2)
    assert cover.precision_loss[index] == pytest.approx(renyi(2, P3, law))
    assert cover.recall_loss[index] == pytest.approx(renyi(2, Q3, law))
    assert abs(renyi(2, P3, law) - renyi(2, Q3, law)) > 0.3


# ------------------------------------------------------------------------------------------- identities of the paper


@given(pairs(), st.sampled_from([0.1, 0.3, 0.5, 0.95]))
@EXAMPLES
def test_skew_symmetry(pair: tuple[Array, Array], a: float) -> None:  # [E.skew symmetry]
    part, cover = frontier(*pair, order=a, points=7), frontier(*pair, order=1 - a, side="inclusive", points=7)
    # D_a(R‖Q) = a/(1-a) D_{1-a}(Q‖R): the exclusive precision loss is the inclusive recall loss
    np.testing.assert_allclose(part.precision_loss, a / (1 - a) * cover.recall_loss, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(part.recall_loss, a / (1 - a) * cover.precision_loss, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("a", [0.4, 2.0, 2.8])
def test_djo_06_expectation_form(a: float) -> None:
    def u(g: float, b: float, t: Array) -> Array:
        return (g + (1 - g) * t**b) ** ((1 - b) / b)

    def v(g: float, b: float, t: Array) -> Array:
        return (g + (1 - g) * t**b) ** (1 / b)

    w, p, q = 0.25, P3, Q3
    log_u = lambda law, g, b, t: np.log(law @ u(g, b, t)) / (a - 1)  # noqa: E731
    log_v = lambda law, g, b, t: np.log(law @ v(g, b, t))  # noqa: E731
    part = frontier(p, q, order=a, points=5)
    b = 1 - a
    to_q = log_u(q, w, b, p / q) - a / (a - 1) * log_v(q, w, b, p / q)
    to_p = log_u(p, 1 - w, b, q / p) - a / (a - 1) * log_v(p, 1 - w, b, q / p)
    assert (part.precision_loss[1], part.recall_loss[1]) == pytest.approx((to_q, to_p))
    printed = log_u(p, w, b, p / q) - a / (a - 1) * log_v(p, w, b, p / q)  # E_P where E_Q belongs
    assert min(abs(printed - to_q), abs(printed - to_p)) > 5e-3
    if a <= 2:
        cover = frontier(p, q, order=a, side="inclusive", points=5)
        of_q, of_p = (log_u(*args) + log_v(*args) for args in ((q, w, a, p / q), (p, 1 - w, a, q / p)))
        assert (cover.precision_loss[1], cover.recall_loss[1]) == pytest.approx((of_p, of_q))


@given(
    pairs(), st.sampled_from([0.5, 1.0, 2.0, 5.0, np.inf]), st.sampled_from(SIDES), st.randoms(use_true_random=False)
)
@settings(max_examples=40, deadline=None)
def test_djo_08_quantisation_can_only_improve_the_frontier(pair, a: float, side: str, random) -> None:
    """Every point of the fine frontier is matched or beaten by a law on the coarse cells: the image of its R."""
    p, q = pair
    if side == "exclusive" and not ((p > 0) & (q > 0)).any():
        return
    label = np.array([random.randrange(3) for _ in p])
    merge = lambda x: np.bincount(label, x.astype(float), minlength=3)  # noqa: E731
    fine = frontier(p, q, order=a, side=side, points=5)
    for i in (1, 2, 3):
        if a == np.inf:
            extreme = np.minimum if side == "exclusive" else np.maximum
            law = normed(extreme(fine.lam[i] * p, q)) if np.isfinite(fine.lam[i]) else p
        else:
            law = (exclusive_law if side == "exclusive" else inclusive_law)(p, q, fine.weight[i], a)
        image = losses_of(merge(law), merge(p), merge(q), a, side)
        assert image[0] <= fine.precision_loss[i] + 1e-7
        assert image[1] <= fine.recall_loss[i] + 1e-7


@given(pairs(), st.sampled_from(SIDES), st.randoms(use_true_random=False))
@settings(max_examples=20, deadline=None)
def test_djo_08_the_coarse_curve_lies_on_or_above_the_fine_one(pair, side: str, random) -> None:
    p, q = pair
    label = np.array([random.randrange(3) for _ in p])
    fine = frontier(p, q, order=2, side=side, points=9)
    dense = frontier(*(np.bincount(label, x, minlength=3) for x in pair), order=2, side=side, points=801)
    for precision, recall in zip(fine.precision, fine.recall, strict=True):
        assert ((dense.precision >= precision - 1e-2) & (dense.recall >= recall - 1e-2)).any()


def test_djo_08_the_printed_inclusion_fails() -> None:
    """Merging two cells that differ makes the laws equal: (0, 0) becomes attainable, and it was not."""
    fine = frontier([0.5, 0.0, 0.5], [0.0, 0.5, 0.5], order=2, points=41)
    coarse = frontier([0.5, 0.5], [0.5, 0.5], order=2, points=41)
    assert np.maximum(fine.precision_loss, fine.recall_loss).min() > 0.3
    assert np.maximum(coarse.precision_loss, coarse.recall_loss).max() < 1e-12


# ------------------------------------------------------------------------------------------------ orders ∞ and 0


@given(pairs())
@EXAMPLES
def test_order_infinity_exclusive_is_the_precision_recall_curve(pair: tuple[Array, Array]) -> None:
    p, q = pair
    curve = frontier(p, q, order=np.inf, points=9)
    if not ((p > 0) & (q > 0)).any():
        assert (curve.precision == 0).all()
        assert (curve.recall == 0).all()
        return
    alpha = np.minimum(curve.lam[:, None] * p, q).sum(axis=1)
    np.testing.assert_allclose(curve.precision, alpha, rtol=1e-12)
    np.testing.assert_allclose(curve.recall, alpha / curve.lam, rtol=1e-12)
    assert curve.precision[-1] == pytest.approx(q[p > 0].sum())
    assert curve.recall[0] == pytest.approx(p[q > 0].sum())


@given(pairs())
@EXAMPLES
def test_order_infinity_inclusive_is_the_best_cover(pair: tuple[Array, Array]) -> None:
    p, q = pair
    curve = frontier(p, q, order=np.inf, side="inclusive", points=9)
    for lam, precision, recall in zip(curve.lam, curve.precision, curve.recall, strict=True):
        law = p if np.isinf(lam) else normed(np.maximum(lam * p, q))
        expected = np.exp(-np.array(losses_of(law, p, q, np.inf, "inclusive")))
        assert (precision, recall) == pytest.approx(tuple(expected), abs=1e-12)
        if 0 < lam < np.inf:
            alpha = np.minimum(lam * p, q).sum()
            assert recall == pytest.approx(1 / (1 + lam - alpha))


@pytest.mark.parametrize("side", SIDES)
def test_large_orders_approach_order_infinity_point_by_point(side: str) -> None:
    p, q = np.append(0.9 * P3, 0.1), np.append(Q3, 0.0)
    limit = frontier(p, q, order=np.inf, side=side, points=15)
    order = slice(None, None, 1 if side == "exclusive" else -1)
    for a in (300.0, 3000.0, 1e8):
        curve = frontier(p, q, order=a, side=side, points=15)
        np.testing.assert_allclose(curve.precision[order][1:-1], limit.precision[1:-1], atol=8 / a + 1e-7)
        np.testing.assert_allclose(curve.recall[order][1:-1], limit.recall[1:-1], atol=8 / a + 1e-7)


def test_ver_21_the_weight_is_lam_to_the_a_minus_one() -> None:
    a, lam = 400.0, np.array([0.2, 0.5, 3.0, 9.0])
    log_p, log_q = np.log(P3), np.log(Q3)
    alpha = np.minimum(lam[:, None] * P3, Q3).sum(axis=1)

    def precision(log_odds: Array) -> Array:
        mean = np.logaddexp((1 - a) * log_q + log_odds[:, None], (1 - a) * log_p) / (1 - a)
        law = np.exp(mean - mean.max(axis=1, keepdims=True))
        law /= law.sum(axis=1, keepdims=True)
        return 1 / (law / Q3).max(axis=1)

    np.testing.assert_allclose(precision((a - 1) * np.log(lam)), alpha, atol=0.01)
    collapsed = np.minimum(P3, Q3).sum()  # the printed λ/(1+λ): every point is that of λ = 1
    np.testing.assert_allclose(precision(np.log(lam)), collapsed, atol=0.01)
    assert np.abs(alpha - collapsed).max() > 0.2
    curve = frontier(P3, Q3, order=6.0, points=9)
    slopes = frontier(P3, Q3, order=np.inf, points=9).lam[1:-1]
    np.testing.assert_allclose(curve.weight[1:-1] / (1 - curve.weight[1:-1]), slopes ** (6.0 - 1), rtol=1e-9)


def test_ver_20_the_printed_power_mean_tends_to_the_union() -> None:
    a, w = 400.0, 0.3
    printed = inclusive_law(P3, Q3, w, a).astype(float)
    np.testing.assert_allclose(printed, normed(np.maximum(P3, Q3)), atol=0.02)
    assert np.abs(printed - normed(np.minimum(P3, Q3))).max() > 0.15
    corrected = exclusive_law(P3, Q3, w, a).astype(float)
    np.testing.assert_allclose(corrected, normed(np.minimum(P3, Q3)), atol=0.02)


def test_djo_12_order_infinity_is_the_funk_metric_and_gamma_a_geodesic() -> None:
    def funk(x: Array, y: Array) -> float:
        """log |x − b|/|y − b|, b where the ray from x through y leaves the simplex."""
        d = y - x
        exit_time = np.min(-x[d < 0] / d[d < 0])
        border = x + exit_time * d
        return float(np.log(np.linalg.norm(x - border) / np.linalg.norm(y - border)))

    assert funk(P3, Q3) == pytest.approx(renyi_divergence(P3, Q3, order=np.inf))
    curve = frontier(P3, Q3, order=np.inf, points=7)
    for lam, precision, recall in zip(curve.lam, curve.precision, curve.recall, strict=True):
        gamma = normed(np.minimum(P3, Q3 / lam))
        assert precision == pytest.approx(np.exp(-renyi_divergence(gamma, Q3, order=np.inf)))
        assert recall == pytest.approx(np.exp(-renyi_divergence(gamma, P3, order=np.inf)))
        assert funk(P3, Q3) == pytest.approx(renyi(np.inf, P3, gamma) + renyi(np.inf, gamma, Q3))


@pytest.mark.parametrize("side", SIDES)
def test_order_zero_is_the_limit_of_small_orders(side: str) -> None:
    p, q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.1, 0.3, 0.0, 0.6])
    zero, small = (frontier(p, q, order=a, side=side, points=7) for a in (0.0, 1e-7))
    np.testing.assert_allclose(zero.precision[1:-1], small.precision[1:-1], atol=1e-5)
    np.testing.assert_allclose(zero.recall[1:-1], small.recall[1:-1], atol=1e-5)


def test_order_zero_of_disjoint_supports_shares_the_cover_between_them() -> None:
    cover = frontier([1.0, 0.0], [0.0, 1.0], order=0, side="inclusive", points=5)
    np.testing.assert_allclose(cover.recall, [0, 0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(cover.precision, [1.0, 0.75, 0.5, 0.25, 0])
    part = frontier([1.0, 0.0], [0.0, 1.0], order=0, points=5)
    assert (part.precision == 1).all()


def test_djo_11_the_weight_of_the_mixture_stands_on_q() -> None:
    cover = frontier(P3, Q3, order=1, side="inclusive", points=5)
    mixture, printed = 0.25 * Q3 + 0.75 * P3, 0.25 * P3 + 0.75 * Q3
    assert cover.precision_loss[1] == pytest.approx(renyi(1, P3, mixture))
    assert abs(cover.precision_loss[1] - renyi(1, P3, printed)) > 0.3


# --------------------------------------------------------------------------------------------------------- Gaussians

REAL_1D = {"real_mean": [0.0], "real_cov": [[1.0]]}
FAKE_1D = {"fake_mean": [2.0], "fake_cov": [[0.5]]}


def random_gaussians(dim: int, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(2, dim, dim + 2))
    return {
        "real_mean": rng.normal(size=dim),
        "real_cov": roots[0] @ roots[0].T,
        "fake_mean": rng.normal(size=dim),
        "fake_cov": 0.3 * roots[1] @ roots[1].T,
    }


def gaussian_kl(*, real_mean: Array, real_cov: Array, fake_mean: Array, fake_cov: Array) -> float:
    """KL(P‖Q) of two Gaussians, by the formula of textbooks."""
    P, Q, delta = np.asarray(real_cov), np.asarray(fake_cov), np.subtract(fake_mean, real_mean)
    inverse, log_dets = np.linalg.inv(Q), np.linalg.slogdet(Q)[1] - np.linalg.slogdet(P)[1]
    return (np.trace(inverse @ P) + delta @ inverse @ delta - len(P) + log_dets) / 2


def test_gaussian_frontier_mixes_natural_parameters_or_moments() -> None:
    pair, w = random_gaussians(3, seed=1), 0.25
    mp, P, mq, Q = (pair[k] for k in ("real_mean", "real_cov", "fake_mean", "fake_cov"))
    natural = w * np.linalg.inv(Q) + (1 - w) * np.linalg.inv(P)
    mean = np.linalg.solve(natural, w * np.linalg.solve(Q, mq) + (1 - w) * np.linalg.solve(P, mp))
    R = {"real_mean": mean, "real_cov": np.linalg.inv(natural)}
    part = gaussian_frontier(**pair, points=5)
    assert part.precision_loss[1] == pytest.approx(gaussian_kl(**R, fake_mean=mq, fake_cov=Q))
    assert part.recall_loss[1] == pytest.approx(gaussian_kl(**R, fake_mean=mp, fake_cov=P))
    mean = w * mq + (1 - w) * mp
    cov = w * (Q + np.outer(mq, mq)) + (1 - w) * (P + np.outer(mp, mp)) - np.outer(mean, mean)
    cover = gaussian_frontier(**pair, side="inclusive", points=5)
    R = {"fake_mean": mean, "fake_cov": cov}
    assert cover.precision_loss[1] == pytest.approx(gaussian_kl(real_mean=mp, real_cov=P, **R))
    assert cover.recall_loss[1] == pytest.approx(gaussian_kl(real_mean=mq, real_cov=Q, **R))


def test_djo_07_gaussian_frontiers_are_optimal_among_gaussians_with_the_weight_on_q() -> None:
    w = 0.3
    law = lambda z: ([z[0]], [[np.exp(z[1])]])  # noqa: E731

    def exclusive(z: Array) -> tuple[float, float]:
        R = dict(zip(("real_mean", "real_cov"), law(z), strict=True))
        return gaussian_kl(**R, **FAKE_1D), gaussian_kl(**R, fake_mean=[0.0], fake_cov=[[1.0]])

    def inclusive(z: Array) -> tuple[float, float]:
        R = dict(zip(("fake_mean", "fake_cov"), law(z), strict=True))
        return gaussian_kl(**REAL_1D, **R), gaussian_kl(real_mean=[2.0], real_cov=[[0.5]], **R)

    objectives = {
        "exclusive": lambda z: w * exclusive(z)[0] + (1 - w) * exclusive(z)[1],
        "inclusive": lambda z: w * inclusive(z)[1] + (1 - w) * inclusive(z)[0],
    }
    for side, losses in (("exclusive", exclusive), ("inclusive", inclusive)):
        best = optimize.minimize(objectives[side], [0.5, 0.0], tol=1e-12).x
        curve = gaussian_frontier(**REAL_1D, **FAKE_1D, side=side, points=11)
        assert (curve.precision_loss[3], curve.recall_loss[3]) == pytest.approx(losses(best), abs=1e-5)
        printed = curve.precision_loss[7], curve.recall_loss[7]  # Prop. 4 has the weight on P
        assert printed != pytest.approx(losses(best), abs=0.1)


def test_djo_07_a_larger_family_leaves_the_exclusive_frontier_and_beats_the_inclusive_one() -> None:
    x = np.linspace(-10, 10, 20_001)
    p, q = normed(stats.norm.pdf(x)), normed(stats.norm.pdf(x, 2.0, np.sqrt(0.5)))
    for side in SIDES:
        free = frontier(p, q, order=1, side=side, points=11)
        gaussian = gaussian_frontier(**REAL_1D, **FAKE_1D, side=side, points=11)
        if side == "exclusive":
            np.testing.assert_allclose(gaussian.precision_loss, free.precision_loss, atol=1e-8)
            np.testing.assert_allclose(gaussian.recall_loss, free.recall_loss, atol=1e-8)
    at_half = gaussian.precision_loss[5], gaussian.recall_loss[5]
    free = frontier(p, q, order=1, side="inclusive", points=101)
    assert ((free.precision_loss < at_half[0] - 0.01) & (free.recall_loss < at_half[1] - 0.01)).any()


def test_djo_09_the_restricted_region_is_a_translate_not_an_inclusion() -> None:
    """KL(P‖R) = KL(P‖P̂) + KL(P̂‖R) for Gaussian R, P̂ the Gaussian with the moments of P: the shifts differ."""
    mixture = lambda x: 0.5 * stats.norm.pdf(x, -1, 0.3) + 0.5 * stats.norm.pdf(x, 1, 0.3)  # noqa: E731
    laplace = lambda x: stats.laplace.pdf(x, 0, 0.8)  # noqa: E731

    def kl_to(density: Callable[[Array], Array], mean: float, variance: float) -> float:
        x = np.linspace(-25, 25, 100_001)
        d = density(x)
        return float(np.sum(special.xlogy(d, d) - d * stats.norm.logpdf(x, mean, np.sqrt(variance))) * (x[1] - x[0]))

    r = {"fake_mean": [0.7], "fake_cov": [[1.96]]}
    shifts = []
    for density, variance in ((mixture, 1.09), (laplace, 1.28)):
        projected = gaussian_kl(real_mean=[0.0], real_cov=[[variance]], **r)
        shifts.append(kl_to(density, 0.0, variance))
        assert kl_to(density, 0.7, 1.96) == pytest.approx(shifts[-1] + projected, abs=1e-6)
    assert abs(shifts[0] - shifts[1]) > 0.1  # so the region moves; it does not contain its projection
    assert min(shifts) > 0.005


def test_gaussian_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="`fake_cov` must be positive definite"):
        gaussian_frontier(**REAL_1D, fake_mean=[0.0], fake_cov=[[0.0]])
    with pytest.raises(ValueError, match="`real_cov` must be positive definite"):
        gaussian_frontier(real_mean=[0.0, 0.0], real_cov=np.ones((2, 2)), fake_mean=[0.0, 0.0], fake_cov=np.eye(2))
    with pytest.raises(ValueError, match="`fake_cov` must have shape"):
        gaussian_frontier(**REAL_1D, fake_mean=[0.0], fake_cov=[1.0])
    with pytest.raises(ValueError, match="`real_cov` must be symmetric"):
        gaussian_frontier(real_mean=[0.0, 0.0], real_cov=[[1, 0.5], [0, 1]], fake_mean=[0.0, 0.0], fake_cov=np.eye(2))
    with pytest.raises(ValueError, match="same length"):
        gaussian_frontier(**REAL_1D, fake_mean=[0.0, 0.0], fake_cov=np.eye(2))


# ------------------------------------------------------------------------------------------------- MAUVE and arguments


@given(pairs())
@EXAMPLES
def test_mauve_is_symmetric_and_one_only_for_equal_laws(pair: tuple[Array, Array]) -> None:
    p, q = pair
    score = mauve(p, q)
    assert 0 < score <= 1 + 1e-12
    assert mauve(q, p) == pytest.approx(score, abs=1e-12)
    assert mauve(p, p) == pytest.approx(1.0, abs=1e-12)
    if np.abs(p - q).max() > 0.05:
        assert score < 1 - 1e-4
    assert mauve(p, q, c=10.0) <= score + 1e-12


def test_mauve_is_the_area_of_the_inclusive_order_one_frontier() -> None:
    curve = frontier(P3, Q3, order=1, side="inclusive", points=4001)
    x, y = curve.recall**5, curve.precision**5
    assert mauve(P3, Q3, points=4001) == pytest.approx(np.trapezoid(y, x), abs=1e-5)


def test_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="`side` must be one of exclusive, inclusive; got 'both'"):
        frontier(P3, Q3, order=1, side="both")
    with pytest.raises(ValueError, match="`order` must not be negative"):
        frontier(P3, Q3, order=-1)
    with pytest.raises(ValueError, match="`order` must be a single number"):
        frontier(P3, Q3, order=[1, 2])
    with pytest.raises(ValueError, match="`points` must be an integer of at least 2"):
        frontier(P3, Q3, order=1, points=1)
    with pytest.raises(ValueError, match="`p` must sum to 1"):
        frontier(2 * P3, Q3, order=1)
    with pytest.raises(ValueError, match="same length"):
        frontier(P3, Q3[:2] / Q3[:2].sum(), order=1)
    with pytest.raises(ValueError, match="`c` must be positive"):
        mauve(P3, Q3, c=0)


def test_a_frontier_cannot_be_changed() -> None:
    curve = frontier(P3, Q3, order=1)
    assert isinstance(curve, Frontier)
    with pytest.raises(AttributeError):
        curve.order = 2
