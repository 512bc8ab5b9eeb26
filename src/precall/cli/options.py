"""Options that become the fields of one object, documented where they are declared, and options that commands share.

A command with many options gets one dataclass (`takes`). Its docstring holds the help of each option: those below
"Options" are the everyday ones, which `--help` shows; those below another heading are in a group of that name, which
`--help-all` shows as well. Those below "No longer needed" are hidden, and refused for the reason that stands there. The
word in parentheses stands for the value.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar, get_type_hints

import typer

from precall.cli.help_pages import ARGUMENTS, OPTIONS, HelpAll
from precall.printing import shown
from precall.samples import SampleSet
from precall.samples.opening import KEYED, open_samples, takes_key

if __doc__ is None:
    raise ImportError("the command line takes its help from docstrings. Run Python without -OO (PYTHONOPTIMIZE=2).")

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    T = TypeVar("T", bound=DataclassInstance)


GONE = "No longer needed"  # the heading of options that are refused


@dataclass(frozen=True, kw_only=True)
class EncodingOptions:
    """How sources are opened and encoded, and where this runs.

    Options:
        encoder (NAME): Encoder for samples that are not features; `assess` takes several. Images: efficientnet
            (default), random-vgg, pixels, dinov2, clip, vgg16, inception, inception-probabilities, inception-adm.
            Texts: words (default), ngrams, minilm, gpt2-large. Or your own: package.module:function (searched in
            PYTHONPATH).

    Reading samples:
        key (NAME): Name of the array in a .npz, .safetensors or .h5 file, of the column in .parquet files, or of the
            field in .tar or .jsonl files, where it may be a path, as in resps.0.0.
        on_error: fail at the first unreadable sample, or skip unreadable samples and list them.

    Computing:
        device (NAME): Where networks, the k-NN sweep and k-means run: auto (CUDA, else MPS, else the CPU), cpu, cuda or
            mps. Comparisons that need float64 run on the CPU instead of MPS.
    """

    encoder: str | None = None
    key: str | None = None
    on_error: Literal["fail", "skip"] = "fail"
    device: str = "auto"

    def check(self, *paths: str) -> None:
        """Refuse an unknown device, and `--key` if no source has names to choose from."""
        from precall.devices import check_device

        check_device(self.device)
        prompted = getattr(self, "prompt", None) is not None  # answers may then be a column of any table
        if self.key is not None and not prompted and not any(map(takes_key, paths)):
            raise wrong("--key", f"none of the sources has names to choose from ({' '.join(KEYED)})")

    def opened(self, path: str) -> SampleSet:
        """The samples at a path."""
        return open_samples(path, key=self.key, on_error=self.on_error)


@dataclass(frozen=True, kw_only=True)
class ReferenceOptions(EncodingOptions):
    """How sources are opened and encoded if the data may be a stored reference, which names an encoder.

    Reading samples:
        allow_encoder (NAME): Your own encoder, package.module:function, that a .precall file may name; give it several
            times for more. Without it, code that a file names is never run.
    """

    allow_encoder: list[str] | None = None

    def encoders(self, real: SampleSet) -> list[str] | None:
        """The encoders that the user names, or else the one that a stored reference names, if it may; or None."""
        from precall.encoders.registry import named_by_file

        if self.encoder:
            return [self.encoder] if isinstance(self.encoder, str) else list(self.encoder)
        stored = named_by_file(getattr(real, "encoder", None), real.name, self.allow_encoder or ())
        return None if stored is None else [stored]


def wrong(option: str, sentence: str) -> typer.BadParameter:
    """The error of an option that cannot be used so."""
    return typer.BadParameter(sentence, param_hint=option)


@contextmanager
def blaming(option: str) -> Iterator[None]:
    """Turn a `ValueError` inside the block into the error of an option."""
    try:
        yield
    except ValueError as error:
        raise wrong(option, str(error)) from None


def named_path(given: str) -> tuple[str, str]:
    """`name=path`, or a path whose last part is the name: for a pattern of shards, that of their folder."""
    name, equals, path = given.partition("=")
    if equals and name and "://" not in name:  # the query of a URL may contain an equals sign
        return shown(name), path
    place = Path(given.partition("?")[0])
    folder = place.parent.name if set("*[{") & set(place.name) else ""
    return shown(folder or place.name or given), given


def flag(name: str) -> str:
    """The option of a field, as in `--show-rows` or `--json`."""
    return f"--{name.removeprefix('as_').replace('_', '-')}"


def takes(options: type[T]) -> Callable[[Callable[[T], None]], Callable[..., None]]:
    """Make a command of a function that takes one object: its options are the fields of a dataclass."""
    hints, empty = get_type_hints(options), inspect.Parameter.empty
    defaults = {one.name: empty if one.default is MISSING else one.default for one in fields(options)}
    said: dict[str, _Documented] = {}
    for one in (one for kind in options.__mro__[:-1] for one in _documented(kind.__doc__ or "")):
        said.setdefault(one.name, one)  # own options come before inherited ones
    order = dict.fromkeys([*(name for name, default in defaults.items() if default is empty), *said])
    typed: dict[str, Any] = {name: Annotated[hints[name], said[name].parameter()] for name in order}
    if {one.group for one in said.values()} - {ARGUMENTS, OPTIONS, GONE}:
        typed["help_all"], defaults["help_all"] = HelpAll, False
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(name, keyword, default=defaults[name], annotation=one) for name, one in typed.items()
    ]

    def decorate(run: Callable[[T], None]) -> Callable[..., None]:
        def command(*, help_all: bool = False, **given: Any) -> None:
            for one in said.values():
                if one.group == GONE and given[one.name]:
                    raise wrong(flag(one.name), f"is no longer needed: {one.text}")
            run(options(**given))

        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__name__, command.__doc__ = run.__name__, run.__doc__
        command.__annotations__ = typed
        return command

    return decorate


class _Documented(NamedTuple):
    """An option as the docstring of its dataclass describes it."""

    name: str
    group: str
    value: str | None
    text: str

    def parameter(self) -> Any:
        if self.group == ARGUMENTS:
            return typer.Argument(metavar=self.value, help=self.text)
        group, hidden = None if self.group == OPTIONS else self.group, self.group == GONE
        return typer.Option(flag(self.name), metavar=self.value, help=self.text, rich_help_panel=group, hidden=hidden)


def _documented(docstring: str) -> Iterator[_Documented]:
    """The options in a docstring: headings, and indented below them `name (VALUE): text`."""
    parts = re.split(r"^(\w[\w -]*):$", inspect.cleandoc(docstring), flags=re.M)
    for heading, below in zip(parts[1::2], parts[2::2], strict=True):
        for name, value, text in re.findall(r"^    (\w+)(?: \(([^)]+)\))?: (.*(?:\n {5,}.*)*)", below, flags=re.M):
            yield _Documented(name, heading, value or None, " ".join(text.split()))
