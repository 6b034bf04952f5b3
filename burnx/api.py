"""The public functions: the only place that joins rooms."""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from burnx.capture.inputs import (
    by_name,
    check_names,
    check_texts,
    check_value,
    match_inputs,
    parse_dim,
)
from burnx.capture.loaded import Compiled, LoadedModel
from burnx.capture.trace import Argument, named_outputs, trace_call
from burnx.dtype import as_array
from burnx.errors import BurnxError, InputError, ModelError, UsageError
from burnx.files import MappedFile
from burnx.graph import Graph
from burnx.nn.declared import declared_type, parameter_name
from burnx.nn.module import Module, device_of
from burnx.nn.outputs import check_outputs, name_outputs
from burnx.nn.sources import is_source, load_network
from burnx.runtime.collection import collection_put_off
from burnx.runtime.device import Device, Shelf, devices, find_device, find_shelf
from burnx.runtime.device_array import is_array
from burnx.runtime.options import RunOptions, check_options
from burnx.shape import Dim, symbol
from burnx.tensor import to_numpy
from burnx.types import TensorType, Type

__all__ = [
    "Device",
    "LoadedModel",
    "compile",
    "devices",
    "export_onnx",
    "import_onnx",
    "load",
    "load_network",
    "trace",
]

# an input that is also an initializer becomes a keyword parameter, unless there are more than a signature can hold
MOST_DEFAULTS = 16
_HERE = f"{Path(__file__).parent}{os.sep}"
Dynamic = Mapping[str, Mapping[int, str]]


@collection_put_off()
def load(
    source: Any,
    device: str | Device | None = None,
    *,
    base_dir: str | Path | None = None,
    weights: str | Path | None = None,
    **options: Unpack[RunOptions],
) -> LoadedModel:
    """Make a model ready to run: a path to an ONNX file, its bytes or proto, or ``"model.py:Class"``.

    ``base_dir`` is where external data lies for a model in memory; ``weights`` is a file for a model in Python, in
    place of the one beside it.  Options: ``threads``, ``fallback`` (a device),
    ``fuse``, ``tune`` and ``no_lift`` (names of passes).
    Raises: ModelError, UnsupportedError, DeviceError, UsageError.
    """
    where = find_device(device)
    _check(options)
    if isinstance(source, (str, Path)) and is_source(source):
        network = load_network(source, weights)
        declared = partial(_declared_parameters, type(network))
        graph = trace_module(network)
        return LoadedModel(graph, where, options, name_parameters=declared)
    if weights is not None:
        raise UsageError("weights are given to a model in Python; an ONNX file holds its own")
    if not isinstance(source, (str, Path)):
        graph = _read(source, base_dir)
        return LoadedModel(graph, where, options, name_parameters=_written_parameters)
    folder = None if base_dir is None else Path(base_dir)
    shelf = find_shelf(Path(source), folder, where, options)
    face = shelf.find_face() if shelf is not None else None
    names = _written_parameters
    if face is None or shelf is None:
        graph = _read(source, base_dir, shelf)
        return LoadedModel(graph, where, options, shelf, name_parameters=names)
    return LoadedModel(face, where, options, shelf, lambda: _read(source, base_dir, shelf), names)


def _declared_parameters(network: type[Module], names: Sequence[str]) -> list[str]:
    """The parameters of a module's inputs, those of these names."""
    known = {entry.name: parameter_name(entry) for entry in network.inputs}
    return [known.get(name, name) for name in names]


def _written_parameters(names: Sequence[str]) -> list[str]:
    """The parameters that an import would write for inputs of these names."""
    from burnx.codegen.names import parameter_names

    return parameter_names(names)


def _read(source: Any, base_dir: str | Path | None, shelf: Shelf | None = None) -> Graph:
    """The graph of a model; the shelf knows what was mapped of it before, and learns what is now."""
    from burnx.importer.onnx_file import read_model
    from burnx.importer.onnx_graph import import_graph

    file = read_model(source, base_dir, None if shelf is None else shelf.find_map())
    graph = import_graph(file)
    if shelf is not None:
        shelf.learn(graph, [each for each in file.maps.values() if isinstance(each, MappedFile)])
    return graph


