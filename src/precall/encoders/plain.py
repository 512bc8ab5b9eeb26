"""Encoders without a network: pixels, unchanged features, and hashed character n-grams of texts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from precall.encoders.encoder import Encoder, FeatureMatrix
from precall.encoders.resizing import Resizing

PIXELS = Resizing(32, "bilinear")
NGRAMS, BUCKETS = (2, 4), 1024


def pixels() -> Encoder:
    """Images as their 32 × 32 × 3 = 3072 pixel values in [0, 1]."""
    flat = lambda images: np.stack(images).reshape(len(images), -1).astype(np.float32) / np.float32(255)  # noqa: E731
    return Encoder("pixels", "images", PIXELS.protocol | {"values": "divided by 255"}, PIXELS, flat)


def identity() -> Encoder:
    """Features, unchanged."""
    return Encoder("identity", "features", {}, np.asarray, np.stack)


def ngrams() -> Encoder:
    """Texts as hashed counts of their character n-grams: no network, weights or vocabulary; 1024 dimensions.

    The features capture spelling, capitals, words, their order and style, and not meaning.
    """
    return Encoder("ngrams", "text", letters_protocol(BUCKETS), str, hashed_letters(BUCKETS))


def letters_protocol(buckets: int) -> dict[str, Any]:
    """What determines `hashed_letters`, besides the texts."""
    from sklearn import __version__

    protocol = {"n-grams": list(NGRAMS), "buckets": buckets, "case": "kept", "counts": "log(1 + |c|), signed"}
    return protocol | {"scale": "unit length", "scikit-learn": __version__}


def hashed_letters(buckets: int) -> Callable[[list[Any]], FeatureMatrix]:
    """Counts of the n-grams of 2 to 4 characters of each text, also across word boundaries, at unit length.

    A hash determines the bucket and the sign of each n-gram (Weinberger et al., 2009). A count c is replaced by
    ±log(1 + |c|), so that frequent words do not dominate.
    """
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.preprocessing import normalize

    hashing = HashingVectorizer(analyzer="char", lowercase=False, ngram_range=NGRAMS, n_features=buckets, norm=None)

    def forward(texts: list[Any]) -> FeatureMatrix:
        places = {text: place for place, text in enumerate(dict.fromkeys(texts))}  # batches are filled with copies
        counts = hashing.transform(places)
        # the last bits of np.log1p depend on the position in the array, and so on the other texts of the batch
        sizes, which = np.unique(np.abs(counts.data), return_inverse=True)
        counts.data = np.copysign(np.array([math.log1p(size) for size in sizes])[which], counts.data)
        return np.asarray(normalize(counts).toarray(), dtype=np.float32)[[places[text] for text in texts]]

    return forward
