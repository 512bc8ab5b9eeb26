"""Curves from classifiers: cross-fitted scores, calibrated density ratios, certificates and a two-sample test.

The public estimators are in `estimators` (`auto`, `cross_fitted`) and `simon`. A classifier only has to rank samples;
the exact mathematics of curves from scores lives in `precall.theory.hull`.
"""
