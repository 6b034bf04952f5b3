"""burnx demo: a small trained model, there and back."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import click
import numpy as np

from burnx.cli.console import Console, json_option
from burnx.cli.options import ModelRequest
from burnx.cli.rooms import export_network, import_model, load_model, load_network
from burnx.errors import VerifyError

_NAME = "digits"


@click.command("demo")
@click.option("-o", "folder", metavar="FOLDER", help="Keep the files here.")
@click.option("--device", metavar="D", help="reference, cpu, opencl:N or cuda:N.")
@json_option
@click.pass_obj
def demo_command(console: Console, /, folder: str | None, device: str | None) -> None:
    """Import, print, run, export and verify a small model that ships with burnx."""
    with _folder(folder) as place, resources.as_file(resources.files("burnx") / "demo") as data:
        console.result(_there_and_back(console, data, place, device))


def _there_and_back(
    console: Console, data: Path, place: Path, device: str | None
) -> dict[str, Any]:
    model, source, exported = (
        data / f"{_NAME}.onnx",
        place / f"{_NAME}.py",
        place / f"{_NAME}_again.onnx",
    )
    with np.load(data / f"{_NAME}_samples.npz", allow_pickle=False) as samples:
        images, labels = samples["images"], samples["labels"]

    console.say(f"# burnx import {model.name}\n")
    import_model(str(model), str(source), {"force": True})
    console.say(source.read_text(encoding="utf-8"))

    console.say(f"# burnx run {source.name}\n")
    loaded = load_model(ModelRequest(str(source)), device=device)
    inputs = {loaded.inputs[0].name: images}
    outputs = loaded.run(dict(inputs))
    right = _count_right(outputs, labels)
    console.say(f"{right} of {len(labels)} handwritten digits read right\n")

    console.say(f"# burnx export {source.name}\n")
    network = load_network(f"{source}:Model", None, console.notice)
    export_network(network, inputs, str(exported))
    console.say(f"wrote {exported.name}, {exported.stat().st_size:,} bytes\n")

    console.say(f"# burnx verify {exported.name}\n")
    judge, why = _verify(exported, inputs, outputs)
    console.say(f"{judge} gives the same outputs{f' ({why})' if why else ''}")
    return {
        "right": right,
        "samples": len(labels),
        "verified_with": judge,
        "because": why,
        "files": [source.name, exported.name],
    }


def _count_right(outputs: Mapping[str, Any], labels: np.ndarray[Any, Any]) -> int:
    """How many rows of the first output are greatest at their label."""
    scores = next(iter(outputs.values()))
    found = scores.argmax(axis=-1) if scores.ndim > 1 else scores
    return int((found == labels).sum())


def _verify(
    exported: Path, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
) -> tuple[str, str]:
    """The engine that gave the same outputs from the exported file, and why if not onnxruntime.

    Raises: VerifyError if it gives others.
    """
    from burnx.conformance.engines import judge_model
    from burnx.conformance.verify import compare_outputs

    judge, expected = judge_model(str(exported), inputs)
    for name, difference in compare_outputs(expected, outputs).items():
        raise VerifyError(f"{exported.name} in {judge.name}: output {name!r}: {difference}")
    return judge.name, judge.why


@contextmanager
def _folder(folder: str | None) -> Iterator[Path]:
    """The folder to write to; without one, a temporary one."""
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        yield Path(folder)
        return
    with tempfile.TemporaryDirectory(prefix="burnx-demo-") as temporary:
        yield Path(temporary)
