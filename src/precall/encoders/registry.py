"""The registry of encoders by name, and user-defined encoders by `package.module:function`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from functools import partial
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import CodeType
from typing import Any, cast

from precall.encoders import hub, networks, plain
from precall.encoders.encoder import SLOTS, Encoder
from precall.encoders.forms import FORMS
from precall.encoders.table import table_encoder
from precall.encoders.words import words
from precall.plugins import loaded, plugins
from precall.printing import shown
from precall.samples import SampleSet, hashing
from precall.samples.sampleset import Kind

ENCODERS: dict[str, Callable[..., Encoder]] = {
    "efficientnet": networks.efficientnet,
    "random-vgg": networks.random_vgg,
    "inception": networks.inception,
    "inception-probabilities": networks.inception_probabilities,
    "inception-adm": networks.inception_adm,
    "vgg16": networks.vgg16,
    "dinov2": hub.dinov2,
    "clip": hub.clip,
    "pixels": plain.pixels,
    "words": words,
    "minilm": hub.minilm,
    "gpt2-large": hub.gpt2_large,
    "ngrams": plain.ngrams,
    "table": table_encoder,
    "identity": plain.identity,
}

TEXTS = ("words", "minilm", "gpt2-large", "ngrams")  # encoders of texts
DEFAULTS: dict[str, str] = {"images": "efficientnet", "features": "identity", "table": "table", "text": "words"}
FORMER = {"images": "random-vgg", "text": "ngrams"}  # defaults of earlier versions
PUBLISHED = {"images": "inception or dinov2", "text": "minilm or gpt2-large"}  # encoders of publications


def default_encoder(kind: Kind) -> str:
    """Name of the default encoder for samples of a kind. It works offline and is the same on every machine."""
    if kind not in DEFAULTS:
        way_out = "pass `encoder` (--encoder package.module:function), which receives their paths"
        raise ValueError(f"{kind} have no default encoder: {way_out}.")
    return DEFAULTS[kind]


def publication_hint(encoder: str | None) -> list[str]:
    """Which encoder to use for a publication in the place of a default, in one sentence; none for other encoders."""
    better = {defaults[kind]: names for kind, names in PUBLISHED.items() for defaults in (DEFAULTS, FORMER)}
    if encoder is None or encoder not in better:
        return []
    return [f"The encoder {encoder} decided. For a publication, use {better[encoder]}."]


def load_encoder(
    name: str, *, weights: str | Path | None = None, device: str | None = None, reference: SampleSet | None = None
) -> Encoder:
    """Load an encoder by name.

    Args:
        name: One of `ENCODERS`, or `package.module:function` for a user-defined encoder: a function from a list of 32
            samples (`uint8` RGB arrays, texts, features or paths) to an array of shape (32, d); or `hf:org/model`,
            `st:model`, `timm:model`, `open_clip:model/tag`, `onnx:file`, `torchscript:file`; or a plug-in. A function
            with several outputs returns them side by side and names their numbers of columns in its attribute
            `outputs`, as in `{"pool": 2048, "spatial": 2023, "classes": 1008}`; the first are the features.
        weights: For networks with weights: a file or folder; None uses the pinned weights.
        device: For networks, where they run: "cpu", "cuda", "mps", or "auto" (also None) for the best there is.
        reference: For `table`, the real set on which the encoder is fitted.
    """
    make = _maker(name)
    taken = signature(make).parameters
    options: dict[str, Any] = {"weights": weights, "device": device, "reference": reference}
    if unwanted := [option for option in ("weights", "device") if options[option] is not None and option not in taken]:
        raise ValueError(f"encoder `{name}` does not take `{unwanted[0]}`. Leave it out.")
    if "reference" in taken and reference is None:
        raise ValueError(f"encoder `{name}` needs `reference`, the real set on which it is fitted.")
    return make(**{option: value for option, value in options.items() if option in taken})


def _maker(name: object) -> Callable[..., Encoder]:
    """What makes the encoder of this name: one of precall's own, a form such as `hf:…`, a function, or a plug-in."""
    if isinstance(name, str) and name in ENCODERS:
        return ENCODERS[name]
    form, colon, rest = str(name).partition(":")
    if colon and form in FORMS:
        return partial(FORMS[form], rest)
    if colon:
        return lambda: custom_encoder(str(name))
    if isinstance(name, str) and name in plugins("encoders"):
        return partial(_of_plugin, name)
    known, forms = ", ".join((*ENCODERS, *plugins("encoders"))), ", ".join(f"{one}:…" for one in FORMS)
    raise ValueError(f"`encoder` must be one of {known}, {forms}, or package.module:function; got {name!r}.")


def _of_plugin(name: str) -> Encoder:
    found = loaded("encoders", name)
    made = found if isinstance(found, Encoder) else found()
    if not isinstance(made, Encoder):
        raise ValueError(f"the plug-in {name!r} must make an `Encoder`; it made {type(made).__name__}.")
    return made


