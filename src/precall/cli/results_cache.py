"""Results on disk: the same assessment of the same samples is read from the cache.

    <cache>/results/v2-<key>.json     a line with the date, then results and galleries of one model, then the seal

The key is a SHA-256 of everything that determines the numbers: content and names of the samples, encoder, settings,
precall's own source, and versions of the packages below. Each model has an entry, written as soon as it is assessed.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, cached_property
from glob import glob
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import precall
from precall.cli.console import bars, note
from precall.printing import shown
from precall.progress import Progress
from precall.samples import SampleSet, hashing
from precall.samples.sampleset import SampleWarning
from precall.sealing import mark_used, read_sealed, setting_aside, write_sealed

if TYPE_CHECKING:
    from precall.encoders import Encoder
    from precall.metrics.assessing.requests import Request
    from precall.metrics.scores.results import Assessment, Comparison

    Each = Callable[[Assessment], object]
PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "pillow")


@dataclass(frozen=True)
class ResultsCache:
    """The results of assessments against the same data, encoded in the same way, under the same settings."""

    real: SampleSet
    holdout: SampleSet | None
    encoders: Mapping[str, Mapping[str, Any] | None]  # protocols; None for one that precall's source determines
    settings: Mapping[str, Any]

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """SHA-256 of the content of the data and the holdout; unchanged files are not read again."""
        sides = {"real": self.real, "holdout": self.holdout}
        return {side: _fingerprint(samples) for side, samples in sides.items() if samples is not None}

    def entry(self, name: str, fake: SampleSet) -> Entry:
        """The place of one model."""
        from precall.encoders.cache import VERSION, cache_dir

        fingerprints = {**self.fingerprints, "fake": _fingerprint(fake)}
        settings = {"groups": None, **self.settings}
        for each in ("groups", "prompts"):  # of this model alone
            if (known := settings.get(each)) is not None:
                settings[each] = {"real": known["real"], "fake": known["fake"][name]}
        sides = [_described(one) for one in (self.real, fake)]
        parts = [name, fingerprints, sides, self.encoders, settings, made_with()]
        key = hashing.combined(json.dumps(part) for part in parts)
        return Entry(cache_dir() / "results" / f"{VERSION}-{key}.json", fingerprints)


@dataclass(frozen=True)
class Entry:
    """The place of one model's results in the cache, and the SHA-256 of the content of each side."""

    path: Path
    fingerprints: Mapping[str, str]

    def read(self) -> tuple[str, Assessment] | None:
        """When the results were computed, and the results; None if there are none or the entry is damaged."""
        with setting_aside(self.path):
            date, _, body = read_sealed(self.path).partition(b"\n")
            found = date.decode(), _restored(self.path, body)
            mark_used(self.path)
            return found
        return None

    def keep(self, found: Assessment) -> Assessment:
        """Keep results, unless samples changed meanwhile or the cache cannot be written; return them as restored."""
        from precall.report.folder import galleries_of

        shown = galleries_of({found.name: found})
        body = json.dumps({"results": found.to_dict(), "galleries": shown}).encode()
        date = datetime.now().astimezone().isoformat(" ", "seconds")
        if all(getattr(found.record, side).fingerprint == one for side, one in self.fingerprints.items()):
            with suppress(OSError):
                write_sealed(self.path, date.encode(), b"\n", body)
        return _restored(self.path, body)


def _fingerprint(samples: SampleSet) -> str:
    from precall.encoders.cache import cache_dir, file_index

    return samples.fingerprint(file_index(cache_dir(), samples.name))


def _restored(path: Path, body: bytes) -> Assessment:
    from precall.metrics.scores.results import SCHEMA
    from precall.report.folder import restored

    saved = json.loads(body)
    results = saved["results"]
    models = {"schema": SCHEMA, "models": {results["name"]: results}}
    return restored(path, models, saved["galleries"])[results["name"]]


def made_with() -> dict[str, Any]:
    """What turns samples into numbers: precall's source, the packages it uses, and whether there is a GPU."""
    return {
        "source": _source(Path(precall.__file__).parent),
        "versions": {"precall": precall.__version__} | {package: version(package) for package in PACKAGES},
        "gpu": _gpu(),
    }


