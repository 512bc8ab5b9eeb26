"""Results on disk: the same question, asked again, is answered from the cache.

    <cache>/results/<key>.json     a line with the date and the SHA-256 of the rest, then results and galleries

The key is a SHA-256 of all that fixes the numbers: content and names of the samples, encoder, settings, precall's own
source, and the versions of the packages below. An entry is JSON, written beside its place and moved into it; a damaged
one counts as none. Importing this module, or finding an entry, imports neither torch nor SciPy.
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
    from precall.samples import SampleSet

PACKAGES = ("precall", "numpy", "scipy", "scikit-learn", "torch", "pillow")


@dataclass(frozen=True)
class Answer:
    """What `precall assess` tells, as plain values.

    Attributes:
        results: `Comparison.to_dict()`.
        galleries: The samples the page shows, as `precall.report.page.samples_shown` gives them.
        date: When they were computed.
    """

    results: dict[str, Any]
    galleries: dict[str, Any]
    date: str

    @property
    def models(self) -> dict[str, Any]:
        """Name → `Assessment.to_dict()`."""
        return dict(self.results["models"])


@dataclass(frozen=True)
class Question:
    """What is asked: which samples, encoded how, under which settings.

    Attributes:
        real: The data.
        fakes: The models' samples, by name, in the order they are shown.
        encoders: The protocol of each encoder in use, by name; None for one that precall's source fixes.
        settings: Metrics, k, ties, seed, labels of groups: plain values.
    """

    real: SampleSet
    fakes: Mapping[str, SampleSet]
    encoders: Mapping[str, Mapping[str, Any] | None]
    settings: Mapping[str, Any]

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """SHA-256 of the content of each side, models in order; unchanged files are not read again."""
        from precall.encoders.cache import cache_dir, file_index

        sides = {"real": self.real} | {f"fake {name}": samples for name, samples in self.fakes.items()}
        return {side: one.fingerprint(file_index(cache_dir(), one.name)) for side, one in sides.items()}

    @cached_property
    def path(self) -> Path:
        """Where the answer is kept."""
        from precall.encoders.cache import cache_dir
        from precall.samples import hashing

        sides = [_described(one) for one in (self.real, *self.fakes.values())]
        asked = [self.fingerprints, sides, self.encoders, self.settings, made_with()]
        key = hashing.combined(json.dumps(part) for part in asked)
        return cache_dir() / "results" / f"{key}.json"

    def answer(self) -> Answer | None:
        """The answer kept, or None where there is none or it is damaged."""
        path = self.path  # outside: samples that cannot be hashed are no damaged entry
        try:
            head, _, body = path.read_bytes().partition(b"\n")
            noted = json.loads(head)
            if hashlib.sha256(body).hexdigest() == noted["sha256"]:
                return Answer(**json.loads(body), date=noted["date"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return None

    def keep(self, results: Mapping[str, Any], galleries: Mapping[str, Any]) -> Answer:
        """Keep an answer, and return it as it will be read again.

        It is not kept where the samples changed while they were being assessed, nor where the cache cannot be written:
        the next run then computes again.
        """
        from precall.files import write_atomically

        body = json.dumps({"results": results, "galleries": galleries}).encode()
        date = datetime.now().astimezone().isoformat(" ", "seconds")
        head = json.dumps({"date": date, "sha256": hashlib.sha256(body).hexdigest()}).encode()
        answer = Answer(**json.loads(body), date=date)
        if self._is_answered_by(answer):
            with suppress(OSError):
                write_atomically(self.path, head, b"\n", body)
        return answer

    def _is_answered_by(self, answer: Answer) -> bool:
        """Whether the results are those of the samples in the key."""
        protocols = {name: model["protocol"] for name, model in answer.models.items()}
        assessed = {f"fake {name}": one["fake"]["fingerprint"] for name, one in protocols.items()}
        reals = {one["real"]["fingerprint"] for one in protocols.values()}
        return all(self.fingerprints == {"real": real} | assessed for real in reals)


@dataclass(frozen=True)
class Skipped:
    """The samples of one side that could not be read, as its protocol tells."""

    protocol: Mapping[str, Any]

    def __len__(self) -> int:
        return int(self.protocol["shape"][0]) + len(self.errors)

    @property
    def errors(self) -> list[str]:
        """A line each."""
        from precall.samples.sampleset import shown

        return [f"{shown(error['id'])}: {error['reason']}" for error in self.protocol.get("errors", ())]


def made_with() -> dict[str, Any]:
    """What turns samples into numbers: precall's source, the packages it computes with, and whether there is a GPU."""
    from precall.samples import hashing

    source = sorted(Path(precall.__file__).parent.rglob("*.py"))
    return {
        "source": hashing.combined(hashing.of_files(source)),
        "versions": {package: version(package) for package in PACKAGES},
        "gpu": _gpu(),
    }


def encoders_in_use(name: str | None, samples: Iterable[SampleSet]) -> dict[str, Encoder | None]:
    """The encoders of these samples, by name: loaded where the name alone does not say what they are.

    The protocol of precall's own follows from its source, the versions and the data, which are all in the key, and
    loading a network to read it would cost seconds. Weights from a model hub and functions of the user's can change
    under the same name: their protocol holds a hash of them.
    """
    from precall.encoders import ENCODERS, default_encoder, hub, load_encoder

    names = dict.fromkeys(name or default_encoder(one.kind) for one in samples if one.kind != "moments")
    inside = {known for known, make in ENCODERS.items() if make.__module__ != hub.__name__}
    return {each: None if each in inside else load_encoder(each) for each in names}


def _described(samples: SampleSet) -> list[Any]:
    """What the fingerprint of the content leaves out, and results show: file names, and where statistics lie."""
    names = list(samples.ids) if samples.kind == "images" else samples.name if samples.kind == "moments" else None
    return [samples.kind, len(samples), samples.on_error, names]


def _gpu() -> bool:
    """Whether torch would find a GPU, as far as can be told without importing it."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "all") in ("", "-1")
    return not hidden and bool(glob("/dev/nvidia[0-9]*") or glob("/dev/kfd") or shutil.which("nvidia-smi"))
