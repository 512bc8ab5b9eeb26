"""Console output of the command line: progress bars and messages on stderr, data on stdout, errors as one sentence.

`ErrorDoor` is the one place that turns exceptions into sentences and exit statuses.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import shlex
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, TextIO

import typer

from precall.cli.help_pages import Group
from precall.printing import cut, shown, wrapped
from precall.progress import Progress
from precall.samples.remote import without_secrets

tracebacks: ContextVar[bool] = ContextVar("tracebacks", default=False)
silenced: ContextVar[bool] = ContextVar("silenced", default=False)


def command_line() -> str:
    """The command that runs, as it is stored with its results: URLs without passwords and signatures."""
    given = [
        re.sub(r"[a-z][a-z0-9+.-]+://\S+", lambda url: without_secrets(url[0]), one, flags=re.I) for one in sys.argv[1:]
    ]
    return "precall " + shlex.join(given)


LONGEST = 2000  # characters of an error message
MOVED = {"sketch": "reference", "merge": "reference", "presets": "list"}  # command: the group in which it is now
OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "can't start new thread")  # in errors of torch and Python
WAYS_OUT = {
    errno.ENOSPC: "Free some space, or write to another disk.",
    errno.EDQUOT: "Free some space, or write to another disk.",
    errno.EFBIG: "Raise the limit of the file size (ulimit -f), or write to another disk.",
    errno.EROFS: "Write to another disk.",
    errno.EACCES: "Change its permissions, or choose another path.",
    errno.EPERM: "Change its permissions, or choose another path.",
    errno.ENAMETOOLONG: "Use a shorter path.",
    errno.EMFILE: "Raise the limit of open files (ulimit -n).",
}
# escapes of the control characters, of which only tabs and line breaks reach the terminal
CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}
CONTROLS |= {code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}  # text direction


class App(typer.Typer):
    """The command line: interruptions, and a full disk, also end it before a command begins."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        with _interruptible():
            try:
                return super().__call__(*arguments, **options)
            except (KeyboardInterrupt, OSError) as error:
                sys.exit(_reported(error))
            finally:
                try:
                    if sys.stdout is not None:
                        sys.stdout.flush()
                except OSError:  # nobody reads it any more, or its disk is full: discard the rest, to exit quietly
                    with suppress(OSError):
                        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class ErrorDoor(Group):
    """The error door: whatever a command raises becomes a sentence on stderr and a status that `precall --help` lists.

    With `precall --debug`, the traceback is shown as well. SIGTERM and SIGHUP interrupt a command like Ctrl-C.
    """

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse the options before the command. Empty words are refused: an empty path is the working directory.

        `--quiet` may stand anywhere.
        """
        with _printable_usage():
            if any(not word or re.fullmatch(r"--[a-z-]+=", word) for word in args):
                raise typer.BadParameter("an argument is empty; give it a value, or leave its option out")
            args = sorted(args, key=lambda word: word != "--quiet")
            return super().make_context(info_name, args, parent, **extra)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command. A former spelling is understood, and the new one named."""
        if args[0] in MOVED:
            note(f"`precall {args[0]}` is now `precall {MOVED[args[0]]} {args[0]}`")
            args = [MOVED[args[0]], *args]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            with _printable_usage():
                found = super().invoke(ctx)
                if sys.stdout is not None:
                    sys.stdout.flush()  # a full disk is reported here
                return found
        except (typer.Exit, typer.Abort):
            raise
        except (Exception, KeyboardInterrupt) as error:
            if hasattr(error, "format_message"):  # a usage error, which typer prints
                raise
            if tracebacks.get():
                alert("".join(traceback.format_exception(error)))
            raise typer.Exit(_reported(error)) from None


def _reported(error: BaseException) -> int:
    """Print the sentence about an error, and return the exit status."""
    status, sentence = explained(error)
    if sentence:
        alert(f"precall: {sentence}")
    return status


