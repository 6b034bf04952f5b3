"""If, Loop and Scan in generated source: as Python's own statements, and as good as the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from random_flow import random_flow
from source_checks import unread_parameters

import burnx
from burnx.exporter.onnx_model import export_model
from burnx.nn.sources import load_network

HEAD = '<ir_version: 9, opset_import: ["" : 18]>\n'
LOOP = "agraph (float[3] x, int64 n) => (float[3] y, float[K, 3] ys) <bool yes = {1}> {%s}"
SOURCES = {
    "for i in range(n):": LOOP
    % """y, ys = Loop (n, yes, x) <body = b (int64 i, bool c, float[3] s) => (bool d, float[3] t, float[3] u)
    { d = Identity (c) f = Cast <to = 1> (i) t = Add (s, f) u = Mul (t, x) }>""",
    "break": LOOP
    % """y, ys = Loop (n, yes, x) <body = b (int64 i, bool c, float[3] s) => (bool d, float[3] t, float[3] u)
    { t = Add (s, s) u = Neg (t) m = ReduceMax <keepdims = 0> (t)
      limit = Constant <value_float = 9.0> () d = Less (m, limit) }>""",
    "while True:": LOOP
    % """k = Neg (x) y, ys = Loop (, , k) <body = b (int64 i, bool c, float[3] s) => (bool d, float[3] t, float[3] u)
    { t = Sub (s, s) u = Identity (x) m = ReduceMax <keepdims = 0> (t)
      limit = Constant <value_float = 9.0> () d = Greater (m, limit) }>""",
    "while going:": LOOP
    % """go = Greater (n, n) y, ys = Loop (, go, x) <body = b (int64 i, bool c, float[3] s) => (bool d, float[3] t, float[3] u)
    { t = Add (s, s) u = Identity (x) d = Identity (c) e = Not (c) }>""",
    "range(ops.identity(4))": LOOP
    % """k = Constant <value_int = 4> () y, ys = Loop (k, , x) <body = b (int64 i, bool c, float[3] s) => (bool c, float[3] t, float[3] u)
    { t = Add (s, s) u = Neg (s) }>""",
    "range(ops.where(n > 1, n, 0))": LOOP
    % """one = Constant <value_int = 1> () go = Greater (n, one) y, ys = Loop (n, go, x)
    <body = b (int64 i, bool c, float[3] s) => (bool d, float[3] t, float[3] u)
    { t = Add (s, s) u = Identity (x) d = Identity (c) }>""",
    'range(ops.where(n > 1, ops.array(4, dtype="int64"), 0))': LOOP
    % """one = Constant <value_int = 1> () go = Greater (n, one) k = Constant <value_int = 4> ()
    y, ys = Loop (k, go, x) <body = b (int64 i, bool c, float[3] s) => (bool d, float[3] t, float[3] u)
    { t = Add (s, s) u = Identity (x) m = ReduceMax <keepdims = 0> (t)
      limit = Constant <value_float = 90.0> () d = Less (m, limit) }>""",
    "loop(": LOOP
    % """one = Constant <value_int = 1> () go = Greater (n, one) y, ys = Loop (n, go, x)
    <body = b (int64 i, bool c, float[3] s) => (bool d, float[3] t, float[3] u)
    { t = Add (s, s) u = Where (c, s, x) d = Identity (c) }>""",
    "in zip(x, reversed(x)):": """agraph (float[2, 3] x, float[3] k) => (float[3] y, float[2, 3] ys) {
    y, ys = Scan (k, x, x) <num_scan_inputs = 2, scan_input_directions = [0, 1], body = b
    (float[3] s, float[3] p, float[3] q) => (float[3] t, float[3] u) { t = Add (s, p) u = Sub (t, q) }>}""",
    "scan(": """agraph (float[3, 2] x, float[3] k) => (float[3] y, float[2, 3] ys) {
    y, ys = Scan (k, x) <num_scan_inputs = 1, scan_input_axes = [1], body = b
    (float[3] s, float[3] p) => (float[3] t, float[3] u) { t = Add (s, p) u = Identity (t) }>}""",
    "    elif ": """agraph (float[3] x, bool p, bool q) => (float[3] y) {
    y = If (p) <then_branch = g () => (float[3] a) {a = Add (x, x)}, else_branch = g () => (float[3] b)
    {b = If (q) <then_branch = g () => (float[3] c) {c = Neg (x)}, else_branch = g () => (float[3] d) {d = Identity (x)}>}>}""",
}


def example(value: Any, n: int) -> np.ndarray[Any, Any]:
    kind = value.type.tensor_type
    shape = [dim.dim_value for dim in kind.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
    whole = np.arange(np.prod(shape, dtype=int)).reshape(shape) + n
    return np.asarray(whole, dtype)


def check_source(text: str, tmp_path: Path, number: int = 0, scope: str = "") -> str:
    """The source of a model, which runs and is exported as the model itself; all nodes but the last are of ``scope``."""
    model = onnx.parser.parse_model(text)
    for node in model.graph.node[:-1] if scope else ():
        node.name = f"/{scope}{'/linear' * (node.op_type == 'MatMul')}/{node.op_type}"
    path, source = tmp_path / f"flow_{number}.onnx", tmp_path / f"flow_{number}.py"
    onnx.save(model, path)
    burnx.import_onnx(path, source)
    original = burnx.load(path, device="reference")
    made = burnx.load(f"{source}:Model", device="reference")
    back = onnxruntime.InferenceSession(export_model(made.graph).SerializeToString())
    for n in (0, 3):
        inputs = {each.name: example(each, n) for each in model.graph.input}
        expected = list(original.run(inputs).values())
        for results in (made.run(inputs).values(), back.run(None, inputs)):
            for result, value in zip(results, expected, strict=True):
                np.testing.assert_allclose(result, value, rtol=1e-4, atol=1e-5)
    assert unread_parameters(source.read_text()) == set()
    return source.read_text()


@pytest.mark.parametrize("said", SOURCES)
def test_source_of_a_loop_or_branch(said: str, tmp_path: Path) -> None:
    source = check_source(HEAD + SOURCES[said], tmp_path)
    assert said in source
    assert ("@script" in source) is (said not in ("loop(", "scan("))


@pytest.mark.parametrize("seed", range(12))
def test_source_of_random_flow(seed: int, tmp_path: Path) -> None:
    check_source(random_flow(seed), tmp_path, seed)


# what branches give is a constant: a short one stands there, and what nobody reads is no parameter
GIVEN = """agraph (float[1, 2] x, bool p) => (float[1, 2] y)
<bool no = {0}, float[1, 2] w = {1.5, 2.5}, float[1, 2] v = {2.5, 3.5}, float[2, 2] m = {1.0, 2.0, 3.0, 4.0}> {
    k = MatMul (x, m)
    q, z = If (p) <then_branch = g () => (THEN) {a = Neg (k)}, else_branch = g () => (ELSE) {b = Abs (k) c = Not (p)}>
    y = END
}"""
CONSTANTS = {
    "ops.array(False": ("float[1, 2] a, bool no", "float[1, 2] b, bool c", "Where (z, q, x)"),
    "= self.w": ("float[1, 2] w, bool no", "float[1, 2] b, bool c", "Sub (q, x)"),
    "= -": ("float[1, 2] a, float[1, 2] w", "float[1, 2] b, float[1, 2] v", "Add (q, x)"),
}


@pytest.mark.parametrize("scope", ["", "block"])
@pytest.mark.parametrize("said", CONSTANTS)
def test_a_constant_of_a_branch_is_written_where_it_is_read(
    said: str, scope: str, tmp_path: Path
) -> None:
    text = GIVEN
    for word, part in zip(("THEN", "ELSE", "END"), CONSTANTS[said], strict=True):
        text = text.replace(word, part)
    source = check_source(HEAD + text, tmp_path, scope=scope)
    assert said in source
    assert ("nn.Parameter" in source) is ("self" in said)
    assert ("class Block" in source) is (scope == "block")


class Decoder(burnx.nn.Module):
    """A loop that is left early, with a mask of bools."""

    def __init__(self) -> None:
        self.step = burnx.nn.Linear(8, 8)

    @burnx.script
    def forward(self, x: burnx.Tensor, mask: burnx.Tensor, n: burnx.Tensor) -> Any:
        states = []
        going = x.max() < 100
        for _ in range(n):
            x = burnx.ops.where(mask, self.step(x), x)
            if x.max() > 1:
                x = x / 2
            states.append(x)
        while going and x.max() < 5:
            x = x + 1
            if x.min() > 3:
                going = False
        return x, burnx.stack(states)


def test_what_burnx_exported_comes_back_without_unread_parameters(tmp_path: Path) -> None:
    net, x = Decoder(), np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8)
    inputs = {"x": x, "mask": x > -0.5, "n": np.array(3)}
    expected = [each.numpy() for each in net(*inputs.values())]
    path = tmp_path / "decoder.onnx"
    burnx.export_onnx(net, inputs, path)
    for number in range(2):
        source = tmp_path / f"decoder_{number}.py"
        burnx.import_onnx(path, source)
        assert "nn.Parameter" not in source.read_text()
        made = burnx.load(source)
        for found, value in zip(made.run(inputs).values(), expected, strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-5)
        burnx.export_onnx(load_network(source), inputs, path)


def test_generated_source_is_edited_by_hand(tmp_path: Path) -> None:
    source = check_source(HEAD + SOURCES["break"], tmp_path)
    path = tmp_path / "edited.py"
    assert "< 9.0" in source
    path.write_text(source.replace("< 9.0", "< 1000.0").partition("\n")[2])
    x = np.ones(3, np.float32)
    results = burnx.load(f"{path}:Model").run({"x": x, "n": np.array(6, np.int64)})
    np.testing.assert_allclose(results["y"], x * 64)
    assert results["ys"].shape == (6, 3)
