"""Which module a node belongs to: the path of attribute names that the exporter left in its name or metadata."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from burnx.graph import Node
from burnx.structure.paths import own_part, split_parameter, split_scope

Path = tuple[str, ...]
SERIES = 5  # blocks that are numbered by their names, after which they are a list
_SCOPES = "pkg.torch.onnx.name_scopes"
_NUMBERED = re.compile(r"([A-Za-z].*?)(\d{1,4})$")
_CLASSES = "pkg.torch.onnx.class_hierarchy"


@dataclass(slots=True)
class Scopes:
    """The module path of each node, and the class names that are known for paths.


    ``series`` are the lists of blocks that the model names one by one: ``encoder_layer_0`` to ``encoder_layer_11`` are
    the elements of ``encoder_layers``.
    """

    paths: dict[Node, Path] = field(default_factory=dict)
    classes: dict[Path, str] = field(default_factory=dict)
    series: dict[Path, Path] = field(default_factory=dict)

    def of(self, node: Node) -> Path:
        return self.settle(self.paths.get(node, ()))

    def split(self, name: str) -> tuple[Path, str]:
        """The module path of a parameter, as it stands in the source, and the parameter's own name."""
        prefix, leaf = split_parameter(name)
        return self.settle(prefix), leaf

    def settle(self, path: Path) -> Path:
        """A path by the model's names as it stands in the source."""
        found: Path = ()
        for length in range(1, len(path) + 1):
            found = (*found, *self.series.get(path[:length], path[length - 1 : length]))
        return found


def common_path(paths: Sequence[Path]) -> Path:
    """What all paths begin with."""
    first = min(paths, key=len)
    for length in range(len(first), -1, -1):
        if all(path[:length] == first[:length] for path in paths):
            return first[:length]
    return ()


def read_scopes(nodes: Iterable[Node]) -> Scopes:
    """The scopes of all nodes: from metadata, else from node names."""
    scopes = Scopes()
    for node in nodes:
        path = _from_metadata(node, scopes)
        label = own_part(node.name, node.operator)
        scopes.paths[node] = split_scope(label) if path is None else path
    scopes.series = _find_series(scopes.paths.values())
    scopes.classes = {scopes.settle(path): label for path, label in scopes.classes.items()}
    return scopes


def _find_series(paths: Iterable[Path]) -> dict[Path, Path]:
    """Blocks beside each other whose names are one word with numbers from the first to the last of them."""
    children: dict[tuple[Path, str], dict[int, Path]] = {}
    known: set[Path] = set()
    for path in set(paths):
        for length in range(1, len(path)):  # what has something inside
            numbered = _NUMBERED.match(path[length - 1])
            if numbered is not None:
                stem, number = numbered[1].rstrip("_"), int(numbered[2])
                children.setdefault((path[: length - 1], stem), {})[number] = path[:length]
            known.add(path[:length])
    found: dict[Path, Path] = {}
    for (parent, stem), blocks in children.items():
        first, last = min(blocks), max(blocks)
        is_whole = first in (0, 1) and last - first + 1 == len(blocks) >= SERIES
        if is_whole and not {(*parent, stem), (*parent, f"{stem}s")} & known:
            several = stem if stem.endswith("s") else f"{stem}s"
            found |= {path: (several, str(number - first)) for number, path in blocks.items()}
    return found


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
