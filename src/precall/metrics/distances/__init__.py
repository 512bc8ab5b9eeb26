"""One number from means, covariances or kernels: FID, sFID, KID, MMD and others. Nothing here estimates a curve."""
