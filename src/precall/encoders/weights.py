"""Network weights: a file of the user, or a file that is downloaded once and verified by its SHA-256."""

from __future__ import annotations

import hashlib
import socket
import threading
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlparse

from precall.encoders.cache import cache_dir
from precall.files import open_atomically
from precall.samples import hashing
from precall.samples.sampleset import shown
from precall.sealing import set_aside

BLOCK = 1 << 20
TIMEOUT = 30  # seconds without a response, once connected
CONNECT = 3  # seconds after which a server counts as unreachable


@dataclass(frozen=True)
class Weights:
    """A file of weights: its name, its URL and the SHA-256 of its bytes."""

    file: str
    url: str
    sha256: str


def find_weights(encoder: str, pinned: Weights, given: str | Path | None = None) -> tuple[Path, str]:
    """Find the weights file to load, and its SHA-256.

    Without `given`, it is `<cache>/weights/<file>`, which is downloaded if it does not exist. A given file is not
    verified and must be trusted; its hash is recorded.
    """
    if given is None:
        return _fetched(encoder, pinned, cache_dir() / "weights" / pinned.file)
    path = Path(given)
    if not path.is_file():
        raise ValueError(f"`weights` must be a file that exists; got `{shown(str(path))}`.")
    return path, hashing.of_file(path)


def check_reachable(url: str) -> None:
    """Raise an `OSError` within seconds if the server of a URL, or the proxy in front of it, cannot be reached.

    It connects in a thread, because looking up a name has no time limit of its own.
    """
    given = urllib.request.getproxies().get("https") or url
    target = urlparse(given if "://" in given else f"http://{given}")  # a proxy may be given without a scheme
    place = (target.hostname or "", target.port or (80 if target.scheme == "http" else 443))
    errors: list[OSError] = [TimeoutError(f"{place[0]} does not answer")]

    def connect() -> None:
        try:
            socket.create_connection(place, timeout=CONNECT).close()
            errors.clear()
        except OSError as error:
            errors[:] = [error]

    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(2 * CONNECT)
    if errors:
        raise OSError(f"no connection to {place[0]}: {errors[0]}")


def _fetched(encoder: str, weights: Weights, place: Path) -> tuple[Path, str]:
    """The file in the cache. It is downloaded if it is missing; a file with another hash is set aside first."""
    if place.exists():
        if hashing.of_file(place) == weights.sha256:
            return place, weights.sha256
        set_aside(place)
    try:
        check_reachable(weights.url)
        digest = hashlib.sha256()
        with urllib.request.urlopen(weights.url, timeout=TIMEOUT) as answer, open_atomically(place) as file:
            while block := answer.read(BLOCK):
                digest.update(block)
                file.write(block)
            if digest.hexdigest() != weights.sha256:  # the file is not kept
                raise OSError(f"it has SHA-256 {digest.hexdigest()}")
    except OSError as error:
        raise ValueError(
            f"encoder `{encoder}` needs the file {weights.file} (SHA-256 {weights.sha256}), and {weights.url} "
            f"cannot be downloaded ({error}). Put the file at `{place}`; in Python, its path may also be passed as "
            "`weights=`."
        ) from None
    return place, weights.sha256
