"""Headers of NumPy files, one at a time: Python 3.11 confuses the depths of literals that several threads parse."""

from __future__ import annotations

import threading

PARSING = threading.Lock()
"""Held while a header is parsed. Without it, `ast.literal_eval` may raise SystemError in a thread."""
