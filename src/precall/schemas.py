"""Schemas at the door: files of precall are validated as wholes before anything in them is used.

The schemas are JSON Schemas; this file reads the part of that language that they use.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from precall.printing import shown

TYPES: dict[str, type | tuple[type, ...]] = {
    "object": Mapping,
    "array": list,
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "null": type(None),
}
Schema = Mapping[str, Any]


def check(value: object, schema: Schema, place: str = "the file", root: Schema | None = None) -> None:
    """Refuse a JSON value that does not fit a schema; `root` has the `$defs` that it refers to.

    Known are `type`, `const`, `enum`, `anyOf`, `$ref`, limits of numbers and sizes, `pattern`, `properties`,
    `required`, `additionalProperties` and `items`.

    Example:
        >>> check({"k": 0}, {"type": "object", "properties": {"k": {"type": "integer", "minimum": 1}}}, "x.json")
        Traceback (most recent call last):
            ...
        ValueError: x.json: `k` must be at least 1; got 0.
    """
    if reason := _fault(value, schema, "", schema if root is None else root):
        raise ValueError(f"{place}: {reason}.")


@cache
def stored_schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(resources.files("precall").joinpath(name).read_text("utf-8"))
    return found


def _fault(value: Any, schema: Schema, at: str, root: Schema) -> str | None:
    if "$ref" in schema:
        return _fault(value, root["$defs"][schema["$ref"].rpartition("/")[2]], at, root)
    if "anyOf" in schema:
        faults = [_fault(value, one, at, root) for one in schema["anyOf"]]
        return None if None in faults else max(filter(None, faults), key=len)
    if "const" in schema or "enum" in schema:
        known = schema.get("enum", [schema.get("const")])
        fits = any(type(value) is type(one) and value == one for one in known)
        return None if fits else _must(at, f"be one of {', '.join(map(str, known))}", value)
    kinds = schema.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is(value, kind) for kind in kinds):
        return _must(at, f"be of type {' or '.join(kinds)}", value)
    if isinstance(value, Mapping):
        return _object_fault(value, schema, at, root)
    if isinstance(value, list):
        return _list_fault(value, schema, at, root)
    if isinstance(value, str) and "pattern" in schema and not re.fullmatch(schema["pattern"], value):
        return _must(at, f"match {schema['pattern']}", value)
    return _number_fault(value, schema, at) if _is(value, "number") else None


def _is(value: object, kind: str) -> bool:
    """Whether a value has a type of JSON: true is no number, and numbers are finite, also as floats."""
    if isinstance(value, bool) and kind != "boolean":
        return False
    if isinstance(value, int) and kind in ("number", "integer"):
        return abs(value) <= sys.float_info.max
    return isinstance(value, TYPES[kind]) and (not isinstance(value, float) or math.isfinite(value))


def _object_fault(value: Mapping[str, Any], schema: Schema, at: str, root: Schema) -> str | None:
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    if missing := [name for name in schema.get("required", ()) if name not in value]:
        return f"{_named(at)} lacks `{missing[0]}`"
    if len(value) < schema.get("minProperties", 0):
        return _must(at, f"have at least {schema['minProperties']} entries", value)
    for name, one in value.items():
        expected = known.get(name, others)
        if expected is False:
            return f"{_named(at)} has the unknown key `{shown(str(name)[:40])}`"
        if expected is not True and (fault := _fault(one, expected, f"{at}.{shown(str(name)[:40])}", root)):
            return fault
    return None


def _list_fault(value: list[Any], schema: Schema, at: str, root: Schema) -> str | None:
    least, most = schema.get("minItems", 0), schema.get("maxItems", len(value))
    if not least <= len(value) <= most:
        return _must(at, f"have {least} to {most} entries", value)
    expected = schema.get("items", {})
    faults = (_fault(one, expected, f"{at}.{place}", root) for place, one in enumerate(value))
    return next(filter(None, faults), None)


def _number_fault(value: float, schema: Schema, at: str) -> str | None:
    if value < schema.get("minimum", value):
        return _must(at, f"be at least {schema['minimum']}", value)
    if value > schema.get("maximum", value):
        return _must(at, f"be at most {schema['maximum']}", value)
    low, high = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if (low is not None and value <= low) or (high is not None and value >= high):
        return _must(at, f"lie between {low} and {high}", value)
    return None


def _must(at: str, what: str, value: object) -> str:
    got = f"{len(value)} entries" if isinstance(value, Mapping | list) else shown(repr(value)[:40])
    return f"{_named(at)} must {what}; got {got}"


def _named(at: str) -> str:
    return f"`{at[1:]}`" if at else "it"
