"""Results on disk: the same assessment of the same samples is read from the cache.

    <cache>/results/<key>.json     a line with the date and the SHA-256 of the rest, then results and galleries

The key is a SHA-256 of everything that determines the numbers: content and names of the samples, encoder, settings,
precall's own source, and the versions of the packages below. An entry is JSON, written under another name and moved
into place. A damaged entry is ignored. Importing this module, or reading an entry, imports neither torch nor SciPy.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from glob import glob
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import precall

if TYPE_CHECKING:
    from precall.encoders import Encoder
    from precall.metrics.results import Comparison
    from precall.samples import SampleSet

PACKAGES = ("precall", "numpy", "scipy", "scikit-learn", "torch", "pillow")


@dataclass(frozen=True)
class Kept:
    """An entry of the cache.

    Attributes:
        results: The results, with the samples that their page shows.
        date: When they were computed.
    """

    results: Comparison
    date: str


@dataclass(frozen=True)
class Entry:
    """The place of one assessment in the cache: which samples, encoded how, under which settings.

    Attributes:
        real: The data.
        fakes: The models' samples, by name, in the order they are shown.
        encoders: The protocol of each encoder in use, by name; None for one that precall's source determines.
        settings: Metrics, k, ties, seed, labels of groups, as plain values.
    """

    real: SampleSet
    fakes: Mapping[str, SampleSet]
    encoders: Mapping[str, Mapping[str, Any] | None]
    settings: Mapping[str, Any]

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """SHA-256 of the content of each side, with the models in order; unchanged files are not read again."""
        from precall.encoders.cache import cache_dir, file_index

        sides = {"real": self.real} | {f"fake {name}": samples for name, samples in self.fakes.items()}
        return {side: one.fingerprint(file_index(cache_dir(), one.name)) for side, one in sides.items()}

    @cached_property
    def path(self) -> Path:
        """The file of the entry."""
        from precall.encoders.cache import cache_dir
        from precall.samples import hashing

        sides = [_described(one) for one in (self.real, *self.fakes.values())]
        parts = [self.fingerprints, sides, self.encoders, self.settings, made_with()]
        key = hashing.combined(json.dumps(part) for part in parts)
        return cache_dir() / "results" / f"{key}.json"

    def read(self) -> Kept | None:
        """The results kept, or None if there are none or the entry is damaged."""
        path = self.path  # outside the `try`: samples that cannot be hashed are not a damaged entry
        try:
            head, _, body = path.read_bytes().partition(b"\n")
            noted = json.loads(head)
            if hashlib.sha256(body).hexdigest() == noted["sha256"]:
                return Kept(_restored(path, body), noted["date"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return None

    def keep(self, found: Comparison) -> Comparison:
        """Keep results, and return them as they will be read again.

        They are not kept if the samples changed during the assessment or if the cache cannot be written; the next run
        then computes them again.
        """
        from precall.files import write_atomically
        from precall.report.folder import galleries_of

        body = json.dumps({"results": found.to_dict(), "galleries": galleries_of(found)}).encode()
        date = datetime.now().astimezone().isoformat(" ", "seconds")
        head = json.dumps({"date": date, "sha256": hashlib.sha256(body).hexdigest()}).encode()
        if self._belongs(found):
            with suppress(OSError):
                write_atomically(self.path, head, b"\n", body)
        return _restored(self.path, body)

    def _belongs(self, found: Comparison) -> bool:
        """Whether the results are those of the samples in the key."""
        assessed = {f"fake {name}": one.protocol["fake"]["fingerprint"] for name, one in found.items()}
        reals = {one.protocol["real"]["fingerprint"] for one in found.values()}
        return all(self.fingerprints == {"real": real} | assessed for real in reals)


def _restored(path: Path, body: bytes) -> Comparison:
    from precall.report.folder import restored

    saved = json.loads(body)
    return restored(path, saved["results"], saved["galleries"])


@dataclass(frozen=True)
class Skipped:
    """The samples of one side that could not be read, according to its protocol."""

    protocol: Mapping[str, Any]

    def __len__(self) -> int:
        return int(self.protocol["shape"][0]) + len(self.errors)

    @property
    def errors(self) -> list[str]:
        """One line per sample."""
        from precall.samples.sampleset import shown

        return [f"{shown(error['id'])}: {error['reason']}" for error in self.protocol.get("errors", ())]


def made_with() -> dict[str, Any]:
    """What turns samples into numbers: precall's source, the packages it uses, and whether there is a GPU."""
    from precall.samples import hashing

    source = sorted(Path(precall.__file__).parent.rglob("*.py"))
    return {
        "source": hashing.combined(hashing.of_files(source)),
        "versions": {package: version(package) for package in PACKAGES},
        "gpu": _gpu(),
    }


def encoders_in_use(name: str | None, samples: Iterable[SampleSet]) -> dict[str, Encoder | None]:
    """The encoders of these samples, by name; an encoder is loaded if its name alone does not determine it.

    The protocol of precall's own encoders follows from its source, the versions and the data, which are all in the key;
    loading a network to read it would take seconds. Weights from a model hub and the user's own functions can change
    under the same name, so their protocol contains a hash of them.
    """
    from precall.encoders import ENCODERS, default_encoder, hub, load_encoder

    names = dict.fromkeys(name or default_encoder(one.kind) for one in samples if one.kind != "moments")
    inside = {known for known, make in ENCODERS.items() if make.__module__ != hub.__name__}
    return {each: None if each in inside else load_encoder(each) for each in names}


def _described(samples: SampleSet) -> list[Any]:
    """What results show beyond the content: file names, and the place of statistics."""
    names = list(samples.ids) if samples.kind == "images" else samples.name if samples.kind == "moments" else None
    return [samples.kind, len(samples), samples.on_error, names]


def _gpu() -> bool:
    """Whether torch would find a GPU, as far as can be known without importing it."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "all") in ("", "-1")
    return not hidden and bool(glob("/dev/nvidia[0-9]*") or glob("/dev/kfd") or shutil.which("nvidia-smi"))
