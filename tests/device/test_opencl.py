"""Programs on OpenCL: a fixed part of the backend tests passes as on the cpu, and arrays stay where they are wanted.

Without a GPU the driver is PoCL, from PyPI.  Plain ``pytest`` takes a hundredth of the tests, ``-m suite``, which CI
runs, a tenth, and ``burnx conformance --device opencl:0 --route run --timeout 600`` all of them;
``python tests/models/run_models.py --device opencl:0 --route run`` runs the real models.
"""

from __future__ import annotations

import json
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest
from onnx import parser
from tenth import one_of, pattern_of
from test_conformance import failed_tests

import burnx
from burnx import Input, nn, ops
from burnx.agreement.tolerance import close
from burnx.capture.loaded import LoadedModel
from burnx.cli import main
from burnx.errors import BurnxError, DeviceError, InputError
from burnx.runtime.device import devices
from burnx.runtime.device_array import DeviceArray
from burnx.runtime.devices.opencl.programs import EXACT, options_of

DEVICE = "opencl:0"
HERE = any(each.name == DEVICE for each in devices())
pytestmark = pytest.mark.skipif(
    not HERE, reason="no OpenCL device is here: pip install pyopencl pocl-binary-distribution"
)

MODELS = ("magika", "silero_vad_16k_op15", "lstm_tagger.ts", "mobilenet_v2.dynamo")


