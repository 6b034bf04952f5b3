"""Types that cover others: what two branches, or two turns of a loop, have in common."""

from __future__ import annotations

from collections.abc import Callable

from burnx.errors import ModelError
from burnx.shape import Dim
from burnx.types import OptionalType, SequenceType, TensorType, Type


def join_types(left: Type, right: Type) -> Type:
    """The least type that covers both; a size of None stands for sizes that differ.

    Raises: ModelError if they have nothing in common.
    """
    if left == right:
        return left
    if isinstance(left, TensorType) and isinstance(right, TensorType):
        if left.dtype == right.dtype:
            return _join_tensors(left, right)
    elif isinstance(left, SequenceType) and isinstance(right, SequenceType):
        return SequenceType(_without_sizes(join_types(left.element, right.element)))
    elif isinstance(left, OptionalType) or isinstance(right, OptionalType):
        # what is there is an optional that holds it
        inner = (each.element if isinstance(each, OptionalType) else each for each in (left, right))
        return OptionalType(_without_sizes(join_types(*inner)))
    raise ModelError(f"two branches, or two turns of a loop, give {left} and {right}")


def _join_tensors(left: TensorType, right: TensorType) -> TensorType:
    if left.shape is None or right.shape is None or len(left.shape) != len(right.shape):
        return TensorType(left.dtype, None)
    dims = tuple(a if a == b else None for a, b in zip(left.shape, right.shape, strict=True))
    return TensorType(left.dtype, dims)  # type: ignore[arg-type]


def _without_sizes(kind: Type) -> Type:
    """An element's type: nothing binds the sizes of elements, so one that is not known leaves none."""
    if isinstance(kind, TensorType) and kind.shape is not None and None in kind.shape:
        return TensorType(kind.dtype, None)
    return kind


def opened(kind: Type) -> Type:
    """``kind`` with None for each size that is not a number."""
    if not isinstance(kind, TensorType) or kind.shape is None:
        return kind
    dims = tuple(dim if isinstance(dim, int) else None for dim in kind.shape)
    return TensorType(kind.dtype, dims)  # type: ignore[arg-type]


def closed(kind: Type, fresh: Callable[[], Dim]) -> Type:
    """``kind`` with a ``fresh`` size for each that is None."""
    if not isinstance(kind, TensorType) or kind.shape is None:
        return kind
    dims = (fresh() if dim is None else dim for dim in kind.shape)
    return TensorType(kind.dtype, tuple(dims))
