"""Ranges of floats that count up to a size: integers, and then floats.

The sizes of what comes from a range of integers are known, those of what comes from floats are not.  Both are the
same numbers as long as a float holds every integer up to the size: below 2^24 in float32.
"""

from __future__ import annotations

from itertools import count

import numpy as np

from burnx.dtype import code_of_dtype, float32, float64
from burnx.errors import BurnxError
from burnx.graph import Graph, Node, Value, constant_value
from burnx.ops import find, operators
from burnx.ops.infer import infer_types
from burnx.passes.editing import edit
from burnx.passes.patterns import scalar
from burnx.passes.rewriting import Match, rewrite, rewrite_graph
from burnx.types import TensorType


@rewrite("Range")
def _counting(node: Node, match: Match) -> Value | None:
    """range(0.0, float(n), 1.0) = float(range(0, n, 1))"""
    start, limit, step = node.inputs
    kind = node.outputs[0].type
    cast = None if limit is None else match.enter(limit)
    if cast is None or cast.operator != "Cast" or cast.domain or not isinstance(kind, TensorType):
        return None
    size = cast.inputs[0]
    numbers = [scalar(start), scalar(step)]
    if size is None or kind.dtype not in (float32, float64) or size.known is None:
        return None
    if any(number is None or number != int(number) for number in numbers) or not numbers[1]:
        return None
    assert isinstance(size.type, TensorType)
    ends = [constant_value(np.array(int(number or 0), size.type.dtype)) for number in numbers]
    counted = match.put("Range", ends[0], size, ends[1])
    made = None if counted is None else match.put("Cast", counted, to=code_of_dtype(kind.dtype))
    return made


def count_in_integers(graph: Graph) -> int:
    """Lift the ranges of a graph without subgraphs, and work out anew what follows from their sizes."""
    if any(True for node in graph.nodes for _ in node.subgraphs()):
        return 0
    changes = rewrite_graph(graph, _counting)
    if changes:
        infer_again(graph)
    return changes


def infer_again(graph: Graph) -> None:
    """Give every value the type and the known numbers that follow from the inputs."""
    numbers = edit(graph).fresh_numbers()
    for node in graph.nodes:
        _infer(node, numbers)


def _infer(node: Node, numbers: count[int]) -> None:
    operator = find(node.domain, node.operator)
    try:
        found = infer_types(
            operators(), operator, node.inputs, node.attributes, len(node.outputs), numbers
        )
    except BurnxError:
        return
    for value, (kind, known) in zip(node.outputs, found, strict=False):
        if (
            isinstance(value.type, TensorType)
            and isinstance(kind, TensorType)
            and kind.shape is None
        ):
            continue
        value.type = kind
        value.known = known if known is None or known.size <= 1024 else None
