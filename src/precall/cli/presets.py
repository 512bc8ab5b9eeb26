"""`precall presets`: the protocols of published evaluations."""

from __future__ import annotations

from precall.cli.console import emit
from precall.printing import wrapped


def presets() -> None:
    """List the protocols of published evaluations, with every choice that they make.

    Examples:

    \b
      precall presets
      precall assess --real real.npy --fake fake.npy --preset prdc
    """
    from precall.metrics.protocols.presets import PRESETS

    emit("\n\n".join("\n".join(described(one.to_dict())) for one in PRESETS.values()))


def described(preset: dict[str, object]) -> list[str]:
    """The lines about a preset: its name and source, then one line per choice."""
    first = f"{preset['name']}: {preset['source']}"
    rest = {key: value for key, value in preset.items() if key not in ("name", "source") and value not in ("", [])}
    lines = list(wrapped(first))
    for key, value in rest.items():
        head, *more = wrapped(_shown(value), indent=" " * 17)
        lines += [f"  {key.replace('_', ' '):<14} {head.lstrip()}", *more]
    return lines


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if value is None:
        return "all samples"
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)
