"""How repeated blocks read: one class with arguments, a list, a loop; each run from its source and exported again."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from test_generated_source import agrees

import burnx
from burnx.codegen.expressions import call
from burnx.codegen.families import find_families
from burnx.codegen.layout import Function, Return, Stmt
from burnx.codegen.parameters import merge
from burnx.errors import InputError
from burnx.graph import Value
from burnx.types import TensorType

FLOAT = TensorProto.FLOAT
RNG = np.random.default_rng(5)


class Net:
    """A graph that is written node by node, with scopes in the names as exporters leave them."""

    def __init__(self) -> None:
        self.nodes: list[object] = []
        self.weights: list[object] = []

    def add(self, scope: str, operator: str, *inputs: str, **attributes: object) -> str:
        result = f"t{len(self.nodes)}"
        name = (
            "".join(f"/{part}" for part in scope.split("/") if part)
            + f"/{operator}_{len(self.nodes)}"
        )
        self.nodes.append(helper.make_node(operator, inputs, [result], name, **attributes))
        return result

    def weight(self, name: str, *shape: int) -> str:
        array = (RNG.standard_normal(shape) * 0.3).astype(np.float32)
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def linear(self, path: str, x: str, size: tuple[int, int]) -> str:
        scope = path.replace(".", "/")
        product = self.add(scope, "MatMul", x, self.weight(f"{path}.weight", *size))
        return self.add(scope, "Add", product, self.weight(f"{path}.bias", size[1]))

    def model(self, inputs: dict[str, list[int]], outputs: dict[str, str]) -> ModelProto:
        for name, value in outputs.items():
            self.nodes.append(helper.make_node("Identity", [value], [name], f"/out_{name}"))
        given = [helper.make_tensor_value_info(*pair) for pair in _typed(inputs)]
        made = [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "g", given, made, self.weights)
        opsets = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def _typed(inputs: dict[str, list[int]]) -> list[tuple[str, int, list[int]]]:
    return [(name, FLOAT, shape) for name, shape in inputs.items()]


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def mlp(net: Net, path: str, x: str, sizes: tuple[int, int]) -> str:
    narrow, wide = sizes
    inner = net.linear(f"{path}.fc1", x, (narrow, wide))
    inner = net.add(path.replace(".", "/"), "Relu", inner)
    return net.linear(f"{path}.fc2", inner, (wide, narrow))


def test_blocks_of_other_sizes_are_one_class_with_arguments(tmp_path: Path) -> None:
    net = Net()
    x = net.add("layers/0", "Add", mlp(net, "layers.0", "x", (4, 12)), "x")
    x = net.add("layers/1", "Add", mlp(net, "layers.1", x, (4, 20)), x)
    text = agrees(net.model({"x": [2, 4]}, {"y": x}), tmp_path, {"x": normal(2, 4)})
    assert text.count("class ") == 2
    assert "def __init__(self, hidden_features: int):" in text or "features: int" in text
    assert "nn.Sequential(" in text and "(12)" in text and "(20)" in text


def test_a_size_that_is_always_a_multiple_is_written_as_one(tmp_path: Path) -> None:
    net = Net()
    x = mlp(net, "a.0", "x", (4, 16))
    x = net.linear("widen", x, (4, 6))
    x = mlp(net, "a.1", x, (6, 24))
    text = agrees(net.model({"x": [2, 4]}, {"y": x}), tmp_path, {"x": normal(2, 4)})
    assert "nn.Linear(features, 4 * features)" in text


def test_blocks_that_are_numbered_by_name_are_a_list(tmp_path: Path) -> None:
    net, x = Net(), "x"
    for number in range(6):
        x = mlp(net, f"encoder.block_{number}", x, (4, 8))
    text = agrees(net.model({"x": [2, 4]}, {"y": x}), tmp_path, {"x": normal(2, 4)})
    assert "for _ in range(6)" in text
    assert "block_3" not in text


def test_what_the_first_block_makes_for_all_stands_around_them(tmp_path: Path) -> None:
    net, x, mask = Net(), "x", ""
    for number in range(3):
        path = f"layers.{number}"
        scope = path.replace(".", "/")
        if not mask:
            mask = net.add(scope, "Neg", "m")
        x = net.add(
            scope, "Softmax", net.add(scope, "Add", net.linear(f"{path}.fc", x, (4, 4)), mask)
        )
    feed = {"x": normal(2, 4), "m": normal(2, 4)}
    text = agrees(net.model({"x": [2, 4], "m": [2, 4]}, {"y": x}), tmp_path, feed)
    assert text.count("class ") == 2
    assert "for layer in self.layers:" in text
    assert text.count("-m") == 1


def test_a_node_without_scope_between_two_of_a_block_belongs_to_it(tmp_path: Path) -> None:
    net, x = Net(), "x"
    for number in range(2):
        path = f"layers.{number}"
        inner = net.linear(f"{path}.fc1", x, (4, 4))
        inner = net.add("", "Sigmoid", inner)  # rewritten by an optimiser
        x = net.add(path.replace(".", "/"), "Add", net.linear(f"{path}.fc2", inner, (4, 4)), x)
    text = agrees(net.model({"x": [2, 4]}, {"y": x}), tmp_path, {"x": normal(2, 4)})
    assert text.count("class ") == 2
    assert "self.fc2(ops.sigmoid(self.fc1(x)))" in text


def test_blocks_that_take_all_results_before_them_are_a_loop(tmp_path: Path) -> None:
    net, features = Net(), ["x"]
    for number in range(5):
        scope = f"layer{number + 1}"
        joined = net.add(scope, "Concat", *features, axis=1)
        inner = net.linear(f"{scope}.fc1", joined, (4 + 2 * number, 6))
        features.append(net.linear(f"{scope}.fc2", net.add(scope, "Relu", inner), (6, 2)))
    y = net.add("", "Concat", *features, axis=1)
    text = agrees(net.model({"x": [2, 4]}, {"y": y}), tmp_path, {"x": normal(2, 4)})
    assert "features = [*features, layer(*features)]" in text
    assert "ops.concat(*features, axis=1)" in text


def cached(layers: int = 4) -> ModelProto:
    """A stack of blocks with a cache each: past and present of two kinds."""
    net, x, outputs = Net(), "x", {}
    inputs = {"x": [2, 4]}
    for number in range(layers):
        path, scope = f"h.{number}", f"h/{number}"
        for part in ("key", "value"):
            inputs[f"past_{part}_{number}"] = [3, 4]
        key = net.add(
            scope, "Concat", f"past_key_{number}", net.linear(f"{path}.k", x, (4, 4)), axis=0
        )
        value = net.add(
            scope, "Concat", f"past_value_{number}", net.linear(f"{path}.v", x, (4, 4)), axis=0
        )
        scores = net.add(scope, "MatMul", x, net.add(scope, "Transpose", key, perm=[1, 0]))
        x = net.add(
            scope, "Add", x, net.add(scope, "MatMul", net.add(scope, "Tanh", scores), value)
        )
        outputs |= {f"present_key_{number}": key, f"present_value_{number}": value}
    return net.model(inputs, {"y": x, **outputs})


def test_caches_of_many_layers_are_one_family(tmp_path: Path) -> None:
    model = cached()
    feed = {
        each.name: normal(*[d.dim_value for d in each.type.tensor_type.shape.dim])
        for each in model.graph.input
    }
    text = agrees(model, tmp_path, feed)
    assert "def forward(self, x: Tensor, *past: Tensor) -> tuple[Tensor, ...]:" in text
    assert "*past[2 * place : 2 * place + 2]" in text
    assert 'Input(f"past_{part}_{layer}", "float32", (3, 4))' in text
    assert "return y, *present" in text


def test_members_of_a_family_can_be_given_by_name(tmp_path: Path) -> None:
    model = cached(3)
    burnx.import_onnx(model, tmp_path / "model.py")
    from burnx.nn.sources import load_network

    network = load_network(f"{tmp_path / 'model.py'}:Model")
    feed = {name: normal(3, 4) for name in (each.name for each in model.graph.input)}
    feed["x"] = normal(2, 4)
    by_place = network(*feed.values())
    by_name = network(**dict(reversed(feed.items())))
    for one, two in zip(by_place, by_name, strict=True):
        np.testing.assert_array_equal(one.numpy(), two.numpy())
    with pytest.raises(InputError, match="past_value_2"):
        network(**{name: value for name, value in feed.items() if name != "past_value_2"})


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ([f"past_{p}_{n}" for n in range(3) for p in ("key", "value")], [("past", 2, 6)]),
        ([f"past.{n}.{p}" for n in range(3) for p in ("key", "value")], [("past", 2, 6)]),
        ([f"state_{n}" for n in range(1, 7)], [("states", 1, 6)]),
        (["x", *[f"h{n}" for n in range(6)]], [("hs", 1, 6)]),
        (["a_0", "b_0", "a_1", "b_2", "a_2", "b_1"], []),
        (["x_0", "x_1"], []),
        (["a_0", "a_2", "a_4", "a_6", "a_8", "a_10"], []),
        ([str(n) for n in range(8)], []),
        ([f"past_{n:02}" for n in range(6)], []),
        ([f"past_{n}" for n in "٠١٢٣٤٥"], []),
        ([f"k_{n}_{w}" for n in range(3) for w in ("self", "cross")], [("k", 2, 6)]),
        ([x for n in range(3) for x in (f"past_key_{n}_self", f"past_{n}_cross")], []),
    ],
)
def test_families(labels: list[str], found: list[tuple[str, int, int]]) -> None:
    values = [Value(TensorType(np.dtype("float32"), ()), label) for label in labels]
    families = find_families(values, labels)
    assert [(each.label, each.width, len(each.values)) for each in families] == found
    for each in families:
        assert each.labels() == [value.name for value in each.values]


@pytest.mark.parametrize("order", [1, -1])
def test_inputs_that_are_outputs_keep_both_names(tmp_path: Path, order: int) -> None:
    net = Net()
    names = [f"x_{number}" for number in range(6)]
    outputs = {f"o_{number}": name for number, name in enumerate(names[::order])}
    model = net.model({name: [2] for name in names}, outputs)
    agrees(model, tmp_path, {name: normal(2) for name in names})


@pytest.mark.parametrize(
    ("first", "second"), [((1, 1.0), (2, 2.0)), ((0.0, -0.0), (1.0, 1.0)), ((1, True), (0, False))]
)
def test_numbers_that_are_only_equal_are_not_one_parameter(
    first: tuple[float, float], second: tuple[float, float]
) -> None:
    def body(pair: tuple[float, float]) -> tuple[Stmt, ...]:
        values = [ast.Constant(number) for number in pair]
        return (Function("forward", ("self", "x"), (Return(call("f", *values)),)),)

    merged = merge([body(first), body(second)], {})
    assert merged is not None
    assert [each.values for each in merged.parameters] == list(zip(first, second, strict=True))
    types = [[type(value) for value in each.values] for each in merged.parameters]
    assert types == [[type(a), type(b)] for a, b in zip(first, second, strict=True)]


def test_a_list_that_differs_in_one_number_is_written_for_each(tmp_path: Path) -> None:
    net = Net()
    parts = []
    for number, wide in enumerate((6, 8, 12)):
        inner = net.linear(f"heads.{number}.0", "x", (4, wide))
        inner = net.linear(f"heads.{number}.1", inner, (wide, 4))
        parts.append(net.add("", "Relu", inner))
    x = net.add("", "Concat", *parts, axis=1)
    source = agrees(net.model({"x": [2, 4]}, {"y": x}), tmp_path, {"x": normal(2, 4)})
    assert "for features in (6, 8, 12)" in source
    assert source.count("nn.Linear(") == 2


def test_the_number_of_a_list_hides_no_parameter_of_its_class(tmp_path: Path) -> None:
    net = Net()
    x = "x"
    for block, narrow in enumerate((4, 5)):
        parts = []
        x = net.linear(f"blocks.{block}.stem", x, (4, narrow))
        for number, wide in enumerate((6, 8, 12)):
            inner = net.linear(f"blocks.{block}.heads.{number}.0", x, (narrow, wide))
            inner = net.linear(f"blocks.{block}.heads.{number}.1", inner, (wide, 4))
            parts.append(net.add(f"blocks/{block}", "Relu", inner))
        joined = net.add(f"blocks/{block}", "Concat", *parts, axis=1)
        x = net.linear(f"blocks.{block}.out", joined, (12, 4))
    source = agrees(net.model({"x": [2, 4]}, {"y": x}), tmp_path, {"x": normal(2, 4)})
    assert "in (6, 8, 12)" in source
    assert source.count("class ") == 2


def test_a_layer_that_lost_its_scope_stands_between_its_neighbours(tmp_path: Path) -> None:
    net = Net()
    x = "x"
    for block in range(2):
        inner = net.add(f"blocks/{block}", "Tanh", x)
        product = net.add("", "MatMul", inner, net.weight(f"val_{block}", 4, 4))
        x = net.add(f"blocks/{block}", "Add", product, inner)
    source = agrees(net.model({"x": [2, 4]}, {"y": x}), tmp_path, {"x": normal(2, 4)})
    assert source.count("nn.Linear(4, 4") == 1
    assert "nn.Sequential(Block(), Block())" in source
