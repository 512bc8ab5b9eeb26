"""Exact mathematics of precision and recall, in NumPy float64.

What belongs here is a formula or an exact algorithm on masses, ratios, scores or densities that are given: the curve
(`curve`) and everything else that is read off a ratio spectrum (`spectrum`), f-divergences (`divergences`), Rényi
frontiers (`frontiers`, `gaussians`), the hull of a classifier's error points (`hull`), acceptance rules
(`acceptance`) and confidence bands (`bands`). Functions that a training loop differentiates also accept torch tensors.

What does not belong here: sample sets, features, files, models, plots and random numbers. This room imports no other
room, and torch only when a tensor is passed. The mathematics is explained in docs/theory.md.
"""
