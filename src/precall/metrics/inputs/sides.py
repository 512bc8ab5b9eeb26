"""The inputs of `assess` as features: matrices are used as they are, everything else is opened and encoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from precall.devices import exact_device
from precall.encoders import EncodedFeatures, Encoder, default_encoder, encode, load_encoder
from precall.encoders.registry import runs_on_a_device
from precall.metrics.distances.moments import Moments
from precall.metrics.inputs.features import Features, as_features, as_tensor, moved
from precall.metrics.scores.record import SideRecord
from precall.progress import StageProgress
from precall.samples import SampleSet, open_samples
from precall.samples.arrays import Statistics, stored_statistics
from precall.samples.columns import TableChoice
from precall.samples.references import OUTPUT, ReferenceRows
from precall.samples.tables import TableRows
from precall.theory import checks
from precall.theory.arrays import Array, Index, Matrix, check_tensor, is_tensor, to_numpy

BITS = {"bfloat16": 8, "float16": 11, "float32": 24}  # significant bits of the types, from the coarsest to the finest
LOOKED_AT = 1 << 16  # values that are looked at before all are
SEEN = 1e-4  # how far rounding moves a value that is seen, in standard deviations of its column
USED = 0.3  # share of values that use the last bit of a type; half of all do, and fewer of whole numbers


@dataclass(frozen=True, eq=False)
class Prompted:
    """The prompts of the samples of one side."""

    number: Index  # the number of each sample's prompt; both sides number the prompts alike
    texts: Sequence[str]  # the prompts as they are shown, by number
    features: Array | None  # features of each sample's prompt, shape (n, d); None if the prompts are mere ids
    drawn: bool  # whether prompts are the units that were drawn; few prompts, such as classes, are not
    about: Mapping[str, Any] = field(default_factory=dict)  # what the protocol says about them


@dataclass(frozen=True, eq=False)
class Side:
    """Features of one side (real or fake), with the samples that they were computed from if these are known."""

    features: Features  # features, shape (n, d); shape (0, d) if statistics were given
    samples: SampleSet | None = None  # the sample set that was encoded, or None if features were given
    rows: Any = None  # index in `samples` of each row of `features`
    record: SideRecord = field(default_factory=SideRecord)  # where the features come from
    moments: Moments | None = None  # statistics in place of samples; they give FID only
    counted: bool = True  # whether the number of samples is known; a file of statistics may not contain it
    outputs: Mapping[str, Features] = field(default_factory=dict)  # further outputs of the encoder, by name
    prompted: Prompted | None = None  # the prompt of each sample, or None

    def output(self, name: str) -> Features:
        """A further output of the encoder."""
        if name in self.outputs:
            return self.outputs[name]
        got = ", ".join(self.outputs) or "none"
        raise ValueError(
            f"the encoder must have the output `{name}`; its further outputs are: {got}. Use the encoder "
            "`inception-adm`, or a function of your own with the attribute `outputs`."
        )

    def stored_statistics(self, output: str | None) -> Moments | None:
        """Mean and covariance that lie beside the samples in a `.npz` (`mu`, `sigma`; spatial: `mu_s`, `sigma_s`)."""
        paths: tuple[Path, ...] = getattr(self.samples, "paths", ())
        if len(paths) != 1 or paths[0].suffix.lower() != ".npz":
            return None
        names = ("mu", "sigma") if output is None else ("mu_s", "sigma_s")
        found = stored_statistics(paths[0], *names)
        return None if found is None else Moments.from_statistics(*found, max(2, len(self.features)))

    @property
    def n(self) -> int | None:
        """Number of samples, or None if it is not known."""
        if self.moments is None:
            return len(self.features)
        return self.moments.n if self.counted else None

    @property
    def table(self) -> Mapping[str, Any] | None:
        """The protocol of the encoder of tables, or None if the samples are no table."""
        return (self.record.protocol or {}) if self.record.encoder == "table" else None

    def contents(self) -> str:
        """What a report about tables contains of them, in a sentence or two."""
        if self.table is not None and self.table["rows_shown"]:
            return "The report contains rows of the tables and names of categories, without the columns left out."
        adding = "`show_rows` (--show-rows) adds them"
        return f"The report contains names and summaries of columns, but no rows and no names of categories; {adding}."

    def of_rows(self, labels: Any) -> Any:
        """`labels` (one per sample) with one label per row: labels of samples that could not be read are removed."""
        values = to_numpy(labels)
        return values[self.rows] if self.samples is not None and len(values) == len(self.samples) else values

    def subsampled(self, n: int, seed: int) -> Side:
        """A random part of the samples, in their order. The protocol says which."""
        if self.moments is not None:
            raise ValueError("a subsample needs samples; got statistics (mu, sigma). Pass the samples.")
        total = len(self.features)
        if not 2 <= checks.count("n", n) <= total:
            raise ValueError(f"`n` must be between 2 and {total}, the number of samples; got {n}.")
        chosen = np.sort(np.random.default_rng(seed).choice(total, n, replace=False))
        record = replace(self.record, subsample=f"{n:,} of {total:,} samples, seed {seed}")
        return replace(self.taking(chosen), record=record)

    def taking(self, chosen: Index) -> Side:
        """The samples in these rows."""
        return replace(
            self,
            features=self.features[chosen],
            rows=chosen if self.rows is None else np.asarray(self.rows)[chosen],
            outputs={name: matrix[chosen] for name, matrix in self.outputs.items()},
        )

    def identity(self, row: int) -> str:
        """The id of the sample in `row`: its file name or its index."""
        index = row if self.rows is None else int(self.rows[row])
        return str(index) if self.samples is None else str(self.samples.ids[index])

    def cells(self, row: int) -> Mapping[str, str]:
        """The cells of a row of a table that may be shown, by column; empty if none may."""
        visible: Sequence[str] = getattr(self.samples, "visible", ())
        if self.samples is None or not visible:
            return {}
        found = self.samples.read(int(self.rows[row]))
        return {name: found[name] for name in visible}

    def show(self, row: int) -> Any:
        """A thumbnail of the sample in `row`, or a line of text that describes it."""
        if self.samples is None:
            return f"sample {row}"
        index = int(self.rows[row])
        return self.samples.thumbnail(index) or self.samples.describe(index)

    def on_one_grid(self, other: Side) -> tuple[Side, Side]:
        """Both sides in the coarser of their floating-point types; the record says so if rounding moves values visibly.

        A classifier tells a rounded number from one that is not, which says nothing about the model. If all values of
        one side are numbers of a coarser type, and those of the other side are not, the other side is rounded to it.
        """
        if self.moments is not None or other.moments is not None or self.table is not None:
            return self, other
        own, its, order = self.float_type, other.float_type, [*BITS, None]
        if order.index(own) < order.index(its):
            return self, other.rounded(str(own))
        return (self, other) if own == its else (self.rounded(str(its)), other)

    @property
    def float_type(self) -> str | None:
        """The coarsest type that holds every value, if the values use all of its bits; None if there is none."""
        n, d = self.features.shape
        some = to_numpy(self.features[:: max(1, n * d // LOOKED_AT)])
        for name, bits in BITS.items():
            mantissa = np.frexp(some[some != 0].astype(np.float64))[0] * 2.0**bits
            odd = float((mantissa % 2 == 1).mean()) if mantissa.size else 0.0
            if odd > USED and (_cast(some, name) == some).all():
                values = some if str(self.features.dtype).endswith(name) else to_numpy(self.features)
                return name if (_cast(values, name) == values).all() else None
        return None

    def rounded(self, name: str) -> Side:
        """This side in a coarser type; as it is if that changes nothing, or if its numbers are too large for it."""
        values = to_numpy(self.features)
        matrix = _cast(values, name)
        if (matrix == values).all() or not np.isfinite(matrix).all():
            return self
        features: Features = as_tensor(matrix, self.features.device) if is_tensor(self.features) else matrix
        seen = (np.abs(matrix - values).max(0) > SEEN * values.std(0)).any()
        storage = f"rounded to {name}, the type of the other side" if seen else self.record.storage
        return replace(self, features=features, record=replace(self.record, storage=storage))


def _cast(values: Matrix, name: str) -> Matrix:
    """The values rounded to a type, in their own type."""
    if name == "bfloat16":  # the first 16 bits of float32, rounded to even
        bits = values.astype(np.float32).view(np.uint32)
        rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32)
        return rounded.view(np.float32).astype(values.dtype)
    with np.errstate(over="ignore"):
        return values.astype(name).astype(values.dtype)


def side(
    name: str,
    source: Any,
    *,
    encoder: Encoder | str | None = None,
    default: str | None = None,
    reference: Side | None = None,
    table: TableChoice | None = None,
    loaded: dict[str, Encoder] | None = None,
    device: str | None = None,
    progress: StageProgress | None = None,
    at_least: int = 2,
) -> Side:
    """`source` as features. A matrix is used as it is; anything else goes through `open_samples` and `encode`.

    Args:
        default: The encoder of samples that are not features if `encoder` is None, in place of that of their kind.
        reference: The real side, to which the encoder of tables is fitted.
        table: What the user says about the columns of the real table.
        loaded: Encoders that are loaded already, by name. Sides that share this dict load each encoder once.
        device: Where networks run, and where the features are put; None leaves features where they are.
    """
    found = _unencoded(name, source, table, at_least)
    if not isinstance(found, Side):
        fitted_on = reference.samples if reference is not None else found if name == "real" else None
        chosen = _loaded(found, (encoder, default), fitted_on, {} if loaded is None else loaded, device)
        samples = found
        if isinstance(found, TableRows) and chosen.name == "table":
            visible = [name for name, column in chosen.protocol["columns"].items() if not column["private"]]
            samples = replace(found, visible=tuple(visible) if chosen.protocol["rows_shown"] else ())
        encoded = encode(samples, chosen, progress=progress)
        matrix, widths = as_features(name, encoded.array, at_least=at_least), encoded.protocol.get("outputs", {})
        ends = np.cumsum([0, *widths.values()])  # the outputs lie side by side in one matrix
        parts = {output: matrix[:, a:b] for output, a, b in zip(widths, ends, ends[1:], strict=False)}
        features = parts.pop(next(iter(widths))) if widths else matrix
        found = Side(features, samples, encoded.indices, SideRecord.from_dict(encoded.to_dict()), outputs=parts)
    if device is None:
        return found
    place = exact_device(device)
    outputs = {output: moved(matrix, place) for output, matrix in found.outputs.items()}
    return replace(found, features=moved(found.features, place), outputs=outputs)


def _unencoded(name: str, source: Any, table: TableChoice | None, at_least: int) -> Side | SampleSet:
    """Features, statistics and stored references as a side; anything else as samples that must be encoded."""
    if isinstance(source, Side):
        return source
    if isinstance(source, Moments):
        return Side(np.empty((0, source.mean.size)), moments=source)
    if is_tensor(source):
        check_tensor(name, source)
    if _is_matrix(source):
        return Side(as_features(name, source, at_least=at_least))
    if isinstance(source, EncodedFeatures):
        record = SideRecord.from_dict(source.to_dict())
        return Side(as_features(name, source.array, at_least=at_least), record=record)
    samples = open_samples(str(source) if isinstance(source, Path) else source)
    if table is not None:
        if not isinstance(samples, TableRows):
            only = "`columns`, `ignore`, `kinds` and `show_rows` are for tables"
            raise ValueError(f"{only}; `real` holds {samples.kind}.")
        samples = replace(samples, choice=table)
    if isinstance(samples, ReferenceRows):
        return _of_reference(samples)
    return _of_statistics(cast("Statistics", samples)) if samples.kind == "moments" else samples


def _loaded(
    samples: SampleSet,
    choice: tuple[Encoder | str | None, str | None],
    reference: SampleSet | None,
    loaded: dict[str, Encoder],
    device: str | None,
) -> Encoder:
    """The requested encoder, or the default one for the kind of samples; it is taken from `loaded` or added to it."""
    encoder, default = choice
    if isinstance(encoder, Encoder):
        return encoder
    name = encoder or (default if samples.kind != "features" else None) or default_encoder(samples.kind)
    if name not in loaded:
        loaded[name] = load_encoder(name, reference=reference, device=device if runs_on_a_device(name) else None)
    return loaded[name]


def _of_reference(samples: ReferenceRows) -> Side:
    """The side of a stored reference. Its protocol names the file, and the original samples."""
    names = [name for name in samples.about["sha256"] if name.startswith(OUTPUT)]
    outputs = {name.removeprefix(OUTPUT): as_features(name, samples.stored(name)) for name in names}
    features, protocol = as_features("real", samples.array), samples.about["protocol"]
    known = {"shape": list(features.shape), **protocol, "fingerprint": samples.fingerprint()}
    known |= {"reference": samples.name, "made_from": protocol.get("fingerprint", "features")}
    return Side(features, samples, np.arange(len(features)), SideRecord.from_dict(known), outputs=outputs)


def _of_statistics(statistics: Statistics) -> Side:
    """The side of stored statistics. If the file has no number of samples, 2 is used: FID does not depend on it."""
    moments = Moments.from_statistics(statistics.mu, statistics.sigma, 2 if statistics.n is None else statistics.n)
    record = SideRecord(statistics=statistics.name, fingerprint=statistics.fingerprint())
    empty = np.empty((0, moments.mean.size))
    return Side(empty, record=record, moments=moments, counted=statistics.n is not None)


def _is_matrix(source: Any) -> bool:
    """Whether `source` is a matrix of features. Arrays of images have 3 or 4 dimensions."""
    if is_tensor(source):
        return bool(source.ndim == 2)
    if isinstance(source, np.ndarray):
        return source.ndim <= 2 and source.dtype.kind not in "OUS"
    if not isinstance(source, list) or not source:
        return False
    return source[0].ndim == 1 if isinstance(source[0], np.ndarray) else isinstance(source[0], list | tuple)
