"""Curves from counts near each sample: k-means cells, kernels, and densities that are known.

Classifiers do not belong here.
"""
