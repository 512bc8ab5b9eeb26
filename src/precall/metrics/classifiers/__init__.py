"""Curves from classifiers: cross-fitted scores, calibrated density ratios, certificates and a two-sample test.

    estimators      `auto` (the stacked panel) and `cross_fitted`: the public estimators
    simon           the ensemble of Simon et al. (2019)
    panel, mlp      the members of the panel
    folds           splits of the samples, and the views that members share
    stacking        weights of the members; `logistic` fits them
    calibration     from a score to a density ratio
    learning_curve  how much lower the curve would be with more training samples
    result          what a classifier's scores say: curve, ratios, certificate, test

A classifier only has to rank samples; everything exact about curves of scores lives in `precall.theory.hull`.
"""
