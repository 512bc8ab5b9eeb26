"""Encoders: convert sample sets to feature matrices and cache the features by content.

This package contains the encoders, the protocol that each one records (resizing, normalisation, weights, versions), the
download of weights, and the cache of features. Reading and decoding samples belongs to `precall.samples`. Everything
that is computed from features belongs to `precall.metrics`.
"""

from precall.encoders.cache import cache_dir
from precall.encoders.encoder import Encoder
from precall.encoders.encoding import EncodedFeatures, encode
from precall.encoders.registry import ENCODERS, default_encoder, load_encoder

__all__ = ["ENCODERS", "EncodedFeatures", "Encoder", "cache_dir", "default_encoder", "encode", "load_encoder"]
