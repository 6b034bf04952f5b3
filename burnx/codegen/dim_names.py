"""Sizes that a function reads several times: variables, by the names that the model has for its dimensions."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from burnx.codegen.expressions import attribute, call, group, index, name
from burnx.codegen.layout import Assign
from burnx.codegen.literal import constant
from burnx.codegen.spelling import sizes, takes_sizes
from burnx.graph import Node, Value
from burnx.shape import symbols
from burnx.structure.sizes import is_size, is_sizes
from burnx.structure.tree import Item, LayerCall, Op
from burnx.types import TensorType

if TYPE_CHECKING:
    from burnx.codegen.block import Block

SEVERAL = 2
# what exporters call a size that has no name
_MADE_UP = re.compile(r"_|unk__\d+$|dim_?\d*$|dynamic_axes_\d+|s\d+$|u\d+$")


@dataclass(frozen=True, slots=True)
class Source:
    """Where a size is read."""

    tensor: Value
    axis: int

    @property
    def rank(self) -> int:
        kind = self.tensor.type
        assert isinstance(kind, TensorType) and kind.shape is not None
        return len(kind.shape)


def named_sizes(items: Iterable[Item]) -> dict[str, Source]:
    """The dimensions with a name that are read several times, and where each is read first."""
    counts: Counter[str] = Counter()
    first: dict[str, Source] = {}
    for item in items:
        for node in _sizes_of(item):
            sources: Mapping[str, str] = node.attributes["sources"]
            counts.update(label for dim in node.attributes["dims"] for label in symbols(dim))
            for label, where in sources.items():
                place, axis = where.split(".")
                tensor = node.inputs[int(place)]
                if tensor is not None:
                    first.setdefault(label, Source(tensor, int(axis)))
    tensors = Counter(source.tensor for label, source in first.items() if is_name(label))
    return {
        label: source
        for label, source in first.items()
        if is_name(label) and max(counts[label], tensors[source.tensor]) >= SEVERAL
    }


def is_name(symbol: str) -> bool:
    """Whether a person gave a dimension its name."""
    return symbol.isascii() and symbol.isidentifier() and not _MADE_UP.match(symbol)


def read_together(names: Mapping[str, Source], tensor: Value) -> Iterator[Sequence[str]]:
    """The names to be read from a tensor: those of axes beside each other in one statement."""
    here = {source.axis: label for label, source in names.items() if source.tensor is tensor}
    run: list[str] = []
    for axis in sorted(here):
        if run and names[run[-1]].axis + 1 != axis:
            yield run
            run = []
        run.append(here[axis])
    yield run


def reading(labels: Sequence[str], axes: Sequence[int], tensor: ast.expr, rank: int) -> Assign:
    """``batch, seq = x.shape[:2]``, for axes beside each other."""
    shape = attribute(tensor, "shape")
    start, stop = axes[0], axes[-1] + 1
    if len(labels) == 1:
        return Assign(name(labels[0]), index(shape, constant(start)))
    part = ast.Slice(
        constant(start) if start else None, constant(stop) if stop < rank else None, None
    )
    value = shape if len(labels) == rank else index(shape, part)
    return Assign(group(map(name, labels)), value)


def _sizes_of(item: Item) -> Iterator[Node]:
    """The ``Sizes`` that are written where an item reads them."""
    if isinstance(item, Op):
        values = item.node.inputs
    elif isinstance(item, LayerCall):
        values = list(item.layer.inputs)
    else:
        values = list(item.inputs)
    for value in values:
        node = value.producer if value is not None else None
        if is_size(node) and node is not None and node.inputs[0] is not None:
            node = node.inputs[0].producer
        if node is not None and is_sizes(node):
            yield node


def write_sizes(block: Block, value: Value, node: Node | None, place: int) -> ast.expr:
    """Sizes as a tuple, or a number, where the operator ``node`` takes that at ``place``; else as a tensor."""
    source = value.producer
    assert source is not None
    if is_size(source):
        assert source.inputs[0] is not None
        items = write_sizes(block, source.inputs[0], None, -1)
        if node is not None and node.operator == "Range" and isinstance(items, ast.Call):
            return items.args[0]
        return call("ops.squeeze", items, constant([0]))
    _name_dims(block, source)

    def read(symbol: str, tensor: Value, axis: int) -> ast.expr:
        if symbol in block.dim_names:
            return name(block.dim_names[symbol])
        return index(attribute(block.value(tensor), "shape"), constant(axis))

    parts = sizes(source, read)
    return parts if node is not None and takes_sizes(node, place) else call("ops.dims", *parts.elts)


def _name_dims(block: Block, source: Node) -> None:
    """Statements for the sizes with a name that are read here for the first time: ``batch, seq = x.shape[:2]``."""
    for symbol in source.attributes["sources"]:
        found = block.named.get(symbol)
        if found is None or symbol in block.dim_names or found.tensor not in block.env:
            continue
        for together in read_together(block.named, found.tensor):
            for each in together:
                label = f"{each}_size" if each in block.active(set()) else each
                block.dim_names[each] = block.free_name(label, set())
                block.outer = block.outer | {block.dim_names[each]}
            labels = [block.dim_names[each] for each in together]
            axes = [block.named[each].axis for each in together]
            block.statements.append(reading(labels, axes, block.value(found.tensor), found.rank))
