"""Products that a library may do: what it is asked for means the kernel, and nothing depends on it being there.

The library is NumPy here (numpy_library.py); cuBLASLt's own tests are in tests/device/test_cuda.py.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import burnx
from burnx import ops
from burnx.runtime.devices.gpu import choosing, library_products
from tests.unit.gpu.numpy_library import NumpyLibrary, results

pytest.importorskip("pyopencl")
Array = np.ndarray[Any, Any]
DEVICE = "opencl:0"
random = np.random.default_rng(5)


def make(*shape: int, dtype: Any = np.float32) -> Array:
    return (random.standard_normal(shape) / 4).astype(dtype)


# ---------------------------------------------------------------------------------------------- what it is asked
W, V, B, C = make(64, 96), make(96, 64), make(96), make(2, 50, 64)
X, Q, K = make(2, 50, 64), make(2, 4, 32, 16), make(2, 4, 40, 16)
IMAGE, ONE, WIDE = make(2, 32, 9, 9), make(48, 32, 1, 1), make(48, 32, 3, 3)

# what is computed, its inputs, products that the library finishes, products that it leaves something of
MODELS: dict[str, tuple[Callable[..., Any], tuple[Array, ...], int, int]] = {
    "plain": (lambda x: ops.mat_mul(x, W), (X,), 1, 0),
    "bias": (lambda x: ops.mat_mul(x, W) + B, (X,), 1, 0),
    "zero": (lambda x: ops.mat_mul(x, W) + 0, (X,), 1, 0),
    "residual": (lambda x: ops.mat_mul(ops.mat_mul(x, W) + B, V) + x, (X,), 2, 0),
    "bias and residual": (lambda x, c: ops.mat_mul(x, W) + B + c, (X, make(2, 50, 96)), 1, 0),
    "turned": (lambda x, w: ops.gemm(x, w, B, transB=1, alpha=0.5), (X[0], make(96, 64)), 1, 0),
    "both turned": (lambda x, w: ops.gemm(x, w, transA=1, transB=1), (make(64, 50), make(96, 64)), 1, 0),
    "scores": (lambda q, k: ops.mat_mul(q, ops.transpose(k, perm=[0, 1, 3, 2])), (Q, K), 1, 0),
    "one matrix for all": (lambda x, w: ops.mat_mul(x, w), (make(3, 8, 64), make(3, 64, 24)), 1, 0),
    "relu": (lambda x: ops.relu(ops.mat_mul(x, W) + B), (X,), 0, 1),
    "gelu": (lambda x: ops.gelu(ops.mat_mul(x, W) + B), (X,), 0, 1),
    "scalar": (lambda x: ops.mat_mul(x, W) + 3, (X,), 0, 1),
    "a bias of rows": (lambda x, c: ops.mat_mul(x, W) + c, (X, make(50, 1)), 0, 1),
    "1 x 1": (lambda x: ops.relu(ops.conv(x, ONE)), (IMAGE,), 0, 1),
}  # fmt: skip


HALVES = ("residual", "scores", "gelu", "bias")


@pytest.mark.parametrize(
    "name, dtype", [(n, "float32") for n in MODELS] + [(n, "float16") for n in HALVES]
)
def test_a_product_of_the_library_gives_right_numbers(
    library: NumpyLibrary, tmp_path: Path, name: str, dtype: str
) -> None:
    model, inputs, whole, parted = MODELS[name]
    if dtype == "float16":
        model, inputs = _in_halves(model), tuple(each.astype(np.float16) for each in inputs)
    expected = burnx.compile(model, "reference")(*inputs).numpy()
    tuned = burnx.compile(model, DEVICE, tune=True)
    near = {"float32": 1e-5, "float16": 4e-3}[dtype]
    for _ in range(3):
        np.testing.assert_allclose(tuned(*inputs).numpy(), expected, rtol=near, atol=near)
    won = [each["form"] for each in results(tmp_path) if each["form"]["kind"] == "library"]
    assert sum(form["group"] == 0 for form in won) == whole
    assert sum(form["group"] > 0 for form in won) == parted
    verdicts = [verdict for each in results(tmp_path) for _, _, verdict in each["laps"]]
    assert "wrong" not in verdicts and verdicts.count("failed") == len(won)


def _in_halves(model: Callable[..., Any]) -> Callable[..., Any]:
    """The model with constants in float16."""
    import types

    names = {
        name: value.astype(np.float16) if isinstance(value, np.ndarray) else value
        for name, value in globals().items()
    }
    made = types.FunctionType(model.__code__, names)
    made.__kwdefaults__ = model.__kwdefaults__  # type: ignore[attr-defined]
    return made


def test_what_is_no_single_product_is_left_to_burnx(library: NumpyLibrary, tmp_path: Path) -> None:
    library.driver.libraries.pop("convolutions")
    model = burnx.compile(lambda x: ops.conv(x, WIDE), DEVICE, tune=True)
    expected = burnx.compile(lambda x: ops.conv(x, WIDE), "reference")(IMAGE).numpy()
    np.testing.assert_allclose(model(IMAGE).numpy(), expected, rtol=1e-4, atol=1e-4)
    assert not library.asked


def test_nan_passes_through_what_follows(library: NumpyLibrary) -> None:
    model = burnx.compile(MODELS["relu"][0], DEVICE, tune=True)
    model(X)
    model(X)
    x = X.copy()
    x[0, 3, 5] = np.nan
    assert library.asked and np.isnan(model(x).numpy()[0, 3]).all()


def test_a_library_that_writes_something_else_does_not_win(
    library: NumpyLibrary, tmp_path: Path
) -> None:
    library.change = lambda result: result + 1
    model, inputs, *_ = MODELS["bias"]
    expected = burnx.compile(model, "reference")(*inputs).numpy()
    tuned = burnx.compile(model, DEVICE, tune=True)
    for _ in range(2):
        np.testing.assert_allclose(tuned(*inputs).numpy(), expected, rtol=1e-5, atol=1e-5)
    (result,) = results(tmp_path)
    assert result["form"]["kind"] != "library"
    assert [verdict for _, _, verdict in result["laps"]][-3:] == ["wrong", "wrong", "failed"]


def test_without_the_library_its_results_are_passed_over(
    library: NumpyLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, inputs, *_ = MODELS["residual"]
    expected = burnx.compile(model, "reference")(*inputs).numpy()
    burnx.compile(model, DEVICE, tune=True)(*inputs)
    monkeypatch.setattr(library.driver, "libraries", {})
    library.asked.clear()
    found = burnx.compile(model, DEVICE)(*inputs).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert not library.asked


def test_small_products_are_not_worth_a_library(
    library: NumpyLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library_products, "LEAST", 1 << 20)
    burnx.compile(MODELS["plain"][0], DEVICE, tune=True)(X)
    assert not library.asked


# ---------------------------------------------------------------------------------------------- kept plans
def make_file(path: Path) -> Path:
    nodes, weights, last = [], [], "x"
    for layer in range(3):
        weights.append(numpy_helper.from_array(make(64, 64), f"w{layer}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{layer}"], [f"m{layer}"]))
        nodes.append(helper.make_node("Relu" if layer else "Neg", [f"m{layer}"], [f"r{layer}"]))
        nodes.append(helper.make_node("Softmax", [f"r{layer}"], [f"s{layer}"]))
        last = f"s{layer}"
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 64]) for name in ("x", last)
    ]
    graph = helper.make_graph(nodes, "layers", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)
    return path


def test_a_plan_with_products_of_a_library_is_kept(
    library: NumpyLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, given = make_file(tmp_path / "model.onnx"), {"x": X[0]}
    burnx.load(path, DEVICE, tune=True).run(given)
    first = burnx.load(path, DEVICE).run(given)
    library.asked.clear()
    library.driver.functions.clear()
    monkeypatch.setattr(choosing, "pick_form", lambda *given: pytest.fail("there is a plan"))
    model = burnx.load(path, DEVICE)
    for _ in range(3):
        found = model.run(given)
        assert [v.tobytes() for v in found.values()] == [v.tobytes() for v in first.values()]
    assert len(library.asked) == 3, library.asked
    assert not library.driver.functions


def test_a_plan_with_products_of_a_library_is_not_taken_without_it(
    library: NumpyLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, given = make_file(tmp_path / "model.onnx"), {"x": X[0]}
    burnx.load(path, DEVICE, tune=True).run(given)
    first = burnx.load(path, DEVICE).run(given)
    monkeypatch.setattr(library.driver, "libraries", {})
    library.asked.clear()
    found = burnx.load(path, DEVICE).run(given)
    for name, value in first.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6)
    assert not library.asked


def test_memory_beside_the_arena_goes_with_the_last_product(library: NumpyLibrary) -> None:
    arena = library.driver.arena
    model = burnx.compile(MODELS["relu"][0], DEVICE, tune=True)
    model(X)
    assert arena.spare() is not None
    del model
    gc.collect()
    assert arena.spare() is None
