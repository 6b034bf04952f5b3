"""The public functions: the only place that joins rooms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from burnx.dtype import as_array, dtype_name
from burnx.errors import InputError, UsageError
from burnx.graph import Graph, Value
from burnx.lowering import lower
from burnx.runtime.device import Device, Executable, device, devices, prepare
from burnx.shape import evaluate, shape_text, symbol_name, symbols
from burnx.types import MapType, OptionalType, SequenceType, TensorType, Type

__all__ = ["Device", "InputSpec", "LoadedModel", "devices", "load"]


@dataclass(frozen=True, slots=True)
class InputSpec:
    """An input or output of a model; ``dims`` holds ints and names, None where the rank is not known."""

    name: str
    dtype: str
    dims: tuple[int | str, ...] | None
    optional: bool = False


def _spec(value: Value, name: str, optional: bool = False) -> InputSpec:
    kind = value.type
    while isinstance(kind, (SequenceType, OptionalType)):
        kind = kind.element
    if isinstance(kind, MapType) or not isinstance(kind, TensorType):
        return InputSpec(name, "string", None, optional)
    dims = (
        None
        if kind.shape is None
        else tuple(d if isinstance(d, int) else str(d) for d in kind.shape)
    )
    return InputSpec(name, dtype_name(kind.dtype), dims, optional)


class LoadedModel:
    """A model ready to run.

    ``run`` takes and gives dicts by name; calling takes inputs by position.
    """

    def __init__(self, graph: Graph, where: Device) -> None:
        self.graph, self.device = graph, where
        self.inputs = tuple(
            _spec(value, value.name, value in graph.defaults) for value in graph.inputs
        )
        self.outputs = tuple(
            _spec(value, name)
            for value, name in zip(graph.outputs, graph.output_names, strict=True)
        )
        self._executables: dict[Any, Executable] = {}

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs by name: arrays, lists for sequences, lists of dicts for maps, None for absent optionals."""
        values = self._values(inputs)
        results = self.executable(values)(values)
        return dict(zip(self.graph.output_names, results, strict=True))

    def __call__(self, *inputs: Any) -> Any:
        names = [spec.name for spec in self.inputs]
        if len(inputs) > len(names):
            raise InputError(f"the model takes {len(names)} inputs, not {len(inputs)}")
        results = tuple(self.run(dict(zip(names, inputs, strict=False))).values())
        return results[0] if len(results) == 1 else results

    def executable(self, values: Sequence[Any]) -> Executable:
        """The program for values of these dtypes and ranks."""
        key = tuple((v.dtype, v.ndim) if isinstance(v, np.ndarray) else type(v) for v in values)
        if key not in self._executables:
            types = [
                _run_type(value.type, array)
                for value, array in zip(self.graph.inputs, values, strict=True)
            ]
            self._executables[key] = prepare(lower(self.graph, types), self.device)
        return self._executables[key]

    def _values(self, inputs: Mapping[str, Any]) -> list[Any]:
        known = {value.name for value in self.graph.inputs}
        for name in inputs:
            if name not in known:
                raise InputError(
                    f'the model has no input "{name}"; it has {", ".join(sorted(known)) or "none"}'
                )
        sizes: dict[str, int] = {}
        values = []
        for value in self.graph.inputs:
            given = inputs.get(value.name)
            if given is None and value in self.graph.defaults:
                given = self.graph.defaults[value]
            values.append(check_input(value, given, sizes))
        return values


def _run_type(kind: Type, value: Any) -> Type:
    if isinstance(kind, TensorType) and kind.shape is None and isinstance(value, np.ndarray):
        from burnx.shape import symbol

        return TensorType(
            kind.dtype, tuple(symbol(f"_in{id(value)}_{axis}") for axis in range(value.ndim))
        )
    return kind


def check_input(value: Value, given: Any, sizes: dict[str, int]) -> Any:
    """What is given for an input, as an array of its dtype and shape; ``sizes`` collects the dims seen so far.

    Raises: InputError naming the input.
    """
    kind = value.type
    if isinstance(kind, OptionalType):
        return None if given is None else check_input(Value(kind.element, value.name), given, sizes)
    if given is None:
        raise InputError(f'input "{value.name}" ({kind}) is missing')
    if isinstance(kind, SequenceType):
        if not isinstance(given, (list, tuple)):
            raise InputError(f'input "{value.name}" is a sequence, not {type(given).__name__}')
        return [check_input(Value(kind.element, value.name), item, {}) for item in given]
    if not isinstance(kind, TensorType):
        return given
    array = as_array(given.numpy() if hasattr(given, "numpy") else given)
    if array.dtype != kind.dtype:
        raise InputError(
            f'input "{value.name}" is {dtype_name(kind.dtype)}, not {array.dtype}; burnx never casts silently'
        )
    _check_shape(value.name, kind, array.shape, sizes)
    return array


def _check_shape(
    name: str, kind: TensorType, shape: tuple[int, ...], sizes: dict[str, int]
) -> None:
    if kind.shape is None:
        return
    wanted = shape_text(kind.shape)
    if len(shape) != len(kind.shape):
        raise InputError(f'input "{name}" has shape {wanted}, not {shape}')
    for dim, size in zip(kind.shape, shape, strict=True):
        own = symbol_name(dim)
        if own is not None and own not in sizes:
            sizes[own] = size
        elif symbols(dim) <= sizes.keys() and evaluate(dim, sizes) != size:
            known = ", ".join(f"{key} = {sizes[key]}" for key in sorted(symbols(dim)))
            where = f" with {known}" if known else ""
            raise InputError(f'input "{name}" has shape {wanted}, not {shape}{where}')


def load(
    source: Any, device: str | Device | None = None, *, base_dir: str | Path | None = None
) -> LoadedModel:
    """Make a model ready to run: a path to an ONNX file, its bytes or proto, or ``"model.py:Class"``.

    Raises: ModelError, UnsupportedError, DeviceError, UsageError.
    """
    where = _device(device)
    if isinstance(source, (str, Path)) and ".py" in str(source):
        raise UsageError("generated source is not loaded here yet")
    from burnx.importer.onnx_file import read_model
    from burnx.importer.onnx_graph import import_graph

    return LoadedModel(import_graph(read_model(source, base_dir)), where)


def _device(name: str | Device | None) -> Device:
    return device(name)
