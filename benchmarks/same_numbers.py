"""Check that a change of the code changes no number: thirty-one assessments, recorded before and compared after.

    python -m benchmarks.same_numbers compare                    with benchmarks/results/same_numbers.json
    python -m benchmarks.same_numbers record [FILE]              after a change of numbers that is meant
    python -m benchmarks.same_numbers compare FILE

The assessments cover arrays, memory maps, tensors, images, texts, tables, groups, a holdout, shards, sketches,
reference files, presets, several encoders, stored statistics and every metric.
Scores, intervals, chance levels, spectra, certificates, per-sample ratios, gaps between groups, and the kind and
figures of every verdict must agree to the last bit if both runs used the same processor architecture and the same
packages. Otherwise libraries round differently, and trainings amplify it: then values, intervals, curves and
certificates must agree within `TOLERANCE`, the kinds of verdicts must be the same, and hashes are not compared.
`--smoke` runs two small assessments and compares them with themselves.
"""

from __future__ import annotations

import csv
import hashlib
import json
import platform
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import precall
from benchmarks.common import ROOT
from precall.metrics.scores.verdict import Verdict

SMOKE = ("k-NN with ties", "moments and MAUVE")
PUBLISHED = ROOT / "benchmarks" / "results" / "same_numbers.json"
LAM = np.geomspace(1e-2, 1e2, 13)
PACKAGES = ("numpy", "scipy", "scikit-learn", "torch")
TOLERANCE = 0.03  # relative to 1 or to the larger number, on another architecture or with other packages
CURVES = ("auto", "boosting", "quadratic", "linear", "simon", "clusters", "cover")


def normal(n: int, d: int, shift: float = 0.0, scale: float = 1.0, seed: int = 0) -> np.ndarray:
    """Rows of N(shift, scale²)."""
    return shift + scale * np.random.default_rng(seed).normal(size=(n, d))


