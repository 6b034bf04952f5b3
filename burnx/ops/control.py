"""If, Loop and Scan."""

from __future__ import annotations

from collections.abc import Sequence

from burnx import waist
from burnx.errors import ModelError
from burnx.graph import Graph
from burnx.ops.kinds import B, V
from burnx.ops.operator import REQUIRED, operator
from burnx.tensor import Tensor


@operator("If", since=(1, 11, 13, 16, 19, 21, 23, 24, 25))
def if_(cond: B, *, then_branch: Graph, else_branch: Graph) -> list[V]:
    """The outputs of one of two graphs, which see the values around them.  Source: ONNX If-25"""
    return waist.branch(waist.reshape(cond, ()), then_branch, else_branch)


@operator("Loop", since=(1, 11, 13, 16, 19, 21, 23, 24, 25))
def loop(m: Tensor | None, cond: B | None = None, *v_initial: V, body: Graph) -> list[V]:
    """Run ``body(iteration, condition, *state) -> (condition, *state, *items)`` up to ``m`` times.

    Gives the last state, then each item stacked along a new first axis.  Source: ONNX Loop-25
    """
    trips = None if m is None else waist.reshape(m, ())
    going = None if cond is None else waist.reshape(cond, ())
    return waist.repeat(trips, going, list(v_initial), body)


def _axes(values: Sequence[int] | None, count: int) -> list[int]:
    return [0] * count if values is None else [int(value) for value in values]


@operator("Scan", since=(8, 9, 11, 16, 19, 21, 23, 24, 25))
def scan(
    *initial_state_and_scan_inputs: V,
    body: Graph,
    num_scan_inputs: int = REQUIRED,  # type: ignore[assignment]
    scan_input_axes: Sequence[int] | None = None,
    scan_input_directions: Sequence[int] | None = None,
    scan_output_axes: Sequence[int] | None = None,
    scan_output_directions: Sequence[int] | None = None,
) -> list[V]:
    """Run ``body(*state, *slices) -> (*state, *items)`` over slices of the scanned inputs.

    Gives the last state, then each item stacked along its output axis.  Source: ONNX Scan-25
    """
    count = len(initial_state_and_scan_inputs) - num_scan_inputs
    state = list(initial_state_and_scan_inputs[:count])
    scanned = list(initial_state_and_scan_inputs[count:])
    axes = [
        axis % item.ndim
        for axis, item in zip(_axes(scan_input_axes, len(scanned)), scanned, strict=True)
    ]
    backwards = _axes(scan_input_directions, len(scanned))
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
    out_axes = _axes(scan_output_axes, len(items))
    out_backwards = _axes(scan_output_directions, len(items))
    placed = [
        _place(item, axis, bool(reverse))
        for item, axis, reverse in zip(items, out_axes, out_backwards, strict=True)
    ]
    return [*results[:count], *placed]


def _place(item: Tensor, axis: int, reverse: bool) -> Tensor:
    """Move the stacking axis, which is first, to ``axis``."""
    item = waist.flip(item, [0]) if reverse else item
    axis %= item.ndim
    return waist.transpose(item, [*range(1, axis + 1), 0, *range(axis + 1, item.ndim)])
