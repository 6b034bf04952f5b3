"""One report of everything in a model that burnx does not know."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import onnx

from burnx.errors import ModelError, UnsupportedError
from burnx.importer.onnx_file import OnnxFile
from burnx.importer.onnx_version import resolve


@dataclass(slots=True)
class Gap:
    """An operator that burnx does not know: where it first is and how often."""

    domain: str
    op_type: str
    version: int
    first: str
    reason: str
    count: int = 0

    def __str__(self) -> str:
        kind = f"{self.domain}.{self.op_type}" if self.domain else self.op_type
        times = f"{self.count} node{'s' if self.count > 1 else ''}"
        return f'{kind} (opset {self.version}): {times}, first "{self.first}": {self.reason}'


def gaps(file: OnnxFile) -> list[Gap]:
    """Every operator of a model, its subgraphs and functions that burnx does not know."""
    model = file.proto
    functions = {(function.domain, function.name) for function in model.functions}
    found: dict[tuple[str, str], Gap] = {}
    for opsets, node in _nodes(model):
        domain = "" if node.domain == "ai.onnx" else node.domain
        if (node.domain, node.op_type) in functions or (
            domain == "" and node.op_type == "Constant"
        ):
            continue
        version = opsets.get(domain, 1)
        try:
            resolve(domain, node.op_type, version)
        except UnsupportedError as error:
            first = node.name or next((name for name in node.output if name), "")
            gap = found.setdefault(
                (domain, node.op_type), Gap(domain, node.op_type, version, first, error.message)
            )
            gap.count += 1
    return list(found.values())


def _nodes(model: Any) -> Iterator[tuple[dict[str, int], Any]]:
    opsets = _versions(model.opset_import)
    for node in _walk(model.graph.node):
        yield opsets, node
    for function in model.functions:
        own = _versions(function.opset_import)
        for node in _walk(function.node):
            yield own, node


def _versions(imports: Any) -> dict[str, int]:
    return {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in imports}


def _walk(nodes: Any) -> Iterator[Any]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in [attribute.g, *attribute.graphs]:
                yield from _walk(graph.node)


def check_supported(file: OnnxFile) -> None:
    """Raises: UnsupportedError with the whole report, if there is anything to report."""
    newest = onnx.defs.onnx_opset_version()
    version = _versions(file.proto.opset_import).get("", 1)
    if version > newest:
        raise ModelError(
            f"the file imports opset {version}; burnx knows up to {newest}, {file.place}"
        )
    found = gaps(file)
    if found:
        lines = "\n".join(f"  {gap}" for gap in found)
        raise UnsupportedError(f"{file.place} has operators that burnx does not know:\n{lines}")
