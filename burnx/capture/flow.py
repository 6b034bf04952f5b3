"""Control flow that is captured: branches, loops and maps whose bodies are Python functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from burnx.builder import closed, join_types
from burnx.capture.lazy import default_recorder
from burnx.capture.recorder import GraphRecorder
from burnx.errors import CallError, ShapeError
from burnx.graph import Graph
from burnx.ops import find
from burnx.tensor import Tensor, recorder_of
from burnx.types import SequenceType, TensorType, Type

_SCALARS: tuple[Type, Type] = (
    TensorType(np.dtype(np.int64), ()),
    TensorType(np.dtype(np.bool_), ()),
)


def current_recorder(*values: Any) -> GraphRecorder:
    """Who captures what is done with these values here."""
    found = recorder_of(values)
    return found if isinstance(found, GraphRecorder) else default_recorder()


def _looped(
    recorder: GraphRecorder,
    function: Callable[..., Any],
    fixed: Sequence[Type],
    state: Sequence[Type],
    after: Sequence[Type],
    skip: int,
) -> Graph:
    """The graph of a body, the types of its state widened until they hold from turn to turn."""
    kinds = list(state)
    for _ in range(4):
        given = [closed(kind, recorder.fresh) for kind in kinds]
        graph = recorder.body(function, [*fixed, *given, *after])
        results = [value.type for value in graph.outputs[skip : skip + len(kinds)]]
        wider = [join_types(a, b) for a, b in zip(kinds, results, strict=True)]
        if wider == kinds:
            break
        kinds = wider
    return graph


def _given(tensors: Sequence[Tensor]) -> Any:
    return tensors[0] if len(tensors) == 1 else tuple(tensors)


def cond(condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    """What ``then()`` gives where the condition holds, else what ``otherwise()`` gives.

    Both are captured; they may use any tensor around them.
    """
    recorder = current_recorder(condition)
    (flag,) = recorder.as_tensors([condition])
    branches = {
        "then_branch": recorder.body(then, ()),
        "else_branch": recorder.body(otherwise, ()),
    }
    count = len(branches["then_branch"].outputs)
    return _given(recorder.record(find("", "If"), [recorder.own(flag)], dict(branches), count))


def loop(body: Callable[..., Any], *state: Any, trips: Any = None, condition: Any = None) -> Any:
    """Run ``body(iteration, condition, *state) -> (condition, *state, *items)`` again and again.

    At most ``trips`` times and while the condition holds.  Gives the last state, then each item stacked along a new
    first axis.
    """
    recorder = current_recorder(*state, trips, condition)
    limit, flag, *carried = recorder.as_tensors([trips, condition, *state])
    kinds = [item.ref.type for item in carried]
    graph = _looped(recorder, body, _SCALARS, kinds, (), 1)
    values = [None if item is None else recorder.own(item) for item in (limit, flag, *carried)]
    return _given(
        recorder.record(find("", "Loop"), values, {"body": graph}, len(graph.outputs) - 1)
    )


def scan(
    body: Callable[..., Any],
    state: Sequence[Any],
    inputs: Sequence[Any],
    *,
    axes: Sequence[int] | None = None,
    backwards: Sequence[int] | None = None,
    output_axes: Sequence[int] | None = None,
    output_backwards: Sequence[int] | None = None,
) -> Any:
    """Run ``body(*state, *slices) -> (*state, *items)`` over slices of ``inputs`` along ``axes`` (default 0).

    Gives the last state, then each item stacked along its output axis.
    """
    recorder = current_recorder(*state, *inputs)
    carried, scanned = recorder.as_tensors(state), recorder.as_tensors(inputs)
    places = list(axes) if axes is not None else [0] * len(scanned)
    if len(places) != len(scanned):
        raise CallError(f"scan has an axis for each of {len(scanned)} inputs, not {len(places)}")
    slices = [_slice_type(item, axis) for item, axis in zip(scanned, places, strict=True)]
    graph = _looped(recorder, body, (), [item.ref.type for item in carried], slices, 0)
    attributes: dict[str, Any] = {"body": graph, "num_scan_inputs": len(scanned)}
    given = {
        "scan_input_axes": axes,
        "scan_input_directions": backwards,
        "scan_output_axes": output_axes,
        "scan_output_directions": output_backwards,
    }
    attributes |= {name: list(value) for name, value in given.items() if value is not None}
    values = [recorder.own(item) for item in (*carried, *scanned)]
    return _given(recorder.record(find("", "Scan"), values, attributes, len(graph.outputs)))


def sequence_map(body: Callable[..., Any], sequence: Any, *others: Any) -> Any:
    """Run ``body(element, *others) -> results`` on every element of a sequence; gives a sequence of each result.

    Other sequences go along with it, other tensors stay.
    """
    recorder = current_recorder(sequence, *others)
    given = recorder.as_tensors([sequence, *others])
    kinds = [closed(_element(item.type), recorder.fresh) for item in given]
    graph = recorder.body(body, kinds)
    values = [recorder.own(item) for item in given]
    count = len(graph.outputs)
    return _given(recorder.record(find("", "SequenceMap"), values, {"body": graph}, count))


def _element(kind: Type) -> Type:
    return kind.element if isinstance(kind, SequenceType) else kind


def _slice_type(item: Tensor, axis: int) -> Type:
    if not -item.ndim <= axis < item.ndim:
        raise ShapeError(f"scan takes slices along an axis of rank {item.ndim}, not {axis}")
    place = axis % item.ndim
    return TensorType(item.dtype, (*item.shape[:place], *item.shape[place + 1 :]))
