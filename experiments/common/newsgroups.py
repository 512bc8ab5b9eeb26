"""20 Newsgroups as short texts of equal length: the posts without headers, quotes and signatures, cut into windows."""

from __future__ import annotations

import re
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from experiments.common.edm import Labels
from experiments.common.minilm import UNKNOWN, WordPieces

QUOTED = re.compile(
    r"^\s*[>|:}]|^\s*\w{1,4}>|writes in|writes:|wrote:|says:|said:|^In article|^Quoted from|^Subject:|@"
)
LETTERS = re.compile(r"(##)?[a-z]{2,}")
SENTENCE_ENDS = (".", "!", "?")
SHARES = {"train": 0.5, "judge": 0.25, "reference": 0.15, "test": 0.1}
WORDS = 0.6  # least share of pieces of a window that have two or more letters; leaves out encoded files and tables

RUN = 12  # pieces in a row that count as copied

Post = tuple[str, str]  # group and raw text


def read_posts(archive: Path) -> list[Post]:
    """Group and raw text of every post in the archive, sorted by file name."""
    with tarfile.open(archive) as file:
        found = {one.name: raw(file, one) for one in file if one.isfile()}  # in the order of the archive, read once
    return [(name.split("/")[-2], found[name]) for name in sorted(found)]


def raw(file: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    content = file.extractfile(member)
    return content.read().decode("latin-1") if content else ""


def body(post: str) -> str:
    """A post without its header, quotes and signature, in ASCII.

    Example:
        >>> body("From: me\\n\\nYou wrote:\\n> Why?\\nBecause.\\n-- \\nMe, Inc.")
        'Because.'
    """
    text = re.split(r"\n--+ *\n", post.partition("\n\n")[2])[0]
    lines = [line for line in text.splitlines() if not QUOTED.search(line)]
    return " ".join(" ".join(lines).encode("ascii", "ignore").decode().split())


@dataclass(frozen=True)
class Windows:
    """Texts of equal length.

    Attributes:
        pieces: the vocabulary.
        tokens: indices of the pieces of each text, shape (n, length).
        groups: newsgroup of each text.
        parts: part of each text, an index into SHARES; all texts of a post are in the same part.
    """

    pieces: list[str]
    tokens: Labels
    groups: Labels
    parts: Labels

    def of(self, part: str) -> Labels:
        """Tokens of a part."""
        return self.tokens[self.parts == list(SHARES).index(part)]


def windows(posts: Iterable[Post], *, pieces: Sequence[str], size: int, length: int) -> Windows:
    """Cut posts into windows, with a vocabulary of the most frequent pieces of the training part.

    Args:
        posts: group and raw text of each post. Equal bodies are taken once.
        pieces: word pieces to choose from.
        size: size of the vocabulary.
        length: pieces per window.
    """
    bodies = {text: group for group, post in posts if (text := body(post))}
    ends = np.cumsum([share * len(bodies) for share in SHARES.values()])
    order = np.random.default_rng(0).permutation(len(bodies))
    part = np.minimum(np.searchsorted(ends, np.arange(len(bodies)), side="right"), len(SHARES) - 1)[np.argsort(order)]
    words = vocabulary([text for text, i in zip(bodies, part, strict=True) if i == 0], pieces, size)
    names, seen = sorted(set(bodies.values())), {}
    for (text, group), i in zip(bodies.items(), part, strict=True):
        for window in cut(words, words.of(text), length):
            seen.setdefault(tuple(window), (names.index(group), int(i)))
    groups, parts = np.array(list(seen.values())).T
    return Windows(words.pieces, np.array(list(seen)), groups, parts)


def vocabulary(texts: Iterable[str], pieces: Sequence[str], size: int) -> WordPieces:
    """All pieces of one character, and the most frequent others."""
    words = WordPieces(pieces)
    counts = Counter(i for text in texts for i in words.of(text))
    single = [piece for piece in pieces if len(piece.removeprefix("##")) == 1]
    frequent = [pieces[i] for i, _ in counts.most_common()]
    return WordPieces(list(dict.fromkeys([UNKNOWN, *single, *frequent]))[:size])


def cut(words: WordPieces, tokens: list[int], length: int) -> Iterator[list[int]]:
    """Windows that begin with a sentence, do not overlap and consist mostly of words."""
    begin = 0
    while begin + length <= len(tokens):
        window = [words.pieces[i] for i in tokens[begin : begin + length]]
        if np.mean([LETTERS.fullmatch(piece) is not None for piece in window]) >= WORDS:
            yield tokens[begin : begin + length]
        begin += length
        while begin < len(tokens) and words.pieces[tokens[begin - 1]] not in SENTENCE_ENDS:
            begin += 1


def copied(tokens: Labels, train: Labels, run: int = RUN) -> float:
    """Share of texts that have a run of this many pieces in common with a training text."""
    odd = np.random.default_rng(0).integers(2**62, size=run, dtype=np.uint64) * 2 + 1

    def codes(x: Labels) -> np.ndarray:  # type: ignore[type-arg]
        return sliding_window_view(x.astype(np.uint64), min(run, x.shape[1]), axis=1) @ odd[: x.shape[1]]

    return float(np.isin(codes(tokens), codes(train)).any(1).mean())
