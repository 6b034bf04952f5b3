"""Sizes where they are used: variables that the function has for them, else read from their tensors."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from burnx.codegen.dim_names import read_together, reading
from burnx.codegen.expressions import attribute, call, index, name
from burnx.codegen.literal import constant
from burnx.codegen.sizes import is_size
from burnx.codegen.spelling import sizes, takes_sizes
from burnx.graph import Node, Value

if TYPE_CHECKING:
    from burnx.codegen.block import Block


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
