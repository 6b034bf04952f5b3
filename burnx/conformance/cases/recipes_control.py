"""Recipes of control flow: the graphs among the attributes are the identity on values of the type in question."""

from __future__ import annotations

from collections.abc import Callable

from onnx import GraphProto, TensorProto, helper

from burnx.conformance.cases.recipe import Binding, FromTypes, Recipe
from burnx.conformance.cases.type_text import split_type, type_proto

_BOOL, _INT64 = TensorProto.BOOL, TensorProto.INT64


def _branch(types: Binding, _: int) -> GraphProto:
    """A graph without inputs that gives the captured value."""
    node = helper.make_node("Identity", ["captured"], ["chosen"])
    output = helper.make_value_info("chosen", type_proto(types["V"]))
    return helper.make_graph([node], "branch", [], [output])


def _loop_body(types: Binding, _: int) -> GraphProto:
    """A body that carries a value on."""
    kind = type_proto(types["V"])
    nodes = [
        helper.make_node("Identity", ["condition"], ["next"]),
        helper.make_node("Identity", ["carried"], ["kept"]),
    ]
    inputs = [
        helper.make_tensor_value_info("trip", _INT64, []),
        helper.make_tensor_value_info("condition", _BOOL, []),
        helper.make_value_info("carried", kind),
    ]
    outputs = [
        helper.make_tensor_value_info("next", _BOOL, []),
        helper.make_value_info("kept", kind),
    ]
    return helper.make_graph(nodes, "body", inputs, outputs)


def _scanning_loop_body(types: Binding, opset: int) -> GraphProto:
    """The same body, which gives the number of the trip as a scan output as well."""
    body = _loop_body(types, opset)
    body.node.append(helper.make_node("Identity", ["trip"], ["scanned"]))
    body.output.append(helper.make_tensor_value_info("scanned", _INT64, []))
    return body


def _scan_body(types: Binding, _: int) -> GraphProto:
    """A body whose next state is the row, and whose output row is the old state."""
    nodes = [
        helper.make_node("Identity", ["row"], ["next"]),
        helper.make_node("Identity", ["state"], ["old"]),
    ]
    kind = type_proto(types["V"], (3,))
    infos = {name: helper.make_value_info(name, kind) for name in ("state", "row", "next", "old")}
    return helper.make_graph(
        nodes, "body", [infos["state"], infos["row"]], [infos["next"], infos["old"]]
    )


def _item_body(types: Binding, _: int) -> GraphProto:
    """A body that gives the item of a sequence."""
    kind = type_proto(split_type(types["S"])[1])
    inputs, outputs = (helper.make_value_info(name, kind) for name in ("item", "same"))
    node = helper.make_node("Identity", ["item"], ["same"])
    return helper.make_graph([node], "body", [inputs], [outputs])


def _second_body(types: Binding, _: int) -> GraphProto:
    """A body that gives the size of the other input, which is the item of a sequence or the same for all."""
    word, inner = split_type(types["V"])
    item = helper.make_value_info("item", type_proto(split_type(types["S"])[1]))
    other = helper.make_value_info("other", type_proto(inner if word == "seq" else types["V"]))
    kept = helper.make_value_info("kept", type_proto(split_type(types["S"])[1]))
    nodes = [
        helper.make_node("Size", ["other"], ["size"]),
        helper.make_node("CastLike", ["size", "item"], ["kept"]),
    ]
    return helper.make_graph(nodes, "body", [item, other], [kept])


def _body(variable: str, make: Callable[[Binding, int], GraphProto]) -> FromTypes:
    return FromTypes((variable,), make)


RECIPES = [
    Recipe(
        "If",
        "=1",
        {"then_branch": _body("V", _branch), "else_branch": _body("V", _branch)},
        captured=("V", "2x3"),
    ),
    Recipe("Loop", "=3 | =1 | 2x3", {"body": _body("V", _loop_body)}),
    Recipe(
        "Loop",
        "=3 | =1 | 2x3",
        {"body": _body("V", _scanning_loop_body)},
        outputs=2,
        only={"V": ("float",)},
        name="scan",
    ),
    Recipe(
        "Scan",
        "- | 1x3 | 1x4x3",
        {"body": _body("V", _scan_body), "num_scan_inputs": 1},
        until=8,
        outputs=2,
    ),
    Recipe(
        "Scan",
        "3 | 4x3",
        {"body": _body("V", _scan_body), "num_scan_inputs": 1},
        since=9,
        outputs=2,
    ),
    Recipe("SequenceMap", "2x3", {"body": _body("S", _item_body)}),
    Recipe("SequenceMap", "2x3 | 2x3", {"body": _body("V", _second_body)}, name="second"),
]
