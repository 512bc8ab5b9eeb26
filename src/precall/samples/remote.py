"""Samples at a URL of fsspec (`s3://`, `gs://`, `https://`, …): they are copied to a temporary folder and opened there.

The content of all files is needed anyway, to hash it. A copy is read once over the network, and as fast as any other
file afterwards. The folder is removed when the process ends.
"""

from __future__ import annotations

import atexit
import posixpath
import re
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from precall.samples import reading
from precall.samples.sampleset import natural, shown

URL = re.compile(r"^[a-z][a-z0-9+.-]+(://|::)", re.IGNORECASE)
LOCAL = re.compile(r"^(file|local)://", re.IGNORECASE)
INTERPRETED = re.compile(r"(^|::)reference(:|$)", re.IGNORECASE)  # its files are templates, which fsspec evaluates
WILD = re.compile(r"[*?\[]")


def is_url(source: str) -> bool:
    """Whether a source is a URL rather than a path."""
    return bool(URL.match(source))


def without_secrets(url: str) -> str:
    """A URL without the password and the query, which may contain a signature."""
    if "::" in url:
        return "::".join(map(without_secrets, url.split("::")))
    scheme, place, path, _, _ = urlsplit(url)
    return urlunsplit((scheme, place.rpartition("@")[2], path, "", "")) if scheme else url


def local_path(url: str) -> str | None:
    """The path of a `file://` URL, which needs no copy; None for any other URL."""
    return LOCAL.sub("", url) if LOCAL.match(url) else None


def copied(url: str) -> list[Path]:
    """Copy the file or folder at a URL, or the matches of its wildcards in natural order, to a temporary folder."""
    said = shown(without_secrets(url))
    if INTERPRETED.search(url):
        raise ValueError(f"`{said}` is not opened: files of references can name code and other files. Copy the data.")
    try:
        system, place = import_module("fsspec").core.url_to_fs(url)
        found = [place]
        if WILD.search(place) and not system.exists(place):
            found = sorted(filter(system.isfile, system.glob(place)), key=natural)
        if not found:
            raise FileNotFoundError(place)
        return [_copy(system, one) for one in found]
    except (ImportError, reading.InputError) as error:
        reason = _line(error)
        if isinstance(error, ImportError) and error.name == "fsspec":
            reason = "URLs need fsspec: pip install 'precall[remote]'."
        raise ValueError(f"`{said}` cannot be opened: {shown(reason)}") from None
    except FileNotFoundError:
        raise ValueError(f"the samples must be a file or folder that exists; got `{said}`.") from None
    except Exception as error:  # each kind of URL has its own errors
        raise ValueError(f"`{said}` cannot be read: {type(error).__name__}: {shown(_line(error))}.") from None


def _copy(system: Any, place: str) -> Path:
    """Copy a file, or all files below a folder."""
    name = re.split(r"[?#]", posixpath.basename(place.rstrip("/")))[0].replace("\\", "_").replace("\0", "_")
    target = Path(tempfile.mkdtemp(dir=_folder())) / (name if name not in ("", ".", "..") else "samples")
    files = {place: ""} if system.isfile(place) else dict(_below(system, place))
    size, free = sum(int(system.info(one).get("size") or 0) for one in files), shutil.disk_usage(_folder()).free
    if size > 0.9 * free:
        got = f"it has {size:,} bytes, and only {free:,} are free in {tempfile.gettempdir()}"
        raise reading.InputError(f"{got}. Free some space, or set TMPDIR to a folder on a larger disk")
    for one, name in files.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        system.get_file(one, str(target / name))
    return target


def _below(system: Any, place: str) -> Iterator[tuple[str, str]]:
    """The files below a folder, with the path of each relative to it. Names that would leave the folder are refused."""
    root = place.rstrip("/")
    if not (found := system.find(root)):
        raise FileNotFoundError(place)
    for one in found:
        name = one[len(root) :].lstrip("/") if one.startswith(root) else posixpath.basename(one)
        if any(part in ("", ".", "..") for part in name.split("/")) or "\\" in name or "\0" in name:
            raise reading.InputError(f"the name `{shown(name)}` leaves the folder; rename it")
        yield one, name


@cache
def _folder() -> str:
    """The temporary folder of this process."""
    folder = tempfile.mkdtemp(prefix="precall-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
