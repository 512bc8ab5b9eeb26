"""Figures of Simon et al. (2019), *Revisiting precision and recall definition for generative model evaluation*.

Each module is named after its figure; `results/` holds the committed numbers.
"""
