"""`encode`: compute the features of a sample set. Samples are decoded in threads, and features are cached."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from os import cpu_count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from precall.encoders import cache as storage
from precall.encoders.cache import CHUNK, Chunk, FeatureStore, feature_folder
from precall.encoders.encoder import SLOTS, Encoder, FeatureMatrix
from precall.encoders.registry import TEXTS, default_encoder, load_encoder, runs_on_a_device
from precall.progress import StageProgress
from precall.samples import SampleError, SampleSet, open_samples
from precall.samples.arrays import Rows
from precall.samples.sampleset import Notice, shown
from precall.samples.tables import TableRows
from precall.sealing import read_sealed, setting_aside, write_sealed

ATTEMPTS = 5
NOTICES = "notices.json"  # beside the features


@dataclass(frozen=True, eq=False)
class EncodedFeatures:
    """Features of a sample set, one row per readable sample, with the information needed to reproduce them.

    Attributes:
        array: The features, shape (n, d); float32 and memory-mapped from the cache, or unchanged (`identity`).
        indices: The index of each row in the sample set.
        protocol: The encoder's protocol: resizing, normalisation, weights, versions.
        fingerprint: SHA-256 of the samples.
        errors: The samples that could not be read, with the reasons.
        cached: Whether all features came from the cache.
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

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.array, dtype=dtype, copy=copy)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def to_dict(self) -> dict[str, Any]:
        """What determines the features, as JSON values. The features themselves are in `array`."""
        errors = [{"id": error.id, "reason": error.reason} for error in self.errors]
        about = {"encoder": self.encoder, "protocol": dict(self.protocol), "fingerprint": self.fingerprint}
        return {**about, "shape": list(self.shape), "errors": errors}


def encode(
    samples: object,
    encoder: Encoder | str | None = None,
    *,
    reference: SampleSet | None = None,
    cache: bool | str | Path = True,
    batch_size: int = 128,
    device: str | None = None,
    progress: StageProgress | None = None,
) -> EncodedFeatures:
    """Encode a sample set, or read its features from the cache.

    The cache key consists of the content of the samples, the encoder and its protocol. Renamed or moved files are found
    in the cache; changed files are encoded again. Finished chunks of 256 samples survive an interruption, and the next
    call continues from there. Samples are decoded in threads while the network runs.

    Args:
        samples: A sample set, or any source that `open_samples` accepts.
        encoder: An `Encoder`, a name (see `load_encoder`), or None for the default encoder of the samples' kind.
        reference: For tables, the real set. The encoder is fitted on it, whichever set is encoded.
        cache: True for the user's cache, a folder, or False to disable the cache.
        batch_size: Number of samples decoded ahead of the network. It affects memory and speed, not the features.
        device: Where a network that is given by its name runs: "cpu", "cuda", "mps" or "auto" (also None).
        progress: Called as `progress(done, total)`, in samples; the first call reports the samples already cached.

    Example:
        >>> features = encode(["one text", "another text"], "ngrams", cache=False)
        >>> features.shape, features.ids[1], features.protocol["n-grams"]
        ((2, 1024), '1', [2, 4])
    """
    opened = open_samples(samples)
    chosen = _encoder(opened, encoder, reference, device)
    if batch_size < 1:
        raise ValueError(f"`batch_size` must be at least 1; got {batch_size}.")
    root = None if cache is False else storage.cache_dir() if cache is True else Path(cache)
    fingerprint = opened.fingerprint(None if root is None else storage.file_index(root, opened.name))
    report = progress or (lambda done, total: None)
    if chosen.name == "identity" and isinstance(opened, Rows):
        return _features(opened, chosen, fingerprint, opened.array, [], cached=False)
    if chosen.whole is not None and isinstance(opened, TableRows):
        errors = [opened.fault_of(index) for index in opened.uneven]
        for error in errors:
            opened.fault(error)
        report(0, len(opened))
        array = chosen.whole(opened)
        report(len(opened), len(opened))
        return _features(opened, chosen, fingerprint, array, errors, cached=False)
    if root is None:
        array, errors = storage.join_chunks(_chunks(opened, chosen, range(0, len(opened), CHUNK), batch_size, report))
        return _features(opened, chosen, fingerprint, array, errors, cached=False)
    return _through_cache(opened, chosen, fingerprint, root, batch_size, report)


def _through_cache(
    samples: SampleSet, encoder: Encoder, fingerprint: str, root: Path, batch_size: int, progress: StageProgress
) -> EncodedFeatures:
    store = FeatureStore(feature_folder(root, encoder.key(fingerprint)), len(samples))
    found = store.finished()
    cached = found is not None
    with _keeping_notices(samples, store.folder / NOTICES):
        array, recorded = found or _stored(store, samples, encoder, batch_size, progress)
    progress(len(samples), len(samples))
    # files may have been renamed since the errors were recorded
    errors = [SampleError(e.index, samples.ids[e.index], e.reason) for e in recorded]
    for error in errors:
        samples.fault(error)
    return _features(samples, encoder, fingerprint, array, errors, cached=cached)


