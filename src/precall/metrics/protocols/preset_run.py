"""What a preset does in an assessment: it prepares the features, and chooses the scores that are reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from precall.metrics.inputs.features import Pair
from precall.metrics.inputs.normalisation import unit_principal_axes
from precall.metrics.inputs.sides import Side
from precall.metrics.protocols.presets import UNIT_PCA, Preset
from precall.metrics.scores.record import PresetRecord
from precall.metrics.scores.results import Assessment

NEEDED = {"sfid": "spatial", "is": "classes"}  # metric: the output of the encoder that it needs


def available(names: Sequence[str], fake: Side) -> tuple[list[str], list[str]]:
    """The metrics that can be computed from the outputs of the encoder, and those that must be left out."""
    left_out = [name for name in names if name in NEEDED and NEEDED[name] not in fake.outputs]
    return [name for name in names if name not in left_out], left_out


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
