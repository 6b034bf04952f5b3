"""Types of the inputs of bodies: what an operator gives the graphs in its attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from burnx.builder import join_types
from burnx.errors import ModelError
from burnx.graph import Graph
from burnx.ops.attending import flex_bodies
from burnx.ops.movement import normal_axis
from burnx.types import TensorType, Type

Kinds = list[Type]
Parameters = Callable[[Sequence[Type | None], Sequence[Any], Mapping[str, Any]], Kinds]
Widen = Callable[[Kinds, Graph, Mapping[str, Any]], Kinds]


def _declared_only(
    types: Sequence[Type | None], inputs: Sequence[Any], attributes: Mapping[str, Any]
) -> Kinds:
    if any(kind is None for kind in types):
        raise ModelError("the inputs of a subgraph need types")
    return [kind for kind in types if kind is not None]


def _loop_parameters(
    types: Sequence[Type | None], inputs: Sequence[Any], attributes: Mapping[str, Any]
) -> Kinds:
    state = [item.ref.type for item in inputs[2:] if item is not None]
    if len(types) != len(state) + 2:
        raise ModelError(f"the body of this Loop takes {len(types)} inputs, not {len(state) + 2}")
    return [TensorType(np.dtype(np.int64), ()), TensorType(np.dtype(np.bool_), ()), *state]


def _scan_parameters(
    types: Sequence[Type | None], inputs: Sequence[Any], attributes: Mapping[str, Any]
) -> Kinds:
    count = _states(inputs, attributes)
    scanned = len(inputs) - count
    axes = attributes.get("scan_input_axes") or [0] * scanned
    if len(axes) != scanned:
        raise ModelError(f"scan_input_axes has an axis for each of {scanned} inputs, not {axes}")
    kinds: Kinds = [item.ref.type for item in inputs[:count]]
    for item, axis in zip(inputs[count:], axes, strict=True):
        kind = item.ref.type
        if kind.shape is not None:
            place = normal_axis(axis, len(kind.shape))
            kind = TensorType(kind.dtype, (*kind.shape[:place], *kind.shape[place + 1 :]))
        kinds.append(kind)
    return kinds


def _states(inputs: Sequence[Any], attributes: Mapping[str, Any]) -> int:
    """How many of the inputs of a Scan are states, which the others are scanned with."""
    scanned = int(attributes.get("num_scan_inputs", 0))
    if any(item is None for item in inputs):
        raise ModelError("Scan takes states and scanned inputs, none of which is left out")
    if not 1 <= scanned <= len(inputs):
        raise ModelError(f"num_scan_inputs is from 1 to {len(inputs)}, not {scanned}")
    return len(inputs) - scanned


def _batched_scan_parameters(
    types: Sequence[Type | None], inputs: Sequence[Any], attributes: Mapping[str, Any]
) -> Kinds:
    """Before opset 9: a batch axis, then that of time, behind the lengths of the sequences."""
    values = inputs[1:]
    count = _states(values, attributes)
    return [
        _without_axes(item.ref.type, 1 if place < count else 2) for place, item in enumerate(values)
    ]


def _without_axes(kind: Type, count: int) -> Type:
    if not isinstance(kind, TensorType) or kind.shape is None:
        return kind
    return TensorType(kind.dtype, kind.shape[count:])


def _flex_parameters(
    types: Sequence[Type | None], inputs: Sequence[Any], attributes: Mapping[str, Any]
) -> Kinds:
    return flex_bodies([None if item is None else item.ref.type for item in inputs], attributes)


def _keep(kinds: Kinds, graph: Graph, attributes: Mapping[str, Any]) -> Kinds:
    return kinds


def _joined(kinds: Kinds, results: Sequence[Type]) -> Kinds:
    return [join_types(a, b) for a, b in zip(kinds, results, strict=False)]


def _widen_loop(kinds: Kinds, graph: Graph, attributes: Mapping[str, Any]) -> Kinds:
    return [
        *kinds[:2],
        *_joined(kinds[2:], [value.type for value in graph.outputs[1 : len(kinds) - 1]]),
    ]


def _widen_scan(kinds: Kinds, graph: Graph, attributes: Mapping[str, Any]) -> Kinds:
    count = len(kinds) - int(attributes.get("num_scan_inputs", 0))
    return [
        *_joined(kinds[:count], [value.type for value in graph.outputs[:count]]),
        *kinds[count:],
    ]


_PARAMETERS: dict[str, Parameters] = {
    "Loop": _loop_parameters,
    "Scan": _scan_parameters,
    "Scan-8": _batched_scan_parameters,
    "FlexAttention": _flex_parameters,
}
_WIDEN: dict[str, Widen] = {
    "Loop": _widen_loop,
    "Scan": _widen_scan,
    "Scan-8": _widen_scan,
}


def parameter_types(
    op_type: str,
    declared: Sequence[Type | None],
    inputs: Sequence[Any],
    attributes: Mapping[str, Any],
) -> Kinds:
    """What the body of an operator with these inputs is given."""
    return _PARAMETERS.get(op_type, _declared_only)(declared, inputs, attributes)


def widened(op_type: str, kinds: Kinds, graph: Graph, attributes: Mapping[str, Any]) -> Kinds:
    """The types ``kinds`` of a body, so that they cover what one turn makes of them."""
    return _WIDEN.get(op_type, _keep)(kinds, graph, attributes)
