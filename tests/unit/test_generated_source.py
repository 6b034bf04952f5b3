"""What broke generated source once: each a small model, run from its source and exported again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exported import run_ort
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser

import burnx
from burnx.nn.sources import load_network

Arrays = dict[str, Any]
FLOAT = TensorProto.FLOAT


def source_of(model: ModelProto, folder: Path) -> str:
    burnx.import_onnx(model, folder / "model.py")
    text = (folder / "model.py").read_text()
    lint = [sys.executable, "-m", "ruff", "check", "--isolated", "-q", str(folder / "model.py")]
    found = subprocess.run([*lint, "--select", "E4,E7,E9,F"], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout
    return text


def agrees(model: ModelProto, folder: Path, *feeds: Arrays, expected: Any = None) -> str:
    """The source, the direct run and the exported file give what onnxruntime does, for all inputs."""
    text = source_of(model, folder)
    network: Any = load_network(f"{folder / 'model.py'}:Model")
    burnx.export_onnx(network, feeds[0], folder / "again.onnx")
    for given in feeds:
        right = expected or run_ort(model, given)
        result = network(*given.values())
        results = result if isinstance(result, tuple) else (result,)
        by_source = dict(zip(right, (value.numpy() for value in results), strict=True))
        by_run = burnx.load(model).run(given)
        for found in (by_source, by_run, run_ort(str(folder / "again.onnx"), given)):
            for name, value in right.items():
                np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5)
                assert found[name].shape == value.shape
    return text


def test_a_loop_body_does_not_assign_what_it_reads_from_outside(tmp_path: Path) -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        g (int64[n] a, int64[m] b) => (int64[k] y)
        <int64 trips = {2}, bool go = {1}, int64[1] one = {1}, int64[1] zero = {0}> {
          joined = Concat<axis = 0>(a, b)
          rest = Neg(joined)
          last, y = Loop(trips, go, zero) <body = step (int64 i, bool c, int64[1] s) => (bool d, int64[1] t, int64[1] p) {
            picked = Gather(joined, i)
            first = Unsqueeze(picked, zero)
            other = Gather(rest, i)
            second = Unsqueeze(other, zero)
            p = Mul(first, second)
            t = Add(s, p)
            d = Identity(c)
          }>
        }"""
    )
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.INT64, None))
    agrees(model, tmp_path, {"a": np.array([2, 3]), "b": np.array([4])})


def test_nothing_is_imported_that_is_not_used(tmp_path: Path) -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[n] x) => (float[n] y) { y = Add(x, x) }'
    )
    text = agrees(model, tmp_path, {"x": np.ones(3, np.float32)})
    assert "from burnx import Input, Output, Tensor, nn\n" in text


def test_a_model_without_inputs_imports_no_input(tmp_path: Path) -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g () => (float[2] y)
        <int64[1] two = {2}> { y = RandomNormal<shape = [2]>() }"""
    )
    assert "Input" not in source_of(model, tmp_path).split('"""')[2].splitlines()[2]


@pytest.mark.parametrize("truth", [True, False])
def test_a_comparison_with_a_truth_passes_a_linter(tmp_path: Path, truth: bool) -> None:
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17]> g (float[n] x) => (bool[n] y)
        <float zero = {{0}}, bool truth = {{{int(truth)}}}> {{ less = Less(x, zero) y = Equal(less, truth) }}"""
    )
    agrees(model, tmp_path, {"x": np.array([-1, 0, 1], np.float32)})


def test_a_squeeze_stays_though_the_file_declares_what_it_gives(tmp_path: Path) -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[n, 3] x) => (float[n, 3] y) { y = Squeeze(x) }'
    )
    agrees(model, tmp_path, *({"x": np.ones((size, 3), np.float32)} for size in (2, 1)))


def test_a_constant_beside_a_layer_of_the_same_scope_is_kept(tmp_path: Path) -> None:
    """``part.weight`` makes a Linear of ``part``; ``part.scale`` belongs to it, but no layer holds it."""
    arrays = {
        "part.weight": np.arange(4, dtype=np.float32).reshape(2, 2),
        "part.scale": np.array([2, 3], np.float32),
    }
    nodes = [
        helper.make_node("Mul", ["x", "part.scale"], ["h"], name="/Mul"),
        helper.make_node("MatMul", ["h", "part.weight"], ["y"], name="/part/MatMul"),
    ]
    shape = ["n", 2]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", FLOAT, shape)],
        [helper.make_tensor_value_info("y", FLOAT, shape)],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    agrees(model, tmp_path, {"x": np.ones((3, 2), np.float32)})


def test_a_signal_may_leave_out_its_last_axis(tmp_path: Path) -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (float[n, 16] x) => (float[n, 3, 5, 2] y)
        <int64 step = {3}, float[8] window = {1, 2, 3, 4, 4, 3, 2, 1}> { y = STFT(x, step, window) }"""
    )
    agrees(model, tmp_path, {"x": np.arange(32, dtype=np.float32).reshape(2, 16) % 7})


def test_text_for_a_tensor_is_refused(tmp_path: Path) -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[n] x) => (float[n] y) { y = Neg(x) }'
    )
    source_of(model, tmp_path)
    network: Any = load_network(f"{tmp_path / 'model.py'}:Model")
    with pytest.raises(burnx.BurnxError, match='input "x"'):
        network("abc")
