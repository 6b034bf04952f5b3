"""Arrays as ONNX tensors: inside the model, or as a stretch of a file beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from onnx import TensorProto

from burnx.dtype import code_of_dtype, packed_bits, string
from burnx.packing import pack_elements, packed_size_bytes

Array: TypeAlias = "np.ndarray[Any, Any]"

ALIGN_BYTES = 4096  # a page, so that readers can map each tensor
SMALL_BYTES = 1024  # shapes and axes stay in the model, where shape inference sees them


@dataclass(slots=True, eq=False)
class DataFile:
    """The file beside a model that holds its large tensors: its name, and what goes where."""

    location: str
    stretches: list[tuple[int, Array]] = field(default_factory=list)
    end_bytes: int = 0

    def place(self, array: Array) -> tuple[int, int]:
        """The offset and length in bytes of an array, which is kept for writing."""
        offset = -(-self.end_bytes // ALIGN_BYTES) * ALIGN_BYTES
        size = array_size_bytes(array)
        self.stretches.append((offset, array))
        self.end_bytes = offset + size
        return offset, size

    def chunks(self) -> Iterator[tuple[int, Array]]:
        """Offsets and bytes, one array at a time."""
        for offset, array in self.stretches:
            yield offset, array_bytes(array)


def array_size_bytes(array: Array) -> int:
    """How many bytes an array takes in a file; strings are not counted."""
    return 0 if array.dtype == string else packed_size_bytes(array.dtype, array.size)


def array_bytes(array: Array) -> Array:
    """The elements in C order as bytes; no copy where they already lie so."""
    if packed_bits(array.dtype) < 8:
        return pack_elements(array)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def tensor_proto(name: str, array: Array, data: DataFile | None = None) -> Any:
    """A tensor; with ``data``, the elements of a large one go there."""
    tensor = TensorProto(name=name, data_type=code_of_dtype(array.dtype), dims=array.shape)
    if array.dtype.kind == "O":
        tensor.string_data.extend(encoded(item) for item in array.reshape(-1))
    elif data is None or array_size_bytes(array) < SMALL_BYTES:
        tensor.raw_data = array_bytes(array).tobytes()
    else:
        offset, size = data.place(array)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", data.location), ("offset", offset), ("length", size)):
            tensor.external_data.add(key=key, value=str(value))
    return tensor


def encoded(text: Any) -> bytes:
    """Text as bytes, those that were no UTF-8 when read included."""
    return text if isinstance(text, bytes) else str(text).encode("utf-8", "surrogateescape")
