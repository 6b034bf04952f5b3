"""What is held of a device's memory: reported, given back, and as large as calls of late have needed."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import burnx
from burnx import nn, ops
from burnx.errors import DeviceError
from burnx.runtime.devices.gpu import pages
from burnx.runtime.devices.gpu.pages import REMEMBERED, Pages

DEVICE = "opencl:0"
pytest.importorskip("pyopencl")


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from burnx.runtime.devices.opencl import find_driver

    found = find_driver(DEVICE)
    gc.collect()
    found.pages = Pages()
    monkeypatch.setattr(pages, "SMALL_BYTES", 1 << 16)
    yield found
    found.pages = Pages()


class Layer(nn.Module):
    def __init__(self) -> None:
        self.linear = nn.Linear(64, 128, bias=False)

    def forward(self, x: Any) -> Any:
        return ops.softmax(ops.exp(self.linear(x)), axis=-1)


def test_weights_and_arena_are_reported_and_weights_go_with_the_model(driver: Any) -> None:
    before = burnx.memory_report(DEVICE)
    model = burnx.compile(Layer(), DEVICE)
    model(np.ones((4, 64), np.float32))
    report = burnx.memory_report(DEVICE)
    assert report.device == DEVICE and report.device_bytes > 1 << 20
    assert report.weights_bytes - before.weights_bytes >= 64 * 128 * 4
    assert report.arena_bytes > 0
    assert report.used_bytes >= report.arena_bytes + report.weights_bytes - before.weights_bytes
    assert report.reserved_bytes >= report.used_bytes
    del model
    gc.collect()
    assert burnx.memory_report(DEVICE).weights_bytes <= before.weights_bytes


def test_an_arena_that_calls_no_longer_need_is_given_back(driver: Any) -> None:
    model = burnx.compile(lambda x: ops.softmax(ops.exp(x), axis=-1), DEVICE)
    plain = burnx.compile(lambda x: ops.softmax(ops.exp(x), axis=-1), "reference")
    large, small = np.ones((2000, 500), np.float32), np.ones((3, 500), np.float32)
    model(large)
    most = burnx.memory_report(DEVICE)
    for _ in range(3 * REMEMBERED):
        found = model(small).numpy()
    np.testing.assert_allclose(found, plain(small).numpy(), rtol=1e-5)
    least = burnx.memory_report(DEVICE)
    assert least.arena_bytes < most.arena_bytes // 2
    assert least.reserved_bytes < most.reserved_bytes - large.nbytes
    np.testing.assert_allclose(model(large).numpy(), plain(large).numpy(), rtol=1e-5)


def test_an_arena_that_grows_leaves_no_other_behind(driver: Any) -> None:
    one = burnx.compile(lambda x: ops.softmax(x, axis=-1) + x, DEVICE)
    two = burnx.compile(lambda x: ops.softmax(x * 2, axis=-1) + x, DEVICE)
    for rows in (300, 400, 500, 600):
        for model in (one, two):
            model(np.ones((rows, 700), np.float32))
    driver.release()
    report = burnx.memory_report(DEVICE)
    assert report.reserved_bytes <= report.arena_bytes + report.weights_bytes + (4 << 20)


def test_other_devices_report_too() -> None:
    model = burnx.compile(lambda x: ops.softmax(ops.exp(x), axis=-1) + x, "cpu")
    model(np.ones((50, 5000), np.float32))
    assert burnx.memory_report("cpu").used_bytes > 0
    report = burnx.memory_report("reference")
    assert report.used_bytes == report.reserved_bytes == 0
    with pytest.raises(DeviceError):
        burnx.memory_report("opencl:77")
