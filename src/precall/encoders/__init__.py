"""Encoders: sample sets → feature matrices, each with its own protocol, cached by content."""

from precall.encoders.cache import cache_dir
from precall.encoders.encoder import Encoder
from precall.encoders.encoding import EncodedFeatures, encode
from precall.encoders.registry import ENCODERS, default_encoder, load_encoder

__all__ = ["ENCODERS", "EncodedFeatures", "Encoder", "cache_dir", "default_encoder", "encode", "load_encoder"]
