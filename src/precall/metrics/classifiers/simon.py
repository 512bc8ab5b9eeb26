"""The estimator of Simon et al. (2019): an ensemble of ten linear classifiers, trained as one batched problem."""

from __future__ import annotations

import numpy as np

from precall.lazy import torch
from precall.metrics.assessing.run import Run
from precall.metrics.classifiers.calibration import calibrated
from precall.metrics.classifiers.folds import joined, spread
from precall.metrics.classifiers.held_out import HeldOutScores
from precall.metrics.classifiers.result import ClassifierResult, certify
from precall.metrics.inputs.features import Pair, check_count
from precall.metrics.members.views import enlarged
from precall.metrics.scores.metric import Found, Metric, curve_found
from precall.metrics.scores.score import CURVE_SCORES
from precall.theory.arrays import Array, Flags, Matrix, to_numpy

ENSEMBLE = 10
FEWEST = 20  # samples per class
EPOCHS, BATCH, RATE, DECAY = 50, 128, 1e-3, 0.1


def simon_ensemble(*, real: object, fake: object, seed: int = 0) -> ClassifierResult:
    """Precision-recall curve of the paper's ensemble: the median of 10 linear classifiers on one coin-flip split.

    The i-th samples of both sets form a pair; a fair coin assigns one of the two to the training half and the other to
    the test half. If the sets differ in size, the remaining samples of the larger set are assigned by their own coins.
    Each member minimises the log-loss of the logit `w·x` by Adam (learning rate 10⁻³ with a cosine schedule to 0, 50
    epochs, weight decay 0.1), with its own initial weights and minibatches. The score of a test point is the median of
    the ten logits. The spectrum is computed exactly from the test scores, for all λ; scores and ratios of the training
    samples are NaN. Each set needs at least 20 samples.

    Details that the paper does not state follow its public code: no bias, no standardisation of the features, and
    weight decay as an L2 penalty in the gradient. That code stops early on the half from which the curve is estimated;
    this step is omitted, because it would invalidate the certificate.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> result = simon_ensemble(real=rng.normal(size=(400, 2)), fake=rng.normal(size=(400, 2)) + [2.0, 0.0])
        >>> result.accuracy > 0.75, result.p_value < 0.001
        (True, True)

    References:
        Simon et al. (2019), Algorithm 1 and section 6, with the missing threshold ∞ (docs/errata.md, SIM-2).
    """
    return ensemble_of_pair(Pair.checked(real=real, fake=fake), seed=seed)


def ensemble_of_pair(pair: Pair, *, seed: int) -> ClassifierResult:
    """`simon_ensemble` for features that have been checked already."""
    for name, n in zip(("real", "fake"), pair.sizes, strict=True):
        check_count(name, n, FEWEST)
    joint, is_real = joined(pair)
    x = to_numpy(enlarged(joint))
    rng = np.random.default_rng(seed)
    training = coin_flips(int(is_real.sum()), int((~is_real).sum()), rng)
    tested = is_real[~training]
    test_scores = ensemble_scores(x[training], is_real[training], x[~training], seed)
    scores, log_ratio = np.full(len(x), np.nan), np.full(len(x), np.nan)
    scores[~training] = test_scores
    held_out = HeldOutScores(test_scores, tested, spread(tested, 5, rng))
    log_ratio[~training] = calibrated(test_scores, tested, held_out.fold)
    return ClassifierResult(
        name="simon",
        spectrum=held_out.spectrum(),
        log_ratio_real=log_ratio[is_real],
        log_ratio_fake=log_ratio[~is_real],
        scores_real=scores[is_real],
        scores_fake=scores[~is_real],
        settings={"members": ENSEMBLE, "epochs": EPOCHS, "batch": BATCH, "weight_decay": DECAY, "seed": seed},
        held_out=held_out,
        **certify(test_scores, tested),
    )


def coin_flips(n: int, m: int, rng: np.random.Generator) -> Flags:
    """Whether each of the n real and m fake samples is in the training half; exactly one of each pair (i, i) is."""
    coins = rng.random(max(n, m)) < 0.5
    return np.concatenate([coins[:n], ~coins[:m]])


def ensemble_scores(train: Matrix, labels: Flags, test: Matrix, seed: int) -> Array:
    """Median over the members of `w·x` at the test points. All members are trained together, as one tensor."""
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.from_numpy(train).float(), torch.from_numpy(labels).float()
    bound = train.shape[1] ** -0.5
    w = ((2 * torch.rand(ENSEMBLE, train.shape[1], generator=generator) - 1) * bound).requires_grad_()
    optimiser = torch.optim.Adam([w], lr=RATE, weight_decay=DECAY)
    batches = -(-len(x) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, EPOCHS * batches)
    for _ in range(EPOCHS):
        order = torch.rand(ENSEMBLE, len(x), generator=generator).argsort(dim=1)  # every member has its own
        for rows in torch.tensor_split(order, batches, dim=1):
            optimiser.zero_grad(set_to_none=True)
            logits = torch.bmm(x[rows], w[:, :, None])[..., 0]
            # −log σ(w·x) for real points and −log σ(−w·x) for fake ones (Simon et al., 2019, section 6)
            losses = torch.nn.functional.softplus(torch.where(y[rows] > 0, -logits, logits))
            losses.mean(dim=1).sum().backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
    with torch.no_grad():
        logits = torch.from_numpy(test).float() @ w.T
        # the median of an even number is the mean of the two middle values
        middle = logits.sort(dim=1).values[:, [ENSEMBLE // 2 - 1, ENSEMBLE // 2]]
    return np.asarray(middle.double().mean(dim=1))


def _compute(run: Run) -> Found:
    found = run.classifiers["simon"] = ensemble_of_pair(run.pair, seed=run.seed)
    return curve_found(run, found.spectrum, **found.uncertainty(seed=run.seed))


SIMON = Metric(
    name="simon",
    reads="the paper's ensemble: the median of ten linear classifiers on one coin-flip split (Simon et al.)",
    scores=CURVE_SCORES,
    interval="bootstrap of the test half, given the classifiers",
    compute=_compute,
    is_curve=True,
    fewest=FEWEST,
    shares="classifiers",
)
