"""The models that are measured: entries of tests/models/handed.json with "bench", their files and inputs."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
for folder in (ROOT / "tests" / "models", ROOT):  # this checkout is what is measured
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

Entry = Mapping[str, Any]


def models_module() -> Any:
    """tests/models/models.py, which fetches and builds the files."""
    return importlib.import_module("models")


def bench_entries(pattern: str = "") -> list[Entry]:
    """The entries to measure whose names the pattern is found in."""
    table = models_module().entries()
    return [
        entry
        for entry in table.values()
        if entry.get("bench") and re.search(pattern, entry["name"])
    ]


def file_and_inputs(entry: Entry) -> tuple[Path, dict[str, Any]]:
    """The file of an entry, fetched if need be, and its inputs in the order of the file."""
    path: Path = models_module().path(entry)
    inputs = models_module().inputs(entry)
    ordered: dict[str, Any] = importlib.import_module("routes").in_order(path, inputs)
    return path, ordered


def own_excess(
    path: Path, inputs: Mapping[str, Any], expected: Sequence[Any], values: Sequence[Any]
) -> str | None:
    """How far outputs are beyond what onnxruntime differs from itself; None if they are within that."""
    spread = importlib.import_module("spread")
    widest = spread.own_spread(path, inputs)
    pair = (dict(zip(widest, each, strict=True)) for each in (expected, values))
    excess: str | None = spread.excess(*pair, widest)
    return excess


def model_facts(path: Path, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Operations and bytes of weights, as ``burnx inspect`` counts them for these inputs."""
    from burnx import api
    from burnx.cli.inspecting import seen_sizes
    from burnx.conformance.analysis import analyze_graph

    model = api.load(str(path), device="reference")
    found = analyze_graph(model.graph, seen_sizes(model.graph.inputs, inputs))
    return {
        "flops": found.flops,
        "weight_bytes": found.parameter_bytes,
        "not_counted": len(found.unknown),
    }
