"""Names that exporters join or put something before, and weights that they fold: what is left of the author's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser
from test_generated_source import agrees

from burnx.structure.paths import own_part, split_parameter

RNG = np.random.default_rng(3)


def parsed(text: str, **weights: tuple[int, ...]) -> ModelProto:
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    for name, shape in weights.items():
        array = RNG.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name.replace("__", ".")))
    for node in model.graph.node:  # the text of a model has no dots
        node.input[:] = [name.replace("__", ".") for name in node.input]
    for each in model.graph.output:
        each.type.tensor_type.ClearField("shape")
    return model


@pytest.mark.parametrize(
    ("name", "operator", "expected"),
    [
        ("m/relu/Relu;m/conv_1/BiasAdd;m/conv_2/Conv2D;m/conv_1/Conv2D", "Conv", "m/conv_1/Conv2D"),
        ("m/relu/Relu;m/conv_1/BiasAdd", "Add", "m/relu/Relu"),
        ("/layer1/Conv", "Conv", "/layer1/Conv"),
        ("", "Conv", ""),
    ],
)
def test_a_node_made_of_several_has_the_name_of_one(
    name: str, operator: str, expected: str
) -> None:
    assert own_part(name, operator) == expected


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("If_0_else_branch__Inline_0__encoder.0.weight", ("else_branch", "encoder", "0")),
        ("If_12_then_branch__Inline_3__fc.weight", ("then_branch", "fc")),
        ("Inline_0__fc.weight", ("fc",)),
        ("outer__Inline_1__fc.weight", ("fc",)),
        ("inline.fc.weight", ("inline", "fc")),
    ],
)
def test_what_inlining_puts_before_a_name_is_a_branch_or_nothing(
    name: str, path: tuple[str, ...]
) -> None:
    assert split_parameter(name) == (path, "weight")


def test_containers_are_no_deeper_than_the_scope_of_the_layer(tmp_path: Path) -> None:
    fused = ";".join(f"net/{part}" for part in ("relu/Relu", "act/Relu", "conv2d_1/Conv2D"))
    arrays = {"w": RNG.standard_normal((2, 3, 3, 3)), "v": RNG.standard_normal((2, 2, 1, 1))}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["h"], name=fused),
        helper.make_node("Relu", ["h"], ["r"], name="net/relu/Relu;net/relu/Relu"),
        helper.make_node("Conv", ["r", "v"], ["y"], name=fused.replace("conv2d_1", "conv2d_2")),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 5, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a.astype(np.float32), name) for name, a in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    text = agrees(model, tmp_path, {"x": np.ones((1, 3, 5, 5), np.float32)})
    assert "self.conv2d_1 = nn.Conv2d" in text and "nn.Container" not in text


def test_axes_that_a_slice_leaves_whole_are_not_written(tmp_path: Path) -> None:
    model = parsed(
        """g (float[n, 4, m] x) => (float y, float z)
        <int64[3] starts = {0, 1, 0}, int64[3] ends = {2147483647, 3, 9223372036854775807}, int64[3] axes = {2, 1, 0},
         int64[2] zeros = {0, 0}, int64[2] far = {2147483647, 2147483647}, int64[2] both = {0, 2}> {
          y = Slice(x, starts, ends, axes) whole = Slice(x, zeros, far, both) z = Neg(whole) }"""
    )
    feeds = [
        {"x": np.arange(n * 4 * m, dtype=np.float32).reshape(n, 4, m)} for n, m in ((2, 3), (1, 5))
    ]
    text = agrees(model, tmp_path, *feeds)
    assert "x[:, 1:3]" in text and "-x" in text and "slice" not in text
    assert "Outputs: y (n, 2, m); z (n, 4, m)" in text


def test_a_weight_in_another_order_keeps_its_name(tmp_path: Path) -> None:
    """Gates turned round and two biases in one: what exporters of recurrent layers write."""
    model = parsed(
        """g (float[n, 2] x) => (float y) <int64[1] zero = {0}, int64[1] two = {2}, int64[1] four = {4}> {
          a = Slice(rnn__weight_ih, zero, two, zero) b = Slice(rnn__weight_ih, two, four, zero)
          turned = Concat<axis = 0>(b, a) h = Mul(x, turned)
          c = Slice(rnn__bias_ih, zero, two, zero) both = Concat<axis = 0>(c, rnn__bias_hh)
          z = Cos(h) k = Gather(other__weight, zero) r = Mul(k, k)
          s = Add(z, both) y = Add(s, r)
        }""",
        rnn__weight_ih=(4, 2),
        rnn__bias_ih=(4, 2),
        rnn__bias_hh=(2, 2),
        other__weight=(5, 2),
    )
    text = agrees(model, tmp_path, {"x": np.ones((4, 2), np.float32)})
    assert "self.rnn = nn.Container(weight_ih=nn.Parameter(4, 2), bias=nn.Parameter(4, 2))" in text
    assert "other" not in text  # what is worked out of it is another weight
