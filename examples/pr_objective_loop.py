"""Train a small GAN on eight Gaussians in a plain PyTorch loop, once for recall and once for precision."""

import torch
from torch import nn

import precall
from precall.tune import Schedule

STEPS, BATCH = 2000, 256


def data(n):
    """Draw n points from eight Gaussians on a circle."""
    angle = torch.randint(8, (n,)) * (torch.pi / 4)
    return 2 * torch.stack([angle.cos(), angle.sin()], 1) + 0.1 * torch.randn(n, 2)


def network(width, outputs):
    """A perceptron with two inputs and two hidden layers."""
    layers = [nn.Linear(2, width), nn.LeakyReLU(0.2), nn.Linear(width, width), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Linear(width, outputs))


def train(lam):
    """Train at the trade-off λ and return the generator."""
    torch.manual_seed(0)
    schedule = Schedule(lam, STEPS)  # a plain GAN first, then λ
    G, D = network(16, 2), network(64, 1)  # the generator is too small to fit all modes exactly
    steps_of_G, steps_of_D = (torch.optim.Adam(one.parameters(), 1e-3, betas=(0.5, 0.9)) for one in (G, D))
    for step in range(STEPS):
        objective = schedule.at(step)  # takes logits, returns losses
        for _ in range(2):
            loss = objective.discriminator_loss(D(data(BATCH)), D(G(torch.randn(BATCH, 2)).detach()))
            steps_of_D.zero_grad()
            loss.backward()
            steps_of_D.step()
        loss = objective.generator_loss(D(G(torch.randn(BATCH, 2))))
        steps_of_G.zero_grad()
        loss.backward()
        steps_of_G.step()
    return G


torch.manual_seed(0)
real = data(1000).numpy()
for lam in (0.02, 50):
    fake = train(lam)(torch.randn(1000, 2)).detach().numpy()
    scores = precall.assess(real=real, fake=fake, metrics=("neighbors",)).scores
    print(f"λ = {lam:<4}: precision {scores['precision']}, recall {scores['recall']}")
