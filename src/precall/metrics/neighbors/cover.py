"""The precision-recall curve from counts in k-NN balls: precision-recall cover at all slopes."""

from __future__ import annotations

import numpy as np

from precall.theory.arrays import Counts
from precall.theory.chance import ball_count_law
from precall.theory.spectrum import RatioSpectrum


def cover_spectrum(*, fakes_in_ball: Counts, reals_in_ball: Counts, k: int) -> RatioSpectrum:
    """Spectrum from the counts in k-NN balls: the score of a sample is its local density ratio, real over fake.

    A ball of k' reals (mass k'/N) that contains c fakes (mass c/M) has the ratio (k'/N)/(c/M). A ball of k' fakes that
    contains c reals has the ratio (c/N)/(k'/M). The curve of the spectrum is the concave version of
    precision-recall cover, which thresholds the same ratios at 1/λ (docs/theory.md, Neighbours).
    """
    scale = len(reals_in_ball) / len(fakes_in_ball)
    with np.errstate(divide="ignore"):
        real = k * scale / fakes_in_ball
    return RatioSpectrum.from_scores(real=real, fake=reals_in_ball * scale / k)


def spectra_by_chance(*, n_real: int, n_fake: int, k: int, draws: int = 16) -> list[RatioSpectrum]:
    """Spectra as `cover_spectrum` gives them under P = Q, from independent draws of the exact law of the counts.

    The law is that of `precall.theory.chance.ball_count_law`, whatever the distribution and its dimension. Counts of
    neighbouring balls depend on each other, and those drawn here do not; this hardly changes the mean of a reading.
    """
    rng = np.random.default_rng(0)
    fakes, reals = (
        ball_count_law(centres=n, others=others, k=k).cumsum() for n, others in ((n_real, n_fake), (n_fake, n_real))
    )
    return [
        cover_spectrum(
            fakes_in_ball=np.minimum(np.searchsorted(fakes, rng.random(n_real)), n_fake),
            reals_in_ball=np.minimum(np.searchsorted(reals, rng.random(n_fake)), n_real),
            k=k,
        )
        for _ in range(draws)
    ]
