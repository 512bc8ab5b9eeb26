"""`encode`: a sample set and an encoder → features, decoded in threads, encoded in order, kept in the cache."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from os import cpu_count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from precall.encoders.cache import CHUNK, Chunk, FeatureStore, cache_dir, file_index, join_chunks, stack_rows
from precall.encoders.encoder import SLOTS, Encoder, FeatureMatrix
from precall.encoders.registry import default_encoder, load_encoder
from precall.progress import StageProgress
from precall.samples import SampleError, SampleSet, open_samples
from precall.samples.arrays import Rows


@dataclass(frozen=True, eq=False)
class EncodedFeatures:
    """Features of a sample set, one row a readable sample, with what is needed to repeat them.

    Attributes:
        array: The features, shape (n, d); float32 and memory-mapped from the cache, or as they came (`identity`).
        ids: The ids of the rows.
        indices: The positions of the rows in the sample set (all, unless some could not be read).
        encoder: The encoder's name.
        protocol: The encoder's protocol: resizing, normalisation, weights, versions.
        fingerprint: SHA-256 of the samples.
        errors: The samples that were left out, and why.
        cached: Whether nothing had to be encoded.
    """

    array: npt.NDArray[Any] = field(repr=False)
    ids: Sequence[str] = field(repr=False)
    indices: npt.NDArray[np.int64] = field(repr=False)
    encoder: str
    protocol: Mapping[str, Any]
    fingerprint: str
    errors: tuple[SampleError, ...] = ()
    cached: bool = False

    def __len__(self) -> int:
        return len(self.array)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.array, dtype=dtype, copy=copy)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the matrix, (n, d)."""
        return self.array.shape

    def to_dict(self) -> dict[str, Any]:
        """What fixed the features, as JSON-ready values; the features themselves are in `array`."""
        return {
            "encoder": self.encoder,
            "protocol": dict(self.protocol),
            "fingerprint": self.fingerprint,
            "shape": list(self.shape),
            "errors": [{"id": error.id, "reason": error.reason} for error in self.errors],
        }


def encode(
    samples: Any,
    encoder: Encoder | str | None = None,
    *,
    reference: SampleSet | None = None,
    cache: bool | str | Path = True,
    batch_size: int = 128,
    progress: StageProgress | None = None,
) -> EncodedFeatures:
    """Encode a sample set, or take its features from the cache.

    The cache is keyed by the content of the samples, the encoder and its protocol: renamed or moved files are found
    again, changed ones are not. Finished parts (256 samples) survive an interruption, and the next call goes on from
    there. Decoding runs in threads beside the network.

    Args:
        samples: A sample set, or anything `open_samples` takes.
        encoder: An `Encoder`, a name (`load_encoder`), or None for the default of the samples' kind.
        reference: For tables, the real set: the encoder is fitted on it, whichever set is encoded.
        cache: True for the user's cache, a folder, or False for none.
        batch_size: Samples decoded ahead of the network. It changes memory and speed, and no number.
        progress: Called as `progress(done, total)` in samples, first with what the cache holds already.

    Returns:
        The features.

    Example:
        >>> features = encode(["one text", "another text"], "ngrams", cache=False)
        >>> features.shape, features.ids[1], features.protocol["n-grams"]
        ((2, 1024), '1', [2, 4])
    """
    samples = open_samples(samples)
    chosen = _encoder(samples, encoder, reference)
    if batch_size < 1:
        raise ValueError(f"`batch_size` must be at least 1; got {batch_size}.")
    root = None if cache is False else cache_dir() if cache is True else Path(cache)
    fingerprint = samples.fingerprint(None if root is None else file_index(root, samples.name))
    report = progress or (lambda done, total: None)
    if chosen.name == "identity" and isinstance(samples, Rows):
        return _features(samples, chosen, fingerprint, samples.array, [], cached=False)
    if root is None:
        array, errors = join_chunks(_chunks(samples, chosen, range(0, len(samples), CHUNK), batch_size, report))
        return _features(samples, chosen, fingerprint, array, errors, cached=False)
    return _through_cache(samples, chosen, fingerprint, root, batch_size, report)


