"""What stands in the way of keeping plans stands in the way of nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, parser

import burnx
from burnx.errors import UsageError
from burnx.runtime.kept import entries, identity

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(autouse=True)
def _keeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURNX_CACHE", str(tmp_path / "kernels"))
    monkeypatch.setenv("BURNX_CACHE_MB", "64")
    monkeypatch.setattr(identity, "SETTLED_NS", 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A chain long enough to be kept."""
    chain = " ".join(f"t{n + 1} = Softmax(t{n})" for n in range(12))
    text = f"g (float[n,4] t0) => (float[n,4] t12) {{ {chain} }}"
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    onnx.save(model, tmp_path / "chain.onnx")
    return tmp_path / "chain.onnx"


def test_a_dimension_that_nothing_names_is_no_obstacle(tmp_path: Path) -> None:
    """A loop's stacked results have as many rows as it has turns."""
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        g (int64 n, float[1,4] x) => (float[1,4] y, float[k,1,4] ys)
        <bool go = {1}> {
          y, ys = Loop(n, go, x) <body = step (int64 i, bool c, float[1,4] s) => (bool d, float[1,4] t, float[1,4] p) {
            p = Add(s, s)
            t = Identity(p)
            d = Identity(c)
          }>
        }"""
    )
    model.graph.output[1].type.tensor_type.shape.dim[0].Clear()
    file = tmp_path / "loop.onnx"
    onnx.save(model, file)
    feed = {"n": np.int64(3), "x": np.ones((1, 4), np.float32)}
    for _ in range(2):
        result = burnx.load(file).run(feed)
        np.testing.assert_array_equal(result["ys"][:, 0, 0], [2, 4, 8])


def test_a_plan_that_cannot_be_written_fails_no_run(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise TypeError("not this one")

    monkeypatch.setattr(entries.Entries, "write", fail)
    assert burnx.load(path).run({"t0": X})["t12"].shape == (3, 4)
    assert "a plan was not kept" in caplog.text


def test_a_size_of_the_cache_that_is_no_number_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURNX_CACHE_MB", "much")
    with pytest.raises(UsageError, match="BURNX_CACHE_MB is a number"):
        burnx.load(path).run({"t0": X})


def test_a_model_with_strings_is_not_kept_and_runs(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Softmax", ["t0" if n == 0 else f"s{n - 1}"], [f"s{n}"]) for n in range(9)
    ]
    nodes.append(helper.make_node("Equal", ["words", "word"], ["y"]))
    words = helper.make_tensor("word", onnx.TensorProto.STRING, [1], [b"two"])
    one = helper.make_tensor("words", onnx.TensorProto.STRING, [2], [b"one", b"two"])
    graph = helper.make_graph(
        nodes,
        "strings",
        [
            helper.make_tensor_value_info("t0", onnx.TensorProto.FLOAT, ["n", 4]),
            helper.make_tensor_value_info("words", onnx.TensorProto.STRING, [2]),
        ],
        [
            helper.make_tensor_value_info("s8", onnx.TensorProto.FLOAT, ["n", 4]),
            helper.make_tensor_value_info("y", onnx.TensorProto.BOOL, [2]),
        ],
        [words, one],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    onnx.save(model, tmp_path / "strings.onnx")
    for inputs in ({"t0": X}, {"t0": X, "words": np.array(["two", "two"], object)}) * 2:
        found = burnx.load(tmp_path / "strings.onnx").run(inputs)
        assert found["y"].tolist() == [len(inputs) == 2, True]
    assert not any(
        b'"inputs"' in each.read_bytes() for each in tmp_path.glob("kernels/plans/*.plan")
    )
