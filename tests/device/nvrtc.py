"""NVIDIA's run-time compiler from PyPI (nvidia-cuda-nvrtc), which needs no GPU: does CUDA C++ compile?"""

from __future__ import annotations

import ctypes
import sysconfig
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

MISSING = "NVRTC is not installed: pip install nvidia-cuda-nvrtc"
ARCHITECTURE = "--gpu-architecture=sm_90a"


@cache
def find_nvrtc() -> Any:
    """The library; None where it is not installed."""
    for folder in {sysconfig.get_paths()[name] for name in ("purelib", "platlib")}:
        for path in sorted(Path(folder).glob("nvidia/*/lib/libnvrtc.so*")):
            return ctypes.CDLL(str(path))
    return None


def fault_of(text: str, options: Sequence[str] = ()) -> str:
    """What the compiler says against a text; nothing if it takes it."""
    library, program = find_nvrtc(), ctypes.c_void_p()
    assert library is not None, MISSING
    made = library.nvrtcCreateProgram(
        ctypes.byref(program), text.encode(), b"kernels.cu", 0, None, None
    )
    assert made == 0, f"nvrtcCreateProgram gives {made}"
    words = [word.encode() for word in (ARCHITECTURE, *options)]
    given = (ctypes.c_char_p * len(words))(*words)
    status = library.nvrtcCompileProgram(program, len(words), given)
    log = _log_of(library, program) if status else ""
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return log or (f"nvrtcCompileProgram gives {status}" if status else "")


def _log_of(library: Any, program: Any) -> str:
    size = ctypes.c_size_t()
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    return log.value.decode(errors="replace")


def assembly_of(text: str, options: Sequence[str] = ()) -> str:
    """The PTX that a text becomes."""
    library, program = find_nvrtc(), ctypes.c_void_p()
    assert library is not None, MISSING
    library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernels.cu", 0, None, None)
    words = [word.encode() for word in (ARCHITECTURE.replace("sm", "compute"), *options)]
    given = (ctypes.c_char_p * len(words))(*words)
    status = library.nvrtcCompileProgram(program, len(words), given)
    assert status == 0, _log_of(library, program)
    size = ctypes.c_size_t()
    library.nvrtcGetPTXSize(program, ctypes.byref(size))
    found = ctypes.create_string_buffer(size.value)
    library.nvrtcGetPTX(program, found)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return found.value.decode()
