"""Folding: nodes whose results are known become constants."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import numpy as np

from burnx.errors import BurnxError
from burnx.graph import KNOWN_ELEMENTS, Array, Graph, Node, Value, constant_value
from burnx.lowering import lower
from burnx.passes.editing import Editor, edit, sweep
from burnx.passes.linear import is_turning
from burnx.program import Program, walk
from burnx.runtime.device import find_device, prepare
from burnx.types import TensorType, Type

GROWTH_BYTES = 64 * 1024
SHORTEST = 3  # letters that names have in common before they are a word
_MADE_UP = re.compile(r"[/:;]|_output(_\d+)?$")
# what a quantised weight means stays with the weight, and cleaning keeps the constant behind an Identity
_KEPT = frozenset({"DequantizeLinear", "QuantizeLinear", "Identity"})
_REGROUPING = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze"})
# operators that give elements of their operands, in another order; only Concat has several that count
_MOVING = _REGROUPING | {"Slice", "Transpose", "Gather", "Split", "Concat", "Cast", "Identity"}


def fold(graph: Graph) -> int:
    """Fold a graph and its subgraphs; how many nodes became constants or the branch that is always taken."""
    editor = edit(graph)
    folder = Folder(editor)
    return sweep(editor, graph, folder.visit)


@dataclass(slots=True, eq=False)
class Folder:
    """``origins`` says which constants of the model a folded one was made from, ``moved`` of which weights it has
    nothing but the elements.
    """

    editor: Editor
    origins: dict[Value, frozenset[Value]] = field(default_factory=dict)
    moved: dict[Value, frozenset[str]] = field(default_factory=dict)

    def visit(self, node: Node) -> bool:
        if self.editor.is_dead(node) or node.operator in _KEPT:
            return False
        if node.operator == "If" and not node.domain and self._choose(node):
            return True
        if is_turning(node) and self._is_factor(node.outputs[0]):
            return False
        arrays = _known_arrays(node)
        origin: frozenset[Value] = frozenset()
        if arrays is None:
            read = {value for value in node.inputs if value is not None}
            if any(True for _ in node.subgraphs()) or not all(value.is_constant for value in read):
                return False
            origin = frozenset().union(*(self.origins.get(v, frozenset({v})) for v in read))
            arrays = self._computed(node, origin)
        if arrays is None:
            return False
        for old, array in zip(node.outputs, arrays, strict=True):
            new = constant_value(array, self._name(node) or self._moved_name(node) or old.name)
            self.origins[new] = origin
            self.moved[new] = self._sources(node)
            self.editor.replace(old, new)
        self.editor.remove(node)
        return True

    def _choose(self, node: Node) -> bool:
        """Replace an If whose condition is known by the nodes of its branch."""
        condition = node.inputs[0]
        known = None if condition is None else _array(condition)
        if known is None or known.size != 1:
            return False
        taken = bool(known.reshape(()))
        self.editor.splice(node, node.attributes["then_branch" if taken else "else_branch"])
        return True

    def _computed(self, node: Node, origin: frozenset[Value]) -> list[Array] | None:
        """What a node gives; None if that fails, is not always the same, or is too large."""
        limit = GROWTH_BYTES + sum(v.array.nbytes for v in origin if v.array is not None)
        sizes = [_size_bytes(value.type) for value in node.outputs]
        if any(size is None for size in sizes) or sum(filter(None, sizes)) > limit:
            return None
        return _view(node) or evaluate(node)

    def _name(self, node: Node) -> str:
        """The name of a weight that is only stored in another order here."""
        source = node.inputs[0] if _view(node) is not None else None
        if source is None or not self.editor.is_only_used_by(source, {node}):
            return ""
        return source.name

    def _sources(self, node: Node) -> frozenset[str]:
        """The names of the weights whose elements a node gives; none if it gives others too."""
        if node.domain or node.operator not in _MOVING:
            return frozenset()
        parts = node.inputs if node.operator == "Concat" else node.inputs[:1]
        found = [self._names(value) for value in parts if value is not None]
        return frozenset().union(*found) if all(found) else frozenset()

    def _names(self, value: Value) -> frozenset[str]:
        if value in self.moved:
            return self.moved[value]
        is_weight = value.is_constant and "." in value.name and not _MADE_UP.search(value.name)
        return frozenset({value.name}) if is_weight else frozenset()

    def _moved_name(self, node: Node) -> str:
        """The name of the weights that are only stored in another order here: what theirs begin with, if several."""
        names = sorted(self._sources(node))
        if len(names) == 1:
            return names[0]
        start = "".join(each[0] for each in takewhile(_are_one, zip(*names, strict=False)))
        start = start.rstrip("_0123456789")
        return start if len(start.rpartition(".")[2]) >= SHORTEST else ""

    def _is_factor(self, value: Value) -> bool:
        """Whether products alone read a value: a transposed weight keeps its own name and order there."""
        readers = self.editor.users.get(value, {})
        return all(
            reader.operator in ("MatMul", "Gemm") and reader.inputs[1] is value
            for reader in readers
        ) and not self.editor.results.get(value)


def _are_one(letters: tuple[str, ...]) -> bool:
    return len(set(letters)) == 1


def evaluate(node: Node) -> list[Array] | None:
    """The outputs of a node that reads constants only; None if it fails or draws random numbers."""
    alone = Graph(outputs=node.outputs, nodes=[node], output_names=[""] * len(node.outputs))
    try:
        program = lower(alone, [])
        if not _is_pure(program):
            return None
        arrays = prepare(program, find_device("reference"))([])
    except (BurnxError, ArithmeticError, LookupError, TypeError, ValueError, MemoryError):
        return None  # an error belongs to the run, which may never come here
    if all(_fits(array, value.type) for array, value in zip(arrays, node.outputs, strict=True)):
        return arrays
    return None


def _is_pure(program: Program) -> bool:
    return not any(each.primitive in ("draw_key", "host", "defer") for each in walk(program))


def _known_arrays(node: Node) -> list[Array] | None:
    """The outputs of a node as far as they were worked out while the graph was made."""
    arrays = list(_known(node))
    return arrays if len(arrays) == len(node.outputs) and not list(node.subgraphs()) else None


def _known(node: Node) -> Iterator[Array]:
    for value in node.outputs:
        array = _array(value)
        if array is not None and array.size <= KNOWN_ELEMENTS:
            yield array


def _array(value: Value) -> Array | None:
    """A value that is known in full, in its own dtype."""
    found = value.array if value.array is not None else value.known
    if found is None or not isinstance(value.type, TensorType):
        return None
    if found.dtype == object and value.type.dtype != object:
        if not all(isinstance(item, int) for item in found.flat):
            return None
    array = np.asarray(found.astype(value.type.dtype) if found.dtype != value.type.dtype else found)
    return array if _fits(array, value.type) else None


def _fits(array: Any, kind: Type) -> bool:
    if not isinstance(array, np.ndarray) or not isinstance(kind, TensorType):
        return False
    if array.dtype != kind.dtype or kind.shape is None or len(kind.shape) != array.ndim:
        return False
    return all(
        dim == size
        for dim, size in zip(kind.shape, array.shape, strict=True)
        if isinstance(dim, int)
    )


def _size_bytes(kind: Type) -> int | None:
    """The size of a tensor, if it is known before it is there."""
    if not isinstance(kind, TensorType) or kind.shape is None:
        return None
    total = kind.dtype.itemsize
    for dim in kind.shape:
        if not isinstance(dim, int):
            return None
        total *= dim
    return total


def _view(node: Node) -> list[Array] | None:
    """A constant in another order or grouping, which shares its memory."""
    source, kind = node.inputs[0] if node.inputs else None, node.outputs[0].type
    if source is None or source.array is None or node.domain or not isinstance(kind, TensorType):
        return None
    if is_turning(node):
        return [source.array.T]
    if node.operator not in _REGROUPING or kind.shape is None:
        return None
    return [source.array.reshape([int(dim) for dim in kind.shape])]
