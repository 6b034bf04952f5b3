"""burnx run: a model, once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from burnx.cli.arrays import WRITERS, flatten, save_outputs
from burnx.cli.console import Console, json_option
from burnx.cli.options import ModelRequest, model_options
from burnx.cli.rooms import inputs_that_run, load_model
from burnx.dtype import dtype_name
from burnx.errors import UsageError

_FIRST = 8
_FIRST_IN_JSON = 1000


@click.command("run")
@model_options()
@click.option("-o", "output", metavar="FILE", help="Write the outputs: .npz or .safetensors.")
@json_option
@click.pass_obj
def run_command(console: Console, /, request: ModelRequest, output: str | None) -> None:
    """Run MODEL (file.onnx or file.py[:Class]) once."""
    if output is not None and Path(output).suffix not in WRITERS:
        raise UsageError(f"-o is a file called {' or '.join(WRITERS)}; found {output!r}")
    with console.working(f"loading {request.model}"):
        model = load_model(request)
    with console.working(f"running {request.model}"):
        _, outputs = inputs_that_run(model, request, console, model.run)
    if output is not None:
        save_outputs(output, outputs, console.notice)
        console.say(f"wrote {output}")
    else:
        for line in summarize(outputs):
            console.say(line)
    console.result({"outputs": _outputs_json(outputs), "file": output})


def summarize(outputs: Mapping[str, Any]) -> list[str]:
    """A line for each array: name, dtype, shape and first values."""
    lines = [
        f"{name}: {dtype_name(array.dtype)} {'x'.join(map(str, array.shape)) or 'scalar'}"
        f"  {_first_values(array)}"
        for name, array in flatten(outputs).items()
    ]
    return lines + [f"{name}: nothing" for name, value in outputs.items() if value is None]


def _first_values(array: np.ndarray[Any, Any]) -> str:
    flat = array.reshape(-1)
    items = flat[:_FIRST].tolist()
    texts = [f"{item:.6g}" if isinstance(item, float) else repr(item) for item in items]
    return f"[{', '.join(texts)}{', …' if flat.size > _FIRST else ''}]"


def _outputs_json(outputs: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {
            "dtype": dtype_name(array.dtype),
            "shape": list(array.shape),
            "values": array.reshape(-1)[:_FIRST_IN_JSON].tolist(),
        }
        for name, array in flatten(outputs).items()
    }
