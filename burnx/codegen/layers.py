"""Nodes that are layers: which class of ``burnx.nn`` a node with constant weights is, and with which arguments.

A layer is recognised only where its ``forward`` records the same operator with the same attributes again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from burnx.dtype import dtype_name, float32, is_float
from burnx.graph import Node, Value
from burnx.ops import find
from burnx.types import TensorType


@dataclass(frozen=True, slots=True)
class Layer:
    """A constructor call, the constants its parameters are, and the inputs of its call.

    ``outputs`` is the number asked for, where that is not what a plain call gives.
    """

    kind: str
    args: tuple[Any, ...]
    options: dict[str, Any]
    fields: dict[str, Value]
    inputs: tuple[Value | None, ...]
    outputs: int | None = None


@dataclass(slots=True)
class _Reader:
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


def find_layer(node: Node) -> Layer | None:
    """The layer that a node is, if it is one."""
    rule = _RULES.get((node.domain, node.operator))
    if rule is None or not node.inputs or node.inputs[0] is None:
        return None
    defaults = find(node.domain, node.operator).attributes
    given = node.attributes.items()
    reader = _Reader(node, {name: value for name, value in given if value != defaults.get(name)})
    try:
        layer = rule(reader)
    except KeyError:
        return None
    return layer if not reader.rest and layer is not None else None


def _shape(value: Value) -> tuple[int, ...]:
    assert value.array is not None
    return tuple(value.array.shape)


def _dtype(value: Value) -> dict[str, Any]:
    assert isinstance(value.type, TensorType)
    return {} if value.type.dtype == float32 else {"dtype": dtype_name(value.type.dtype)}


def _weights(reader: _Reader, names: dict[str, int]) -> dict[str, Value]:
    found = {name: reader.constant(place) for name, place in names.items()}
    return {name: value for name, value in found.items() if value is not None}


def _short(values: list[int], default: int) -> Any:
    """One number where all are the same, None where that is the default."""
    if all(value == values[0] for value in values):
        return None if values[0] == default else values[0]
    return list(values)


def _spatial(reader: _Reader, axes: int) -> dict[str, Any] | None:
    """stride, padding, dilation and groups of a convolution, those that are not the default."""
    auto = reader.take("auto_pad", "NOTSET")
    pads = list(reader.take("pads", [0] * 2 * axes))
    options: dict[str, Any] = {"stride": _short(list(reader.take("strides", [1] * axes)), 1)}
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        options["padding"] = auto.lower()
    elif auto == "VALID" or not any(pads):
        options["padding"] = None
    elif pads[:axes] == pads[axes:]:
        options["padding"] = _short(pads[:axes], 0)
    else:
        options["padding"] = pads
    options["dilation"] = _short(list(reader.take("dilations", [1] * axes)), 1)
    group = reader.take("group", 1)
    options["groups"] = None if group == 1 else group
    return {name: value for name, value in options.items() if value is not None}


def _kernel(reader: _Reader, weight: Value) -> Any:
    kernel = list(_shape(weight)[2:])
    if list(reader.take("kernel_shape", kernel)) != kernel:
        raise KeyError("kernel_shape")
    return kernel[0] if len(set(kernel)) == 1 else kernel


def _conv(reader: _Reader) -> Layer | None:
    fields = _weights(reader, {"weight": 1, "bias": 2})
    shape = _shape(fields["weight"])
    if len(shape) - 2 not in (1, 2, 3):
        return None
    options = _spatial(reader, len(shape) - 2)
    assert options is not None
    groups = options.get("groups", 1)
    args = (shape[1] * groups, shape[0], _kernel(reader, fields["weight"]))
    options |= {} if "bias" in fields else {"bias": False}
    options |= _dtype(fields["weight"])
    return Layer(f"Conv{len(shape) - 2}d", args, options, fields, (reader.node.inputs[0],))


def _conv_transpose(reader: _Reader) -> Layer | None:
    fields = _weights(reader, {"weight": 1, "bias": 2})
    shape = _shape(fields["weight"])
    axes = len(shape) - 2
    if axes not in (1, 2, 3):
        return None
    options = _spatial(reader, axes)
    assert options is not None
    extra = _short(list(reader.take("output_padding", [0] * axes)), 0)
    options |= {} if extra is None else {"output_padding": extra}
    output_shape = reader.take("output_shape", None)
    options |= {} if output_shape is None else {"output_shape": list(output_shape)}
    args = (shape[0], shape[1] * options.get("groups", 1), _kernel(reader, fields["weight"]))
    options |= {} if "bias" in fields else {"bias": False}
    options |= _dtype(fields["weight"])
    return Layer(f"ConvTranspose{axes}d", args, options, fields, (reader.node.inputs[0],))


def _linear(reader: _Reader) -> Layer | None:
    fields = _weights(reader, {"weight": 1, "bias": 2})
    rows, columns = _shape(fields["weight"])
    options = {} if "bias" in fields else {"bias": False}
    return Layer(
        "Linear",
        (columns, rows),
        options | _dtype(fields["weight"]),
        fields,
        (reader.node.inputs[0],),
    )


def _embedding(reader: _Reader) -> Layer | None:
    fields = _weights(reader, {"weight": 0})
    shape = _shape(fields["weight"])
    kind = fields["weight"].type
    is_table = len(shape) >= 2 and isinstance(kind, TensorType) and is_float(kind.dtype)
    if reader.take("axis", 0) != 0 or not is_table or reader.node.inputs[1] is None:
        return None
    if reader.node.inputs[1].is_constant:
        return None
    return Layer("Embedding", shape, _dtype(fields["weight"]), fields, (reader.node.inputs[1],))


def _eps(reader: _Reader) -> dict[str, Any]:
    eps = reader.take("epsilon", 1e-5)
    return {} if eps == 1e-5 else {"eps": eps}


def _batch_norm(reader: _Reader) -> Layer | None:
    names = {"weight": 1, "bias": 2, "running_mean": 3, "running_var": 4}
    fields = _weights(reader, names)
    reader.take("momentum", 0.9)
    shapes = {_shape(value) for value in fields.values()}
    dtypes = {value.type.dtype for value in fields.values() if isinstance(value.type, TensorType)}
    if reader.take("training_mode", 0) or len(fields) != 4 or len(shapes) != 1 or len(dtypes) != 1:
        return None
    options = _eps(reader) | _dtype(fields["weight"])
    return Layer("BatchNorm", _shape(fields["weight"]), options, fields, (reader.node.inputs[0],))


def _same_dtype(fields: dict[str, Value]) -> bool:
    return len({value.type for value in fields.values()}) == 1


def _layer_norm(reader: _Reader) -> Layer | None:
    fields = _weights(reader, {"weight": 1, "bias": 2})
    shape = _shape(fields["weight"])
    if not _is_trailing(reader, shape) or not _same_dtype(fields) or len(reader.node.outputs) > 1:
        return None
    options = _eps(reader) | ({} if "bias" in fields else {"bias": False})
    return Layer(
        "LayerNorm", shape, options | _dtype(fields["weight"]), fields, (reader.node.inputs[0],)
    )


def _is_trailing(reader: _Reader, shape: tuple[int, ...]) -> bool:
    """Whether a normalization is over the last axes, as many as the weight has."""
    value = reader.node.inputs[0]
    kind = value.type if value is not None else None
    axis = reader.take("axis", -1)
    if not isinstance(kind, TensorType) or kind.shape is None:
        return False
    rank = len(kind.shape)
    return bool(axis % rank == rank - len(shape) and kind.shape[rank - len(shape) :] == shape)


def _rms_norm(reader: _Reader) -> Layer | None:
    fields = _weights(reader, {"weight": 1})
    shape = _shape(fields["weight"])
    if not _is_trailing(reader, shape):
        return None
    return Layer(
        "RMSNorm", shape, _eps(reader) | _dtype(fields["weight"]), fields, (reader.node.inputs[0],)
    )


def _instance_norm(reader: _Reader) -> Layer | None:
    fields = _weights(reader, {"weight": 1, "bias": 2})
    if not _same_dtype(fields):
        return None
    options = _eps(reader) | _dtype(fields["weight"])
    return Layer(
        "InstanceNorm", _shape(fields["weight"]), options, fields, (reader.node.inputs[0],)
    )


def _group_norm(reader: _Reader) -> Layer | None:
    fields = _weights(reader, {"weight": 1, "bias": 2})
    groups = reader.take("num_groups", 1)
    if not _same_dtype(fields):
        return None
    args = (groups, *_shape(fields["weight"]))
    return Layer(
        "GroupNorm", args, _eps(reader) | _dtype(fields["weight"]), fields, (reader.node.inputs[0],)
    )


def _prelu(reader: _Reader) -> Layer | None:
    fields = _weights(reader, {"weight": 1})
    shape = _shape(fields["weight"])
    return Layer("PReLU", shape, _dtype(fields["weight"]), fields, (reader.node.inputs[0],))


def _recurrent(kind: str, gates: int) -> Callable[[_Reader], Layer | None]:
    def rule(reader: _Reader) -> Layer | None:
        fields = _weights(reader, {"weight": 1, "recurrence": 2, "bias": 3})
        directions, rows, inputs = _shape(fields["weight"])
        hidden = reader.take("hidden_size", rows // gates)
        direction = reader.take("direction", "forward")
        fits = _shape(fields["recurrence"]) == (directions, rows, hidden) and rows == gates * hidden
        if not fits or directions != (2 if direction == "bidirectional" else 1):
            return None
        options: dict[str, Any] = {} if direction == "forward" else {"direction": direction}
        options |= {} if "bias" in fields else {"bias": False}
        options |= _dtype(fields["weight"])
        for name in list(reader.rest):
            options[name] = reader.rest.pop(name)
        given = (reader.node.inputs[0], *reader.node.inputs[4:])
        return Layer(kind, (inputs, hidden), options, fields, given, len(reader.node.outputs))

    return rule


_RULES: dict[tuple[str, str], Callable[[_Reader], Layer | None]] = {
    ("", "Conv"): _conv,
    ("", "ConvTranspose"): _conv_transpose,
    ("burnx", "Linear"): _linear,
    ("", "Gather"): _embedding,
    ("", "BatchNormalization"): _batch_norm,
    ("", "LayerNormalization"): _layer_norm,
    ("", "RMSNormalization"): _rms_norm,
    ("", "InstanceNormalization"): _instance_norm,
    ("", "GroupNormalization"): _group_norm,
    ("", "PRelu"): _prelu,
    ("", "LSTM"): _recurrent("LSTM", 4),
    ("", "GRU"): _recurrent("GRU", 3),
    ("", "RNN"): _recurrent("RNN", 1),
}
