"""com.microsoft: operators that the standard has had since, under the names and forms they had before."""

from __future__ import annotations

import builtins

from burnx import waist
from burnx.dtype import int64
from burnx.errors import ModelError
from burnx.ops import creation, normalization, padding, sampling, selection
from burnx.ops.attention_parts import places
from burnx.ops.contrib_fused import MICROSOFT, find, fused_mat_mul
from burnx.ops.kinds import T1, T2, Bool, Count, Flag, Int32, Int64, T, Tind, U, V
from burnx.ops.movement import normal_axis
from burnx.ops.operator import REQUIRED, operator
from burnx.types import TensorType


@operator("TransposeMatMul", since=(1,), domain=MICROSOFT)
def transpose_mat_mul(a: T, b: T, *, alpha: float = 1.0, transA: Flag = 0, transB: Flag = 0) -> T:
    """The first name of FusedMatMul.  Source: onnxruntime com.microsoft TransposeMatMul-1"""
    result: T = fused_mat_mul(a, b, alpha=alpha, transA=transA, transB=transB)
    return result


@operator("Trilu", since=(1,), domain=MICROSOFT)
def trilu(x: T, k: Int64 | None = None, *, upper: Flag = 1) -> T:
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


@expand_dims.infer
def _expand_dims_types(inputs, attributes, count):  # type: ignore[no-untyped-def]
    """One axis more, wherever it is."""
    x = inputs[0]
    if x.shape is None:
        return [x]
    return [TensorType(x.dtype, (None,) * (len(x.shape) + 1))]  # type: ignore[arg-type]


@operator("GridSample", since=(1,), domain=MICROSOFT)
def grid_sample(
    x: T1,
    grid: T1,
    *,
    align_corners: Flag = 0,
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
    return [TensorType(inputs[0].dtype, None)]


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
    wide = waist.cast_to(indices, int64)
    result: T = find("GatherND")(data, wide)
    return result


@operator("SampleOp", since=(1,), domain=MICROSOFT)
def sample_op(x: T) -> T:
    """What it is given.  Source: onnxruntime com.microsoft SampleOp-1"""
    return x


@operator("UnfoldTensor", since=(1,), domain=MICROSOFT)
def unfold_tensor(
    input: T,
    *,
    dim: int = -1,
    size: Count = REQUIRED,  # type: ignore[assignment]
    step: int = 1,
) -> T:
    """All slices of ``size`` along an axis, ``step`` apart; what is in a slice is the last axis.

    Source: onnxruntime com.microsoft UnfoldTensor-1
    """
    axis = normal_axis(dim, input.ndim)
    if size < 1 or step < 1:
        raise ModelError(f"UnfoldTensor has size and step from 1 on, not {size} and {step}")
    count = (input.shape[axis] - size) // step + 1
    starts = waist.map("mul", places(count, (count, 1)), waist.constant(step, int64))
    spots = waist.map("add", starts, places(size, (1, size)))
    found = waist.take(input, spots, axis)
    last = [n for n in builtins.range(found.ndim) if n != axis + 1]
    return waist.transpose(found, [*last, axis + 1])


@operator("TorchEmbedding", since=(1,), domain=MICROSOFT, ranks={"weight": 2})
def torch_embedding(
    weight: T,
    indices: Int64,
    padding_idx: Int64 | None = None,
    scale_grad_by_freq: Bool | None = None,
) -> T:
    """Rows of a matrix; the other inputs are about gradients.  Source: onnxruntime com.microsoft TorchEmbedding-1"""
    return waist.take(weight, indices, 0)


@operator("SimplifiedLayerNormalization", since=(1,), domain=MICROSOFT, outputs=1)
def simplified_layer_normalization(
    x: T, scale: V, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> tuple[V, U]:
    """The operator of the default domain in this one, where some files have it."""
    result: tuple[V, U] = normalization.simplified_layer_normalization(
        x, scale, axis=axis, epsilon=epsilon, stash_type=stash_type, outputs=2
    )
    return result
