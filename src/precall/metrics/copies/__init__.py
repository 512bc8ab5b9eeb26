"""Memorisation, judged by a holdout. Near-copies without one do not belong here, but in neighbors."""
