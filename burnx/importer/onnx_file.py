"""An ONNX file as bytes: the protobuf message, and the arrays of its tensors.

External data stays on disk: it is mapped when a tensor is asked for, and only from the model's
folder.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped, unused-ignore]

from burnx.dtype import DTYPES, DType, code_of_dtype, dtype_name, dtype_of_code, packed_bits
from burnx.errors import DTypeError, ModelError, UsageError
from burnx.files import Buffer, MappedFile, fits_memory, guess_kind, map_file, view_array
from burnx.importer.external_data import locate_external
from burnx.importer.onnx_text import check_text
from burnx.importer.onnx_wire import without_large_data
from burnx.packing import packed_size_bytes, unpack_elements

Array: TypeAlias = "np.ndarray[Any, Any]"

# Messages from this size on are beyond what protobuf can hold.
MAX_PROTO_BYTES = (1 << 31) - 1

# dtype -> the field that holds its elements where raw_data does not; all others are in int32_data
_FIELDS = {
    "float32": "float_data",
    "complex64": "float_data",
    "float64": "double_data",
    "complex128": "double_data",
    "int64": "int64_data",
    "uint64": "uint64_data",
    "uint32": "uint64_data",
}
_FIELD_DTYPES = {
    "float_data": DTYPES["float32"],
    "double_data": DTYPES["float64"],
    "int32_data": DTYPES["int32"],
    "int64_data": DTYPES["int64"],
    "uint64_data": DTYPES["uint64"],
}


@dataclass(frozen=True, slots=True)
class OnnxFile:
    """A model as it was read, and where its external data may lie.

    Tensors whose place is called ``token`` lie in ``data``, the bytes of the file itself.
    """

    proto: onnx.ModelProto
    path: Path | None = None
    base_dir: Path | None = None
    maps: dict[Path, Buffer] = field(default_factory=dict, repr=False, compare=False)
    data: Buffer | None = field(default=None, repr=False, compare=False)
    token: str = ""

    @property
    def place(self) -> str:
        """The file in the words of an error message."""
        return f"file {str(self.path)!r}" if self.path is not None else "a model in memory"


# --- the message -------------------------------------------------------------------------------


def read_model(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto,
    base_dir: str | os.PathLike[str] | None = None,
    opened: MappedFile | None = None,
) -> OnnxFile:
    """Read a model from a file, from the bytes of one, or take a message that is there already.

    ``opened`` is the file where it has been mapped before: another may be there now.
    Raises: ModelError if that is no ONNX model, UsageError if it is none of these.
    """
    folder = Path(base_dir) if base_dir is not None else None
    if isinstance(source, onnx.ModelProto):
        file = OnnxFile(source, None, folder)
    elif isinstance(source, bytes | bytearray | memoryview):
        file = OnnxFile(_parse(bytes(source), "a model in memory"), None, folder)
    elif not isinstance(source, str | os.PathLike):
        raise UsageError(f"a model is a path, bytes or a ModelProto, not {type(source).__name__}")
    else:
        file = _read_file(Path(source), folder, opened)
    _check_model(file.proto, file.place)
    return file


def count_nodes(graph: onnx.GraphProto) -> int:
    """The nodes of a graph as they stand in its file, those in branches and loops included."""
    inner = (g for node in graph.node for each in node.attribute for g in (each.g, *each.graphs))
    return len(graph.node) + sum(map(count_nodes, inner))


def _read_file(path: Path, folder: Path | None, opened: MappedFile | None) -> OnnxFile:
    """A model file, its large tensors left where they lie."""
    buffer, place = opened or map_file(path, ModelError), f"file {str(path)!r}"
    folder = folder if folder is not None else path.parent
    token = f"bytes of this file {secrets.token_hex(16)}"  # no file can say this of its own
    with memoryview(buffer) as view:
        slim = without_large_data(view, token) if len(buffer) <= MAX_PROTO_BYTES else None
    if slim is not None:
        return OnnxFile(_parse(slim, place), path, folder, data=buffer, token=token)
    with buffer:
        return OnnxFile(_parse(buffer, place), path, folder)


def _parse(data: Buffer, place: str) -> onnx.ModelProto:
    if len(data) > MAX_PROTO_BYTES:
        raise ModelError(
            "an ONNX file of 2 GiB or more must keep its weights as external data: "
            f"found {len(data)} bytes, {place}"
        )
    if len(data) == 0:
        raise ModelError(f"{place} is empty")
    kind = guess_kind(data[:512])
    proto = onnx.ModelProto()
    try:
        with memoryview(data) as view:
            proto.ParseFromString(view)
    except (DecodeError, RecursionError) as error:
        hint = f"it seems to be {kind}" if kind else f"truncated, or another kind of file: {error}"
        raise ModelError(f"{place} is not an ONNX model: {hint}") from error
    if kind is not None and not proto.HasField("graph"):
        raise ModelError(f"{place} is not an ONNX model: it seems to be {kind}")
    return proto


def _check_model(proto: onnx.ModelProto, place: str) -> None:
    """Almost any bytes parse as an almost empty message: look for what every model has."""
    missing = None
    if not proto.HasField("graph"):
        missing = "graph"
    elif proto.ir_version <= 0:
        missing = "IR version"
    elif proto.ir_version >= 3 and not proto.opset_import:
        missing = "opset import"
    if missing is not None:
        raise ModelError(
            f"{place} is not a whole ONNX model: it has no {missing}; "
            "truncated, or another kind of file"
        )
    check_text(proto, place)


# --- tensors -----------------------------------------------------------------------------------


def tensor_array(tensor: onnx.TensorProto, file: OnnxFile) -> Array:
    """The elements of a tensor; external ones are a read-only view of the mapped file.

    Strings become an object array of str; bytes that are not UTF-8 are kept by ``surrogateescape``.

    Raises: ModelError that names the tensor.
    """
    place = f"tensor {tensor.name!r}, {file.place}"
    dtype, shape = _declared_kind(tensor, place)
    if tensor.HasField("segment"):
        raise ModelError(f"a tensor in segments cannot be read, {place}")
    _check_one_source(tensor, place)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return _external_array(tensor, file, dtype, shape)
    if dtype == DTYPES["string"]:
        return _string_array(tensor, shape, place)
    if tensor.HasField("raw_data"):
        return _raw_array(tensor.raw_data, dtype, shape, place)
    return _field_array(tensor, dtype, shape, place)


def _check_one_source(tensor: onnx.TensorProto, place: str) -> None:
    """Raises: ModelError if the elements stand in several fields, which may say different things."""
    given = [name for name in (*_FIELD_DTYPES, "string_data") if getattr(tensor, name)]
    given += ["raw_data"] if tensor.HasField("raw_data") else []
    given += ["external_data"] if tensor.data_location == onnx.TensorProto.EXTERNAL else []
    if len(given) > 1:
        raise ModelError(f"a tensor has one field of elements, not {' and '.join(given)}, {place}")


def _declared_kind(tensor: onnx.TensorProto, place: str) -> tuple[DType, tuple[int, ...]]:
    try:
        dtype = dtype_of_code(tensor.data_type)
    except DTypeError as error:
        raise ModelError(f"{error}, {place}") from error
    return dtype, _checked_shape(tensor.dims, dtype, place)


def _checked_shape(dims: Any, dtype: DType, place: str) -> tuple[int, ...]:
    shape = tuple(int(dim) for dim in dims)
    if any(dim < 0 for dim in shape) or not fits_memory(shape, dtype.itemsize):
        raise ModelError(f"a tensor has a legal shape: found {shape}, {place}")
    return shape


def _string_array(tensor: onnx.TensorProto, shape: tuple[int, ...], place: str) -> Array:
    if tensor.HasField("raw_data"):
        raise ModelError(f"strings cannot be in raw_data, {place}")
    items = [item.decode("utf-8", "surrogateescape") for item in tensor.string_data]
    _check_count(len(items), prod(shape), shape, "string_data", place)
    array = np.empty(len(items), object)
    array[:] = items
    return array.reshape(shape)


def _raw_array(raw: bytes, dtype: DType, shape: tuple[int, ...], place: str) -> Array:
    expected = packed_size_bytes(dtype, prod(shape))
    if len(raw) != expected:
        raise ModelError(_size_message(dtype, shape, expected, len(raw), place))
    return _decode(raw, dtype, shape, 0)


def _decode(buffer: Buffer, dtype: DType, shape: tuple[int, ...], offset: int) -> Array:
    """The array in a stretch of bytes whose size has been checked."""
    if packed_bits(dtype) >= 8:
        return view_array(buffer, dtype, shape, offset, aligns=False)
    size = (packed_size_bytes(dtype, prod(shape)),)
    return unpack_elements(view_array(buffer, DTYPES["uint8"], size, offset), dtype, shape)


def _size_message(
    dtype: DType, shape: tuple[int, ...], expected: int, found: int, place: str
) -> str:
    name = dtype_name(dtype)
    return f"{name} of shape {shape} takes {expected} bytes: found {found}, {place}"


def _check_count(
    found: int, expected: int, shape: tuple[int, ...], field_name: str, place: str
) -> None:
    if found != expected:
        raise ModelError(
            f"shape {shape} takes {expected} entries of {field_name}: found {found}, {place}"
        )


def _field_array(
    tensor: onnx.TensorProto, dtype: DType, shape: tuple[int, ...], place: str
) -> Array:
    """The elements from the typed fields: int32_data holds bit patterns of the narrow dtypes."""
    name, count = dtype_name(dtype), prod(shape)
    field_name = _FIELDS.get(name, "int32_data")
    entries = getattr(tensor, field_name)
    bits = packed_bits(dtype)
    packs_bytes = bits in (2, 4)
    expected = packed_size_bytes(dtype, count) if packs_bytes else count
    _check_count(len(entries), expected * (2 if dtype.kind == "c" else 1), shape, field_name, place)
    values = np.fromiter(entries, _FIELD_DTYPES[field_name], len(entries))
    if packs_bytes:
        return unpack_elements(values.astype(np.uint8), dtype, shape)
    return np.reshape(_narrow(values, dtype), shape)


def _narrow(values: Array, dtype: DType) -> Array:
    """Entries of a typed field as elements: the low bits are the element, whatever its dtype."""
    if dtype.kind == "b":
        return np.not_equal(values, 0)
    if dtype.itemsize >= values.itemsize:
        return values.view(dtype)
    bits = values.astype(f"u{dtype.itemsize}")
    if packed_bits(dtype) < 8:
        bits &= np.uint8((1 << packed_bits(dtype)) - 1)
    narrow: Array = bits.view(dtype)
    return narrow


def _external_array(
    tensor: onnx.TensorProto, file: OnnxFile, dtype: DType, shape: tuple[int, ...]
) -> Array:
    place = f"tensor {tensor.name!r}, {file.place}"
    if dtype == DTYPES["string"]:
        raise ModelError(f"strings cannot be external data, {place}")
    expected = packed_size_bytes(dtype, prod(shape))
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if file.data is not None and entries.get("location") == file.token:
        if int(entries["length"]) != expected:
            raise ModelError(_size_message(dtype, shape, expected, int(entries["length"]), place))
        return _decode(file.data, dtype, shape, int(entries["offset"]))
    stretch = locate_external(tensor, file.base_dir, place)
    if stretch.length_bytes is not None and stretch.length_bytes != expected:
        raise ModelError(_size_message(dtype, shape, expected, stretch.length_bytes, place))
    if expected == 0:
        return _decode(b"", dtype, shape, 0)
    end = stretch.offset_bytes + expected
    if end > stretch.file_bytes:
        raise ModelError(
            f"external data ends at byte {end} of {str(stretch.path)!r}, which has "
            f"{stretch.file_bytes}: truncated? {place}"
        )
    if stretch.path not in file.maps:
        file.maps[stretch.path] = stretch.map(place)
    return _decode(file.maps[stretch.path], dtype, shape, stretch.offset_bytes)


# --- sparse tensors ----------------------------------------------------------------------------


def sparse_array(sparse: onnx.SparseTensorProto, file: OnnxFile) -> Array:
    """A sparse tensor as a dense array.

    Raises: ModelError if its values, indices and shape do not fit each other.
    """
    place = f"sparse tensor {sparse.values.name!r}, {file.place}"
    values = tensor_array(sparse.values, file)
    shape = _checked_shape(sparse.dims, values.dtype, place)
    if values.ndim != 1:
        raise ModelError(f"the values of a sparse tensor have one axis: {values.shape}, {place}")
    positions = _flat_positions(tensor_array(sparse.indices, file), len(values), shape, place)
    try:
        fill = "" if values.dtype == DTYPES["string"] else 0
        dense = np.full(prod(shape), fill, values.dtype)
    except (MemoryError, ValueError) as error:
        raise ModelError(f"no memory for shape {shape}, {place}") from error
    dense[positions] = values
    return dense.reshape(shape)


def _flat_positions(indices: Array, count: int, shape: tuple[int, ...], place: str) -> Array:
    """Where each value goes in the flat dense array.

    Shapes: (count,) or (count, rank) -> (count,)
    """
    if code_of_dtype(indices.dtype) != onnx.TensorProto.INT64:
        raise ModelError(f"the indices of a sparse tensor are int64: {indices.dtype}, {place}")
    flat = indices.shape == (count,)
    if not flat and indices.shape != (count, len(shape)):
        raise ModelError(
            f"{count} values of shape {shape} need indices of shape {(count,)} or "
            f"{(count, len(shape))}: found {indices.shape}, {place}"
        )
    limits = np.array([prod(shape)] if flat else shape, np.int64)
    rows = indices.reshape(count, len(limits))
    if ((rows < 0) | (rows >= limits)).any():
        raise ModelError(f"an index lies outside shape {shape}, {place}")
    positions = indices if flat else np.ravel_multi_index(tuple(indices.T), shape)
    positions = np.asarray(positions, np.int64).reshape(count)
    if len(np.unique(positions)) != count:
        raise ModelError(f"an index stands twice, {place}")
    return positions
