"""Threads with enough stack for kernels: those of the pool, and one that runs a call where the caller's has too little.

Kernels keep on the stack what they copy and cut.  Python threads have what ``threading.stack_size`` and the limits of
the process say, which can be less; a kernel that met the end of a stack would end the process.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from functools import lru_cache

from burnx.errors import DeviceError
from burnx.runtime.devices.cpu.target import find_target

STACK_BYTES = 4 << 20  # of threads that are started here
_SQUARES_BYTES = 1792 << 10  # that a kernel takes at most, where float32 is cut for the matrix unit
_OTHERS_BYTES = 576 << 10  # and elsewhere
_CALLERS_BYTES = 128 << 10  # what Python itself stands on
_ATTRIBUTES_BYTES = 256  # more than any C library's pthread_attr_t has

_here = threading.local()
_starting = threading.Lock()


def has_stack() -> bool:
    """Whether this thread has enough; asked once a thread."""
    try:
        return bool(_here.has_stack)
    except AttributeError:
        _here.has_stack = found = _find_stack() >= least_stack()
        return found


def least_stack() -> int:
    """The bytes that a thread has to have to run kernels of this process's target."""
    most = _SQUARES_BYTES if find_target().bfloat16 == "amx" else _OTHERS_BYTES
    return most + _CALLERS_BYTES


def start_with_stack(thread: threading.Thread) -> None:
    """Start a thread that has enough.

    Raises: RuntimeError if this process may not have more threads.
    """
    with _starting:
        before = threading.stack_size(STACK_BYTES)
        try:
            thread.start()
        finally:
            threading.stack_size(before)


def run_with_stack(work: Callable[[threading.Event], bool]) -> bool:
    """What ``work`` gives on a thread that has enough; it is told by the event if the caller is interrupted meanwhile.

    Raises: DeviceError if there cannot be such a thread.
    """
    stopped, found = threading.Event(), []
    thread = threading.Thread(target=lambda: found.append(work(stopped)), name="burnx-call")
    try:
        start_with_stack(thread)
        thread.join()
    except RuntimeError as error:
        raise DeviceError(
            f"kernels run on threads with {least_stack() >> 10} KB of stack: this one has "
            f"{_find_stack() >> 10} KB, and another could not be started ({error})"
        ) from error
    except BaseException:  # Ctrl-C: what the other thread writes to must not go away under it
        stopped.set()
        if thread.ident is not None:
            thread.join()
        raise
    return bool(found and found[0])


def _find_stack() -> int:
    """The bytes of this thread's stack; of systems that do not say, more than any thread needs."""
    library = _pthreads()
    if library is None:
        return sys.maxsize
    attributes = (ctypes.c_byte * _ATTRIBUTES_BYTES)()
    lowest, size = ctypes.c_void_p(), ctypes.c_size_t()
    if library.pthread_getattr_np(ctypes.c_void_p(library.pthread_self()), attributes) != 0:
        return sys.maxsize
    library.pthread_attr_getstack(attributes, ctypes.byref(lowest), ctypes.byref(size))
    library.pthread_attr_destroy(attributes)
    return size.value


@lru_cache(maxsize=1)
def _pthreads() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    if not hasattr(library, "pthread_getattr_np"):
        return None
    library.pthread_self.restype = ctypes.c_void_p
    return library
