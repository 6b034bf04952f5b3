"""Large tensors taken out of a model's bytes before protobuf sees them.

Protobuf copies every field it parses.  Here the ``raw_data`` of large initializers of the main graph is cut out of the
message, and the tensor points at the bytes of the file instead, in the words of external data.  Whatever is not
as expected is left as it is, for protobuf to judge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

LARGE_BYTES = 64 * 1024
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class _Malformed(Exception):
    """The bytes are no message."""


@dataclass(frozen=True, slots=True)
class _Field:
    """One field: its number, and where it and its content lie."""

    number: int
    kind: int
    start: int
    begin: int
    end: int


def without_large_data(data: memoryview, token: str) -> bytes | None:
    """The model's bytes without large initializers, which name ``token`` as the place of their data.

    None if there are none, or the bytes are not as expected.
    """
    try:
        graphs = [field for field in _fields(data, 0, len(data)) if field.number == _GRAPH]
        if len(graphs) != 1 or graphs[0].kind != _BYTES:
            return None
        graph = graphs[0]
        inner = _slim_graph(data, graph, token)
    except _Malformed:
        return None
    if inner is None:
        return None
    head = _key(_GRAPH, _BYTES) + _varint(len(inner))
    return b"".join((data[: graph.start], head, inner, data[graph.end :]))


def _slim_graph(data: memoryview, graph: _Field, token: str) -> bytes | None:
    parts: list[bytes | memoryview] = []
    kept, changed = graph.begin, False
    for field in _fields(data, graph.begin, graph.end):
        if field.number != _INITIALIZER or field.kind != _BYTES:
            continue
        tensor = _slim_tensor(data, field, token)
        if tensor is not None:
            parts += [
                data[kept : field.start],
                _key(_INITIALIZER, _BYTES),
                _varint(len(tensor)),
                tensor,
            ]
            kept, changed = field.end, True
    return b"".join([*parts, data[kept : graph.end]]) if changed else None


def _slim_tensor(data: memoryview, tensor: _Field, token: str) -> bytes | None:
    """A tensor without its raw data; None if it has no large one."""
    if tensor.end - tensor.begin < LARGE_BYTES:
        return None
    fields = list(_fields(data, tensor.begin, tensor.end))
    raw = [field for field in fields if field.number == _RAW_DATA]
    placed = any(field.number in (_EXTERNAL_DATA, _DATA_LOCATION) for field in fields)
    if len(raw) != 1 or raw[0].kind != _BYTES or placed or raw[0].end - raw[0].begin < LARGE_BYTES:
        return None
    (large,) = raw
    entries = {
        "location": token,
        "offset": str(large.begin),
        "length": str(large.end - large.begin),
    }
    where = b"".join(_message(_EXTERNAL_DATA, _entry(*pair)) for pair in entries.items())
    rest = (data[tensor.begin : large.start], data[large.end : tensor.end])
    return b"".join((*rest, where, _key(_DATA_LOCATION, _VARINT), _varint(1)))


def _entry(key: str, value: str) -> bytes:
    return _message(1, key.encode()) + _message(2, value.encode())


def _message(number: int, content: bytes) -> bytes:
    return _key(number, _BYTES) + _varint(len(content)) + content


def _key(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(data: memoryview, place: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while place < end and shift < 64:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place += 1
        if byte < 0x80:
            return value, place
        shift += 7
    raise _Malformed


def _fields(data: memoryview, place: int, end: int) -> Iterator[_Field]:
    while place < end:
        start = place
        key, place = _read_varint(data, place, end)
        kind = key & 7
        if kind == _VARINT:
            begin = place
            _, stop = _read_varint(data, place, end)
        elif kind == _BYTES:
            length, begin = _read_varint(data, place, end)
            stop = begin + length
        elif kind in (_FIXED64, _FIXED32):
            begin, stop = place, place + (8 if kind == _FIXED64 else 4)
        else:
            raise _Malformed
        if stop > end:
            raise _Malformed
        yield _Field(key >> 3, kind, start, begin, stop)
        place = stop
