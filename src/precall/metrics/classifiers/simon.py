"""The estimator of Simon et al. (2019): an ensemble of ten linear classifiers, trained as one batched problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from precall.metrics.classifiers.calibration import calibrated
from precall.metrics.classifiers.folds import Matrix, joined, spread
from precall.metrics.classifiers.result import ClassifierResult, certify
from precall.metrics.features import Pair, check_count
from precall.metrics.metric import CURVE_SCORES, Found, Metric, curve_found
from precall.theory.arrays import Array, Flags
from precall.theory.spectrum import RatioSpectrum

if TYPE_CHECKING:
    import torch

    from precall.metrics.run import Run

ENSEMBLE = 10
FEWEST = 20  # samples of each kind
EPOCHS, BATCH = 50, 128
RATE, DECAY = 1e-3, 0.1


def simon_ensemble(*, real: object, fake: object, seed: int = 0) -> ClassifierResult:
    """Precision-recall curve of the paper's ensemble: the median of 10 linear classifiers on one coin-flip split.

    Sample i of each set form a pair; a fair coin sends one of the two to the training half, the other to the test half.
    Every member minimises the log-loss of `w·x` by Adam (rate 10⁻³ falling to 0 along a cosine, 50 epochs, weight
    decay 0.1), from its own start and on its own minibatches; the score of a test point is the median of the ten. The
    spectrum is that of the test scores, exact for all λ. Sets of unequal size are paired as far as they go, and the
    rest of the larger set is split by its own coins.

    What the paper leaves open is settled as in its public code: no bias, features as they are (not standardised),
    the decay as an L2 penalty inside the gradient. The early stopping of that code, on the half the curve is read from,
    is left out: it would void the certificate.

    Args:
        real: real features, shape (n, d), n ≥ 20.
        fake: fake features, shape (m, d), m ≥ 20.
        seed: seeds coins, starts and minibatches.

    Returns:
        The result on the test half; scores and ratios of the samples that trained are NaN.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> result = simon_ensemble(real=rng.normal(size=(400, 2)), fake=rng.normal(size=(400, 2)) + [2.0, 0.0])
        >>> result.accuracy > 0.75, result.p_value < 1e-6
        (True, True)

    References:
        Simon et al. (2019), Algorithm 1 and section 6, with the missing threshold ∞ (docs/errata.md, SIM-2).
    """
    return ensemble_of_pair(Pair.checked(real=real, fake=fake), seed=seed)


def ensemble_of_pair(pair: Pair, *, seed: int) -> ClassifierResult:
    """The same for checked features."""
    for name, n in zip(("real", "fake"), pair.sizes, strict=True):
        check_count(name, n, FEWEST)
    x, is_real = joined(*pair.to_numpy())
    rng = np.random.default_rng(seed)
    training = coin_flips(int(is_real.sum()), int((~is_real).sum()), rng)
    tested = is_real[~training]
    judged = ensemble_scores(x[training], is_real[training], x[~training], seed)
    scores, log_ratio = np.full(len(x), np.nan), np.full(len(x), np.nan)
    scores[~training] = judged
    log_ratio[~training] = calibrated(judged, tested, spread(tested, 5, rng))
    return ClassifierResult(
        name="simon",
        spectrum=RatioSpectrum.from_scores(real=judged[tested], fake=judged[~tested]),
        log_ratio_real=log_ratio[is_real],
        log_ratio_fake=log_ratio[~is_real],
        scores_real=scores[is_real],
        scores_fake=scores[~is_real],
        settings={"members": ENSEMBLE, "epochs": EPOCHS, "batch": BATCH, "weight_decay": DECAY, "seed": seed},
        **certify(judged, tested),
    )


def coin_flips(n: int, m: int, rng: np.random.Generator) -> Flags:
    """Which of the n real and m fake samples train: of each pair (i, i) exactly one, the rest by their own coins."""
    coins = rng.random(max(n, m)) < 0.5
    return np.concatenate([coins[:n], ~coins[:m]])


def ensemble_scores(train: Matrix, labels: Flags, test: Matrix, seed: int) -> Array:
    """Median over the members of `w·x` at the test points; all members are one tensor, one step moves them all."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    x, y = torch.from_numpy(train).float(), torch.from_numpy(labels).float()
    bound = train.shape[1] ** -0.5
    w = ((2 * torch.rand(ENSEMBLE, train.shape[1], generator=generator) - 1) * bound).requires_grad_()
    optimiser = torch.optim.Adam([w], lr=RATE, weight_decay=DECAY)
    batches = -(-len(x) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, EPOCHS * batches)
    for _ in range(EPOCHS):
        for rows in _shuffled_batches(len(x), batches, generator):
            optimiser.zero_grad(set_to_none=True)
            _log_loss(w, x[rows], y[rows]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
    with torch.no_grad():
        logits = torch.from_numpy(test).float() @ w.T
        middle = logits.sort(dim=1).values[:, [ENSEMBLE // 2 - 1, ENSEMBLE // 2]]  # an even number has two medians
    return np.asarray(middle.double().mean(dim=1))


def _shuffled_batches(n: int, batches: int, generator: torch.Generator) -> list[torch.Tensor]:
    """Row indices (members, batch) of one epoch: every member walks the points in its own order."""
    import torch

    order = torch.rand(ENSEMBLE, n, generator=generator).argsort(dim=1)
    return list(torch.tensor_split(order, batches, dim=1))


def _log_loss(w: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Sum over the members of their mean log-loss: their gradients do not mix."""
    import torch

    logits = torch.bmm(x, w[:, :, None])[..., 0]
    return torch.nn.functional.softplus(torch.where(y > 0, -logits, logits)).mean(dim=1).sum()


def _compute(run: Run) -> Found:
    found = run.classifiers["simon"] = ensemble_of_pair(run.pair, seed=run.seed)
    return curve_found(run, found.spectrum, found.spectrum_of, {"estimator": "simon", **found.settings})


SIMON = Metric(
    name="simon",
    reads="the paper's ensemble: the median of ten linear classifiers on one coin-flip split (Simon et al.)",
    scores=CURVE_SCORES,
    interval="disjoint subsamples of the judged half: the expectation at these sizes, given the classifiers",
    compute=_compute,
    is_curve=True,
    fewest=FEWEST,
)
