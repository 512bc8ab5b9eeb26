"""Sajjadi et al. (2018)."""

from __future__ import annotations

ENTRIES: list[object] = []
