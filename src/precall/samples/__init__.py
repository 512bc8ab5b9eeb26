"""Sample sets: folders, zips, arrays, texts, tables, iterables and generators, opened by one function."""

from precall.samples.opening import open_samples
from precall.samples.sampleset import Batch, SampleError, SampleSet

__all__ = ["Batch", "SampleError", "SampleSet", "open_samples"]
