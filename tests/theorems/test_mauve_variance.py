"""The gradient and the variance of MAUVE."""

import numpy as np
import pytest

from precall.theory.mauve import mauve, mauve_gradient, mauve_variance


def test_the_gradient_of_mauve_is_its_derivative():
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(6)), np.append(rng.dirichlet(np.ones(5)), 0.0)
    for masses, of in zip(((p, 0), (q, 1)), mauve_gradient(p, q), strict=True):
        mass, side = masses
        step = np.where(mass > 0, rng.normal(size=6), 0.0)
        step -= (mass > 0) * step.sum() / (mass > 0).sum()  # masses keep their sum

        def moved(h, side=side, step=step):
            return mauve(p + h * step, q) if side == 0 else mauve(p, q + h * step)

        assert (moved(1e-6) - moved(-1e-6)) / 2e-6 == pytest.approx(of @ step, rel=1e-4)


def test_the_variance_of_mauve_is_that_of_fresh_counts():
    """In fixed cells: the delta method against 2,000 draws."""
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(5 * np.ones(20)), rng.dirichlet(5 * np.ones(20))
    values = [mauve(rng.multinomial(2000, p) / 2000, rng.multinomial(1000, q) / 1000) for _ in range(2000)]
    assert mauve_variance(np.round(2000 * p), np.round(1000 * q)) == pytest.approx(np.var(values), rel=0.12)
