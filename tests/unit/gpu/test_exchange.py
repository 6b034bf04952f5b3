"""Devices by name, packages that are missing, and arrays that pass between libraries."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import burnx
from burnx import ops
from burnx.errors import DeviceError, InputError, ShapeError
from burnx.runtime.device import enter, find_device
from burnx.runtime.device_array import DeviceArray, find_place

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("name", "package", "says"),
    [("cuda", "cupy", "cupy-cuda13x"), ("opencl:0", "pyopencl", "pip install pyopencl")],
)
def test_a_missing_package_is_told(
    monkeypatch: pytest.MonkeyPatch, name: str, package: str, says: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(DeviceError) as caught:
        burnx.Device(name)
    assert package in str(caught.value).lower() and says in str(caught.value)
    assert [each.name for each in burnx.devices()][:2] == ["reference", "cpu"]


def test_listing_devices_loads_no_compiler() -> None:
    code = (
        "import sys, burnx; burnx.devices();"
        "print([m for m in ('llvmlite', 'burnx.gpu', 'burnx.fusion', 'onnx') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] in ("[]", "['burnx.fusion']")


def test_a_device_is_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = burnx.Device("cpu")
    assert cpu == find_device(cpu) == burnx.Device("cpu") != burnx.Device("reference")
    assert (str(cpu), pickle.loads(pickle.dumps(cpu))) == ("cpu", cpu)
    assert cpu.memory_bytes > 0 and cpu.units > 0 and cpu.driver
    monkeypatch.setenv("BURNX_DEVICE", "reference")
    assert burnx.Device().name == "reference"


def test_numpy_takes_tensors_without_a_copy() -> None:
    result = ops.add(X, X)
    array = np.from_dlpack(result)
    assert np.shares_memory(array, result.numpy())
    assert result.__dlpack_device__() == (1, 0)
    assert not hasattr(result, "__cuda_array_interface__")


def test_outputs_never_share_memory_with_inputs() -> None:
    same = burnx.compile(lambda t: t.reshape(3, 2), "cpu")(X)
    assert not np.shares_memory(np.from_dlpack(same), X)


def test_an_array_on_a_device_is_pickled_and_copied_to_the_same_device() -> None:
    pytest.importorskip("pyopencl")
    there = burnx.Device("opencl:0").put(X)
    for made in (pickle.loads(pickle.dumps(there)), copy.deepcopy(there)):
        assert made.device == "opencl:0" and made.place != there.place
        np.testing.assert_array_equal(made.numpy(), X)


def test_an_array_on_a_device_says_what_it_does_not_do() -> None:
    pytest.importorskip("pyopencl")
    there = burnx.Device("opencl:0").put(X)
    assert len(there) == 2 and there.reshape(3, -1).shape == there.reshape((3, 2)).shape == (3, 2)
    assert there == there and there != "three" and there in [there]
    assert there.reshape(np.array([3, 2])).shape == (3, 2)
    for wrong in (
        lambda: there == burnx.Device("opencl:0").put(X),
        lambda: there == 3,
        lambda: there + 1,
        lambda: there % 2,
        lambda: 2 * there,
        lambda: there[0],
        lambda: bool(there),
        lambda: there < there,
    ):
        with pytest.raises(TypeError, match=r"burnx\.ops, or take \.numpy\(\)"):
            wrong()
    with pytest.raises(ValueError, match="as a copy"):
        np.asarray(there, copy=False)
    for shape in ((4, 2), (-1, 4), (-2, -3)):
        with pytest.raises(ShapeError, match="has not as many elements"):
            there.reshape(shape)


class Shared:
    """An array of another library on the host, which only dlpack knows."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **named: Any) -> Any:
        return self.array.__dlpack__(**named)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def test_dlpack_alone_is_enough_on_the_host() -> None:
    pytest.importorskip("pyopencl")
    model = burnx.compile(lambda t: t * 2, "cpu")
    np.testing.assert_array_equal(model(Shared(X)).numpy(), X * 2)
    np.testing.assert_array_equal(burnx.Device("opencl:0").put(Shared(X)).numpy(), X)


def test_no_array_is_moved_between_devices_unasked() -> None:
    pytest.importorskip("pyopencl")
    with pytest.raises(DeviceError, match="an array on cuda:0 is not put on opencl:0 by itself"):
        burnx.Device("opencl:0").put(Elsewhere(2, 0))


def test_a_device_that_the_environment_names_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURNX_DEVICE", "gpu")
    with pytest.raises(DeviceError, match="BURNX_DEVICE: there is no device 'gpu'"):
        burnx.Device()


class Elsewhere:
    """An array of another library on a device."""

    def __init__(self, kind: int, number: int) -> None:
        self.place = (kind, number)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.place


def test_where_arrays_lie() -> None:
    assert find_place(X) is None and find_place(3.0) is None and find_place([X]) is None
    assert find_place(Elsewhere(1, 0)) is None and find_place(Elsewhere(3, 0)) is None
    assert find_place(Elsewhere(2, 1)) == "cuda:1"
    assert find_place(Elsewhere(10, 0)) == "rocm:0"
    with pytest.raises(InputError, match="lies on cuda:1, and the model runs on cpu"):
        enter("x", Elsewhere(2, 1), find_device("cpu"))


def test_a_capsule_is_asked_of_the_driver_and_the_host_gets_a_copy() -> None:
    asked: list[Any] = []
    driver = SimpleNamespace(
        name="cuda:1",
        lock=pytest.MonkeyPatch.context(),
        download=lambda place, array: np.copyto(array, X),
        capsule=lambda array, stream, version: asked.append((array, stream, version)) or "capsule",
        interface=lambda array: {"data": (4096, False), "shape": array.shape},
    )
    array = DeviceArray(driver, (None, 0), (2, 3), np.dtype(np.float32))
    assert array.__dlpack_device__() == (2, 1)
    assert array.__dlpack__(stream=7, max_version=(1, 0)) == "capsule"
    assert asked == [(array, 7, (1, 0))]
    assert array.__cuda_array_interface__["data"][0] == 4096
    assert np.array_equal(np.from_dlpack(array, device="cpu"), X)
