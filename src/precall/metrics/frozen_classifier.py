"""A classifier that is trained once and then frozen: histograms of its scores add up over shards of fakes.

The score is the log-ratio of two Gaussians with shrunken covariances, the member `quadratic` of the panel. It is
trained on one half of the reals and on a pilot of fakes. The other half of the reals, and fakes that are not in the
pilot, are independent of it, so their scores give a curve and a certificate. Scores are rounded down to one of 65,536
levels; a rounded score is itself a score, whose curve lies on or above the true one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from precall.metrics.classifiers.gaussians import shrunk_covariance
from precall.metrics.features import Features, float64, tiles
from precall.metrics.score import CURVE_SCORES, Score, bounded_interval, readings
from precall.theory.arrays import Array, Counts, to_numpy
from precall.theory.bands import Certificate, elliptic_constant
from precall.theory.hull import counted_blocks, hull_of_blocks
from precall.theory.spectrum import RatioSpectrum

LEVELS = 1 << 16
STEPS = 1 << 12  # levels per unit of arsinh(score): 1/4096 near 0, and to 0.02 % of large scores up to ±1,490
FEWEST = 50  # samples per set
RESAMPLES = 50
LEVEL = 0.95
COVERS = "the expectation of this score at these sample sizes, given the frozen classifier; its bias is not covered"


@dataclass(frozen=True, eq=False)
class FrozenClassifier:
    """The log-ratio of two Gaussians, `log p/q = ½ |W_q (x − m_q)|² − ½ |W_p (x − m_p)|² + offset`.

    Attributes:
        means: m_p of the reals and m_q of the fakes, shape (2, d).
        whitening: W_p and W_q, shape (2, d, d).
        offset: Difference of the log-determinants, shape (1,).
        held_out: Number of reals at each level that it was not trained on, shape (65536,).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> frozen = FrozenClassifier.trained(rng.normal(size=(600, 2)), rng.normal(size=(200, 2)) + [2, 0], seed=0)
        >>> fakes = frozen.histogram(rng.normal(size=(1000, 2)) + [2, 0])
        >>> abs(levels_spectrum(frozen.held_out, fakes).total_variation - 0.68) < 0.08  # the truth is 0.68
        True
    """

    means: Array
    whitening: Array
    offset: Array
    held_out: Counts

    @classmethod
    def trained(cls, real: Features, pilot: Features, *, seed: int) -> FrozenClassifier:
        """Train on a random half of the reals and on the pilot.

        Args:
            real: Checked features of the data, shape (n, d), n ≥ 100.
            pilot: Checked features of fakes that no shard contains, shape (m, d), m ≥ 50.
            seed: Seed of the halves.
        """
        for name, n, least in (("real", len(real), 2 * FEWEST), ("pilot", len(pilot), FEWEST)):
            if n < least:
                raise ValueError(f"`{name}` must hold at least {least} samples to train a classifier; got {n}.")
        order = np.random.default_rng(seed).permutation(len(real))
        rows, fakes = to_numpy(real), to_numpy(float64(pilot))
        half = np.asarray(rows[np.sort(order[: len(real) // 2])], dtype=np.float64)
        scale = np.maximum(half.std(axis=0), 1e-12 * max(1.0, float(np.abs(half).max())))
        fitted = [_gaussian(one, half.mean(axis=0), scale) for one in (half, fakes)]
        means, whitening, logs = (np.stack(part) for part in zip(*fitted, strict=True))
        untrained = cls(means, whitening, np.array([logs[0] - logs[1]]), np.zeros(LEVELS, dtype=np.int64))
        return cls(means, whitening, untrained.offset, untrained.histogram(rows[np.sort(order[len(real) // 2 :])]))

    def histogram(self, rows: Features) -> Counts:
        """Number of rows at each level of the score, shape (65536,)."""
        parts = (np.bincount(self._levels(to_numpy(tile)), minlength=LEVELS) for tile in tiles(rows))
        return reduce(np.add, parts)

    def _levels(self, rows: Array) -> npt.NDArray[np.intp]:
        """Level of each row. Rounding depends on how rows are cut into pieces, so a row on an edge is scored alone."""
        exact, slack = self._scored(rows)
        place, level = exact % 1.0, np.floor(exact)
        for row in np.flatnonzero(np.minimum(place, 1 - place) <= slack):
            level[row] = np.floor(self._scored(rows[row : row + 1])[0][0])
        return np.asarray(np.clip(level + LEVELS // 2, 0, LEVELS - 1), dtype=np.intp)

    def _scored(self, rows: Array) -> tuple[Array, Array]:
        """The score of each row in units of levels, and a bound on its rounding error."""
        real, fake = (
            (((rows - mean) @ white.T) ** 2).sum(1) for mean, white in zip(self.means, self.whitening, strict=True)
        )
        slack = 64 * (rows.shape[1] + 8) ** 2 * np.finfo(np.float64).eps * (1 + real + fake)
        return STEPS * np.arcsinh((fake - real) / 2 + self.offset[0]), STEPS * slack

    def arrays(self) -> dict[str, Array | Counts]:
        """The arrays by name, as a reference file stores them."""
        return {f"classifier_{name}": array for name, array in vars(self).items()}


def _gaussian(x: Array, centre: Array, scale: Array) -> tuple[Array, Array, Array]:
    """Mean, whitening matrix and log-determinant of it, of the Gaussian fitted to standardised samples."""
    from scipy.linalg import solve_triangular

    standard = (x - centre) / scale
    root = np.linalg.cholesky(shrunk_covariance(standard))
    white = solve_triangular(root, np.diag(1 / scale), lower=True)
    return x.mean(axis=0), np.asarray(white), np.asarray(-np.log(np.diag(root)).sum())


def levels_spectrum(real: Counts, fake: Counts) -> RatioSpectrum:
    """Spectrum of the curve of two histograms of levels."""
    blocks = counted_blocks(np.arange(len(real), dtype=np.float64), real, fake)
    return RatioSpectrum.from_masses(p=blocks.p, q=blocks.q)


def levels_certificate(real: Counts, fake: Counts) -> Certificate:
    """Simultaneous 95 % upper band on the true curve, from samples that are independent of the classifier."""
    n, m = int(real.sum()), int(fake.sum())
    fpr, fnr = hull_of_blocks(counted_blocks(np.arange(len(real), dtype=np.float64), real, fake))
    of_real, of_fake = (float(elliptic_constant(1 - LEVEL) / np.sqrt(size)) for size in (n, m))
    return Certificate(fpr, fnr, of_real, of_fake, "elliptic", LEVEL, n, m)


def level_scores(real: Counts, fake: Counts, *, seed: int) -> dict[str, Score]:
    """The scores of the curve of a frozen classifier, with intervals and their expectation under P = Q.

    Args:
        real: Number of held-out reals at each level.
        fake: Number of fakes at each level.
        seed: Seed of the bootstrap.
    """
    from scipy.special import stdtrit

    rng, n, m = np.random.default_rng(seed), int(real.sum()), int(fake.sum())
    used = np.flatnonzero(real + fake)
    real, fake = real[used], fake[used]

    def drawn(p: Array, q: Array) -> dict[str, float]:
        return readings(levels_spectrum(rng.multinomial(n, p), rng.multinomial(m, q)))

    values, pooled = readings(levels_spectrum(real, fake)), (real + fake) / (n + m)
    resampled = [drawn(real / n, fake / m) for _ in range(RESAMPLES)]
    by_chance = [drawn(pooled, pooled) for _ in range(RESAMPLES)]
    quantile = float(stdtrit(RESAMPLES - 1, (1 + LEVEL) / 2))
    settings = {"estimator": "quadratic", "training": "frozen on half of the reals and a pilot"}
    return {
        info.name: Score(
            values[info.name],
            bounded_interval(
                values[info.name],
                quantile * float(np.std([one[info.name] for one in resampled], ddof=1)),
                low=info.low,
                high=info.high,
                n=min(n, m),
                covers=COVERS,
            ),
            float(np.mean([one[info.name] for one in by_chance])),
            n,
            m,
            settings,
        )
        for info in CURVE_SCORES
    }
