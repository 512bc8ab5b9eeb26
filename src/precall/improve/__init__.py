"""Better samples from a finished model, or from a finished set of samples, within a budget of K draws per sample.

This room holds what happens after training: density ratios and their `calibration` (`ratio`), `sample` with
its methods (`rejection`) and generators (`latent`), the selection among existing samples (`judging`, `selection`), the
samples on which to fine-tune a model or a guide of it (`targets`, `guidance`), the prediction of what a budget achieves
(`planning`, `evidence`), the best mixture of models (`blending`), and the sampling-time knobs of a generator (`knobs`)
with the choice of the cheapest one that reaches a trade-off (`choosing`). Training does not belong here: see
`precall.tune`, which this room never imports. Acceptance rules and other mathematics without samples are in
`precall.theory`, and the estimation of ratios from two sample sets is in `precall.metrics`. Names are loaded on first
use.
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

_HOME = {
    "CentralKnob": "knobs",
    "DialChoice": "choosing",
    "DialSetting": "choosing",
    "FunctionKnob": "knobs",
    "Guided": "guidance",
    "Knob": "knobs",
    "LatentGenerator": "latent",
    "Blend": "blending",
    "Plan": "planning",
    "Ratio": "ratio",
    "RatioGuided": "guidance",
    "RatioWarning": "calibration",
    "Refined": "sampling",
    "RejectionKnob": "knobs",
    "SamplingError": "sampling",
    "Selection": "selection",
    "TruncationKnob": "knobs",
    "blend": "blending",
    "dial": "choosing",
    "plan": "judging",
    "sample": "sampling",
    "select": "selection",
    "surplus": "targets",
    "target": "targets",
}
__all__ = [*_HOME]
__getattr__, __dir__ = lazily(__name__, _HOME)
