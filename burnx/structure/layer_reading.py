"""What a rule for layers looks at, and what it makes of that: a layer and the numbers of its constructor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from burnx.dtype import dtype_name, float32
from burnx.graph import Node, Value
from burnx.types import TensorType


@dataclass(frozen=True, slots=True)
class Layer:
    """A constructor call, the constants its parameters are, and the inputs of its call.

    ``outputs`` is the number asked for, where that is not what a plain call gives; ``word`` what the layer is called
    among others of its scope, where that scope is no module that it alone makes up.
    """

    kind: str
    args: tuple[Any, ...]
    options: dict[str, Any]
    fields: dict[str, Value]
    inputs: tuple[Value | None, ...]
    outputs: int | None = None
    word: str = ""


@dataclass(slots=True)
class Reader:
    """What a rule looks at: the node, and its attributes as they are taken."""

    node: Node
    rest: dict[str, Any] = field(default_factory=dict)

    def take(self, name: str, default: Any) -> Any:
        return self.rest.pop(name, default)

    def constant(self, place: int) -> Value | None:
        """The constant at an input, None if it is left out; a KeyError if it is a run-time value."""
        if place >= len(self.node.inputs) or self.node.inputs[place] is None:
            return None
        value = self.node.inputs[place]
        assert value is not None
        if not value.is_constant:
            raise KeyError(place)
        return value


def shape_of(value: Value) -> tuple[int, ...]:
    assert value.array is not None
    return tuple(value.array.shape)


def dtype_option(value: Value) -> dict[str, Any]:
    assert isinstance(value.type, TensorType)
    return {} if value.type.dtype == float32 else {"dtype": dtype_name(value.type.dtype)}


def weights_of(reader: Reader, names: dict[str, int]) -> dict[str, Value]:
    found = {name: reader.constant(place) for name, place in names.items()}
    return {name: value for name, value in found.items() if value is not None}


def short(values: list[int], default: int) -> Any:
    """One number where all are the same, None where that is the default."""
    if all(value == values[0] for value in values):
        return None if values[0] == default else values[0]
    return list(values)


def spatial(reader: Reader, axes: int) -> dict[str, Any] | None:
    """stride, padding, dilation and groups of a convolution, those that are not the default."""
    auto = reader.take("auto_pad", "NOTSET")
    pads = list(reader.take("pads", [0] * 2 * axes))
    options: dict[str, Any] = {"stride": short(list(reader.take("strides", [1] * axes)), 1)}
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        options["padding"] = auto.lower()
    elif auto == "VALID" or not any(pads):
        options["padding"] = None
    elif pads[:axes] == pads[axes:]:
        options["padding"] = short(pads[:axes], 0)
    else:
        options["padding"] = pads
    options["dilation"] = short(list(reader.take("dilations", [1] * axes)), 1)
    group = reader.take("group", 1)
    options["groups"] = None if group == 1 else group
    return {name: value for name, value in options.items() if value is not None}


def kernel_of(reader: Reader, weight: Value) -> Any:
    kernel = list(shape_of(weight)[2:])
    if list(reader.take("kernel_shape", kernel)) != kernel:
        raise KeyError("kernel_shape")
    return kernel[0] if len(set(kernel)) == 1 else kernel


Rule = Callable[[Reader], Layer | None]


def dtype_of(value: Value) -> str:
    assert isinstance(value.type, TensorType)
    return dtype_name(value.type.dtype)


def unless(name: str, value: Any, default: Any) -> dict[str, Any]:
    """An option, where it is not the default."""
    return {} if value == default else {name: value}


def has_shapes(fields: Mapping[str, Value], shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether each field that is there has the shape its layer gives it."""
    return all(shape_of(fields[name]) == shape for name, shape in shapes.items() if name in fields)
