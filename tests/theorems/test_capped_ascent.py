"""The capped surrogate bounds α(λ) from below, so that an exact step never lowers it; refitting by likelihood may."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, strategies as st

from precall.theory.projection import projected_masses
from precall.tune import capped_ascent
from strategies import alpha, pairs, slopes

sources = st.sampled_from(["fake", "real"])
logs = st.lists(st.floats(-6, 6), min_size=8, max_size=8).map(np.array)


def expectation(q, old, p, lam, source):
    """E_R[min(log q, log λp)] by the library's loss, the points being cells with their masses as repetitions."""
    with np.errstate(divide="ignore"):
        log_q, log_old, log_p = (torch.as_tensor(np.log(x)) for x in (q, old, p))
    given_masses = torch.as_tensor(old if source == "fake" else p)
    some = given_masses > 0
    arguments = {"log_q_old": log_old[some], "log_ratio": (log_p - log_old)[some], "lam": lam, "source": source}
    terms = capped_ascent(log_q[some], **arguments, reduction="none")
    slope = (arguments["log_ratio"] + np.log(lam)) * (1 if source == "fake" else -1)
    scale = slope.clamp(max=0).exp().mean() / (given_masses[some] * slope.clamp(max=0).exp()).sum()
    return -float((given_masses[some] * terms).sum() * scale)


@given(pairs(positive=True), logs, slopes, sources)
def test_the_surrogate_bounds_the_gain_from_below(pair, logits, lam, source):
    p, old = pair
    q = old * np.exp(logits[: len(p)])
    q /= q.sum()
    gain = np.log(alpha(p, q, lam)) - np.log(alpha(p, old, lam))
    bound = expectation(q, old, p, lam, source) - expectation(old, old, p, lam, source)
    assert gain >= bound - 1e-9


@given(pairs(positive=True), slopes)
def test_draws_and_data_have_the_same_expectation(pair, lam):
    p, old = pair
    q = np.full_like(p, 1 / len(p))
    on_draws, on_data = (expectation(q, old, p, lam, source) for source in ("fake", "real"))
    assert on_draws == pytest.approx(on_data, rel=1e-9, abs=1e-9)


@given(pairs(positive=True), slopes, sources, st.integers(0, 100))
def test_an_exact_step_within_a_limited_class_never_lowers_precision(pair, lam, source, seed):
    """The class is forty distributions; the step maximises the surrogate over them."""
    p, old = pair
    rng = np.random.default_rng(seed)
    family = [old, *rng.dirichlet(np.full(len(p), 0.5), 20), *(old + rng.dirichlet(np.ones(len(p)), 19)) / 2]
    best = max(family, key=lambda q: expectation(np.maximum(q, 1e-300), old, p, lam, source))
    assert alpha(p, best, lam) >= alpha(p, old, lam) * (1 - 1e-9)


def test_refitting_to_the_projection_by_likelihood_can_lower_precision():
    """The class has two members. Likelihood of the projection prefers the one that covers everything."""
    p, old, broad = np.array([0.5, 0.5, 0, 0]), np.array([0.85, 1e-12, 0.15, 0]), np.array([0.26, 0.24, 0.25, 0.25])
    lam = 10.0
    t = projected_masses(p, old, lam)
    likelihood = {name: t[t > 0] @ np.log(q[t > 0]) for name, q in (("old", old), ("broad", broad))}
    assert likelihood["broad"] > likelihood["old"]
    assert alpha(p, broad, lam) < alpha(p, old, lam) - 0.3
    capped = [expectation(q, old, p, lam, "fake") for q in (old, broad)]
    assert capped[0] > capped[1]


@given(pairs(positive=True), slopes)
def test_its_gradient_at_the_old_model_is_that_of_log_precision(pair, lam):
    p, old = pair
    margin = np.abs(np.log(lam * p / old)).min()
    assume(margin > 1e-3)  # at a kink there is no gradient
    logits = torch.zeros(len(p), dtype=torch.float64, requires_grad=True)
    log_old = torch.as_tensor(np.log(old))
    log_q = torch.log_softmax(log_old + logits, 0)
    weight = torch.as_tensor(old)
    terms = capped_ascent(
        log_q, log_q_old=log_old, log_ratio=torch.as_tensor(np.log(p / old)), lam=lam, source="fake", reduction="none"
    )
    accepted = torch.as_tensor(np.minimum(1, lam * p / old))
    (-(weight * terms).sum() * accepted.mean() / (weight * accepted).sum()).backward()
    found = logits.grad.clone()
    logits.grad = None
    precision = torch.minimum(lam * torch.as_tensor(p), torch.softmax(log_old + logits, 0)).sum()
    precision.log().backward()
    np.testing.assert_allclose(found.numpy(), logits.grad.numpy(), atol=1e-9)


def test_wrong_arguments_are_refused():
    x = torch.zeros(3)
    with pytest.raises(ValueError, match="`source` must be one of"):
        capped_ascent(x, log_q_old=x, log_ratio=x, lam=1.0, source="both")
    with pytest.raises(ValueError, match="`lam` must be positive"):
        capped_ascent(x, log_q_old=x, log_ratio=x, lam=0.0, source="fake")
    with pytest.raises(ValueError, match="nothing in common"):
        capped_ascent(x, log_q_old=x, log_ratio=torch.full((3,), -torch.inf), lam=1.0, source="fake")
