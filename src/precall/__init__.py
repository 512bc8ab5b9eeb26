"""precall: precision and recall of generative models.

Assess a model's samples against data: are they good (precision), do they cover the data (recall)? Tune a model to the
trade-off you choose, improve the samples of a finished one. Everything is read off one object, the `RatioSpectrum`.
Names load when used, so `import precall` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from precall.lazy import lazily

__version__ = "0.1.0"

if TYPE_CHECKING:
    from precall import (
        encoders as encoders,
        improve as improve,
        metrics as metrics,
        samples as samples,
        theory as theory,
        tune as tune,
    )
    from precall.metrics.assessing.assessment import Reference as Reference, assess as assess, tradeoff as tradeoff
    from precall.metrics.protocols.tradeoff import Tradeoff as Tradeoff
    from precall.metrics.scale.sketch import Sketch as Sketch, merge_sketches as merge_sketches
    from precall.metrics.scores.results import Assessment as Assessment, Comparison as Comparison
    from precall.report.folder import load as load
    from precall.theory.divergences import Divergence as Divergence
    from precall.theory.spectrum import RatioSpectrum as RatioSpectrum

_ROOMS = ("encoders", "improve", "metrics", "samples", "theory", "tune")
_MODULES = {
    "metrics.assessing.assessment": "Reference assess tradeoff",
    "metrics.protocols.tradeoff": "Tradeoff",
    "metrics.scale.sketch": "Sketch merge_sketches",
    "metrics.scores.results": "Assessment Comparison",
    "report.folder": "load",
    "theory.divergences": "Divergence",
    "theory.spectrum": "RatioSpectrum",
}
_load, _, _NAMES = lazily(__name__, _MODULES)

__all__ = [*_NAMES, *_ROOMS, "__version__"]


def __getattr__(name: str) -> Any:
    return import_module(f"precall.{name}") if name in (*_ROOMS, "dial") else _load(name)


def __dir__() -> list[str]:
    return sorted(__all__)
