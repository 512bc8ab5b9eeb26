"""Help pages: everyday options first, the others in named groups, and words such as FILE for the types of values."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from precall.plugins import plugins

ARGUMENTS, OPTIONS = "Arguments", "Options"
# groups of options, in the order of the pages; `--help` shows the first two alone
ORDER = (
    ARGUMENTS, OPTIONS, "Fine-tuning sets", "Planning a budget", "Reading samples", "Tables and groups", "Computing",
    "Training", "Networks", "Gates", "Large data", "Output"
)  # fmt: skip
# what stands for a value of a type, by the names that versions of typer have for it
WORDS = {"text": "NAME", "str": "NAME", "integer": "N", "int": "N", "float": "X", "path": "FILE"}
EVERYTHING = "precall.everything"  # set in the context if all groups are to be shown


class Command(TyperCommand):
    """A command whose help page has groups of options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write_options(self, ctx, formatter)


class Group(TyperGroup):
    """A group of commands whose help page describes each in a full sentence."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write_options(self, ctx, formatter)
        named = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        shown = [(name, one.get_short_help_str(limit=1000)) for name, one in named if one and not one.hidden]
        with formatter.section("Commands"):
            formatter.write_dl(shown)


def write_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Write the options of a command by group: the everyday ones, or all of them with `--help-all`."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for one in command.get_params(ctx):
        if (record := one.get_help_record(ctx)) is not None:
            usual = ARGUMENTS if one.param_type_name == "argument" else OPTIONS
            *names, kind = record[0].split()
            kind = re.sub(r"^<(list\[)?|]?>$", "", kind)
            words = record[0].split()[0] if usual == ARGUMENTS else " ".join([*names, WORDS.get(kind.lower(), kind)])
            groups.setdefault(getattr(one, "rich_help_panel", None) or usual, []).append((words, record[1]))
    names = sorted(groups, key=ORDER.index)
    everyday = [name for name in names if name in (ARGUMENTS, OPTIONS)]
    for name in names if EVERYTHING in ctx.meta else everyday:
        with formatter.section(name):
            formatter.write_dl(groups[name])
    if EVERYTHING not in ctx.meta and (others := [name for name in names if name not in everyday]):
        with formatter.section("More options"):
            formatter.write_dl([("--help-all", ", ".join(others))])
    added = {kind: ", ".join(sorted(plugins(kind))) for kind in ("encoders", "metrics", "sources") if plugins(kind)}
    if added and "real" in {one.name for one in command.get_params(ctx)}:
        with formatter.section("Plug-ins"):
            formatter.write_dl(list(added.items()))


def _show_everything(ctx: typer.Context, given: bool) -> None:
    if given:
        ctx.meta[EVERYTHING] = True
        typer.echo(ctx.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool, typer.Option("--help-all", help="Show all options and exit.", is_eager=True, callback=_show_everything)
]
