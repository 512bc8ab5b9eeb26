"""Exact mathematics: no samples, no randomness, float64."""
