"""Variables of generated source: they hide nothing of Python's, and are called by what makes them now."""

from __future__ import annotations

import ast
import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, parser
from test_generated_source import agrees
from test_source_structure import Net

from burnx.nn.sources import load_network

HIDDEN = ("abs", "bytes", "id", "input", "len", "max", "round", "sum", "type", "vars")


def parsed(text: str) -> ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')


def locals_of(text: str) -> set[str]:
    """Every parameter and every variable of the source."""
    tree = ast.parse(text)
    given = {each.arg for each in ast.walk(tree) if isinstance(each, ast.arg)}
    stored = {
        each.id
        for each in ast.walk(tree)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }
    return given | stored


def test_inputs_and_results_hide_no_builtin(tmp_path: Path) -> None:
    inputs = ", ".join(f"float[n] {name}" for name in HIDDEN)
    body = """low = Min(input, id) high = Max(low, len) big = Abs(high) whole = Round(high) all = Sum(big, whole, vars)
        a = Add(type, max) b = Add(a, bytes) c = Add(b, abs) d = Add(c, round) e = Add(d, sum) y = Mul(e, all)"""
    model = parsed(f"g ({inputs}) => (float[n] y, float[n] all, float[n] big) {{ {body} }}")
    feed = {name: np.arange(3, dtype=np.float32) + place for place, name in enumerate(HIDDEN)}
    text = agrees(model, tmp_path, feed)
    assert not locals_of(text) & (vars(builtins).keys() - {"WEIGHTS"})
    assert "def forward(self, x: Tensor" not in text.replace("bytes_", "")
    assert 'Input("bytes", "float32", ("n",), parameter="bytes_")' in text


def test_the_input_called_input_is_x_and_can_be_given_by_both(tmp_path: Path) -> None:
    model = parsed("g (float[n] input) => (float[n] y) { y = Neg(input) }")
    text = agrees(model, tmp_path, {"input": np.ones(2, np.float32)})
    assert "def forward(self, x: Tensor)" in text
    network: Any = load_network(f"{tmp_path / 'model.py'}:Model")
    for name in ("x", "input"):
        assert network(**{name: np.ones(2, np.float32)}).numpy().tolist() == [-1, -1]


def test_another_input_called_x_keeps_its_name(tmp_path: Path) -> None:
    model = parsed("g (float[n] input, float[n] x) => (float[n] y) { y = Sub(input, x) }")
    feed = {"input": np.ones(2, np.float32), "x": np.zeros(2, np.float32)}
    assert "def forward(self, input_: Tensor, x: Tensor)" in agrees(model, tmp_path, feed)


@pytest.mark.parametrize(
    ("maker", "wanted"),
    [
        ("Softmax(h)", "weights"),
        ("MatMul(h, turned)", "product"),
        ("ReduceMean<axes = [1]>(h)", "mean"),
        ("MaxPool<kernel_shape = [2]>(wide)", "pooled"),
    ],
)
def test_a_result_is_called_by_what_makes_it(tmp_path: Path, maker: str, wanted: str) -> None:
    """Not by ``h``, though nobody needs that any more and its name is free."""
    nodes = f"""h = Exp(v) r = Mul(h, h) turned = Transpose<perm = [1, 0]>(v) wide = Unsqueeze(h, one)
        p = {maker} q = Cos(p) y = Div(q, p) z = Log(v)"""
    model = parsed(
        f"g (float[3, 3] v) => (float y, float r, float z) <int64[1] one = {{1}}> {{ {nodes} }}"
    )
    for each in model.graph.output:
        each.type.tensor_type.ClearField("shape")
    text = agrees(model, tmp_path, {"v": np.eye(3, dtype=np.float32) + 1})
    assert f"        {wanted} = " in text


def test_a_number_stays_where_two_of_a_word_are_alive(tmp_path: Path) -> None:
    net = Net()
    first = net.linear("net.fc1", "x", (4, 4))
    second = net.linear("net.fc2", "x", (4, 4))
    third = net.add("net", "Mul", first, second)
    fourth = net.linear("net.fc3", net.add("net", "Mul", third, "x"), (4, 4))
    out = net.add("net", "Mul", net.add("net", "Mul", fourth, "x"), net.add("net", "Exp", fourth))
    model = net.model({"x": [2, 4]}, {"y": out})
    text = agrees(model, tmp_path, {"x": np.ones((2, 4), np.float32)})
    assert "        fc = self.fc1(x) * self.fc2(x) * x" in text
    assert "        fc = self.fc3(fc)" in text
    net.weights, net.nodes = [], []
    both = [net.linear(f"net.fc{place}", "x", (4, 4)) for place in (1, 2)]
    squares = [net.add("net", "Mul", each, each) for each in both]
    out = net.add("net", "Div", net.add("net", "Sub", *squares), net.add("net", "Add", *both))
    text = agrees(
        net.model({"x": [2, 4]}, {"y": out}), tmp_path, {"x": np.ones((2, 4), np.float32)}
    )
    assert "        fc1 = self.fc1(x)" in text and "        x = self.fc2(x)" in text
