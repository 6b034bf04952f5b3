"""Values that stand on the command line themselves: ``n=5``, ``rate=0.5``, ``flag=true``, ``sizes=[2, 3]``."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from burnx.dtype import DType, dtype_name, is_float, is_integer
from burnx.errors import UsageError

Array = np.ndarray[Any, Any]


def is_list(text: str) -> bool:
    """Whether a REST is a list of values, which no shape and no file is."""
    return text.startswith("[")


def read_value(text: str, dtype: DType) -> Array:
    """A number, true, false, a text, or a list of them in brackets, as an array of ``dtype``.

    Raises: UsageError if it is none, or no such dtype holds it as it is.
    """
    if dtype_name(dtype) == "string" and not text.startswith(("[", '"')):
        return np.array(text, object)
    try:
        found = json.loads(text)
        shape = np.shape(found)
    except ValueError:
        raise UsageError(
            f"a value is a number, true, false, or a list of them ([1, 2]); found {text!r}"
        ) from None
    array = np.empty(shape, object)
    array[...] = found
    if not all(_is_held(item, dtype) for item in array.flat):
        raise UsageError(f"{text} is no value of dtype {dtype_name(dtype)}")
    return array.astype(dtype)


def _is_held(item: Any, dtype: DType) -> bool:
    """Whether a dtype holds a value of JSON; a float may be rounded."""
    if isinstance(item, bool):
        return dtype.kind == "b"
    if isinstance(item, str):
        return dtype_name(dtype) == "string"
    if is_integer(dtype):
        return isinstance(item, int) and _is_in_range(item, dtype)
    return is_float(dtype) and isinstance(item, (int, float))


def _is_in_range(item: int, dtype: DType) -> bool:
    try:
        return int(np.array(item, object).astype(dtype)) == item
    except OverflowError:
        return False