def digits(folder: Path | None = None) -> tuple[Any, Any]:
    """Two halves of scikit-learn's digits, the second without four classes: as features, or as folders of images."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    real, fake = images[::2], images[1::2][labels[1::2] < 6]
    if folder is None:
        return real, fake
    from PIL import Image

    for name, rows in (("real", real), ("fake", fake)):
        (folder / name).mkdir()
        for i, row in enumerate(rows[:150]):
            Image.fromarray((row.reshape(8, 8) * 15.9).astype(np.uint8)).save(folder / name / f"{i:03}.png")
    return str(folder / "real"), str(folder / "fake")


def sentences(n: int, seed: int) -> list[str]:
    """Sentences of ten words; another seed prefers other words."""
    rng = np.random.default_rng(seed)
    words = np.array(["the", "a", "cat", "dog", "tree", "house", "runs", "sees"])
    words = np.append(words, ["likes", "old", "new", "green", "red", "and", "or", "slowly"])
    weights = rng.dirichlet(np.ones(len(words)))
    return [" ".join(rng.choice(words, 10, p=weights)) for _ in range(n)]


def table(path: Path, seed: int) -> str:
    """A table of a number, a category and a number that depends on it."""
    rng = np.random.default_rng(seed)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["age", "sex", "income"])
        for _ in range(220):
            sex = rng.integers(2)
            rows.writerow([int(rng.integers(18, 90)), "fm"[sex], round(float(rng.lognormal(3 + 0.2 * sex + seed)), 2)])
    return str(path)


def memory_mapped(folder: Path, features: np.ndarray) -> Any:
    np.save(folder / "mapped.npy", features)
    return np.load(folder / "mapped.npy", mmap_mode="r")


def assessments(folder: Path) -> dict[str, Callable[[], Any]]:
    """The assessments, by name; each is computed when called."""
    import torch

    from precall import assess

    def case(metrics: Any = None, **arguments: Any) -> Callable[[], Any]:
        return lambda: assess(metrics=metrics, **arguments)

    groups = {"real": ["a", "b"] * 150, "fake": ["a", "b", "b"] * 100}
    real, fake = digits()
    images = digits(folder)
    probabilities = np.random.default_rng(0).dirichlet(np.ones(5), size=300)
    sharper = probabilities[::-1] ** 2
    sharper = sharper / sharper.sum(1, keepdims=True)
    statistics = {"mu": np.zeros(4), "sigma": np.eye(4)}
    np.savez(folder / "statistics.npz", **statistics)

    def in_shards() -> Any:
        shards = {"real": np.array_split(normal(500, 6), 3), "fake": np.array_split(normal(400, 6, 0.3, seed=1), 2)}
        merging = ("clusters", "neighbors", "symmetric", "clipped", "copies", "fid", "kid")
        return assess(metrics=merging, work=folder / "work", **shards)

    def by_reference() -> Any:
        path = precall.Reference.fit(normal(300, 5), k=4).save(folder / "data.precall")
        return precall.Reference.load(path).assess(normal(250, 5, 0.4, seed=1), metrics=("neighbors", "fid", "linear"))

    def sketched() -> Any:
        reference = precall.Reference.fit(normal(300, 5))
        parts = np.array_split(normal(400, 5, 0.2, seed=1), 3)
        return precall.merge_sketches([reference.sketch(part) for part in parts]).assessment()

    return {
        "holdout": case(
            ("memorization", "neighbors"),
            real=normal(300, 6),
            holdout=normal(300, 6, seed=2),
            fake=np.concatenate([normal(300, 6)[:60] + 1e-6, normal(200, 6, seed=1)]),
        ),
        "in shards": in_shards,
        "by a reference file": by_reference,
        "sketched": sketched,
        "preset prdc": lambda: assess(real=real, fake=fake, preset="prdc"),
        "preset prd": lambda: assess(real=real, fake=fake, preset="prd"),
        "several encoders": case(
            ("neighbors", "fid"), encoder=["pixels", "random-vgg"], real=images[0], fake=images[1]
        ),
        "quick": case("quick", real=normal(300, 4), fake=normal(300, 4, 0.6, seed=1)),
        "further k-NN scores": case(("symmetric", "clipped", "probabilistic"), real=real, fake=fake),
        "default, texts": case(real=sentences(120, 0), fake=sentences(110, 1)),
        "atoms": case(real=normal(300, 3) * (normal(300, 1, seed=3) > 0), fake=normal(300, 3, seed=1)),
        "default, plane": case(real=normal(300, 2), fake=normal(300, 2, 1.0, seed=1)),
        "default, same law": case(real=normal(300, 5), fake=normal(300, 5, seed=1)),
        "default, 600 dimensions": case(real=normal(120, 600), fake=normal(100, 600, 0.1, seed=1)),
        "default, digits": case(real=real, fake=fake),
        "default, copies": case(real=normal(300, 8), fake=normal(300, 8)[:250] + 1e-4),
        "default, several models": case(
            real=normal(200, 3), fake={"wide": normal(200, 3, 0, 2, seed=1), "far": normal(150, 3, 9, seed=2)}
        ),
        "every curve": case(CURVES, real=normal(250, 4), fake=normal(200, 4, 0.5, 0.7, seed=1)),
        "simon alone": case(("simon", "c2st"), real=normal(200, 3), fake=normal(240, 3, 1.0, seed=1)),
        "clusters and the linear test": case(
            ("clusters", "c2st"), real=normal(300, 2), fake=2.5 * normal(300, 2, seed=1)
        ),
        "k-NN, k = 3, open": case(("neighbors", "copies"), k=3, ties="open", real=real, fake=fake),
        "k-NN with ties": case(
            ("neighbors", "copies", "cover"), real=normal(300, 2).round(1), fake=normal(200, 2, 0.2, seed=1).round(1)
        ),
        "memory map, float32": case(
            ("neighbors", "fid", "kid"),
            real=memory_mapped(folder, normal(500, 40).astype(np.float32)),
            fake=normal(400, 40, 0.3, seed=1).astype(np.float32),
        ),
        "tensors": case(
            ("neighbors", "clusters", "fid", "kid", "linear"),
            real=torch.from_numpy(normal(300, 6)),
            fake=torch.from_numpy(normal(300, 6, 0.4, seed=1)),
        ),
        "moments and MAUVE": case(
            ("fid", "kid", "mauve"), real=normal(400, 10), fake=normal(300, 10, 0.3, 1.2, seed=1)
        ),
        "class probabilities": case(("is", "fid"), real=probabilities, fake=sharper),
        "stored statistics": case(("fid",), real=str(folder / "statistics.npz"), fake=normal(200, 4, 0.5)),
        "groups": case(
            ("auto", "neighbors", "clusters"), groups=groups, real=normal(300, 3), fake=normal(300, 3, 0.5, seed=1)
        ),
        "images": case(("linear", "neighbors", "clusters", "fid"), real=images[0], fake=images[1]),
        "texts": case(("linear", "neighbors", "mauve"), real=sentences(150, 0), fake=sentences(140, 1)),
        "tables": case(real=table(folder / "real.csv", 0), fake=table(folder / "fake.csv", 1)),
    }


def recorded(found: Any) -> dict[str, Any]:
    """Everything that must not change of an assessment, or of several."""
    if isinstance(found, precall.Comparison):
        return {name: recorded(one) for name, one in found.items()}
    certificate = found.certificate
    return {
        "scores": {name: _score(score) for name, score in found.scores.items()},
        "settings": {_settings(score)[0]: _settings(score)[1] for score in found.scores.values()},
        "spectra": {name: _digest(spectrum.p, spectrum.q) for name, spectrum in found.spectra.items()},
        "alpha": {name: spectrum.alpha(LAM).round(6).tolist() for name, spectrum in found.spectra.items()},
        "estimator": found.estimator,
        "certificate": None if certificate is None else [certificate.level, *certificate.alpha(LAM).round(6).tolist()],
        "samples": {side: _samples(one) for side, one in found.samples.items()},
        "verdict": verdict(found.verdict),
        "groups": {str(label): recorded(one) for label, one in found.groups.items()},
        "fairness": None if found.fairness is None else found.fairness.to_dict(),
    }


def verdict(found: Verdict) -> list[str]:
    """The kinds of a verdict and its figures, without the wording."""
    figures = re.findall(r"\d+ ?%", found) if found.kind != "close" else []
    return [*map(str, found.kinds), *(figure.replace(" ", "") for figure in figures)]


def _score(score: Any) -> dict[str, Any]:
    """Value, interval and chance level of a score, its samples, and the hash of its settings."""
    ends = None if score.interval is None else [float(end) for end in (score.interval.low, score.interval.high)]
    chance = None if score.chance is None else float(score.chance)
    numbers = {"value": float(score.value), "interval": ends, "chance": chance}
    return {**numbers, "n": [score.n_real, score.n_fake], "settings": _settings(score)[0]}


def _settings(score: Any) -> tuple[str, str]:
    """A hash of the settings of a score, and these settings, which the scores of one metric share."""
    settings = json.dumps(dict(sorted(score.settings.items())), default=str)
    return hashlib.sha256(settings.encode()).hexdigest()[:16], settings


def _samples(one: Any) -> dict[str, str]:
    fields = ("log_ratio", "member", "nearest", "realism", "copy_ratio", "cluster")
    return {name: _digest(values) for name in fields if (values := getattr(one, name)) is not None}


def _digest(*arrays: Any) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def differences(before: Any, after: Any, path: str = "") -> list[str]:
    """Where two recordings differ."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        names = list(dict.fromkeys([*before, *after]))
        return [line for name in names for line in differences(before.get(name), after.get(name), f"{path}/{name}")]
    return [] if before == after else [f"{path}: {str(before)[:200]} became {str(after)[:200]}"]


