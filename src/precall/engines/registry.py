"""All engines, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from precall.theory import checks

if TYPE_CHECKING:
    from precall.engines.engine import Engine

ENGINES = ("local", "ray")


def engine_named(name: str, *, ray_address: str | None = None, largest: int = 0) -> Engine:
    """The engine of this name.

    Args:
        name: "local" or "ray".
        ray_address: Address of a running Ray cluster, such as "auto"; None starts one on this machine. For "ray" only.
        largest: Size of the largest value that tasks share, in bytes.

    Example:
        >>> engine_named("local").width > 0
        True
    """
    checks.choice("engine", name, ENGINES)
    if name == "ray":
        from precall.engines.ray import RayEngine

        return RayEngine(ray_address, largest=largest)
    if ray_address is not None:
        raise ValueError("`ray_address` is for `engine='ray'`; got `engine='local'`. Leave it out.")
    from precall.engines.local import LocalEngine

    return LocalEngine()
