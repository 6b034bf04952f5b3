"""Arrays that other libraries keep on a CUDA device, and burnx's arrays for them: through CuPy, without a copy.

burnx works in a stream of its own.  What comes in is waited for there; what goes out is waited for by the stream that a
caller of ``__dlpack__`` names, and on the host for who asks for ``__cuda_array_interface__``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from burnx.errors import DeviceError
from burnx.runtime.device_array import DeviceArray


def adopt(driver: Any, value: Any) -> DeviceArray:
    """An array of CuPy, PyTorch or another library as one of burnx's; copied on the device if it is not in C order."""
    import cupy

    if isinstance(value, cupy.ndarray):
        arrived = cupy.cuda.Event(disable_timing=True)
        arrived.record(cupy.cuda.get_current_stream())
        driver.stream.wait_event(arrived)
        found = value
    with driver.stream:
        if not isinstance(value, cupy.ndarray):
            found = cupy.from_dlpack(value) if hasattr(value, "__dlpack__") else cupy.asarray(value)
        found = cupy.ascontiguousarray(found).reshape(found.shape)
    return DeviceArray(driver, (found.data, 0), found.shape, np.dtype(found.dtype), borrowed=True)


def capsule(array: DeviceArray, stream: Any, max_version: Any) -> Any:
    """The capsule of an array; it holds the memory, and ``stream`` waits for what fills it."""
    options = (
        {"stream": stream}
        if max_version is None
        else {"stream": stream, "max_version": max_version}
    )
    with array.driver.stream:
        return _as_cupy(array).__dlpack__(**options)


def interface(array: DeviceArray) -> dict[str, Any]:
    """The interface of an array whose memory is filled; who keeps the address keeps the array."""
    array.driver.finish()
    found: dict[str, Any] = dict(_as_cupy(array).__cuda_array_interface__)
    return found | {"stream": None}


def _as_cupy(array: DeviceArray) -> Any:
    """A view of an array.

    Raises: DeviceError for a dtype that CuPy does not have.
    """
    import cupy

    memory, offset = array.place
    try:
        return cupy.ndarray(array.shape, array.dtype, memptr=memory + offset)
    except (TypeError, ValueError) as error:
        raise DeviceError(f"CuPy has no {np.dtype(array.dtype).name}: {error}") from error