UNEQUAL = ("settings", "spectra", "samples", "fairness")  # what is not compared between machines


def distances(before: Any, after: Any, path: str = "") -> list[str]:
    """Where two recordings of different machines differ by more than `TOLERANCE`."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        if list(before) != list(after):
            return [f"{path}: {', '.join(before)} became {', '.join(after)}"]
        names = [name for name in before if name not in UNEQUAL]
        return [line for name in names for line in distances(before[name], after[name], f"{path}/{name}")]
    if path.endswith("/verdict"):  # its kinds; figures follow from scores
        before, after = ([one for one in kinds if not one.endswith("%")] for kinds in (before, after))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = zip(before, after, strict=True)
        return [line for i, (old, new) in enumerate(pairs) for line in distances(old, new, f"{path}/{i}")]
    both_numbers = isinstance(before, float) and isinstance(after, float)
    same = np.isclose(before, after, rtol=TOLERANCE, atol=TOLERANCE) if both_numbers else before == after
    return [] if same else [f"{path}: {before} became {after}"]


def surroundings() -> dict[str, str]:
    """What the last bits depend on."""
    return {"architecture": platform.machine(), **{name: version(name) for name in PACKAGES}}


def recording(*, smoke: bool = False) -> dict[str, Any]:
    """All assessments, computed now; as JSON holds them."""
    with tempfile.TemporaryDirectory() as folder:
        every = assessments(Path(folder))
        found = {name: recorded(every[name]()) for name in (SMOKE if smoke else every)}
    return dict(json.loads(json.dumps(found)))


def compared(saved: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The differences that count, between what was saved and what was computed now."""
    exact = saved["surroundings"] == surroundings()
    return (differences if exact else distances)(saved["assessments"], now)


def main() -> None:
    if "--smoke" in sys.argv:
        print("differences between two runs:", differences(recording(smoke=True), recording(smoke=True)) or "none")
        return
    verb, path = sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else PUBLISHED
    now = recording()
    if verb == "record":
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in now.items())
        path.write_text(f'{{"surroundings": {json.dumps(surroundings())}, "assessments": {{\n{lines}\n}}}}\n')
        print(f"{len(now)} assessments recorded in {path}")
        return
    saved = json.loads(path.read_text())
    lines = compared(saved, now)
    how = "same to the last bit" if saved["surroundings"] == surroundings() else f"same within {TOLERANCE:g}"
    print("\n".join(lines) or f"{len(now)} assessments: every number is the {how}")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
