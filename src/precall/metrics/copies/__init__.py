"""Memorisation: whether fakes are closer to the training set than to a holdout.

Near-copies without a holdout do not belong here, but in neighbors.
"""
