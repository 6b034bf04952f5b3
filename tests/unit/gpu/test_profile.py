"""Profiles of devices: kernels with their places, calls, bytes and operations, and how near to the peak they came."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burnx
from burnx import ops
from burnx.capture.loaded import LoadedModel
from burnx.cli.app import main
from burnx.dtype import float32
from burnx.graph import Graph
from burnx.runtime.tuning.roofline import Roofline

ROWS, INNER, COLUMNS = 8, 32, 16


@pytest.fixture(params=["cpu", "opencl"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A device whose roofline is known: that of this machine takes long to measure."""
    if request.param == "opencl":
        pytest.importorskip("pyopencl")
    monkeypatch.setenv("BURNX_CACHE", str(tmp_path / "kernels"))
    room = {"cpu": "cpu", "opencl": "gpu"}[request.param]
    path = f"burnx.runtime.devices.{room}.find_roofline"
    monkeypatch.setattr(path, lambda options, name: Roofline(1e6, 1e6))
    return str(request.param)


@pytest.fixture
def path(tmp_path: Path) -> str:
    def forward(x: Any, w: Any) -> Any:
        return ops.softmax(ops.mat_mul(x, w), axis=-1)

    x, w = np.ones((ROWS, INNER), np.float32), np.ones((INNER, COLUMNS), np.float32)
    found = str(tmp_path / "model.onnx")
    burnx.export_onnx(forward, {"x": x, "w": w}, found)
    return found


def inputs(graph: Graph) -> dict[str, Any]:
    return {
        value.name: np.ones(value.type.shape, float32)  # type: ignore[union-attr,arg-type]
        for value in graph.inputs
    }


def test_a_product_is_counted_exactly(place: str, path: str) -> None:
    model = burnx.load(path, device=place)
    rows = model.profile(inputs(model.graph))
    (product,) = [row for row in rows if row.what == "contract"]
    assert product.flops >= 2 * ROWS * INNER * COLUMNS
    moved = 4 * (ROWS * INNER + INNER * COLUMNS + ROWS * COLUMNS)
    assert moved <= product.bytes <= 2 * moved
    assert product.calls == 1 and product.elapsed_ns > 0 and product.dtype == "float32"
    assert "MatMul" in product.place
    assert all(row.elapsed_ns >= 0 and row.bytes > 0 for row in rows)


def test_a_loop_on_a_device_counts_each_turn() -> None:
    pytest.importorskip("pyopencl")

    def repeated(x: Any) -> Any:
        def body(turn: Any, going: Any, x: Any) -> Any:
            return going, ops.softmax(x, axis=-1) + x

        return burnx.loop(body, x, trips=np.array(5), condition=np.array(True))

    x = np.ones((3, 400), np.float32)
    graph = burnx.trace(repeated, x)
    model = LoadedModel(graph, burnx.Device("opencl:0"))
    rows = model.profile({graph.inputs[0].name: x})
    assert {row.calls for row in rows if "Softmax" in row.place} == {5}


def test_a_loop_of_run_time_length_has_a_place_for_every_kernel() -> None:
    pytest.importorskip("pyopencl")

    def repeated(x: Any, n: Any) -> Any:
        def body(turn: Any, going: Any, x: Any) -> Any:
            return going, ops.softmax(x, axis=-1) + x

        return burnx.loop(body, x, trips=n, condition=np.array(True))

    x, n = np.ones((3, 400), np.float32), np.array(3)
    graph = burnx.trace(repeated, x, n)
    model = LoadedModel(graph, burnx.Device("opencl:0"))
    names = [value.name for value in graph.inputs]
    rows = model.profile(dict(zip(names, (x, n), strict=True)))
    assert {row.place.partition(" at ")[0] for row in rows} == {"node (Softmax)", "node (Loop)"}


def test_the_table_and_its_json_have_the_same(
    place: str, path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    command = ["bench", path, "--device", place, "--rounds", "1", "--profile", "--json", str(out)]
    assert main(command) == 0
    told = capsys.readouterr().out
    for heading in ("place", "kind", "calls", "MB", "MFLOP", "% of peak", "peak: 0.001 GB/s"):
        assert heading in told
    rows = json.loads(out.read_text())["profile"]
    (product,) = [row for row in rows if row["what"] == "contract"]
    least_s = max(product["bytes"], product["flops"]) / 1e6
    assert product["fraction_of_peak"] == pytest.approx(least_s * 1e9 / product["elapsed_ns"])
    assert product["instruction"].startswith("contract") and product["calls"] == 1
