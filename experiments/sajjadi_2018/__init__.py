"""Figures of Sajjadi et al. (2018), *Assessing generative models via precision and recall*.

Each module is named after its figure; `results/` holds the committed numbers.
"""
