"""The classifiers of the panel, and what each of them looks at.

Folds, stacking and calibration do not belong here, but in classifiers.
"""
