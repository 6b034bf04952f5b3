"""Weights: safetensors files, read through a map and written one tensor at a time.

The header is parsed here, since the format's NumPy module knows no float8 and no 4-bit dtype.  What
the format has no name for is written as U8: its dtype and shape stand in the file's metadata, as
JSON under ``burnx.packed``.  Text is a JSON list of all its elements.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np

from burnx.dtype import DTYPES, DType, as_array, dtype_name, packed_bits, string
from burnx.errors import BurnxError, DTypeError, WeightsError
from burnx.files import atomic_write, fits_memory, guess_kind, map_file, view_array
from burnx.packing import pack_elements, packed_size_bytes, unpack_elements

Array: TypeAlias = "np.ndarray[Any, Any]"

PACKED_KEY = "burnx.packed"
MAX_HEADER_BYTES = 100_000_000

# Source: safetensors 0.8, enum Dtype
_NATIVE: dict[str, DType] = {
    code: DTYPES[name]
    for code, name in {
        "BOOL": "bool",
        "F4": "float4_e2m1fn",
        "F6_E2M3": "float6_e2m3fn",
        "F6_E3M2": "float6_e3m2fn",
        "U8": "uint8",
        "I8": "int8",
        "F8_E5M2": "float8_e5m2",
        "F8_E4M3": "float8_e4m3fn",
        "F8_E8M0": "float8_e8m0fnu",
        "F8_E4M3FNUZ": "float8_e4m3fnuz",
        "F8_E5M2FNUZ": "float8_e5m2fnuz",
        "I16": "int16",
        "U16": "uint16",
        "F16": "float16",
        "BF16": "bfloat16",
        "I32": "int32",
        "U32": "uint32",
        "F32": "float32",
        "C64": "complex64",
        "F64": "float64",
        "I64": "int64",
        "U64": "uint64",
    }.items()
}
_CODES = {dtype: code for code, dtype in _NATIVE.items() if packed_bits(dtype) >= 8}


class TensorNotFound(WeightsError, KeyError):
    """A file of weights has no tensor of this name."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """What a header says of one tensor; ``offset_bytes`` counts from the start of the file."""

    dtype: DType
    shape: tuple[int, ...]
    offset_bytes: int
    size_bytes: int

    @property
    def end_bytes(self) -> int:
        return self.offset_bytes + self.size_bytes


class Weights(Mapping[str, Array]):
    """The tensors of one safetensors file by name; an array is mapped when it is asked for.

    Arrays are read-only views of the file.  Only packed dtypes and unaligned tensors are copied.
    """

    __slots__ = ("_buffer", "metadata", "path", "specs")

    def __init__(
        self,
        path: Path,
        specs: Mapping[str, TensorSpec],
        metadata: Mapping[str, str],
        buffer: mmap.mmap,
    ) -> None:
        self.path = path
        self.specs = specs
        self.metadata = metadata
        self._buffer = buffer

    def __getitem__(self, name: str) -> Array:
        spec = self.specs.get(name)
        if spec is None:
            from difflib import get_close_matches

            close = get_close_matches(name, self.specs, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise TensorNotFound(f"file {str(self.path)!r} has no tensor {name!r}{hint}")
        if packed_bits(spec.dtype) >= 8 and spec.dtype != string:
            return view_array(self._buffer, spec.dtype, spec.shape, spec.offset_bytes)
        size = (spec.size_bytes,)
        packed = view_array(self._buffer, DTYPES["uint8"], size, spec.offset_bytes)
        if spec.dtype == string:
            return _read_words(packed, spec.shape, f"tensor {name!r}, file {str(self.path)!r}")
        array = unpack_elements(packed, spec.dtype, spec.shape)
        array.flags.writeable = False
        return array

    def __contains__(self, name: object) -> bool:
        return name in self.specs

    def __iter__(self) -> Iterator[str]:
        return iter(self.specs)

    def __len__(self) -> int:
        return len(self.specs)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"Weights({str(self.path)!r}, {len(self)} tensors)"


# --- reading -----------------------------------------------------------------------------------


def open_weights(path: str | os.PathLike[str]) -> Weights:
    """Map a safetensors file; its header is checked whole, no tensor is read.

    Raises: WeightsError that names the file, and the tensor where there is one.
    """
    file = Path(path)
    buffer = map_file(file, WeightsError)
    where = f"file {str(file)!r}"
    header, start = _parse_header(buffer, where)
    metadata = _read_metadata(header.pop("__metadata__", {}), where)
    specs = {name: _read_spec(name, entry, start, where) for name, entry in header.items()}
    _check_coverage(specs, start, len(buffer), where)
    for name, entry in _read_packed(metadata.pop(PACKED_KEY, "{}"), where).items():
        specs[name] = _packed_spec(name, entry, specs, where)
    return Weights(file, specs, metadata, buffer)


def _parse_header(buffer: mmap.mmap, where: str) -> tuple[dict[str, Any], int]:
    """The header as a dict, and where the data starts."""
    length = int.from_bytes(buffer[:8], "little")
    if len(buffer) < 8 or length > MAX_HEADER_BYTES or buffer[8:9] != b"{":
        kind = guess_kind(buffer[:512])
        seems = f"; it seems to be {kind}" if kind and "safetensors" not in kind else ""
        raise WeightsError(f"{where} is not a safetensors file{seems}")
    if 8 + length > len(buffer):
        raise WeightsError(
            f"{where} is truncated: its header takes {8 + length} bytes, the file has {len(buffer)}"
        )
    try:
        text = buffer[8 : 8 + length].decode("utf-8")
        header = json.loads(text, object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as error:
        raise WeightsError(f"{where}: the safetensors header is damaged: {error}") from error
    return header, 8 + length


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("a key stands twice")
    return entries


def _read_metadata(entry: Any, where: str) -> dict[str, str]:
    if isinstance(entry, dict) and all(isinstance(value, str) for value in entry.values()):
        return dict(entry)
    raise WeightsError(f"{where}: __metadata__ must map strings to strings")


def _read_spec(name: str, entry: Any, start: int, where: str) -> TensorSpec:
    place = f"tensor {name!r}, {where}"
    keys = {"dtype", "shape", "data_offsets"}
    if not isinstance(entry, dict) or set(entry) != keys:
        raise WeightsError(f"an entry has dtype, shape and data_offsets, {place}")
    code, offsets = entry["dtype"], entry["data_offsets"]
    if not isinstance(code, str) or code not in _NATIVE:
        raise WeightsError(f"dtype {code!r} is not known, {place}")
    dtype = _NATIVE[code]
    shape = _read_shape(entry["shape"], dtype, place)
    if not _are_counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise WeightsError(f"data_offsets {offsets!r} are not a begin and an end, {place}")
    size = offsets[1] - offsets[0]
    bits = prod(shape) * packed_bits(dtype)
    if size * 8 != bits:
        raise WeightsError(f"{code} of shape {shape} takes {bits / 8:g} bytes, not {size}, {place}")
    return TensorSpec(dtype, shape, start + offsets[0], size)


def _read_shape(entry: Any, dtype: DType, place: str) -> tuple[int, ...]:
    if not _are_counts(entry):
        raise WeightsError(f"shape {entry!r} is not a list of sizes, {place}")
    if not fits_memory(tuple(entry), dtype.itemsize):
        raise WeightsError(f"shape {entry!r} is too large, {place}")
    return tuple(entry)


def _are_counts(entry: Any) -> bool:
    return isinstance(entry, list) and all(type(item) is int and item >= 0 for item in entry)


def _check_coverage(specs: Mapping[str, TensorSpec], start: int, end: int, where: str) -> None:
    """The tensors follow each other without gap or overlap up to the end of the file."""
    last, position = "the header", start
    for name, spec in sorted(
        specs.items(), key=lambda item: (item[1].offset_bytes, item[1].end_bytes)
    ):
        if spec.end_bytes > end:
            raise WeightsError(
                f"the data of tensor {name!r} ends at byte {spec.end_bytes}, "
                f"the file at {end}: truncated? {where}"
            )
        if spec.offset_bytes != position:
            fault = "overlaps" if spec.offset_bytes < position else "leaves a gap after"
            raise WeightsError(f"the data of tensor {name!r} {fault} {last}, {where}")
        last, position = f"tensor {name!r}", spec.end_bytes
    if position != end:
        raise WeightsError(f"{end - position} bytes belong to no tensor at the end of {where}")


def _read_packed(text: str, where: str) -> dict[str, Any]:
    try:
        entries = json.loads(text, object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as error:
        raise WeightsError(f"{where}: metadata {PACKED_KEY!r} is damaged: {error}") from error
    if not isinstance(entries, dict):
        raise WeightsError(f"{where}: metadata {PACKED_KEY!r} must be a JSON object")
    return entries


def _packed_spec(name: str, entry: Any, specs: Mapping[str, TensorSpec], where: str) -> TensorSpec:
    """The spec of a tensor that the header calls U8 and the metadata by its true dtype."""
    place = f"packed tensor {name!r}, {where}"
    spec = specs.get(name)
    if spec is None or spec.dtype != DTYPES["uint8"]:
        raise WeightsError(f"the header has no U8 tensor of this name, {place}")
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape"}:
        raise WeightsError(f"metadata {PACKED_KEY!r} gives dtype and shape, {place}")
    code = entry["dtype"]
    if not isinstance(code, str) or code not in DTYPES:
        raise WeightsError(f"dtype {code!r} is not known, {place}")
    dtype = DTYPES[code]
    shape = _read_shape(entry["shape"], dtype, place)
    size = spec.size_bytes if dtype == string else packed_size_bytes(dtype, prod(shape))
    if size != spec.size_bytes:
        raise WeightsError(
            f"{code} of shape {shape} takes {size} bytes, not {spec.size_bytes}, {place}"
        )
    return TensorSpec(dtype, shape, spec.offset_bytes, size)


def _read_words(data: Array, shape: tuple[int, ...], place: str) -> Array:
    """The strings that ``data`` is the JSON of.

    Raises: WeightsError if it is that of anything else.
    """
    try:
        words = json.loads(data.tobytes())
    except (ValueError, RecursionError) as error:
        raise WeightsError(f"text is a JSON list of strings: {error}, {place}") from error
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise WeightsError(f"text is a JSON list of strings, {place}")
    if len(words) != prod(shape):
        raise WeightsError(f"shape {shape} has {prod(shape)} strings, not {len(words)}, {place}")
    array = np.empty(shape, string)
    array.reshape(-1)[:] = words
    array.flags.writeable = False
    return array


# --- writing -----------------------------------------------------------------------------------


def save_weights(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Array],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a safetensors file, one tensor in memory at a time; an old file is replaced at the end.

    Raises: WeightsError if a tensor or the metadata cannot be said in the format.
    """
    where = f"file {os.fspath(path)!r}"
    specs = _lay_out(tensors, where)
    header = _encode_header(specs, dict(metadata or {}), where)
    with atomic_write(path) as file:
        file.write(header)
        for name in sorted(specs, key=lambda name: specs[name].offset_bytes):
            _write_tensor(file, tensors[name], specs[name], f"tensor {name!r}, {where}")


