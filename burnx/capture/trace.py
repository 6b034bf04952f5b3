"""Trace: a function of tensors, called once, as a Graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from burnx.capture.recorder import GraphRecorder
from burnx.errors import InputError, TraceError
from burnx.graph import Graph, Value
from burnx.tensor import AMBIENT, Array, Tensor
from burnx.types import TensorType, Type


@dataclass(frozen=True, slots=True)
class Argument:
    """One input of what is traced: its name in the graph, the parameter it is given by, its type and default."""

    name: str
    parameter: str
    type: Type
    default: Array | None = None


def trace_call(
    function: Callable[..., Any],
    arguments: Sequence[Argument],
    outputs: Sequence[tuple[str, Type]] = (),
    parameters: Mapping[Any, str] | None = None,
) -> Graph:
    """The graph of ``function(**arguments)``.

    ``outputs`` are the names of the results and the types that they are declared to have, which count where no rank
    is inferred; they are left aside where there is another number of them.  ``parameters`` names the parameters of
    modules.  Raises: TraceError at the line of the function that cannot be captured.
    """
    recorder = GraphRecorder(Graph(getattr(function, "__name__", "") or type(function).__name__))
    recorder.parameter_names = dict(parameters or {})
    token = AMBIENT.set(recorder)
    try:
        given = {each.parameter: _input(recorder, each) for each in arguments}
        results = _call(function, given)
    finally:
        AMBIENT.reset(token)
    graph = recorder.graph
    unnamed: list[tuple[str, Type | None]] = [("", None)] * len(results)
    # of another number of results nobody knows which is which
    entries = outputs if len(outputs) == len(results) else unnamed
    for item, (name, declared) in zip(results, entries, strict=True):
        tensor = item if isinstance(item, Tensor) else recorder.constant(_array(item, function))
        value: Any = recorder.own(tensor)
        if declared is not None and value.producer is not None:
            value.type = _with_rank(value.type, declared)
        graph.outputs.append(value)
        graph.output_names.append(name)
    return graph


def _with_rank(found: Type, declared: Type) -> Type:
    """What is inferred, or what is declared where no rank is."""
    if not isinstance(found, TensorType) or not isinstance(declared, TensorType):
        return found
    is_better = found.shape is None and found.dtype == declared.dtype
    return declared if is_better else found


def _input(recorder: GraphRecorder, argument: Argument) -> Tensor:
    tensor = recorder.input(argument.name, argument.type)
    if argument.default is not None:
        recorder.graph.defaults[tensor.ref] = argument.default  # type: ignore[index]
    return tensor


def _call(function: Callable[..., Any], given: Mapping[str, Tensor]) -> list[Any]:
    positional, named = _arguments(function, given)
    result = function(*positional, **named)
    return list(result) if isinstance(result, (list, tuple)) else [result]


def _arguments(
    function: Callable[..., Any], given: Mapping[str, Tensor]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call, by place and by name: what is not given before another one is its default.

    A name that is none of the function's is its next parameter.  Raises: InputError if the function cannot be called so.
    """
    parameters = inspect.signature(function).parameters
    by_place = [name for name, each in parameters.items() if each.kind in _BY_PLACE]
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for name, tensor in given.items():
        if name in parameters and parameters[name].kind is inspect.Parameter.KEYWORD_ONLY:
            named[name] = tensor
            continue
        end = by_place.index(name) if name in by_place else len(positional)
        positional += (parameters[each].default for each in by_place[len(positional) : end])
        positional.append(tensor)
    left = [*by_place[len(positional) :], *(each for each in parameters if each not in by_place)]
    missing = [each for each in left if each not in named and _is_needed(parameters[each])]
    missing += [each for each, value in zip(by_place, positional, strict=False) if value is _EMPTY]
    kinds = {each.kind for each in parameters.values()}
    surplus = len(positional) - len(by_place)
    if missing or (surplus > 0 and inspect.Parameter.VAR_POSITIONAL not in kinds):
        wrong = f"not given: {', '.join(missing)}" if missing else f"{surplus} more are given"
        raise InputError(f"{_called(function)} takes ({_listed(parameters)}); {wrong}")
    return positional, named


_EMPTY = inspect.Parameter.empty
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _is_needed(parameter: inspect.Parameter) -> bool:
    return parameter.default is _EMPTY and parameter.kind not in _ANY_NUMBER


def _listed(parameters: Mapping[str, inspect.Parameter]) -> str:
    """The names of parameters, and which may be left out."""
    stars: dict[Any, str] = {
        inspect.Parameter.VAR_POSITIONAL: "*",
        inspect.Parameter.VAR_KEYWORD: "**",
    }
    return ", ".join(
        f"{stars.get(each.kind, '')}{name}{'' if each.default is _EMPTY else '=...'}"
        for name, each in parameters.items()
    )


def _called(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def _array(value: Any, function: Callable[..., Any]) -> Array:
    name = _called(function)
    if isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value):
        kind = type(value).__name__
        raise TraceError(
            f"{name} gives tensors side by side, not in a {kind} among them{_place(function)}"
        )
    array = np.asarray(value)
    if array.dtype == object and not all(isinstance(item, str) for item in array.flat):
        raise TraceError(f"{name} gives tensors, not {type(value).__name__}{_place(function)}")
    return array


def _place(function: Any) -> str:
    code = getattr(function, "__code__", None)
    return f": file {code.co_filename!r}, line {code.co_firstlineno}" if code is not None else ""


def named_outputs(graph: Graph) -> list[tuple[str, Value]]:
    """The outputs with their names; those without one are called output_0, output_1 …"""
    single = len(graph.outputs) == 1
    return [
        (name or ("output" if single else f"output_{place}"), value)
        for place, (name, value) in enumerate(zip(graph.output_names, graph.outputs, strict=True))
    ]
