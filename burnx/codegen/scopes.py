"""Which module a node belongs to: the path of attribute names that the exporter left in its name or metadata."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

from burnx.codegen.names import split_scope
from burnx.graph import Node

Path = tuple[str, ...]
_SCOPES = "pkg.torch.onnx.name_scopes"
_CLASSES = "pkg.torch.onnx.class_hierarchy"


@dataclass(slots=True)
class Scopes:
    """The module path of each node, and the class names that are known for paths."""

    paths: dict[Node, Path] = field(default_factory=dict)
    classes: dict[Path, str] = field(default_factory=dict)

    def of(self, node: Node) -> Path:
        return self.paths.get(node, ())


def read_scopes(nodes: Iterable[Node]) -> Scopes:
    """The scopes of all nodes: from metadata, else from node names."""
    scopes = Scopes()
    for node in nodes:
        path = _from_metadata(node, scopes)
        scopes.paths[node] = split_scope(node.name) if path is None else path
    return scopes


def _from_metadata(node: Node, scopes: Scopes) -> Path | None:
    names = _text_list(node.metadata.get(_SCOPES, ""))
    if len(names) < 2:
        return None
    classes = _text_list(node.metadata.get(_CLASSES, ""))
    for name, kind in zip(names[1:-1], classes[1:-1], strict=False):
        scopes.classes.setdefault(tuple(name.split(".")), kind.rpartition(".")[2])
    path = names[-2]
    if any(not part for part in path.split(".")) and path:
        return None
    return tuple(path.split(".")) if path else ()


def _text_list(text: str) -> list[str]:
    """A list of strings as exporters write it; empty if it is anything else."""
    if not text.startswith("[") or len(text) > 20_000:
        return []
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return value if isinstance(value, list) and all(isinstance(item, str) for item in value) else []
