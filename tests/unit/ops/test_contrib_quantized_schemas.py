"""Signatures of the operators of com.microsoft against the schemas that onnxruntime registers."""

from __future__ import annotations

from typing import Any

import onnx
import pytest

from burnx.ops import table
from burnx.ops.operator import REQUIRED, Operator

OURS = ("burnx.ops.contrib_quantized", "burnx.ops.contrib_experts", "burnx.ops.contrib_padding")
OPERATORS = {
    name: entry
    for (domain, name), entry in table().items()
    if domain == "com.microsoft" and entry.function.__module__.startswith(OURS)
}


@pytest.fixture(scope="module")
def schemas() -> dict[str, Any]:
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    return {each.name: each for each in get_all_operator_schema() if each.domain == "com.microsoft"}


def default_of(attribute: Any) -> Any:
    """What an attribute is when it is not given; None if the schema does not say."""
    if attribute.required:
        return REQUIRED
    stored = onnx.AttributeProto()
    stored.ParseFromString(attribute._default_value)
    if not stored.name:
        return None
    value = onnx.helper.get_attribute_value(stored)
    return value.decode() if isinstance(value, bytes) else value


def shape_of(parameters: Any) -> list[tuple[bool, bool]]:
    return [(each.optional, each.variadic) for each in parameters]


@pytest.mark.parametrize("name", OPERATORS)
def test_a_signature_is_the_schema(name: str, schemas: dict[str, Any]) -> None:
    entry: Operator = OPERATORS[name]
    schema = schemas[name]
    wanted = {each: default_of(value) for each, value in schema.attributes.items()}
    # a default without a value in the schema is that of onnxruntime's kernels
    stated = {
        each: value
        for each, value in entry.attributes.items()
        if wanted.get(each, REQUIRED) is not None
    }
    assert set(entry.attributes) == set(wanted)
    assert {k: v for k, v in wanted.items() if v is not None} == pytest.approx(stated)
    options = [str(each.option).rpartition(".")[2] for each in schema.inputs]
    given = [
        "Optional" if p.optional else "Variadic" if p.variadic else "Single" for p in entry.inputs
    ]
    assert len(given) == len(options)
    for place, (found, option) in enumerate(zip(given, options, strict=True)):
        # an input before a required one may be left out there as well: QLinearAdd's zero points
        assert found == option, f"input {place}"
    assert len(entry.outputs) == len(schema.outputs)


@pytest.mark.parametrize("name", OPERATORS)
def test_what_shares_a_type_in_the_schema_shares_one_here(
    name: str, schemas: dict[str, Any]
) -> None:
    entry, schema = OPERATORS[name], schemas[name]
    for left, a in zip(entry.inputs, schema.inputs, strict=True):
        for right, b in zip(entry.inputs, schema.inputs, strict=True):
            if left.variable == right.variable:
                assert a.typeStr == b.typeStr, f"{left.name} and {right.name}"
