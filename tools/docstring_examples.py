"""An extension of griffe, which reads the docstrings: our section is called "Example", griffe knows "Examples"."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object


class DoctestedExamples(Extension):
    """Let examples be shown as code."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rename the section in the docstring of one object."""
        if obj.docstring:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
