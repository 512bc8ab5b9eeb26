"""Images from a folder or a zip, decoded one by one into `uint8` RGB; hostile files cost one sentence each."""

from __future__ import annotations

import io
import os
import posixpath
import threading
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from precall.samples import hashing
from precall.samples.sampleset import ErrorPolicy, SampleError, SampleSet, natural, shown

if TYPE_CHECKING:
    from PIL import Image

Pixels = npt.NDArray[np.uint8]

# decoders that are asked, whatever the suffix says: none of them runs another program (as PostScript's does)
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "PPM", "TIFF")
SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".ppm", ".pgm", ".pnm", ".tif", ".tiff"})
MAX_FILE_BYTES = 1 << 29  # of one image file, or of one zip member unpacked
MAX_EXPANSION, EXPANSION_MATTERS = 200, 1 << 30  # a zip that unpacks 200-fold and beyond 1 GiB is a bomb

# How samples become pixels: part of the protocol of every image encoder.
DECODING = {
    "frames": "first",
    "rotation": "EXIF orientation applied",
    "alpha": "composited on white",
    "16 bit": "divided by 257 and rounded",
}


@dataclass(frozen=True, eq=False)
class ImageFiles(SampleSet):
    """Images in files: of a folder (recursive) or of a zip, in natural order of their paths."""

    content: Callable[[int], bytes] = field(default=lambda index: b"", repr=False)
    paths: Sequence[Path] = ()

    def read(self, index: int) -> Pixels:
        """The image at `index` as `uint8`, shape (height, width, 3)."""
        try:
            return decode_image(self.content(index))
        except (OSError, ValueError) as error:
            raise SampleError(index, self.ids[index], _reason(error)) from None

    def fingerprint(self, index: Path | None = None) -> str:
        """SHA-256 over the SHA-256 of each file, in order (of the zip file as a whole)."""
        return hashing.combined(hashing.of_files(self.paths, index))


def open_folder(root: Path, on_error: ErrorPolicy) -> ImageFiles:
    """The images below a folder. Links are followed, once; other files and hidden ones are counted and passed over."""
    root = Path(os.path.abspath(root))
    found = sorted((_name(path, root), path) for path in _walk(root))
    files = sorted((pair for pair in found if is_image(pair[0])), key=lambda pair: natural(pair[0]))
    if not files:
        raise ValueError(_no_images(f"`{shown(str(root))}`", len(found)))
    names, paths = zip(*files, strict=True)
    return ImageFiles(
        kind="images",
        ids=names,
        name=str(root),
        on_error=on_error,
        ignored=len(found) - len(files),
        content=lambda index: read_bounded(paths[index]),
        paths=paths,
    )


def open_zip(path: Path, on_error: ErrorPolicy) -> ImageFiles:
    """The images in a zip, unpacked in memory one by one; nothing is written, so no member can leave its place."""
    archive, lock = open_archive(path), threading.Lock()
    members = [member for member in archive.infolist() if not member.is_dir()]
    images = sorted((m for m in members if is_image(m.filename)), key=lambda member: natural(member.filename))
    if not images:
        raise ValueError(_no_images(f"`{shown(str(path))}`", len(members)))
    return ImageFiles(
        kind="images",
        ids=tuple(member.filename for member in images),
        name=str(path),
        on_error=on_error,
        ignored=len(members) - len(images),
        content=lambda index: _unpacked(archive, images[index], lock),
        paths=(Path(os.path.abspath(path)),),
    )


def open_archive(path: Path) -> zipfile.ZipFile:
    """A zip whose declared sizes are those of data, not of a bomb."""
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise ValueError(f"`{shown(str(path))}` must be a zip file; {_reason(error)}.") from None
    size = sum(member.file_size for member in archive.infolist())
    if size > EXPANSION_MATTERS and size > MAX_EXPANSION * path.stat().st_size:
        archive.close()
        raise ValueError(
            f"`{shown(str(path))}` declares {size:,} bytes from {path.stat().st_size:,}: refused as a bomb."
        )
    return archive


