"""burnx export: a model in Python as ONNX."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from burnx.capture.inputs import input_words
from burnx.cli.console import Console, json_option
from burnx.cli.dims import Growth
from burnx.cli.options import parse_dim, seed_options
from burnx.cli.rooms import declared_inputs, export_network, load_network, parameters_of
from burnx.cli.spec import Inputs, read_inputs
from burnx.cli.trying import attempt_inputs
from burnx.errors import BurnxError, UsageError, VerifyError

_DYNAMIC = re.compile(r"(?P<name>.+):(?P<axis>-?\d+)=(?P<dim>[A-Za-z_][A-Za-z0-9_.]*)", re.DOTALL)

OTHER_SIZE = 3  # of a dimension that was opened, when a file is checked
Dynamic = dict[str, dict[int, str]]


@click.command("export")
@click.argument("source", metavar="FILE.py[:Class]")
@seed_options
@click.option("-o", "target", metavar="FILE.onnx", help="Default: the stem, in this folder.")
@click.option("--weights", metavar="FILE", help="Default: those beside the source.")
@click.option("--dynamic", metavar="NAME:AXIS=DIM", multiple=True, help="A dim that may change.")
@click.option("--opset", type=click.IntRange(min=1), help="Default: the lowest from 20 on.")
@click.option("--standard-ops", is_flag=True, help="Say com.microsoft in operators of ai.onnx.")
@click.option("--check", is_flag=True, help="Compare the file with the source.")
@json_option
@click.pass_obj
def export_command(console: Console, /, source: str, target: str | None, **options: Any) -> None:
    """Write the model in FILE.py as ONNX."""
    target = target or f"{Path(source.partition('.py')[0]).name}.onnx"
    network = load_network(source, options["weights"], console.notice)
    declared = declared_inputs(network)
    dims = dict(map(parse_dim, options["dims"]))
    parameters = parameters_of(declared)
    dynamic = parse_dynamic(options["dynamic"], [entry.name for entry in declared], parameters)

    def read(growth: Growth) -> Inputs:
        specs, seed = options["specs"], options["seed"]
        return read_inputs(specs, declared, dims, seed, lambda: parameters, growth)

    def export(inputs: Mapping[str, Any]) -> None:
        standard = options["standard_ops"]
        export_network(network, inputs, target, dynamic, options["opset"], standard_ops=standard)
        if options["check"]:
            network(**_by_parameter(network, inputs))

    with console.working(f"exporting {source}"):
        inputs, _ = attempt_inputs(read, export, console)
    console.say(f"wrote {target}")
    result: dict[str, Any] = {"file": target}
    if options["check"]:
        result["check"] = check_file(console, source, network, target, inputs)
        if dynamic:
            check_opened(console, target, inputs, dynamic)
    console.result(result)


def parse_dynamic(
    texts: Sequence[str], names: Sequence[str], parameters: Mapping[str, str]
) -> Dynamic:
    """NAME:AXIS=DIM, any number of them, as dims by axis by input.

    Raises: UsageError if one is not of that form or names no input.
    """
    dynamic: Dynamic = {}
    for text in texts:
        match = _DYNAMIC.fullmatch(text)
        if match is None:
            raise UsageError(f"--dynamic is NAME:AXIS=DIM; found {text!r}")
        name = match["name"] if match["name"] in names else parameters.get(match["name"])
        if name is None:
            listed = ", ".join(input_words(names, parameters)) or "none"
            raise UsageError(f"--dynamic {text!r} names no input; the inputs are {listed}")
        dynamic.setdefault(name, {})[int(match["axis"])] = match["dim"]
    return dynamic


def check_file(
    console: Console, source: str, network: Any, target: str, inputs: Mapping[str, Any]
) -> dict[str, Any]:
    """Compare an exported file, run by another engine, with what it was exported from.

    Raises: VerifyError if they differ.
    """
    from burnx.agreement.spread import SpreadOf
    from burnx.conformance.engines import judge_model
    from burnx.conformance.verify import check_outputs

    judge, found = judge_model(target, inputs)
    expected = outputs_of(network, inputs, list(found))
    what = f"{target} in {judge.name} differs from {source}"
    excused = check_outputs(expected, found, SpreadOf(target, inputs), what)
    if excused:
        console.notice(f"{target} agrees with {source} as nearly as rounding lets it: {excused}")
    because = f" ({judge.why})" if judge.why else ""
    console.say(f"checked: {target} in {judge.name}{because} agrees with {source}")
    return {"agrees_with": judge.name, "because": judge.why, "note": excused}


def check_opened(
    console: Console, target: str, inputs: Mapping[str, Any], dynamic: Dynamic
) -> None:
    """Run an exported file with other sizes of the dimensions that were opened, here and by another engine.

    Raises: VerifyError if it runs with none, or the two differ.
    """
    from burnx import api
    from burnx.agreement.spread import SpreadOf
    from burnx.conformance.engines import judge_model
    from burnx.conformance.verify import check_outputs

    first: BurnxError | None = None
    for sizes in _other_sizes(inputs, dynamic):
        grown = {
            name: _grown(value, dynamic.get(name, {}), sizes) for name, value in inputs.items()
        }
        said = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        try:
            judge, found = judge_model(target, grown)
            own = api.load(target).run(grown)
            break
        except BurnxError as error:
            first = first or error
    else:
        tried = _tried(inputs, dynamic)
        raise VerifyError(
            f"{target} does not run with {tried}: the model itself keeps the old size ({first})"
        ) from first
    what = f"{target} in {judge.name} differs with {said}"
    excused = check_outputs(own, found, SpreadOf(target, grown), what)
    if excused:
        console.notice(f"{target} with {said} agrees as nearly as rounding lets it: {excused}")
    console.say(f"checked: {target} in {judge.name} with {said} as well")


def _other_sizes(inputs: Mapping[str, Any], dynamic: Dynamic) -> Iterator[dict[str, int]]:
    """Sizes for opened dimensions, unlike each other and what they were: small ones, larger ones, and twice as large."""
    old = {
        dim: np.shape(inputs[name])[axis]
        for name, axes in dynamic.items()
        for axis, dim in axes.items()
        if name in inputs
    }
    names = _opened(dynamic)
    yield {name: OTHER_SIZE + place for place, name in enumerate(names)}
    yield {name: old.get(name, 0) + OTHER_SIZE + place for place, name in enumerate(names)}
    yield {name: max(2 * old.get(name, 1), 2) for name in names}


def _tried(inputs: Mapping[str, Any], dynamic: Dynamic) -> str:
    """All sizes that were tried, in words."""
    return "; or ".join(
        ", ".join(f"{name} = {size}" for name, size in sizes.items())
        for sizes in _other_sizes(inputs, dynamic)
    )


def _opened(dynamic: Dynamic) -> list[str]:
    return list(dict.fromkeys(name for axes in dynamic.values() for name in axes.values()))


def _grown(value: Any, axes: Mapping[int, str], sizes: Mapping[str, int]) -> Any:
    """An input with more along some axes: its elements again."""
    for axis, name in axes.items():
        value = np.take(value, np.arange(sizes[name]) % max(np.shape(value)[axis], 1), axis)
    return value


def outputs_of(network: Any, inputs: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """What a Module gives, as NumPy arrays under the names of its outputs."""
    from burnx.tensor import to_numpy

    result = network(**_by_parameter(network, inputs))
    values = [result] if len(names) == 1 else list(result)
    if len(values) != len(names):
        raise VerifyError(f"the file has {len(names)} outputs, the source gives {len(values)}")
    return dict(zip(names, to_numpy(values), strict=True))


def _by_parameter(network: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs under the names that ``forward`` knows them by."""
    parameters = {entry.name: entry.parameter for entry in declared_inputs(network)}
    return {parameters[name]: value for name, value in inputs.items()}
