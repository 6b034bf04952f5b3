"""Run options: what is refused, and that they reach the device that runs the program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import parser

import burnx
from burnx.errors import DeviceError, UsageError

CHAIN = parser.parse_model("""
<ir_version: 8, opset_import: ["": 17]>
g (float[batch, 3] x) => (float[batch, 4] y)
<float[3, 4] weight = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}>
{ product = MatMul(x, weight)  sum = Add(product, product)  y = Relu(sum) }
""")
FOREIGN = parser.parse_model("""
<ir_version: 8, opset_import: ["": 17]>
g (bool b, float[n] x, string[n] s) => (float[k] v, int64[k] i, int64[1,m] z, string[n] t, int64[l] w)
<int64[1] two={2}>
{
    e = Exp(x)
    v, i = TopK(e, two)
    z = NonZero(x)
    t = Identity(s)
    ignored, w = If(b) <
        then_branch = g1 () => (float[l] v1, int64[l] i1) { v1, i1 = TopK(x, two) },
        else_branch = g2 () => (float[l] v2, int64[l] i2) { v2, i2 = TopK(e, two) }
    >
}
""")
X = {"x": np.array([[1, 2, 3], [-1, 0, 1]], np.float32)}
WRONG = (
    {"threads": 0},
    {"threads": -1},
    {"threads": 1.0},
    {"threads": True},
    {"threads": "2"},
    {"fuse": None},
    {"fuse": "no"},
    {"fuse": 1},
    {"tune": "yes"},
    {"tune": 0},
    {"thread": 2},
    {"no_lift": ["nothing"]},
)


def doubled(x: Any) -> Any:
    return x + x


@pytest.mark.parametrize("options", WRONG, ids=str)
def test_wrong_options_are_refused_before_anything_is_loaded(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(options)).rstrip("s") + "|pass|lift"):
        burnx.load("no such file.onnx", **options)
    with pytest.raises(UsageError):
        burnx.compile(doubled, **options)


def test_a_fallback_is_a_device() -> None:
    with pytest.raises(DeviceError, match="tpu"):
        burnx.load(CHAIN, fallback="tpu")
    assert burnx.load(CHAIN, fallback="reference", tune=True).run(X)["y"].shape == (2, 4)


def runner(model: Any) -> Any:
    (executable,) = model._executables._by_kind.values()
    return executable.runner


@pytest.mark.parametrize("options", [{}, {"threads": 3}, {"fuse": False, "threads": 2}], ids=str)
def test_options_reach_the_runner(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURNX_THREADS", "5")
    model = burnx.load(CHAIN, device="cpu", **options)
    expected = burnx.load(CHAIN, device="reference", **options).run(X)["y"]
    assert np.array_equal(model.run(X)["y"], expected)
    found = runner(model)
    assert (found.threads, found.fuse) == (options.get("threads", 5), options.get("fuse", True))
    compiled = burnx.compile(doubled, "cpu", **options)
    assert np.array_equal(compiled(X["x"]).numpy(), 2 * X["x"])
    (inner,) = compiled._models.values()
    assert runner(inner).threads == found.threads and runner(inner).fuse == found.fuse


def test_without_fusion_every_node_is_a_kernel() -> None:
    def labels(**options: Any) -> list[str]:
        rows = burnx.load(CHAIN, device="cpu", **options).profile(X)
        assert all(row.elapsed_ns >= 0 and row.calls == 1 for row in rows)
        assert rows == sorted(rows, key=lambda row: -row.elapsed_ns)
        return sorted(row.label for row in rows)

    assert labels() == ['contract node "product" (MatMul)']
    assert labels(fuse=False) == [
        'contract node "product" (MatMul)',
        'map node "sum" (Add)',
        'map node "y" (Relu)',
    ]


def test_a_profile_has_what_python_carries_out_too() -> None:
    given = {"b": True, "x": np.array([3, 1, 2], np.float32), "s": np.array(["a", "b", "c"])}
    for device in ("cpu", "reference"):
        rows = burnx.load(FOREIGN, device=device).profile(given)
        assert any(row.label.startswith("sort node") for row in rows)
        assert any(row.label.startswith("map node") for row in rows)
        assert all(row.elapsed_ns >= 0 for row in rows)


def test_placement_lists_what_python_carries_out() -> None:
    assert burnx.load(CHAIN, device="cpu").placement() == {}
    found = burnx.load(FOREIGN, device="cpu").placement()
    assert len(found["sort"]) == 3 and len(found["nonzero"]) == 1
    assert all(place.startswith("node") for places in found.values() for place in places)
    assert burnx.load(FOREIGN, device="reference").placement() == {}


@pytest.mark.parametrize("wrong", ["0", "two", "1.5"])
def test_a_wrong_number_of_threads_in_the_environment_is_said(
    wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURNX_THREADS", wrong)
    with pytest.raises(UsageError, match="BURNX_THREADS"):
        burnx.load(CHAIN, device="cpu").run(X)
    assert burnx.load(CHAIN, device="cpu", threads=1).run(X)["y"].shape == (2, 4)


def test_kernels_from_the_cache_are_not_compiled(tmp_path: Path) -> None:
    code = (
        "import sys, burnx, numpy as np; from burnx.runtime.devices.cpu import compiled_kernels\n"
        "model = burnx.load(bytes.fromhex(sys.argv[1]), device='cpu')\n"
        "for size in (1, 7, 2): model.run({'x': np.ones((size, 3), np.float32)})\n"
        "print(compiled_kernels())"
    )
    environment = {"BURNX_CACHE": str(tmp_path / "kernels")}

    def compiled() -> int:
        command = [sys.executable, "-c", code, CHAIN.SerializeToString().hex()]
        found = subprocess.run(
            command, capture_output=True, text=True, check=True, env={**os.environ, **environment}
        )
        return int(found.stdout)

    assert compiled() >= 2  # the product, and what runs it
    assert compiled() == 0