def import_onnx(
    source: Any,
    target: str | Path,
    *,
    weights: str | Path | None = None,
    name: str = "Model",
    flat: bool = False,
    no_lift: Collection[str] = (),
    force: bool = False,
) -> Any:
    """Write a model as Python source, and its weights beside it; a report of what was written.

    ``source`` is an ONNX model, a checkpoint (safetensors, PyTorch's ``.pt``, ``.pth`` and ``.bin``, an index of
    shards), or a folder of one: with a config.json beside it, or names that a known family has, the whole model is
    written, else a skeleton of it, and the weights stay where they are.

    Raises: ModelError, UnsupportedError; UsageError if the target was edited, or is not burnx's, without ``force``.
    """
    from burnx.architectures import is_checkpoint, write_checkpoint
    from burnx.codegen import ImportOptions, write_source
    from burnx.importer.onnx_file import count_nodes, read_model
    from burnx.importer.onnx_graph import import_graph
    from burnx.passes import run_passes

    options = ImportOptions(weights, name, flat, force)
    if isinstance(source, (str, Path)) and is_checkpoint(Path(source)):
        if flat or no_lift:
            raise UsageError("flat and no_lift are for ONNX files: a checkpoint has no graph")
        return write_checkpoint(source, Path(target), options)
    file = read_model(source)
    graph = import_graph(file, MOST_DEFAULTS)
    nodes = count_nodes(file.proto.graph)
    changes = run_passes(graph, no_lift)
    origin = file.path.name if file.path is not None else "a model in memory"
    return write_source(graph, Path(target), origin, options, changes, nodes)


def trace(model: Callable[..., Any], *inputs: Any, dynamic: Dynamic | None = None) -> Graph:
    """The graph of a module or function called with these inputs.

    ``dynamic`` names axes that stay open: {input: {axis: dim}}.  An input that is not given has the dtype and dims
    that the module declares.
    """
    names = [each.name for each in _signature(model)]
    return _trace(model, match_inputs(names, inputs, "what is traced"), dynamic or {}, False)


def trace_module(module: Module) -> Graph:
    """The graph of a module for what it declares of its inputs."""
    if not type(module).inputs:
        raise UsageError(
            f"{type(module).__name__} declares no inputs: give it a class attribute inputs = (Input(...),)"
        )
    graph = _trace(module, {}, {}, True)
    name_outputs(type(module), graph)
    graph.output_names = [name for name, _ in named_outputs(graph)]
    return graph


def export_onnx(
    model: Callable[..., Any],
    inputs: Mapping[str, Any],
    path: str | Path,
    dynamic: Dynamic | None = None,
    opset: int | None = None,
    *,
    standard_ops: bool = False,
) -> None:
    """Capture a module or function and write it as ONNX, checked by onnx's full checker.

    ``inputs`` are examples, ``dynamic`` names open axes, both by the original name or the parameter's.  Without
    ``opset`` the lowest from 20 on that can say everything is taken.  With ``standard_ops`` operators of com.microsoft
    are said in those of ai.onnx.  Raises: TraceError, ExportError, ModelError if a module declares other outputs
    than its ``forward`` gives.
    """
    from burnx.exporter.onnx_model import write_model
    from burnx.exporter.standard_ops import in_standard_ops

    graph = _trace(model, inputs, dynamic or {}, True)
    if isinstance(model, Module):
        check_outputs(type(model), graph)
    graph.output_names = [name for name, _ in named_outputs(graph)]
    write_model(in_standard_ops(graph, not standard_ops), Path(path), opset)


def _check(options: RunOptions) -> None:
    check_options(options)
    if options.get("no_lift"):
        from burnx.passes import check_passes

        check_passes(options["no_lift"])


def compile(
    model: Callable[..., Any], device: str | Device | None = None, **options: Unpack[RunOptions]
) -> Compiled:
    """A module or function that is captured once for each kind of input and then only run.

    A Python decision on a tensor's value inside it is an error that names its line.  New weights are noticed; another
    change of the module is not.  Options: those of ``load``.
    """

    where = find_device(device)
    if device is None and isinstance(model, Module):
        where = device_of(model)
    _check(options)
    _check_callable(model)

    def capture(inputs: Mapping[str, Any]) -> Graph:
        return _trace(model, inputs, {}, False)

    def weights() -> list[Any]:
        return [each.data for each in model.parameters()] if isinstance(model, Module) else []

    def label(graph: Graph) -> list[str]:
        if isinstance(model, Module):
            name_outputs(type(model), graph)
        return [name for name, _ in named_outputs(graph)]

    declared = _signature(model)
    parameters = {each.parameter: each.name for each in declared}
    parameters |= {each.name: each.name for each in declared}
    title = getattr(model, "__qualname__", type(model).__name__)
    return Compiled(parameters, capture, weights, label, where, title=title, options=options)


