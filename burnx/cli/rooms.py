"""What the verbs ask of the rooms below, each imported when it is asked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from burnx.cli.console import Console
from burnx.cli.dims import AS_SMALL_AS_CAN_BE, Growth
from burnx.cli.options import ModelRequest
from burnx.cli.spec import Inputs, read_inputs
from burnx.cli.trying import Result, attempt_inputs


@dataclass(frozen=True, slots=True)
class DeclaredInput:
    """An input of a Module: of one that declares none, a parameter that says nothing but its name."""

    name: str
    parameter: str
    dtype: str = "float32"
    dims: tuple[int | str | None, ...] | None = None
    optional: bool = False
    kind: str = "tensor"


def load_options(request: ModelRequest) -> dict[str, Any]:
    """The keyword arguments of ``burnx.load`` that a request asks for, and no others."""
    options: dict[str, Any] = {}
    if request.threads is not None:
        options["threads"] = request.threads
    if request.fallback is not None:
        options["fallback"] = request.fallback
    if not request.fuse:
        options["fuse"] = False
    if request.tune is not None:
        options["tune"] = request.tune
    if request.no_lift:
        options["no_lift"] = request.no_lift
    if request.weights is not None:
        options["weights"] = request.weights
    return options


def load_model(request: ModelRequest, model: str | None = None, device: str | None = None) -> Any:
    """The request's model, or another one, ready to run on the request's device, or another one."""
    from burnx import api

    source, options = model or request.model, load_options(request)
    if source != request.model:
        options.pop("weights", None)  # they are for what was asked for
    return api.load(source, device=device or request.device, **options)


def inputs_for(model: Any, request: ModelRequest, growth: Growth = AS_SMALL_AS_CAN_BE) -> Inputs:
    """The inputs of a loaded model as the request says."""
    return read_inputs(
        request.specs, model.inputs, request.dims, request.seed, model.parameters, growth
    )


def inputs_that_run(
    model: Any,
    request: ModelRequest,
    console: Console,
    attempt: Callable[[Mapping[str, Any]], Result],
) -> tuple[dict[str, Any], Result]:
    """The inputs of a loaded model as the request says, such that ``attempt`` can do with them, and what it gave."""
    return attempt_inputs(partial(inputs_for, model, request), attempt, console)


def parameters_of(declared: Sequence[DeclaredInput]) -> dict[str, str]:
    """The names of inputs by the parameters that they are, where those are called otherwise."""
    names = {entry.name for entry in declared}
    return {each.parameter: each.name for each in declared if each.parameter not in names}


def import_model(source: str, target: str, options: Mapping[str, Any]) -> Any:
    """Write ``source`` as Python; the report of the import."""
    from burnx import api

    return api.import_onnx(source, target, **options)


def is_weights(source: str) -> bool:
    """Whether a path names a checkpoint rather than a model with a graph."""
    from burnx.architectures import is_checkpoint

    return is_checkpoint(Path(source))


def load_network(source: str, weights: str | None, notice: Callable[[str], None]) -> Any:
    """The Module of ``file.py[:Class]``; ``notice`` hears when its weights are fresh ones."""
    from burnx import api

    return api.load_network(source, weights=weights, notice=notice)


def declared_inputs(network: Any) -> tuple[DeclaredInput, ...]:
    """The inputs that a Module declares, else the parameters of its ``forward``."""
    from burnx.nn.declared import parameter_name

    declared = type(network).inputs
    if declared:
        return tuple(
            DeclaredInput(
                entry.name,
                parameter_name(entry),
                entry.dtype,
                entry.dims,
                entry.optional or bool(entry.default),
                entry.kind,
            )
            for entry in declared
        )
    parameters = inspect.signature(network.forward).parameters.values()
    empty = inspect.Parameter.empty
    return tuple(
        DeclaredInput(item.name, item.name, optional=item.default is not empty)
        for item in parameters
        if item.kind not in (item.VAR_KEYWORD, item.VAR_POSITIONAL)
    )


def export_network(
    network: Any,
    inputs: Mapping[str, Any],
    path: str,
    dynamic: Mapping[str, Mapping[int, str]] | None = None,
    opset: int | None = None,
    *,
    standard_ops: bool = False,
) -> None:
    """Write a Module as ONNX."""
    from burnx import api

    api.export_onnx(network, inputs, path, dynamic, opset, standard_ops=standard_ops)


def write_tensors(path: str, tensors: Mapping[str, Any]) -> None:
    """Write arrays as safetensors."""
    from burnx.weights import save_weights

    save_weights(path, tensors)


def list_devices() -> Sequence[Any]:
    from burnx import api

    return api.devices()
