"""Emitted kernels built and run through pyopencl, and compiled as CUDA C++ by NVRTC, without burnx's own runtime."""

from __future__ import annotations

import ctypes
import glob
import os
import sysconfig
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from burnx.gpu.code import Code, Form, Limits
from burnx.gpu.dialects import CUDA, OPENCL
from burnx.gpu.emitter import candidates, prelude, write
from burnx.kernels.ir import Kernel

os.environ.setdefault("PYOPENCL_NO_CACHE", "1")
cl = pytest.importorskip("pyopencl", reason="pyopencl is not installed")

Array = np.ndarray[Any, Any]
LIMITS = Limits(threads=256, local_bytes=32768, warp=1, units=2)
WORKERS = 3  # groups of kernels with scratch memory


@lru_cache(maxsize=1)
def queue() -> Any:
    """A queue of the first device that there is."""
    devices = [device for each in cl.get_platforms() for device in each.get_devices()]
    if not devices:
        pytest.skip("there is no OpenCL device")
    return cl.CommandQueue(cl.Context(devices[:1]))


class Built:
    """Kernels in the forms that were chosen for them, as one program."""

    def __init__(self, pairs: Sequence[tuple[Kernel, Form]], check_cuda: bool = True) -> None:
        self.codes = [write(kernel, OPENCL, form) for kernel, form in pairs]
        needs = frozenset().union(*(code.needs for code in self.codes))
        texts = dict.fromkeys(code.text for code in self.codes)
        self.text = "\n".join([prelude(OPENCL, needs), *texts])
        self.program = cl.Program(queue().context, self.text).build(options=list(OPENCL.options))
        if check_cuda:
            compile_cuda([write(kernel, CUDA, form) for kernel, form in pairs])

    def run(self, place: int, arrays: Sequence[Array], sizes: dict[str, int]) -> int:
        """Run a kernel on arrays, which it changes; returns the error flag."""
        memory = [_upload(array) for array in arrays]
        error = run_code(self.program, self.codes[place], memory, sizes)
        for buffer, array in zip(memory, arrays, strict=True):
            if array.size:
                cl.enqueue_copy(queue(), _bytes(array), buffer)
        return error


def _bytes(array: Array) -> Array:
    assert array.flags.c_contiguous
    return array.reshape(-1).view(np.uint8)


def _upload(array: Array) -> Any:
    buffer = cl.Buffer(queue().context, cl.mem_flags.READ_WRITE, max(array.nbytes, 64))
    if array.size:
        cl.enqueue_copy(queue(), buffer, _bytes(array))
    return buffer


def run_code(program: Any, code: Code, memory: Sequence[Any], sizes: dict[str, int]) -> int:
    """Launch a function on buffers; returns the error flag."""
    error = _upload(np.zeros(1, np.int32))
    integer = np.int64 if code.form.wide else np.int32
    arguments: list[Any] = []
    for buffer in memory:
        arguments += [buffer, np.uint64(0)]
    fixed = dict(code.form.fixed)
    assert code.kernel is not None
    arguments += [integer(sizes[name]) for name in code.kernel.sizes if name not in fixed]
    groups = code.groups(sizes, WORKERS)
    if all(groups):
        function = cl.Kernel(program, code.name)
        shape = (groups[0] * code.form.group, groups[1], groups[2])
        function(queue(), shape, (code.form.group, 1, 1), *arguments, error, np.uint64(0))
    found = np.zeros(1, np.int32)
    cl.enqueue_copy(queue(), found, error)
    return int(found[0])


def all_forms(kernel: Kernel, sizes: dict[str, int], limits: Limits = LIMITS) -> list[Form]:
    return candidates(kernel, limits, sizes)


# --- CUDA -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _nvrtc() -> Any:
    folder = sysconfig.get_paths()["purelib"]
    found = glob.glob(os.path.join(folder, "nvidia", "*", "lib", "libnvrtc.so*"))
    if not found:
        return None
    return ctypes.CDLL(found[0])


def compile_cuda(codes: Sequence[Code]) -> None:
    """Compile functions for sm_90a; raises AssertionError with the compiler's words."""
    needs = frozenset().union(*(code.needs for code in codes))
    compile_text("\n".join([prelude(CUDA, needs), *dict.fromkeys(code.text for code in codes)]))


def compile_text(text: str) -> None:
    """As ``compile_cuda``, of a whole text; nothing where there is no NVRTC."""
    library = _nvrtc()
    if library is None:
        return
    program = ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"k.cu", 0, None, None)
    words = [b"--gpu-architecture=compute_90a", *(each.encode() for each in CUDA.options)]
    options = (ctypes.c_char_p * len(words))(*words)
    status = library.nvrtcCompileProgram(program, len(words), options)
    size = ctypes.c_size_t()
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    assert status == 0, f"{log.value.decode()}\n{text}"
