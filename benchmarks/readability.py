"""How the source reads that burnx writes for real models, in numbers, beside what others write for the same files.

    python benchmarks/readability.py [--models REGEX] [--json FILE]

For each model of tests/models/handed.json: lines of source that are not empty, lines for one node of the file, classes,
lines that stand there more than once as part of a longer passage, and names that are numbered.  Where onnxscript is
installed, its ``proto2python`` writes the same file.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import re
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from listed_models import models_module

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
    """One source in numbers; ``other`` is the number of lines that onnxscript needs, None if it fails."""

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


def read_model(path: Path, name: str) -> Reading:
    """Import a file and measure its source."""
    import onnx

    import burnx

    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "model.py"
        burnx.import_onnx(str(path), str(target))
        source = target.read_text(encoding="utf-8")
    nodes = len(onnx.load(str(path), load_external_data=False).graph.node)
    return measure(name, nodes, source, _lines_of_onnxscript(path))


def _lines_of_onnxscript(path: Path) -> int | None:
    import onnx

    try:
        exporting = importlib.import_module("onnxscript.backend.onnx_export")
    except ImportError:
        return None
    try:
        written: str = exporting.export2python(onnx.load(str(path)))
    except Exception:  # whatever another program meets: it wrote no source
        return None
    return sum(1 for line in written.splitlines() if line.strip())


def table(readings: list[Reading]) -> list[str]:
    """The readings as a Markdown table."""
    head = ("model", "nodes", "lines", "a node", "wanted", "classes", "repeated", "numbered names")
    rows = ["| " + " | ".join((*head, "onnxscript")) + " |", "| --- |" + " --: |" * len(head)]
    for each in readings:
        cells = (
            each.model,
            f"{each.nodes:,}",
            f"{each.lines:,}",
            f"{each.lines / max(each.nodes, 1):.2f}",
            "-" if each.wanted is None else str(each.wanted),
            str(each.classes),
            str(each.repeated),
            f"{100 * each.numbered / max(each.names, 1):.0f}%",
            "-" if each.other is None else f"{each.other:,}",
        )
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def main() -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--models", default="", help="names of models, a regular expression")
    parser.add_argument("--json", type=Path, help="write the readings here")
    options = parser.parse_args()
    models: Any = models_module()
    readings = []
    for name, entry in models.entries().items():
        if entry.get("stage") != 1 or not re.search(options.models, name):
            continue
        try:
            path = models.path(entry)
        except models.Unavailable as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        readings.append(read_model(path, name))
    print("\n".join(table(readings)))
    if options.json:
        options.json.write_text(json.dumps([asdict(each) for each in readings], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
