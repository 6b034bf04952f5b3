"""Parameter: a weight of a module, usable as a tensor."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from burnx.capture.lazy import default_recorder
from burnx.dtype import DType, dtype_name, is_float, parse_dtype, string
from burnx.errors import WeightsError
from burnx.tensor import AMBIENT, Array, Recorder, Tensor, caller


class Parameter(Tensor):
    """A weight: its shape and dtype, and its data once that is loaded or asked for.

    ``init`` says what it holds until then: ``uniform`` (within 1 / sqrt(fan-in)), ``zeros`` or ``ones``.  ``original``
    is the name it has in the file it comes from.  Its data is a read-only array, so that nothing compiled of it goes
    stale unseen: what is to change gets a new array.
    """

    __slots__ = ("_data", "_value", "init", "kind", "original")

    def __init__(self, *shape: int, dtype: str = "float32", init: str = "uniform") -> None:
        self.kind: tuple[tuple[int, ...], DType] = (shape, parse_dtype(dtype))
        self.init, self.original = init, ""
        self._data: Array | None = None
        self._value: Any = None

    @classmethod
    def of(cls, array: Array, original: str = "") -> Parameter:
        """A parameter that holds an array, and its shape and dtype."""
        made = cls(*array.shape, dtype=dtype_name(array.dtype))
        made.data, made.original = array, original
        return made

    @property
    def recorder(self) -> Recorder:  # type: ignore[override]
        return AMBIENT.get() or default_recorder()

    @property
    def ref(self) -> Any:  # type: ignore[override]
        recorder = self.recorder
        if recorder.depth >= 0:
            return recorder.parameter(self)  # type: ignore[attr-defined]
        if self._value is None or self._value.array is not self.data:
            self._value = default_recorder().constant(self.data).ref
        return self._value

    @property
    def data(self) -> Array:
        """The values, read-only, made afresh if none were loaded; a writable array that is given is copied."""
        if self._data is None:
            self._data = _read_only(_fresh(self.kind[0], self.kind[1], self.init))
        return self._data

    @data.setter
    def data(self, array: Array) -> None:
        shape, dtype = self.kind
        if array.shape != shape or array.dtype != dtype:
            raise WeightsError(
                f"a parameter keeps its shape and dtype: {shape} {dtype}, not {array.shape} {array.dtype}"
            )
        self._data = _read_only(array.copy()) if array.flags.writeable else array

    def __setitem__(self, index: Any, value: Any) -> None:
        raise WeightsError(
            f"{caller()}: a parameter is never written in place; give it a new array: "
            "array = parameter.data.copy(); array[...] = ...; parameter.data = array"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        (shape, dtype), rest = self.kind, (self.original, self._data)
        return _parameter, (shape, dtype_name(dtype), self.init, *rest)

    def __repr__(self) -> str:
        return f"Parameter({', '.join(map(str, self.kind[0]))}, dtype={self.kind[1].name!r})"


def _parameter(
    shape: tuple[int, ...], dtype: str, init: str, original: str, data: Array | None
) -> Parameter:
    """A parameter as it was pickled or copied."""
    made = Parameter(*shape, dtype=dtype, init=init)
    made.original = original
    if data is not None:
        made.data = _read_only(data)
    return made


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array


def _fresh(shape: Sequence[int], dtype: DType, init: str) -> Array:
    if dtype == string:
        return np.full(shape, "", string)
    if init == "ones":
        return np.ones(shape, dtype)
    if init == "zeros" or not is_float(dtype):
        return np.zeros(shape, dtype)
    bound = 1 / math.sqrt(max(math.prod(shape[1:]), 1))
    seed = zlib.crc32(str(tuple(shape)).encode())
    return np.random.default_rng(seed).uniform(-bound, bound, shape).astype(dtype)
