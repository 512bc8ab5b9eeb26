"""Encoders from the `transformers` library (extra `networks`): DINOv2, CLIP, MiniLM and GPT-2."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from precall.encoders.cache import cache_dir
from precall.encoders.encoder import Encoder, FeatureMatrix
from precall.encoders.networks import evaluating, image_network, on_device, state_hash, versions
from precall.encoders.resizing import CLIP, IMAGENET, Resizing
from precall.encoders.weights import check_reachable

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

DINOV2 = "facebook/dinov2-large"
CLIP_MODEL = "openai/clip-vit-large-patch14"
MINILM = "sentence-transformers/all-MiniLM-L6-v2"
GPT2 = "openai-community/gpt2-large"
MODELS = {"dinov2": DINOV2, "clip": CLIP_MODEL, "minilm": MINILM, "gpt2-large": GPT2}
MAX_TOKENS = 256


def dinov2(*, weights: str | Path | None = None, device: str | None = None) -> Encoder:
    """Class token of DINOv2 ViT-L/14, 1024 dimensions. Stein et al. recommend this encoder for photographs.

    References:
        Oquab et al. (2023); Stein et al. (2023).
    """
    model, source = _pretrained("dinov2", "AutoModel", DINOV2, weights)
    network = Reading(model, lambda output: output.last_hidden_state[:, 0])
    return image_network("dinov2", network, Resizing(224, "bicubic"), IMAGENET, _protocol(model, source), device)


def clip(*, weights: str | Path | None = None, device: str | None = None) -> Encoder:
    """Projected image embedding of CLIP ViT-L/14, 768 dimensions.

    References:
        Radford et al. (2021).
    """
    model, source = _pretrained("clip", "CLIPVisionModelWithProjection", CLIP_MODEL, weights)
    network = Reading(model, lambda output: output.image_embeds)
    return image_network("clip", network, Resizing(224, "bicubic", crop=True), CLIP, _protocol(model, source), device)


def minilm(*, weights: str | Path | None = None, device: str | None = None) -> Encoder:
    """MiniLM sentence embeddings: the mean of the token vectors, scaled to unit length; 384 dimensions.

    References:
        Reimers and Gurevych (2019); Wang et al. (2020).
    """
    return _texts("minilm", weights, device, "mean, unit length", MAX_TOKENS)


def gpt2_large(*, weights: str | Path | None = None, device: str | None = None) -> Encoder:
    """The vector of the last token in the last layer of GPT-2 large, 1280 dimensions: the features of MAUVE.

    References:
        Pillutla et al. (2021); Radford et al. (2019).
    """
    return _texts("gpt2-large", weights, device, "last", 1024)


def _texts(name: str, weights: str | Path | None, device: str | None, pooling: str, tokens: int) -> Encoder:
    model, source = _pretrained(name, "AutoModel", MODELS[name], weights)
    load = partial(_transformers(name).AutoTokenizer.from_pretrained, source)
    tokenizer = hub_loaded(load, downloadable=source == MODELS[name])
    return text_encoder(name, model, tokenizer, pooling, {"model": source}, device, tokens)


def has_weights(encoder: str) -> bool:
    """Whether an encoder can be loaded on this machine without a download.

    Example:
        >>> has_weights("ngrams")
        True
    """
    if encoder not in MODELS:
        return True
    if find_spec("transformers") is None:
        return False
    known = import_module("huggingface_hub").try_to_load_from_cache(MODELS[encoder], "model.safetensors")
    return (cache_dir() / "weights" / encoder).is_dir() or isinstance(known, str)


def text_encoder(
    name: str,
    model: nn.Module,
    tokenizer: Any,
    pooling: str,
    known: Mapping[str, str],
    device: str | None,
    tokens: int = MAX_TOKENS,
) -> Encoder:
    """An encoder from a model of tokens: the "mean", the first ("cls") or the "last" of its vectors."""
    place = on_device(model, device)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "right"
    most = min(tokens, tokenizer.model_max_length)

    def forward(texts: list[Any]) -> FeatureMatrix:
        import torch

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

    protocol = {**known, "weights": state_hash(model), "tokens": most, "pooling": pooling}
    return Encoder(name, "text", protocol | _library() | versions(place), str, forward, cuts=cuts)


class Reading:
    """A `transformers` image model that returns one of its outputs."""

    def __init__(self, model: nn.Module, read: Callable[[Any], Tensor]) -> None:
        self.model, self.read = model, read

    def __call__(self, pixels: Tensor, /) -> Tensor:
        return self.read(self.model(pixel_values=pixels))

    def eval(self) -> nn.Module:
        return self.model.eval()

    def parameters(self) -> Iterator[nn.Parameter]:
        return self.model.parameters()

    def to(self, device: torch.device) -> nn.Module:
        return self.model.to(device)


def _pretrained(encoder: str, model: str, name: str, weights: str | Path | None) -> tuple[nn.Module, str]:
    """Load a model and return it with its source: the given folder, the folder in the cache, or the model hub."""
    folder = cache_dir() / "weights" / encoder
    source = str(weights or (folder if folder.is_dir() else name))
    try:
        if source == name:
            check_available(name)
        load = partial(getattr(_transformers(encoder), model).from_pretrained, source, use_safetensors=True)
        return hub_loaded(load, downloadable=source == name), source
    except (OSError, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(
            f"encoder `{encoder}` needs the model {name}, which cannot be loaded from `{source}` ({reason}). Put its "
            f"files (config.json, model.safetensors, and tokenizer files for text) in `{folder}`; in Python, their "
            "folder may also be passed as `weights=`. The encoder "
            f"`{'ngrams' if encoder in ('minilm', 'gpt2-large') else 'efficientnet'}` needs no files."
        ) from None


def hub_loaded(load: Callable[..., Any], *, downloadable: bool) -> Any:
    """Load something from files on this machine if they are there, without asking the network, else from the hub."""
    try:
        return load(local_files_only=True)
    except (OSError, ValueError):
        if not downloadable:
            raise
        check_reachable(import_module("huggingface_hub").constants.ENDPOINT)
        return load()


def check_available(name: str) -> None:
    """Raise an `OSError` at once if a model is neither in the hub's cache nor can be downloaded."""
    if sys.modules.get("transformers") is None and find_spec("transformers") is None:
        return  # the caller says what to install
    hub = import_module("huggingface_hub")
    if isinstance(hub.try_to_load_from_cache(name, "config.json"), str):
        return
    if hub.constants.HF_HUB_OFFLINE:
        raise OSError("it is not in the cache, and HF_HUB_OFFLINE forbids downloads")
    check_reachable(hub.constants.ENDPOINT)


def _transformers(encoder: str) -> ModuleType:
    try:
        return import_module("transformers")
    except ImportError:
        raise ValueError(f"encoder `{encoder}` needs transformers: pip install 'precall[networks]'.") from None


def _library() -> dict[str, str]:
    return {"transformers": str(import_module("transformers").__version__)}


def _protocol(model: nn.Module, source: str) -> dict[str, Any]:
    return _library() | {"model": source, "weights": state_hash(model)}
