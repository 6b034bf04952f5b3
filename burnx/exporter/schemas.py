"""What the installed ONNX knows of operators, version by version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import onnx.defs
from onnx import helper


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """One input or output of a schema: the types it may have; all of one ``variable`` have the same."""

    name: str
    types: frozenset[str]
    optional: bool
    variadic: bool
    variable: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """An operator as of some opset; ``kinds`` are the kinds of its attributes, ``defaults`` those that have one."""

    since: int
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    counts: tuple[int, int, int, int]
    kinds: Mapping[str, int]
    defaults: Mapping[str, Any]


@lru_cache(maxsize=8192)
def schema(domain: str, operator: str, opset: int) -> Schema | None:
    """The schema that holds at an opset, None where there is none or it is deprecated."""
    try:
        found = onnx.defs.get_schema(operator, opset, domain)
    except onnx.defs.SchemaError:
        return None
    if found.deprecated:
        return None
    attributes = found.attributes
    return Schema(
        found.since_version,
        tuple(map(_slot, found.inputs)),
        tuple(map(_slot, found.outputs)),
        (found.min_input, found.max_input, found.min_output, found.max_output),
        {name: _kind(each.type) for name, each in attributes.items()},
        {
            name: helper.get_attribute_value(each.default_value)
            for name, each in attributes.items()
            if each.default_value.type
        },
    )


def _kind(kind: Any) -> int:
    """The number of a kind of attribute, as AttributeProto has it."""
    return int(getattr(kind, "value", kind))


def _slot(parameter: Any) -> Slot:
    option = parameter.option
    kinds = onnx.defs.OpSchema.FormalParameterOption
    return Slot(
        parameter.name,
        frozenset(parameter.types),
        option == kinds.Optional,
        option == kinds.Variadic,
        parameter.type_str if parameter.is_homogeneous else "",
    )


@lru_cache(maxsize=64)
def newest_version(domain: str) -> int:
    """The newest opset of a domain that the installed ONNX knows; 0 where it knows none."""
    if not domain:
        return int(onnx.defs.onnx_opset_version())
    return max(
        (
            each.since_version
            for each in onnx.defs.get_all_schemas_with_history()
            if each.domain == domain
        ),
        default=0,
    )


def slot_of(slots: tuple[Slot, ...], place: int) -> Slot | None:
    """The slot of an input or output; the last one may be repeated."""
    if place < len(slots):
        return slots[place]
    return slots[-1] if slots and slots[-1].variadic else None
