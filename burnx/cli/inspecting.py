"""burnx inspect: what a model consists of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from burnx.cli.console import Console, as_json, json_option, table
from burnx.cli.options import ModelRequest, model_options
from burnx.cli.rooms import inputs_for, load_model
from burnx.cli.trying import say_made_up
from burnx.errors import UnsupportedError


@click.command("inspect")
@model_options()
@json_option
@click.pass_obj
def inspect_command(console: Console, /, request: ModelRequest) -> None:
    """Say what MODEL consists of."""
    try:
        facts = _loaded_facts(console, request)
    except UnsupportedError as error:
        facts = _file_facts(request.model, error)
    for line in render(facts):
        console.say(line)
    console.result(facts)


def render(facts: Mapping[str, Any]) -> list[str]:
    """The facts as lines to read."""
    lines = [f"{kind[:-1]} {_value_text(v)}" for kind in ("inputs", "outputs") for v in facts[kind]]
    lines += ["", table(("operator", "count"), list(facts["operators"].items())), ""]
    read = sum(facts["operators"].values())
    there = f"{facts['nodes']:,} in the file, " if "nodes" in facts else ""
    lines.append(f"nodes        {there}{read:,} as read, those in branches and loops included")
    lines.append(f"parameters   {facts['parameters']:,}, the elements of all constants")
    for key, label, unit in _FIGURES:
        if key in facts:
            lines.append(f"{label:<12} {_scaled(facts[key], unit)}")
    if facts.get("sizes"):
        sizes = ", ".join(f"{name}={size}" for name, size in facts["sizes"].items())
        lines.append(f"at sizes     {sizes} (--dim NAME=N sets one)")
    if facts.get("unknown"):
        lines.append(f"not counted  {len(facts['unknown'])} nodes: {_some(facts['unknown'])}")
    if "device" in facts:
        lines.append(f"placement    {_placement_text(facts['device'], facts['placement'])}")
    lines += [f"in Python    {row}" for row in facts.get("placement", ())]
    lines += [f"unsupported  {row}" for row in facts["unsupported"]]
    return lines


def _placement_text(device: str, foreign: Sequence[str]) -> str:
    return f"all on {device} but what follows" if foreign else f"all on {device}"


_FIGURES = (
    ("parameter_bytes", "weights", "B"),
    ("activation_bytes", "activations", "B"),
    ("flops", "operations", "FLOP"),
)


def _loaded_facts(console: Console, request: ModelRequest) -> dict[str, Any]:
    from burnx.conformance.analysis import analyze_graph

    model = load_model(request)
    dims = dict(request.dims)
    if request.specs or dims:
        given = inputs_for(model, request)
        say_made_up(given, console)
        dims |= seen_sizes(model.graph.inputs, given.values)
    facts: dict[str, Any] = as_json(analyze_graph(model.graph, dims))
    return {
        "inputs": [_described(value) for value in model.inputs],
        "outputs": [_described(value) for value in model.outputs],
        **_file_nodes(request.model),
        **facts,
        "device": model.device.name,
        "placement": [_foreign_text(*each) for each in model.placement().items()],
        "unsupported": [],
    }


def _foreign_text(name: str, places: Sequence[str]) -> str:
    """What Python carries out, how often, and the nodes that it is part of."""
    nodes = [place for place in dict.fromkeys(places) if place]
    return f"{name}: {len(places)}" + (f", {_some(nodes)}" if nodes else "")


def _file_nodes(path: str) -> dict[str, int]:
    """The nodes that stand in a file; a model in Python has none."""
    from burnx.importer.onnx_file import count_nodes, read_model
    from burnx.nn.sources import is_source

    return {} if is_source(path) else {"nodes": count_nodes(read_model(path).proto.graph)}


def _file_facts(path: str, error: UnsupportedError) -> dict[str, Any]:
    from burnx.conformance.file_facts import read_facts
    from burnx.nn.sources import is_source

    if is_source(path):
        raise error
    return {**read_facts(path), "unsupported": str(error).splitlines()}


def seen_sizes(declared: Sequence[Any], given: Mapping[str, Any]) -> dict[str, int]:
    """The sizes that the symbols of a graph's inputs have in these arrays, those without a name included."""
    sizes: dict[str, int] = {}
    for value in declared:
        shape, dims = (
            getattr(given.get(value.name), "shape", None),
            getattr(value.type, "shape", None),
        )
        if shape is None or dims is None or len(shape) != len(dims):
            continue
        pairs = zip(map(str, dims), shape, strict=True)
        sizes |= {dim: size for dim, size in pairs if not dim.isdecimal()}
    return sizes


def _described(value: Any) -> dict[str, Any]:
    optional = {"optional": True} if value.optional else {}
    dims = None if value.dims is None else list(value.dims)
    return {"name": value.name, "dtype": value.dtype, "dims": dims, **optional}


def _value_text(value: Mapping[str, Any]) -> str:
    dims = value["dims"]
    shape = (
        "(...)" if dims is None else f"({', '.join('?' if d is None else str(d) for d in dims)})"
    )
    return (
        f"{value['name']!r}: {value['dtype']} {shape}{' optional' if 'optional' in value else ''}"
    )


def _some(items: Sequence[str], most: int = 5) -> str:
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + more


def _scaled(amount: float, unit: str) -> str:
    """An amount with a decimal prefix: 1.50 GFLOP."""
    for prefix in ("", "k", "M", "G", "T"):
        if amount < 1000 or prefix == "T":
            break
        amount /= 1000
    return f"{amount:.3g} {prefix}{unit}"