# ------------------------------------------------------------------------------- arguments of what is traced
def _check_callable(model: Any) -> None:
    if not callable(model):
        raise UsageError(
            f"a module or a function is captured, not {type(model).__name__}; "
            "burnx.load opens a file, which is then ready to run"
        )


def _signature(model: Callable[..., Any]) -> list[Argument]:
    """The inputs a module declares; of a function, its parameters, their types unknown."""
    if isinstance(model, Module) and type(model).inputs:
        parameters = dict(model.named_parameters())
        return [
            Argument(
                entry.name,
                parameter_name(entry),
                declared_type(entry),
                parameters[entry.default].data if entry.default else None,
            )
            for entry in type(model).inputs
        ]
    _check_callable(model)
    function = model.forward if isinstance(model, Module) else model
    unknown: Any = None
    kinds = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    )
    return [
        Argument(each.name, each.name, unknown)
        for each in inspect.signature(function).parameters.values()
        if each.kind in kinds
    ]


def _trace(
    model: Callable[..., Any], inputs: Mapping[str, Any], dynamic: Dynamic, keeps_dims: bool
) -> Graph:
    check_names(inputs, "what holds the inputs")
    check_names(dynamic, "dynamic")
    declared = _signature(model)
    names = [each.name for each in declared]
    parameters = {each.parameter: each.name for each in declared if each.parameter not in names}
    inputs = by_name(inputs, names, parameters, "what is traced")
    dynamic = by_name(dynamic, names, parameters, "what is traced")
    sizes: dict[str, int] = {}
    arguments = []
    for each in declared:
        given = inputs.get(each.name)
        axes = dynamic.get(each.name, {})
        if not isinstance(axes, Mapping):
            raise InputError(f'dynamic is {{input: {{axis: dim}}}}; "{each.name}" has {axes!r}')
        if given is None and each.type is None:
            continue
        kind = _argument_type(each, given, axes, keeps_dims, sizes)
        arguments.append(Argument(each.name, each.parameter, kind, each.default))
    outputs, function = [], model
    if isinstance(model, Module):
        outputs = [(each.name, declared_type(each)) for each in type(model).outputs]
        function = model.forward
    try:
        return trace_call(function, arguments, outputs, _parameter_names(model))
    except BurnxError:
        raise
    except Exception as error:
        raise ModelError(_raised(function, error)) from error


def _raised(function: Callable[..., Any], error: Exception) -> str:
    """What a model's own Python raised, and at which of its lines."""
    name = getattr(function, "__qualname__", type(function).__name__)
    code = getattr(function, "__code__", None)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if code and frame.filename == code.co_filename]
    others = [frame for frame in frames if not frame.filename.startswith(_HERE)]
    last = (own or others or frames)[-1]
    return (
        f"{name} raised {type(error).__name__}: {error}, file {last.filename!r}, line {last.lineno}"
    )


def _parameter_names(model: Callable[..., Any]) -> dict[Any, str]:
    if not isinstance(model, Module):
        return {}
    return {parameter: parameter.original or path for path, parameter in model.named_parameters()}


def _argument_type(
    argument: Argument, given: Any, axes: Mapping[int, str], keeps_dims: bool, sizes: dict[str, int]
) -> Type:
    """The type an input is traced with: as declared, or as the example with its dynamic axes open."""
    kind: Type = argument.type
    if kind is not None and not isinstance(kind, TensorType):
        if axes:
            raise InputError(f'input "{argument.name}" is a {kind}, which has no axes to open')
        return kind
    if given is None:
        return _opened(argument.name, kind, axes)
    if kind is not None:
        array = check_value(argument.name, _opened(argument.name, kind, axes), given, sizes)
    else:
        array = given if is_array(given) else as_array(to_numpy(given))
        if not is_array(given):
            check_texts(argument.name, array)
    shape: list[Dim] = list(array.shape)
    if kind is not None and keeps_dims:
        declared = kind.shape
        shape = _anonymous(argument.name, array.ndim) if declared is None else list(declared)
    return _opened(argument.name, TensorType(array.dtype, tuple(shape)), axes)


def _opened(name: str, kind: TensorType, axes: Mapping[int, str]) -> TensorType:
    """A type with its dynamic axes open."""
    if kind.shape is None:
        return kind
    shape = list(kind.shape)
    for axis, dim in axes.items():
        if not -len(shape) <= axis < len(shape):
            raise InputError(f'input "{name}" has no axis {axis}')
        shape[axis] = parse_dim(dim)
    return TensorType(kind.dtype, tuple(shape))


def _anonymous(name: str, rank: int) -> list[Dim]:
    return [symbol(f"_{name}_{axis}") for axis in range(rank)]
