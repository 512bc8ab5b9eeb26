"""Images in a folder or a zip, decoded one by one to `uint8` RGB. A damaged or hostile file raises one clear error."""

from __future__ import annotations

import hashlib
import io
import os
import posixpath
import threading
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from precall.samples import hashing, reading
from precall.samples.sampleset import ErrorPolicy, SampleError, SampleSet, natural, shown

if TYPE_CHECKING:
    from PIL import Image

Pixels = npt.NDArray[np.uint8]

# only these decoders are used, independently of the suffix; unlike PostScript's, none of them runs another program
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "PPM", "TIFF")
SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".ppm", ".pgm", ".pnm", ".tif", ".tiff"})
SIGNATURES = (b"\x89PNG", b"\xff\xd8\xff", b"RIFF", b"GIF8", b"BM", b"P4\n", b"P5\n", b"P6\n", b"II*\0", b"MM\0*")

SCAN, MOST_SCANNED = b"\xff\xda", 1 << 33  # a scan of a JPEG visits all pixels; a progressive one has about ten scans
MEMBER = 4  # times as much memory as a line of a file takes the entry of a zip, which has 46 bytes at least

# How image files are converted to pixels; part of the protocol of every image encoder.
DECODING = {
    "frames": "first",
    "rotation": "EXIF orientation applied",
    "alpha": "composited on white",
    "16 bit": "greyscale divided by 257 and rounded, colour by its high byte",
}


@dataclass(frozen=True, eq=False)
class ImageFiles(SampleSet):
    """Image files in a folder (recursive), in an archive, or in the records of another source."""

    content: Callable[[int], bytes] = field(default=lambda index: b"", repr=False)  # the bytes of each image file
    paths: Sequence[Path] = ()  # one per image if `own_files`; empty for images in memory
    key: str | None = None  # the name of the field or column that is read
    own_files: bool = False

    def read(self, index: int) -> Pixels:
        try:
            return decode_image(self.content(index), on_frames=lambda: self.notice("frames", index))
        except (OSError, ValueError) as error:
            raise SampleError(index, self.ids[index], _reason(error)) from None

    def fingerprint(self, index: Path | None = None) -> str:
        """SHA-256 of the SHA-256 hashes of all files, in order (for an archive, of the archive itself)."""

        def hashed(index: int) -> str:
            try:
                return hashlib.sha256(self.content(index)).hexdigest()
            except (OSError, ValueError) as error:
                return _reason(error)

        if not self.paths:
            return hashing.combined(map(hashed, range(len(self))))
        key = [] if self.key is None else [self.key]
        return hashing.combined([*hashing.of_files(self.paths, index), *key])


def open_folder(root: Path, on_error: ErrorPolicy) -> ImageFiles:
    """Open all images below a folder, each subfolder once. Hidden files and other files are ignored and counted."""
    root = Path(os.path.abspath(root))
    walked = [(os.path.relpath(path, root).replace(os.sep, "/"), path) for path in reading.walk(root)]
    found = sorted((os.fsencode(name).decode("utf-8", "backslashreplace"), path) for name, path in walked)
    files = sorted((pair for pair in found if is_image(pair[0])), key=lambda pair: natural(pair[0]))
    if not files:
        raise ValueError(_no_images(f"`{shown(str(root))}`", len(found)))
    return open_files(dict(files), str(root), on_error, ignored=len(found) - len(files))


def open_files(files: Mapping[str, Path], name: str, on_error: ErrorPolicy, *, ignored: int = 0) -> ImageFiles:
    paths = tuple(files.values())
    content = lambda index: reading.read_file(paths[index])  # noqa: E731
    return ImageFiles("images", tuple(files), name, on_error, ignored, content=content, paths=paths, own_files=True)


def open_zip(path: Path, on_error: ErrorPolicy) -> ImageFiles:
    """Open the images in a zip. They are unpacked in memory one by one; nothing is written to disk."""
    archive, lock = open_archive(path), threading.Lock()
    members = [member for member in archive.infolist() if not member.filename.endswith("/")]
    images = sorted((m for m in members if is_image(m.filename)), key=lambda member: natural(member.filename))
    if not images:
        raise ValueError(_no_images(f"`{shown(str(path))}`", len(members)))
    ids, ignored = tuple(member.filename for member in images), len(members) - len(images)
    content = lambda index: _unpacked(archive, images[index], lock)  # noqa: E731
    place = (Path(os.path.abspath(path)),)
    return ImageFiles("images", ids, str(path), on_error, ignored, content=content, paths=place)


def open_archive(path: Path) -> zipfile.ZipFile:
    """Open a zip file, and refuse it if its declared sizes indicate a decompression bomb."""
    try:
        reading.check_count(f"`{shown(str(path))}` has too many members", MEMBER * _members_at_most(path))
        archive = zipfile.ZipFile(path)
    except OSError:
        raise
    except Exception as error:  # BadZipFile, NotImplementedError, struct.error, UnicodeDecodeError, …
        raise ValueError(f"`{shown(str(path))}` must be a zip file; {shown(_reason(error))}.") from None
    size = sum(member.file_size for member in archive.infolist())
    try:
        reading.check_expansion(f"`{shown(str(path))}`", packed=path.stat().st_size, unpacked=size)
    except ValueError:
        archive.close()
        raise
    return archive


