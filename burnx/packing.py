"""Elements of fewer than 8 bits: one a byte in memory, packed without gaps in files.

The packed form is ONNX's: a stream of bits, the first element in the lowest bits of the first byte.
"""

from __future__ import annotations

from math import gcd
from typing import Any, TypeAlias

import numpy as np

from burnx.dtype import DType, packed_bits

Array: TypeAlias = "np.ndarray[Any, Any]"


def packed_size_bytes(dtype: DType, count: int) -> int:
    """How many bytes ``count`` elements take in a file."""
    return (count * packed_bits(dtype) + 7) // 8


def pack_elements(array: Array) -> Array:
    """The elements in C order as packed bytes.

    Shapes: (*s) -> (packed_size_bytes,)
    """
    bits = packed_bits(array.dtype)
    group = 8 // gcd(bits, 8)
    values = np.ascontiguousarray(array).reshape(-1).view(np.uint8) & np.uint8((1 << bits) - 1)
    values = np.pad(values, (0, -values.size % group)).reshape(-1, group)
    words = np.zeros(len(values), np.uint32)
    for place in range(group):
        words |= values[:, place].astype(np.uint32) << np.uint32(bits * place)
    group_bytes = group * bits // 8
    packed = np.empty((len(values), group_bytes), np.uint8)
    for place in range(group_bytes):
        packed[:, place] = (words >> np.uint32(8 * place)) & np.uint32(255)
    return packed.reshape(-1)[: packed_size_bytes(array.dtype, array.size)]


def unpack_elements(packed: Array, dtype: DType, shape: tuple[int, ...]) -> Array:
    """The array whose packed bytes these are.

    Shapes: (packed_size_bytes,) -> shape
    """
    bits = packed_bits(dtype)
    group = 8 // gcd(bits, 8)
    group_bytes = group * bits // 8
    rows = np.pad(packed, (0, -packed.size % group_bytes)).reshape(-1, group_bytes)
    words = np.zeros(len(rows), np.uint32)
    for place in range(group_bytes):
        words |= rows[:, place].astype(np.uint32) << np.uint32(8 * place)
    values = np.empty((len(rows), group), np.uint8)
    for place in range(group):
        values[:, place] = (words >> np.uint32(bits * place)) & np.uint32((1 << bits) - 1)
    count = int(np.prod(shape, dtype=np.int64))
    return values.reshape(-1)[:count].view(dtype).reshape(shape)
