"""What a device does at its best: a copy of memory, and threads that do nothing but multiply and add."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from burnx.dtype import float32
from burnx.gpu.code import Code, Form
from burnx.gpu.emitter import choose, write
from burnx.kernels.ir import (
    Apply,
    Buffer,
    Carry,
    Constant,
    Kernel,
    Let,
    Load,
    Local,
    Loop,
    Store,
    Value,
)
from burnx.runtime.devices.gpu.driver import Driver, Launch, Memory
from burnx.runtime.devices.gpu.results import results_of
from burnx.runtime.tuning.roofline import Roofline, find_roofline
from burnx.shape import symbol

COPY_BYTES = 256 << 20  # beyond every cache
CHAINS = 8  # multiply-adds of a thread that do not wait for each other
TURNS = 1024
THREADS_OF_A_UNIT = 8192
RUNS = 5


def device_roofline(driver: Driver) -> Roofline:
    """The device's roofline, measured the first time that anybody asks."""
    with driver.lock:
        return find_roofline(results_of(driver), lambda: _measure(driver))


def _measure(driver: Driver) -> Roofline:
    found = Roofline(_measure_copy(driver), _measure_work(driver), _measure_matrices(driver))
    driver.release()
    return found


def _measure_copy(driver: Driver) -> float:
    count = min(COPY_BYTES, max(driver.memory_bytes // 16, 1 << 20)) // 4
    one, two = Buffer("b0", float32), Buffer("b1", float32)
    index, extent = symbol("i"), symbol("n")
    body = Loop("i", extent, (Store(two, index, Load(one, index)),), parallel=True)
    kernel = Kernel((one, two), ("n",), (body,))
    memory = [driver.allocate(count * 4) for _ in range(2)]
    for each in memory:
        driver.fill((each, 0), count * 4, 0)
    return 2 * count * 4 / _best_s(driver, _ready(driver, kernel, {"n": count}, memory))


def _measure_work(driver: Driver) -> float:
    """Chains of x = x * a + b; a and b come from memory, so nobody works them out beforehand."""
    count = driver.limits.units * THREADS_OF_A_UNIT
    given, made = Buffer("b0", float32), Buffer("b1", float32)
    factor, term = Load(given, 0), Load(given, 1)
    index = symbol("i")
    carried = []
    for chain in range(CHAINS):
        name = f"x{chain}"
        product = Apply("mul", (Local(name, float32), Local("a", float32)), float32)
        after = Apply("add", (product, Local("b", float32)), float32)
        carried.append((name, Constant(float(chain), float32), after))
    total: Value = Local("x0", float32)
    for chain in range(1, CHAINS):
        total = Apply("add", (total, Local(f"x{chain}", float32)), float32)
    inner = (
        Let("a", factor),
        Let("b", term),
        Carry(tuple(carried), "k", TURNS, ()),
        Store(made, index, total),
    )
    kernel = Kernel((given, made), ("n",), (Loop("i", symbol("n"), inner, parallel=True),))
    memory = [driver.allocate(64), driver.allocate(count * 4)]
    driver.upload((memory[0], 0), np.array([0.999, 0.001], np.float32))
    launch = _ready(driver, kernel, {"n": count}, memory)
    return 2.0 * CHAINS * TURNS * count / _best_s(driver, launch)


def _measure_matrices(driver: Driver) -> Mapping[str, float]:
    """Operations a second of the matrix units, where the driver can say."""
    measure: Callable[[], Mapping[str, float]] | None = getattr(driver, "measure_matrices", None)
    return {} if measure is None else measure()


def _ready(
    driver: Driver, kernel: Kernel, sizes: Mapping[str, int], memory: list[Memory]
) -> Launch:
    form: Form = choose(kernel, driver.limits, sizes)
    code: Code = write(kernel, driver.dialect, form)
    (function,) = driver.build([code])
    fixed = dict(form.fixed)
    passed = [size for name, size in sizes.items() if name not in fixed]
    error: Any = driver.allocate(64)
    places = [*((each, 0) for each in memory), (error, 0)]
    return driver.bind(function, code, code.groups(sizes, driver.workers), places, passed)


def _best_s(driver: Driver, launch: Launch) -> float:
    launch()
    return max(min(driver.timed(launch) for _ in range(RUNS)), 1) / 1e9
