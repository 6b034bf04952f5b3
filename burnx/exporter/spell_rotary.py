"""Rotary embeddings in the words of opsets that have none."""

from __future__ import annotations

from collections.abc import Sequence

from burnx.dtype import int64
from burnx.exporter.spelling import Emitter
from burnx.graph import Node, Value
from burnx.shape import Dim, Shape
from burnx.types import TensorType

SINCE = 23


def spell_rotary(node: Node, emitter: Emitter) -> list[Value] | None:
    """a cos - b sin and b cos + a sin for each pair (a, b), before opset 23 or where caches serve every batch."""
    x, *caches = node.inputs[:3]
    ids = node.inputs[3] if len(node.inputs) > 3 else None
    if x is None or not _shape(x) or any(cache is None or not _shape(cache) for cache in caches):
        return None
    spreads = ids is None and any(_shape(c)[0] != _shape(x)[0] for c in caches if c is not None)
    if emitter.opset >= SINCE and not spreads:
        return None
    heads = node.attributes.get("num_heads")
    parted = x if len(_shape(x)) == 4 else _split_heads(x, int(heads or 1), emitter)
    axis = 1 if len(_shape(x)) == 4 else 2
    angles = [_angles(cache, ids, axis, emitter) for cache in caches if cache is not None]
    size, turned = _shape(parted)[3], node.attributes.get("rotary_embedding_dim") or None
    if not isinstance(size, int) or size % 2:
        return None
    rest: list[Value] = []
    if turned is not None and turned != size:
        parted, *rest = _split(parted, [int(turned), size - int(turned)], emitter)
    if node.attributes.get("interleaved"):
        result = _turned_pairs(parted, angles, emitter)
    else:
        result = _turned_halves(parted, angles, emitter)
    if rest:
        result = _joined([result, *rest], emitter)
    if axis == 1:
        return [result]
    target = emitter.constant([0, 0, _shape(x)[2] if isinstance(_shape(x)[2], int) else -1])
    return [emitter.emit("Reshape", [result, target], node.outputs[0].type)]


def _shape(value: Value) -> Shape:
    assert isinstance(value.type, TensorType)
    return value.type.shape or ()


def _kind(value: Value, shape: Shape) -> TensorType:
    assert isinstance(value.type, TensorType)
    return TensorType(value.type.dtype, shape)


def _split_heads(x: Value, heads: int, emitter: Emitter) -> Value:
    """(batch, seq, heads * size) to (batch, seq, heads, size)"""
    batch, seq, hidden = _shape(x)
    size: Dim = hidden // heads
    target = emitter.constant([0, 0, heads, size if isinstance(size, int) else -1])
    return emitter.emit("Reshape", [x, target], _kind(x, (batch, seq, heads, size)))


def _angles(cache: Value, ids: Value | None, axis: int, emitter: Emitter) -> Value:
    """The angles of each position, the same for all heads."""

    def make() -> Value:
        own = cache
        if ids is not None:
            kind = _kind(cache, (*_shape(ids), _shape(cache)[-1]))
            whole = emitter.emit("Cast", [ids], TensorType(int64, _shape(ids)), to=7)
            own = emitter.emit("Gather", [cache, whole], kind)
        shape = _shape(own)
        kind = _kind(own, (*shape[:axis], 1, *shape[axis:]))
        return emitter.emit("Unsqueeze", [own, emitter.constant([axis])], kind)

    return emitter.once(("angles", cache, ids, axis), make)


def _split(value: Value, sizes: Sequence[int], emitter: Emitter) -> list[Value]:
    kinds = [_kind(value, (*_shape(value)[:-1], size)) for size in sizes]
    return emitter.emit_all("Split", [value, emitter.constant(list(sizes))], kinds, axis=-1)


def _joined(parts: Sequence[Value], emitter: Emitter) -> Value:
    sizes = [_shape(part)[-1] for part in parts]
    kind = _kind(parts[0], (*_shape(parts[0])[:-1], sum(sizes[1:], start=sizes[0])))
    return emitter.emit("Concat", list(parts), kind, axis=-1)


def _turned(parts: Sequence[Value], angles: Sequence[Value], emitter: Emitter) -> list[Value]:
    """Both coordinates of pairs, turned."""
    (first, second), (cos, sin), kind = parts, angles, parts[0].type

    def combined(operator: str, left: Value, right: Value) -> Value:
        products = [
            emitter.emit("Mul", [factor, angle], kind)
            for factor, angle in ((left, cos), (right, sin))
        ]
        return emitter.emit(operator, products, kind)

    return [combined("Sub", first, second), combined("Add", second, first)]


def _turned_halves(x: Value, angles: Sequence[Value], emitter: Emitter) -> Value:
    half = int(_shape(x)[-1]) // 2
    return _joined(_turned(_split(x, [half, half], emitter), angles, emitter), emitter)


def _turned_pairs(x: Value, angles: Sequence[Value], emitter: Emitter) -> Value:
    """Neighbours are brought apart by slices, and together by an axis of two."""
    size, rank = int(_shape(x)[-1]), len(_shape(x))
    half = _kind(x, (*_shape(x)[:-1], size // 2))
    ends = [emitter.constant([each]) for each in (size, rank - 1, 2)]
    parts = [emitter.emit("Slice", [x, emitter.constant([start]), *ends], half) for start in (0, 1)]
    column = _kind(x, (*_shape(x)[:-1], size // 2, 1))
    axes = emitter.constant([rank])
    columns = [
        emitter.emit("Unsqueeze", [part, axes], column) for part in _turned(parts, angles, emitter)
    ]
    pairs = _joined(columns, emitter)
    return emitter.emit("Reshape", [pairs, emitter.constant([0, 0, 0, size])], x.type)
