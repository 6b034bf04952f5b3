"""What a model consists of: operators, parameters, operations, memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from burnx.conformance.flops import Sizes, count_flops, known_shape
from burnx.dtype import packed_bits
from burnx.errors import DTypeError
from burnx.graph import Graph, Node, Value
from burnx.shape import symbols
from burnx.types import TensorType


@dataclass(frozen=True, slots=True)
class Analysis:
    """The figures of a model; ``flops`` and ``activation_bytes`` leave out what ``unknown`` names.

    ``sizes`` are the sizes that symbols were given.  A subgraph counts once, however often it runs.
    """

    operators: dict[str, int]
    parameters: int
    parameter_bytes: int
    flops: int = 0
    flops_by_operator: dict[str, int] = field(default_factory=dict)
    activation_bytes: int = 0
    unknown: tuple[str, ...] = ()
    sizes: dict[str, int] = field(default_factory=dict)


def analyze_graph(graph: Graph, dims: Sizes) -> Analysis:
    """The figures of a graph; a symbol of its inputs that ``dims`` does not give has size 1."""
    sizes = {name: dims.get(name, 1) for name in _input_symbols(graph)}
    nodes = list(graph.all_nodes())
    counted = [(node, count_flops(node, sizes)) for node in nodes]
    by_operator: Counter[str] = Counter()
    for node, flops in counted:
        by_operator[operator_name(node)] += flops or 0
    constants = list(all_constants(graph))
    return Analysis(
        operators=dict(Counter(operator_name(node) for node in nodes).most_common()),
        parameters=sum(value.array.size for value in constants if value.array is not None),
        parameter_bytes=sum(bytes_of(value, sizes) or 0 for value in constants),
        flops=by_operator.total(),
        flops_by_operator={name: flops for name, flops in by_operator.most_common() if flops},
        activation_bytes=peak_activation_bytes(graph, sizes),
        unknown=tuple(node.place for node, flops in counted if flops is None),
        sizes=sizes,
    )


def operator_name(node: Node) -> str:
    """An operator with its domain, where that is not ONNX's own."""
    return f"{node.domain}.{node.operator}" if node.domain else node.operator


def all_constants(graph: Graph) -> Iterator[Value]:
    """Every constant of a graph and its subgraphs, once."""
    seen: set[Value] = set()
    waiting = [graph]
    while waiting:
        current = waiting.pop()
        for value in current.constants():
            if value not in seen:
                seen.add(value)
                yield value
        for node in current.nodes:
            waiting += node.subgraphs()


def bytes_of(value: Value, sizes: Sizes) -> int | None:
    """The bytes a tensor takes when packed; None if its size is not known."""
    if not isinstance(value.type, TensorType):
        return None
    shape = value.array.shape if value.array is not None else known_shape(value, sizes)
    if shape is None:
        return None
    try:
        bits = packed_bits(value.type.dtype)
    except DTypeError:
        bits = 8 * value.type.dtype.itemsize
    return (prod(shape) * bits + 7) // 8


def peak_activation_bytes(graph: Graph, sizes: Sizes) -> int:
    """The most bytes that are alive at once when every node keeps outputs until their last use."""
    last_use: dict[Value, int] = {}
    for index, node in enumerate(graph.nodes):
        for value in (*_reads(node), *node.outputs):
            last_use[value] = index
    end = len(graph.nodes)
    last_use |= dict.fromkeys(graph.outputs, end)
    dying: dict[int, list[Value]] = {}
    for value, index in last_use.items():
        dying.setdefault(index, []).append(value)
    alive = sum(bytes_of(value, sizes) or 0 for value in graph.inputs)
    held, peak = set(graph.inputs), alive
    for index, node in enumerate(graph.nodes):
        alive += sum(bytes_of(value, sizes) or 0 for value in node.outputs)
        held.update(node.outputs)
        peak = max(peak, alive)
        gone = [value for value in dying.get(index, ()) if value in held]
        alive -= sum(bytes_of(value, sizes) or 0 for value in gone)
        held.difference_update(gone)
    return peak


def _reads(node: Node) -> Iterator[Value]:
    yield from (value for value in node.inputs if value is not None and not value.is_constant)
    for graph in node.subgraphs():
        yield from graph.captures()


def _input_symbols(graph: Graph) -> list[str]:
    names: dict[str, None] = {}
    for value in graph.inputs:
        if isinstance(value.type, TensorType):
            for dim in value.type.shape or ():
                names |= dict.fromkeys(sorted(symbols(dim)))
    return list(names)