def _through_cache(
    samples: SampleSet, encoder: Encoder, fingerprint: str, root: Path, batch_size: int, progress: StageProgress
) -> EncodedFeatures:
    store = FeatureStore(root / "features" / encoder.key(fingerprint), len(samples))
    found = store.finished()
    cached = found is not None
    while found is None:  # more than once only where a chunk was damaged or deleted meanwhile
        for chunk in _chunks(samples, encoder, store.missing(), batch_size, progress):
            store.add(chunk)
        found = store.finish()
    progress(len(samples), len(samples))
    array, told = found
    errors = [SampleError(e.index, samples.ids[e.index], e.reason) for e in told]  # files may have been renamed since
    for error in errors:
        samples.fault(error)
    return _features(samples, encoder, fingerprint, array, errors, cached=cached)


def _chunks(
    samples: SampleSet, encoder: Encoder, starts: Sequence[int], batch_size: int, progress: StageProgress
) -> Iterator[Chunk]:
    """The chunks that begin at `starts`, encoded in order; samples are decoded ahead, in threads."""
    n = len(samples)
    done = n - sum(min(CHUNK, n - start) for start in starts)
    progress(done, n)
    groups = [range(i, min(i + SLOTS, n)) for start in starts for i in range(start, min(start + CHUNK, n), SLOTS)]
    pool = ThreadPoolExecutor(max(2, cpu_count() or 2), thread_name_prefix="precall-decode")
    try:
        rows: list[FeatureMatrix] = []
        errors: list[SampleError] = []
        for group, prepared in zip(groups, _ahead(pool, samples, encoder, groups, batch_size), strict=True):
            bad = [item for item in prepared if isinstance(item, SampleError)]
            for error in bad:
                samples.fault(error)
            errors += bad
            rows.append(_slots(encoder, prepared))
            done += len(group)
            progress(done, n)
            if group.stop % CHUNK == 0 or group.stop == n:
                start = group.start // CHUNK * CHUNK
                yield Chunk(start, stack_rows(rows), errors)
                rows, errors = [], []
    finally:
        pool.shutdown(cancel_futures=True)


def _ahead(
    pool: ThreadPoolExecutor, samples: SampleSet, encoder: Encoder, groups: Sequence[range], batch_size: int
) -> Iterator[list[Any]]:
    """The prepared samples of each group, in order, with about `batch_size` of them under way."""
    waiting: deque[Future[list[Any]]] = deque()
    for group in groups:
        waiting.append(pool.submit(_prepared, samples, encoder, group))
        if len(waiting) > batch_size // SLOTS:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _prepared(samples: SampleSet, encoder: Encoder, group: range) -> list[Any]:
    """Each sample of a group prepared for the encoder, or the `SampleError` that stands in its place."""
    return [_prepare(samples, encoder, index) for index in group]


def _prepare(samples: SampleSet, encoder: Encoder, index: int) -> Any:
    try:
        return encoder.prepare(samples.read(index))
    except SampleError as error:
        return error
    except ValueError as error:
        return SampleError(index, samples.ids[index], str(error))


def _slots(encoder: Encoder, prepared: Sequence[Any]) -> FeatureMatrix:
    """Features of the readable samples of a group, each in the slot it would have if all were readable."""
    good = [place for place, item in enumerate(prepared) if not isinstance(item, SampleError)]
    if not good:
        return np.empty((0, 0), np.float32)
    filled = [prepared[good[0]] if isinstance(item, SampleError) else item for item in prepared]
    return encoder.rows(filled)[good]


def _features(
    samples: SampleSet,
    encoder: Encoder,
    fingerprint: str,
    array: npt.NDArray[Any],
    errors: Sequence[SampleError],
    *,
    cached: bool,
) -> EncodedFeatures:
    indices = np.delete(np.arange(len(samples)), [error.index for error in errors])
    ids = samples.ids if not errors else tuple(samples.ids[int(index)] for index in indices)
    return EncodedFeatures(array, ids, indices, encoder.name, encoder.protocol, fingerprint, tuple(errors), cached)


def _encoder(samples: SampleSet, encoder: Encoder | str | None, reference: SampleSet | None) -> Encoder:
    """The encoder asked for, or the default one, if it takes samples of this kind."""
    if samples.kind == "moments":
        raise ValueError(f"`{samples.name}` holds statistics, not samples: they give FID only, and cannot be encoded.")
    if not isinstance(encoder, Encoder):
        encoder = load_encoder(encoder or default_encoder(samples.kind), reference=reference)
    if encoder.kind not in (None, samples.kind):
        raise ValueError(f"encoder `{encoder.name}` takes {encoder.kind}; got {samples.kind}.")
    return encoder
