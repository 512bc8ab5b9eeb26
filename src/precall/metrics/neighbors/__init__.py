"""Every k-nearest-neighbour quantity of two sample sets, from one exact pass over the pairs (`sweep`).

Expected values under P = Q are exact mathematics and live in `precall.theory.chance`.
"""