def _gpu() -> bool:
    """Whether torch would find a GPU, as far as can be known without importing it."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "all") in ("", "-1")
    return not hidden and bool(glob("/dev/nvidia[0-9]*") or glob("/dev/kfd") or shutil.which("nvidia-smi"))


@cache
def _source(folder: Path) -> str:
    """SHA-256 of the source in a folder, read once: a process does not load its own source again."""
    return hashing.combined(hashing.of_files(sorted(folder.rglob("*.py"))))


def encoders_in_use(
    name: str | None, samples: Iterable[SampleSet], preset: str | None, device: str | None
) -> dict[str, Encoder | None]:
    """The encoders of these samples, by name; an encoder is loaded if its name alone does not determine it.

    The protocol of precall's own encoders follows from what is in the key already. Weights from a model hub and the
    user's own functions can change under the same name, so their protocol contains a hash of them.
    """
    from precall.encoders import ENCODERS, default_encoder, hub, load_encoder
    from precall.encoders.registry import runs_on_a_device
    from precall.metrics.protocols.presets import PRESETS

    usual = None if preset is None else PRESETS[preset].default_encoder
    kinds = [one.kind for one in samples if one.kind != "moments"]
    names = dict.fromkeys(name or (usual if kind != "features" else None) or default_encoder(kind) for kind in kinds)
    inside = {known for known, make in ENCODERS.items() if make.__module__ != hub.__name__}
    places = {each: device if runs_on_a_device(each) else None for each in names}
    return {each: None if each in inside else load_encoder(each, device=place) for each, place in places.items()}


def _described(samples: SampleSet) -> list[Any]:
    """What results show beyond the content: file names, and the place of statistics."""
    names = list(samples.ids) if samples.kind == "images" else samples.name if samples.kind == "moments" else None
    return [samples.kind, len(samples), samples.on_error, names]


def assessed(
    real: SampleSet, fakes: Mapping[str, SampleSet], request: Request, *, fresh: bool, each: Each | None = None
) -> Comparison:
    """The results of each model from the cache, or computed and kept there at once.

    They are computed if they are missing or a `fresh` run is requested. `each` is called with every assessment while it
    still has its values per sample, which are not in the cache; with it, all models are computed.
    """
    from precall.metrics.scores.results import Comparison

    names: list[str | None] = list(cast("Sequence[str]", request.encoder)) if request.encoder else [None]
    holdout = cast("SampleSet | None", request.holdout)
    sides = [one for one in (real, *fakes.values(), holdout) if one is not None]
    encoders: dict[str, Encoder | None] = {}
    for one in names:
        encoders |= encoders_in_use(one, sides, request.preset, request.device)
    protocols = {name: None if one is None else one.protocol for name, one in encoders.items()}
    settings = {name: value for name, value in request.given.items() if name not in ("holdout", "encoder")}
    cache = ResultsCache(real, holdout, protocols, settings)
    entries = {name: cache.entry(name, one) for name, one in fakes.items()}
    found: dict[str, Assessment] = {}
    kept = {name: one.read() for name, one in entries.items()} if not fresh and each is None else {}
    if known := {name: one for name, one in kept.items() if one is not None}:
        dates = sorted(date for date, _ in known.values())
        models = "" if len(known) == len(entries) else f" of {', '.join(map(shown, known))}"
        note(f"results{models} from the cache of {' to '.join(dict.fromkeys((dates[0], dates[-1])))}")
        found = {name: results for name, (_, results) in known.items()}
    missing = {name: one for name, one in fakes.items() if name not in found}
    if missing:
        loaded: list[Any] = [encoders.get(str(name)) or name for name in (encoders if len(encoders) == 1 else names)]
        request = replace(request, encoder=loaded[0] if len(loaded) == 1 else loaded)
        found |= _computed(real, missing, entries, request, each)
    return Comparison({name: found[name] for name in fakes})


def _computed(
    real: SampleSet, fakes: Mapping[str, SampleSet], entries: Mapping[str, Entry], request: Request, each: Each | None
) -> dict[str, Assessment]:
    """Assess the models and keep each result at once. If a later model fails, the finished ones are named."""
    from precall.metrics.assessing.assessment import assess_each

    found: dict[str, Assessment] = {}
    try:
        with bars() as progress, warnings.catch_warnings():
            warnings.simplefilter("ignore", SampleWarning)  # the results have the same sentences, and are reported
            request = replace(request, progress=naming(progress, list(fakes), found))
            for one in assess_each(real=real, fake=fakes, request=request):
                if each is not None:
                    each(one)
                found[one.name] = entries[one.name].keep(one)
    except BaseException:
        if found:
            left = ", ".join(shown(name) for name in fakes if name not in found)
            note(f"finished and kept in the cache: {', '.join(map(shown, found))}; still to assess: {left}")
        raise
    return found


def naming(progress: Progress, models: Sequence[str], finished: Collection[str]) -> Progress:
    """A progress callback whose stages begin with the name of the model in progress, the first that is not finished."""

    def named(stage: str, done: int, total: int) -> None:
        model = models[min(len(finished), len(models) - 1)]
        common = stage.startswith("encode ") or stage == "real balls"  # named already, or shared by all models
        progress(stage if common or len(models) == 1 else f"{model}: {stage}", done, total)

    return named
