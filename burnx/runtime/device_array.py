"""Arrays in a device's memory: burnx's own, and where those of other libraries lie."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from operator import index
from typing import Any

import numpy as np

from burnx.errors import ShapeError

Array = np.ndarray[Any, Any]

# the kinds of device that dlpack counts, as far as their memory is out of the processor's reach
DLPACK_KINDS = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 13: "cuda", 14: "sycl"}
DLPACK_CPU = (1, 0)


@dataclass(slots=True, eq=False)
class DeviceArray:
    """An array in a device's memory, its elements in C order.

    ``numpy()`` copies it; other libraries of the device take it through dlpack or ``__cuda_array_interface__`` without
    a copy.  ``borrowed``: the memory is another library's.
    """

    driver: Any
    place: Any
    shape: tuple[int, ...]
    dtype: Any
    borrowed: bool = False

    @property
    def device(self) -> str:
        return str(self.driver.name)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * int(np.dtype(self.dtype).itemsize)

    def numpy(self) -> Array:
        """A copy on the host."""
        array = np.empty(self.shape, self.dtype)
        if array.nbytes:
            with self.driver.lock:
                self.driver.download(self.place, array)
        return array

    def copy(self) -> DeviceArray:
        """The same elsewhere in the device's memory."""
        with self.driver.lock:
            target = (self.driver.allocate(max(self.nbytes, 1)), 0)
            self.driver.copy(target, self.place, self.nbytes)
        return replace(self, place=target, borrowed=False)

    def __deepcopy__(self, memo: Any) -> DeviceArray:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle holds a copy on the host and the device's name, where it goes again."""
        return _put_by_name, (self.device, self.numpy())

    def reshape(self, *shape: Any) -> DeviceArray:
        """The same memory under another shape of as many elements, one of which may be -1.

        Raises: ShapeError if there are not as many.
        """
        given = shape[0] if len(shape) == 1 and np.ndim(shape[0]) else shape
        sizes = [index(each) for each in given]
        known = math.prod(size for size in sizes if size != -1)
        if sizes.count(-1) == 1 and known:
            sizes[sizes.index(-1)] = self.size // known
        if min(sizes, default=0) < 0 or math.prod(sizes) != self.size:
            raise ShapeError(f"{self!r} has not as many elements as {tuple(sizes)}")
        return replace(self, shape=tuple(sizes))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array of no axes has no length")
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError(f"an array on {self.device} reaches NumPy as a copy")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The array's memory as it is; a copy on the host for who asks for the processor's.

        Raises: DeviceError if nobody takes memory of this kind of device.
        """
        if dl_device is not None and tuple(dl_device) == DLPACK_CPU:
            return self.numpy().__dlpack__(max_version=max_version)
        return self.driver.capsule(self.copy() if copy else self, stream, max_version)

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, _, number = self.device.partition(":")
        return (2 if kind == "cuda" else 4), int(number or 0)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        interface = getattr(self.driver, "interface", None)
        if interface is None:
            raise AttributeError(f"an array on {self.device} is none of CUDA's")
        found: dict[str, Any] = interface(self)
        return found

    def _refuse(self, *operands: Any) -> Any:
        raise TypeError(
            f"an array on {self.device} computes nothing by itself: give it to a model or to burnx.ops, "
            "or take .numpy(), a copy on the host"
        )

    def __eq__(self, other: object) -> Any:
        numbers = hasattr(other, "shape") or isinstance(other, (bool, int, float, complex))
        return self._refuse() if self is not other and numbers else self is other

    __hash__ = object.__hash__
    __add__ = __sub__ = __mul__ = __truediv__ = __matmul__ = __pow__ = __neg__ = _refuse
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rmatmul__ = __rpow__ = _refuse
    __floordiv__ = __mod__ = __and__ = __or__ = __xor__ = __invert__ = __abs__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __getitem__ = __bool__ = _refuse

    def __repr__(self) -> str:
        return f"DeviceArray({np.dtype(self.dtype).name} {self.shape} on {self.device})"


def put(driver: Any, array: Array) -> DeviceArray:
    """A copy of an array in a device's memory."""
    with driver.lock:
        place = (driver.allocate(max(array.nbytes, 1)), 0)
        if array.nbytes:
            driver.upload(place, np.require(array, requirements=["C"]))
    return DeviceArray(driver, place, array.shape, array.dtype)


def _put_by_name(name: str, array: Array) -> DeviceArray:
    from burnx.runtime.devices.gpu import find_driver

    return put(find_driver(name), array)


def is_array(value: Any) -> bool:
    """Whether a value is an array, wherever it lies."""
    return isinstance(value, (np.ndarray, DeviceArray))


def find_place(value: Any) -> str | None:
    """The device that a value lies on, as ``cuda:0``; None where it is within the processor's reach."""
    if isinstance(value, DeviceArray):
        return value.device
    if isinstance(value, np.ndarray):
        return None
    ask = getattr(value, "__dlpack_device__", None)
    if ask is not None and not isinstance(value, type):
        kind, number = ask()
        return f"{DLPACK_KINDS[kind]}:{number}" if int(kind) in DLPACK_KINDS else None
    return "cuda" if hasattr(type(value), "__cuda_array_interface__") else None
