"""Compare the real mass that a ratio predicts with the observed one, in blocks of samples with similar ratios."""

from __future__ import annotations

import numpy as np

from experiments.common.summaries import Row
from precall.improve import Ratio
from precall.improve.calibration import effective_sample_size, warn_if_concentrated
from precall.improve.interfaces import Samples
from precall.improve.ratio import log_ratios


def reliability(ratio: Ratio, *, real: Samples, fake: Samples, blocks: int = 10) -> Row:
    """Predicted mass `E_Q[r 1_b]` and observed mass P(b) of each block b; they agree for the true ratio.

    Returns a table, column by column: the smallest log-ratio of each block, its real mass as predicted from fakes
    alone, the shares of the real and of the fake samples in it; with `error`, ½ Σ_b |predicted − observed|. Blocks are
    of equal size, and fewer if ratios are tied. Warns (`RatioWarning`) if the largest ratios rest on few samples.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> held_out = {"real": rng.normal(1, 1, (20_000, 1)), "fake": rng.normal(0, 1, (20_000, 1))}
        >>> good, bad = (reliability(Ratio(lambda x, a=a: a * (x[:, 0] - 0.5)), **held_out) for a in (1, 0.3))
        >>> good["error"] < 0.02, bad["error"] > 0.2
        (True, True)
    """
    reals, fakes = log_ratios(ratio, real), log_ratios(ratio, fake)
    warn_if_concentrated(fakes)
    share = np.linspace(0, 1, blocks + 1)[:-1]
    edges = np.unique(np.quantile(np.concatenate([reals, fakes]), share, method="lower"))
    real_block, fake_block = (np.searchsorted(edges, side, side="right") - 1 for side in (reals, fakes))
    with np.errstate(over="ignore"):
        predicted = np.bincount(fake_block, weights=np.exp(fakes), minlength=edges.size) / fakes.size
    observed = np.bincount(real_block, minlength=edges.size) / reals.size
    return {
        "edges": edges.tolist(),
        "predicted": predicted.tolist(),
        "observed": observed.tolist(),
        "fake": (np.bincount(fake_block, minlength=edges.size) / fakes.size).tolist(),
        "n_real": reals.size,
        "n_fake": fakes.size,
        "effective_sample_size": effective_sample_size(fakes),
        "error": float(np.abs(predicted - observed).sum() / 2),
    }