def may_name(name: object, allowed: Collection[str] = ()) -> bool:
    """Whether a file may name this encoder: it is one of precall's own, or the user passed the same name."""
    return isinstance(name, str) and (name in ENCODERS or name in allowed)


def named_by_file(name: object, source: str, allowed: Collection[str] = ()) -> str | None:
    """The name of an encoder that a file holds, if it `may_name` it: a file never chooses the code that runs."""
    if name is None or may_name(name, allowed):
        return cast(str | None, name)
    got = shown(str(name)[:100])
    raise ValueError(
        f"`{shown(source)}` names the encoder {got!r}, which is not one of precall's own; code that a file names is "
        f"never run. If you trust it, pass `encoder={got!r}` (--encoder or --allow-encoder); for features, pass "
        "`encoder='identity'`."
    )


def differentiable_encoder(name: str | Path) -> Encoder:
    """Load a network for images, or a TorchScript file, whose features have gradients, on the CPU."""
    if str(name) not in ENCODERS:
        return networks.script_encoder(name)
    usable = str(name) not in TEXTS and runs_on_a_device(str(name))
    found = load_encoder(str(name), device="cpu") if usable else None
    if found is None or found.tensors is None:
        why = "is for texts" if str(name) in TEXTS else "has no gradients"
        way_out = "Use one of efficientnet, random-vgg, inception, vgg16, dinov2, clip."
        raise ValueError(f"`encoder` must be a network for images, or a TorchScript file; {name} {why}. {way_out}")
    return found


def runs_on_a_device(name: str) -> bool:
    """Whether an encoder of this name is a network that can run on an accelerator."""
    form = name.partition(":")[0]
    make = ENCODERS.get(name) or (FORMS.get(form) if ":" in name else None)
    return make is not None and "device" in signature(make).parameters


def custom_encoder(name: str) -> Encoder:
    """Import a user-defined function and wrap it as an encoder.

    The protocol contains hashes of the module's source and of the function's compiled code, so that an edited function
    is a different encoder. Changes in other modules that the function calls are not detected.
    """
    module_name, _, function_name = name.partition(":")
    function = _imported(name, module_name, function_name)
    module = sys.modules[module_name]
    source = getattr(module, "__file__", None)
    protocol: dict[str, Any] = {
        "function": name,
        "version": str(getattr(module, "__version__", "")),
        "source": hashing.of_file(Path(source)) if source else "",
        "code": _code_hash(getattr(function, "__code__", None)),
    }
    if outputs := getattr(function, "outputs", None):
        if not isinstance(outputs, Mapping) or not all(isinstance(n, int) and n > 0 for n in outputs.values()):
            expected = "must map names to numbers of columns"
            raise ValueError(f"`outputs` of the encoder {name!r} {expected}; got {outputs!r}.")
        protocol["outputs"] = {str(output): width for output, width in outputs.items()}

    def called(samples: list[Any]) -> Any:
        try:
            return function(samples)
        except (Exception, SystemExit) as error:  # an error of the user's function is not an error of precall
            expected = f"must turn a list of {SLOTS} samples into an array with {SLOTS} rows"
            reason = shown(f"{type(error).__name__}: {error}")
            raise ValueError(f"encoder {name!r} {expected}; it raised {reason}.") from error

    return Encoder(name, None, protocol, lambda sample: sample, called)


def _imported(name: str, module: str, attribute: str) -> Callable[[list[Any]], Any]:
    """Import a function. Whatever goes wrong in the user's module becomes a sentence about the name."""
    try:
        function = getattr(import_module(module), attribute)
    except (Exception, SystemExit) as error:
        reason = shown(f"{type(error).__name__}: {error}")
        here = Path(*module.split(".")).with_suffix(".py") if module.replace(".", "").isidentifier() else Path()
        way_out = "Set PYTHONPATH=. to import from the working directory." if here.is_file() else "Check the name."
        expected = "`encoder` must name a function that can be imported"
        raise ValueError(f"{expected}; {name!r} cannot ({reason}). {way_out}") from error
    if not callable(function):
        raise ValueError(f"`encoder` must name a function; {name!r} is {type(function).__name__}.")
    return cast(Callable[[list[Any]], Any], function)


def _code_hash(code: object) -> str:
    """SHA-256 of a code object: its instructions, names and constants, including those of inner functions."""
    if not isinstance(code, CodeType):
        return ""
    # sets are sorted, because their order differs between processes
    values = [sorted(map(repr, one)) if isinstance(one, frozenset) else one for one in code.co_consts]
    return hashing.combined(
        [code.co_code.hex(), repr(code.co_names), *(_code_hash(one) or repr(one) for one in values)]
    )