def decode_image(data: bytes) -> Pixels:
    """An encoded image as `uint8` RGB, shape (height, width, 3).

    The first frame; rotated as its EXIF orientation says; grey repeated in three channels; transparency composited on
    white; 16-bit grey divided by 257. More pixels than Pillow's `Image.MAX_IMAGE_PIXELS` are refused before decoding.

    Raises:
        OSError, ValueError: If the data is damaged, too large, or of no known format.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            _check_size(image)
            _check_range(image)
            return as_rgb(ImageOps.exif_transpose(image))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ValueError(f"too many pixels, refused ({error})") from None
    except UnidentifiedImageError:
        raise ValueError(f"not an image of a known format ({', '.join(FORMATS)})") from None
    except (OSError, ValueError):
        raise
    except Exception as error:  # parsers of damaged files end in struct.error, IndexError, SyntaxError, …
        raise ValueError(f"the image is damaged ({type(error).__name__}: {error})") from None


def as_rgb(image: Image.Image) -> Pixels:
    """A Pillow image of any mode as `uint8` RGB, shape (height, width, 3)."""
    from PIL import Image

    if image.mode.startswith("I"):
        return _from_16_bit(np.asarray(image))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return np.array(image.convert("RGB"))


def is_image(name: str) -> bool:
    """Whether a path looks like an image file: by suffix; hidden files, and what macOS adds to zips, do not."""
    path = PurePosixPath(name.replace("\\", "/"))
    hidden = path.name.startswith(".") or path.parts[0] == "__MACOSX"
    return path.suffix.lower() in SUFFIXES and not hidden


def read_bounded(path: Path) -> bytes:
    """The bytes of a file, refused where they are more than any image needs."""
    with open(path, "rb") as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"the file is larger than {MAX_FILE_BYTES:,} bytes")
    return data


def _walk(root: Path, seen: frozenset[tuple[int, int]] = frozenset()) -> Iterator[Path]:
    """Regular files below `root`; a linked folder is entered unless it is one of those it lies in."""
    status = root.stat()
    if (status.st_dev, status.st_ino) in seen:
        return
    seen = seen | {(status.st_dev, status.st_ino)}
    with os.scandir(root) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _walk(Path(entry.path), seen)
            elif entry.is_file():
                yield Path(entry.path)


def _name(path: Path, root: Path) -> str:
    """The path below `root` with forward slashes, as text that any encoding can write."""
    relative = os.path.relpath(path, root).replace(os.sep, "/")
    return os.fsencode(relative).decode("utf-8", "backslashreplace")


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo, lock: threading.Lock) -> bytes:
    """The bytes of a zip member with an honest path and a sensible size; one thread at a time, as `zipfile` needs."""
    name = member.filename.replace("\\", "/")
    if posixpath.isabs(name) or ".." in name.split("/") or ":" in name.split("/")[0]:
        raise ValueError("the path leaves the zip; refused")
    if member.file_size > MAX_FILE_BYTES:
        raise ValueError(f"{member.file_size:,} bytes unpacked, more than {MAX_FILE_BYTES:,}; refused")
    if member.flag_bits & 1:
        raise ValueError("the zip member is encrypted")
    try:
        with lock:
            return archive.read(member)
    except Exception as error:  # BadZipFile, zlib.error, NotImplementedError, EOFError, …
        raise ValueError(f"the zip member is damaged ({error})") from None


def _check_range(image: Image.Image) -> None:
    """Floating-point and 32-bit pixels have no customary white; PNG's 16 bits come as 32 from older Pillows."""
    if image.mode == "F" or (image.mode == "I" and image.format != "PNG"):
        raise ValueError(f"pixels of mode {image.mode} have no known range: save the image with 8 or 16 bits a channel")


def _check_size(image: Image.Image) -> None:
    from PIL import Image

    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and image.width * image.height > limit:
        raise ValueError(f"{image.width:,} × {image.height:,} pixels, more than {limit:,}; refused")


def _from_16_bit(grey: npt.NDArray[Any]) -> Pixels:
    if grey.size and (grey.min() < 0 or grey.max() > 65535):
        raise ValueError("pixels are beyond 16 bits: save the image with 8 or 16 bits a channel")
    pixels = np.rint(grey / 257).astype(np.uint8)
    return np.repeat(pixels[..., None], 3, axis=2)


def _reason(error: Exception) -> str:
    """An error as a few words: the system's own for files, else its message."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__


def _no_images(place: str, others: int) -> str:
    suffixes = " ".join(sorted(SUFFIXES))
    return f"{place} must hold images ({suffixes}); got {others} other files. Check the path."
