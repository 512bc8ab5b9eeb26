"""Better samples from a finished model or a finished heap of samples, within a budget. Names load when used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from precall.lazy import lazily

if TYPE_CHECKING:
    from precall.improve.diffusion import Denoised as Denoised
    from precall.improve.diffusion import sample_with_rejection as sample_with_rejection
    from precall.improve.latent import LatentGenerator as LatentGenerator
    from precall.improve.planning import Plan as Plan
    from precall.improve.planning import plan as plan
    from precall.improve.ratio import Ratio as Ratio
    from precall.improve.sampling import Refined as Refined
    from precall.improve.sampling import SamplingError as SamplingError
    from precall.improve.sampling import sample as sample
    from precall.improve.selection import Selection as Selection
    from precall.improve.selection import select as select

_HOME = {
    "Denoised": "diffusion",
    "LatentGenerator": "latent",
    "Plan": "planning",
    "Ratio": "ratio",
    "Refined": "sampling",
    "SamplingError": "sampling",
    "Selection": "selection",
    "plan": "planning",
    "sample": "sampling",
    "sample_with_rejection": "diffusion",
    "select": "selection",
}

__all__ = [
    "Denoised",
    "LatentGenerator",
    "Plan",
    "Ratio",
    "Refined",
    "SamplingError",
    "Selection",
    "plan",
    "sample",
    "sample_with_rejection",
    "select",
]

__getattr__, __dir__ = lazily(__name__, _HOME)
