"""com.microsoft: operators that the standard has had since, under the names and forms they had before."""

from __future__ import annotations

import numpy as np

from burnx import waist
from burnx.errors import ModelError
from burnx.ops import creation, padding, sampling, selection
from burnx.ops.contrib_fused import MICROSOFT, find, fused_mat_mul
from burnx.ops.kinds import T1, T2, Int32, Int64, T, Tind
from burnx.ops.operator import operator


@operator("TransposeMatMul", since=(1,), domain=MICROSOFT)
def transpose_mat_mul(a: T, b: T, *, alpha: float = 1.0, transA: int = 0, transB: int = 0) -> T:
    """The first name of FusedMatMul.  Source: onnxruntime com.microsoft TransposeMatMul-1"""
    result: T = fused_mat_mul(a, b, alpha=alpha, transA=transA, transB=transB)
    return result


@operator("Trilu", since=(1,), domain=MICROSOFT)
def trilu(x: T, k: Int64 | None = None, *, upper: int = 1) -> T:
    """One triangle of each matrix.  Source: onnxruntime com.microsoft Trilu-1"""
    result: T = selection.trilu(x, k, upper=upper)
    return result


@operator("Unique", since=(1,), domain=MICROSOFT)
def unique(x: T) -> tuple[T, Int64, Int64]:
    """The distinct elements as they come, which one each was, and how often.

    Source: onnxruntime com.microsoft Unique-1
    """
    found, _, inverse, counts = selection.unique(x, sorted=0, outputs=4)
    return found, inverse, counts


@operator("ExpandDims", since=(1,), domain=MICROSOFT)
def expand_dims(x: T, axis: Int32) -> T:
    """Put an axis of one element in.  Source: onnxruntime com.microsoft ExpandDims-1"""
    place = int(waist.const(axis).reshape(()))
    rank = x.ndim
    if not -rank - 1 <= place <= rank:
        raise ModelError(
            f"ExpandDims of {rank} axes puts one at {-rank - 1} to {rank}, not {place}"
        )
    place = place + rank + 1 if place < 0 else place
    return waist.reshape(x, (*x.shape[:place], 1, *x.shape[place:]))


@operator("GridSample", since=(1,), domain=MICROSOFT)
def grid_sample(
    x: T1,
    grid: T1,
    *,
    align_corners: int = 0,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
) -> T2:
    """Read images at the places of a grid.  Source: onnxruntime com.microsoft GridSample-1"""
    result: T2 = sampling.grid_sample_16(
        x, grid, align_corners=align_corners, mode=mode, padding_mode=padding_mode
    )
    return result


@grid_sample.infer
def _grid_sample_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    return [inputs[0]] if inputs[0].shape is None else [type(inputs[0])(inputs[0].dtype, None)]


@operator("Pad", since=(1,), domain=MICROSOFT)
def pad(data: T, pads: Int64, value: T | None = None, *, mode: str = "constant") -> T:
    """Widen axes at both ends.  Source: onnxruntime com.microsoft Pad-1"""
    flat = waist.reshape(pads, (2 * data.ndim,))
    result: T = padding.pad(data, flat, value, mode=mode)
    return result


@operator("Range", since=(1,), domain=MICROSOFT)
def range(start: T, limit: T, delta: T | None = None) -> T:
    """start, start + delta, … up to but without the limit.  Source: onnxruntime com.microsoft Range-1"""
    step = waist.constant(1, start.dtype) if delta is None else delta
    result: T = creation.range(start, limit, step)
    return result


@operator("GatherND", since=(1,), domain=MICROSOFT)
def gather_nd(data: T, indices: Tind) -> T:
    """Slices at index tuples.  Source: onnxruntime com.microsoft GatherND-1"""
    wide = waist.cast_to(indices, np.dtype(np.int64))
    result: T = find("GatherND")(data, wide)
    return result


@operator("SampleOp", since=(1,), domain=MICROSOFT)
def sample_op(x: T) -> T:
    """What it is given.  Source: onnxruntime com.microsoft SampleOp-1"""
    return x
