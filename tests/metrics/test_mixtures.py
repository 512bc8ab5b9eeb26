"""Gaussian mixtures: the same steps as scikit-learn's, and the weights of known components."""

import warnings

import numpy as np
import pytest
import torch
from scipy.special import softmax
from scipy.stats import multivariate_normal

from precall.metrics.members.gaussians import (
    FLOOR,
    PER_COMPONENT,
    PRIOR,
    STEPS,
    adapted,
    fitted_mixtures,
    log_densities,
    mixture_weights,
)


def clumps(n, d, seed):
    """A narrow and a wide clump with correlated columns."""
    x = np.random.default_rng(seed).normal(size=(n, d)) @ np.tri(d)
    x[: n // 3] = 0.1 * x[: n // 3] + 3
    return x


@pytest.mark.whole_panel  # with as many steps
@pytest.mark.parametrize("d", [1, 5])
@pytest.mark.parametrize("n", [70, 900])
def test_a_mixture_is_that_of_scikit_learn(n, d):
    from sklearn.mixture import GaussianMixture

    x, at = clumps(n, d, 0), clumps(100, d, 1)
    components = min(6, n // PER_COMPONENT + 1)
    known = {"reg_covar": FLOOR, "max_iter": STEPS, "init_params": "k-means++"}
    theirs = GaussianMixture(components, covariance_type="full", random_state=3, **known)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it need not converge
        theirs.fit(x)
    larger = torch.from_numpy(clumps(2 * n, d, 2))
    (log_weights, components), _ = fitted_mixtures([torch.from_numpy(x), larger], 6, 3)
    ours = (log_densities(components, torch.from_numpy(at)) + log_weights).logsumexp(dim=1)
    np.testing.assert_allclose(ours, theirs.score_samples(at), rtol=1e-6, atol=1e-6)


def test_a_component_that_lost_its_points_stays_finite():
    x = torch.tensor([[0.0, 0.0], [1e4, 1e4]]).repeat_interleave(100, dim=0)
    [(log_weights, components)] = fitted_mixtures([x], 8, 0)
    assert (log_densities(components, x) + log_weights).logsumexp(dim=1).isfinite().all()


def test_a_component_turns_with_the_points_of_its_class():
    """The prior counts as `PRIOR` rows per parameter that have the moments of the common component."""
    rng = np.random.default_rng(0)
    common, x = rng.normal(size=(4000, 3)), rng.normal(size=(50, 3)) @ np.tri(3) + 1
    [(weight, component)] = fitted_mixtures([torch.from_numpy(common)], 1, 0)
    rows = torch.from_numpy(x)
    n, prior = len(x), 9 * PRIOR  # 3 means, 3 variances, 3 covariances
    old = np.cov(common.T, bias=True) + FLOOR * np.eye(3) + np.outer(common.mean(0), common.mean(0))
    mean = (n * x.mean(0) + prior * common.mean(0)) / (n + prior)
    covariance = (x.T @ x + prior * old) / (n + prior) - np.outer(mean, mean) + FLOOR * np.eye(3)
    expected = multivariate_normal(mean, covariance).logpdf(x)
    np.testing.assert_allclose(log_densities(adapted(component, weight, rows), rows)[:, 0], expected, rtol=1e-9)


def test_the_weights_are_those_of_expectation_maximisation_on_the_log_scale():
    densities = 300 * np.random.default_rng(0).normal(size=(200, 4))  # most densities underflow
    sets = np.stack([np.ones(200), np.arange(200) < 50], axis=1)
    found = mixture_weights(torch.from_numpy(densities), torch.from_numpy(sets))
    for members, ours in zip(sets.T, found.T, strict=True):
        weights, some = np.full(4, 1 / 4), densities[members > 0]
        for _ in range(30):
            weights = (softmax(some + np.log(weights), axis=1).sum(axis=0) + 0.5) / (len(some) + 2)
        np.testing.assert_allclose(ours, weights, rtol=1e-12)
        assert weights.min() > 0
