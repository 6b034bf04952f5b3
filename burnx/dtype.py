"""Dtypes: NumPy and ml_dtypes dtypes under one set of names.

burnx uses ``numpy.dtype`` objects themselves.  Strings are ``dtype(object)`` and are called ``string``.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from burnx.errors import DTypeError, InputError

DType: TypeAlias = "np.dtype[Any]"

# name -> (numpy dtype, ONNX TensorProto code, bits an element takes when packed)
_TABLE: dict[str, tuple[Any, int, int]] = {
    "float32": (np.float32, 1, 32),
    "uint8": (np.uint8, 2, 8),
    "int8": (np.int8, 3, 8),
    "uint16": (np.uint16, 4, 16),
    "int16": (np.int16, 5, 16),
    "int32": (np.int32, 6, 32),
    "int64": (np.int64, 7, 64),
    "string": (np.object_, 8, 64),
    "bool": (np.bool_, 9, 8),
    "float16": (np.float16, 10, 16),
    "float64": (np.float64, 11, 64),
    "uint32": (np.uint32, 12, 32),
    "uint64": (np.uint64, 13, 64),
    "complex64": (np.complex64, 14, 64),
    "complex128": (np.complex128, 15, 128),
    "bfloat16": (ml_dtypes.bfloat16, 16, 16),
    "float8_e4m3fn": (ml_dtypes.float8_e4m3fn, 17, 8),
    "float8_e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, 18, 8),
    "float8_e5m2": (ml_dtypes.float8_e5m2, 19, 8),
    "float8_e5m2fnuz": (ml_dtypes.float8_e5m2fnuz, 20, 8),
    "uint4": (ml_dtypes.uint4, 21, 4),
    "int4": (ml_dtypes.int4, 22, 4),
    "float4_e2m1fn": (ml_dtypes.float4_e2m1fn, 23, 4),
    "float8_e8m0fnu": (ml_dtypes.float8_e8m0fnu, 24, 8),
    "uint2": (ml_dtypes.uint2, 25, 2),
    "int2": (ml_dtypes.int2, 26, 2),
    "float6_e2m3fn": (ml_dtypes.float6_e2m3fn, 27, 6),
    "float6_e3m2fn": (ml_dtypes.float6_e3m2fn, 28, 6),
}

DTYPES: dict[str, DType] = {name: np.dtype(row[0]) for name, row in _TABLE.items()}
_NAMES: dict[DType, str] = {dtype: name for name, dtype in DTYPES.items()}
_BY_CODE: dict[int, DType] = {row[1]: DTYPES[name] for name, row in _TABLE.items()}

float32, float64, float16 = DTYPES["float32"], DTYPES["float64"], DTYPES["float16"]
bfloat16 = DTYPES["bfloat16"]
int8, int16, int32, int64 = (DTYPES[name] for name in ("int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = (DTYPES[name] for name in ("uint8", "uint16", "uint32", "uint64"))
bool_, string = DTYPES["bool"], DTYPES["string"]

FLOATS = frozenset(DTYPES[name] for name in _TABLE if name.startswith(("float", "bfloat")))
INTEGERS = frozenset(DTYPES[name] for name in _TABLE if name.startswith(("int", "uint")))
SIGNED = frozenset(DTYPES[name] for name in _TABLE if name.startswith("int"))
COMPLEX = frozenset({DTYPES["complex64"], DTYPES["complex128"]})


def parse_dtype(name: str) -> DType:
    """The dtype of a NumPy or ml_dtypes name (``float32``, ``bfloat16``, ``int4``) or ``string``.

    Raises: DTypeError if there is none of that name.
    """
    if name in DTYPES:
        return DTYPES[name]
    raise DTypeError(f"no dtype is called {name!r}; known are {', '.join(DTYPES)}")


def dtype_name(dtype: DType) -> str:
    """The name of a dtype, such that ``parse_dtype(dtype_name(d)) == d``."""
    if dtype.kind in "OUST":
        return "string"
    name = _NAMES.get(dtype) or _NAMES.get(dtype.newbyteorder("="))
    if name is None:
        raise DTypeError(f"dtype {dtype} has no counterpart in ONNX")
    return name


def dtype_of_code(code: int) -> DType:
    """The dtype of an ONNX ``TensorProto.DataType`` code."""
    if code not in _BY_CODE:
        raise DTypeError(f"ONNX data type {code} is not known")
    return _BY_CODE[code]


def code_of_dtype(dtype: DType) -> int:
    """The ONNX ``TensorProto.DataType`` code of a dtype."""
    return _TABLE[dtype_name(dtype)][1]


def packed_bits(dtype: DType) -> int:
    """How many bits an element takes in a packed file (4 for ``int4``)."""
    return _TABLE[dtype_name(dtype)][2]


def is_float(dtype: DType) -> bool:
    return dtype in FLOATS


def is_integer(dtype: DType) -> bool:
    return dtype in INTEGERS


def is_complex(dtype: DType) -> bool:
    return dtype in COMPLEX


def is_low_precision(dtype: DType) -> bool:
    """Whether arithmetic on this float dtype is done in float32 and rounded at the end."""
    return dtype in FLOATS and dtype not in (float32, float64)


def compute_dtype(dtype: DType) -> DType:
    """The dtype in which arithmetic on ``dtype`` is carried out."""
    return float32 if is_low_precision(dtype) else dtype


def _is_foreign(value: Any) -> bool:
    """Whether another library's array is shared through dlpack and no other way that NumPy knows."""
    known = any(hasattr(value, name) for name in ("__array__", "__array_interface__"))
    return hasattr(value, "__dlpack__") and not known and not isinstance(value, type)


def as_array(value: Any) -> np.ndarray[Any, Any]:
    """``value`` as a NumPy array of a dtype that burnx knows; text becomes an object array of str.

    Raises: InputError if it is none, as a list of lists of different lengths.
    """
    try:
        array = np.from_dlpack(value) if _is_foreign(value) else np.asarray(value)
    except (BufferError, RuntimeError, TypeError, ValueError, LookupError, AttributeError) as error:
        raise InputError(f"a {type(value).__name__} that is no array: {error}") from error
    if array.dtype.kind in "UST":
        return array.astype(object)
    if not array.dtype.isnative:
        return array.astype(array.dtype.newbyteorder("="))
    return array
