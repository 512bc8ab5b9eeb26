"""Classifier curves: cross-fitted scores, calibrated ratios, certificates."""
