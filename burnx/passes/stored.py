"""Constants that are stored as bytes, and what is added to a quantized layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burnx.dtype import is_float, is_integer
from burnx.graph import Node, Value, constant_value
from burnx.passes.rewriting import Match

BIAS = 4  # its place among the inputs of quantized layers


@dataclass(frozen=True, slots=True)
class Stored:
    """A constant that is dequantized: its bytes, scale and zero point, and along which axis these are."""

    data: Value
    scale: Value
    zero_point: Value | None
    axis: int = 0
    block_size: int = 0
    is_scaled: bool = False

    @property
    def values(self) -> tuple[Value, Value, Value | None]:
        return self.data, self.scale, self.zero_point

    @property
    def shape(self) -> tuple[int, ...]:
        return shape_of(self.data)

    def fits(self, axis: int) -> bool:
        """Whether there is one scale, or one for each place along ``axis``."""
        if self.block_size or self.is_scaled:
            return False
        shape = shape_of(self.scale)
        return shape == () or (self.axis == axis and shape == (self.shape[axis],))


def shape_of(value: Value) -> tuple[int, ...]:
    assert value.array is not None
    return value.array.shape


def plain(value: Value) -> Value:
    """A constant of one element as a scalar: a scale or zero point of the whole, which means the same."""
    assert value.array is not None
    if value.array.size != 1 or value.array.ndim == 0:
        return value
    return constant_value(value.array.reshape(()), value.name)


def find_stored(match: Match, value: Value | None) -> Stored | None:
    """The constant behind a value, if it is one that was dequantized."""
    node = match.enter(value) if value is not None else None
    if node is None or node.domain:
        return None
    if node.operator == "Mul":
        return _cast_and_scaled(match, node)
    if node.operator != "DequantizeLinear" or not says_only(node, "axis", "block_size"):
        return None
    given = [*node.inputs, None][:3]
    data, scale, zero_point = given
    if data is None or data.array is None or scale is None or scale.array is None:
        return None
    if zero_point is not None and zero_point.array is None:
        return None
    axis, rank = int(node.attributes.get("axis", 1)), data.array.ndim
    block_size = int(node.attributes.get("block_size", 0))
    if not block_size:
        scale, zero_point = plain(scale), None if zero_point is None else plain(zero_point)
    if zero_point is not None and shape_of(zero_point) != shape_of(scale):
        return None
    place = axis % rank if rank and -rank <= axis < rank else 0
    return Stored(data, scale, zero_point, place, block_size)


def says_only(node: Node, *names: str) -> bool:
    return all(value == 0 or name in names for name, value in node.attributes.items())


def _cast_and_scaled(match: Match, node: Node) -> Stored | None:
    """A constant of bytes that is cast and multiplied by a scale for each of its rows or columns."""
    cast, scale = match.enter(node.inputs[0]) if node.inputs[0] else None, node.inputs[1]
    if cast is None or cast.operator != "Cast" or scale is None or scale.array is None:
        return None
    data = cast.inputs[0]
    if data is None or data.array is None or not is_integer(data.array.dtype):
        return None
    is_matrix = data.array.ndim == scale.array.ndim == 2 and 1 in scale.array.shape
    return Stored(data, scale, None, is_scaled=True) if is_matrix else None


def trimmed(values: Sequence[Value | None]) -> Sequence[Value | None]:
    end = len(values)
    while end and values[end - 1] is None:
        end -= 1
    return values[:end]


def find_addend(node: Node, match: Match, operator: str) -> tuple[Node, Value] | None:
    """A layer without a bias, and the bias that is added to what it gives."""
    for place in (0, 1):
        inner = match.inner(node.inputs[place], operator, "burnx")
        bias = node.inputs[1 - place]
        if inner is None or bias is None or bias.array is None or inner.inputs[1] is None:
            continue
        if bias.array.shape == shape_of(inner.inputs[1])[1:] and is_float(bias.array.dtype):
            return inner, bias
    return None
