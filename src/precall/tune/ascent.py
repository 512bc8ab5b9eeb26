"""Capped ascent: a likelihood loss whose exact minimiser never has a smaller α(λ) than the model before the step.

A model that cannot fit the PR projection may lose when it is refitted to it. With `R = min(λ p, q_old)/α_old(λ)`,
Jensen's inequality gives for every density q

    log α_q(λ) ≥ log α_old(λ) + E_R[min(log q, log λp) − min(log q_old, log λp)],

with equality at q = q_old. The loss is minus the right-hand side up to a constant (docs/theory.md, Training losses).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from precall.theory import checks


def capped_ascent(
    log_q: Tensor, *, log_q_old: Tensor, log_ratio: Tensor, lam: float, source: str, reduction: str = "mean"
) -> Tensor:
    """The loss `−E_R[min(log q, log λp)]` of a likelihood model, with `R ∝ min(λ p, q_old)`.

    The points are draws of the old model, weighted with `min(1, λ r)`, or data, weighted with `min(1, 1/(λ r))`, with
    the same expectation. Draws have the lower variance for λ ≥ 1 and data for λ < 1. It fits every model with an exact
    log-likelihood: flows, and autoregressive models with the sum of the log-probabilities of a text's tokens.

    Args:
        log_q: log-likelihood of the points under the model in training, shape (n,), with gradient.
        log_q_old: their log-likelihood under the model before the step, shape (n,).
        log_ratio: their log-ratio log p/q_old, known or estimated, shape (n,).
        lam: λ > 0; large values favour precision, small values recall.
        source: "fake" if the points are draws of the old model, "real" if they are data.
        reduction: "mean" for the weighted mean, "none" for the n terms, whose mean is the same number.

    Example:
        >>> log_q = torch.log(torch.tensor([0.2, 0.8]))
        >>> log_p = torch.log(torch.tensor([0.5, 0.5]))
        >>> loss = capped_ascent(log_q, log_q_old=log_q, log_ratio=log_p - log_q, lam=1.0, source="fake")
        >>> expected = -(math.log(0.2) + 0.625 * math.log(0.5)) / 1.625  # weights 1 and 0.5/0.8; the second is capped
        >>> round(loss.item(), 6) == round(expected, 6)
        True
    """
    checks.choice("source", source, ("fake", "real"))
    checks.choice("reduction", reduction, ("mean", "none"))
    slope = log_ratio.detach() + math.log(checks.positive("lam", lam))  # log λ r
    weight = (slope if source == "fake" else -slope).clamp(max=0).exp()
    if not bool(weight.sum() > 0):
        raise ValueError("`log_ratio` must leave a point with positive weight; model and data have nothing in common.")
    # log λp = log q_old + log λr is the cap; points without weight may have infinite logarithms
    least = torch.where(weight > 0, torch.minimum(log_q, log_q_old.detach() + slope), 0.0)
    terms = -weight / weight.mean() * least
    return terms.mean() if reduction == "mean" else terms
