"""Attention in the words of opsets that have none: products, a softmax, and what splits and joins heads."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from burnx.dtype import bool_, code_of_dtype, float32, float64, int64
from burnx.exporter.spelling import Emitter
from burnx.graph import Node, Value
from burnx.passes.masks import may_hide_rows
from burnx.shape import Dim, Shape
from burnx.types import TensorType

SINCE = 25  # what attention means in burnx
_UNSAID = ("left_window_size", "right_window_size", "softcap", "qk_matmul_output_mode")
INFINITY = float("inf")


@dataclass(frozen=True, slots=True)
class _Heads:
    """Queries, keys and values as (batch, heads, seq, size), in the dtype that attention computes in."""

    q: Value
    k: Value
    v: Value
    present: tuple[Value, Value]


def spell_attention(node: Node, emitter: Emitter) -> list[Value] | None:
    """softmax(scale q k^T + mask) v before opset 25; a row without a visible key gives zeros."""
    if emitter.opset >= SINCE or any(_is_said(node, name) for name in _UNSAID):
        return None
    inputs = [*node.inputs, *[None] * (6 - len(node.inputs))]
    if len(inputs) > 6 and inputs[6] is not None or len(node.outputs) > 3:
        return None
    heads = _heads(node, inputs, emitter)
    if heads is None:
        return None
    scores = _scores(node, heads, emitter)
    mask = inputs[3]
    if mask is not None and _shape(mask)[-1:] != _shape(scores)[-1:]:
        return None
    weights = _weights(node, scores, mask, inputs[4], emitter)
    v = _repeated(heads.v, _shape(heads.q)[1], emitter)
    kind = _kind(weights, (*_shape(scores)[:-1], _shape(v)[-1]))
    result = emitter.emit("MatMul", [weights, v], kind)
    wanted = node.outputs[0].type
    assert isinstance(wanted, TensorType)
    result = _cast(result, wanted.dtype, emitter)
    if "q_num_heads" in node.attributes:
        _, count, _, size = _shape(result)
        turned = _moved(result, (0, 2, 1, 3), emitter)
        joined = emitter.constant([0, 0, -1 if not isinstance(size, int) else count * size])
        result = emitter.emit("Reshape", [turned, joined], wanted)
    return [result, *heads.present]


def _is_said(node: Node, name: str) -> bool:
    default = -1 if name.endswith("size") else 0
    return node.attributes.get(name, default) != default


def _shape(value: Value) -> Shape:
    assert isinstance(value.type, TensorType)
    return value.type.shape or ()


def _kind(value: Value, shape: Shape) -> TensorType:
    assert isinstance(value.type, TensorType)
    return TensorType(value.type.dtype, shape)


def _cast(value: Value, dtype: object, emitter: Emitter) -> Value:
    assert isinstance(value.type, TensorType)
    if value.type.dtype == dtype:
        return value
    kind = TensorType(dtype, value.type.shape)  # type: ignore[arg-type]
    return emitter.emit("Cast", [value], kind, to=code_of_dtype(kind.dtype))


def _moved(value: Value, perm: tuple[int, ...], emitter: Emitter) -> Value:
    shape = _shape(value)
    kind = _kind(value, tuple(shape[axis] for axis in perm))
    return emitter.emit("Transpose", [value], kind, perm=list(perm))


def _heads(node: Node, inputs: list[Value | None], emitter: Emitter) -> _Heads | None:
    q, k, v, _, past_k, past_v = inputs[:6]
    if q is None or k is None or v is None or not all(_shape(each) for each in (q, k, v)):
        return None
    counts = [node.attributes.get(name) for name in ("q_num_heads", "kv_num_heads", "kv_num_heads")]
    if counts[0] is not None:
        q, k, v = (
            _split(each, int(count or 1), emitter)
            for each, count in zip((q, k, v), counts, strict=True)
        )
    if past_k is not None and past_v is not None:
        kinds = [value.type for value in node.outputs[1:3]]
        k, v = (
            _joined(past, new, kind, emitter)
            for past, new, kind in zip((past_k, past_v), (k, v), kinds or (None, None), strict=True)
        )
    assert isinstance(q.type, TensorType)
    wide = float64 if q.type.dtype == float64 else float32
    wides = [_cast(each, wide, emitter) for each in (q, k, v)]
    return _Heads(wides[0], wides[1], wides[2], (k, v))


def _split(value: Value, count: int, emitter: Emitter) -> Value:
    """(batch, seq, heads * size) to (batch, heads, seq, size)"""
    batch, seq, hidden = _shape(value)
    size: Dim = hidden // count
    target = emitter.constant([0, 0, count, size if isinstance(size, int) else -1])
    parted = emitter.emit("Reshape", [value, target], _kind(value, (batch, seq, count, size)))
    return _moved(parted, (0, 2, 1, 3), emitter)


def _joined(past: Value, new: Value, kind: object, emitter: Emitter) -> Value:
    before, after = _shape(past), _shape(new)
    shape = (*after[:2], before[2] + after[2], after[3])
    own = kind if isinstance(kind, TensorType) else _kind(new, shape)
    return emitter.emit("Concat", [past, new], own, axis=2)


def _repeated(value: Value, heads: Dim, emitter: Emitter) -> Value:
    """Each head as often as there are query heads that share it."""
    batch, own, keys, size = _shape(value)
    if own == heads:
        return value
    assert isinstance(own, int) and isinstance(heads, int)
    each = heads // own
    axes = emitter.constant([2])
    column = emitter.emit("Unsqueeze", [value, axes], _kind(value, (batch, own, 1, keys, size)))
    times = emitter.constant([1, 1, each, 1, 1])
    kind = _kind(value, (batch, own, each, keys, size))
    spread = emitter.emit("Expand", [column, times], kind)
    target = emitter.constant([0, heads, -1, size])
    return emitter.emit("Reshape", [spread, target], _kind(value, (batch, heads, keys, size)))


def _scores(node: Node, heads: _Heads, emitter: Emitter) -> Value:
    q, k = heads.q, _repeated(heads.k, _shape(heads.q)[1], emitter)
    assert isinstance(q.type, TensorType)
    size, scale = _shape(q)[-1], node.attributes.get("scale")
    if scale is None:
        assert isinstance(size, int)
        scale = max(size, 1) ** -0.5
    if scale != 1:
        q = emitter.emit("Mul", [q, emitter.constant(scale, q.type.dtype)], q.type)
    turned = _moved(k, (0, 1, 3, 2), emitter)
    return emitter.emit("MatMul", [q, turned], _kind(q, (*_shape(q)[:-1], _shape(k)[2])))


def _weights(
    node: Node, scores: Value, mask: Value | None, past: Value | None, emitter: Emitter
) -> Value:
    """The softmax of what the masks leave of the scores."""
    kind = scores.type
    assert isinstance(kind, TensorType)
    mask = None if mask is None else emitter.resolve(mask)
    may_hide = mask is not None and may_hide_rows(mask)
    visible = _before(scores, past, emitter) if node.attributes.get("is_causal") else None
    if mask is not None and isinstance(mask.type, TensorType) and mask.type.dtype == bool_:
        may_hide = may_hide or visible is not None
        flags = TensorType(bool_, kind.shape)
        visible = mask if visible is None else emitter.emit("And", [visible, mask], flags)
    elif mask is not None:
        scores = emitter.emit("Add", [scores, _cast(mask, kind.dtype, emitter)], kind)
    if visible is not None:
        hidden = emitter.constant(-INFINITY, kind.dtype)
        scores = emitter.emit("Where", [visible, scores, hidden], kind)
    weights = emitter.emit("Softmax", [scores], kind, axis=-1)
    return _guarded(scores, weights, emitter) if may_hide else weights


def _guarded(scores: Value, weights: Value, emitter: Emitter) -> Value:
    """Zeros in rows that are all hidden."""
    kind = scores.type
    assert isinstance(kind, TensorType)
    column = TensorType(kind.dtype, (*_shape(scores)[:-1], 1))
    if emitter.opset >= 18:
        greatest = emitter.emit("ReduceMax", [scores, emitter.constant([-1])], column)
    else:
        greatest = emitter.emit("ReduceMax", [scores], column, axes=[-1])
    floor = emitter.constant(-INFINITY, kind.dtype)
    empty = emitter.emit("Equal", [greatest, floor], replace(column, dtype=bool_))
    return emitter.emit("Where", [empty, emitter.constant(0, kind.dtype), weights], kind)


def _before(scores: Value, past: Value | None, emitter: Emitter) -> Value:
    """Which keys are not after a query."""
    seq, keys = _shape(scores)[-2:]
    ago = 0 if past is None else _shape(past)[2]
    flags = TensorType(bool_, (seq, keys))
    if isinstance(seq, int) and isinstance(keys, int) and isinstance(ago, int):
        return emitter.constant(np.tril(np.ones((seq, keys), bool), ago), bool_)
    rows = _range(scores, 2, emitter)
    if past is not None:
        rows = emitter.emit("Add", [rows, _size(past, 2, emitter)], rows.type)
    row = emitter.emit("Unsqueeze", [rows, emitter.constant([1])], TensorType(int64, (seq, 1)))
    return emitter.emit("GreaterOrEqual", [row, _range(scores, 3, emitter)], flags)


def _size(value: Value, axis: int, emitter: Emitter) -> Value:
    """One size as a scalar."""
    rank = len(_shape(value))
    shape = emitter.emit("Shape", [value], TensorType(int64, (rank,)))
    return emitter.emit("Gather", [shape, emitter.constant(axis)], TensorType(int64, ()))


def _range(value: Value, axis: int, emitter: Emitter) -> Value:
    ends = [emitter.constant(0), _size(value, axis, emitter), emitter.constant(1)]
    return emitter.emit("Range", ends, TensorType(int64, (_shape(value)[axis],)))
