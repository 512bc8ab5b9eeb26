"""What a sample set is: ids in a stable order, samples read when asked for, and a fingerprint of their content."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from PIL.Image import Image

Kind = Literal["images", "features", "text", "table", "moments"]
ErrorPolicy = Literal["fail", "skip"]

THUMBNAIL = 96  # pixels of a gallery picture's longer side
DESCRIPTION = 300  # characters of a gallery text


class SampleError(ValueError):
    """A sample that cannot be read: its position, its id, and the reason in a few words.

    Example:
        >>> print(SampleError(3, "cat.png", "the image is truncated"))
        cat.png: the image is truncated
    """

    def __init__(self, index: int, id: str, reason: str) -> None:
        super().__init__(f"{shown(id)}: {shown(reason)}")
        self.index, self.id, self.reason = index, id, shown(reason)


class Batch(NamedTuple):
    """Consecutive samples that could be read: their positions in the set, their ids, and the samples."""

    indices: list[int]
    ids: list[str]
    items: list[Any]


@dataclass(frozen=True, eq=False)
class SampleSet(ABC):
    """Samples of one kind, in a stable order, read one by one when asked for.

    A sample is a `uint8` array (height, width, 3) for images, one row for features, a string for text, and a dict from
    column to cell for tables; statistics (kind `"moments"`) hold no samples.

    Attributes:
        kind: `"images"`, `"features"`, `"text"`, `"table"` or `"moments"`.
        ids: One name a sample: the path in its folder or zip, or its position.
        name: Where the samples come from, for people.
        on_error: What reading through the set does with a sample that cannot be read: `"fail"`, or `"skip"` and list
            it in `errors`.
        ignored: Number of files passed over because they are not samples (other suffixes, hidden files).
    """

    kind: Kind
    ids: Sequence[str]
    name: str
    on_error: ErrorPolicy = "fail"
    ignored: int = 0
    _errors: dict[int, SampleError] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.ids)

    @abstractmethod
    def read(self, index: int) -> Any:
        """The sample at `index`, or a `SampleError`."""

    @abstractmethod
    def fingerprint(self, index: Path | None = None) -> str:
        """SHA-256 of the content, 64 hexadecimal digits: equal for equal samples in equal order, whatever their names.

        Args:
            index: A file that remembers the hashes of files by size and times, so that unchanged files are not read
                again; None reads them all.
        """

    def __getitem__(self, index: int) -> Any:
        if not -len(self) <= index < len(self):
            raise IndexError(f"`index` must be between 0 and {len(self) - 1}; got {index}.")
        return self.read(index % len(self))

    @property
    def errors(self) -> tuple[SampleError, ...]:
        """The samples that could not be read so far, in order."""
        return tuple(error for _, error in sorted(self._errors.items()))

    def fault(self, error: SampleError) -> None:
        """Note a sample that cannot be read; raise it where the set says `"fail"`."""
        if self.on_error == "fail":
            error.add_note(f"in {shown(self.name)}; on-error skip leaves such samples out")
            raise error
        self._errors[error.index] = error

    def batches(self, size: int) -> Iterator[Batch]:
        """The samples in order, at most `size` at a time; unreadable ones fail or are left out, as `on_error` says."""
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
        """A picture of the sample, at most 96 pixels a side; None where the samples are not images."""
        if self.kind != "images":
            return None
        from PIL import Image

        image = Image.fromarray(self[index])
        image.thumbnail((THUMBNAIL, THUMBNAIL))
        return image

    def describe(self, index: int) -> str:
        """The sample in at most 300 characters of plain text: its id, its text, or its cells.

        The text is as it came, apart from unprintable characters: whoever writes HTML escapes it.
        """
        if self.kind == "text":
            return _shortened(shown(self[index]))
        if self.kind == "table":
            return _shortened(shown(", ".join(f"{column}={cell}" for column, cell in self[index].items())))
        return _shortened(shown(self.ids[index]))


def shown(text: str) -> str:
    r"""`text` fit for one line of a terminal: unprintable characters are written as escapes.

    Example:
        >>> print(shown("a\x1b[31m\nb"))
        a\x1b[31m\nb
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def natural(text: str) -> tuple[list[tuple[int, int, str]], str]:
    """Sorting key under which `img2` comes before `img10`.

    Example:
        >>> sorted(["img10", "img2", "b/1"], key=natural)
        ['b/1', 'img2', 'img10']
    """
    return [_natural_part(part) for part in re.findall(r"[0-9]+|[^0-9]+", text)], text


def _natural_part(part: str) -> tuple[int, int, str]:
    """Numbers before text, and by value: the longer is the larger (a name of 5,000 digits is no problem)."""
    digits = part.lstrip("0")
    return (0, len(digits), digits) if part[0] in "0123456789" else (1, 0, part)


def _shortened(text: str) -> str:
    return text if len(text) <= DESCRIPTION else text[: DESCRIPTION - 1] + "…"
