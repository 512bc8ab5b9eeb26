"""Choose among the ways to move a generator to a trade-off λ, or to a recall that must be reached.

This room holds the sampling-time knobs of a generator behind one interface (`knobs`) and the choice of the cheapest one
that reaches the wanted trade-off (`choosing`). It stands above `precall.improve` and `precall.tune`, which never import
each other. How a setting is measured does not belong here: see `precall.metrics`, whose `tradeoff` is used. Rejection
and truncation themselves are in `precall.improve`. Names are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from precall.lazy import lazily

if TYPE_CHECKING:
    from precall.dial.choosing import DialChoice as DialChoice
    from precall.dial.choosing import DialSetting as DialSetting
    from precall.dial.choosing import dial as dial
    from precall.dial.knobs import CentralKnob as CentralKnob
    from precall.dial.knobs import FunctionKnob as FunctionKnob
    from precall.dial.knobs import Knob as Knob
    from precall.dial.knobs import RejectionKnob as RejectionKnob
    from precall.dial.knobs import TruncationKnob as TruncationKnob

_HOME = {
    "CentralKnob": "knobs",
    "DialChoice": "choosing",
    "DialSetting": "choosing",
    "FunctionKnob": "knobs",
    "Knob": "knobs",
    "RejectionKnob": "knobs",
    "TruncationKnob": "knobs",
    "dial": "choosing",
}
__all__ = [*_HOME]
__getattr__, __dir__ = lazily(__name__, _HOME)
