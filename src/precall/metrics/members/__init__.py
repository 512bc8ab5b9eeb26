"""The classifiers of the panel. Folds, stacking and calibration do not belong here, but in classifiers."""