def check_tests(parts: int, folder: Path) -> None:
    """Run the tests in a process of their own: a driver that was used does not survive the fork of workers."""
    tests, path = one_of(parts), folder / "results.json"
    command = [sys.executable, "-m", "burnx", "conformance", "--device", DEVICE, "--route", "run"]
    command += ["--filter", pattern_of(tests), "--json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    results = json.loads(path.read_text())
    assert failed_tests(results) == []
    assert results["summary"]["all"]["run"]["pass"] == len(tests)


def test_a_hundredth_of_the_tests_passes(tmp_path: Path) -> None:
    check_tests(100, tmp_path)


@pytest.mark.suite
@pytest.mark.first
def test_a_tenth_of_the_tests_passes(tmp_path: Path) -> None:
    check_tests(10, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_a_model_gives_what_it_gives_on_the_cpu(name: str) -> None:
    entry = models.entries()[name]
    try:
        path = models.path(entry)
    except models.Unavailable as error:
        pytest.skip(str(error))
    given, model = models.inputs(entry), burnx.load(path, device="cpu")
    expected, found = model.run(given), model.to(DEVICE).run(given)
    assert [close(expected[each], found[each]) for each in expected] == [None] * len(expected)


# --- models that move -------------------------------------------------------------------------------------------------
TEXT = """<ir_version: 8, opset_import: ["": 17]>
small (float[n, 3] x) => (float[n, 4] y, float[n, 3] same)
<float[3, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> { y = MatMul(x, w) same = Identity(x) }"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)
Y = X @ np.arange(1, 13, dtype=np.float32).reshape(3, 4)


class Doubled(nn.Module):
    inputs = (Input("x", "float32", ("n", 3)),)

    def __init__(self) -> None:
        self.scale = nn.Parameter(3, init="ones")

    def forward(self, x: Any) -> Any:
        return x * self.scale * 2


@pytest.fixture
def loaded() -> LoadedModel:
    return burnx.load(parser.parse_model(TEXT), device="cpu")


def test_a_loaded_model_moves(loaded: LoadedModel) -> None:
    moved = loaded.to("opencl")
    assert (loaded.device.name, moved.device.name) == ("cpu", DEVICE)
    y, same = moved(X)
    assert isinstance(y, np.ndarray) and np.allclose(y, Y) and np.array_equal(same, X)
    assert np.allclose(moved.to("cpu")(X)[0], Y)


def test_what_is_compiled_and_a_module_move() -> None:
    net = Doubled()
    moved = net.to(DEVICE)
    assert moved.scale is net.scale
    assert np.array_equal(moved(X).numpy(), X * 2)
    assert np.array_equal(net(X).numpy(), X * 2)
    compiled = burnx.compile(moved)
    assert compiled.device.name == DEVICE
    assert np.array_equal(compiled(X).numpy(), X * 2)
    assert compiled.to("cpu").device.name == "cpu"
    assert burnx.compile(moved, "cpu").device.name == "cpu"


def test_the_environment_names_the_device_of_plain_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    used = counted_launches(monkeypatch)
    monkeypatch.setenv("BURNX_DEVICE", "opencl")
    assert burnx.load(parser.parse_model(TEXT)).device.name == DEVICE
    large = np.ones(
        (300, 300), np.float32
    )  # what is small is worked out before it comes to a device
    assert np.array_equal(ops.add(large, large).numpy(), large + large)
    assert used


def counted_launches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    from burnx.runtime.devices.opencl.driver import OpenCL

    used: list[int] = []
    bind = OpenCL.bind

    def counted(self: Any, *rest: Any) -> Any:
        used.append(1)
        return bind(self, *rest)

    monkeypatch.setattr(OpenCL, "bind", counted)
    return used


# --- arrays that stay --------------------------------------------------------------------------------------------------
class Foreign:
    """An array of another library on the device; what dlpack is told of it, and the memory."""

    def __init__(self, array: DeviceArray, device: tuple[int, int] = (4, 0)) -> None:
        self.array, self.device = array, device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("this array is not to pass through the host")


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> Iterator[Foreign]:
    """An array of another library, which the driver takes for the time of a test; the host sees no array meanwhile."""
    from burnx.runtime.devices.opencl.driver import OpenCL

    def adopt(self: Any, value: Foreign) -> DeviceArray:
        array = value.array
        return DeviceArray(self, array.place, array.shape, array.dtype, borrowed=True)

    array = burnx.Device(DEVICE).put(X)
    monkeypatch.setattr(OpenCL, "adopt", adopt)
    moved: list[int] = []
    download = OpenCL.download

    def counted(self: Any, place: Any, target: Any) -> None:
        if target.nbytes > 4:
            moved.append(target.nbytes)
        download(self, place, target)

    monkeypatch.setattr(OpenCL, "download", counted)
    yield Foreign(array)
    assert moved == []


def test_arrays_of_others_enter_and_outputs_stay(loaded: LoadedModel, foreign: Foreign) -> None:
    found = loaded.to(DEVICE).run({"x": foreign})
    assert all(isinstance(each, DeviceArray) and not each.borrowed for each in found.values())
    assert found["same"].place != foreign.array.place
    assert (found["y"].shape, found["y"].dtype, found["y"].device) == ((2, 4), np.float32, DEVICE)


def test_tensors_of_what_lies_there_stay(foreign: Foreign) -> None:
    net = Doubled().to(DEVICE)
    for model in (net, burnx.compile(net)):
        result = model(foreign)
        further = (result + 1).reshape(3, 2)
        assert isinstance(result.held(), DeviceArray)
        assert isinstance(further.held(), DeviceArray)
        assert further.shape == (3, 2)
        assert further.__dlpack_device__() == (4, 0)


def test_values_of_what_stays(loaded: LoadedModel) -> None:
    x = burnx.Device(DEVICE).put(X)
    y, same = loaded.to(DEVICE)(x)
    assert np.allclose(y.numpy(), Y) and np.array_equal(np.asarray(same), X)
    assert np.array_equal((Doubled().to(DEVICE)(x) + 1).numpy(), X * 2 + 1)
    again = burnx.compile(lambda t: t.sum(), DEVICE)(Doubled().to(DEVICE)(x))
    assert float(again) == X.sum() * 2


def test_dtypes_and_shapes_of_what_lies_there_are_checked(loaded: LoadedModel) -> None:
    model, where = loaded.to(DEVICE), burnx.Device(DEVICE)
    with pytest.raises(InputError, match="float64"):
        model(where.put(X.astype(np.float64)))
    with pytest.raises(InputError, match="shape"):
        model(where.put(X.reshape(3, 2)))


def test_arrays_elsewhere_are_not_moved_unasked(loaded: LoadedModel, foreign: Foreign) -> None:
    with pytest.raises(InputError, match=r"lies on opencl:0, and the model runs on cpu"):
        loaded(foreign)
    with pytest.raises(InputError, match=r"lies on cuda:1, and the model runs on opencl:0"):
        loaded.to(DEVICE)(Foreign(foreign.array, (2, 1)))


def test_what_burnx_left_there_comes_back_by_itself(loaded: LoadedModel) -> None:
    y = loaded(burnx.Device(DEVICE).put(X))[0]
    assert isinstance(y, np.ndarray) and np.allclose(y, Y)


def test_nobody_takes_opencl_memory_through_dlpack() -> None:
    array = burnx.Device(DEVICE).put(X)
    with pytest.raises(DeviceError, match=r"numpy\(\) copies"):
        np.from_dlpack(array)
    assert not hasattr(array, "__cuda_array_interface__")


def test_what_python_makes_between_segments_lies_there_at_the_end() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[n] x) => (float[m] y) { z = Relu(x) y = Unique(z) }"""
    model = burnx.load(parser.parse_model(text), device=DEVICE)
    assert list(model.placement()) == ["Unique"]
    (y,) = [model(burnx.Device(DEVICE).put(np.array([0, 2, -1, 3], np.float32)))]
    assert isinstance(y, DeviceArray) and y.numpy().tolist() == [0, 2, 3]


# --- what a device cannot --------------------------------------------------------------------------------------------
def test_what_a_device_does_not_take_is_an_error_unless_another_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = opencl_driver()
    monkeypatch.setattr(type(driver), "build", _refuse)
    driver.functions.clear()
    model = parser.parse_model(TEXT)
    with pytest.raises(DeviceError, match="no words"):
        burnx.load(model, device=DEVICE)(X)
    other = burnx.load(model, device=DEVICE, fallback="cpu")
    assert np.allclose(other(X)[0], Y)
    y = other(burnx.Device(DEVICE).put(X))[0]
    assert isinstance(y, DeviceArray) and np.allclose(y.numpy(), Y)


def _refuse(*_: Any) -> Any:
    raise DeviceError("opencl:0 does not take a kernel: it has no words for it")


def opencl_driver() -> Any:
    from burnx.runtime.devices.opencl import find_driver

    return find_driver(DEVICE)


# --- verbs -----------------------------------------------------------------------------------------------------------
def test_inspect_lists_what_python_carries_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import onnx

    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[n] x) => (float[m] y) { z = Relu(x) y = Unique(z) }"""
    path = str(tmp_path / "model.onnx")
    onnx.save(parser.parse_model(text), path)
    assert main(["inspect", path, "--device", DEVICE]) == 0
    said = capsys.readouterr().out
    assert f"placement    all on {DEVICE} but what follows" in said
    assert "in Python    Unique: 1, node" in said


def test_a_name_of_no_device_is_told() -> None:
    for name in ("opencl:99", "opencl:x", "tpu"):
        with pytest.raises(BurnxError, match="there is no device"):
            burnx.Device(name)


def test_quotients_are_rounded_as_elsewhere_where_the_device_can() -> None:
    import pyopencl

    exact = pyopencl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
    able = types.SimpleNamespace(single_fp_config=exact | 1)
    unable = types.SimpleNamespace(single_fp_config=1)
    assert (EXACT in options_of(able), EXACT in options_of(unable)) == (True, False)
