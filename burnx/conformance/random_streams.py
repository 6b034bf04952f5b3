"""Which tests expect the values of NumPy's own random stream; the standard does not fix these."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from onnx import NodeProto

from burnx.conformance.backend_tests import BackendTest, Value, input_names

_NODE = "NumPy's random stream, which the standard does not fix"


def random_stream_reason(test: BackendTest) -> str | None:
    """Why a test's expected values cannot be computed from its model, or None if they can."""
    if test.kind != "node":
        return None
    model = test.load_model()
    data = test.load_data(model)
    inputs = dict(zip(input_names(model), data[0].inputs, strict=True))
    drawn = [node.op_type for node in model.graph.node if _draws(node, inputs)]
    return f"expects values that {drawn[0]} drew from {_NODE}" if drawn else None


def _draws(node: NodeProto, inputs: Mapping[str, Value]) -> bool:
    return node.op_type in _RANDOM and _RANDOM[node.op_type](node, inputs)


def _always(node: NodeProto, inputs: Mapping[str, Value]) -> bool:
    return True


def _drops_elements(node: NodeProto, inputs: Mapping[str, Value]) -> bool:
    """Dropout draws only in training mode and with a ratio other than 0."""
    ratio, training = (_input(node, inputs, 1, 0.5), _input(node, inputs, 2, False))
    return bool(np.all(training)) and bool(np.any(np.asarray(ratio) != 0))


def _input(node: NodeProto, inputs: Mapping[str, Value], position: int, default: Value) -> Value:
    name = node.input[position] if position < len(node.input) else ""
    return inputs.get(name, default)


_RANDOM: dict[str, Callable[[NodeProto, Mapping[str, Value]], bool]] = {
    "Bernoulli": _always,
    "Dropout": _drops_elements,
    "Multinomial": _always,
    "RandomNormal": _always,
    "RandomNormalLike": _always,
    "RandomUniform": _always,
    "RandomUniformLike": _always,
}
