"""Curves from classifiers: cross-fitted scores, calibrated density ratios, certificates and a two-sample test.

    estimators      the public estimators: `auto` (the stacked panel) and `cross_fitted`
    simon           the ensemble of Simon et al. (2019)
    panel, mlp      the members of the panel
    folds           splits of the samples, and the low-dimensional views that members share
    stacking        weights of the members; `logistic` fits them
    calibration     from a score to a density ratio
    learning_curve  how much lower the curve would be with more training samples
    result          the result: curve, density ratios, certificate and test

A classifier only has to rank samples; the exact mathematics of curves from scores lives in `precall.theory.hull`.
"""
