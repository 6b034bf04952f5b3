"""Kernels compiled and run on threads that share their work."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from burnx.dtype import DType
from burnx.kernels.ir import Kernel
from burnx.llvm.contractions.chunks import COUNTER_BYTES
from burnx.llvm.emitter import emit
from burnx.runtime.devices.cpu.compile import Loaded, compile_object, load_object
from burnx.runtime.devices.cpu.target import find_target

Array = np.ndarray[Any, Any]
SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
LOADED: list[Loaded] = []  # code must stay in memory


def build(kernel: Kernel) -> Any:
    """The kernel as a function of addresses."""
    target = find_target()
    loaded = load_object(compile_object(emit(kernel, target), target), target)
    LOADED.append(loaded)
    return SIGNATURE(loaded.address)


def aligned(array: Array) -> Array:
    """A copy that begins at a multiple of 64 bytes."""
    space = np.zeros(array.nbytes + 64, np.uint8)
    start = -space.ctypes.data % 64
    copy = space[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def run(function: Any, arrays: Sequence[Array], sizes: Sequence[int], workers: int = 1) -> None:
    """Call a kernel on so many threads."""
    addresses = [array.ctypes.data for array in arrays]
    arguments = (ctypes.c_int64 * (len(arrays) + len(sizes)))(*addresses, *sizes)
    state = aligned(np.zeros(64, np.int64))
    threads = [
        threading.Thread(
            target=function,
            args=(ctypes.addressof(arguments), worker, workers, state.ctypes.data),
        )
        for worker in range(workers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def run_one(
    function: Any, arrays: Sequence[Array], sizes: Sequence[int], worker: int, workers: int
) -> None:
    """Call a kernel as one of several workers, when all chunks that anybody may take are taken."""
    addresses = [array.ctypes.data for array in arrays]
    arguments = (ctypes.c_int64 * (len(arrays) + len(sizes)))(*addresses, *sizes)
    state = aligned(np.zeros(64, np.int64))
    state[COUNTER_BYTES // 8] = 1 << 40
    function(ctypes.addressof(arguments), worker, workers, state.ctypes.data)


def random(seed: int, shape: tuple[int, ...], dtype: DType) -> Array:
    generator = np.random.default_rng(seed)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return generator.integers(info.min, info.max, shape, dtype, endpoint=True)
    return generator.standard_normal(shape).astype(dtype)