def _lay_out(tensors: Mapping[str, Array], where: str) -> dict[str, TensorSpec]:
    """Where each tensor goes; the widest elements first, so that all are aligned without gaps."""
    kinds: dict[str, tuple[DType, tuple[int, ...]]] = {}
    for name in tensors:
        place = f"tensor {name!r}, {where}"
        if not isinstance(name, str) or name == "__metadata__":
            raise WeightsError(f"a tensor cannot have this name, {place}")
        kinds[name] = _checked_kind(tensors[name], place)
    offset = 0
    placed: dict[str, TensorSpec] = {}
    for name in sorted(kinds, key=lambda name: -_alignment(kinds[name][0])):
        dtype, shape = kinds[name]
        size = (
            len(_words(tensors[name], f"tensor {name!r}, {where}"))
            if dtype == string
            else packed_size_bytes(dtype, prod(shape))
        )
        placed[name] = TensorSpec(dtype, shape, offset, size)
        offset = placed[name].end_bytes
    return {name: placed[name] for name in kinds}


def _checked_kind(tensor: Array, place: str) -> tuple[DType, tuple[int, ...]]:
    array = as_array(tensor)
    try:
        name = dtype_name(array.dtype)
    except DTypeError as error:
        raise WeightsError(f"{error}, {place}") from error
    return DTYPES[name], array.shape


