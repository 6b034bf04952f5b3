"""How the source reads that burnx writes for real models, in numbers, beside what others write for the same files.

    python benchmarks/readability.py [--models REGEX] [--json FILE] [--onnxscript PYTHON]

For each model of tests/models/handed.json: lines of source that are not empty, lines for one node of the file, classes,
lines that stand there more than once as part of a longer passage, and names that are numbered, beside the lines of the
hand-written original (original_sources.py).  Where onnxscript is installed, here or for PYTHON, its ``proto2python``
writes the same file, in a process of its own.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from listed_models import models_module
from original_sources import ORIGINALS

from burnx.errors import BurnxError

TIMEOUT_S = 120.0
PASSAGE = 5  # lines in a row that are repeated before they count
NUMBERED = re.compile(r"_?\d+$")
# lines a person needs, by the hand-written originals and the issue that asks for them
WANTED = {
    "resnet50.ts": 100,
    "mobilenet_v2.dynamo": 90,
    "vit_b_16.dynamo": 110,
    "swin_t.ts": 200,
    "bert_base.dynamo": 120,
    "distilbert_base.ts": 110,
    "gpt2_kvcache.dynamo": 130,
    "nudenet_320n": 250,
    "mobilenet_v2.ts.qdq_s8s8": 130,
    "resnet18.ts.qoperator": 100,
    "distilbert_base.ts.dynint8": 130,
}


@dataclass(frozen=True, slots=True)
class Reading:
    """One source in numbers; ``other`` is the number of lines that onnxscript needs, 0 if it fails, None if it is not
    there; ``original`` that of the hand-written source.
    """

    model: str
    nodes: int
    lines: int
    classes: int
    repeated: int
    names: int
    numbered: int
    longest: int
    other: int | None = None
    wanted: int | None = None
    original: int | None = None


def measure(model: str, nodes: int, source: str, other: int | None) -> Reading:
    """The numbers of a source."""
    lines = [line.strip() for line in source.splitlines() if line.strip()]
    tree = ast.parse(source)
    names = _names(tree)
    return Reading(
        model,
        nodes,
        len(lines),
        sum(isinstance(each, ast.ClassDef) for each in ast.walk(tree)),
        _repeated(lines),
        len(names),
        sum(NUMBERED.search(name) is not None for name in names),
        max(map(len, source.splitlines())),
        other,
        WANTED.get(model),
        ORIGINALS[model].lines if model in ORIGINALS else None,
    )


def _names(tree: ast.AST) -> list[str]:
    """Every local variable, parameter and attribute of a function or class, once for each function."""
    found: list[str] = []
    for each in ast.walk(tree):
        if not isinstance(each, ast.FunctionDef):
            continue
        own = {argument.arg for argument in each.args.args}
        for inner in ast.walk(each):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                own.add(inner.id)
            if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
                own.add(inner.attr)
        found += own
    return found


def _repeated(lines: list[str]) -> int:
    """How many lines are part of a passage that stands there before."""
    passages = [tuple(lines[place : place + PASSAGE]) for place in range(len(lines) - PASSAGE + 1)]
    counts = Counter(passages)
    seen: set[tuple[str, ...]] = set()
    again: set[int] = set()
    for place, passage in enumerate(passages):
        if counts[passage] > 1 and passage in seen:
            again |= set(range(place, place + PASSAGE))
        seen.add(passage)
    return len(again)


def read_model(path: Path, name: str, peer: str) -> Reading:
    """Import a file and measure its source."""
    import burnx
    from burnx.importer.onnx_file import count_nodes
    from burnx.importer.onnx_file import read_model as read_file

    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "model.py"
        burnx.import_onnx(str(path), str(target))
        source = target.read_text(encoding="utf-8")
    nodes = count_nodes(read_file(path).proto.graph)
    return measure(name, nodes, source, lines_of_onnxscript(path, peer))


def has_onnxscript(python: str) -> bool:
    """Whether a Python has onnxscript."""
    return _asked(python, "import onnxscript.backend.onnx_export", TIMEOUT_S) is not None


def lines_of_onnxscript(path: Path, python: str) -> int | None:
    """How many lines onnxscript writes for a file; 0 if it fails, None without a ``python`` that has it."""
    if not python:
        return None
    found = _asked(python, _PEER, TIMEOUT_S, str(path))
    return 0 if found is None else int(found)


_PEER = """
import math, sys, onnx
from onnxscript.backend.onnx_export import export2python
model = onnx.load(sys.argv[1])
for each in model.graph.initializer:
    if math.prod(each.dims) > 64:  # a line whatever it holds
        each.CopyFrom(onnx.TensorProto(name=each.name, data_type=each.data_type, dims=[0]))
