"""Operators that rearrange, cut or decode images."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from burnx import waist
from burnx.dtype import string, uint8
from burnx.errors import ModelError, ShapeError, UnsupportedError
from burnx.ops.kinds import T1, T2, Count, T, Tind
from burnx.ops.movement import normal_axes
from burnx.ops.operator import REQUIRED, operator
from burnx.shape import Dim, maximum, shape_text
from burnx.tensor import Tensor
from burnx.types import TensorType

_MISSING: Any = REQUIRED


@operator("CenterCropPad", since=(18,), ranks={"shape": 1})
def center_crop_pad(input_data: T, shape: Tind, *, axes: Sequence[int] | None = None) -> T:
    """Cut or pad with zeros around the middle to a shape; the odd one is at the end.

    Source: ONNX CenterCropPad-18
    """
    chosen = normal_axes(range(input_data.ndim) if axes is None else axes, input_data.ndim)
    wanted = waist.dims(shape)
    if len(wanted) != len(chosen):
        raise ShapeError(f"CenterCropPad takes a size for each of {len(chosen)} axes: {wanted}")
    starts: list[Dim] = [0] * input_data.ndim
    low, high, kept = list(starts), list(starts), list(input_data.shape)
    for place, size in zip(chosen, wanted, strict=True):
        n = input_data.shape[place]
        cut, more = maximum(n - size, 0), maximum(size - n, 0)
        starts[place], kept[place] = cut // 2, n - cut
        low[place], high[place] = more // 2, more - more // 2
    steps = [1] * input_data.ndim
    y = waist.slice_(input_data, starts, kept, steps)
    if all(width == 0 for width in (*low, *high)):
        return y
    blank = "" if y.dtype == string else 0
    y = waist.pad(y, waist.constant(blank, y.dtype), low, high)
    full = list(input_data.shape)
    for place, size in zip(chosen, wanted, strict=True):
        full[place] = size
    return waist.reshape(y, full)


def _image(x: Tensor, name: str, mode: str) -> tuple[Dim, Dim, Dim, Dim]:
    if x.ndim != 4:
        raise ShapeError(f"{name} takes images (n, c, h, w), not {shape_text(x.shape)}")
    if mode not in ("DCR", "CRD"):
        raise ModelError(f"{name} takes mode DCR or CRD, not {mode!r}")
    n, c, h, w = x.shape
    return n, c, h, w


@operator("DepthToSpace", since=(1, 11, 13, 28), ranks={"input": 4})
def depth_to_space(input: T, *, blocksize: Count = _MISSING, mode: str = "DCR") -> T:
    """Lay channels out as blocks of pixels.  Source: ONNX DepthToSpace-28"""
    n, c, h, w = _image(input, "DepthToSpace", mode)
    b, depth = blocksize, c // (blocksize * blocksize)
    if isinstance(c, int) and c % (b * b):
        raise ShapeError(f"DepthToSpace takes a multiple of {b * b} channels, not {c}")
    if mode == "DCR":
        split = waist.reshape(input, (n, b, b, depth, h, w))
        moved = waist.transpose(split, (0, 3, 4, 1, 5, 2))
    else:
        split = waist.reshape(input, (n, depth, b, b, h, w))
        moved = waist.transpose(split, (0, 1, 4, 2, 5, 3))
    return waist.reshape(moved, (n, depth, h * b, w * b))


@operator("SpaceToDepth", since=(1, 13, 28), ranks={"input": 4})
def space_to_depth(input: T, *, blocksize: Count = _MISSING, mode: str = "DCR") -> T:
    """Stack the pixels of each block as channels.  Source: ONNX SpaceToDepth-28"""
    n, c, h, w = _image(input, "SpaceToDepth", mode)
    b = blocksize
    if any(isinstance(size, int) and size % b for size in (h, w)):
        raise ShapeError(f"SpaceToDepth takes sizes that {b} divides: {shape_text(input.shape)}")
    rows, columns = h // b, w // b
    split = waist.reshape(input, (n, c, rows, b, columns, b))
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return waist.reshape(waist.transpose(split, order), (n, c * b * b, rows, columns))


_FORMATS = ("RGB", "BGR", "Grayscale")


@operator("ImageDecoder", since=(20,))
def image_decoder(encoded_stream: T1, *, pixel_format: str = "RGB") -> T2:
    """Decode a picture file into (h, w, c) bytes.  Source: ONNX ImageDecoder-20"""
    if pixel_format not in _FORMATS:
        raise ModelError(f"ImageDecoder takes {', '.join(_FORMATS)}, not {pixel_format!r}")

    def decode(encoded: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        return [decode_picture(encoded.tobytes(), pixel_format)]

    depth = 1 if pixel_format == "Grayscale" else 3
    kind = TensorType(uint8, (None, None, depth))  # type: ignore[arg-type]
    return waist.host("ImageDecoder", decode, [encoded_stream], [kind])[0]


@image_decoder.infer
def _decoded_types(inputs: Any, attributes: Any, count: int) -> list[TensorType]:
    depth = 1 if attributes.get("pixel_format", "RGB") == "Grayscale" else 3
    return [TensorType(uint8, (None, None, depth))]  # type: ignore[arg-type]


def decode_picture(encoded: bytes, pixel_format: str) -> np.ndarray[Any, Any]:
    """Shapes: -> (h, w, 3), or (h, w, 1) for Grayscale.

    Raises: UnsupportedError without pillow; ModelError if the bytes are no picture.
    """
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise UnsupportedError(
            "ImageDecoder needs the package pillow, which is not installed"
        ) from None
    try:
        with Image.open(io.BytesIO(encoded)) as picture:
            pixels = np.array(picture.convert("L" if pixel_format == "Grayscale" else "RGB"))
    except (UnidentifiedImageError, OSError) as error:
        raise ModelError(f"ImageDecoder was given bytes that are no picture: {error}") from None
    if pixel_format == "Grayscale":
        return pixels[:, :, None]
    return np.ascontiguousarray(pixels[:, :, ::-1]) if pixel_format == "BGR" else pixels
