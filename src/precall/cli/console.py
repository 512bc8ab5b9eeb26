"""How the command line speaks: one line for an error, bars on stderr, data on stdout."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Annotated, Any, Literal

import typer

KEYED = (".npz", ".safetensors", ".parquet", ".jsonl")  # sources with names to choose from
EncoderName = Annotated[
    str | None,
    typer.Option(
        help="How to encode samples that are not features. Images: random-vgg (unless told otherwise), inception, "
        "inception-probabilities, vgg16, dinov2, clip, pixels. Texts: ngrams (unless told otherwise), minilm. Or "
        "package.module:function."
    ),
]
Key = Annotated[
    str | None,
    typer.Option(help="Name of the array in .npz or .safetensors, of the column in .parquet, of the field in .jsonl."),
]
OnError = Annotated[
    Literal["fail", "skip"], typer.Option(help="fail at the first unreadable sample, or skip and count them.")
]
tracebacks: ContextVar[bool] = ContextVar("tracebacks", default=False)


def friendly(command: Callable[..., Any]) -> Callable[..., Any]:
    """`command`, with an error told in one line and exit status 1; `precall --debug` shows the traceback instead."""

    @wraps(command)
    def told(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except (ValueError, OSError, ImportError, MemoryError) as error:
            if tracebacks.get():
                raise
            parts = [str(error) or type(error).__name__, *(f"({note})" for note in getattr(error, "__notes__", ()))]
            typer.echo(f"precall: {' '.join(' '.join(parts).split())}", err=True)
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            typer.echo("precall: interrupted; what was encoded so far is kept and will be reused.", err=True)
            raise typer.Exit(130) from None

    return told


@contextmanager
def bars() -> Iterator[Callable[[str, int, int], None]]:
    """A progress callback (stage, done, total) that draws bars with rate and time left on stderr, if a person looks."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        Task,
        TaskID,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        """Steps a second."""

        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:.3g}/s" if task.speed else "")

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:>18}"), BarColumn(), Rate(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        tasks: dict[str, TaskID] = {}

        def told(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = progress.add_task(stage, total=total)
            progress.update(tasks[stage], completed=done, total=total)

        yield told


def emit(text: str) -> None:
    """`text` on stdout, where data goes."""
    sys.stdout.write(text + "\n")


def tell_skipped(name: str, samples: Any) -> None:
    """On stderr, which samples could not be read."""
    if samples.errors:
        typer.echo(f"{name}: skipped {len(samples.errors)} of {len(samples)} samples that could not be read:", err=True)
        for error in samples.errors[:10]:
            typer.echo(f"  {error}", err=True)
