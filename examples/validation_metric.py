"""Precision and recall as validation metrics in a plain PyTorch loop: the real samples are prepared once."""

import torch

import precall

torch.manual_seed(0)
real = torch.randn(800, 4) @ torch.diag(torch.tensor([2.0, 1.0, 1.0, 0.5]))
training, validation = real[:400], real[400:]

reference = precall.Reference.fit(validation)
scale = torch.nn.Parameter(torch.full((4,), -2.0))  # the model: x = exp(scale) z, with z normal
optimizer = torch.optim.Adam([scale], lr=0.1)
for epoch in range(4):
    for batch in training.split(50):
        loss = (batch.square() / (2 * torch.exp(2 * scale))).mean(0).sum() + scale.sum()  # −log-likelihood
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    fake = torch.exp(scale.detach()) * torch.randn(400, 4)
    scores = reference.assess(fake, metrics=("neighbors", "fid")).scores
    print(epoch, "precision", scores["precision"], "recall", scores["recall"], "FID", scores["fid"])
