"""Encoders from the `transformers` library (extra `networks`): DINOv2, CLIP, MiniLM and GPT-2."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from precall.encoders.cache import cache_dir
from precall.encoders.encoder import Encoder, FeatureMatrix
from precall.encoders.networks import evaluating, image_network, on_device, state_hash, versions
from precall.encoders.resizing import CLIP, IMAGENET, Resizing
from precall.encoders.weights import check_reachable
from precall.lazy import torch

DINOV2 = "facebook/dinov2-large"
CLIP_MODEL = "openai/clip-vit-large-patch14"
MINILM = "sentence-transformers/all-MiniLM-L6-v2"
GPT2 = "openai-community/gpt2-large"
MODELS = {"dinov2": DINOV2, "clip": CLIP_MODEL, "minilm": MINILM, "gpt2-large": GPT2}
MAX_TOKENS = 256


def dinov2(*, weights: str | Path | None = None, device: str | None = None) -> Encoder:
    """Class token of DINOv2 ViT-L/14 (Oquab et al., 2023), 1024 dimensions; Stein et al. (2023) recommend it."""
    model, source = _pretrained("dinov2", "AutoModel", DINOV2, weights)
    read = lambda pixels: model(pixel_values=pixels).last_hidden_state[:, 0]  # noqa: E731
    return image_network("dinov2", model, Resizing(224, "bicubic"), IMAGENET, _protocol(model, source), device, read)


def clip(*, weights: str | Path | None = None, device: str | None = None) -> Encoder:
    """Projected image embedding of CLIP ViT-L/14 (Radford et al., 2021), 768 dimensions."""
    model, source = _pretrained("clip", "CLIPVisionModelWithProjection", CLIP_MODEL, weights)
    read = lambda pixels: model(pixel_values=pixels).image_embeds  # noqa: E731
    resizing = Resizing(224, "bicubic", crop=True)
    return image_network("clip", model, resizing, CLIP, _protocol(model, source), device, read)


def minilm(*, weights: str | Path | None = None, device: str | None = None) -> Encoder:
    """MiniLM sentence embeddings (Wang et al., 2020): the mean token vector at unit length; 384 dimensions."""
    return _texts("minilm", weights, device, "mean, unit length", MAX_TOKENS)


def gpt2_large(*, weights: str | Path | None = None, device: str | None = None) -> Encoder:
    """The last token in the last layer of GPT-2 large, as in MAUVE (Pillutla et al., 2021); 1280 dimensions."""
    return _texts("gpt2-large", weights, device, "last", 1024)


def _texts(name: str, weights: str | Path | None, device: str | None, pooling: str, tokens: int) -> Encoder:
    model, source = _pretrained(name, "AutoModel", MODELS[name], weights)
    load = partial(transformers(name).AutoTokenizer.from_pretrained, source)
    tokenizer = hub_loaded(load, downloadable=source == MODELS[name])
    return text_encoder(name, model, tokenizer, pooling, {"model": source}, device, tokens)


def has_weights(encoder: str) -> bool:
    """Whether an encoder can be loaded on this machine without a download."""
    if encoder not in MODELS:
        return True
    if find_spec("transformers") is None:
        return False
    known = import_module("huggingface_hub").try_to_load_from_cache(MODELS[encoder], "model.safetensors")
    return (cache_dir() / "weights" / encoder).is_dir() or isinstance(known, str)


def text_encoder(
    name: str, model: torch.nn.Module, tokenizer: Any, pooling: str, known: Mapping[str, str], device: str | None,
    tokens: int = MAX_TOKENS,
) -> Encoder:  # fmt: skip
    """An encoder from a model of tokens: the "mean", the first ("cls") or the "last" of its vectors."""
    place = on_device(model, device)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "right"
    most = min(tokens, tokenizer.model_max_length)

    def forward(texts: list[Any]) -> FeatureMatrix:
        with evaluating():
            tokens = tokenizer(texts, padding=True, truncation=True, max_length=most, return_tensors="pt")
            tokens = {name: tensor.to(place) for name, tensor in tokens.items()}
            vectors = model(**tokens).last_hidden_state
            mask = tokens["attention_mask"][..., None].to(vectors.dtype)
            if pooling.startswith("mean"):
                found = (vectors * mask).sum(1) / mask.sum(1)
            else:
                last = mask[..., 0].sum(1).long() - 1 if pooling == "last" else torch.zeros_like(mask[:, 0, 0]).long()
                found = vectors[torch.arange(len(vectors)), last]
            length = found.norm(dim=1, keepdim=True) if pooling.endswith("unit length") else 1.0
            return np.asarray((found / length).float().cpu())

    def cuts(text: str) -> bool:
        return len(text) > most - 2 and bool(len(tokenizer(text, truncation=False, verbose=False)["input_ids"]) > most)

    protocol = _protocol(model, "") | dict(known) | {"tokens": most, "pooling": pooling}
    return Encoder(name, "text", protocol | versions(place), str, forward, cuts=cuts)


def _pretrained(encoder: str, model: str, name: str, weights: str | Path | None) -> tuple[torch.nn.Module, str]:
    """Load a model and return it with its source: the given folder, the folder in the cache, or the model hub."""
    folder = cache_dir() / "weights" / encoder
    source = str(weights or (folder if folder.is_dir() else name))
    try:
        if source == name:
            check_available(name)
        load = partial(getattr(transformers(encoder), model).from_pretrained, source, use_safetensors=True)
        return hub_loaded(load, downloadable=source == name), source
    except (OSError, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(
            f"encoder `{encoder}` needs the model {name}, which cannot be loaded from `{source}` ({reason}). Put its "
            f"files (config.json, model.safetensors, and tokenizer files for text) in `{folder}`; in Python, their "
            "folder may also be passed as `weights=`. The encoder "
            f"`{'words' if encoder in ('minilm', 'gpt2-large') else 'efficientnet'}` needs no files."
        ) from None


def hub_loaded(load: Callable[..., Any], *, downloadable: bool) -> Any:
    """Load something from files on this machine if they are there, without asking the network, else from the hub."""
    try:
        return load(local_files_only=True)
    except (OSError, ValueError):
        if not downloadable:
            raise
        check_reachable(import_module("huggingface_hub.constants").ENDPOINT)
        return load()


def check_available(name: str) -> None:
    """Raise an `OSError` at once if a model is neither in the hub's cache nor can be downloaded."""
    if sys.modules.get("transformers") is None and find_spec("transformers") is None:
        return  # the caller says what to install
    hub = import_module("huggingface_hub")
    if isinstance(hub.try_to_load_from_cache(name, "config.json"), str):
        return
    if (constants := import_module("huggingface_hub.constants")).HF_HUB_OFFLINE:
        raise OSError("it is not in the cache, and HF_HUB_OFFLINE forbids downloads")
    check_reachable(constants.ENDPOINT)


def transformers(encoder: str) -> ModuleType:
    """The library; an error that names the extra if it is not installed."""
    try:
        return import_module("transformers")
    except ImportError:
        raise ValueError(f"encoder `{encoder}` needs transformers: pip install 'precall[networks]'.") from None


def _protocol(model: torch.nn.Module, source: str) -> dict[str, Any]:
    return {"transformers": transformers("").__version__, "model": source, "weights": state_hash(model)}
