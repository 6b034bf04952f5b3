"""Nodes that are layers: which class of ``burnx.nn`` a node with constant weights is, and with which arguments.

A layer is recognised only where its ``forward`` records the same operator with the same attributes again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from burnx.dtype import is_float
from burnx.graph import Node, Value
from burnx.ops import find
from burnx.structure.layer_reading import (
    Layer,
    Reader,
    dtype_option,
    kernel_of,
    shape_of,
    short,
    spatial,
    weights_of,
)
from burnx.structure.paths import snake_case
from burnx.structure.quantized_layers import QUANTIZED
from burnx.types import TensorType


def layer_word(kind: str) -> str:
    """What a layer is called that has no name: ``conv`` for Conv2d, ``norm`` for LayerNorm."""
    word = snake_case(re.sub(r"\dd$", "", kind))
    return "norm" if word.endswith("norm") else _WORDS.get(word, word)


_WORDS = {"p_re_lu": "prelu"}


def find_layer(node: Node) -> Layer | None:
    """The layer that a node is, if it is one."""
    rule = _RULES.get((node.domain, node.operator))
    if rule is None or not node.inputs or node.inputs[0] is None:
        return None
    defaults = find(node.domain, node.operator).attributes
    given = node.attributes.items()
    reader = Reader(node, {name: value for name, value in given if value != defaults.get(name)})
    try:
        layer = rule(reader)
    except KeyError:
        return None
    return layer if not reader.rest and layer is not None else None


def _conv(reader: Reader) -> Layer | None:
    fields = weights_of(reader, {"weight": 1, "bias": 2})
    shape = shape_of(fields["weight"])
    if len(shape) - 2 not in (1, 2, 3):
        return None
    options = spatial(reader, len(shape) - 2)
    assert options is not None
    groups = options.get("groups", 1)
    args = (shape[1] * groups, shape[0], kernel_of(reader, fields["weight"]))
    options |= {} if "bias" in fields else {"bias": False}
    options |= dtype_option(fields["weight"])
    return Layer(f"Conv{len(shape) - 2}d", args, options, fields, (reader.node.inputs[0],))


def _conv_transpose(reader: Reader) -> Layer | None:
    fields = weights_of(reader, {"weight": 1, "bias": 2})
    shape = shape_of(fields["weight"])
    axes = len(shape) - 2
    if axes not in (1, 2, 3):
        return None
    options = spatial(reader, axes)
    assert options is not None
    extra = short(list(reader.take("output_padding", [0] * axes)), 0)
    options |= {} if extra is None else {"output_padding": extra}
    output_shape = reader.take("output_shape", None)
    options |= {} if output_shape is None else {"output_shape": list(output_shape)}
    args = (shape[0], shape[1] * options.get("groups", 1), kernel_of(reader, fields["weight"]))
    options |= {} if "bias" in fields else {"bias": False}
    options |= dtype_option(fields["weight"])
    return Layer(f"ConvTranspose{axes}d", args, options, fields, (reader.node.inputs[0],))


def _linear(reader: Reader) -> Layer | None:
    fields = weights_of(reader, {"weight": 1, "bias": 2})
    rows, columns = shape_of(fields["weight"])
    options = {} if "bias" in fields else {"bias": False}
    return Layer(
        "Linear",
        (columns, rows),
        options | dtype_option(fields["weight"]),
        fields,
        (reader.node.inputs[0],),
    )


def _embedding(reader: Reader) -> Layer | None:
    fields = weights_of(reader, {"weight": 0})
    shape = shape_of(fields["weight"])
    kind = fields["weight"].type
    is_table = len(shape) >= 2 and isinstance(kind, TensorType) and is_float(kind.dtype)
    if reader.take("axis", 0) != 0 or not is_table or reader.node.inputs[1] is None:
        return None
    if reader.node.inputs[1].is_constant:
        return None
    return Layer(
        "Embedding", shape, dtype_option(fields["weight"]), fields, (reader.node.inputs[1],)
    )


def _eps(reader: Reader) -> dict[str, Any]:
    eps = reader.take("epsilon", 1e-5)
    return {} if eps == 1e-5 else {"eps": eps}


def _batch_norm(reader: Reader) -> Layer | None:
    names = {"weight": 1, "bias": 2, "running_mean": 3, "running_var": 4}
    fields = weights_of(reader, names)
    reader.take("momentum", 0.9)
    shapes = {shape_of(value) for value in fields.values()}
    dtypes = {value.type.dtype for value in fields.values() if isinstance(value.type, TensorType)}
    if reader.take("training_mode", 0) or len(fields) != 4 or len(shapes) != 1 or len(dtypes) != 1:
        return None
    options = _eps(reader) | dtype_option(fields["weight"])
    return Layer("BatchNorm", shape_of(fields["weight"]), options, fields, (reader.node.inputs[0],))


def _same_dtype(fields: dict[str, Value]) -> bool:
    return len({value.type for value in fields.values()}) == 1


def _layer_norm(reader: Reader) -> Layer | None:
    fields = weights_of(reader, {"weight": 1, "bias": 2})
    shape = shape_of(fields["weight"])
    if not _is_trailing(reader, shape) or not _same_dtype(fields) or len(reader.node.outputs) > 1:
        return None
    options = _eps(reader) | ({} if "bias" in fields else {"bias": False})
    return Layer(
        "LayerNorm",
        shape,
        options | dtype_option(fields["weight"]),
        fields,
        (reader.node.inputs[0],),
    )


def _is_trailing(reader: Reader, shape: tuple[int, ...]) -> bool:
    """Whether a normalization is over the last axes, as many as the weight has."""
    value = reader.node.inputs[0]
    kind = value.type if value is not None else None
    axis = reader.take("axis", -1)
    if not isinstance(kind, TensorType) or kind.shape is None:
        return False
    rank = len(kind.shape)
    return bool(axis % rank == rank - len(shape) and kind.shape[rank - len(shape) :] == shape)


def _rms_norm(reader: Reader) -> Layer | None:
    fields = weights_of(reader, {"weight": 1})
    shape = shape_of(fields["weight"])
    if not _is_trailing(reader, shape):
        return None
    return Layer(
        "RMSNorm",
        shape,
        _eps(reader) | dtype_option(fields["weight"]),
        fields,
        (reader.node.inputs[0],),
    )


def _instance_norm(reader: Reader) -> Layer | None:
    fields = weights_of(reader, {"weight": 1, "bias": 2})
    if not _same_dtype(fields):
        return None
    options = _eps(reader) | dtype_option(fields["weight"])
    return Layer(
        "InstanceNorm", shape_of(fields["weight"]), options, fields, (reader.node.inputs[0],)
    )


def _group_norm(reader: Reader) -> Layer | None:
    fields = weights_of(reader, {"weight": 1, "bias": 2})
    groups = reader.take("num_groups", 1)
    if not _same_dtype(fields):
        return None
    args = (groups, *shape_of(fields["weight"]))
    return Layer(
        "GroupNorm",
        args,
        _eps(reader) | dtype_option(fields["weight"]),
        fields,
        (reader.node.inputs[0],),
    )


def _prelu(reader: Reader) -> Layer | None:
    fields = weights_of(reader, {"weight": 1})
    shape = shape_of(fields["weight"])
    return Layer("PReLU", shape, dtype_option(fields["weight"]), fields, (reader.node.inputs[0],))


def _recurrent(kind: str, gates: int) -> Callable[[Reader], Layer | None]:
    def rule(reader: Reader) -> Layer | None:
        fields = weights_of(reader, {"weight": 1, "recurrence": 2, "bias": 3})
        directions, rows, inputs = shape_of(fields["weight"])
        hidden = reader.take("hidden_size", rows // gates)
        direction = reader.take("direction", "forward")
        fits = (
            shape_of(fields["recurrence"]) == (directions, rows, hidden) and rows == gates * hidden
        )
        if not fits or directions != (2 if direction == "bidirectional" else 1):
            return None
        options: dict[str, Any] = {} if direction == "forward" else {"direction": direction}
        options |= {} if "bias" in fields else {"bias": False}
        options |= dtype_option(fields["weight"])
        for name in list(reader.rest):
            options[name] = reader.rest.pop(name)
        given = (reader.node.inputs[0], *reader.node.inputs[4:])
        return Layer(kind, (inputs, hidden), options, fields, given, len(reader.node.outputs))

    return rule


_RULES: dict[tuple[str, str], Callable[[Reader], Layer | None]] = {
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
    **QUANTIZED,
}
