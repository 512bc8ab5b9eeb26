"""Console output of the command line: one line per error, progress bars on stderr, data on stdout."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Annotated, Literal, ParamSpec, Protocol, TypeVar

import typer

from precall.progress import Progress

KEYED = (".npz", ".safetensors", ".parquet", ".jsonl")  # files with named arrays, columns or fields
EncoderName = Annotated[
    str | None,
    typer.Option(
        help="Encoder for samples that are not features. Images: random-vgg (default), pixels, clip, "
        "dinov2, vgg16, inception, inception-probabilities. Texts: ngrams (default), minilm. Or your own: "
        "package.module:function."
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        help="Name of the array in a .npz or .safetensors file, of the column in a .parquet file, or of the field in a "
        ".jsonl file."
    ),
]
OnError = Annotated[
    Literal["fail", "skip"],
    typer.Option(help="fail at the first unreadable sample, or skip unreadable samples and list them."),
]
tracebacks: ContextVar[bool] = ContextVar("tracebacks", default=False)

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class HasErrors(Protocol):
    """A collection of samples, some of which could not be read."""

    @property
    def errors(self) -> Sequence[object]: ...

    def __len__(self) -> int: ...


def reporting_errors(command: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Wrap a command so that an error prints one line and exits with status 1.

    With `precall --debug`, the traceback is shown instead.
    """

    @wraps(command)
    def wrapped(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        try:
            return command(*arguments, **options)
        except (ValueError, OSError, ImportError, MemoryError) as error:
            if tracebacks.get():
                raise
            parts = [str(error) or type(error).__name__, *(f"({note})" for note in getattr(error, "__notes__", ()))]
            typer.echo(f"precall: {' '.join(' '.join(parts).split())}", err=True)
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            typer.echo("precall: interrupted. Features encoded so far are cached and will be reused.", err=True)
            raise typer.Exit(130) from None

    return wrapped


@contextmanager
def bars() -> Iterator[Progress]:
    """Provide a progress callback that draws bars with rate and remaining time, if stderr is a terminal."""
    from rich import progress as rich_progress
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        ProgressColumn,
        Task,
        TaskID,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        """Steps per second."""

        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:.3g}/s" if task.speed else "")

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:>18}"), BarColumn(), Rate(), TimeElapsedColumn(), TimeRemainingColumn())
    disable = not console.is_terminal
    with rich_progress.Progress(*columns, console=console, transient=True, disable=disable) as progress:
        tasks: dict[str, TaskID] = {}

        def update(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = progress.add_task(stage, total=total)
            progress.update(tasks[stage], completed=done, total=total)

        yield update


def emit(text: str) -> None:
    """Write `text` to stdout, which is reserved for data."""
    sys.stdout.write(text + "\n")


def tell_skipped(name: str, samples: HasErrors) -> None:
    """Report on stderr which samples could not be read."""
    if samples.errors:
        typer.echo(f"{name}: skipped {len(samples.errors)} of {len(samples)} samples that could not be read:", err=True)
        for error in samples.errors[:10]:
            typer.echo(f"  {error}", err=True)
