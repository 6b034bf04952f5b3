"""burnx import: a model as readable Python."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from burnx.cli.console import Console, json_option
from burnx.cli.options import ModelRequest, lift_option, parse_dim, seed_options
from burnx.cli.rooms import import_model, inputs_that_run, is_weights, load_model
from burnx.errors import UsageError


@click.command("import")
@click.argument("source")
@click.option("-o", "target", metavar="FILE.py", help="Default: the legal stem, in this folder.")
@click.option("--weights", metavar="FILE", help="Default: FILE.safetensors, beside the source.")
@click.option("--name", metavar="NAME", help="Of the class (Model).")
@click.option("--flat", is_flag=True, help="One class, no modules.")
@lift_option
@click.option("--force", is_flag=True, help="Write over a file that was edited or is foreign.")
@click.option("--check", is_flag=True, help="Compare what was written with a direct run.")
@seed_options
@json_option
@click.pass_obj
def import_command(
    console: Console, /, source: str, target: str | None, check: bool, **options: Any
) -> None:
    """Write SOURCE as Python: an ONNX file, a checkpoint (.safetensors, .pt, .pth, .bin, an index of shards), or a
    folder of one.

    A checkpoint becomes a whole model if config.json beside it, or the names of its weights, tell a family that burnx
    knows; else a skeleton that says what to fill in.  Its weights stay where they are, unless --weights copies them.

    --input, --dim and --seed say what --check runs it on.
    """
    request = _checked_request(source, check, options)
    target = target or f"{legal_stem(source)}.py"
    if not target.endswith(".py"):
        raise UsageError(f"-o is a file called .py; found {target!r}")
    if check and is_weights(source):
        raise UsageError("--check compares with the graph of an ONNX file: a checkpoint has none")
    with console.working(f"importing {source}"):
        report = import_model(source, target, _given(options))
    console.say(str(report))
    result: dict[str, Any] = {"file": target, "report": report}
    if check:
        written = f"{target}:{options['name'] or 'Model'}"
        result["check"] = check_source(console, request, written)
    console.result(result)


def legal_stem(source: str) -> str:
    """The stem of a file as a legal name of a Python module."""
    name = Path(source).resolve().name if Path(source).is_dir() else Path(source).stem
    name = name.removesuffix(".safetensors.index").removesuffix(".bin.index")
    stem = re.sub(r"\W", "_", name, flags=re.ASCII) or "model"
    return f"_{stem}" if stem[0].isdigit() or keyword.iskeyword(stem) else stem


def check_source(console: Console, request: ModelRequest, written: str) -> dict[str, Any]:
    """Compare what was written with a direct run of the request and another engine; what was compared.

    Raises: VerifyError if they differ.
    """
    from burnx.agreement.spread import SpreadOf
    from burnx.conformance.engines import has_onnxruntime, judge_model
    from burnx.conformance.verify import check_outputs

    direct = load_model(request)

    def run_others(inputs: Mapping[str, Any]) -> dict[str, Any]:
        others = {"a direct run": direct.run(dict(inputs))}
        if has_onnxruntime():
            judge, expected = judge_model(request.model, inputs)
            if judge.why:
                console.notice(f"compared with the {judge.name}, since {judge.why}")
            others[judge.name] = expected
        return others

    inputs, others = inputs_that_run(direct, request, console, run_others)
    outputs = load_model(ModelRequest(written)).run(inputs)
    spread, notes = SpreadOf(request.model, inputs), []
    for name, expected in others.items():
        excused = check_outputs(expected, outputs, spread, f"{written} differs from {name}")
        if excused:
            notes.append(f"{written} agrees with {name} as nearly as rounding lets it: {excused}")
            console.notice(notes[-1])
    console.say(f"checked: {written} agrees with {' and '.join(others)}")
    return {"agrees_with": list(others), "notes": notes}


def _checked_request(source: str, check: bool, options: dict[str, Any]) -> ModelRequest:
    """What --check runs, its part of the options taken out of them.

    Raises: UsageError if there is such an option without --check.
    """
    specs, dims, seed = (options.pop(name) for name in ("specs", "dims", "seed"))
    if not check and (specs or dims or seed):
        raise UsageError("--input, --dim and --seed say what --check runs on: add --check")
    return ModelRequest(source, specs, dict(map(parse_dim, dims)), seed)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if value not in (None, False, ())}