written = export2python(model)
print(sum(1 for line in written.splitlines() if line.strip()))
"""


def _asked(python: str, program: str, timeout_s: float, *arguments: str) -> str | None:
    """What a program prints last; None if it fails or takes too long."""
    command = [python, "-c", program, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip().rpartition("\n")[2] if done.returncode == 0 else None


def table(readings: list[Reading]) -> list[str]:
    """The readings as a Markdown table."""
    head = ("model", "nodes", "lines", "a node", "wanted", "classes", "repeated", "numbered names")
    rows: list[tuple[str, ...]] = [(*head, "original", "onnxscript")]
    for each in readings:
        other = "fails" if each.other == 0 else _number(each.other)
        counts = (_number(each.wanted), str(each.classes), str(each.repeated))
        rows.append((*_start(each), *counts, _share(each), _number(each.original), other))
    return _markdown(rows)


def readme_part(results: Sequence[dict[str, Any]]) -> str:
    """What the README says of results that were kept."""
    return readme_table([Reading(**each) for each in results])


def readme_table(readings: list[Reading]) -> str:
    """The models of which there is an original or a limit, in short, and all of them in one line."""
    head = ("model", "nodes in the file", "lines", "a node", "classes", "numbered names")
    rows: list[tuple[str, ...]] = [(*head, "hand-written original", "onnxscript")]
    shown = [each for each in readings if each.original or each.wanted]
    for each in shown:
        other = "fails" if each.other == 0 else _number(each.other)
        rows.append((*_start(each), str(each.classes), _share(each), _number(each.original), other))
    lines, nodes = (sum(getattr(each, key) for each in readings) for key in ("lines", "nodes"))
    repeated = sum(each.repeated for each in readings)
    every = (
        f"All {len(readings)} models of the tests together: {lines:,} lines for {nodes:,} nodes in the files "
        f"({lines / max(nodes, 1):.2f} a node), of which {repeated:,} repeat a passage."
    )
    return "\n".join([*_markdown(rows), "", every])


def _start(each: Reading) -> tuple[str, ...]:
    share = f"{each.lines / max(each.nodes, 1):.2f}"
    return each.model, f"{each.nodes:,}", f"{each.lines:,}", share


def _share(each: Reading) -> str:
    return f"{100 * each.numbered / max(each.names, 1):.0f}%"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _markdown(rows: Sequence[tuple[str, ...]]) -> list[str]:
    head, *body = ("| " + " | ".join(row) + " |" for row in rows)
    return [head, "| --- |" + " --: |" * (len(rows[0]) - 1), *body]


def main() -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--models", default="", help="names of models, a regular expression")
    parser.add_argument("--json", type=Path, help="write the readings here")
    parser.add_argument(
        "--onnxscript", metavar="PYTHON", default=sys.executable, help="a Python that has it"
    )
    options = parser.parse_args()
    peer = options.onnxscript if has_onnxscript(options.onnxscript) else ""
    if not peer:
        print("onnxscript is not installed: its column stays empty", file=sys.stderr)
    models: Any = models_module()
    readings = []
    for name, entry in models.entries().items():
        if not re.search(options.models, name):
            continue
        try:
            readings.append(read_model(models.path(entry), name, peer))
        except (models.Unavailable, BurnxError) as error:
            print(f"{name}: {error}", file=sys.stderr)
    print("\n".join(table(readings)))
    if options.json:
        options.json.write_text(json.dumps([asdict(each) for each in readings], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
