"""Better texts of a language model at four draws each: best of n by a verifier, and rejection by a density ratio."""

import sys
from itertools import combinations

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch.nn.functional import cross_entropy

from precall.improve import Ratio, sample

try:
    from transformers import GPT2Config, GPT2LMHeadModel
except ImportError as error:
    print(f"`pip install transformers` to run this example ({error}).")
    sys.exit(0)

torch.manual_seed(0)
halves = torch.randint(10, (4000, 3))
data = torch.cat([halves, halves.flip(1)], 1)  # palindromes of six digits
sizes = {"vocab_size": 11, "n_positions": 8, "n_embd": 48, "n_layer": 1, "n_head": 4}
model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=10, eos_token_id=10))
optimizer = torch.optim.Adam(model.parameters(), 3e-3)
for _ in range(35):  # too short to learn them
    rows = torch.cat([torch.full((64, 1), 10), data[torch.randint(len(data), (64,))]], 1)
    optimizer.zero_grad()
    cross_entropy(model(rows).logits[:, :-1].transpose(1, 2), rows[:, 1:]).backward()
    optimizer.step()


@torch.no_grad()
def draw(n, rng):
    """n texts of the model, as rows of tokens."""
    torch.manual_seed(int(rng.integers(2**31)))
    rows = torch.full((n, 1), 10)
    for _ in range(6):
        rows = torch.cat([rows, torch.multinomial(model(rows).logits[:, -1, :10].softmax(1), 1)], 1)
    return rows[:, 1:].numpy()


def reward(rows):
    """1 for a palindrome, 0 for any other text: a verifier, or a reward model."""
    return (rows == rows[:, ::-1]).all(1).astype(float)


def pairs(rows):
    """What the ratio sees of a text: which pairs of tokens it has. For prose, use a sentence encoder."""
    return np.concatenate([np.eye(100)[10 * rows[:, i] + rows[:, j]] for i, j in combinations(range(6), 2)], 1)


rng = np.random.default_rng(0)
many = draw(4 * 500, rng).reshape(500, 4, 6)
best = many[np.arange(500), reward(many.reshape(-1, 6)).reshape(500, 4).argmax(1)]  # best of four
linear = LogisticRegression(C=0.05)  # the default, "auto", needs no such features and is slower
ratio = Ratio.fitted(real=data.numpy(), fake=draw(4000, rng), classifier=linear, encode=pairs)  # needs no verifier
kept = sample(draw, ratio, budget=4, n=500, seed=1).samples
for name, rows in {"one draw": draw(500, rng), "best of 4": best, "OBRS, K = 4": kept}.items():
    print(f"{name:12}: {reward(rows).mean():.0%} are palindromes, {len(np.unique(rows, axis=0))} different ones")
