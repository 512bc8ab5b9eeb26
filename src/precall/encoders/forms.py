"""Encoders by the name of a model or file: `hf:`, `st:`, `timm:`, `open_clip:`, `onnx:` and `torchscript:`.

Only the user may name them, never a file (see `registry.may_name`). Code of a model's repository is never run, and
weights are read as safetensors; a TorchScript file must be trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from precall.encoders.encoder import Encoder, FeatureMatrix
from precall.encoders.hub import check_available, hub_loaded, text_encoder
from precall.encoders.networks import evaluating, image_network, on_device, script_encoder, state_hash, versions
from precall.encoders.resizing import Resizing, normalised_images
from precall.lazy import torch
from precall.printing import shown
from precall.samples import hashing

POOLINGS = ("mean", "cls", "last")  # of the vectors of the tokens: mean, first, last
BYTES = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)  # mean and scale that leave values from 0 to 1 as they are


def hugging_face(given: str, *, device: str | None = None) -> Encoder:
    """`hf:org/model`, `hf:folder`, `hf:org/model@revision`, and for texts `?pooling=mean|cls|last`."""
    library = _library("transformers", "hf")
    name, _, option = given.partition("?")
    pooling = option.removeprefix("pooling=") or "mean"
    if pooling not in POOLINGS:
        raise ValueError(f"`hf:{shown(given)}` must have a pooling of {', '.join(POOLINGS)}; got {pooling!r}.")
    source, _, revision = (name, "", "") if Path(name).is_dir() else name.partition("@")
    how: dict[str, Any] = {"trust_remote_code": False} | ({"revision": revision} if revision else {})
    local = Path(source).is_dir()

    def load(kind: str, **more: Any) -> Any:
        made = getattr(library, kind).from_pretrained
        return hub_loaded(lambda **k: made(source, **how, **more, **k), downloadable=not local)

    try:
        if not local:
            check_available(source)
        model = load("AutoModel", use_safetensors=True)
        config = model.config
        if hasattr(config, "image_size") and not hasattr(config, "vocab_size"):
            return _image_model(f"hf:{given}", model, load("AutoImageProcessor"), source, revision, device)
        tokenizer = load("AutoTokenizer")
    except (OSError, ValueError, ImportError) as error:
        reason = shown((str(error).strip() or type(error).__name__).splitlines()[0])
        way_out = "Download it where there is a network, and pass its folder: hf:FOLDER."
        raise ValueError(f"encoder `hf:{shown(given)}` cannot be loaded ({reason}). {way_out}") from None
    known = {"model": source, "revision": revision or str(getattr(config, "_commit_hash", None) or "")}
    return text_encoder(f"hf:{given}", model, tokenizer, pooling, known, device)


def _image_model(name: str, model: Any, processor: Any, source: str, revision: str, device: str | None) -> Encoder:
    """The pooled output of a model of images, or its first token, with the size and scale of its processor."""
    size = getattr(processor, "crop_size", None) or processor.size
    side = int(next(iter(size.values())) if hasattr(size, "values") else size)
    scale = tuple(map(float, processor.image_mean)), tuple(map(float, processor.image_std))

    def read(pixels: Any) -> Any:
        output = model(pixel_values=pixels)
        first = getattr(model.config, "model_type", "") == "dinov2" or getattr(output, "pooler_output", None) is None
        return (output.last_hidden_state[:, 0] if first else output.pooler_output).flatten(1)

    protocol = {"model": source, "revision": revision, "weights": state_hash(model)}
    protocol["pooling"] = "pooled output or first token"
    return image_network(name, model, Resizing(side, "bicubic"), scale, protocol, device, read)


def sentence_transformer(given: str, *, device: str | None = None) -> Encoder:
    """`st:model`: a model of sentence-transformers, with its own pooling."""
    library = _library("sentence_transformers", "st")
    how: dict[str, Any] = {"trust_remote_code": False, "model_kwargs": {"use_safetensors": True}}
    model = _made("st", given, lambda: library.SentenceTransformer(given, device=device, **how))
    most = int(model.max_seq_length or 0)

    def forward(texts: list[Any]) -> FeatureMatrix:
        return np.asarray(model.encode(texts, convert_to_numpy=True, show_progress_bar=False), dtype=np.float32)

    cuts = lambda text: 0 < most < len(model.tokenizer(text, truncation=False, verbose=False)["input_ids"])  # noqa: E731
    protocol = {"model": given, "library": str(library.__version__), "tokens": most, "weights": state_hash(model)}
    return Encoder(f"st:{given}", "text", protocol, str, forward, cuts=cuts)


def open_clip(given: str, *, device: str | None = None) -> Encoder:
    """`open_clip:architecture/pretrained`, as in `open_clip:ViT-B-32/laion2b_s34b_b79k`: image embeddings."""
    library = _library("open_clip", "open_clip")
    name, _, tag = given.partition("/")
    model, _, transform = _made(
        "open_clip", given, lambda: library.create_model_and_transforms(name, pretrained=tag or None)
    )
    return _transformed(f"open_clip:{given}", model, model.encode_image, transform, library, device)


def timm(given: str, *, device: str | None = None) -> Encoder:
    """`timm:model`, as in `timm:resnet50.a1_in1k`: pooled features before the classifier."""
    library = _library("timm", "timm")
    model = _made("timm", given, lambda: library.create_model(given, pretrained=True, num_classes=0))
    transform = library.data.create_transform(**library.data.resolve_model_data_config(model), is_training=False)
    return _transformed(f"timm:{given}", model, model, transform, library, device)


def _transformed(
    name: str, model: Any, features: Callable[[Any], Any], transform: Any, library: ModuleType, device: str | None
) -> Encoder:
    """A model of images with a transform of its library, from Pillow images to tensors."""
    from PIL import Image

    place = on_device(model, device)

    def forward(images: list[Any]) -> FeatureMatrix:
        with evaluating():
            return np.asarray(features(torch.stack(images).to(place)).float().cpu())

    protocol = {"model": name, "transform": str(transform), "weights": state_hash(model)}
    protocol |= {"library": f"{library.__name__} {library.__version__}"} | versions(place)
    return Encoder(name, "images", protocol, lambda image: transform(Image.fromarray(image)), forward)


def onnx(given: str) -> Encoder:
    """`onnx:file`: a network whose input is images (n, 3, h, w) from 0 to 1, or features (n, d)."""
    path = Path(given)
    if not path.is_file():
        raise ValueError(f"`onnx:` must be followed by a file that exists; got `{shown(given)}`.")
    library = _library("onnxruntime", "onnx")
    session = _made("onnx", given, lambda: library.InferenceSession(str(path), providers=["CPUExecutionProvider"]))
    taken = session.get_inputs()[0]
    size = taken.shape[2] if len(taken.shape) == 4 else None
    resizing = Resizing(size if isinstance(size, int) else 224, "bicubic")

    def forward(samples: list[Any]) -> FeatureMatrix:
        rows = np.stack(samples).astype(np.float32) if len(taken.shape) == 2 else normalised_images(samples, *BYTES)
        found = np.asarray(session.run(None, {taken.name: rows})[0], dtype=np.float32)
        return found.reshape(len(found), -1)

    protocol = {"weights": hashing.of_file(path), "onnxruntime": str(library.__version__)}
    if len(taken.shape) == 2:
        return Encoder(f"onnx:{given}", "features", protocol, np.asarray, forward)
    return Encoder(f"onnx:{given}", "images", protocol | resizing.protocol, resizing, forward)


FORMS: dict[str, Callable[..., Encoder]] = {
    **{"hf": hugging_face, "st": sentence_transformer, "open_clip": open_clip, "timm": timm},
    **{"onnx": onnx, "torchscript": script_encoder},
}


def _library(name: str, form: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError:
        package = {"open_clip": "open_clip_torch"}.get(name, name).replace("_", "-")
        raise ValueError(f"encoder `{form}:` needs the package {package}: pip install {package}.") from None


def _made(form: str, given: str, make: Callable[[], Any]) -> Any:
    """Load a model. Whatever goes wrong becomes a sentence: the file is missing, or there is no network."""
    try:
        return make()
    except Exception as error:
        reason = shown((str(error).strip() or type(error).__name__).splitlines()[0])
        raise ValueError(f"encoder `{form}:{shown(given)}` cannot be loaded ({reason}).") from None
