"""Djolonga et al. (2020)."""

from __future__ import annotations

ENTRIES: list[object] = []
