"""Sample sets: open folders, archives, databases, arrays, texts, tables and generators with one function.

This package reads samples: where they are stored, how they are decoded, what they are called, and the hash of their
content. It treats every file as untrusted data. It does not compute features (`precall.encoders`) and does not compare
samples (`precall.metrics`).
"""

from precall.samples.opening import open_samples
from precall.samples.sampleset import Batch, SampleError, SampleSet, SampleWarning

__all__ = ["Batch", "SampleError", "SampleSet", "SampleWarning", "open_samples"]
