"""What a preset does in an assessment: it prepares the features, and chooses the scores that are reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from precall.metrics.inputs.features import Pair, device_of, moved
from precall.metrics.inputs.sides import Side
from precall.metrics.protocols.presets import UNIT_PCA, Preset
from precall.metrics.scores.record import PresetRecord
from precall.metrics.scores.results import Assessment

SHARE = 0.9  # of the variance
NEEDED = {"sfid": "spatial", "is": "classes"}  # metric: the output of the encoder that it needs


def normalised_sides(preset: Preset, *, real: Side, fake: Side) -> tuple[Side, Side]:
    """Both sides with the normalisation of the preset."""
    if preset.normalisation != UNIT_PCA:
        return real, fake
    pair = unit_principal_axes(Pair(real.features, fake.features))
    return replace(real, features=pair.real), replace(fake, features=pair.fake)


def reported(preset: Preset, found: Assessment, left_out: Sequence[str]) -> Assessment:
    """The scores of the preset, with its choices and all departures from it in the protocol."""
    n_real, n_fake = found.record.n_real, found.record.n_fake
    departures = preset.departures(encoder=found.encoder, n_real=n_real, n_fake=n_fake)
    departures += [f"no {metric}: the encoder has no output for it" for metric in left_out]
    scores = {score: found.scores[score] for score in preset.scores if score in found.scores}
    about = PresetRecord.from_dict({**preset.to_dict(), "departures": departures})
    return replace(found, scores=scores, record=replace(found.record, preset=about))


def unit_principal_axes(pair: Pair) -> Pair:
    """Rows scaled to length 1, on the principal axes of both sets together that hold 90 % of the variance.

    This is how MAUVE and evaluations of language models prepare embeddings. The axes depend on both sets, so that each
    model is compared in its own coordinates. A row of zeros stays as it is.

    References:
        Pillutla et al. (2021); Le Bronnec et al. (2024).
    """
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import normalize

    real, fake = (np.asarray(x, dtype=np.float64) for x in pair.to_numpy())
    union = normalize(np.concatenate([real, fake]))
    # Rounding errors of identical rows are no variance.
    if np.ptp(union, axis=0).max() <= 1e-12:
        axes = np.zeros((len(union), 1))
    else:
        axes = PCA(SHARE, svd_solver="full").fit_transform(union)
    device = device_of(pair.real)
    return Pair(moved(axes[: len(real)], device), moved(axes[len(real) :], device))
