"""Results on disk: the same assessment of the same samples is read from the cache.

    <cache>/results/v2-<key>.json     a line with the date, then results and galleries of one model, then the seal

The key is a SHA-256 of everything that determines the numbers: content and names of the samples, encoder, settings,
precall's own source, and the versions of the packages below. Each model has its own entry, which is written as soon as
the model is assessed: an interrupted comparison keeps the models that are finished. Entries are sealed (see `sealing`).
Importing this module, or reading an entry, imports neither torch nor SciPy.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from glob import glob
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import precall
from precall.sealing import mark_used, read_sealed, setting_aside, write_sealed

if TYPE_CHECKING:
    from precall.encoders import Encoder
    from precall.metrics.results import Assessment
    from precall.samples import SampleSet

PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "pillow")


@dataclass(frozen=True)
class Kept:
    """Results read from the cache.

    Attributes:
        results: The results of one model, with the samples that their page shows.
        date: When they were computed.
    """

    results: Assessment
    date: str


@dataclass(frozen=True)
class ResultsCache:
    """The results of assessments against the same data, encoded in the same way, under the same settings.

    Attributes:
        real: The data.
        holdout: Data that the models have not seen, or None.
        encoders: The protocol of each encoder in use, by name; None for one that precall's source determines.
        settings: Metrics, k, ties, seed, labels of groups, as plain values.
    """

    real: SampleSet
    holdout: SampleSet | None
    encoders: Mapping[str, Mapping[str, Any] | None]
    settings: Mapping[str, Any]

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """SHA-256 of the content of the data and the holdout; unchanged files are not read again."""
        sides = {"real": self.real} | ({} if self.holdout is None else {"holdout": self.holdout})
        return {side: _fingerprint(samples) for side, samples in sides.items()}

    @cached_property
    def made_with(self) -> dict[str, Any]:
        """What turns samples into numbers (see the function of this name)."""
        return made_with()

    def entry(self, name: str, fake: SampleSet) -> Entry:
        """The place of one model."""
        from precall.encoders.cache import VERSION, cache_dir
        from precall.samples import hashing

        fingerprints = {**self.fingerprints, "fake": _fingerprint(fake)}
        settings = {**self.settings, "groups": _labels_of(self.settings.get("groups"), name)}
        sides = [_described(one) for one in (self.real, fake)]
        parts = [name, fingerprints, sides, self.encoders, settings, self.made_with]
        key = hashing.combined(json.dumps(part) for part in parts)
        return Entry(cache_dir() / "results" / f"{VERSION}-{key}.json", fingerprints)


@dataclass(frozen=True)
class Entry:
    """The place of one model's results in the cache.

    Attributes:
        path: The file.
        fingerprints: SHA-256 of the content of each side.
    """

    path: Path
    fingerprints: Mapping[str, str]

    def read(self) -> Kept | None:
        """The results kept, or None if there are none or the entry is damaged."""
        with setting_aside(self.path):
            date, _, body = read_sealed(self.path).partition(b"\n")
            found = Kept(_restored(self.path, body), date.decode())
            mark_used(self.path)
            return found
        return None

    def keep(self, found: Assessment) -> Assessment:
        """Keep results, and return them as they will be read again.

        They are not kept if the samples changed during the assessment or if the cache cannot be written; the next run
        then computes them again.
        """
        from precall.report.folder import galleries_of

        shown = galleries_of({found.name: found})
        body = json.dumps({"results": found.to_dict(), "galleries": shown}).encode()
        date = datetime.now().astimezone().isoformat(" ", "seconds")
        if self._belongs(found):
            with suppress(OSError):
                write_sealed(self.path, date.encode(), b"\n", body)
        return _restored(self.path, body)

    def _belongs(self, found: Assessment) -> bool:
        """Whether the results are those of the samples in the key."""
        return all(found.protocol[side]["fingerprint"] == one for side, one in self.fingerprints.items())


def _labels_of(groups: Mapping[str, Any] | None, name: str) -> dict[str, Any] | None:
    """The labels of the data and of one model."""
    return None if groups is None else {"real": groups["real"], "fake": groups["fake"][name]}


def _fingerprint(samples: SampleSet) -> str:
    from precall.encoders.cache import cache_dir, file_index

    return samples.fingerprint(file_index(cache_dir(), samples.name))


def _restored(path: Path, body: bytes) -> Assessment:
    from precall.metrics.results import SCHEMA
    from precall.report.folder import restored

    saved = json.loads(body)
    results = saved["results"]
    models = {"schema": SCHEMA, "models": {results["name"]: results}}
    return restored(path, models, saved["galleries"])[results["name"]]


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
    return {
        "source": _source(Path(precall.__file__).parent),
        "versions": {"precall": precall.__version__} | {package: version(package) for package in PACKAGES},
        "gpu": _gpu(),
    }


@cache
def _source(folder: Path) -> str:
    """SHA-256 of the source in a folder, read once: a process does not load its own source again."""
    from precall.samples import hashing

    return hashing.combined(hashing.of_files(sorted(folder.rglob("*.py"))))


def encoders_in_use(
    name: str | None, samples: Iterable[SampleSet], preset: str | None = None, device: str | None = None
) -> dict[str, Encoder | None]:
    """The encoders of these samples, by name; an encoder is loaded if its name alone does not determine it.

    The protocol of precall's own encoders follows from its source, the versions and the data, which are all in the key;
    loading a network to read it would take seconds. Weights from a model hub and the user's own functions can change
    under the same name, so their protocol contains a hash of them.
    """
    from precall.encoders import ENCODERS, default_encoder, hub, load_encoder
    from precall.encoders.registry import runs_on_a_device
    from precall.metrics.presets import PRESETS

    usual = None if preset is None else PRESETS[preset].encoder
    kinds = [one.kind for one in samples if one.kind != "moments"]
    names = dict.fromkeys(name or (usual if kind != "features" else None) or default_encoder(kind) for kind in kinds)
    inside = {known for known, make in ENCODERS.items() if make.__module__ != hub.__name__}
    places = {each: device if runs_on_a_device(each) else None for each in names}
    return {each: None if each in inside else load_encoder(each, device=place) for each, place in places.items()}


def _described(samples: SampleSet) -> list[Any]:
    """What results show beyond the content: file names, and the place of statistics."""
    names = list(samples.ids) if samples.kind == "images" else samples.name if samples.kind == "moments" else None
    return [samples.kind, len(samples), samples.on_error, names]


def _gpu() -> bool:
    """Whether torch would find a GPU, as far as can be known without importing it."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "all") in ("", "-1")
    return not hidden and bool(glob("/dev/nvidia[0-9]*") or glob("/dev/kfd") or shutil.which("nvidia-smi"))