def _members_at_most(path: Path) -> int:
    """The number of members of a zip file, from the size of its directory, which its last record gives."""
    with reading.open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - (1 << 16) - 22))
        _, found, record = file.read().rpartition(b"PK\5\6")
    listed = int.from_bytes(record[8:12], "little") if found else 0
    return min(size, listed) // 46  # a large archive has another record; its own size is the limit then


def decode_image(data: bytes, *, on_frames: Callable[[], None] = lambda: None) -> Pixels:
    """Decode an image file to `uint8` RGB of shape (height, width, 3), as `DECODING` says.

    CMYK is converted without a colour profile. Images with more pixels than Pillow's `Image.MAX_IMAGE_PIXELS`, and
    files that expand implausibly, are refused before decoding. `on_frames` is called if there are several frames.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            _check(image, data)
            if getattr(image, "is_animated", False):
                on_frames()
            return as_rgb(ImageOps.exif_transpose(image))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ValueError(f"too many pixels, refused ({error})") from None
    except UnidentifiedImageError:
        raise ValueError(f"not an image of a known format ({', '.join(FORMATS)})") from None
    except (OSError, ValueError):
        raise
    except Exception as error:  # on damaged files, parsers raise struct.error, IndexError, SyntaxError, …
        raise ValueError(f"the image is damaged ({type(error).__name__}: {error})") from None


def as_rgb(image: Image.Image) -> Pixels:
    from PIL import Image

    if image.mode.startswith("I"):
        return _from_16_bit(np.asarray(image), image.info.get("transparency"))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return np.array(image.convert("RGB"))


def is_image_content(value: object) -> bool:
    """Whether a value is the beginning of an image file of a known format."""
    return isinstance(value, bytes) and value.startswith(SIGNATURES)


def is_image(name: str) -> bool:
    """Whether a path has the suffix of an image file and is neither hidden nor metadata that macOS adds to zips."""
    path = PurePosixPath(name.replace("\\", "/"))
    hidden = path.name.startswith(".") or path.parts[:1] == ("__MACOSX",)
    return path.suffix.lower() in SUFFIXES and not hidden


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo, lock: threading.Lock) -> bytes:
    """Unpack a zip member after checking its path and size. `zipfile` requires one thread at a time."""
    name = member.filename.replace("\\", "/")
    if posixpath.isabs(name) or ".." in name.split("/") or ":" in name.split("/")[0]:
        raise ValueError("the path leaves the zip; refused")
    if member.file_size > reading.limit():
        raise ValueError(f"larger than {reading.limit():,} bytes. Set {reading.VARIABLE} to raise this limit")
    if member.flag_bits & 1:
        raise ValueError("the zip member is encrypted")
    try:
        with lock:
            return archive.read(member)
    except Exception as error:  # BadZipFile, zlib.error, NotImplementedError, EOFError, …
        raise ValueError(f"the zip member is damaged ({error})") from None


def _check(image: Image.Image, data: bytes) -> None:
    """Refuse images of more pixels than Pillow allows, of very many scans, or of pixels whose range is unknown."""
    from PIL import Image

    limit, pixels = Image.MAX_IMAGE_PIXELS, image.width * image.height
    if limit is not None and pixels > limit:
        raise ValueError(f"{image.width:,} × {image.height:,} pixels, more than {limit:,}; refused")
    reading.check_expansion("the image", packed=len(data), unpacked=3 * pixels)
    if data.count(SCAN) * pixels > MOST_SCANNED and image.format == "JPEG":
        raise ValueError("its pixels are stored in very many scans, which take minutes to decode; refused")
    if image.mode == "F" or (image.mode == "I" and image.format != "PNG"):  # older Pillows read 16-bit PNGs as "I"
        raise ValueError(f"pixels of mode {image.mode} have no known range: save 8 or 16 bits per channel")


def _from_16_bit(grey: npt.NDArray[Any], transparent: object) -> Pixels:
    """Scale 16-bit greyscale; pixels of the value that a PNG declares transparent become white."""
    if grey.size and (grey.min() < 0 or grey.max() > 65535):
        raise ValueError("pixels exceed 16 bits: save 8 or 16 bits per channel")
    pixels = np.where(grey == transparent, 255, np.rint(grey / 257)).astype(np.uint8)
    return np.repeat(pixels[..., None], 3, axis=2)


def _reason(error: Exception) -> str:
    """A short description of an error: the system's message for file errors, else the error's message."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__


def _no_images(place: str, others: int) -> str:
    suffixes = " ".join(sorted(SUFFIXES))
    return f"{place} must contain images ({suffixes}); got {others} other files. Check the path."
