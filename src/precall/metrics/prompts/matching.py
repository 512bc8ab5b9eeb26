"""Which samples of two sides answer the same prompts, and the features of these prompts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from precall.metrics.classifiers.folds import FEWEST
from precall.metrics.inputs.features import as_features
from precall.metrics.inputs.records import row_keys
from precall.metrics.inputs.sides import Prompted, Side
from precall.theory.arrays import Array, Index, is_tensor, to_numpy

NAMED = 20  # prompts of one side only that the protocol names
RARE = 0.1  # share of the prompts that may be left out because they have too few samples

Encode = Callable[[Sequence[str]], Array]


@dataclass(frozen=True, eq=False)
class Given:
    """The prompts of one side as they were passed."""

    keys: Sequence[Hashable]  # what identifies the prompt of each sample
    kind: str  # "texts", "ids" or "features"
    values: Array | None = None  # the features, shape (n, d); None for texts and ids

    @classmethod
    def of(cls, name: str, prompts: object, side: Side) -> Given:
        """Check the prompts of a side: texts, ids, or a matrix of features, one per sample."""
        numbers = is_tensor(prompts) or (isinstance(prompts, np.ndarray) and prompts.dtype.kind not in "OUS")
        if not numbers and (isinstance(prompts, str | bytes) or not hasattr(prompts, "__iter__")):
            raise ValueError(f"`prompts[{name!r}]` must hold one prompt per sample; got {type(prompts).__name__}.")
        values = side.of_rows(prompts if numbers else np.array(list(prompts), dtype=object))  # type: ignore[call-overload]
        if len(values) != len(side.features):
            got = f"got {len(values)} for {len(side.features)} samples"
            raise ValueError(f"`prompts[{name!r}]` must hold one prompt per sample; {got}.")
        if values.ndim == 2:
            matrix = to_numpy(as_features(f"prompts[{name!r}]", values, at_least=1)).astype(np.float64)
            return cls(row_keys(matrix), "features", matrix)
        if all(isinstance(one, str) for one in values):
            return cls(list(values), "texts")
        if all(isinstance(one, Integral | np.bool_ | bytes) for one in values):
            return cls([one if isinstance(one, bytes) else int(one) for one in values], "ids")
        raise ValueError(f"`prompts[{name!r}]` must hold texts, whole numbers, or rows of features.")


def matched(
    real: Side, fake: Side, prompts: Mapping[str, Any], *, encode: Encode, seed: int, notes: Sequence[str] = ()
) -> tuple[Side, Side]:
    """The samples of both sides that answer common prompts, with these prompts.

    Every prompt must have the same weight on both sides. Of each prompt as many samples are kept as its number of
    references and of answers allow, in a proportion that nine of ten prompts reach; which ones is random.
    `notes` are sentences about the prompts, to which `encode` adds.
    """
    sides = {"real": real, "fake": fake}
    if set(prompts) != set(sides):
        raise ValueError(f"`prompts` must map 'real' and 'fake' to prompts; got {', '.join(map(repr, prompts))}.")
    given = {name: Given.of(name, prompts[name], side) for name, side in sides.items()}
    if given["real"].kind != given["fake"].kind:
        kinds = f"{given['real'].kind} for `real` and {given['fake'].kind} for `fake`"
        raise ValueError(f"`prompts` must be of one kind on both sides; got {kinds}.")
    answered = set(given["fake"].keys)
    common = [key for key in dict.fromkeys(given["real"].keys) if key in answered]
    if not common:
        raise ValueError("`prompts` must name prompts that both sides answer; no prompt of `real` is one of `fake`.")
    place = {key: i for i, key in enumerate(common)}
    all_numbers = {name: np.array([place.get(key, -1) for key in one.keys]) for name, one in given.items()}
    kept, each = _kept(all_numbers, len(common), seed)
    alive = np.unique(all_numbers["real"][kept["real"]])
    if not len(alive):
        raise ValueError("`prompts` must name prompts that both sides answer about equally often; none is left.")
    texts = [_shown(given["real"].kind, common[i], i) for i in alive.tolist()]
    number = {name: np.searchsorted(alive, one[kept[name]]) for name, one in all_numbers.items()}
    features, drawn = dict[str, Array | None].fromkeys(sides), len(alive) >= FEWEST
    if not drawn:  # few prompts, like classes: a column for each
        features |= {name: np.eye(len(texts))[one] for name, one in number.items()}
    elif given["real"].kind == "features":
        features |= {name: one.values[kept[name]] for name, one in given.items() if one.values is not None}
    elif given["real"].kind == "texts":
        encoded = encode(texts)
        features |= {name: encoded[one] for name, one in number.items()}
    about: dict[str, Any] = {"number": len(alive), "kind": given["real"].kind, "unit": "prompt" if drawn else "sample"}
    about |= {"per_prompt": each, "too_few_samples": len(common) - len(alive), **({"notes": [*notes]} if notes else {})}
    for name, one in given.items():
        only = list(dict.fromkeys(key for key in one.keys if key not in place))
        about[f"only_{name}"] = [_shown(one.kind, key, i) for i, key in enumerate(only[:NAMED])]
        about[f"left_out_{name}"] = {"prompts": len(only), "samples": len(one.keys) - len(kept[name])}
    found = [
        replace(side.taking(kept[name]), prompted=Prompted(number[name], texts, features[name], drawn, about))
        for name, side in sides.items()
    ]
    return found[0], found[1]


def _kept(number: Mapping[str, Index], prompts: int, seed: int) -> tuple[dict[str, Index], dict[str, int]]:
    """The rows of each side to keep, and how many references go with how many answers."""
    count = {name: np.bincount(one[one >= 0], minlength=prompts) for name, one in number.items()}
    each = {  # references per answer, and answers per reference
        name: max(1, int(np.quantile(count[name] / count[other], RARE, method="higher")))
        for name, other in (("real", "fake"), ("fake", "real"))
    }
    units = np.minimum(count["real"] // each["real"], count["fake"] // each["fake"])
    rng, kept = np.random.default_rng(seed), {}
    for name, one in number.items():
        order = rng.permutation(len(one))
        order = order[np.argsort(one[order], kind="stable")]
        order = order[one[order] >= 0]
        start = np.cumsum(count[name]) - count[name]
        rank = np.arange(len(order)) - start[one[order]]
        kept[name] = np.sort(order[rank < (units * each[name])[one[order]]])
    return kept, each


def _shown(kind: str, key: Hashable, i: int) -> str:
    if kind == "features":
        return f"prompt {i}"
    return key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key)
