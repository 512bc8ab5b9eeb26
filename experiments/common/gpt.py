"""A small GPT: texts of equal length after one token that may carry a condition; training, draws and likelihoods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as f

from experiments.common.edm import Labels
from precall.theory.arrays import Array

# Losses were NaN while processes shared a GPU with a limit on the share of each. They were finite with this switch and
# without the limit. Both changed at once, so it is not known whether the attention of cuDNN was at fault.
torch.backends.cuda.enable_cudnn_sdp(False)

Cache = list[Tensor]  # keys and values of one layer
Loss = Callable[[nn.Module, Tensor], Tensor]  # of the network, at these rows


def bfloat16(device: torch.device) -> AbstractContextManager[object]:
    """Matrix products in bfloat16 on a GPU."""
    return torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else nullcontext()


class Layer(nn.Module):
    """Causal self-attention and a perceptron, each after a normalisation and with a residual connection."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, nn.Dropout(dropout)
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.perceptron = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, cache: Cache | None) -> Tensor:
        n, t, d = x.shape
        q, k, v = self.qkv(self.before(x)).view(n, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        if cache is not None:
            cache[:] = k, v = [torch.cat(pair, 2) for pair in zip(cache, (k, v), strict=True)] if cache else [k, v]
        y = f.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        x = x + self.dropout(self.out(y.transpose(1, 2).reshape(n, t, d)))
        return x + self.dropout(self.perceptron(self.between(x)))


class GPT(nn.Module):
    """Logits of the next piece. The first token is `vocabulary + condition`.

    Args:
        vocabulary: number of pieces.
        length: pieces per text.
        conditions: values of the condition.
        width: size of the vectors.
        depth: number of layers.
        heads: heads of the attention.
        dropout: share of the residuals that are dropped.
    """

    def __init__(
        self,
        vocabulary: int,
        length: int,
        *,
        conditions: int = 1,
        width: int = 384,
        depth: int = 6,
        heads: int = 6,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        self.vocabulary, self.length = vocabulary, length
        self.tokens = nn.Embedding(vocabulary + conditions, width)
        self.places = nn.Embedding(length, width)
        self.layers = nn.ModuleList(Layer(width, heads, dropout) for _ in range(depth))
        self.last, self.dropout = nn.LayerNorm(width), nn.Dropout(dropout)
        self.apply(small)

    def forward(self, tokens: Tensor, caches: list[Cache] | None = None, begin: int = 0) -> Tensor:
        places = torch.arange(begin, begin + tokens.shape[1], device=tokens.device)
        x = self.dropout(self.tokens(tokens) + self.places(places))
        for i, layer in enumerate(self.layers):
            x = layer(x, None if caches is None else caches[i])
        return f.linear(self.last(x), self.tokens.weight[: self.vocabulary])

    def log_likelihoods(self, tokens: Tensor, conditions: Tensor) -> Tensor:
        """Log-probabilities of each piece of texts, shape (n, length)."""
        first = self.vocabulary + conditions[:, None]
        with bfloat16(tokens.device):
            logits = self(torch.cat([first, tokens[:, :-1]], 1))
        return -f.cross_entropy(logits.float().transpose(1, 2), tokens, reduction="none")


def small(module: nn.Module) -> None:
    """Weights with a standard deviation of 0.02."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)


# ------------------------------------------------------------------------------------------------------------ training


def descend(net: nn.Module, loss: Loss, rows: Callable[[], Tensor], *, steps: int, rate: float) -> Iterator[int]:
    """Minimise a loss with AdamW and a one-cycle rate; yields the number of steps after each."""
    device = next(net.parameters()).device
    adam = torch.optim.AdamW(net.parameters(), rate, betas=(0.9, 0.95), weight_decay=0.1, fused=device.type == "cuda")
    schedule = torch.optim.lr_scheduler.OneCycleLR(adam, rate, total_steps=steps + 1, pct_start=0.1)
    for step in range(1, steps + 1):
        adam.zero_grad()
        loss(net, rows()).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        adam.step()
        schedule.step()
        yield step


def nats(net: GPT, tokens: Tensor, conditions: Tensor) -> Tensor:
    """Mean negative log-likelihood per piece."""
    return -net.log_likelihoods(tokens, conditions).mean()


def trained(
    net: GPT,
    data: tuple[Tensor, Tensor],
    held_out: tuple[Tensor, Tensor],
    *,
    steps: int,
    batch: int,
    rate: float = 1e-3,
) -> dict[str, float]:
    """Train on texts with their conditions, and keep the weights with the least loss on held-out texts.

    Returns:
        The step of these weights and their loss per piece on the held-out texts.

    Raises:
        FloatingPointError: if that loss is never a finite number.
    """
    tokens, conditions = data
    best, kept = {"steps": 0.0, "held_out": np.inf}, dict[str, Tensor]()
    drawn = lambda: torch.randint(len(tokens), (batch,), device=tokens.device)  # noqa: E731
    loss: Loss = lambda net, i: nats(net, tokens[i], conditions[i])  # type: ignore[arg-type]  # noqa: E731
    for step in descend(net.train(), loss, drawn, steps=steps, rate=rate):
        if step % max(1, steps // 16) == 0:
            found = -float(log_likelihoods(net, *held_out).mean())
            if found < best["held_out"]:
                best = {"steps": step, "held_out": round(found, 4)}
                kept = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    if not kept:
        raise FloatingPointError(f"the loss on held-out texts was never finite in {steps} steps; try a smaller `rate`.")
    net.load_state_dict(kept)
    return best


# ------------------------------------------------------------------------------------------------------ draws, scores


@torch.no_grad()
def log_likelihoods(net: GPT, tokens: Tensor, conditions: Tensor, *, batch: int = 512) -> Array:
    """Log-probabilities of each piece, without dropout, shape (n, length)."""
    training = net.training
    net.eval()
    parts = [net.log_likelihoods(*pair) for pair in zip(tokens.split(batch), conditions.split(batch), strict=True)]
    net.train(training)
    return torch.cat(parts).double().cpu().numpy()


@torch.no_grad()
def drawn(
    net: GPT, conditions: Tensor, *, temperature: float = 1.0, top_p: float = 1.0, seed: int, batch: int = 4096
) -> Labels:
    """One text per condition, drawn piece by piece.

    Args:
        net: the network.
        conditions: condition of each text.
        temperature: divides the logits.
        top_p: pieces beyond this share of the probability, from the most to the least probable, are left out.
        seed: seed of the draws.
        batch: texts that are drawn at once.
    """
    net.eval()
    source = torch.Generator(conditions.device).manual_seed(seed)
    found = []
    for part in conditions.split(batch):
        caches: list[Cache] = [[] for _ in net.layers]
        pieces = [net.vocabulary + part[:, None]]
        for place in range(net.length):
            with bfloat16(part.device):
                logits = net(pieces[-1], caches, place)[:, -1]
            p = nucleus(torch.softmax(logits.float() / temperature, 1), top_p)
            pieces.append(torch.multinomial(p, 1, generator=source))
        found.append(torch.cat(pieces[1:], 1).cpu().numpy())
    return np.concatenate(found)


def nucleus(p: Tensor, top_p: float) -> Tensor:
    """Probabilities without the least probable pieces whose total is at most 1 − top_p; not normalised.

    Example:
        >>> nucleus(torch.tensor([[0.1, 0.6, 0.3]]), 0.7)
        tensor([[0.0000, 0.6000, 0.3000]])
    """
    if top_p >= 1:
        return p
    ordered, order = p.sort(dim=1, descending=True)
    before = ordered.cumsum(1) - ordered
    return torch.zeros_like(p).scatter(1, order, torch.where(before < top_p, ordered, 0))
