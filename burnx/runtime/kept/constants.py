"""Constants of native code in an entry: where each lies, in a file that is there anyway or in the entry itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from burnx.dtype import DTYPES, dtype_name
from burnx.runtime.kept.codec import Unkeepable
from burnx.runtime.kept.entries import Constants

Array = np.ndarray[Any, Any]
Locate = Callable[[Array], list[Any] | None]
Find = Callable[[Any], Array]


@dataclass(slots=True)
class Places:
    """What is written of a constant: where it lies.

    ``locate`` knows memory that will be there again (``[name, number, byte]``), ``share`` says which constants have
    entries of their own; what they do not know is kept in the plan's.
    """

    constants: Constants
    locate: Locate
    share: Locate

    def write(self, array: Array) -> list[Any]:
        """[where, which, byte, dtype, shape]

        Raises: Unkeepable if it holds objects.
        """
        if array.dtype == object:
            raise Unkeepable("an array of strings")
        kind = [dtype_name(array.dtype), list(array.shape)]
        array = np.asarray(array, order="C")
        place = self.locate(array) or self.share(array) if array.size else None
        return [*(place or ["kept", 0, self.constants.add(array)]), *kind]


def read_constant(entry: Sequence[Any], find: Mapping[str, Find]) -> Array:
    """The array of ``Places.write``; ``find`` gives the bytes that lie somewhere."""
    where, which, start, dtype, shape = entry
    memory = find[where](which)
    kind, dims = DTYPES[dtype], tuple(map(int, shape))
    count = int(np.prod(dims, dtype=np.int64))
    if count == 0:
        return np.zeros(dims, kind)
    if not 0 <= start <= start + count * kind.itemsize <= memory.nbytes:
        raise ValueError("a constant lies outside of its file")
    return np.ndarray(dims, kind, buffer=memory, offset=start)
