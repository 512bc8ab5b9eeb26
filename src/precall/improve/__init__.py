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
    from precall.improve.blending import Blend as Blend
    from precall.improve.blending import blend as blend
    from precall.improve.calibration import RatioWarning as RatioWarning
    from precall.improve.choosing import DialChoice as DialChoice
    from precall.improve.choosing import DialSetting as DialSetting
    from precall.improve.choosing import dial as dial
    from precall.improve.guidance import Guided as Guided
    from precall.improve.guidance import RatioGuided as RatioGuided
    from precall.improve.judging import plan as plan
    from precall.improve.knobs import CentralKnob as CentralKnob
    from precall.improve.knobs import FunctionKnob as FunctionKnob
    from precall.improve.knobs import Knob as Knob
    from precall.improve.knobs import RejectionKnob as RejectionKnob
    from precall.improve.knobs import TruncationKnob as TruncationKnob
    from precall.improve.latent import LatentGenerator as LatentGenerator
    from precall.improve.planning import Plan as Plan
    from precall.improve.ratio import Ratio as Ratio
    from precall.improve.sampling import Refined as Refined
    from precall.improve.sampling import SamplingError as SamplingError
    from precall.improve.sampling import sample as sample
    from precall.improve.selection import Selection as Selection
    from precall.improve.selection import select as select
    from precall.improve.targets import surplus as surplus
    from precall.improve.targets import target as target

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
    "sampling": "Refined SamplingError sample",
    "selection": "Selection select",
    "targets": "surplus target",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}
__all__ = [*_HOME]
__getattr__, __dir__ = lazily(__name__, _HOME)
