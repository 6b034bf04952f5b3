"""Inputs as they are declared and as they are given: dims as text, types, and the check of values."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from burnx.dtype import DType, as_array, dtype_name, string
from burnx.errors import InputError
from burnx.runtime.device_array import DeviceArray
from burnx.shape import Dim, evaluate, shape_text, symbol, symbol_name, symbols
from burnx.tensor import to_numpy
from burnx.types import MapType, OptionalType, SequenceType, TensorType, Type

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST_DIM = 200


def parse_dim(text: str) -> Dim:
    """A dim name, or arithmetic on dim names such as ``past + seq``; any other text is one name."""
    # Python folds letters that ONNX tells apart
    if _PLAIN.fullmatch(text) or len(text) > _LONGEST_DIM or not text.isascii():
        return symbol(text)
    try:
        return _arithmetic(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return symbol(text)


def is_dim_name(text: str) -> bool:
    """Whether a text names a dim; ``?`` and the like do not."""
    return any(char.isalpha() for char in text)


def _arithmetic(node: ast.expr) -> Dim:
    if isinstance(node, ast.Name):
        return symbol(node.id)
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_arithmetic(node.operand)
    if isinstance(node, ast.BinOp):
        left, right = _arithmetic(node.left), _arithmetic(node.right)
        match node.op:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return left * right
            case ast.FloorDiv() if right != 0:
                return left // right
    raise ValueError("not arithmetic on names")


def check_value(name: str, kind: Type, given: Any, sizes: dict[str, int]) -> Any:
    """What is given for an input, as an array of its dtype and shape; ``sizes`` collects the dims seen so far.

    Raises: InputError naming the input.
    """
    if isinstance(kind, OptionalType):
        return None if given is None else check_value(name, kind.element, given, sizes)
    if given is None:
        raise InputError(f'input "{name}" ({kind}) is missing')
    if isinstance(kind, SequenceType):
        if not isinstance(given, (list, tuple)):
            raise InputError(f'input "{name}" is a sequence, not {type(given).__name__}')
        return [check_value(name, kind.element, item, {}) for item in given]
    if isinstance(kind, MapType):
        return check_map(name, kind, given)
    if isinstance(given, DeviceArray):
        return _check_placed(name, kind, given, sizes)
    array = as_array(to_numpy(given))
    if array.size == 0 and isinstance(given, (list, tuple)):
        array = array.astype(kind.dtype)  # an empty list says nothing of a dtype
    check_dtype(name, kind, array.dtype)
    check_texts(name, array)
    if kind.shape == () and array.shape == (1,):
        array = array.reshape(())  # NumPy's ascontiguousarray makes this of a scalar
    check_shape(name, kind, array.shape, sizes)
    return array


def check_texts(name: str, array: np.ndarray[Any, Any]) -> None:
    """Raises: InputError if an array of Python's objects has others than texts."""
    if array.dtype == string and not all(isinstance(item, str) for item in array.flat):
        raise InputError(f'input "{name}" is an array of str, which not all of its elements are')


def _check_placed(
    name: str, kind: TensorType, given: DeviceArray, sizes: dict[str, int]
) -> DeviceArray:
    check_dtype(name, kind, given.dtype)
    if kind.shape == () and given.shape == (1,):
        given = given.reshape(())
    check_shape(name, kind, given.shape, sizes)
    return given


def check_map(name: str, kind: MapType, given: Any) -> dict[Any, Any]:
    """What is given for a map: a dict whose keys and values are Python's or NumPy's own of its dtypes.

    Raises: InputError naming the input.
    """
    if not isinstance(given, Mapping):
        raise InputError(f'input "{name}" is a dict ({kind}), not {type(given).__name__}')
    key, value = _PYTHON[kind.key.kind], kind.value
    found: dict[Any, Any] = {}
    for each, item in given.items():
        if not isinstance(each, key) or isinstance(each, bool):
            raise InputError(f'input "{name}" is a {kind}: {each!r} is no key of it')
        if isinstance(value, TensorType):
            item = _map_item(name, kind, value.dtype, item)
        found[each if isinstance(each, str) else int(each)] = item
    return found


# what in Python is a key or value of a map, by the kind of its dtype
_PYTHON: dict[str, Any] = {
    "O": str,
    "i": (int, np.integer),
    "u": (int, np.integer),
    "f": (int, float, np.integer, np.floating),
}


