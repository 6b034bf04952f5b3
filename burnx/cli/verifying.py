"""burnx verify: a model against another engine, device by device."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from burnx.cli.console import Console, json_option
from burnx.cli.options import ModelRequest, model_options
from burnx.cli.rooms import (
    declared_inputs,
    export_network,
    inputs_that_run,
    load_model,
    load_network,
)
from burnx.errors import ModelError

if TYPE_CHECKING:
    from burnx.conformance.pairs import PairVerdict
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
    """Compare MODEL with onnxruntime, and devices with each other; name the first node where they part."""
    from burnx.conformance.pairs import Keeper, compare_devices
    from burnx.conformance.verify import Comparison, verify_model

    kept = Keeper(request.model, partial(load_model, request))
    with console.working(f"loading {request.model}"):
        first = load_model(request)
    devices = request.devices or (first.device.name,)
    threads = min(request.threads or 1, _MAX_THREADS)

    def compare(inputs: Mapping[str, Any]) -> tuple[Verdict, Sequence[PairVerdict]]:
        kept.outputs.clear()
        with as_onnx(request, inputs, console) as path:
            comparison = Comparison(request.model, path, inputs, kept.open, (rtol, atol), threads)
            found = verify_model(comparison, devices), compare_devices(comparison, kept)
        failed = [device.error for device in found[0].devices if device.error]
        if failed:
            raise _Failed(failed[0], found)
        return found

    with console.working(f"comparing {request.model}"):
        try:
            _, (verdict, pairs) = inputs_that_run(first, request, console, compare)
        except _Failed as error:  # with sizes that were given, or with all that were tried
            verdict, pairs = error.found
    show_verdict(console, request.model, verdict)
    show_pairs(console, request.model, pairs)
    between = [pair.as_json() for pair in pairs]
    console.result({"model": request.model, **verdict.as_json(), "between": between})
    return 0 if verdict.agrees and all(pair.agrees for pair in pairs) else 1


class _Failed(ModelError):
    """A device did not run the model; ``found`` is what is known for all that."""

    def __init__(self, message: str, found: tuple[Verdict, Sequence[PairVerdict]]) -> None:
        super().__init__(message)
        self.found = found


@contextmanager
def as_onnx(request: ModelRequest, inputs: Mapping[str, Any], console: Console) -> Iterator[str]:
    """The ONNX file to give to another engine: the model itself, or what its source exports."""
    from burnx.nn.sources import is_source

    model = request.model
    if not is_source(model):
        yield model
        return
    with tempfile.TemporaryDirectory(prefix="burnx-") as folder:
        path = str(Path(folder) / "exported.onnx")
        network = load_network(model, request.weights, console.notice)
        known = {entry.name for entry in declared_inputs(network)}
        given = {name: value for name, value in inputs.items() if name in known}
        export_network(network, given, path)
        yield path


def show_verdict(console: Console, model: str, verdict: Verdict) -> None:
    """Say what each device gave; what differs goes to stderr as well as the exit status."""
    because = f" ({verdict.judge.why})" if verdict.judge.why else ""
    against = f"{verdict.judge.name}{because}"
    for device in verdict.devices:
        if device.notice:
            console.notice(f"{model} on {device.device} {device.notice}")
        elif device.agrees:
            outputs = ", ".join(map(repr, verdict.outputs))
            console.say(f"{model} on {device.device} agrees with {against}: {outputs}")
        else:
            console.notice(f"error: {model} on {device.device} {_fault(device, against)}")


def show_pairs(console: Console, model: str, pairs: Sequence[PairVerdict]) -> None:
    """Say which devices agree with each other; what differs goes to stderr as well as the exit status."""
    from burnx.conformance.verify import differences_text

    for pair in pairs:
        first, second = pair.devices
        if pair.notice:
            console.notice(
                f"{model} on {first} agrees with {second} as nearly as rounding lets it: {pair.notice}"
            )
        elif pair.agrees:
            console.say(f"{model} on {first} agrees with {second}")
        else:
            console.notice(
                f"error: {model} on {second} differs from {first}: "
                f"{differences_text(pair.differences)}; {pair.diverging}"
            )


def _fault(device: DeviceVerdict, against: str) -> str:
    from burnx.conformance.verify import differences_text

    if device.error:
        return f"failed: {device.error}"
    outputs = differences_text(device.differences)
    return f"differs from {against}: {outputs}; {device.diverging}"
