"""The schemas that cases are generated from, in one form for those of onnx and of onnxruntime."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import onnx.defs

from burnx.ops import table

_RUNTIME_OPSET = 18
"""The opset of models of operators that only onnxruntime has in the default domain."""
DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")


@dataclass(frozen=True, slots=True)
class Formal:
    """An input or output of a schema; ``type`` is a type variable or a type text."""

    name: str
    type: str
    required: bool
    variadic: bool


@dataclass(frozen=True, slots=True)
class Schema:
    """One version of an operator; it is in force from opset ``since`` to ``until``."""

    domain: str
    op_type: str
    since: int
    until: int
    inputs: tuple[Formal, ...]
    outputs: tuple[Formal, ...]
    attributes: frozenset[str]
    variables: Mapping[str, tuple[str, ...]]
    """The types that each type variable may stand for."""

    @property
    def operator(self) -> str:
        return f"{self.domain}.{self.op_type}" if self.domain else self.op_type


@cache
def all_schemas() -> tuple[Schema, ...]:
    """Every version of every operator that is not deprecated, and burnx's operators that only onnxruntime defines."""
    found = list(_onnx_schemas())
    known = {(schema.domain, schema.op_type) for schema in found}
    found += [
        schema for schema in _runtime_schemas() if (schema.domain, schema.op_type) not in known
    ]
    return tuple(sorted(found, key=lambda schema: (schema.operator.lower(), schema.since)))


def _onnx_schemas() -> Iterator[Schema]:
    history: dict[tuple[str, str], list[Any]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain in DOMAINS:
            history.setdefault((schema.domain, schema.name), []).append(schema)
    for versions in history.values():
        versions.sort(key=lambda schema: schema.since_version)
        ends = [later.since_version - 1 for later in versions[1:]] + [0]
        for schema, end in zip(versions, ends, strict=True):
            if not schema.deprecated:
                yield _read_schema(schema, end or schema.since_version, "type_str")


def _runtime_schemas() -> Iterator[Schema]:
    """onnxruntime's schemas of the operators that burnx has."""
    if importlib.util.find_spec("onnxruntime") is None:
        return
    state = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    for schema in state.get_all_operator_schema():
        if (schema.domain, schema.name) in table():
            newest = schema.since_version if schema.domain else _RUNTIME_OPSET
            yield _read_schema(schema, newest, "typeStr")


def _read_schema(schema: Any, until: int, type_field: str) -> Schema:
    def formal(item: Any) -> Formal:
        option = str(item.option).rpartition(".")[2]
        kind = getattr(item, type_field)
        return Formal(item.name, kind, option != "Optional", option == "Variadic")

    return Schema(
        schema.domain,
        schema.name,
        schema.since_version,
        until,
        tuple(map(formal, schema.inputs)),
        tuple(map(formal, schema.outputs)),
        frozenset(schema.attributes),
        {
            constraint.type_param_str: tuple(constraint.allowed_type_strs)
            for constraint in schema.type_constraints
        },
    )
