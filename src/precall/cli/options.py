"""Options that several commands share, and options that become the fields of one object.

A command with many options declares them as the fields of a dataclass, and gets one object (`takes`). Options in a
named group are shown by `--help-all` only; those without a group are the everyday ones, which `--help` shows too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_type_hints

import typer

from precall.cli.console import silenced
from precall.cli.help_pages import COMPUTING, OUTPUT, READING, HelpAll

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from precall.samples import SampleSet

    T = TypeVar("T", bound=DataclassInstance)

ENCODERS = (
    "Images: random-vgg (default), pixels, clip, dinov2, vgg16, inception, inception-probabilities, inception-adm. "
    "Texts: ngrams (default), minilm. Or your own: package.module:function (searched in PYTHONPATH)."
)
DATA = "The data: a folder or zip of images, .npy, .npz, .csv, .txt, …"

Real = Annotated[str, typer.Option(metavar="FILE", help=DATA)]
EncoderName = Annotated[str | None, typer.Option(help=f"Encoder for samples that are not features. {ENCODERS}")]
DeviceName = Annotated[
    str,
    typer.Option(
        rich_help_panel=COMPUTING,
        help="Where networks, the k-NN sweep and k-means run: auto (CUDA, else MPS, else the CPU), cpu, cuda or mps. "
        "Comparisons that need float64 run on the CPU instead of MPS.",
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=READING,
        help="Name of the array in a .npz, .safetensors or .h5 file, of the column in .parquet files, or of the field "
        "in .tar or .jsonl files, where it may be a path, as in resps.0.0.",
    ),
]
OnError = Annotated[
    Literal["fail", "skip"],
    typer.Option(
        rich_help_panel=READING, help="fail at the first unreadable sample, or skip unreadable samples and list them."
    ),
]
Columns = Annotated[str | None, typer.Option(metavar="NAMES", rich_help_panel="Tables and groups")]
Seed = Annotated[int, typer.Option(help="Seed of everything random.")]
Neighbours = Annotated[int, typer.Option(rich_help_panel=COMPUTING, help="Number of neighbours that define a ball.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")]
Fresh = Annotated[
    bool,
    typer.Option("--fresh", rich_help_panel=COMPUTING, help="Compute again, even if the results are in the cache."),
]


def _silence(given: bool) -> bool:
    """Print no progress and no remarks from now on."""
    if given:
        silenced.set(True)
    return given


Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        rich_help_panel=OUTPUT,
        help="Print results, errors and gates only: no progress and no remarks.",
        callback=_silence,
    ),
]


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How sources are opened, and where the work on them runs."""

    device: DeviceName = "auto"
    key: Key = None
    on_error: OnError = "fail"

    def check(self, *paths: str) -> None:
        """Refuse an unknown device, and `--key` if no source has names to choose from."""
        from precall.devices import check_device
        from precall.samples.opening import KEYED, takes_key

        check_device(self.device)
        if self.key is not None and not any(map(takes_key, paths)):
            raise wrong("--key", f"none of the sources has names to choose from ({' '.join(KEYED)})")

    def opened(self, path: str) -> SampleSet:
        """The samples at a path."""
        from precall.samples.opening import open_samples

        return open_samples(path, key=self.key, on_error=self.on_error)


def wrong(option: str, sentence: str) -> typer.BadParameter:
    """The error of an option that cannot be used so."""
    return typer.BadParameter(sentence, param_hint=option)


def takes(options: type[T]) -> Callable[[Callable[[T], None]], Callable[..., None]]:
    """Make a command of a function that takes one object: its options are the fields of a dataclass.

    Example:
        >>> @dataclass(frozen=True)
        ... class Options:
        ...     k: Annotated[int, typer.Option(help="Number of neighbours.")] = 5
        >>> @takes(Options)
        ... def show(options: Options) -> None:
        ...     print(options.k)
        >>> show(k=3)
        3
    """

    def decorate(run: Callable[[T], None]) -> Callable[..., None]:
        def command(*, help_all: bool = False, **given: Any) -> None:
            run(options(**given))

        hints = get_type_hints(options, include_extras=True) | {"help_all": HelpAll}
        defaults = {
            one.name: inspect.Parameter.empty if one.default is MISSING else one.default for one in fields(options)
        }
        command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[name])
                for name, default in (defaults | {"help_all": False}).items()
            ]
        )
        command.__name__, command.__doc__, command.__annotations__ = run.__name__, run.__doc__, hints
        return command

    return decorate
