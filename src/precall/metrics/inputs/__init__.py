"""From the arguments of `assess` to checked features: matrices, sides, equal rows, notices about samples.

No score belongs here.
"""
