"""Better samples from a finished model or a finished heap of samples, within a budget. Names load when used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from precall.improve.diffusion import Denoised as Denoised
    from precall.improve.diffusion import sample_with_rejection as sample_with_rejection
    from precall.improve.latent import LatentGenerator as LatentGenerator
    from precall.improve.plan import Plan as Plan
    from precall.improve.plan import plan as plan
    from precall.improve.ratio import Ratio as Ratio
    from precall.improve.sampling import Refined as Refined
    from precall.improve.sampling import SamplingError as SamplingError
    from precall.improve.sampling import sample as sample
    from precall.improve.select import Selection as Selection
    from precall.improve.select import select as select

_HOME = {
    "Denoised": "precall.improve.diffusion",
    "LatentGenerator": "precall.improve.latent",
    "Plan": "precall.improve.plan",
    "Ratio": "precall.improve.ratio",
    "Refined": "precall.improve.sampling",
    "SamplingError": "precall.improve.sampling",
    "Selection": "precall.improve.select",
    "plan": "precall.improve.plan",
    "sample": "precall.improve.sampling",
    "sample_with_rejection": "precall.improve.diffusion",
    "select": "precall.improve.select",
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


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'precall.improve' has no attribute {name!r}")
    # kept here: importing `precall.improve.plan` would otherwise leave the module under the function's name
    globals()[name] = value = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
