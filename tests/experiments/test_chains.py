"""Independence chains: their invariant law, their accounting, their start."""

import numpy as np
import pytest

from experiments.common.samplers import Metropolis, accepted, last_states
from precall.improve.sampling import sample
from precall.improve.source import SamplingError

P, Q = np.array([0.6, 0.3, 0.1]), np.array([0.1, 0.3, 0.6])
LOG_R = np.log(P / Q)


def generator(n, rng):
    return rng.choice(3, size=n, p=Q)


def ratio(x):
    return LOG_R[x]


def shares(samples):
    return np.bincount(samples, minlength=3) / len(samples)


def transition():
    """Matrix of one step: propose by q, move with min(1, r'/r)."""
    r = P / Q
    move = Q[None] * np.minimum(1, r[None] / r[:, None])
    np.fill_diagonal(move, 0)
    return move + np.diag(1 - move.sum(axis=1))


@pytest.mark.parametrize("budget", [1, 2, 4, 30])
def test_the_law_after_k_draws_is_the_chains(budget):
    """The first draw is the start, every other one a step: q T^(K − 1), which tends to p."""
    kept = sample(generator, ratio, method=Metropolis(), budget=budget, n=20_000).samples
    assert shares(kept) == pytest.approx(Q @ np.linalg.matrix_power(transition(), budget - 1), abs=0.015)
    if budget == 30:
        assert shares(kept) == pytest.approx(P, abs=0.015)


def test_the_data_is_invariant():
    """A chain that starts in P is in P after any number of steps."""
    assert pytest.approx(P, abs=1e-12) == P @ transition()
    rng = np.random.default_rng(0)
    n, K = 20_000, 3
    draws = generator(n * K, rng).reshape(n, K)
    draws[:, 0] = rng.choice(3, size=n, p=P)
    last = last_states(LOG_R[draws.ravel()], np.arange(n + 1) * K, rng)
    assert shares(draws.ravel()[last]) == pytest.approx(P, abs=0.015)


def test_a_fractional_budget_is_the_mean_number_of_draws():
    result = sample(generator, ratio, method=Metropolis(), budget=2.5, n=1000, batch_size=64)
    assert result.draws == 2500
    assert result.ratio_calls == 2500
    assert result.acceptance_rate == pytest.approx(1 / 2.5)


def test_a_chain_leaves_ratio_zero_at_once_and_comes_back_never():
    with np.errstate(divide="ignore"):
        log_r = np.log(np.array([1.0, 0.5, 0.0]))
    draws = np.array([2, 2, 1, 0, 1, 2, 2, 2])  # two chains of four
    last = last_states(log_r[draws], np.array([0, 4, 8]), np.random.default_rng(0))
    assert draws[last[0]] in (0, 1)
    assert draws[last[1]] == 1


def test_a_generator_that_stops_leaves_whole_chains():
    left = 95

    def tired(n, rng):
        nonlocal left
        n = min(n, left)
        left -= n
        return generator(n, rng)

    with pytest.raises(SamplingError, match="stopped after 95 draws; 9 of 100") as caught:
        sample(tired, ratio, method=Metropolis(), budget=10, n=100)
    assert len(caught.value.partial.samples) == 9


def test_chains_move_by_the_rule_of_theory_in_logarithms():
    """log u ≤ log r' − log r, for log-ratios of any size: nothing over- or underflows."""
    rng = np.random.default_rng(0)
    current, proposed = rng.normal(scale=[[1.0], [30.0], [1e6]], size=(2, 3, 2000))
    u = 1 - rng.random(current.shape)
    moves = accepted(u, current=current, proposed=proposed)
    assert 0 < moves.mean() < 1
    np.testing.assert_array_equal(moves, np.log(u) <= proposed - current)


@pytest.mark.parametrize(
    ("current", "proposed", "moves"),
    [
        (-np.inf, -5.0, True),  # ratio 0 is left for any positive ratio
        (5.0, -np.inf, False),  # and never returned to
        (5.0, np.inf, True),
        (np.inf, 5.0, False),
        (-np.inf, -np.inf, False),
        (np.inf, np.inf, False),
    ],
)
def test_chains_with_ratios_of_zero_and_infinity(current, proposed, moves):
    found = accepted(np.array([1e-300, 1.0]), current=np.full(2, current), proposed=np.full(2, proposed))
    assert found.tolist() == [moves, moves]
