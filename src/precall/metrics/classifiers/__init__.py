"""Curves from classifiers: cross-fitted scores, calibrated density ratios, certificates and a two-sample test.

    estimators      the public estimators: `auto` (the stacked panel) and `cross_fitted`
    simon           the ensemble of Simon et al. (2019)
    panel           the panel, and the trained panel that scores any rows
    members, columns, ranks, mlp, mixtures    its members
    views           how members see samples: standardised, on principal axes, and by single columns
    folds, repeats  splits of the samples; rows that repeat each other stay together
    stacking        weights of the members
    calibration     from a score to a density ratio
    learning_curve  how much lower the curve would be with more training samples
    held_out        intervals and chance levels of a curve
    result          the result: curve, density ratios, certificate and test

A classifier only has to rank samples; the exact mathematics of curves from scores lives in `precall.theory.hull`.
"""
