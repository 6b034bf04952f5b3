"""What the ``inputs`` of a module say, as types, and the check of what it is called with."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, reduce
from typing import Any

from burnx.builder import join_types
from burnx.builder.joining import opened
from burnx.capture.inputs import (
    check_dtype,
    check_shape,
    check_value,
    match_inputs,
    parse_dim,
)
from burnx.capture.lazy import default_recorder, tensor
from burnx.dtype import dtype_name, parse_dtype
from burnx.errors import InputError, UnsupportedError
from burnx.graph import Value
from burnx.nn.module import Input, Module, Output, device_of
from burnx.runtime.device import enter
from burnx.shape import Dim, symbol, symbols
from burnx.tensor import Tensor, to_numpy
from burnx.types import MapType, OptionalType, SequenceType, TensorType, Type

_WRAP: dict[str, Callable[[Type], Type]] = {"sequence": SequenceType, "optional": OptionalType}


def declared_type(entry: Input | Output) -> Type:
    """The type of a declared input or output."""
    dims = (
        None if entry.dims is None else tuple(_dim(entry, *pair) for pair in enumerate(entry.dims))
    )
    words = entry.kind.replace(")", "").split("(")
    dtype = parse_dtype(entry.dtype)
    kind: Type = TensorType(dtype, dims)
    if "map" in words:  # the dtype is that of its keys
        value = words.pop() if words[-1] != "map" else "float32"
        kind = MapType(dtype, TensorType(parse_dtype(value), ()))
    for word in reversed(words):
        kind = _WRAP[word](kind) if word in _WRAP else kind
    return kind


def entry_of(name: str, kind: Type) -> Output:
    """The declaration of an output of a type; a size without a name is None.

    Raises: UnsupportedError for a map to more than numbers and strings.
    """
    words: list[str] = []
    while isinstance(kind, SequenceType | OptionalType):
        words.append("sequence" if isinstance(kind, SequenceType) else "optional")
        kind = kind.element
    dtype, dims = kind.key if isinstance(kind, MapType) else kind.dtype, None
    if isinstance(kind, MapType):
        if not isinstance(kind.value, TensorType):
            raise UnsupportedError(f"maps go to numbers and strings only, not to {kind.value}")
        words += ["map", dtype_name(kind.value.dtype)]
    elif kind.shape is not None:
        dims = tuple(map(_declared_dim, kind.shape))
    return Output(
        name, dtype_name(dtype), dims, "(".join(words) + ")" * (len(words) - 1) or "tensor"
    )


def _declared_dim(dim: Dim | None) -> int | str | None:
    if dim is None or isinstance(dim, int):
        return dim
    return None if any(name.startswith("_") for name in symbols(dim)) else str(dim)


def _dim(entry: Input | Output, axis: int, dim: int | str | None) -> Dim:
    if dim is None:
        return symbol(f"_{entry.name}_{axis}")
    return dim if isinstance(dim, int) else parse_dim(dim)


def parameter_name(entry: Input) -> str:
    """The parameter of ``forward`` that an input is."""
    return entry.parameter or entry.name


def check_call(
    module: Module, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call, as the module declares them.

    Raises: InputError if a name, dtype or shape is not what it declares.
    """
    entries = {entry.name: entry for entry in type(module).inputs}
    parameters = {parameter_name(entry): name for name, entry in entries.items()}
    parameters = {key: name for key, name in parameters.items() if key != name}
    given = match_inputs(list(entries), args, type(module).__name__, kwargs, parameters)
    named = list(given)[len(args) :]
    sizes: dict[str, int] = {}
    where = device_of(module)
    for name, value in given.items():
        if not isinstance(value, Tensor):
            given[name] = enter(name, value, where)
    checked = {name: _check(entry, given.get(name), sizes) for name, entry in entries.items()}
    if _takes_any_number(type(module).forward):
        return list(checked.values()), {}
    names = list(entries)[: len(args)]
    return [checked[name] for name in names], {
        parameter_name(entries[name]): checked[name] for name in named
    }


@lru_cache(maxsize=256)
def _takes_any_number(function: Callable[..., Any]) -> bool:
    kinds = [each.kind for each in inspect.signature(function).parameters.values()]
    return inspect.Parameter.VAR_POSITIONAL in kinds


def _check(entry: Input, value: Any, sizes: dict[str, int]) -> Any:
    kind = declared_type(entry)
    if value is None:
        if not entry.optional and not isinstance(kind, OptionalType):
            raise InputError(f'input "{entry.name}" ({kind}) is missing')
        return None
    if isinstance(kind, OptionalType):
        kind = kind.element
    if isinstance(kind, SequenceType):
        return value if isinstance(value, Tensor) else _sequence(entry, kind, value)
    if isinstance(kind, MapType):
        return value if isinstance(value, Tensor) else _held(entry, kind, value)
    assert isinstance(kind, TensorType)
    if not isinstance(value, Tensor):
        return tensor(check_value(entry.name, kind, value, sizes))
    check_dtype(entry.name, kind, value.dtype)
    if kind.shape == () and value.shape == (1,):
        value = value.reshape([])  # NumPy's ascontiguousarray makes this of a scalar
    check_shape(entry.name, kind, tuple(int(dim) for dim in value.shape), sizes)
    return value


def _held(entry: Input, kind: MapType, value: Any) -> Tensor:
    """A dict as a tensor of the kind that holds one."""
    items: Any = check_value(entry.name, kind, value, {})
    return Tensor(default_recorder(), Value(kind, entry.name, array=items))


def _sequence(entry: Input, kind: SequenceType, value: Any) -> Tensor:
    """A list as a tensor of the kind that holds one."""
    if not isinstance(value, (list, tuple)):
        raise InputError(f'input "{entry.name}" is a sequence, not {type(value).__name__}')
    items: Any = check_value(entry.name, kind, to_numpy(value), {})
    if not isinstance(kind.element, TensorType):
        return Tensor(default_recorder(), Value(kind, entry.name, array=items))
    types: list[Type] = [TensorType(each.dtype, each.shape) for each in items]
    joined = SequenceType(reduce(join_types, types) if types else opened(kind.element))
    return Tensor(default_recorder(), Value(joined, entry.name, array=items))
