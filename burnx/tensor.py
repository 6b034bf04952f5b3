"""Tensor: what model code computes with.

A tensor belongs to a recorder: a graph being captured, or a program being built.  Its methods ask the recorder for
the operator of their name, so this file knows none.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from burnx.dtype import DType
from burnx.errors import CallError, TraceError
from burnx.shape import Shape
from burnx.types import TensorType, Type

Array = np.ndarray[Any, Any]


class Reference(Protocol):
    """What a recorder keeps of a tensor: its type and what is known of its value."""

    type: Type
    array: Array | None
    known: Array | None


class Recorder(Protocol):
    """Who records or evaluates what happens to its tensors.

    ``depth`` grows with nesting: of several recorders in one call the innermost takes it.  ``methods`` holds the
    functions behind the methods of ``Tensor``.
    """

    @property
    def depth(self) -> int: ...

    @property
    def methods(self) -> Mapping[str, Callable[..., Any]]: ...

    def call(self, operator: Any, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any: ...

    def constant(self, array: Array) -> Tensor: ...

    def shape_of(self, tensor: Tensor) -> Shape: ...

    def value_of(self, tensor: Tensor, reason: str) -> Array: ...


AMBIENT: ContextVar[Recorder | None] = ContextVar("burnx_recorder", default=None)


class Undetermined(Exception):
    """A program cannot be built further without the shape or value of something that is only known while running."""

    def __init__(self, reference: Any, what: str) -> None:
        super().__init__(f"the {what} of a tensor is only known while running")
        self.reference, self.what = reference, what


class Tensor:
    """A value in a model: dtype, shape, and operators on it under NumPy's names.

    ``shape`` holds ints, or symbolic dimensions while a model is captured with dynamic ones.
    """

    __slots__ = ("recorder", "ref")
    __array_priority__ = 1000

    def __init__(self, recorder: Recorder, ref: Reference) -> None:
        self.recorder, self.ref = recorder, ref

    @property
    def type(self) -> Type:
        return self.ref.type

    @property
    def dtype(self) -> DType:
        if not isinstance(self.ref.type, TensorType):
            raise TraceError(f"a {self.ref.type} has no dtype")
        return self.ref.type.dtype

    @property
    def shape(self) -> Shape:
        return self.recorder.shape_of(self)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def T(self) -> Tensor:
        return self.transpose()

    def numpy(self) -> Array:
        """The value as a NumPy array.

        Raises: TraceError while the tensor is being captured.
        """
        return self.recorder.value_of(self, "numpy()")

    def item(self) -> Any:
        """The value of a tensor of one element as a Python number.

        Raises: CallError if it has another number of elements.
        """
        return self._single("item()")

    def _single(self, reason: str) -> Any:
        value = self.recorder.value_of(self, reason)
        if value.size != 1:
            raise CallError(f"{reason} on a tensor of {value.size} elements is ambiguous")
        return value.item()

    def _method(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return self.recorder.methods[name](self, *args, **kwargs)

    if not TYPE_CHECKING:  # type checkers are to see that a name is not there

        def __getattr__(self, name: str) -> Any:
            if (
                name[0] == "_" or name in Tensor.__slots__
            ):  # NumPy asks for several on every conversion
                raise AttributeError(name)
            return self._method("getattr", name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        value = self.recorder.value_of(self, "conversion to an array")
        return value if dtype is None else value.astype(dtype)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """A function of NumPy's on what tensors are worth; their shapes are known anyway."""
        if function in (np.shape, np.ndim):
            return self.shape if function is np.shape else self.ndim
        reason = f"np.{function.__name__}()"
        return function(*to_numpy(args, reason), **to_numpy(kwargs, reason))

    def held(self) -> Any:
        """The value as an array where it lies: a device's, or one of NumPy."""
        held = getattr(self.recorder, "held", None)
        return held(self) if held is not None else self.recorder.value_of(self, "its value")

    def __dlpack__(self, **options: Any) -> Any:
        return self.held().__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.held().__dlpack_device__()

    @property
    def __cuda_array_interface__(self) -> Any:
        if self.recorder.depth >= 0:
            raise AttributeError("a tensor that is being captured has no memory")
        return self.held().__cuda_array_interface__

    def __bool__(self) -> bool:
        return bool(self._single("a decision"))

    def __int__(self) -> int:
        return int(self._single("int()"))

    def __float__(self) -> float:
        return float(self._single("float()"))

    def __index__(self) -> int:
        value = self._single("an index")
        if not isinstance(value, int):
            raise CallError(f"an index is a whole number, not {value!r}")
        return int(value)

    def __len__(self) -> int:
        if not self.shape:
            raise CallError("a tensor without axes has no length")
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Tensor]:
        return (self[index] for index in range(len(self)))

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"Tensor({self.ref.type})"

    def __setitem__(self, index: Any, value: Any) -> None:
        self.recorder.methods["setitem"](self, index, value)

    def __getitem__(self, index: Any) -> Tensor:
        return self._method("getitem", index)

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements under another shape; one size may be -1."""
        return self._method("reshape", *shape)

    def transpose(self, *axes: Any) -> Tensor:
        """Reorder the axes; reverse them if none are given."""
        return self._method("transpose", *axes)

    def swapaxes(self, first: int, second: int) -> Tensor:
        return self._method("swapaxes", first, second)

    def astype(self, dtype: Any) -> Tensor:
        """Convert to a dtype, given by name or as a NumPy dtype."""
        return self._method("astype", dtype)

    def flatten(self, start_axis: int = 0, end_axis: int = -1) -> Tensor:
        return self._method("flatten", start_axis, end_axis)

    def squeeze(self, axis: Any = None) -> Tensor:
        return self._method("squeeze", axis)

    def sum(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return self._method("sum", axis, keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return self._method("mean", axis, keepdims)

    def prod(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return self._method("prod", axis, keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return self._method("max", axis, keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return self._method("min", axis, keepdims)

    def argmax(self, axis: int = 0) -> Tensor:
        return self._method("argmax", axis)

    def argmin(self, axis: int = 0) -> Tensor:
        return self._method("argmin", axis)

    def clip(self, low: Any = None, high: Any = None) -> Tensor:
        return self._method("clip", low, high)

    def __add__(self, other: Any) -> Tensor:
        return self._method("add", other)

    def __radd__(self, other: Any) -> Tensor:
        return self._method("radd", other)

    def __sub__(self, other: Any) -> Tensor:
        return self._method("sub", other)

    def __rsub__(self, other: Any) -> Tensor:
        return self._method("rsub", other)

    def __mul__(self, other: Any) -> Tensor:
        return self._method("mul", other)

    def __rmul__(self, other: Any) -> Tensor:
        return self._method("rmul", other)

    def __truediv__(self, other: Any) -> Tensor:
        return self._method("div", other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return self._method("rdiv", other)

    def __pow__(self, other: Any) -> Tensor:
        return self._method("pow", other)

    def __rpow__(self, other: Any) -> Tensor:
        return self._method("rpow", other)

    def __mod__(self, other: Any) -> Tensor:
        return self._method("mod", other)

    def __matmul__(self, other: Any) -> Tensor:
        return self._method("matmul", other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return self._method("rmatmul", other)

    def __neg__(self) -> Tensor:
        return self._method("neg")

    def __abs__(self) -> Tensor:
        return self._method("abs")

    def __invert__(self) -> Tensor:
        return self._method("invert")

    def __and__(self, other: Any) -> Tensor:
        return self._method("and", other)

    def __or__(self, other: Any) -> Tensor:
        return self._method("or", other)

    def __xor__(self, other: Any) -> Tensor:
        return self._method("xor", other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __lt__(self, other: Any) -> Tensor:
        return self._method("less", other)

    def __le__(self, other: Any) -> Tensor:
        return self._method("less_or_equal", other)

    def __gt__(self, other: Any) -> Tensor:
        return self._method("greater", other)

    def __ge__(self, other: Any) -> Tensor:
        return self._method("greater_or_equal", other)

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]
        return self._method("equal", other)

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]
        return self._method("not_equal", other)


def recorder_of(values: Sequence[Any]) -> Recorder | None:
    """The innermost recorder among those of ``values`` and the ambient one."""
    found = AMBIENT.get()
    for value in values:
        if isinstance(value, (list, tuple)):
            inner = recorder_of(value)
        else:
            inner = value.recorder if isinstance(value, Tensor) else None
        if inner is not None and (found is None or inner.depth > found.depth):
            found = inner
    return found


def to_numpy(value: Any, reason: str = "numpy()") -> Any:
    """``value`` with arrays in place of tensors, in lists, tuples and maps too; ``reason`` is who asks for them."""
    if isinstance(value, (list, tuple)):
        return [to_numpy(item, reason) for item in value]
    if isinstance(value, Mapping):
        return {key: to_numpy(item, reason) for key, item in value.items()}
    return value.recorder.value_of(value, reason) if isinstance(value, Tensor) else value


SCRIPTED = "_burnx_scripted"  # a name of code that ``script`` rewrote
_HERE = str(Path(__file__).parent)


def _calling() -> FrameType:
    """The innermost frame whose code is not burnx's own."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return frame


def called_name() -> str:
    """``np.tanh()``: what the innermost code that is not burnx's own calls, as far as its text says."""
    frame = _calling()
    place = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    line, last, start, end = place
    if line is None or line != last:
        return ""
    text = linecache.getline(frame.f_code.co_filename, line).encode()[start:end]
    try:
        call = ast.parse(text.decode().strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return ""
    match call:
        case ast.Call(ast.Name() | ast.Attribute() as function):
            return f"{ast.unparse(function)}()"
    return ""


def is_caller_scripted() -> bool:
    """Whether the innermost code that is not burnx's own was rewritten by ``script``."""
    return SCRIPTED in _calling().f_code.co_names


def caller() -> str:
    """``file.py:LINE`` of the innermost code that is not burnx's own."""
    frame = _calling()
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
