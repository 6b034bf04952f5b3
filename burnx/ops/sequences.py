"""Sequences: lists of values.  They live in Python, so every operator here is a call of the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from burnx import waist
from burnx.builder import join_types
from burnx.dtype import dtype_name, dtype_of_code, float32, int64, is_integer
from burnx.errors import DTypeError, ModelError, ShapeError
from burnx.graph import Graph
from burnx.ops.kinds import Flag, I, S, T, V
from burnx.ops.movement import normal_axis
from burnx.ops.operator import REQUIRED, operator
from burnx.tensor import Tensor
from burnx.types import SequenceType, TensorType, Type

Array = np.ndarray[Any, Any]
LENGTH = TensorType(int64, ())


def element_type(kind: Type) -> Type:
    """A type for an element of a sequence: sizes that are not numbers are left open."""
    if not isinstance(kind, TensorType) or kind.shape is None:
        return kind
    dims = tuple(dim if isinstance(dim, int) else None for dim in kind.shape)
    return TensorType(kind.dtype, dims)  # type: ignore[arg-type]


def sequence_type(x: Tensor) -> SequenceType:
    """The type of a sequence, its elements' sizes left open.

    Raises: ModelError if it is none.
    """
    if not isinstance(x.type, SequenceType):
        raise ModelError(f"a sequence is needed here, not {x.type}")
    return SequenceType(element_type(x.type.element))


def _checked(kind: SequenceType, element: Type) -> SequenceType:
    """The type of a sequence with one more element."""
    own = kind.element
    if isinstance(own, TensorType) and isinstance(element, TensorType):
        if own.dtype != element.dtype:
            raise DTypeError(
                f"a sequence of {dtype_name(own.dtype)} has no place for {dtype_name(element.dtype)}"
            )
        return SequenceType(join_types(own, element_type(element)))
    return SequenceType(join_types(own, element))


def _call(
    name: str,
    function: Callable[..., Any],
    inputs: Sequence[Tensor | None],
    kind: Type,
) -> Tensor:
    return waist.host(name, lambda *values: [function(*values)], inputs, [kind])[0]


def _place(position: Array | None, length: int, end: int) -> int:
    """A position counted from the start, of ``end`` that there are; without one the last."""
    if position is None:
        return end - 1
    place = int(position.reshape(()))
    if not -length <= place < end:
        raise ShapeError(f"a sequence of {length} has no place {place}")
    return place + length if place < 0 else place


@operator("SequenceConstruct", since=(11,))
def sequence_construct(*inputs: T) -> S:
    """A sequence of these tensors.  Source: ONNX SequenceConstruct-11"""
    kind = SequenceType(element_type(inputs[0].type))
    for each in inputs[1:]:
        kind = _checked(kind, each.type)
    return _call("SequenceConstruct", lambda *items: list(items), inputs, kind)


@sequence_construct.infer
def _sequence_construct_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    return [SequenceType(TensorType(inputs[0].dtype, None))]


@operator("SequenceEmpty", since=(11,))
def sequence_empty(*, dtype: int | None = None) -> S:
    """A sequence of nothing, float32 unless a dtype is given.  Source: ONNX SequenceEmpty-11"""
    return _empty(TensorType(float32 if dtype is None else dtype_of_code(dtype), None))


def _empty(element: Type) -> Tensor:
    return _call("SequenceEmpty", list, [], SequenceType(element))


@operator("SequenceAt", since=(11,))
def sequence_at(input_sequence: S, position: I) -> T:
    """The element at a position, which counts from the end if negative.  Source: ONNX SequenceAt-11"""

    def at(items: list[Any], where: Array) -> Any:
        return items[_place(where, len(items), len(items))]

    kind = sequence_type(input_sequence).element
    return _call("SequenceAt", at, [input_sequence, position], kind)


@operator("SequenceInsert", since=(11,))
def sequence_insert(input_sequence: S, tensor: T, position: I | None = None) -> S:
    """A sequence with one more element, at the end or before a position.  Source: ONNX SequenceInsert-11"""

    def insert(items: list[Any], item: Any, where: Array | None) -> list[Any]:
        place = _place(where, len(items), len(items) + 1)
        return [*items[:place], item, *items[place:]]

    kind = _checked(sequence_type(input_sequence), tensor.type)
    return _call("SequenceInsert", insert, [input_sequence, tensor, position], kind)


@operator("SequenceErase", since=(11,))
def sequence_erase(input_sequence: S, position: I | None = None) -> S:
    """A sequence without its last element, or the one at a position.  Source: ONNX SequenceErase-11"""

    def erase(items: list[Any], where: Array | None) -> list[Any]:
        place = _place(where, len(items), len(items))
        if place < 0:
            raise ShapeError("an empty sequence has nothing to erase")
        return [*items[:place], *items[place + 1 :]]

    kind = sequence_type(input_sequence)
    return _call("SequenceErase", erase, [input_sequence, position], kind)


@operator("SequenceLength", since=(11,))
def sequence_length(input_sequence: S) -> I:
    """How many elements there are.  Source: ONNX SequenceLength-11"""
    sequence_type(input_sequence)
    return _call(
        "SequenceLength", lambda items: np.array(len(items), np.int64), [input_sequence], LENGTH
    )


@sequence_length.infer
def _sequence_length_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    return [LENGTH]


@operator("SplitToSequence", since=(11, 24))
def split_to_sequence(input: T, split: I | None = None, *, axis: int = 0, keepdims: Flag = 1) -> S:
    """The parts of a tensor along an axis: of size 1, of one size, or of the given sizes.

    ``keepdims`` of 0 drops the axis of parts of size 1, where no size is given.
    Source: ONNX SplitToSequence-24
    """
    place = normal_axis(axis, input.ndim)
    if split is not None and not is_integer(split.dtype):
        raise ModelError(f"the sizes of parts are integers, not {split.dtype}")
    dropped = split is None and not keepdims

    def cut(x: Array, sizes: Array | None) -> list[Array]:
        bounds = _bounds(sizes, x.shape[place])
        parts = [
            x[(slice(None),) * place + (slice(start, stop),)] for start, stop in pairwise(bounds)
        ]
        return [part.squeeze(place) for part in parts] if dropped else parts

    dims: list[Any] = list(input.shape)
    dims[place] = 1 if split is None else None
    if dropped:
        del dims[place]
    kind = SequenceType(element_type(TensorType(input.dtype, tuple(dims))))
    return _call("SplitToSequence", cut, [input, split], kind)


@split_to_sequence.infer
def _split_to_sequence_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    return [SequenceType(TensorType(inputs[0].dtype, None))]


def _bounds(sizes: Array | None, length: int) -> list[int]:
    """Where the parts of an axis begin and end."""
    if sizes is None:
        return list(range(length + 1))
    if sizes.ndim == 0:
        size = int(sizes)
        if size < 1:
            raise ShapeError(f"SplitToSequence makes parts of size 1 or more, not {size}")
        return [*range(0, length, size), length]
    if int(sizes.sum()) != length or int(sizes.min(initial=0)) < 0:
        raise ShapeError(f"the parts {sizes.tolist()} do not add up to {length}")
    return [0, *np.cumsum(sizes).tolist()]


@operator("ConcatFromSequence", since=(11,))
def concat_from_sequence(
    input_sequence: S,
    *,
    axis: int = REQUIRED,  # type: ignore[assignment]
    new_axis: Flag = 0,
) -> T:
    """The elements of a sequence joined along an axis, which is a new one if ``new_axis``.

    Source: ONNX ConcatFromSequence-11
    """
    kind = sequence_type(input_sequence).element
    if not isinstance(kind, TensorType):
        raise ModelError(f"ConcatFromSequence joins tensors, not {kind}")

    def join(items: list[Array]) -> Array:
        if not items:
            raise ShapeError("an empty sequence has nothing to join")
        return np.stack(items, axis) if new_axis else np.concatenate(items, axis)

    return _call("ConcatFromSequence", join, [input_sequence], _joined(kind, axis, bool(new_axis)))


def _joined(kind: TensorType, axis: int, new_axis: bool) -> TensorType:
    if kind.shape is None:
        return kind
    dims: list[Any] = list(kind.shape)
    rank = len(dims) + new_axis
    if not -rank <= axis < rank:
        raise ShapeError(f"an axis of rank {rank} is at least {-rank} and below {rank}, not {axis}")
    if new_axis:
        dims.insert(axis % rank, None)
    else:
        dims[axis % rank] = None
    return TensorType(kind.dtype, tuple(dims))


@operator("SequenceMap", since=(17,))
def sequence_map(
    input_sequence: S,
    *additional_inputs: V,
    body: Graph = REQUIRED,  # type: ignore[assignment]
) -> list[S]:
    """Run ``body`` on every element; other sequences go along with it, other tensors stay.

    Source: ONNX SequenceMap-17
    """
    given = [input_sequence, *additional_inputs]
    results = [_empty(element_type(value.type)) for value in body.outputs]

    def turn(iteration: Tensor, going: Tensor, *done: Tensor) -> list[Tensor]:
        items = [
            sequence_at(each, iteration) if isinstance(each.type, SequenceType) else each
            for each in given
        ]
        found = waist.inline(body, items)
        longer = [sequence_insert(*pair) for pair in zip(done, found, strict=True)]
        return [going, *longer]

    return waist.repeat(sequence_length(input_sequence), None, results, turn)
