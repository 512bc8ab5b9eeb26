"""Simon et al. (2019)."""

from __future__ import annotations

ENTRIES: list[object] = []
