"""Curves from classifiers: cross-fitted scores, calibrated ratios, certificates and a two-sample test.

The public estimators are in `estimators` and `simon`. Curves from exact scores do not belong here (`precall.theory`).
"""
