"""Values that go through captured control flow: which of them are tensors, and what surely stays the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from burnx.capture.recorder import GraphRecorder
from burnx.dtype import DType, as_array
from burnx.errors import CallError, TraceError
from burnx.ops import find
from burnx.ops.operator import fitting, own_array
from burnx.shape import Expr
from burnx.tensor import Tensor
from burnx.types import TensorType


class Unset:
    """What a variable without a value is given as."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "no value"


UNSET = Unset()


@dataclass(frozen=True, slots=True)
class Site:
    """A branch or loop of a function: its line, the variables that it gives, and the lists that it appends to.

    ``effect`` says what it changes in place, which cannot be captured; ``breaks`` whether its turns say if there is another.
    """

    place: str
    names: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    effect: str = ""
    breaks: bool = False

    def refuse(self, rule: str) -> TraceError:
        return TraceError(f"{self.place}: {rule}")

    def label(self, number: int, count: int) -> str:
        return repr(self.names[number]) if len(self.names) == count else "what it gives"

    def check_effect(self) -> None:
        """Raises: TraceError if something is changed in place, which would happen once, while it is captured."""
        if self.effect:
            raise self.refuse(
                f"a branch or loop that depends on a tensor gives new values, but {self.effect}; "
                "assign a variable instead (appending is for loops, once in each turn)"
            )


@dataclass(frozen=True, slots=True)
class Items:
    """A list that a captured loop has grown: how long it is, is known while running only.

    A part is a tensor of several items along its first axis, or (``True``) one item.
    """

    parts: tuple[tuple[Any, bool], ...]

    def _refuse(self, *_: Any) -> Any:
        raise TraceError(
            "a list that a captured loop appended to has no length yet; burnx.stack(it) is one tensor, "
            "whose items a for under @burnx.script goes over"
        )

    __iter__ = __len__ = __getitem__ = __bool__ = append = extend = _refuse


@dataclass(slots=True)
class Growing:
    """The list that one turn of a captured loop sees: it can only be appended to."""

    items: list[Any] = field(default_factory=list)

    def append(self, item: Any) -> None:
        self.items.append(item)

    def _refuse(self, *_: Any) -> Any:
        raise TraceError(
            "a list that a captured loop appends to cannot be read inside of it: "
            "carry what is needed from turn to turn in a variable"
        )

    __iter__ = __len__ = __getitem__ = __bool__ = extend = insert = pop = _refuse


# ------------------------------------------------------------------------------- structure
def structure(value: Any) -> Any:
    """The lists, tuples and dicts around the leaves of a value."""
    if isinstance(value, Items):
        return Items, tuple(single for _, single in value.parts)
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(structure, value))
    if isinstance(value, dict):
        return dict, tuple((key, structure(each)) for key, each in value.items())
    return None


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Items):
        yield from (part for part, _ in value.parts)
    elif isinstance(value, (list, tuple)):
        yield from (leaf for each in value for leaf in leaves(each))
    elif isinstance(value, dict):
        yield from (leaf for each in value.values() for leaf in leaves(each))
    else:
        yield value


def rebuilt(value: Any, new: Iterator[Any]) -> Any:
    """``value`` with other leaves."""
    if isinstance(value, Items):
        return Items(tuple((next(new), single) for _, single in value.parts))
    if isinstance(value, (list, tuple)):
        items = [rebuilt(each, new) for each in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: rebuilt(each, new) for key, each in value.items()}
    return next(new)


# ------------------------------------------------------------------------------- leaves
def is_number(value: Any) -> bool:
    """Whether a leaf is a Python number, which takes the dtype of what it meets."""
    return isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic)


def is_worth(value: Any) -> bool:
    """Whether a leaf can be a tensor."""
    return isinstance(value, (Tensor, np.ndarray, np.generic, Expr)) or is_number(value)


def is_same(left: Any, right: Any) -> bool:
    """Whether two leaves are surely one value."""
    if left is right:
        return True
    plain = (bool, int, float, str, bytes)
    return type(left) is type(right) and isinstance(left, plain) and left == right


def dtype_of(value: Any) -> DType | None:
    """The dtype that a leaf has of itself."""
    if isinstance(value, Tensor):
        return value.type.dtype if isinstance(value.type, TensorType) else None
    if isinstance(value, (np.ndarray, np.generic)):
        return as_array(value).dtype
    return np.dtype(np.int64) if isinstance(value, Expr) else None


def as_tensor(recorder: GraphRecorder, value: Any, wanted: DType | None = None) -> Tensor:
    """A leaf as a tensor; a Python number as ``wanted``, else float32, int64 or bool."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Expr):
        with recorder.ambient():
            found = recorder.constant_of(value)
        assert found is not None
        return found
    array = as_array(value)
    if is_number(value):
        usual = np.dtype(np.float32) if array.dtype == np.float64 else array.dtype
        array = fitting(array, wanted or usual, "a branch or loop")
    return recorder.constant(own_array(array))


def joined_dtype(values: Sequence[Any]) -> DType | None:
    """The dtype that the numbers among leaves in the same place take: that of the tensors there."""
    found = [dtype for each in values if (dtype := dtype_of(each)) is not None]
    if not found and any(isinstance(each, float) for each in values):
        return np.dtype(np.float32)
    if not found and not all(isinstance(each, bool) for each in values):
        return np.dtype(np.int64)
    return found[0] if found else None


# ------------------------------------------------------------------------------- stack
def stack(values: Any, axis: int = 0) -> Tensor:
    """Tensors of one shape as one, along a new axis; also a list that a captured loop has appended to.

    Raises: CallError if there are none.
    """
    if isinstance(values, Tensor):
        return find("", "ConcatFromSequence")(values, axis=axis, new_axis=1)
    parts = values.parts if isinstance(values, Items) else [(each, True) for each in values]
    if not parts:
        raise CallError("stack() takes one tensor at least")
    if not isinstance(values, Items):
        return _concat([_unsqueezed(part, axis) for part, _ in parts], axis)
    found = _concat([_unsqueezed(part, 0) if single else part for part, single in parts], 0)
    if axis == 0 or axis == -found.ndim:  # the first axis needs no rank, which may not be known
        return found
    place = axis % found.ndim
    rest = range(place + 1, found.ndim)
    return found.transpose(*range(1, place + 1), 0, *rest)


def _unsqueezed(value: Any, axis: int) -> Tensor:
    return find("", "Unsqueeze")(value, [axis])


def _concat(parts: Sequence[Tensor], axis: int) -> Tensor:
    return parts[0] if len(parts) == 1 else find("", "Concat")(*parts, axis=axis)
