"""Operators as they were in their first versions, and what strings can do: found by generated cases."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, parser

import burnx
from burnx.errors import BurnxError, ModelError, ShapeError, UnsupportedError
from burnx.importer.onnx_version import resolve
from burnx.ops import table
from burnx.ops.operator import REQUIRED


def model(text: str, opset: int) -> ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> main {text}')


def run(text: str, opset: int, **inputs: Any) -> list[Any]:
    return list(burnx.load(model(text, opset), device="reference").run(inputs).values())


@pytest.mark.parametrize("axis", [1, -1])
def test_the_first_tile_takes_one_axis_and_floats(axis: int) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    text = "(float[2,3] x, float[1] tiles, float[1] axis) => (float[a,b] y) { y = Tile(x, tiles, axis) }"
    (y,) = run(text, 5, x=x, tiles=np.float32([2]), axis=np.float32([axis]))
    np.testing.assert_array_equal(y, np.tile(x, (1, 2)))


@pytest.mark.parametrize(
    ("operator", "gates", "until"), [("RNN", 1, 6), ("GRU", 3, 2), ("GRU", 3, 6), ("LSTM", 4, 6)]
)
def test_the_first_recurrent_layers_take_output_sequence(
    operator: str, gates: int, until: int
) -> None:
    draw = np.random.default_rng(0)
    inputs = {
        "x": draw.standard_normal((2, 1, 2)).astype(np.float32),
        "w": draw.standard_normal((1, gates * 3, 2)).astype(np.float32),
        "r": draw.standard_normal((1, gates * 3, 3)).astype(np.float32),
    }
    head = f"(float[2,1,2] x, float[1,{gates * 3},2] w, float[1,{gates * 3},3] r) => (float[a,b,c,d] y, float[b,c,d] h)"
    old = run(
        f"{head} {{ y, h = {operator}<hidden_size = 3, output_sequence = 1>(x, w, r) }}",
        until,
        **inputs,
    )
    new = run(f"{head} {{ y, h = {operator}<hidden_size = 3>(x, w, r) }}", 14, **inputs)
    for left, right in zip(old, new, strict=True):
        np.testing.assert_array_equal(left, right)


def test_rows_of_strings_are_made_distinct() -> None:
    x = np.array([["b", "a"], ["a", "c"], ["b", "a"]], object)
    found = run(
        "(string[3,2] x) => (string[n,2] y, int64[n] i) { y, i = Unique<axis = 0>(x) }", 11, x=x
    )
    np.testing.assert_array_equal(found[0], np.array([["a", "c"], ["b", "a"]], object))
    np.testing.assert_array_equal(found[1], [1, 0])


@pytest.mark.parametrize("dtype", ["string", "complex64"])
def test_what_lies_between_is_refused_where_nothing_does(dtype: str) -> None:
    x = np.array([["a", "b"]], object) if dtype == "string" else np.array([[1, 1j]], np.complex64)
    text = f'({dtype}[1,2] x, float[2] s) => ({dtype}[1,n] y) {{ y = Resize<mode = "linear">(x, , s) }}'
    with pytest.raises(UnsupportedError, match=dtype):
        run(text, 19, x=x, s=np.float32([1, 2]))


def test_parts_of_an_old_operator_say_what_they_are_parts_of() -> None:
    text = "(double[2,3] x) => (float[2,3] y) { y = Softmax(x) }"
    with pytest.raises(
        BurnxError, match=r'float64.*, node "y" \(Reshape\), part of node "y" \(Softmax\)'
    ):
        run(text, 11, x=np.ones((2, 3)))


def test_an_axis_outside_of_the_data_is_refused() -> None:
    text = "(float[2,3,4] x, float[3] b) => (float[2,3,4] y) { y = Add<axis = -9, broadcast = 1>(x, b) }"
    with pytest.raises(ShapeError, match=r"does not fit into .* from axis -9 on, node .*Add"):
        run(text, 6, x=np.ones((2, 3, 4), np.float32), b=np.ones(3, np.float32))


def needing() -> list[Any]:
    """Each earlier form of an operator that needs an input or attribute, and the last opset that it is of."""
    found = []
    for (domain, name), entry in table().items():
        for until in entry.upgrades:
            old = resolve(domain, name, until)
            needs = [each.name for each in old.inputs if not each.optional and not each.variadic]
            needs += [key for key, default in old.attributes.items() if default is REQUIRED]
            if needs:
                found.append(pytest.param(domain, name, until, needs[0], id=f"{name}-{until}"))
    assert len(found) > 40
    return found


@pytest.mark.parametrize(("domain", "name", "until", "first"), needing())
def test_what_an_old_operator_lacks_is_named_with_its_opset(
    domain: str, name: str, until: int, first: str
) -> None:
    value = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node(name, [], ["y"], domain=domain)
    opsets = [
        helper.make_opsetid(domain, until),
        *([helper.make_opsetid("", 17)] if domain else []),
    ]
    graph = helper.make_graph([node], "g", [], [value])
    lacking = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    kind = re.escape(f"{domain}.{name}" if domain else name)
    with pytest.raises(ModelError, match=rf"{kind} of opset {until} needs its \w+ '{first}', node"):
        burnx.load(lacking, device="reference")
