"""Better samples from a finished model, or from a finished set of samples, within a budget of K draws per sample.

What happens after training: density ratios (`ratio`, `calibration`, `distillation`), `sample` (`rejection`, `latent`),
selection among existing samples (`judging`, `selection`, `targets`), guidance, what a budget achieves (`planning`,
`evidence`), the best mixture of models (`blending`), and sampling-time knobs (`knobs`, `choosing`). Training does not
belong here: see `precall.tune`, which this room never imports. Mathematics without samples is in `precall.theory`, and
the estimation of ratios from two sample sets in `precall.metrics`. Names are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from precall.lazy import lazily

if TYPE_CHECKING:
    from precall.improve.blending import Blend as Blend, blend as blend
    from precall.improve.calibration import RatioWarning as RatioWarning
    from precall.improve.choosing import DialChoice as DialChoice, DialSetting as DialSetting, dial as dial
    from precall.improve.guidance import Guided as Guided, RatioGuided as RatioGuided
    from precall.improve.judging import plan as plan
    from precall.improve.knobs import (
        CentralKnob as CentralKnob,
        FunctionKnob as FunctionKnob,
        Knob as Knob,
        RejectionKnob as RejectionKnob,
        TruncationKnob as TruncationKnob,
    )
    from precall.improve.latent import LatentGenerator as LatentGenerator
    from precall.improve.planning import Plan as Plan
    from precall.improve.ratio import Ratio as Ratio
    from precall.improve.sampling import sample as sample
    from precall.improve.selection import Selection as Selection, select as select
    from precall.improve.source import Refined as Refined, SamplingError as SamplingError
    from precall.improve.targets import surplus as surplus, target as target

_MODULES = {
    "blending": "Blend blend",
    "calibration": "RatioWarning",
    "choosing": "DialChoice DialSetting dial",
    "guidance": "Guided RatioGuided",
    "judging": "plan",
    "knobs": "CentralKnob FunctionKnob Knob RejectionKnob TruncationKnob",
    "latent": "LatentGenerator",
    "planning": "Plan",
    "ratio": "Ratio",
    "sampling": "sample",
    "selection": "Selection select",
    "source": "Refined SamplingError",
    "targets": "surplus target",
}
__getattr__, __dir__, __all__ = lazily(__name__, _MODULES)
