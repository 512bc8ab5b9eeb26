"""The base class of sample sets: ids in a stable order, samples read on demand, and a fingerprint of the content."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from precall.printing import shown as shown

if TYPE_CHECKING:
    from PIL.Image import Image

Kind = Literal["images", "features", "text", "table", "files", "moments"]
ErrorPolicy = Literal["fail", "skip"]
Notice = Literal["cut", "frames", "surrogates"]

THUMBNAIL = 96  # longer side of a gallery image, in pixels
NOTICES: dict[Notice, str] = {
    "cut": "{n} texts are longer than the encoder reads, and their ends are not compared",
    "frames": "{n} images have several frames or pages, of which only the first is used",
    "surrogates": "{n} texts contain halves of surrogate pairs, which are replaced by U+FFFD",
}
NAMED = 5  # samples that a notice names
DESCRIPTION = 300  # maximum length of a gallery text, in characters


class SampleWarning(UserWarning):
    """Something about the samples that may explain a score: what was left out or replaced, or differs plainly."""


class SampleError(ValueError):
    """Raised when a sample cannot be read. Contains its index, its id and a short reason."""

    def __init__(self, index: int, id: str, reason: str) -> None:
        super().__init__(f"{shown(id)}: {shown(reason)}")
        self.index, self.id, self.reason = index, id, shown(reason)


class Batch(NamedTuple):
    """Consecutive readable samples: their indices in the set, their ids, and the samples."""

    indices: list[int]
    ids: list[str]
    items: list[Any]


@dataclass(frozen=True, eq=False)
class SampleSet(ABC):
    """Samples of one kind, in a stable order, read one by one on demand.

    A sample is a `uint8` array of shape (height, width, 3) for images, a one-dimensional array for features, a string
    for text, a mapping from column to cell for tables, and a path for files. Statistics (kind `"moments"`) contain no
    samples.

    Attributes:
        ids: One name per sample: its path inside the folder or zip, or its index.
        on_error: What to do with a sample that cannot be read: `"fail"` raises its error, `"skip"` records it in
            `errors` and continues.
        ignored: Number of files that were ignored because they are not samples (other suffixes, hidden files).
    """

    kind: Kind
    ids: Sequence[str]
    name: str
    on_error: ErrorPolicy = "fail"
    ignored: int = 0
    _errors: dict[int, SampleError] = field(default_factory=dict, repr=False)
    _noticed: dict[Notice, set[int]] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.ids)

    @abstractmethod
    def read(self, index: int) -> Any:
        """Return the sample at `index`; raise a `SampleError` if it cannot be read."""

    @abstractmethod
    def fingerprint(self, index: Path | None = None) -> str:
        """SHA-256 of the content, whatever the names of the samples.

        Args:
            index: A file that stores the hashes of files together with their sizes and times, so that unchanged files
                are not read again; None reads every file.
        """

    def __getitem__(self, index: int) -> Any:
        if not -len(self) <= index < len(self):
            raise IndexError(f"`index` must be between 0 and {len(self) - 1}; got {index}.")
        return self.read(index % len(self))

    @property
    def errors(self) -> tuple[SampleError, ...]:
        """The samples that could not be read so far, in order of their index."""
        return tuple(error for _, error in sorted(self._errors.items()))

    def fault(self, error: SampleError) -> None:
        """Record a sample that cannot be read, or raise its error if `on_error` is `"fail"`."""
        if self.on_error == "fail":
            way_out = "pass `on_error='skip'` (--on-error skip) to leave out such samples"
            error.add_note(f"in {shown(self.name)}; {way_out}")
            raise error
        # a new error: the traceback of the first one would keep the blocks of the file in memory
        self._errors[error.index] = SampleError(error.index, error.id, error.reason)

    def notice(self, what: Notice, index: int) -> None:
        """Record that a sample was read in a way that users should know about."""
        self._noticed.setdefault(what, set()).add(index)

    @property
    def noticed(self) -> dict[Notice, list[int]]:
        """The indices of the samples of each notice so far, in order."""
        return {what: sorted(indices) for what, indices in sorted(self._noticed.items())}

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about samples that were not read as they are, so far: which ones, and what was done."""
        found = []
        for what, indices in self.noticed.items():
            more = f" and {len(indices) - NAMED:,} more" if len(indices) > NAMED else ""
            named = shown(", ".join(self.ids[index] for index in indices[:NAMED]))
            found.append(f"{NOTICES[what].format(n=f'{len(indices):,}')}: {named}{more}.")
        return tuple(found)

    def batches(self, size: int) -> Iterator[Batch]:
        """Iterate over the samples in order, at most `size` at a time; `on_error` decides about unreadable samples."""
        if size < 1:
            raise ValueError(f"`size` must be at least 1; got {size}.")
        for start in range(0, len(self), size):
            batch = Batch([], [], [])
            for index in range(start, min(start + size, len(self))):
                try:
                    item = self.read(index)
                except SampleError as error:
                    self.fault(error)
                    continue
                batch.indices.append(index)
                batch.ids.append(self.ids[index])
                batch.items.append(item)
            yield batch

    def thumbnail(self, index: int) -> Image | None:
        """The sample as an image of at most 96 × 96 pixels, or None if the samples are not images."""
        if self.kind != "images":
            return None
        from PIL import Image

        image = Image.fromarray(self[index])
        image.thumbnail((THUMBNAIL, THUMBNAIL))
        return image

    def describe(self, index: int) -> str:
        """Describe the sample in at most 300 characters of plain text, which is not escaped: its text, or its id."""
        text = shown(self[index] if self.kind == "text" else self.ids[index])
        return text if len(text) <= DESCRIPTION else text[: DESCRIPTION - 1] + "…"


def natural(text: str) -> tuple[list[tuple[int, int, str]], str]:
    """Key for natural sorting, in which `img2` comes before `img10`."""

    def key(part: str) -> tuple[int, int, str]:
        """Numbers before text and by value. Comparing lengths first avoids converting very long numbers."""
        digits = part.lstrip("0")
        return (0, len(digits), digits) if part[0] in "0123456789" else (1, 0, part)

    return [key(part) for part in re.findall(r"[0-9]+|[^0-9]+", text)], text
