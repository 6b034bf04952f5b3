"""Cleaning: what changes nothing goes, what follows itself merges, and what is computed twice is computed once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from burnx.dtype import DTYPES, string
from burnx.graph import Graph, Node, Value
from burnx.passes.editing import Editor, edit, sweep
from burnx.passes.neutral import (
    equal_parts,
    filled,
    known_choice,
    neutral_number,
    no_padding,
    one_operand,
    whole_axes,
)
from burnx.passes.rewriting import Match, apply, is_as_good, rewrite, table
from burnx.types import TensorType

FLOAT8_E5M2 = DTYPES["float8_e5m2"]
SMALL_ELEMENTS = 16
MERGED_BYTES = 64 * 1024
RANDOM = frozenset(
    {
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
        "Multinomial",
        "Bernoulli",
    }
)


def clean(graph: Graph) -> int:
    """Clean a graph and its subgraphs; how many nodes and constants went."""
    editor = edit(graph)
    changes = sum(editor.remove(node) for node in _backwards(graph) if editor.is_dead(node))
    twins = Twins(editor)
    rules = table(
        *(_same, _cast, _dropout, _same_shape, _slice, _transpose),
        *(_merge_transposes, _merge_reshapes),
        *(no_padding, one_operand, neutral_number, known_choice, whole_axes),
        *(filled, equal_parts),
    )

    def visit(node: Node) -> bool:
        if node.domain:
            return twins.merge(node)
        return apply(rules, editor, node) or twins.merge(node)

    return changes + sweep(editor, graph, visit) + merge_constants(graph, editor)


def _backwards(graph: Graph) -> list[Node]:
    return list(graph.all_nodes())[::-1]


def _through(node: Node) -> Value | None:
    """The first input, if it can stand for the output."""
    value = node.inputs[0] if node.inputs else None
    if value is None or len(node.outputs) != 1:
        return None
    return value if is_as_good(value.type, node.outputs[0].type) else None


def _unchanged(node: Node) -> Value | None:
    """The first input, if it has the known shape of the output."""
    value = _through(node)
    if value is None or not isinstance(value.type, TensorType) or value.type.shape is None:
        return None
    return value if node.outputs[0].type == value.type else None


@rewrite("Identity")
def _same(node: Node, match: Match) -> Value | None:
    """identity(x) = x"""
    return _through(node)


@rewrite("Cast", "CastLike")
def _cast(node: Node, match: Match) -> Value | None:
    """cast(x, dtype of x) = x, unless it saturates an infinity, which of those that saturate float8_e5m2 has"""
    value = _through(node)
    kind = None if value is None else value.type
    return None if isinstance(kind, TensorType) and kind.dtype == FLOAT8_E5M2 else value


@rewrite("Dropout")
def _dropout(node: Node, match: Match) -> Value | None:
    """dropout(x) = x outside of training"""
    if any(match.editor.is_used(value) for value in node.outputs[1:]) or is_random(node):
        return None
    value = node.inputs[0]
    return value if value is not None and value.type == node.outputs[0].type else None


@rewrite("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile")
def _same_shape(node: Node, match: Match) -> Value | None:
    """reshape(x, shape of x) = x, and the same for all that only spreads or regroups"""
    if node.operator == "Squeeze" and not _has_no_axis_of_1(node.inputs[0]):
        return None
    return _unchanged(node)


def _has_no_axis_of_1(value: Value | None) -> bool:
    """Whether there is surely nothing to squeeze; what a file declares of its outputs may be too narrow."""
    kind = None if value is None else value.type
    if not isinstance(kind, TensorType) or kind.shape is None:
        return False
    return all(isinstance(dim, int) and dim != 1 for dim in kind.shape)


@rewrite("Slice")
def _slice(node: Node, match: Match) -> Value | None:
    """x[0:n:1] = x"""
    steps = node.inputs[4] if len(node.inputs) > 4 else None
    if steps is not None and (steps.array is None or (steps.array < 1).any()):
        return None
    return _unchanged(node)


def _perm(node: Node) -> list[int] | None:
    given = node.attributes.get("perm")
    if given is not None:
        return [int(axis) for axis in given]
    kind = node.outputs[0].type
    if not isinstance(kind, TensorType) or kind.shape is None:
        return None
    return list(range(len(kind.shape)))[::-1]


@rewrite("Transpose")
def _transpose(node: Node, match: Match) -> Value | None:
    """transpose(x, 0 1 2 ...) = x"""
    perm = _perm(node)
    return _through(node) if perm is not None and perm == sorted(perm) else None


@rewrite("Transpose")
def _merge_transposes(node: Node, match: Match) -> Value | None:
    """transpose(transpose(x, p), q) = transpose(x, p[q])"""
    inner = match.inner(node.inputs[0], "Transpose")
    outer_perm, inner_perm = _perm(node), None if inner is None else _perm(inner)
    if inner is None or inner_perm is None or outer_perm is None:
        return None
    perm = [inner_perm[axis] for axis in outer_perm]
    return match.make("Transpose", inner.inputs[0], perm=perm)


@rewrite("Reshape")
def _merge_reshapes(node: Node, match: Match) -> Value | None:
    """reshape(reshape(x, s), t) = reshape(x, t) where t keeps no size of its input"""
    shape = node.inputs[1]
    if shape is None or shape.array is None or (shape.array == 0).any():
        return None
    for operator in ("Reshape", "Flatten", "Squeeze", "Unsqueeze"):
        inner = match.inner(node.inputs[0], operator)
        if inner is not None:
            return match.make("Reshape", inner.inputs[0], shape, **node.attributes)
    return None


def is_random(node: Node) -> bool:
    """Whether a node may give something else the next time."""
    if node.domain:
        return False
    if node.operator != "Dropout":
        return node.operator in RANDOM
    training = node.inputs[2] if len(node.inputs) > 2 else None
    return training is not None and (training.array is None or bool(training.array.any()))


# ------------------------------------------------------------------------------- duplicates
@dataclass(slots=True, eq=False)
class Twins:
    """Nodes that were seen, by what they compute and where.

    Nodes of different scopes stay apart: each block of a model keeps what its author computed in it.
    """

    editor: Editor
    seen: dict[Any, Node] = field(default_factory=dict)

    def merge(self, node: Node) -> bool:
        """Let an equal node before this one stand for it."""
        if is_random(node) or any(True for _ in node.subgraphs()):
            return False
        key = (
            self.editor.owner[node],
            scope_of(node),
            (node.domain, node.operator, len(node.outputs)),
            tuple(_input_key(value) for value in node.inputs),
            tuple((name, _frozen(value)) for name, value in sorted(node.attributes.items())),
        )
        first = self.seen.setdefault(key, node)
        if first is node or first in self.editor.removed:
            self.seen[key] = node
            return False
        if any(a.type != b.type for a, b in zip(first.outputs, node.outputs, strict=True)):
            return False
        for old, new in zip(node.outputs, first.outputs, strict=True):
            self.editor.replace(old, new)
        self.editor.remove(node)
        return True


def scope_of(node: Node) -> str:
    """Where in the author's modules a node stands, as far as its exporter says."""
    namespace = node.metadata.get("namespace")
    if namespace is not None:
        return namespace.rpartition("/")[0]
    return node.name.rpartition("/")[0]


def _input_key(value: Value | None) -> Any:
    if value is None or value.array is None or value.array.size > SMALL_ELEMENTS:
        return value
    return _frozen(value.array)


def _frozen(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        content = tuple(value.flat) if value.dtype == string else value.tobytes()
        return value.dtype, value.shape, content
    if isinstance(value, dict):
        return tuple((key, _frozen(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(item) for item in value)
    return type(value), value


def merge_constants(graph: Graph, editor: Editor) -> int:
    """Let equal constants without a name be one."""
    first: dict[Any, Value] = {}
    merged = 0
    for value in [value for value in editor.users if value.is_constant and not value.name]:
        assert value.array is not None
        if value.array.nbytes <= MERGED_BYTES and editor.is_used(value):
            kept = first.setdefault(_frozen(value.array), value)
            if kept is not value:
                editor.replace(value, kept)
                merged += 1
    return merged
