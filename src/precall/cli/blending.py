"""`precall improve --blend`: the best mixture of several models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from precall.cli.console import command_line, emit, note
from precall.cli.options import flag, wrong
from precall.files import write_atomically

if TYPE_CHECKING:
    from precall.cli.improve import ImproveOptions

NOT_HERE = ("plan", "target", "surplus", "size", "at_recall", "centrality", "copy", "link")


def run_blend(options: ImproveOptions) -> None:
    """Print the best blend, or write it as JSON."""
    from precall.improve.blending import blend

    models = dict(_named(given) for given in options.fake)
    if len(models) < max(2, len(options.fake)):
        raise wrong("--blend", "give two models or more with different names, as in --fake a=one.npy --fake b=two.npy")
    if given := [flag(name) for name in NOT_HERE if getattr(options, name) not in (None, False)]:
        raise wrong("--blend", f"remove {' and '.join(given)}; a blend takes --lam, --budget, --cost, --min-precision")
    if options.out is not None and options.out.suffix.lower() != ".json":
        raise wrong("--out", f"a blend is written as .json; got {options.out}")
    options.check(options.real, *models.values())
    found = blend(
        real=options.opened(options.real),
        fakes={name: options.opened(path) for name, path in models.items()},
        lam=1.0 if options.lam is None else options.lam,
        budget=options.budget,
        costs=_costs(options.cost) if options.cost else None,
        precision_at_least=options.min_precision,
        encoder=options.encoder,
        seed=options.seed,
        device=options.device,
    )
    saved = json.dumps(found.to_dict() | {"command": command_line()}, indent=1)
    if options.out is not None:
        write_atomically(options.out, (saved + "\n").encode())
        note(f"written: {options.out}")
    emit(saved if options.as_json else repr(found))


def _named(given: str) -> tuple[str, str]:
    """Name and path of a model; its name is that of the file unless one is given."""
    name, equals, path = given.partition("=")
    return (name, path) if equals and name and "/" not in name else (Path(given).stem, given)


def _costs(given: list[str]) -> dict[str, float]:
    pairs = (one.partition("=")[::2] for one in given)
    try:
        return {name: float(cost) for name, cost in pairs}
    except ValueError:
        raise wrong("--cost", f"expected NAME=NUMBER, as in --cost a=2; got {', '.join(given)}") from None
