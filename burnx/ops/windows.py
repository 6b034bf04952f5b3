"""Windows that move over the spatial axes of channels-first data: what convolutions and pools share.

Padding may depend on a size that is only known while running; then it is put on with ``pad`` first.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from burnx import waist
from burnx.dtype import DType
from burnx.errors import ModelError, ShapeError
from burnx.shape import Dim, maximum, minimum, shape_text
from burnx.tensor import Tensor

Ints = Sequence[int] | None


@dataclass(frozen=True, slots=True)
class Window:
    """A window on each spatial axis: its size, how it moves, the padding and how many places it has."""

    size: tuple[Dim, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[Dim, ...]
    high: tuple[Dim, ...]
    out: tuple[Dim, ...]

    @property
    def rank(self) -> int:
        return len(self.size)


def each_axis(name: str, values: Ints, rank: int, default: int = 1, least: int = 1) -> list[int]:
    """One number for each spatial axis.

    Raises: ModelError if there are more, fewer, or one below ``least``.
    """
    found = [default] * rank if values is None or len(values) == 0 else [int(v) for v in values]
    if len(found) != rank or any(value < least for value in found):
        raise ModelError(
            f"{name} takes a number of at least {least} for each of {rank} axes: {found}"
        )
    return found


def ceil_divide(left: Dim, right: int) -> Dim:
    return -((-left) // right)


def extent(size: Dim, dilation: int) -> Dim:
    """How many elements a window spans."""
    return dilation * (size - 1) + 1


def split_pads(pads: Ints, rank: int) -> tuple[list[int], list[int]]:
    """ONNX pads, begins then ends, as two lists."""
    found = each_axis("pads", pads, 2 * rank, default=0, least=-(2**31))
    return found[:rank], found[rank:]


def spread_total(total: Dim, auto_pad: str) -> tuple[Dim, Dim]:
    """Padding cut in two: the odd one goes to the end for SAME_UPPER, else to the begin."""
    half = total // 2
    return (half, total - half) if auto_pad == "SAME_UPPER" else (total - half, half)


def spatial_shape(x: Tensor, name: str) -> tuple[Dim, ...]:
    """The sizes behind batch and channels."""
    if x.ndim < 3:
        raise ModelError(f"{name} takes (n, c, *spatial), not {shape_text(x.shape)}")
    return x.shape[2:]


def place_window(
    shape: Sequence[Dim],
    size: Sequence[Dim],
    *,
    strides: Ints,
    dilations: Ints,
    pads: Ints,
    auto_pad: str,
    ceil_mode: int = 0,
) -> Window:
    """Work out the padding and the number of places of a window.

    Raises: ModelError if an attribute has another length, or auto_pad another value, than ONNX knows.
    """
    rank = len(shape)
    if len(size) != rank:
        raise ModelError(
            f"kernel_shape has a size for each of {rank} spatial axes, not {list(size)}"
        )
    if any(isinstance(each, int) and each < 1 for each in size):
        raise ModelError(f"a window spans at least 1 element of each axis, not {list(size)}")
    steps = each_axis("strides", strides, rank)
    gaps = each_axis("dilations", dilations, rank)
    low, high = _padding(shape, size, (steps, gaps), pads, auto_pad)
    same = auto_pad.startswith("SAME")
    out: list[Dim] = []
    for axis, n in enumerate(shape):
        reach = extent(size[axis], gaps[axis])
        room = n + low[axis] + high[axis] - reach
        if same:
            count = ceil_divide(n, steps[axis])
        elif ceil_mode:
            count = _ceil_count(n + low[axis], room, steps[axis], reach)
            high[axis] = high[axis] + (count - 1) * steps[axis] - room
        else:
            count = _whole_count(room, steps[axis], reach)
        out.append(count)
    return Window(tuple(size), tuple(steps), tuple(gaps), tuple(low), tuple(high), tuple(out))


def _whole_count(room: Dim, stride: int, reach: Dim) -> Dim:
    """Places of a window; none where it lacks one stride.

    Raises: ShapeError if it lacks anything else.
    """
    if isinstance(room, int) and room < 0 and room != -stride:
        raise _too_wide(room, reach)
    return maximum(room // stride + 1, 0)


def _ceil_count(inside: Dim, room: Dim, stride: int, reach: Dim) -> Dim:
    """Places of a window when a part of one counts: each starts inside the input or its low padding."""
    if isinstance(room, int) and room < -stride:
        raise _too_wide(room, reach)
    return maximum(minimum(ceil_divide(room, stride) + 1, ceil_divide(inside, stride)), 0)


def _too_wide(room: int, reach: Dim) -> ShapeError:
    return ShapeError(
        f"a window fits into its axis and padding: one that spans {reach} elements finds {room + reach}"
    )


def _padding(
    shape: Sequence[Dim],
    size: Sequence[Dim],
    steps: tuple[Sequence[int], Sequence[int]],
    pads: Ints,
    auto_pad: str,
) -> tuple[list[Dim], list[Dim]]:
    rank = len(shape)
    if auto_pad == "NOTSET":
        before, after = split_pads(pads, rank)
        return list(before), list(after)
    if auto_pad == "VALID":
        return [0] * rank, [0] * rank
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        raise ModelError(f"auto_pad is NOTSET, VALID, SAME_UPPER or SAME_LOWER, not {auto_pad!r}")
    pairs = [
        spread_total(
            maximum((ceil_divide(n, stride) - 1) * stride + extent(k, gap) - n, 0), auto_pad
        )
        for n, k, stride, gap in zip(shape, size, *steps, strict=True)
    ]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def pad_window(x: Tensor, window: Window, value: Any) -> tuple[Tensor, list[tuple[int, int]]]:
    """The data and the padding that a primitive has to add; one that is not a number is added here."""
    widths = (*window.low, *window.high)
    if all(isinstance(width, int) for width in widths):
        return x, list(zip(window.low, window.high, strict=True))  # type: ignore[arg-type]
    return pad_spatial(x, window, value), [(0, 0)] * window.rank


def pad_spatial(x: Tensor, window: Window, value: Any) -> Tensor:
    """The data with all of the padding put on."""
    lead = [0] * (x.ndim - window.rank)
    fill = waist.constant(value, x.dtype)
    return waist.pad(x, fill, [*lead, *window.low], [*lead, *window.high])


def as_counted(y: Tensor, window: Window) -> Tensor:
    """The result under the short spelling of its sizes."""
    return waist.reshape(y, (*y.shape[: y.ndim - window.rank], *window.out))


def reduce_window(function: str, x: Tensor, window: Window, neutral: Any) -> Tensor:
    """Combine under a window; padding is neutral."""
    sizes = [int(size) for size in window.size]
    data, pads = pad_window(x, window, neutral)
    y = waist.window_reduce(function, data, sizes, window.strides, window.dilations, pads)
    return as_counted(y, window)


def number(dim: Dim, dtype: DType) -> Tensor:
    """A size as a scalar."""
    if isinstance(dim, int):
        return waist.constant(dim, dtype)
    return waist.cast_to(waist.reshape(waist.sizes(dim), ()), dtype)


def along(x: Tensor, axis: int, rank: int) -> Tensor:
    """A vector as one axis of ``rank``."""
    return waist.reshape(x, [x.shape[0] if place == axis else 1 for place in builtins.range(rank)])
