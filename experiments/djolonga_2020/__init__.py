"""Figures of Djolonga et al. (2020), *Precision-recall curves using information divergence frontiers*.

Each module is named after its figure; `results/` holds the committed numbers.
"""
