"""Two sample sets become spectra and scores.

The room is also the verb: `precall.assess(real=…, fake=…)` calls `precall.assess.assessment.assess`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Verb(ModuleType):
    """A package that can be called: its name is both the room and what one does there."""

    def __call__(self, *unnamed: Any, **arguments: Any) -> Any:
        from precall.assess.assessment import assess

        if unnamed:
            raise TypeError("name the arguments, so that data and model cannot be exchanged: assess(real=…, fake=…).")
        return assess(**arguments)


sys.modules[__name__].__class__ = _Verb
