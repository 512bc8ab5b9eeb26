"""The pages of the Python reference, which mkdocs fills with the docstrings when the site is built.

reference/index.md              the names in `precall`, and its packages
reference/improve.md            the names of a package, each with its first sentence
reference/improve/knobs.md      the names that a file, or a room of `metrics`, defines
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import precall

ROOMS = ("metrics", "improve", "tune", "samples", "encoders", "theory", "integrations", "report")


def reference_pages() -> dict[str, str]:
    """The pages by their place below docs/."""
    names = {name: _home("precall", name) for name in precall.__all__ if name not in ("__version__", *ROOMS)}
    rooms = [(f"[`precall.{room}`]({room}.md)", _first(import_module(f"precall.{room}"))) for room in ROOMS]
    own = {name: home for name, home in names.items() if not _on_a_page(home)}
    version = ("`precall.__version__`", "The version of precall.")
    parts = ["# precall", _table("name", [*_rows("precall", names), version]), _table("package", rooms)]
    pages = {"reference/index.md": _joined(*parts, *(_entry(f"precall.{name}", home) for name, home in own.items()))}
    for room in ROOMS:
        pages |= _pages_of(room)
    return pages


def _pages_of(room: str) -> dict[str, str]:
    """The page of a package, and one page for each of its parts."""
    package, by_part = f"precall.{room}", dict[str, dict[str, str]]()
    for name, home in _names(room).items():
        by_part.setdefault(home.split(".")[2], {})[name] = home
    named = {part: _rows(package, names) for part, names in by_part.items()}
    rows = [row for each in named.values() for row in each]
    doc = f"::: {package}\n    options:\n      members: false\n      show_root_heading: false"
    pages = {f"reference/{room}.md": _joined(f"# {package}", doc, _table("name", rows))}
    for part, names in by_part.items():
        entries = (_entry(f"{package}.{name}", home) for name, home in names.items())
        pages[f"reference/{room}/{part}.md"] = _joined(f"# {package}: {part}", *entries)
    return pages


def _names(room: str) -> dict[str, str]:
    """The public names of a package and where they are defined; its modules if it lists no names."""
    package = import_module(f"precall.{room}")
    if hasattr(package, "__all__"):
        return {name: _home(package.__name__, name) for name in package.__all__}
    return {one.name: f"{package.__name__}.{one.name}" for one in iter_modules(package.__path__)}


def _on_a_page(home: str) -> bool:
    """Whether the page of a package has a name: it has what the package lists, or else all its modules."""
    room = home.split(".")[1]
    return not hasattr(import_module(f"precall.{room}"), "__all__") or home in _names(room).values()


def _home(package: str, name: str) -> str:
    """Where a public name is defined."""
    module = import_module(package)
    listed: Mapping[str, str] = getattr(module, "_MODULES", {})
    homes = {one: home for home, names in listed.items() for one in names.split()}
    if name in homes:
        return f"{package}.{homes[name]}.{name}"
    defined = str(getattr(getattr(module, name), "__module__", None))
    if defined.startswith("precall"):
        return f"{defined}.{name}"
    files = (f"{package}.{one.name}" for one in iter_modules(module.__path__))
    return next(f"{file}.{name}" for file in files if hasattr(import_module(file), name))


def _rows(package: str, names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Each name with a link, and its first sentence."""
    return [(f"[`{package}.{name}`][{home}]", _first(_value(home))) for name, home in names.items()]


def _value(home: str) -> Any:
    module, _, name = home.rpartition(".")
    found = import_module(module)
    return getattr(found, name) if hasattr(found, name) else import_module(home)


def _first(value: Any) -> str:
    said = str(value.__doc__).partition("\n")[0]
    return "" if type(value).__module__ == "builtins" and not hasattr(value, "__name__") else said.replace("|", "\\|")


def _entry(shown: str, home: str) -> str:
    """The directive for one public name, under the name by which it is imported."""
    return f"::: {home}\n    options:\n      heading: {shown}\n      toc_label: {shown.rpartition('.')[2]}"


def _table(what: str, rows: Iterable[tuple[str, str]]) -> str:
    return "\n".join([f"| {what} | what it is |", "|---|---|", *(f"| {name} | {said} |" for name, said in rows)])


def _joined(*parts: str) -> str:
    return "\n\n".join(parts) + "\n"
