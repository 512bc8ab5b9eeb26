"""Fine-tune a model on the target for λ = 10 with LoRA: small matrices beside its frozen weights."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy, one_hot

from precall.improve import target

WORDS = 16


class LoRA(nn.Module):
    """A frozen linear layer plus a trained product of two thin matrices; `peft` has the same for large models."""

    def __init__(self, layer, rank=2):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down, self.up = nn.Linear(layer.in_features, rank, bias=False), nn.Linear(rank, layer.out_features)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        """W x + B A x."""
        return self.layer(x) + self.up(self.down(x))


def logits(pairs):
    """Logits of both words of a text: the first one given nothing, the second one given the first."""
    seen = one_hot(pairs[:, 0], WORDS).float()
    return torch.stack([model(torch.zeros_like(seen)), model(seen)], 1)


def fit(pairs, steps):
    """Train the parameters that are not frozen, by likelihood."""
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], 1e-2)
    for _ in range(steps):
        some = pairs[torch.randint(len(pairs), (64,))]
        optimizer.zero_grad()
        cross_entropy(logits(some).transpose(1, 2), some).backward()
        optimizer.step()


@torch.no_grad()
def draw(n):
    """n texts of two words."""
    first = torch.multinomial(logits(torch.zeros(n, 2, dtype=torch.long))[:, 0].softmax(1), 1)
    return torch.cat([first, torch.multinomial(model(one_hot(first[:, 0], WORDS).float()).softmax(1), 1)], 1)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(WORDS, 64), nn.ReLU(), nn.Linear(64, WORDS))  # of the second word
data, junk = torch.randint(8, (1000, 2)), torch.randint(8, 16, (400, 2))
fit(torch.cat([data, junk]), 200)
draws = draw(1000)
features = {name: one_hot(rows, WORDS).flatten(1).numpy() for name, rows in (("real", data), ("fake", draws))}
chosen = target(**features, lam=10, estimator="linear")
model[0], model[2] = LoRA(model[0]), LoRA(model[2])
fit(torch.cat([draws[chosen.indices], data[chosen.added]]), 200)
before, after = ((rows > 7).any(1).float().mean() for rows in (draws, draw(1000)))
print(f"words that the data do not have: in {before:.0%} of the texts before, in {after:.0%} after")