def explained(error: BaseException) -> tuple[int, str]:
    """The exit status of an error, and a sentence that says what happened and how to continue."""
    parts = [str(error) or type(error).__name__, *(f"({note})" for note in getattr(error, "__notes__", ()))]
    message = cut(shown(" ".join(" ".join(parts).split())), LONGEST)
    if isinstance(error, KeyboardInterrupt):
        return 130, "interrupted. No incomplete file is left; finished features are in the cache and will be reused."
    if isinstance(error, BrokenPipeError):
        return 141, ""
    if isinstance(error, OSError) and error.strerror is not None:
        path = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else str(error.filename)
        place = "" if error.filename is None else f": `{cut(shown(path), LONGEST)}`"
        return 1, f"{shown(error.strerror)}{place}. {WAYS_OUT.get(error.errno or 0, 'Check the path.')}"
    if isinstance(error, MemoryError) or any(sign in message for sign in OUT_OF_MEMORY):
        return 1, f"not enough memory ({message}). Use fewer samples, or a machine with more memory."
    if isinstance(error, ValueError | ImportError | OSError):
        return 1, message
    what = f"{type(error).__name__}: {message}"
    return 70, f"internal error ({what}). This is a bug, please report it with the output of `precall --debug …`."


@contextmanager
def _printable_usage() -> Iterator[None]:
    """Escape control characters in the message of a usage error, which repeats what was typed, and wrap its lines."""
    try:
        yield
    except Exception as error:
        if isinstance(getattr(error, "message", None), str) and hasattr(error, "format_message"):
            error.message = "\n".join(map(shown, error.message.split("\n")))  # type: ignore[attr-defined]
            said = fitted(f"Error: {error.format_message()}").removeprefix("Error: ")
            error.format_message = lambda: said
        raise


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise `KeyboardInterrupt`, unless they are ignored (as under nohup)."""
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    alone = threading.current_thread() is threading.main_thread()  # only the main thread can handle signals
    before = {number: signal.getsignal(number) for number in numbers if alone}
    changed = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
    for number in changed:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in changed.items():
            signal.signal(number, handler)


@contextmanager
def bars() -> Iterator[Progress]:
    """Provide a progress callback that draws bars with elapsed and remaining time, if stderr is a terminal."""
    from rich import progress as rich
    from rich.console import Console

    console, name = Console(stderr=True), rich.TextColumn("{task.description:>18}", markup=False)
    columns = (name, rich.BarColumn(), rich.TimeElapsedColumn(), rich.TimeRemainingColumn())
    disable = silenced.get() or not console.is_terminal
    with rich.Progress(*columns, console=console, transient=True, disable=disable) as progress:
        tasks: dict[str, rich.TaskID] = {}

        def update(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                for earlier in progress.tasks:  # stages follow one another; some never say that they are done
                    progress.update(earlier.id, completed=earlier.total)
                tasks[stage] = progress.add_task(shown(stage), total=total)
            progress.update(tasks[stage], completed=done, total=total)

        yield update


def emit(text: str) -> None:
    """Write `text` to stdout, which is reserved for data. Control characters are escaped."""
    if sys.stdout is None:
        raise OSError("standard output is closed, so that nothing can be printed. Redirect it to a file.")
    typer.echo(_printable(text, sys.stdout))


def note(text: str) -> None:
    """Write a remark to stderr, unless `--quiet` was given."""
    if not silenced.get():
        alert(text)


def alert(text: str) -> None:
    """Write a message to stderr, also with `--quiet`. Control characters, as in the name of a file, are escaped."""
    if sys.stderr is not None:
        typer.echo(fitted(_printable(text, sys.stderr)), err=True)


def fitted(text: str) -> str:
    """A text whose long lines are wrapped at the width of the terminal, or at 80 columns if that is not known."""
    width = shutil.get_terminal_size().columns
    lines = (
        [line] if len(line) <= width else wrapped(line, indent=line[: len(line) - len(line.lstrip())], width=width)
        for line in text.split("\n")
    )
    return "\n".join(part for parts in lines for part in parts)


HANDLER = logging.Handler(logging.WARNING)  # of what the logger "precall" reports
HANDLER.emit = lambda record: alert(f"precall: {shown(record.getMessage())}")  # type: ignore[method-assign]


def tell_skipped(name: str, errors: Sequence[object], n: int) -> None:
    """Report on stderr which of n samples could not be read."""
    if errors:
        note(f"{name}: skipped {len(errors)} of {n} samples that could not be read:")
        for error in errors[:10]:
            note(f"  {error}")


def _printable(text: str, stream: TextIO) -> str:
    """The text as the stream can show it: control characters and what it cannot encode become escapes."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.translate(CONTROLS).encode(encoding, "backslashreplace").decode(encoding)
