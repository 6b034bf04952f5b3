"""Attributes too long to read: parameters in the weights file, which the operator takes as if they stood there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from burnx.codegen.constants import FLOW
from burnx.dtype import string
from burnx.graph import Array, Graph, Node, Value, constant_value
from burnx.ops import find, python_name
from burnx.structure.scopes import Scopes

LONGEST_ATTRIBUTE = 32
BESIDE = 8
"""More elements than these follow a longer attribute of the same node: lists that belong together stay together."""


def keep_attributes(graph: Graph, scopes: Scopes) -> None:
    """Make constants of all long attributes of a graph, called by operator and attribute."""
    counts: Counter[str] = Counter()
    for node in graph.all_nodes():
        long = dict(_long_attributes(node))
        if not long:
            continue
        operator = python_name(find(node.domain, node.operator))
        stem = ".".join((*scopes.paths.get(node, ()), operator))
        counts[stem] += 1
        stem += f"_{counts[stem]}" if counts[stem] > 1 else ""
        for key, array in long.items():
            node.attributes[key] = constant_value(array, f"{stem}.{key}")


def kept_attributes(node: Node) -> Iterator[tuple[str, Value]]:
    """The attributes of a node that are constants."""
    yield from ((key, value) for key, value in node.attributes.items() if isinstance(value, Value))


def _long_attributes(node: Node) -> Iterator[tuple[str, Array]]:
    if node.operator in FLOW and not node.domain:
        return
    found = {key: _array(value) for key, value in node.attributes.items()}
    arrays = {key: array for key, array in found.items() if array is not None}
    if any(array.size > LONGEST_ATTRIBUTE for array in arrays.values()):
        yield from ((key, array) for key, array in arrays.items() if array.size > BESIDE)


def _array(value: Any) -> Array | None:
    """The numbers or words of an attribute as an array that gives them back exactly; None if it is anything else."""
    if isinstance(value, np.ndarray):
        return value
    kinds = {type(each) for each in value} if isinstance(value, (list, tuple)) else set()
    if kinds == {int}:
        return np.asarray(value, np.int64)
    if kinds == {str}:
        return np.asarray(value, string)
    if kinds != {float}:
        return None
    whole = np.asarray(value)
    with np.errstate(over="ignore"):
        single = whole.astype(np.float32)
    return single if np.array_equal(single, whole, equal_nan=True) else whole
