"""Models that are ready to run: a graph, and the programs it has become for the inputs it met."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import is_not
from threading import Lock
from typing import Any

import numpy as np

from burnx.capture.executables import Executables
from burnx.capture.inputs import by_name, check_names, check_value, match_inputs
from burnx.capture.lazy import default_recorder, held_tensor
from burnx.dtype import as_array, dtype_name
from burnx.errors import UsageError
from burnx.graph import Graph, Value, constant_value
from burnx.program import Program
from burnx.runtime.collection import collection_put_off
from burnx.runtime.device import Device, Shelf, enter, find_device, placement, prepare
from burnx.runtime.device_array import DeviceArray
from burnx.runtime.profile import Spent
from burnx.tensor import Tensor, to_numpy
from burnx.types import MapType, OptionalType, SequenceType, Type

NameParameters = Callable[[Sequence[str]], Sequence[str]]


@dataclass(frozen=True, slots=True)
class ModelValue:
    """An input or output of a model; ``dims`` holds ints and names, None where the rank is not known."""

    name: str
    dtype: str
    dims: tuple[int | str | None, ...] | None
    optional: bool = False
    kind: str = "tensor"


def describe(kind: Type, name: str, optional: bool = False) -> ModelValue:
    """An input or output as a caller needs to know it."""
    words: list[str] = []
    while isinstance(kind, (SequenceType, OptionalType)):
        words.append("sequence" if isinstance(kind, SequenceType) else "optional")
        kind = kind.element
    if isinstance(kind, MapType):
        joined = "(".join([*words, "map"]) + ")" * len(words)
        return ModelValue(name, dtype_name(kind.key), None, optional, joined)
    dims = None
    if kind.shape is not None:
        dims = tuple(
            dim if dim is None or isinstance(dim, int) else _dim_text(str(dim))
            for dim in kind.shape
        )
    joined = "(".join(words) + ")" * (len(words) - 1) if words else "tensor"
    return ModelValue(name, dtype_name(kind.dtype), dims, optional or "optional" in words, joined)


def _dim_text(text: str) -> str | None:
    return None if text.startswith("_") else text


class LoadedModel:
    """A model ready to run.

    ``run`` takes and gives dicts by name; calling takes inputs by position.  Calls from several threads are
    independent.
    """

    def __init__(
        self,
        graph: Graph,
        where: Device,
        options: Mapping[str, Any] | None = None,
        shelf: Shelf | None = None,
        read: Callable[[], Graph] | None = None,
        name_parameters: NameParameters | None = None,
    ) -> None:
        """``shelf`` is what is kept of the file; where ``read`` gives the graph, ``graph`` has no nodes.

        ``name_parameters`` gives the parameters that inputs of some names are in source, in their order.
        """
        self._face, self.device, self.options = graph, where, dict(options or {})
        self._read, self._whole, self._reading = read, None if read else graph, Lock()
        self.inputs = tuple(
            describe(value.type, value.name, value in graph.defaults) for value in graph.inputs
        )
        self.outputs = tuple(
            describe(value.type, name)
            for value, name in zip(graph.outputs, graph.output_names, strict=True)
        )
        self._executables = Executables(graph, self._graph, where, self.options, shelf)
        self._name_parameters = name_parameters or list

    @property
    def graph(self) -> Graph:
        """The model's graph, which is only read when it is asked for where all else is kept."""
        return self._graph()

    def _graph(self) -> Graph:
        with self._reading:
            if self._whole is None:
                assert self._read is not None
                self._whole = self._read()
        return self._whole

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs by name: arrays, lists for sequences, lists of dicts for maps, None for absent optionals.

        Inputs go by their names, or by those of their parameters in source.  Raises: InputError if a name, dtype or shape is not what the model declares.
        """
        check_names(inputs, "what run() takes")
        return dict(zip(self._face.output_names, self.results(inputs), strict=True))

    def to(self, device: str | Device) -> LoadedModel:
        """The same model ready to run on another device."""
        where, names = find_device(device), self._name_parameters
        return LoadedModel(self._graph(), where, self.options, name_parameters=names)

    def parameters(self) -> dict[str, str]:
        """The names of inputs by the parameters that they are in source, where those are called otherwise."""
        names = [value.name for value in self._face.inputs]
        pairs = zip(self._name_parameters(names), names, strict=True)
        return {parameter: name for parameter, name in pairs if parameter not in names}

    def __reduce__(self) -> str:
        raise UsageError(
            "a loaded model is not pickled or copied: send its path, and load it there"
        )

    def __repr__(self) -> str:
        return f"<loaded {self._graph()!r} on {self.device.name}>"

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """Outputs for inputs in the order of the file, or by their names: one array, or a tuple of several."""
        names = [entry.name for entry in self.inputs]
        results = self.results(match_inputs(names, inputs, "the model", named))
        return results[0] if len(results) == 1 else tuple(results)

    def results(self, inputs: Mapping[str, Any]) -> list[Any]:
        """Outputs in the order of the file, for inputs by name."""
        values = self._values(inputs)
        return self._executables.find(values)(values)

    def profile(self, inputs: Mapping[str, Any], runs: int = 5) -> list[Spent]:
        """Where a run spends its time: what each primitive or kind of kernel took at a node, slowest first.

        Each is the fastest of so many runs.
        """
        program, values = self.program(inputs)
        # a runner of its own: other threads may be running on the kept one
        executable = prepare(program, self.device, self.options)
        executable(values)  # the first run also makes plans, and its memory is new
        best: dict[str, Spent] = {}
        for _ in range(max(runs, 1)):
            times: dict[str, Spent] = {}
            executable.runner.times = times
            executable(values)
            for label, spent in times.items():
                if label not in best or spent.elapsed_ns < best[label].elapsed_ns:
                    best[label] = spent
        return sorted(best.values(), key=lambda spent: -spent.elapsed_ns)

    def program(self, inputs: Mapping[str, Any]) -> tuple[Program, list[Any]]:
        """A program for inputs like these, made anew, and what it takes."""
        values = self._values(inputs)
        return self._executables.lower(values), values

    def placement(self) -> dict[str, list[str]]:
        """What Python carries out on this device for the declared inputs, and the nodes where it occurs."""
        from burnx.lowering import lower

        types = [value.type for value in self.graph.inputs]
        program = lower(self.graph, types, self.graph.defaults)
        return placement(program, self.device)

    def _values(self, inputs: Mapping[str, Any]) -> list[Any]:
        known = [value.name for value in self._face.inputs]
        if any(name not in known for name in inputs):
            inputs = by_name(inputs, known, self.parameters(), "the model")
        sizes: dict[str, int] = {}
        values = []
        for value in self._face.inputs:
            given = inputs.get(value.name)
            if given is None:
                given = self._face.defaults.get(value)
            given = enter(value.name, given, self.device)
            values.append(check_value(value.name, value.type, given, sizes))
        return values


class Compiled:
    """A module or function that is captured once for each kind of input.

    ``parameters`` gives the input that a name stands for: inputs have their own names, and those of parameters.
    Where ``weights`` gives other arrays than before, everything is captured anew; ``label`` names the outputs of what
    was captured.  Calls from several threads are independent.
    """

    def __init__(
        self,
        parameters: Mapping[str, str],
        capture: Callable[[Mapping[str, Any]], Graph],
        weights: Callable[[], list[Any]],
        label: Callable[[Graph], Sequence[str]],
        where: Device,
        *,
        title: str = "",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._parameters, self._capture, self._weights = parameters, capture, weights
        self._names = list(dict.fromkeys(parameters.values()))
        self._label, self.device = label, where
        self.title, self.options = title, dict(options or {})
        self._seen: list[Any] = []
        self._models: dict[Any, LoadedModel] = {}
        self._lock = Lock()

    def to(self, device: str | Device) -> Compiled:
        """The same model, to be captured and run on another device."""
        parts = (self._parameters, self._capture, self._weights, self._label)
        return Compiled(*parts, find_device(device), title=self.title, options=self.options)

    def __reduce__(self) -> str:
        raise UsageError(
            "what is compiled is not pickled or copied: send the module, and compile it"
        )

    def __repr__(self) -> str:
        return f"<compiled {self.title} on {self.device.name}>"

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """What the model gives: a tensor, or a tuple of several."""
        model, results = self._run(inputs, named)
        pairs = zip(model.graph.outputs, results, strict=True)
        tensors = [_as_tensor(value.type, result) for value, result in pairs]
        return tensors[0] if len(tensors) == 1 else tuple(tensors)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs by name, as a loaded model gives them; those that nobody named are output, or output_0 and so on."""
        check_names(inputs, "what run() takes")
        model, results = self._run((), inputs)
        return dict(zip(self._label(model.graph), results, strict=True))

    def _run(
        self, inputs: Sequence[Any], named: Mapping[str, Any]
    ) -> tuple[LoadedModel, list[Any]]:
        matched = match_inputs(self._names, inputs, self.title, named, self._parameters)
        given = {
            name: to_numpy(enter(name, value, self.device))
            for name, value in matched.items()
            if value is not None
        }
        model = self._model(given)
        return model, model.results(given)

    def _model(self, given: Mapping[str, Any]) -> LoadedModel:
        weights = self._weights()
        if len(weights) != len(self._seen) or any(map(is_not, weights, self._seen)):
            with self._lock:
                self._seen, self._models = weights, {}
        key = tuple((name, _exact_kind(value)) for name, value in given.items())
        model = self._models.get(key)
        if model is None:
            with self._lock:
                model = self._models.get(key)
                if model is None:
                    with collection_put_off():
                        graph = self._capture(given)
                    model = self._models[key] = LoadedModel(graph, self.device, self.options)
        return model


def _exact_kind(value: Any) -> Any:
    """What a capture depends on: dtypes and shapes."""
    if isinstance(value, list):
        return tuple(map(_exact_kind, value))
    if isinstance(value, Mapping):
        return type(value)
    array = value if isinstance(value, DeviceArray) else as_array(value)
    return array.dtype, array.shape


def _as_tensor(kind: Type, result: Any) -> Tensor | None:
    if result is None:
        return None
    if isinstance(result, DeviceArray):
        return held_tensor(result)
    is_array = isinstance(result, np.ndarray)
    value = constant_value(result) if is_array else Value(kind, array=result)
    return Tensor(default_recorder(), value)
