"""Kernels written by hand, compiled and run on arrays."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from burnx.dtype import DType, float32
from burnx.kernels.ir import Apply, Buffer, Constant, Kernel, Load, Loop, Store, Value
from burnx.llvm.emitter import emit
from burnx.llvm.target import Target
from burnx.runtime.devices.cpu.compile import Loaded, compile_object, load_object
from burnx.runtime.devices.cpu.target import find_target
from burnx.shape import Dim, symbol

Array = np.ndarray[Any, Any]
_SIGNATURE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
)


class Compiled:
    """A kernel that can be run."""

    def __init__(self, kernel: Kernel, target: Target | None = None) -> None:
        target = target or find_target()
        self.kernel = kernel
        self.text = emit(kernel, target)
        self.loaded: Loaded = load_object(compile_object(self.text, target), target)

    def run(self, *arrays: Array, workers: int = 1, **sizes: int) -> int:
        """Run all workers one after the other; the error code."""
        assert len(arrays) == len(self.kernel.buffers)
        numbers = [sizes[name] for name in self.kernel.sizes]
        arguments = np.array([x.ctypes.data for x in arrays] + numbers, np.int64)
        state = np.zeros(64, np.int64)
        function = _SIGNATURE(self.loaded.address)
        for worker in range(workers):
            function(arguments.ctypes.data, worker, workers, state.ctypes.data)
        return int(state[0])


def apply(function: str, *arguments: Value, dtype: DType = float32) -> Apply:
    return Apply(function, arguments, dtype)


def number(value: float, dtype: DType = float32) -> Constant:
    return Constant(value, dtype)


def elementwise(make: Any, sources: list[DType], result: DType, parallel: bool = False) -> Kernel:
    """out[i] = make(a[i], b[i], …) for i < n."""
    buffers = [Buffer(f"in{place}", dtype) for place, dtype in enumerate(sources)]
    out, i = Buffer("out", result), symbol("i")
    value = make(*(Load(buffer, i) for buffer in buffers))
    loop = Loop("i", symbol("n"), (Store(out, i, value),), parallel=parallel, lanes=True)
    return Kernel((*buffers, out), ("n",), (loop,))


def size(name: str) -> Dim:
    return symbol(name)


def misaligned(values: Array) -> Array:
    """The same numbers at an address that is aligned to their element only."""
    room = np.empty(values.size + 1, values.dtype)
    result = room[1:].reshape(values.shape)
    result[...] = values
    return result


def ulps(found: Array, exact: Array) -> Array:
    """The distance in units in the last place of float32; 0 where both are NaN or equal."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        unit = np.spacing(np.minimum(np.abs(rounded), np.finfo(np.float32).max)).astype(np.float64)
        distance = np.abs(found.astype(np.float64) - exact) / unit
    same = (found == rounded) | (np.isnan(found) & np.isnan(exact))
    return np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance))
