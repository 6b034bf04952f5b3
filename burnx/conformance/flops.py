"""Floating-point operations of the operators where nearly all of them are; a multiply-add is two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import TypeAlias

from burnx.errors import ShapeError
from burnx.graph import Node, Value
from burnx.shape import evaluate
from burnx.types import TensorType

Sizes: TypeAlias = Mapping[str, int]
Sizer: TypeAlias = Callable[[Value | None], tuple[int, ...]]


class UnknownSize(Exception):
    """A size that is only known while the model runs."""


def count_flops(node: Node, sizes: Sizes) -> int | None:
    """The operations of a node, given the sizes of symbols; 0 for operators that are not counted.

    None if a shape it needs is not known.
    """
    count = _COUNTS.get(f"{node.domain}.{node.operator}" if node.domain else node.operator)
    if count is None:
        return 0

    def shape(value: Value | None) -> tuple[int, ...]:
        found = None if value is None else known_shape(value, sizes)
        if found is None:
            raise UnknownSize
        return found

    try:
        return count(node, shape)
    except (UnknownSize, IndexError):
        return None


def known_shape(value: Value, sizes: Sizes) -> tuple[int, ...] | None:
    """The shape of a tensor, given the sizes of symbols; None if it is not known."""
    if not isinstance(value.type, TensorType) or value.type.shape is None:
        return None
    try:
        return tuple(evaluate(dim, sizes) for dim in value.type.shape)
    except ShapeError:
        return None


def _matmul(node: Node, shape: Sizer) -> int:
    return 2 * prod(shape(node.outputs[0])) * shape(node.inputs[0])[-1]


def _gemm(node: Node, shape: Sizer) -> int:
    inner = shape(node.inputs[0])[0 if node.attributes.get("transA") else 1]
    return 2 * prod(shape(node.outputs[0])) * inner


def _conv(node: Node, shape: Sizer) -> int:
    return 2 * prod(shape(node.outputs[0])) * prod(shape(node.inputs[1])[1:])


def _quantized_conv(node: Node, shape: Sizer) -> int:
    return 2 * prod(shape(node.outputs[0])) * prod(shape(node.inputs[3])[1:])


def _conv_transpose(node: Node, shape: Sizer) -> int:
    return 2 * prod(shape(node.inputs[0])) * prod(shape(node.inputs[1])[1:])


def _recurrent(node: Node, shape: Sizer) -> int:
    """W (directions, gates * hidden, in) and R are applied to every step of every sequence."""
    first, second, *_ = shape(node.inputs[0])
    weights = prod(shape(node.inputs[1])) + prod(shape(node.inputs[2]))
    return 2 * first * second * weights


def _attention(node: Node, shape: Sizer) -> int:
    """Every query meets every key once for its score and once for its value."""
    past = node.inputs[4] if len(node.inputs) > 4 else None
    keys = shape(node.inputs[1])[-2] + (shape(past)[-2] if past is not None else 0)
    return 2 * keys * (prod(shape(node.inputs[0])) + prod(shape(node.outputs[0])))


_COUNTS: dict[str, Callable[[Node, Sizer], int]] = {
    "MatMul": _matmul,
    "MatMulInteger": _matmul,
    "QLinearMatMul": _matmul,
    "Gemm": _gemm,
    "burnx.Linear": _matmul,
    "Conv": _conv,
    "ConvInteger": _conv,
    "QLinearConv": _quantized_conv,
    "ConvTranspose": _conv_transpose,
    "RNN": _recurrent,
    "GRU": _recurrent,
    "LSTM": _recurrent,
    "Attention": _attention,
}
