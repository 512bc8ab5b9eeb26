"""One number from means, covariances or kernels: FID, sFID, KID, and the Inception Score.

Nothing here estimates a curve.
"""