def _map_item(name: str, kind: MapType, dtype: DType, item: Any) -> Any:
    """A value of a map: a float is rounded to its dtype."""
    if isinstance(item, np.ndarray) and item.size == 1:
        item = item.item()
    if not isinstance(item, _PYTHON[dtype.kind]) or isinstance(item, bool):
        raise InputError(f'input "{name}" is a {kind}: {item!r} is no value of it')
    return item if isinstance(item, str) else dtype.type(item).item()


def check_dtype(name: str, kind: TensorType, dtype: DType) -> None:
    """Raises: InputError unless a dtype is what was declared."""
    if dtype != kind.dtype:
        found = dtype_name(dtype) if dtype.kind != "O" else "an array of objects"
        raise InputError(
            f'input "{name}" is {dtype_name(kind.dtype)}, not {found}: burnx never casts silently'
        )


def match_inputs(
    names: Sequence[str],
    inputs: Sequence[Any],
    taker: str,
    named: Mapping[str, Any] | None = None,
    parameters: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Inputs that are given by position, and those that are given by name, by their names.

    ``parameters`` are further names of inputs.  Raises: InputError if ``taker`` has not as many, none of a name, or is
    given one twice.
    """
    if len(inputs) > len(names):
        raise InputError(
            f"{taker} takes {len(names)} inputs, not {len(inputs)}: {', '.join(names) or 'none'}"
        )
    found = dict(zip(names, inputs, strict=False))
    for key, value in named.items() if named else ():
        name = key if key in names else (parameters or {}).get(key, "")
        if not name:
            listed = ", ".join(input_words(names, parameters or {})) or "none"
            raise InputError(f'{taker} has no input "{key}"; it has {listed}')
        if name in found:
            raise InputError(f'{taker} is given its input "{name}" twice')
        found[name] = value
    return found


def by_name(
    inputs: Mapping[str, Any], names: Sequence[str], parameters: Mapping[str, str], taker: str
) -> dict[str, Any]:
    """Inputs by name, where some are given by the parameters that they are in source.

    Raises: InputError for a name that ``taker`` does not have, or an input that is given by both.
    """
    found: dict[str, Any] = {}
    for given, value in inputs.items():
        name = given if given in names else parameters.get(given)
        if name is None:
            listed = ", ".join(input_words(names, parameters)) or "none"
            raise InputError(f'{taker} has no input "{given}"; it has {listed}')
        if name in found:
            raise InputError(f'input "{name}" is given twice, by its name and its parameter')
        found[name] = value
    return found


def input_words(names: Sequence[str], parameters: Mapping[str, str]) -> list[str]:
    """The inputs as an error lists them: each with the parameter that it is in source, where that differs."""
    called = {name: parameter for parameter, name in parameters.items()}
    return [f"{name!r} (or {called[name]!r})" if name in called else repr(name) for name in names]


def check_names(inputs: Any, what: str) -> None:
    """Raises: InputError unless ``inputs`` is a mapping by name."""
    if not isinstance(inputs, Mapping):
        raise InputError(f"{what} is a dict by input name, not {type(inputs).__name__}")


def check_shape(name: str, kind: TensorType, shape: tuple[int, ...], sizes: dict[str, int]) -> None:
    """Raises: InputError unless a shape is what was declared, given the dims seen so far."""
    if kind.shape is None:
        return
    if shape == kind.shape:
        return
    if len(shape) != len(kind.shape):
        raise InputError(f'input "{name}" has shape {shape_text(kind.shape)}, not {shape}')
    for dim, size in zip(kind.shape, shape, strict=True):
        if isinstance(dim, int):
            if dim != size:
                raise _wrong_shape(name, kind, shape, {})
            continue
        own = symbol_name(dim)
        if own is not None and own not in sizes:
            sizes[own] = size
        elif symbols(dim) <= sizes.keys() and evaluate(dim, sizes) != size:
            raise _wrong_shape(name, kind, shape, {key: sizes[key] for key in sorted(symbols(dim))})


def _wrong_shape(
    name: str, kind: TensorType, shape: tuple[int, ...], sizes: Mapping[str, int]
) -> InputError:
    known = ", ".join(f"{key} = {size}" for key, size in sizes.items())
    wanted = shape_text(kind.shape)
    return InputError(
        f'input "{name}" has shape {wanted}, not {shape}{" with " + known if known else ""}'
    )
