"""Where a test stands in the matrix of operators: the version of its operator and the dtype it is about."""

from __future__ import annotations

from functools import cache

import onnx.defs

from burnx.conformance.backend_tests import BackendTest
from burnx.dtype import dtype_name, dtype_of_code


def place_of(test: BackendTest) -> tuple[int, str]:
    """The version and dtype; 0 and an empty text where a test is about no single operator."""
    if test.version:
        return test.version, test.dtype
    if test.operator.startswith("("):
        return 0, ""
    return _backend_place(test)


@cache
def _backend_place(test: BackendTest) -> tuple[int, str]:
    """The version in force at the model's opset, and the element type of the first input (or output)."""
    model = test.load_model()
    domain, _, name = test.operator.rpartition(".")
    own = (domain,) if domain else ("", "ai.onnx")
    version = next((opset.version for opset in model.opset_import if opset.domain in own), 0)
    try:
        since = onnx.defs.get_schema(name, version, domain).since_version
    except onnx.defs.SchemaError:
        since = 0
    kinds = [value.type for value in (*model.graph.input, *model.graph.output)]
    return since, next((dtype for kind in kinds if (dtype := _element(kind))), "")


def _element(kind: onnx.TypeProto) -> str:
    """The dtype at the bottom of a type."""
    word = kind.WhichOneof("value")
    if word in ("sequence_type", "optional_type"):
        return _element(getattr(kind, word).elem_type)
    code = kind.tensor_type.elem_type
    return dtype_name(dtype_of_code(code)) if code else ""
