"""What the user passed, as features: matrices as they are, everything else opened as samples and encoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from precall.assess.features import Features, as_features, is_tensor

if TYPE_CHECKING:
    from precall.encoders import Encoder
    from precall.samples import SampleSet


@dataclass(frozen=True, eq=False)
class Side:
    """Features of one side, with the samples behind them where they are known.

    Attributes:
        features: Shape (n, d).
        samples: The sample set that was encoded, or None where features came.
        rows: Position in `samples` of each row of `features`.
        protocol: Encoder, its protocol and the content's fingerprint; empty where features came.
    """

    features: Features
    samples: SampleSet | None = None
    rows: Any = None
    protocol: Mapping[str, Any] = field(default_factory=dict)

    def identity(self, row: int) -> str:
        """The id of the sample in `row`: its file name, or its position."""
        return str(row) if self.samples is None else str(self.samples.ids[int(self.rows[row])])

    def show(self, row: int) -> Any:
        """A picture of the sample in `row`, or a line of text about it."""
        if self.samples is None:
            return f"sample {row}"
        index = int(self.rows[row])
        return self.samples.thumbnail(index) or self.samples.describe(index)


def side(
    name: str,
    source: Any,
    *,
    encoder: Encoder | str | None = None,
    reference: Side | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Side:
    """`source` as features: a float matrix is taken as it is, anything else goes through `open_samples` and `encode`.

    Args:
        name: The argument's name, for errors.
        source: A matrix (n, d), features from `precall.encoders.encode`, a sample set, or what `open_samples` takes.
        encoder: How to encode samples; None is the default of their kind.
        reference: The real side, which fits the encoder of tables.
        progress: Called with (samples encoded, samples).
    """
    if isinstance(source, Side):
        return source
    if _is_matrix(source):
        return Side(as_features(name, source))
    from precall.encoders import Features as Encoded
    from precall.encoders import encode
    from precall.samples import open_samples

    if isinstance(source, Encoded):
        return Side(as_features(name, source.array), protocol=source.to_dict())
    samples = open_samples(str(source) if isinstance(source, Path) else source)
    fitted_on = None if reference is None else reference.samples
    encoded = encode(samples, encoder, reference=fitted_on or (samples if name == "real" else None), progress=progress)
    return Side(as_features(name, encoded.array), samples, encoded.indices, encoded.to_dict())


def _is_matrix(source: Any) -> bool:
    """Whether `source` is already a matrix of features; images are arrays too, with 3 or 4 dimensions."""
    if is_tensor(source):
        return bool(source.ndim == 2)
    if isinstance(source, np.ndarray):
        return source.ndim <= 2 and source.dtype.kind not in "OUS"
    return isinstance(source, list) and bool(source) and isinstance(source[0], list | tuple | np.ndarray)
