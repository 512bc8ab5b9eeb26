"""Hypothesis strategies: finite distributions (zeros and ties included), scores and slopes."""

import numpy as np
from hypothesis import strategies as st

SLOPES = np.concatenate([[0.0], np.exp(np.linspace(-7, 7, 57)), [np.inf]])


@st.composite
def pairs(draw, max_cells=8, positive=False):
    """Two distributions on the same cells; with `positive`, every mass is positive."""
    cells = draw(st.integers(1, max_cells))
    low = 1 if positive else 0
    grid = st.lists(st.integers(low, 12), min_size=cells, max_size=cells)
    value = st.floats(1e-3, 1) if positive else st.floats(1e-3, 1) | st.just(0.0)
    smooth = st.lists(value, min_size=cells, max_size=cells)
    masses = (grid | smooth).map(lambda v: np.asarray(v, float)).filter(lambda v: v.any())
    p, q = draw(masses), draw(masses)
    return p / p.sum(), q / q.sum()


@st.composite
def scores(draw, max_size=25):
    """Real and fake scores, with many ties."""
    values = st.lists(
        st.integers(-4, 4).map(float) | st.floats(-3, 3).map(lambda x: round(x, 3)), min_size=1, max_size=max_size
    ).map(np.array)
    return draw(values), draw(values)


slopes = st.floats(1e-4, 1e4)
budgets = st.floats(1, 50)


def alpha(p, q, lam):
    """Precision by its definition, Σ min(λ p, q): the oracle the spectrum is held against."""
    return np.minimum(np.multiply.outer(np.asarray(lam, float), p), q).sum(-1)
