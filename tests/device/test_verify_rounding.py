"""What other engines may round, and burnx does not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from burnx.cli import main


def test_verify_does_not_take_leave_to_round_for_the_meaning(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    weights = {
        "b": random.integers(0, 256, (64, 8, 16)).astype(np.uint8),
        "s": random.random((64, 8)).astype(np.float32),
    }
    sizes = {"K": 256, "N": 64, "bits": 4, "block_size": 32}
    node = helper.make_node(
        "MatMulNBits", ["x", "b", "s"], ["y"], domain="com.microsoft", accuracy_level=4, **sizes
    )
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (3, size))
        for name, size in (("x", 256), ("y", 64))
    ]
    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], constants)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    path = str(tmp_path / "n.onnx")
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    assert main(["verify", path, "--json", str(tmp_path / "verdict.json")]) == 0
    verdict = json.loads((tmp_path / "verdict.json").read_text())
    (found,) = verdict["devices"].values()
    assert verdict["agrees"] is True
    assert found["notice"].startswith("agrees with onnxruntime without accuracy_level; with it,")