@contextmanager
def _keeping_notices(samples: SampleSet, path: Path) -> Iterator[None]:
    """Keep what is noticed about the samples while they are decoded, for runs that read the features from the cache."""
    kept: dict[Notice, list[int]] = {}
    with setting_aside(path):
        kept = json.loads(read_sealed(path))
        for what, indices in kept.items():
            for index in indices:
                samples.notice(what, int(index))
    try:
        yield
    finally:
        if samples.noticed != kept:
            with suppress(OSError):  # the notices are not needed to compute anything
                write_sealed(path, json.dumps(samples.noticed).encode())


def _stored(
    store: FeatureStore, samples: SampleSet, encoder: Encoder, batch_size: int, progress: StageProgress
) -> tuple[FeatureMatrix, list[SampleError]]:
    """Encode the missing chunks, store them and join them; again if a chunk was damaged or deleted in between."""
    for _ in range(ATTEMPTS):
        for chunk in _chunks(samples, encoder, store.missing(), batch_size, progress):
            store.add(chunk)
        if (found := store.finish()) is not None:
            return found
    way_out = "Set PRECALL_CACHE to another folder, or pass `cache=False`."
    got = f"must keep what is written there; it was lost or damaged {ATTEMPTS} times"
    raise ValueError(f"the cache `{shown(str(store.folder))}` {got}. {way_out}")


def _chunks(
    samples: SampleSet, encoder: Encoder, starts: Sequence[int], batch_size: int, progress: StageProgress
) -> Iterator[Chunk]:
    """Encode the chunks that begin at `starts`, in order. Samples are decoded ahead, in threads."""
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
            good = [place for place, item in enumerate(prepared) if not isinstance(item, SampleError)]
            if good:  # each in the slot that it has when all samples are readable
                filled = [prepared[good[0]] if isinstance(item, SampleError) else item for item in prepared]
                rows.append(encoder.rows(filled)[good])
            done += len(group)
            progress(done, n)
            if group.stop % CHUNK == 0 or group.stop == n:
                start = group.start // CHUNK * CHUNK
                yield Chunk(start, storage.stack_rows(rows), errors)
                rows, errors = [], []
    finally:
        pool.shutdown(cancel_futures=True)


def _ahead(
    pool: ThreadPoolExecutor, samples: SampleSet, encoder: Encoder, groups: Sequence[range], batch_size: int
) -> Iterator[list[object]]:
    """Yield the samples of each group as the encoder takes them, or errors, with about `batch_size` in preparation."""

    def prepared(index: int) -> object:
        try:
            sample = samples.read(index)
            if encoder.cuts is not None and isinstance(sample, str) and encoder.cuts(sample):
                samples.notice("cut", index)
            return encoder.prepare(sample)
        except SampleError as error:
            return error
        except ValueError as error:
            return SampleError(index, samples.ids[index], str(error))

    waiting: deque[Future[list[object]]] = deque()
    for group in groups:
        waiting.append(pool.submit(lambda group: list(map(prepared, group)), group))
        if len(waiting) > batch_size // SLOTS:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _features(
    samples: SampleSet, encoder: Encoder, sha: str, array: npt.NDArray[Any], errors: list[SampleError], *, cached: bool
) -> EncodedFeatures:
    indices = np.delete(np.arange(len(samples)), [error.index for error in errors])
    ids = samples.ids if not errors else tuple(samples.ids[int(index)] for index in indices)
    return EncodedFeatures(array, ids, indices, encoder.name, encoder.protocol, sha, tuple(errors), cached)


def _encoder(
    samples: SampleSet, encoder: Encoder | str | None, reference: SampleSet | None, device: str | None
) -> Encoder:
    """The requested encoder or the default one, after checking that it accepts samples of this kind."""
    if samples.kind == "moments":
        raise ValueError(f"`{samples.name}` contains statistics, not samples. They allow FID only.")
    if not isinstance(encoder, Encoder):
        name = encoder or default_encoder(samples.kind)
        if name in TEXTS and samples.kind != "text":  # before its weights are looked for
            raise ValueError(f"encoder `{name}` accepts text; got {samples.kind}.")
        encoder = load_encoder(name, reference=reference, device=device if runs_on_a_device(name) else None)
    if encoder.kind not in (None, samples.kind):
        raise ValueError(f"encoder `{encoder.name}` accepts {encoder.kind}; got {samples.kind}.")
    return encoder
