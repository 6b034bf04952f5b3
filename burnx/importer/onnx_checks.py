"""What a file must keep to before it is read: attributes of the standard's kinds, functions that stay finite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import onnx
from onnx import AttributeProto

from burnx.errors import ModelError

# nodes that a model may have once the calls of its functions are written out
MOST_NODES = 1_000_000


def check_attribute_kinds(attributes: Iterable[Any], domain: str, op_type: str, opset: int) -> None:
    """Raises: ModelError if an attribute is not of the kind that the standard says."""
    kinds = _attribute_kinds(domain, op_type, opset)
    for attribute in attributes:
        wanted = kinds.get(attribute.name, attribute.type)
        if attribute.type not in (wanted, AttributeProto.UNDEFINED):
            names = AttributeProto.AttributeType.Name
            raise ModelError(
                f'attribute "{attribute.name}" is of kind {names(wanted)}, not {names(attribute.type)}'
            )


@lru_cache(maxsize=4096)
def _attribute_kinds(domain: str, op_type: str, opset: int) -> Mapping[str, int]:
    try:
        schema = onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:  # type: ignore[attr-defined, unused-ignore]
        return {}
    found: Mapping[str, Any] = schema.attributes
    return {name: int(each.type) for name, each in found.items()}


def check_calls(model: Any, place: str) -> None:
    """Few functions that call each other twice can stand for more nodes than any memory holds.

    Raises: ModelError if the calls of functions, written out, are more than ``MOST_NODES`` nodes.
    """
    functions = {(each.domain, each.name): each for each in model.functions}
    sizes: dict[tuple[str, str], int] = {}

    def size_of(nodes: Iterable[Any], inside: tuple[tuple[str, str], ...]) -> int:
        total = 0
        for node in nodes:
            key = (node.domain, node.op_type)
            if key in functions and key not in inside:
                if key not in sizes:
                    sizes[key] = size_of(functions[key].node, (*inside, key))
                total += sizes[key]
            total += 1
            for attribute in node.attribute:
                for graph in (attribute.g, *attribute.graphs):
                    total += size_of(graph.node, inside)
        return total

    if functions and (found := size_of(model.graph.node, ())) > MOST_NODES:
        raise ModelError(
            f"a model has at most {MOST_NODES:,} nodes once its functions are written out: "
            f"found {found:,}, {place}"
        )
