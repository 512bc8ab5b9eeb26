"""The encoders by name, and one's own by `package.module:function`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import CodeType
from typing import Any

from precall.encoders import hub, networks, plain
from precall.encoders.encoder import Encoder
from precall.encoders.table import table_encoder
from precall.samples import SampleSet, hashing
from precall.samples.sampleset import Kind

ENCODERS: dict[str, Callable[..., Encoder]] = {
    "random-vgg": networks.random_vgg,
    "inception": networks.inception,
    "inception-probabilities": networks.inception_probabilities,
    "vgg16": networks.vgg16,
    "dinov2": hub.dinov2,
    "clip": hub.clip,
    "pixels": plain.pixels,
    "minilm": hub.minilm,
    "ngrams": plain.ngrams,
    "table": table_encoder,
    "identity": plain.identity,
}


def default_encoder(kind: Kind) -> str:
    """The encoder for samples of a kind where none is named: one that works offline, and is the same everywhere.

    Example:
        >>> default_encoder("images"), default_encoder("text")
        ('random-vgg', 'ngrams')
    """
    return {"images": "random-vgg", "features": "identity", "table": "table", "text": "ngrams"}[kind]


def load_encoder(
    name: str, *, weights: str | Path | None = None, device: str | None = None, reference: SampleSet | None = None
) -> Encoder:
    """An encoder by name.

    Args:
        name: One of `ENCODERS`, or `package.module:function` for one's own: a function from a list of 32 samples
            (`uint8` RGB arrays, texts, rows) to an array of shape (32, d).
        weights: For networks with weights: a file or folder, or for `inception` and `vgg16` an address with its hash,
            `https://…#sha256=…`. None takes the pinned ones.
        device: For networks: the torch device; None for CUDA where there is one, else the CPU.
        reference: For `table`: the real set, on which it is fitted.

    Returns:
        The encoder.

    Example:
        >>> load_encoder("pixels").protocol["resize"]["size"]
        32
    """
    if ":" in name:
        make: Callable[..., Encoder] = lambda: custom_encoder(name)  # noqa: E731
    elif name in ENCODERS:
        make = ENCODERS[name]
    else:
        known = ", ".join(ENCODERS)
        raise ValueError(f"`encoder` must be one of {known}, or package.module:function; got {name!r}.")
    taken = signature(make).parameters
    options: dict[str, Any] = {"weights": weights, "device": device, "reference": reference}
    if unwanted := [option for option in ("weights", "device") if options[option] is not None and option not in taken]:
        raise ValueError(f"encoder `{name}` takes no `{unwanted[0]}`; leave it out.")
    if "reference" in taken and reference is None:
        raise ValueError(f"encoder `{name}` needs `reference`: the real set, on which it is fitted.")
    return make(**{option: value for option, value in options.items() if option in taken})


def custom_encoder(name: str) -> Encoder:
    """A function of the user's as an encoder; its module is imported.

    The protocol holds the module's source and the function's compiled code: an edited function is another encoder, and
    so is one that was edited but not yet loaded again. What it calls in other modules is not seen.
    """
    module_name, _, function_name = name.partition(":")
    try:
        module = import_module(module_name)
        function = getattr(module, function_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"`encoder` must name a function that imports; {name!r} does not ({error}).") from None
    if not callable(function):
        raise ValueError(f"`encoder` must name a function; {name!r} is {type(function).__name__}.")
    source = getattr(sys.modules[module_name], "__file__", None)
    protocol = {
        "function": name,
        "version": str(getattr(module, "__version__", "")),
        "source": hashing.of_file(Path(source)) if source else "",
        "code": _code_hash(getattr(function, "__code__", None)),
    }
    return Encoder(name, None, protocol, lambda sample: sample, function)


def _code_hash(code: Any) -> str:
    """SHA-256 of a code object: instructions, names and constants, those of inner functions too."""
    if not isinstance(code, CodeType):
        return ""
    constants = [_code_hash(value) or _constant(value) for value in code.co_consts]
    return hashing.combined([code.co_code.hex(), repr(code.co_names), *constants])


def _constant(value: Any) -> str:
    """A constant as text; sets in order, since theirs changes from process to process."""
    return repr(sorted(map(repr, value)) if isinstance(value, frozenset) else value)
