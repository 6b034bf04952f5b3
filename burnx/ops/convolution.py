"""Convolutions and their transposes."""

from __future__ import annotations

from collections.abc import Sequence

from burnx import waist
from burnx.dtype import bool_, compute_dtype, dtype_name, string
from burnx.errors import ModelError, ShapeError, UnsupportedError
from burnx.ops.kinds import Count, Int64, T
from burnx.ops.operator import operator
from burnx.ops.windows import (
    Ints,
    Window,
    as_counted,
    each_axis,
    extent,
    pad_window,
    place_window,
    spatial_shape,
    split_pads,
    spread_total,
)
from burnx.shape import Dim, shape_text
from burnx.tensor import Tensor


@operator("Conv", since=(1, 11, 22), ranks={"x": -3, "w": -3, "b": 1})
def conv(
    x: T,
    w: T,
    b: T | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: Count = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> T:
    """Correlate (n, c, *s) with (m, c / group, *k), plus a bias per channel.  Source: ONNX Conv-22"""
    spatial = spatial_shape(x, "Conv")
    check_kernel(w, kernel_shape, len(spatial))
    window = place_window(
        spatial, w.shape[2:], strides=strides, dilations=dilations, pads=pads, auto_pad=auto_pad
    )
    data, widths = pad_window(x, window, 0)
    y = waist.conv(
        data,
        w,
        window.strides,
        widths,
        window.dilations,
        groups=group,
        dtype=compute_dtype(x.dtype),
    )
    return waist.cast_to(add_bias(as_counted(y, window), b), x.dtype)


def check_kernel(w: Tensor, kernel_shape: Ints, rank: int) -> None:
    """Raises: ShapeError, ModelError unless a kernel is one over ``rank`` axes and as the attribute says."""
    if w.ndim != rank + 2:
        raise ShapeError(f"a convolution over {rank} axes takes no kernel {shape_text(w.shape)}")
    wanted = w.shape[2:] if not kernel_shape else tuple(int(size) for size in kernel_shape)
    known = all(isinstance(size, int) for size in w.shape[2:])
    if known and tuple(wanted) != w.shape[2:]:
        raise ModelError(
            f"kernel_shape is that of the kernel {shape_text(w.shape)}, not {list(wanted)}"
        )


def add_bias(y: Tensor, b: Tensor | None) -> Tensor:
    """Add one number per channel."""
    if b is None:
        return y
    wide = waist.cast_to(b, y.dtype)
    return y + waist.reshape(wide, (*b.shape, *[1] * (y.ndim - 2)))


@operator("ConvTranspose", since=(1, 11, 22), ranks={"x": -3, "w": -3, "b": 1})
def conv_transpose(
    x: T,
    w: T,
    b: T | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: Count = 1,
    kernel_shape: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> T:
    """The gradient of a convolution: spread x by the strides, correlate with the mirrored kernel (c, m / group, *k).

    Source: ONNX ConvTranspose-22
    """
    spatial = spatial_shape(x, "ConvTranspose")
    rank = len(spatial)
    check_kernel(w, kernel_shape, rank)
    steps = each_axis("strides", strides, rank)
    gaps = each_axis("dilations", dilations, rank)
    extra = each_axis("output_padding", output_padding, rank, default=0, least=0)
    reach = [extent(size, gap) for size, gap in zip(w.shape[2:], gaps, strict=True)]
    full = [span + more - step for span, more, step in zip(reach, extra, steps, strict=True)]
    if output_shape:
        low, high = _fit_output(waist.static_shape(x)[2:], full, steps, output_shape, auto_pad)
    else:
        low, high = _transposed_pads(full, pads, auto_pad)
    before = [span - 1 - cut for span, cut in zip(reach, low, strict=True)]
    after = [span - 1 - cut + more for span, cut, more in zip(reach, high, extra, strict=True)]
    widths = list(zip(before, after, strict=True))
    wide = compute_dtype(x.dtype)
    kernel = _mirrored(w, group)
    y = waist.conv(x, kernel, [1] * rank, widths, gaps, steps, group, wide)  # type: ignore[arg-type]
    return waist.cast_to(add_bias(y, b), x.dtype)


def _mirrored(w: Tensor, group: int) -> Tensor:
    """The kernel of the convolution that a transposed one is.

    Shapes: (c, m / g, *k) -> (m, c / g, *k).
    """
    channels, each, *size = w.shape
    flipped = waist.flip(w, range(2, w.ndim))
    split = waist.reshape(flipped, (group, channels // group, each, *size))
    swapped = waist.transpose(split, (0, 2, 1, *range(3, w.ndim + 1)))
    return waist.reshape(swapped, (group * each, channels // group, *size))


def _transposed_pads(full: Sequence[Dim], pads: Ints, auto_pad: str) -> tuple[list[Dim], list[Dim]]:
    """What to cut off; SAME cuts down to the input times the strides."""
    if auto_pad == "NOTSET":
        low, high = split_pads(pads, len(full))
        return list(low), list(high)
    if auto_pad == "VALID":
        return [0] * len(full), [0] * len(full)
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        raise ModelError(f"auto_pad is NOTSET, VALID, SAME_UPPER or SAME_LOWER, not {auto_pad!r}")
    return _cut(full, auto_pad)


def _cut(totals: Sequence[Dim], auto_pad: str) -> tuple[list[Dim], list[Dim]]:
    """Cut in two what is too much; what is missing is zeros at the end."""
    pairs = [spread_total(total, auto_pad) if total > 0 else (0, total) for total in totals]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def _fit_output(
    spatial: Sequence[int],
    full: Sequence[Dim],
    steps: Sequence[int],
    output_shape: Sequence[int],
    auto_pad: str,
) -> tuple[list[Dim], list[Dim]]:
    wanted = [int(size) for size in output_shape][-len(spatial) :]
    if len(wanted) != len(spatial):
        raise ModelError(f"output_shape has a size for each of {len(spatial)} axes: {wanted}")
    totals = [
        n * step + more - size
        for n, step, more, size in zip(spatial, steps, full, wanted, strict=True)
    ]
    return _cut(totals, auto_pad)


_ACTIVATIONS = ("none", "silu", "swish")


@operator(
    "CausalConvWithState", since=(27,), ranks={"input": 3, "weight": 3, "bias": 1, "past_state": 3}
)
def causal_conv_with_state(
    input: T,
    weight: T,
    bias: T | None = None,
    past_state: T | None = None,
    *,
    activation: str = "none",
) -> tuple[T, T]:
    """Correlate each channel with its own kernel, looking back only; the state is the last k - 1 positions.

    Source: ONNX CausalConvWithState-27
    """
    if activation not in _ACTIVATIONS:
        raise ModelError(f"activation is one of {', '.join(_ACTIVATIONS)}, not {activation!r}")
    if input.ndim != 3 or weight.ndim != 3:
        raise ShapeError(
            f"CausalConvWithState takes (n, c, length) and (c, 1, k): "
            f"{shape_text(input.shape)} and {shape_text(weight.shape)}"
        )
    back, length = weight.shape[2] - 1, input.shape[2]
    if past_state is None:
        zero = waist.constant(0, input.dtype)
        data = waist.pad(input, zero, (0, 0, back), (0, 0, 0))
    else:
        data = waist.concat([past_state, input], 2)
    (channels,) = waist.static_shape(weight)[:1]
    y = waist.conv(
        data, weight, [1], [(0, 0)], [1], groups=channels, dtype=compute_dtype(input.dtype)
    )
    y = add_bias(y, bias)
    if activation != "none":
        y = y / (waist.map("exp", -y) + 1)
    return waist.cast_to(y, input.dtype), waist.slice_axis(data, 2, length, back)


def window_of_columns(
    image: Sequence[Dim], block: Sequence[int], pads: Ints, strides: Ints, dilations: Ints
) -> Window:
    """The window that cut an image into the columns of Col2Im."""
    return place_window(
        image, block, strides=strides, dilations=dilations, pads=pads, auto_pad="NOTSET"
    )


@operator("Col2Im", since=(18,), ranks={"input": 3})
def col2_im(
    input: T,
    image_shape: Int64,
    block_shape: Int64,
    *,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> T:
    """Put columns of blocks back into an image, adding up where blocks overlap.  Source: ONNX Col2Im-18"""
    if input.dtype in (string, bool_):
        raise UnsupportedError(f"Col2Im adds up, which is not done for {dtype_name(input.dtype)}")
    block = [int(size) for size in waist.const(block_shape).reshape(-1)]
    image = [int(size) for size in waist.const(image_shape).reshape(-1)]
    window = window_of_columns(image, block, pads, strides, dilations)
    count = 1
    for size in block:
        count *= size
    n, depth = input.shape[:2]
    lead = (n, depth // count)
    parts = waist.reshape(input, (*lead, count, *window.out))
    total: Tensor | None = None
    for place in range(count):
        part = waist.reshape(waist.slice_axis(parts, 2, place, 1), (*lead, *window.out))
        spread = _place_block(part, place, image, window)
        total = spread if total is None else total + spread
    assert total is not None
    return total


col2_im.limit("strings and truth values have no sum", r"^gen_Col2Im_.*_(string|bool)$")


def _place_block(part: Tensor, place: int, image: Sequence[int], window: Window) -> Tensor:
    """One element of every block where it belongs in the image, zeros elsewhere."""
    zero = waist.constant(0, part.dtype)
    rank = window.rank
    for axis in reversed(range(rank)):
        at, place = place % int(window.size[axis]), place // int(window.size[axis])
        start = at * window.dilations[axis] - int(window.low[axis])
        part = _spread_axis(part, part.ndim - rank + axis, window.strides[axis])
        lead = [0] * part.ndim
        low, high = list(lead), list(lead)
        spot = part.ndim - rank + axis
        low[spot] = start
        high[spot] = image[axis] - start - int(part.shape[spot])
        part = waist.pad(part, zero, low, high)
    return part


def _spread_axis(x: Tensor, axis: int, step: int) -> Tensor:
    """Zeros between the elements along an axis, none behind the last."""
    if step == 1:
        return x
    lead, n, rest = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    split = waist.reshape(x, (*lead, n, 1, *rest))
    high = [0] * split.ndim
    high[axis + 1] = step - 1
    wide = waist.pad(split, waist.constant(0, x.dtype), [0] * split.ndim, high)
    joined = waist.reshape(wide, (*lead, n * step, *rest))
    return waist.slice_axis(joined, axis, 0, (n - 1) * step + 1)
