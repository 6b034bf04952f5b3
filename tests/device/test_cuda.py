"""What only an NVIDIA device can show: its matrix units' rate, memory given back, shared memory, and races on it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import burnx
from burnx import ops
from burnx.runtime.device import devices
from burnx.runtime.tuning.roofline import Roofline

DEVICE = "cuda:0"
HERE = any(each.name == DEVICE for each in devices())
pytestmark = pytest.mark.skipif(not HERE, reason="no CUDA device is here")

PLAIN_BYTES = 48 << 10  # of shared memory, which a launch has without asking


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The device with no results of races, nor functions, from other tests."""
    from burnx.runtime.devices.cuda import find_driver

    monkeypatch.setenv("BURNX_CACHE", str(tmp_path / "kernels"))
    found = find_driver(DEVICE)
    kept = dict(found.functions)
    found.functions.clear()
    yield found
    found.functions.clear()
    found.functions.update(kept)


def layers(x: Any, w: Any, v: Any) -> Any:
    return ops.softmax(ops.mat_mul(ops.relu(ops.mat_mul(x, w) + 1), v), axis=-1)


def make_arrays(dtype: Any) -> list[Any]:
    random = np.random.default_rng(3)
    shapes = ((384, 512), (512, 1024), (1024, 256))
    return [(random.standard_normal(shape) / 8).astype(dtype) for shape in shapes]


def results(folder: Path) -> list[dict[str, Any]]:
    found = []
    for file in (folder / "kernels" / "tuning").glob("*.json"):
        text = file.read_bytes().decode("latin1")
        if '{"form"' in text:
            found.append(json.loads(text[text.index('{"form"') :]))
    return found


def test_the_roofline_is_that_of_such_a_device(driver: Any) -> None:
    from burnx.runtime.devices.gpu.roofline import device_roofline

    found = device_roofline(driver)
    assert set(found.matrices) == set(driver.limits.matrices)
    assert 1e11 < found.bytes_per_s < 1e13
    assert 1e12 < found.flops_per_s < min(found.matrices.values()) < 5e15
    again = device_roofline(driver)
    assert again == found, "it is measured once"


def test_memory_that_nobody_holds_goes_back_to_the_device(driver: Any) -> None:
    with driver.lock:
        driver.release()
        before = driver.memory_use()
        memory = driver.allocate(512 << 20)
        assert driver.memory_use()[0] >= before[0] + (512 << 20)
        del memory
        assert driver.memory_use()[1] >= 512 << 20
        driver.release()
        assert driver.memory_use()[1] <= before[1]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_call_that_tunes_and_those_after_it_give_right_numbers(
    driver: Any, tmp_path: Path, dtype: str
) -> None:
    arrays = make_arrays(dtype)
    wide = [each.astype(np.float32) for each in arrays]
    expected = burnx.compile(layers, "reference")(*wide).numpy()
    model = burnx.compile(layers, DEVICE, tune=True)
    near = {"float32": 1e-5, "float16": 2e-3}[dtype]
    for _ in range(4):
        np.testing.assert_allclose(model(*arrays).numpy(), expected, rtol=10 * near, atol=near)
    kept = results(tmp_path)
    assert len(kept) == 3
    verdicts = [verdict for each in kept for _, _, verdict in each["laps"]]
    assert not {"wrong", "failed"} & set(verdicts), kept
    assert all(each["elapsed_ns"] < 1e8 for each in kept)


def test_kernels_with_much_shared_memory_are_launched(driver: Any) -> None:
    arrays = make_arrays("float16")
    burnx.compile(layers, DEVICE, tune=True)(*arrays)
    large = [code for code, _ in driver.functions.values() if code.local_bytes > PLAIN_BYTES]
    assert large, "no form of a product needs that much any more"


def test_the_command_tunes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURNX_CACHE", str(tmp_path / "kernels"))
    text = """<ir_version: 8, opset_import: ["": 18]>
    g (float[n, 256] x, float[256, 512] w) => (float[n, 512] y) {
        a = MatMul(x, w)  y = Softmax(a) }"""
    path = tmp_path / "model.onnx"
    onnx.save(parser.parse_model(text), path)
    command = [sys.executable, "-m", "burnx", "run", str(path), "--device", DEVICE, "--tune"]
    done = subprocess.run([*command, "--dim", "n=300"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(results(tmp_path)) == 2


# ---------------------------------------------------------------------------------------------- products by cuBLASLt
B = np.linspace(-1, 1, 1024, dtype=np.float32)
MODELS: dict[str, Any] = {
    "bias": lambda x, w, v, b: ops.mat_mul(x, w) + b,
    "residual": lambda x, w, v, b: ops.mat_mul(ops.mat_mul(x, w), v) + x[:, :256],
    "turned": lambda x, w, v, b: ops.gemm(w, x, transA=1, transB=1),
    "relu": lambda x, w, v, b: ops.relu(ops.mat_mul(x, w) + b),
    "gelu": lambda x, w, v, b: ops.gelu(ops.mat_mul(x, w) + b),
    "batches": lambda x, w, v, b: ops.mat_mul(
        ops.reshape(x, [4, 96, 512]), ops.transpose(ops.reshape(x, [4, 96, 512]), perm=[0, 2, 1])
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", MODELS)
def test_products_by_cublaslt_give_right_numbers(
    driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, dtype: str
) -> None:
    """They win every race here, so that what is run, recorded and replayed is theirs."""
    pytest.importorskip("nvmath")
    from burnx.runtime.devices.gpu import library_products, tuning

    monkeypatch.setattr(library_products, "LEAST", 1)
    measured = tuning._Trial.time

    def prefer_library(self: Any, form: Any) -> int:
        return measured(self, form) // (1000 if form.kind == "library" else 1) + 1

    monkeypatch.setattr(tuning._Trial, "time", prefer_library)
    monkeypatch.setattr(tuning, "device_roofline", lambda driver: Roofline(1e18, 1e18))
    inputs = [each.astype(dtype) for each in (*make_arrays("float32"), B)]
    wide = [each.astype(np.float32) for each in inputs]
    expected = burnx.compile(MODELS[name], "reference")(*wide).numpy()
    tuned = burnx.compile(MODELS[name], DEVICE, tune=True)
    near = {"float32": 2e-5, "float16": 4e-3}[dtype] * float(np.abs(expected).max())
    for _ in range(4):  # the third call records, the fourth replays
        np.testing.assert_allclose(tuned(*inputs).numpy(), expected, rtol=near, atol=near)
    laps = [lap for each in results(tmp_path) for lap in each["laps"]]
    assert "wrong" not in {verdict for _, _, verdict in laps}
    assert any(each["form"]["kind"] == "library" for each in results(tmp_path)), laps