def _alignment(dtype: DType) -> int:
    return dtype.itemsize if packed_bits(dtype) >= 8 and dtype != string else 0


def _encode_header(specs: Mapping[str, TensorSpec], metadata: dict[str, str], where: str) -> bytes:
    if not all(isinstance(text, str) for item in metadata.items() for text in item):
        raise WeightsError(f"metadata must map strings to strings, {where}")
    if PACKED_KEY in metadata:
        raise WeightsError(f"metadata key {PACKED_KEY!r} is burnx's own, {where}")
    packed = {
        name: {"dtype": dtype_name(spec.dtype), "shape": spec.shape}
        for name, spec in specs.items()
        if spec.dtype not in _CODES
    }
    if packed:
        metadata[PACKED_KEY] = json.dumps(packed, ensure_ascii=False)
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    header.update((name, _encode_spec(spec)) for name, spec in specs.items())
    try:
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    except UnicodeEncodeError as error:
        raise WeightsError(f"names and metadata must be legal Unicode: {error}, {where}") from error
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER_BYTES:
        raise WeightsError(
            f"the header takes {len(text)} bytes, more than safetensors allows, {where}"
        )
    return len(text).to_bytes(8, "little") + text


def _encode_spec(spec: TensorSpec) -> dict[str, Any]:
    native = spec.dtype in _CODES
    return {
        "dtype": _CODES[spec.dtype] if native else "U8",
        "shape": spec.shape if native else (spec.size_bytes,),
        "data_offsets": (spec.offset_bytes, spec.end_bytes),
    }


def _write_tensor(file: IO[bytes], tensor: Array, spec: TensorSpec, place: str) -> None:
    array = as_array(tensor)
    if array.dtype != spec.dtype or array.shape != spec.shape:
        raise BurnxError(f"the tensor changed while it was written, {place}")
    if spec.dtype == string:
        data = np.frombuffer(_words(array, place), np.uint8)
    elif packed_bits(spec.dtype) < 8:
        data = pack_elements(array)
    else:
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    file.write(data.data)


def _words(tensor: Array, place: str) -> bytes:
    """The elements of a tensor of strings as JSON."""
    words = as_array(tensor).reshape(-1).tolist()
    if not all(isinstance(word, str) for word in words):
        raise WeightsError(f"a tensor of objects holds strings only, {place}")
    return json.dumps(words, separators=(",", ":")).encode("ascii")
