"""If, Loop and Scan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from burnx import waist
from burnx.dtype import bool_, dtype_name
from burnx.errors import DTypeError, ModelError
from burnx.graph import Graph
from burnx.ops import arithmetic, movement
from burnx.ops.kinds import B, Count, Int64, V
from burnx.ops.movement import normal_axis
from burnx.ops.operator import REQUIRED, operator
from burnx.tensor import Tensor, recorder_of
from burnx.types import TensorType, Type


@operator("If", since=(1, 11, 13, 16, 19, 21, 23, 24, 25))
def if_(cond: B, *, then_branch: Graph, else_branch: Graph) -> list[V]:
    """The outputs of one of two graphs, which see the values around them.  Source: ONNX If-25"""
    if cond.dtype != bool_:
        raise DTypeError(f"If decides by a bool, not by {dtype_name(cond.dtype)}")
    return waist.branch(waist.reshape(cond, ()), then_branch, else_branch)


def _unsized(kind: Type) -> Type:
    return TensorType(kind.dtype, None) if isinstance(kind, TensorType) else kind


@if_.infer
def _if_types(
    inputs: Sequence[Type | None], attributes: Mapping[str, Any], count: int
) -> list[Type]:
    return [_unsized(value.type) for value in attributes["then_branch"].outputs]


@operator("Loop", since=(1, 11, 13, 16, 19, 21, 23, 24, 25))
def loop(m: Tensor | None, cond: B | None = None, *v_initial: V, body: Graph) -> list[V]:
    """Run ``body(iteration, condition, *state) -> (condition, *state, *items)`` up to ``m`` times.

    Gives the last state, then each item stacked along a new first axis.  Source: ONNX Loop-25
    """
    trips = None if m is None else waist.reshape(m, ())
    going = None if cond is None else waist.reshape(cond, ())
    return waist.repeat(trips, going, list(v_initial), body)


@loop.infer
def _loop_types(
    inputs: Sequence[Type | None], attributes: Mapping[str, Any], count: int
) -> list[Type]:
    return [_unsized(value.type) for value in attributes["body"].outputs[1:]]


def _axes(values: Sequence[int] | None, count: int, name: str) -> list[int]:
    if values is not None and len(values) != count:
        raise ModelError(f"{name} has a number for each of {count} values, not {list(values)}")
    return [0] * count if values is None else [int(value) for value in values]


@operator("Scan", since=(8, 9, 11, 16, 19, 21, 23, 24, 25))
def scan(
    *initial_state_and_scan_inputs: V,
    body: Graph,
    num_scan_inputs: Count = REQUIRED,  # type: ignore[assignment]
    scan_input_axes: Sequence[int] | None = None,
    scan_input_directions: Sequence[int] | None = None,
    scan_output_axes: Sequence[int] | None = None,
    scan_output_directions: Sequence[int] | None = None,
) -> list[V]:
    """Run ``body(*state, *slices) -> (*state, *items)`` over slices of the scanned inputs.

    Gives the last state, then each item stacked along its output axis.  Source: ONNX Scan-25
    """
    count = len(initial_state_and_scan_inputs) - num_scan_inputs
    if count < 0:
        raise ModelError(
            f"num_scan_inputs is at most {len(initial_state_and_scan_inputs)}, not {num_scan_inputs}"
        )
    state = list(initial_state_and_scan_inputs[:count])
    scanned = list(initial_state_and_scan_inputs[count:])
    given = _axes(scan_input_axes, len(scanned), "scan_input_axes")
    axes = [normal_axis(axis, item.ndim) for axis, item in zip(given, scanned, strict=True)]
    backwards = _axes(scan_input_directions, len(scanned), "scan_input_directions")
    ordered = [
        waist.flip(item, [axis]) if reverse else item
        for item, axis, reverse in zip(scanned, axes, backwards, strict=True)
    ]
    length = waist.reshape(waist.sizes(scanned[0].shape[axes[0]]), ())
    if any(
        item.shape[axis] != scanned[0].shape[axes[0]]
        for item, axis in zip(scanned, axes, strict=True)
    ):
        lengths = [item.shape[axis] for item, axis in zip(scanned, axes, strict=True)]
        if all(isinstance(each, int) for each in lengths):
            raise ModelError(f"Scan needs inputs of one length, not {lengths}")

    def turn(iteration: Tensor, going: Tensor, *current: Tensor) -> list[Tensor]:
        slices = [
            waist.take(item, iteration, axis) for item, axis in zip(ordered, axes, strict=True)
        ]
        return [going, *waist.inline(body, [*current, *slices])]

    results = waist.repeat(length, None, state, turn)
    items = results[count:]
    out_axes = _axes(scan_output_axes, len(items), "scan_output_axes")
    out_backwards = _axes(scan_output_directions, len(items), "scan_output_directions")
    placed = [
        _place(item, axis, bool(reverse))
        for item, axis, reverse in zip(items, out_axes, out_backwards, strict=True)
    ]
    return [*results[:count], *placed]


@scan.infer
def _scan_types(
    inputs: Sequence[Type | None], attributes: Mapping[str, Any], count: int
) -> list[Type]:
    return [_unsized(value.type) for value in attributes["body"].outputs]


@scan.upgrade(from_version=8)
def scan_8(
    sequence_lens: Int64 | None,
    *initial_state_and_scan_inputs: V,
    body: Graph,
    num_scan_inputs: Count = REQUIRED,  # type: ignore[assignment]
    directions: Sequence[int] | None = None,
    outputs: int | None = None,
) -> list[V]:
    """Scan over each sequence of a batch: a Scan over the batch whose body is a Scan over time.

    A sequence may end early; what its outputs would have had after that is zero.
    """
    values = list(initial_state_and_scan_inputs)
    states = len(values) - num_scan_inputs
    recorder: Any = recorder_of(values)
    inner = recorder.child("batch")
    given = [*values, *([] if sequence_lens is None else [sequence_lens])]
    with inner.ambient():
        parts = [
            inner.input(f"part_{place}", _without_first(item.type))
            for place, item in enumerate(given)
        ]
        length = None if sequence_lens is None else parts.pop()
        ends = [each if length is None else _cut(each, length) for each in parts[states:]]
        results = scan(
            *parts[:states],
            *ends,
            body=body,
            num_scan_inputs=num_scan_inputs,
            scan_input_directions=directions,
            outputs=outputs,
        )
        if length is not None:
            whole = movement.shape(parts[states], start=0, end=1)
            items = [_lengthened(each, whole) for each in results[states:]]
            results = [*results[:states], *items]
        inner.graph.outputs = [item.ref for item in results]
        inner.graph.output_names = [f"result_{place}" for place in range(len(results))]
    return scan(*given, body=inner.graph, num_scan_inputs=len(given), outputs=outputs)


def _without_first(kind: Type) -> Type:
    if not isinstance(kind, TensorType):
        raise ModelError(f"Scan takes tensors before opset 9, not a {kind}")
    return TensorType(kind.dtype, None if kind.shape is None else kind.shape[1:])


def _cut(x: Tensor, length: Tensor) -> Tensor:
    return movement.slice(x, [0], movement.reshape(length, [1]), [0])


def _lengthened(x: Tensor, whole: Tensor) -> Tensor:
    """x with zeros up to ``whole`` elements along its first axis."""
    missing = arithmetic.sub(whole, movement.shape(x, start=0, end=1))
    shape = movement.concat(missing, movement.shape(x, start=1), axis=0)
    return movement.concat(x, movement.expand(np.zeros((), x.dtype), shape), axis=0)


def _place(item: Tensor, axis: int, reverse: bool) -> Tensor:
    """Move the stacking axis, which is first, to ``axis``."""
    item = waist.flip(item, [0]) if reverse else item
    if axis == 0:
        return item
    axis %= item.ndim
    return waist.transpose(item, [*range(1, axis + 1), 0, *range(axis + 1, item.ndim)])
