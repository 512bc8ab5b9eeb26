"""The sentence encoder MiniLM in plain torch: word pieces of ASCII texts, and six BERT layers.

It equals `precall.encoders.hub.minilm` on ASCII texts and needs neither `transformers` nor `tokenizers`, which a
machine with a GPU may lack.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as f

from experiments.common.feature_ratio import Features

WORD = re.compile(r"[a-z0-9]+|[^\sa-z0-9]")  # BERT separates every ASCII character that is no letter or digit
START, END, UNKNOWN = "[CLS]", "[SEP]", "[UNK]"
HEADS = 12
MAX_TOKENS = 256


class WordPieces:
    """The longest piece first: texts to indices of pieces, and back.

    Args:
        pieces: the vocabulary; a piece that continues a word begins with ##.

    Example:
        >>> words = WordPieces(["[UNK]", "un", "##break", "##able", "!"])
        >>> words.of("Unbreakable!")
        [1, 2, 3, 4]
        >>> words.text([1, 2, 3, 4])
        'unbreakable !'
    """

    def __init__(self, pieces: Sequence[str]) -> None:
        self.pieces = list(pieces)
        self.index = {piece: i for i, piece in enumerate(pieces)}
        self.word = cache(self._word)

    def of(self, text: str) -> list[int]:
        """Indices of the pieces of an ASCII text."""
        return [i for word in WORD.findall(text.lower()) for i in self.word(word)]

    def text(self, indices: Sequence[int]) -> str:
        """The text of these pieces, with spaces around punctuation."""
        return " ".join(self.pieces[i] for i in indices).replace(" ##", "").removeprefix("##")

    def _word(self, word: str) -> tuple[int, ...]:
        found, begin = [], 0
        while begin < len(word):
            parts = (("##" if begin else "") + word[begin:end] for end in range(len(word), begin, -1))
            piece = next((part for part in parts if part in self.index), None)
            if piece is None or len(word) > 100:
                return (self.index[UNKNOWN],)
            found.append(self.index[piece])
            begin += len(piece.removeprefix("##")) if begin else len(piece)
        return tuple(found)


class MiniLM:
    """Sentence embeddings: the mean of the token vectors, scaled to unit length.

    Args:
        pieces: the vocabulary, one piece per row of the word embeddings.
        weights: tensors of the BERT model, by the names of the `transformers` library.
        device: where to compute.
    """

    def __init__(self, pieces: Sequence[str], weights: Mapping[str, Tensor], device: torch.device) -> None:
        self.words, self.device = WordPieces(pieces), device
        self.weights = {
            name: tensor.float().to(device) for name, tensor in weights.items() if tensor.is_floating_point()
        }
        self.depth = sum(name.endswith("output.LayerNorm.bias") for name in weights) // 2

    @torch.no_grad()
    def __call__(self, texts: Sequence[str], *, batch: int = 512) -> Features:
        """Features of texts, shape (n, width)."""
        start, end = self.words.index[START], self.words.index[END]
        rows = [[start, *self.words.of(text)[: MAX_TOKENS - 2], end] for text in texts]
        found = [self.batch(rows[i : i + batch]) for i in range(0, len(rows), batch)]
        return np.concatenate([part.cpu().numpy() for part in found])

    def batch(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Features of rows of pieces, which are padded to the longest."""
        length = max(map(len, rows))
        tokens = torch.tensor([[*row, *[0] * (length - len(row))] for row in rows], device=self.device)
        mask = torch.arange(length, device=self.device) < torch.tensor([[len(row)] for row in rows], device=self.device)
        w = {name.removeprefix("embeddings."): tensor for name, tensor in self.weights.items()}
        x = w["word_embeddings.weight"][tokens] + w["position_embeddings.weight"][:length]
        x = self.normal(x + w["token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for i in range(self.depth):
            x = self.layer(x, mask, f"encoder.layer.{i}.")
        mean = (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return f.normalize(mean, dim=1)

    def layer(self, x: Tensor, mask: Tensor, name: str) -> Tensor:
        """Self-attention and a perceptron, each with a residual connection and a normalisation after it."""
        n, t, d = x.shape
        heads = (self.linear(x, f"{name}attention.self.{part}") for part in ("query", "key", "value"))
        q, k, v = (head.view(n, t, HEADS, d // HEADS).transpose(1, 2) for head in heads)
        y = f.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None]).transpose(1, 2).reshape(n, t, d)
        x = self.normal(x + self.linear(y, f"{name}attention.output.dense"), f"{name}attention.output.LayerNorm")
        y = self.linear(f.gelu(self.linear(x, f"{name}intermediate.dense")), f"{name}output.dense")
        return self.normal(x + y, f"{name}output.LayerNorm")

    def linear(self, x: Tensor, name: str) -> Tensor:
        return f.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def normal(self, x: Tensor, name: str) -> Tensor:
        return f.layer_norm(x, x.shape[-1:], self.weights[f"{name}.weight"], self.weights[f"{name}.bias"], 1e-12)


def read_minilm(folder: Path) -> tuple[list[str], dict[str, Tensor]]:
    """Pieces and weights in half precision of a folder with `vocab.txt` and `model.safetensors`.

    Pieces with characters that are not ASCII are left out.
    """
    from safetensors.torch import load_file

    pieces = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    kept = [i for i, piece in enumerate(pieces) if piece.isascii() and not piece.startswith("[unused")]
    weights = {name: tensor.half() for name, tensor in load_file(folder / "model.safetensors").items()}
    words = weights["embeddings.word_embeddings.weight"]
    used = {
        name: tensor for name, tensor in weights.items() if not name.startswith(("pooler", "embeddings.position_ids"))
    }
    return [pieces[i] for i in kept], used | {"embeddings.word_embeddings.weight": words[kept].clone()}
