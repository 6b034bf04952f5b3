"""A convolution that a vendor's library carries out: what it is asked for, in numbers.

All lies with channels side by side.  An image begins where its margins begin, so nothing is padded by the library.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Image:
    """Where pictures lie in a buffer: the first element, and the steps to the next picture, row and column."""

    buffer: int
    start: int
    steps: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Stage:
    """What is done with each sum.

    ``kind``: "add" what lies at ``image`` in ``dtype`` (steps of 0: the same row of channels everywhere), "max" or "min"
    of it and ``number``, "round" to ``dtype``.
    """

    kind: str
    dtype: str
    image: Image | None = None
    number: float = 0.0


@dataclass(frozen=True, slots=True)
class Convolution:
    """Sums in float32 over ``window`` (rows, columns) and ``channels``, then the stages, one after the other.

    ``given`` and ``made`` are dtypes.  ``channels`` and ``kernels`` are those of one of the ``groups``.  ``size`` is that of
    an image with its margins, ``out`` that of a result.  ``filter``: buffer, first element, and the steps to the next
    group, kernel, row, column and channel.  ``exact``: float32 is multiplied as float32.  ``temporary_bytes`` and ``rank``
    are those of a ``Gemm``.
    """

    given: str
    made: str
    pictures: int
    groups: int
    channels: int
    kernels: int
    size: Pair
    out: Pair
    window: Pair
    strides: Pair
    dilations: Pair
    image: Image
    filter: tuple[int, int, tuple[int, int, int, int, int]]
    result: Image
    stages: tuple[Stage, ...] = ()
    exact: bool = True
    temporary_bytes: int = 0
    rank: int = 0


def convolution_from_row(row: Any) -> Convolution:
    """Raises: TypeError, LookupError, ValueError if it is not what ``library.as_row`` has made of one."""
    made = dict(row)
    made["image"], made["result"] = _image(made["image"]), _image(made["result"])
    buffer, start, steps = made["filter"]
    made["filter"] = int(buffer), int(start), tuple(steps)
    made["stages"] = tuple(_stage(each) for each in made["stages"])
    for name in ("size", "out", "window", "strides", "dilations"):
        made[name] = tuple(made[name])
    if set(made) != {each.name for each in fields(Convolution)}:
        raise TypeError("a convolution has other fields")
    return Convolution(**made)


def _image(row: Any) -> Image:
    return Image(int(row["buffer"]), int(row["start"]), tuple(row["steps"]))


def _stage(row: Any) -> Stage:
    image = None if row["image"] is None else _image(row["image"])
    return Stage(str(row["kind"]), str(row["dtype"]), image, float(row["number"]))
