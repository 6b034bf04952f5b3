"""Types of an operator's outputs: its body run on abstract values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from burnx.builder import Builder, Operators, closed
from burnx.graph import KNOWN_ELEMENTS, Node, Value
from burnx.ops.operator import Operator
from burnx.shape import symbol
from burnx.tensor import Array, Undetermined
from burnx.types import TensorType, Type


def infer_types(
    operators: Operators,
    operator: Operator,
    inputs: Sequence[Value | None],
    attributes: Mapping[str, Any],
    count: int | None,
    counter: Any,
) -> list[tuple[Type, Array | None]]:
    """The type of each output, and what is known of its value.

    The rank is left open where it depends on numbers that are only known while running.
    """
    builder = Builder(operators, open=True, counter=counter)
    operands = [None if value is None else builder.lookup(value) for value in inputs]
    try:
        with builder.ambient():
            results = operator.lower(builder, operands, attributes, count or 0)
    except Undetermined:
        found = _unknown(operator, inputs, attributes, count)
        return [(closed(kind, lambda: symbol(f"_{next(counter)}")), None) for kind in found]
    return [
        (tensor.type, tensor.ref.array if tensor.ref.array is not None else tensor.ref.known)
        for tensor in results
    ]


def infer_outputs(
    operators: Operators, operator: Operator, node: Node, wanted: int | None, counter: Any
) -> None:
    """Give a node its outputs, ``wanted`` of them or all."""
    inferred = infer_types(operators, operator, node.inputs, node.attributes, wanted, counter)
    for kind, known in inferred[:wanted]:
        value = Value(kind, producer=node)
        if known is not None and known.size <= KNOWN_ELEMENTS:
            value.known = known
        node.outputs.append(value)


def _unknown(
    operator: Operator,
    inputs: Sequence[Value | None],
    attributes: Mapping[str, Any],
    count: int | None,
) -> list[Type]:
    types: list[Type | None] = [None if value is None else value.type for value in inputs]
    wanted = count or operator.outputs_given
    if operator.type_rule is not None:
        return list(operator.type_rule(types, attributes, wanted))[:wanted]
    return [_or_float(operator.dtype_rule(types, place), types) for place in range(wanted)]


def _or_float(kind: Type | None, inputs: Sequence[Type | None]) -> Type:
    if kind is not None:
        return kind
    first = next((each for each in inputs if isinstance(each, TensorType)), None)
    if first is None:
        raise TypeError("an operator without inputs needs a type rule")
    return TensorType(first.dtype, None)
