"""What other packages add through entry points: encoders, metrics and sources of samples.

    [project.entry-points."precall.encoders"]
    mine = "my_package:make_encoder"

Nothing is imported before it is used. A plug-in that cannot be imported, or has the name of something that precall has,
costs a sentence and nothing else.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from precall.printing import shown


def plugins(group: str) -> dict[str, EntryPoint]:
    """The plug-ins of a group ("encoders", "metrics" or "sources") by name; the first of a name counts."""
    found: dict[str, EntryPoint] = {}
    for one in entry_points(group=f"precall.{group}"):
        found.setdefault(one.name, one)
    return found


def loaded(group: str, name: str) -> Any:
    """Import a plug-in.

    Raises:
        ValueError: One sentence, if there is none of this name or it cannot be imported.
    """
    one = plugins(group).get(name)
    if one is None:
        raise ValueError(f"there is no plug-in {name!r} in `precall.{group}`.")
    try:
        return one.load()
    except (Exception, SystemExit) as error:
        reason = shown(f"{type(error).__name__}: {error}")
        raise ValueError(f"the plug-in {name!r} ({shown(one.value)}) cannot be imported ({reason}).") from error


def listed(group: str, own: dict[str, str]) -> list[list[str]]:
    """Names with their descriptions: precall's own, and those of plug-ins with what is wrong with them."""
    rows = [[name, said] for name, said in own.items()]
    for name, one in plugins(group).items():
        try:
            said = "ignored: the name is taken" if name in own else (loaded(group, name).__doc__ or "").split("\n")[0]
        except ValueError as error:
            said = str(error)
        rows.append([name, f"{shown(one.value)}: {shown(said)}"])
    return rows
