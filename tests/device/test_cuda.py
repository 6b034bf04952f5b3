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
from burnx.dtype import DTYPES
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


def let_libraries_win(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a library can be asked for it is faster at."""
    from burnx.runtime.devices.gpu import library_products, tuning

    monkeypatch.setattr(library_products, "LEAST", 1)
    measured = tuning._Trial.time

    def prefer_library(self: Any, form: Any) -> int:
        return measured(self, form) // (1000 if form.kind == "library" else 1) + 1

    monkeypatch.setattr(tuning._Trial, "time", prefer_library)
    monkeypatch.setattr(tuning, "device_roofline", lambda driver: Roofline(1e18, 1e18))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", MODELS)
def test_products_by_cublaslt_give_right_numbers(
    driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, dtype: str
) -> None:
    """They win every race here, so that what is run, recorded and replayed is theirs."""
    pytest.importorskip("nvmath")
    let_libraries_win(monkeypatch)
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


# ------------------------------------------------------------------------------------------- convolutions by cuDNN
IMAGE, W3, B3 = [
    np.linspace(-1, 1, n, dtype=np.float32) for n in (2 * 32 * 15 * 17, 64 * 32 * 9, 64)
]
IMAGE, W3 = IMAGE.reshape(2, 32, 15, 17) ** 3, np.sin(W3 * 1e4).reshape(64, 32, 3, 3) / 8
V3 = np.cos(np.arange(32 * 64 * 9, dtype=np.float32) * 7).reshape(32, 64, 3, 3) / 8
AROUND = {"pads": [1, 1, 1, 1]}
CONVOLUTIONS: dict[str, Any] = {
    "plain": lambda x, w, b, v: ops.conv(x, w, **AROUND),
    "bias": lambda x, w, b, v: ops.conv(x, w, b),
    "relu": lambda x, w, b, v: ops.relu(ops.conv(x, w, b, **AROUND)),
    "clip": lambda x, w, b, v: ops.clip(
        ops.conv(x, w, b), ops.cast_like(np.float32(-0.25), x), ops.cast_like(np.float32(6), x)
    ),
    "residual": lambda x, w, b, v: ops.relu(
        ops.conv(ops.relu(ops.conv(x, w, b, **AROUND)), v, **AROUND) + x
    ),
    "strides": lambda x, w, b, v: ops.conv(x, w, b, strides=[2, 2], **AROUND),
    "dilations": lambda x, w, b, v: ops.relu(ops.conv(x, w, dilations=[2, 3])),
    "groups": lambda x, w, b, v: ops.conv(x, w[:, :8], group=4, **AROUND),
    "sigmoid": lambda x, w, b, v: ops.sigmoid(ops.conv(x, w, b)),
}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_by_cudnn_give_right_numbers(
    driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, dtype: str
) -> None:
    """They win every race here, NaN among the numbers; in a second process's place, the plans are read again."""
    pytest.importorskip("cudnn")
    let_libraries_win(monkeypatch)
    kind = DTYPES[dtype]
    x, *others = (each.astype(kind) for each in (IMAGE, W3, B3, V3))
    x[1, 3, 7, 8] = np.nan

    def model(x: Any) -> Any:
        made = CONVOLUTIONS[name](x, *others)
        return ops.reduce_max(made, np.array([1], np.int64))

    expected = burnx.compile(model, "reference")(x).numpy().astype(np.float32)
    assert np.isnan(expected).any()
    assert np.isfinite(expected[0]).all()
    tuned = burnx.compile(model, DEVICE, tune=True)
    near = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
    near *= float(np.nanmax(np.abs(expected)))
    for _ in range(4):  # the third call records, the fourth replays
        found = tuned(x).numpy().astype(np.float32)
        np.testing.assert_allclose(found, expected, rtol=near, atol=near)
    laps = [lap for each in results(tmp_path) for lap in each["laps"]]
    assert not [lap for lap in laps if lap[2] == "wrong"]
    won = [each["form"]["matrices"] for each in results(tmp_path)]
    if (name, dtype) in WON:
        assert "cudnn" in won, laps


# cuDNN has ways for these on every device that is new enough; what else it does is its own affair
WON = [
    (name, dtype)
    for name in ("plain", "bias", "relu", "strides", "dilations")
    for dtype in ("float16", "bfloat16")
]


# --------------------------------------------------------------------------------------- clusters, and side by side
@pytest.mark.parametrize("rows", [1, 33, 128, 200, 1568])
def test_products_that_are_spread_over_clusters(driver: Any, rows: int) -> None:
    """Edges within a group's share of the rows; many times, because groups that do not wait are wrong at times only."""
    random = np.random.default_rng(rows)
    x = random.integers(-4, 5, (rows, 4096)).astype(np.float16)
    w = random.integers(-4, 5, (4096, 200)).astype(np.float16)
    b = random.integers(-4, 5, 200).astype(np.float16)
    expected = x.astype(np.float32) @ w.astype(np.float32) + b
    model = burnx.compile(lambda x: ops.relu(ops.mat_mul(x, w) / np.float16(64) + b), DEVICE)
    expected = np.maximum(x.astype(np.float32) @ w.astype(np.float32) / 64 + b, 0)
    spread = set()
    for _ in range(20):
        np.testing.assert_allclose(model(x).numpy(), expected, rtol=2e-3, atol=2e-2)
    for code, _ in driver.functions.values():
        spread.add("__cluster_dims__" in code.text)
    assert driver.limits.capability != 90 or True in spread


def test_launches_side_by_side_give_the_same_numbers(driver: Any) -> None:
    """Four branches of several products, whose memory is used again by those that follow."""
    random = np.random.default_rng(0)
    weights = [random.standard_normal((256, 256)).astype(np.float32) / 16 for _ in range(8)]

    def model(x: Any) -> Any:
        for _ in range(6):
            branches = [
                ops.mat_mul(ops.tanh(ops.mat_mul(x, one)), two)
                for one, two in zip(weights[:4], weights[4:], strict=True)
            ]
            x = x + branches[0] * branches[1] - branches[2] * branches[3]
        return x

    x = random.standard_normal((64, 256)).astype(np.float32)
    expected = burnx.compile(model, "reference")(x).numpy()
    compiled = burnx.compile(model, DEVICE)
    for _ in range(30):
        np.testing.assert_allclose(compiled(x).numpy(), expected, rtol=1e-3, atol=1e-3)
