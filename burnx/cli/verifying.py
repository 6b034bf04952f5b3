"""burnx verify: a model against another engine, device by device."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from burnx.cli.console import Console, json_option
from burnx.cli.options import ModelRequest, model_options
from burnx.cli.rooms import declared_inputs, export_network, inputs_for, load_model, load_network

if TYPE_CHECKING:
    from burnx.conformance.verify import DeviceVerdict, Verdict

_MAX_THREADS = 2


@click.command("verify")
@model_options(several_devices=True)
@click.option("--rtol", type=click.FloatRange(min=0), help="Default: by dtype.")
@click.option("--atol", type=click.FloatRange(min=0), help="Default: by dtype.")
@json_option
@click.pass_obj
def verify_command(
    console: Console, /, request: ModelRequest, rtol: float | None, atol: float | None
) -> int:
    """Compare MODEL with onnxruntime; name the first node where they part."""
    from burnx.conformance.verify import Comparison, verify_model

    def load(model: str, device: str | None) -> Any:
        return load_model(request, model, device)

    with console.working(f"loading {request.model}"):
        first = load_model(request)
    inputs = inputs_for(first, request, console)
    with as_onnx(request.model, inputs, console) as path:
        threads = min(request.threads or 1, _MAX_THREADS)
        comparison = Comparison(request.model, path, inputs, load, (rtol, atol), threads)
        with console.working(f"comparing {request.model}"):
            verdict = verify_model(comparison, request.devices or (first.device.name,))
    show_verdict(console, request.model, verdict)
    console.result({"model": request.model, **verdict.as_json()})
    return 0 if verdict.agrees else 1


@contextmanager
def as_onnx(model: str, inputs: dict[str, Any], console: Console) -> Iterator[str]:
    """The ONNX file to give to another engine: the model itself, or what its source exports."""
    from burnx.nn.sources import is_source

    if not is_source(model):
        yield model
        return
    with tempfile.TemporaryDirectory(prefix="burnx-") as folder:
        path = str(Path(folder) / "exported.onnx")
        network = load_network(model, None, console.notice)
        known = {entry.name for entry in declared_inputs(network)}
        given = {name: value for name, value in inputs.items() if name in known}
        export_network(network, given, path)
        yield path


def show_verdict(console: Console, model: str, verdict: Verdict) -> None:
    """Say what each device gave; what differs goes to stderr as well as the exit status."""
    because = f" ({verdict.judge.why})" if verdict.judge.why else ""
    against = f"{verdict.judge.name}{because}"
    for device in verdict.devices:
        if device.agrees:
            outputs = ", ".join(map(repr, verdict.outputs))
            console.say(f"{model} on {device.device} agrees with {against}: {outputs}")
        else:
            console.notice(f"error: {model} on {device.device} {_fault(device, against)}")


def _fault(device: DeviceVerdict, against: str) -> str:
    if device.error:
        return f"failed: {device.error}"
    outputs = "; ".join(f"output {name!r}: {item}" for name, item in device.differences.items())
    return f"differs from {against}: {outputs}; {device.diverging}"
