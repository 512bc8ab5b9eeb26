"""The default encoder of texts: the mean vector of their word pieces, beside hashed letters. No network runs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from precall.encoders.encoder import Encoder, FeatureMatrix
from precall.encoders.plain import hashed_letters, letters_protocol
from precall.samples import hashing
from precall.theory.arrays import Array

PIECES = Path(__file__).with_name("pretrained") / "wordpieces.safetensors"
BUCKETS = 128  # of the letters: as many as a word vector has dimensions
LONGEST = 100  # characters of a word; longer ones are unknown
IDEOGRAPH = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # each is a word of its own
WORD = re.compile(rf"[{IDEOGRAPH}]|[^\W_{IDEOGRAPH}]+|[^\w\s]|_")


def words() -> Encoder:
    """Texts as the mean vector of their word pieces, beside hashed character n-grams; 128 + 128 dimensions.

    The vector of a piece is what MiniLM (Wang et al., 2020) returns for this piece alone, on 128 principal axes, times
    log(1 + rank) in a vocabulary that begins with the most frequent pieces (as in Model2Vec). So the first half
    captures topics and words; the second half, counts of 2 to 4 characters, captures spelling, capitals, repetition and
    format. Each half has unit length. The order of words far apart is not seen, nor meaning that depends on it.
    """
    (index, vectors, scale), letters = vocabulary(), hashed_letters(BUCKETS)

    @lru_cache(maxsize=1 << 16)
    def pieces(word: str) -> list[int]:
        return word_pieces(word, index)

    def mean(text: str) -> Array:
        numbers = [number for word in words_of(text) for number in pieces(word)]
        which, times = np.unique(np.asarray(numbers, dtype=np.intp), return_counts=True)
        # sums of integers have the same bits in any order
        total = (times @ vectors[which].astype(np.int64)) * scale
        return np.asarray(total / max(float(np.sqrt(total @ total)), 1e-12))

    def forward(texts: list[Any]) -> FeatureMatrix:
        means = {text: mean(text) for text in dict.fromkeys(texts)}  # batches are filled with copies
        return np.hstack([np.stack([means[text] for text in texts]).astype(np.float32), letters(texts)])

    return Encoder("words", "text", {"vectors": hashing.of_file(PIECES), **letters_protocol(BUCKETS)}, str, forward)


def vocabulary() -> tuple[dict[str, int], npt.NDArray[np.int8], Array]:
    """The number of each piece, their vectors in whole numbers, and the unit of each dimension."""
    from safetensors.numpy import load_file

    stored = load_file(PIECES)
    pieces = stored["pieces"].tobytes().decode().split("\n")
    return {piece: n for n, piece in enumerate(pieces)}, stored["vectors"], stored["scale"].astype(np.float64)


def words_of(text: str) -> list[str]:
    """Words and punctuation marks of a text, in lower case and without accents.

    Example:
        >>> words_of("Ça va, big_dog?")
        ['ca', 'va', ',', 'big', '_', 'dog', '?']
    """
    plain = unicodedata.normalize("NFD", text.lower())
    return WORD.findall("".join(one for one in plain if unicodedata.category(one) != "Mn"))


def word_pieces(word: str, index: Mapping[str, int]) -> list[int]:
    """The numbers of the longest known pieces of a word, from left to right; those after the first begin with `##`.

    Example:
        >>> word_pieces("unseen", {"[UNK]": 0, "un": 1, "##see": 2, "##seen": 3})
        [1, 3]
        >>> word_pieces("unsee!", {"[UNK]": 0, "un": 1, "##see": 2})
        [0]
    """
    found: list[int] = []
    start, unknown = 0, [index["[UNK]"]]
    while start < len(word) <= LONGEST:
        before = "##" if start else ""
        ends = (end for end in range(len(word), start, -1) if before + word[start:end] in index)
        end = next(ends, None)
        if end is None:
            return unknown
        found.append(index[before + word[start:end]])
        start = end
    return found or unknown
