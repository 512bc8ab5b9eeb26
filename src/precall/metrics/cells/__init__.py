"""Curves from counts near each sample: k-means cells and kernels. Classifiers do not belong here."""
