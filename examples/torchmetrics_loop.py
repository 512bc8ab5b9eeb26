"""Use the metrics in an evaluation loop, as any other torchmetrics metric: update per batch, compute once."""

import torch
from torchmetrics import MetricCollection

from precall.integrations.torchmetrics import FrechetDistance, NearestNeighborScores, PRCurve

generator = torch.Generator().manual_seed(0)
metrics = MetricCollection([NearestNeighborScores(k=5), FrechetDistance(dimension=8)])
curve = PRCurve(estimator="clusters")

for _ in range(5):  # batches of features; encode images first
    real = torch.randn(64, 8, generator=generator)
    fake = 0.7 * torch.randn(64, 8, generator=generator)  # samples of good quality and low diversity
    for metric in (metrics, curve):
        metric.update(real, real=True)
        metric.update(fake, real=False)

print({name: round(float(value), 3) for name, value in metrics.compute().items()})
print(
    "F8 (recall)", round(curve.spectrum().f_score(8), 3), "F1/8 (precision)", round(curve.spectrum().f_score(1 / 8), 3)
)
