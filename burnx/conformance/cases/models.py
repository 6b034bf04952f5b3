"""The model of a case, and the values of its inputs."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TypeProto, helper

from burnx.conformance.cases.collect import Case, Given, given_inputs, used_variables
from burnx.conformance.cases.recipe import FromTypes
from burnx.conformance.cases.schemas import Formal
from burnx.conformance.cases.type_text import type_proto, type_text
from burnx.conformance.cases.values import make_value
from burnx.errors import BurnxError

CAPTURED = "captured"
_NEWEST_IR = 13


def case_inputs(case: Case) -> dict[str, Any]:
    """The values of the model's inputs by name; the same in every run."""
    random = np.random.default_rng(zlib.crc32(case.name.encode()))
    return {name: make_value(kind, spec, random) for name, kind, spec in _graph_inputs(case)}


def case_model(case: Case) -> ModelProto:
    """A model of one node, at the last opset whose definition of the operator it is; the newest at its first.

    Raises: BurnxError where neither onnx nor the schema knows the type of an output.
    """
    values = case_inputs(case)
    inputs = [
        helper.make_value_info(name, type_proto(kind, _shape_of(values[name])))
        for name, kind, _ in _graph_inputs(case)
    ]
    opsets = [helper.make_opsetid(case.schema.domain, case.schema.until)]
    if case.schema.domain:
        opsets.append(helper.make_opsetid("", _default_opset(case)))
    outputs = [helper.make_empty_tensor_value_info(name) for name in _output_names(case)]
    graph = helper.make_graph([case_node(case)], case.name, inputs, outputs)
    model = helper.make_model(graph, opset_imports=opsets, producer_name="burnx")
    model.ir_version = _ir_version(opsets)
    return _with_output_types(case, model)


def case_node(case: Case) -> NodeProto:
    given = given_inputs(case.schema, case.recipe)
    attributes = {
        name: value.make(case.types, case.schema.until) if isinstance(value, FromTypes) else value
        for name, value in case.recipe.attributes.items()
        if name in case.schema.attributes
    }
    return helper.make_node(
        case.schema.op_type,
        ["" if item is None else item.name for item in given],
        _output_names(case),
        domain=case.schema.domain,
        **{name: value for name, value in attributes.items() if value is not None},
    )


def output_types(case: Case) -> list[tuple[str, str]]:
    """Each type variable that a case settles, with its type: those of its inputs, attributes and outputs."""
    found = {name: case.types[name] for name in used_variables(case.schema, case.recipe)}
    missing = [formal for formal in case.schema.outputs if formal.type in case.schema.variables]
    if all(formal.type in found for formal in missing):
        return list(found.items())
    model = case_model(case)
    for place, value in enumerate(model.graph.output):
        formal = _output_formal(case, place)
        if formal.type in case.schema.variables:
            found.setdefault(formal.type, type_text(value.type))
    return list(found.items())


def _shape_of(value: Any) -> tuple[int, ...] | None:
    """The shape of an array, and of the items of a sequence, which have one."""
    if isinstance(value, list):
        return _shape_of(value[0])
    return None if isinstance(value, dict) else np.shape(value)


def _graph_inputs(case: Case) -> Iterator[tuple[str, str, str]]:
    """(name, type, spec) of each input of the graph."""
    given: list[Given | None] = given_inputs(case.schema, case.recipe)
    for item in given:
        if item is not None:
            yield item.name, item.type_in(case.types), item.spec
    if case.recipe.captured:
        variable, spec = case.recipe.captured
        yield CAPTURED, case.types.get(variable, variable), spec


def _output_names(case: Case) -> list[str]:
    formals = case.schema.outputs
    required = sum(formal.required for formal in formals)
    count = case.recipe.outputs or max(1, required)
    if not (formals and formals[-1].variadic):
        count = min(count, len(formals))
    return [f"output_{number}" for number in range(count)]


def _with_output_types(case: Case, model: ModelProto) -> ModelProto:
    """The model with the types of its outputs: those that the inputs settle, else what onnx infers, else the schema's."""
    try:
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
        found = {value.name: value.type for value in inferred.graph.output}
    except Exception:  # what it refuses is for the engines to refuse as well
        found = {}
    settled = used_variables(case.schema, case.recipe)
    for place, value in enumerate(model.graph.output):
        kind = found.get(value.name, TypeProto())
        formal = _output_formal(case, place)
        if _is_known(kind) and (formal.variadic or formal.type not in settled):
            value.type.CopyFrom(kind)
            continue
        value.type.CopyFrom(_schema_type(case, formal))
        if kind.HasField("tensor_type") and value.type.HasField("tensor_type"):
            value.type.tensor_type.shape.CopyFrom(kind.tensor_type.shape)
    return model


def _is_known(kind: TypeProto) -> bool:
    word = kind.WhichOneof("value")
    return word is not None and (word != "tensor_type" or kind.tensor_type.elem_type != 0)


def _output_formal(case: Case, place: int) -> Formal:
    return case.schema.outputs[min(place, len(case.schema.outputs) - 1)]


def _schema_type(case: Case, formal: Formal) -> TypeProto:
    kind = case.types.get(formal.type, formal.type)
    if "(" not in kind:
        raise BurnxError(f"a type variable has a type: {kind}, output {formal.name} of {case.name}")
    return type_proto(kind)


def _default_opset(case: Case) -> int:
    return {"ai.onnx.ml": 18, "com.microsoft": 18}.get(case.schema.domain, 21)


def _ir_version(opsets: list[onnx.OperatorSetIdProto]) -> int:
    """The oldest IR version that has these opsets."""
    own = [opset for opset in opsets if opset.domain in ("", "ai.onnx.ml")]
    try:
        return int(helper.find_min_ir_version_for(own, ignore_unknown=True))
    except ValueError:
        return _NEWEST_IR
