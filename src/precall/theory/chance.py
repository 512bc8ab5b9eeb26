"""What k-NN scores come to when the model is the data: exact expectations under P = Q, for any continuous P.

If all points, N real and M fake, are independent draws of one law without ties, the neighbours of a point, from near to
far, are in random order of real and fake. So every count in a k-NN ball is a draw without replacement, whatever the law
and the dimension. No score means much without this number beside it: coverage at N = M and k = 5 comes to 0.969.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from precall.theory import checks
from precall.theory.arrays import Array


def expected_coverage(*, n_real: int, n_fake: int, k: int) -> float:
    """E[coverage] under P = Q: the chance that some fake comes before the k-th other real sample.

        E = 1 − Π_{j<k} (N − 1 − j) / (N + M − 1 − j)   →   1 − (N / (N + M))^k

    An expectation, not a maximum: copies of the data have coverage 1.

    Example:
        >>> round(expected_coverage(n_real=1000, n_fake=1000, k=5), 4)
        0.969

    References:
        Naeem et al. (2020), Lemma 2, made exact (docs/theory.md, Neighbours).
    """
    _check_sizes(n_real=n_real, n_fake=n_fake, k=k, centres=n_real)
    j = np.arange(k)
    return float(1 - np.prod((n_real - 1 - j) / (n_real + n_fake - 1 - j)))


def expected_recall_cover(*, n_real: int, n_fake: int, k: Any, k_prime: int) -> Any:
    """E[RC_{k,k'}] under P = Q: the chance that k fakes come before the k'-th other real sample; k may be an array.

    References:
        Cheema and Urner (2023), Def. 2; docs/theory.md, Neighbours.
    """
    _check_sizes(n_real=n_real, n_fake=n_fake, k=k_prime, centres=n_real)
    wanted = np.ceil(np.minimum(checks.nonnegative("k", k), n_fake + 1)).astype(int)
    law = ball_count_law(centres=n_real, others=n_fake, k=k_prime, most=int(wanted.max(initial=0)))
    fewer = np.append(0.0, law.cumsum().clip(max=1))[wanted]
    return np.where(wanted <= n_fake, 1 - fewer, 0.0)[()]


def ball_count_law(*, centres: int, others: int, k: int, most: int | None = None) -> Array:
    """Law of the number of samples of the other set in a k-NN ball under P = Q, up to `most`: negative hypergeometric.

    P(c) = C(c + k − 1, c) C(n − 1 − k + m − c, m − c) / C(n − 1 + m, m),        0 ≤ c ≤ m, n centres, m others
    """
    _check_sizes(n_real=centres, n_fake=others, k=k, centres=centres)
    j, c = np.arange(k), np.arange(min(others, others if most is None else most))
    none = np.log((centres - 1 - j) / (centres + others - 1 - j)).sum()
    growth = np.log((c + k) / (c + 1) * ((others - c) / (centres - 1 - k + others - c)))  # log P(c + 1)/P(c)
    return np.asarray(np.exp(none + np.append(0.0, growth.cumsum())))


@lru_cache(1024)
def expected_clipped_coverage(*, n_real: int, n_fake: int, k: int) -> float:
    """E[mean_i min(c_i, k)/k] under P = Q, for c_i fakes in the k-NN ball of real i (Salvy et al., 2026)."""
    law = ball_count_law(centres=n_real, others=n_fake, k=k, most=k - 1)
    return float(1 - law @ (k - np.arange(len(law))) / k)


def inverted_clipped_coverage(share: float, *, n_real: int, n_fake: int, k: int) -> float:
    """M'/M for which M' fakes of the data have the expected clipped coverage `share`; 1 if `share` is larger still.

    Example:
        >>> share = expected_clipped_coverage(n_real=1000, n_fake=300, k=5)
        >>> round(inverted_clipped_coverage(share, n_real=1000, n_fake=1000, k=5), 6)
        0.3
    """

    def expected(good: int) -> float:
        return expected_clipped_coverage(n_real=n_real, n_fake=good, k=k) if good else 0.0

    if share >= expected(n_fake):
        return 1.0
    low, high = 0, n_fake
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if expected(middle) <= share else (low, middle)
    below, above = expected(low), expected(high)
    return (low + (share - below) / (above - below)) / n_fake


def chance_corrected(value: float, chance: float) -> float:
    """(value − chance) / (1 − chance): 0 if the score is what P = Q gives, 1 if it is 1, negative below chance."""
    chance = float(checks.numbers("chance", chance))
    if chance >= 1:
        raise ValueError(f"`chance` must be less than 1, or nothing is left to correct; got {chance:g}.")
    return (float(checks.numbers("value", value)) - chance) / (1 - chance)


def _check_sizes(*, n_real: int, n_fake: int, k: int, centres: int) -> None:
    for name, n in (("n_real", n_real), ("n_fake", n_fake)):
        if n < 1:
            raise ValueError(f"`{name}` must be at least 1; got {n}.")
    if not 1 <= k < centres:
        raise ValueError(
            f"`k` must be between 1 and {centres - 1}, one less than the samples the balls surround; got {k}."
        )
