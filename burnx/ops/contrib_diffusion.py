"""com.microsoft: what diffusion models are fused into: biases, gates, group normalization; and BiasSoftmax."""

from __future__ import annotations

from burnx import waist
from burnx.dtype import compute_dtype
from burnx.errors import ModelError, ShapeError
from burnx.ops.contrib_fused import MICROSOFT, find, gelu_of, plus, scalar, times, widened
from burnx.ops.contrib_fused import fast_gelu as fast_gelu_of
from burnx.ops.kinds import Count, Flag, M, T
from burnx.ops.linalg import mat_mul
from burnx.ops.movement import normal_axis
from burnx.ops.operator import REQUIRED, operator
from burnx.ops.reduction import mean_along
from burnx.shape import product
from burnx.tensor import Tensor


@operator("BiasAdd", since=(1,), domain=MICROSOFT)
def bias_add(x: T, bias: T, skip: T) -> T:
    """x + bias + skip.  Source: onnxruntime com.microsoft BiasAdd-1"""
    wide, extra, other = widened(x, bias, skip)
    return waist.cast_to(plus(plus(wide, extra), other), x.dtype)


@operator("BiasSplitGelu", since=(1,), domain=MICROSOFT)
def bias_split_gelu(x: T, bias: T) -> T:
    """The first half of x + bias times gelu of the second.  Source: onnxruntime com.microsoft BiasSplitGelu-1"""
    wide, extra = widened(x, bias)
    total = plus(wide, extra)
    axis, half = total.ndim - 1, total.shape[-1] // 2
    left, right = (waist.slice_axis(total, axis, start, half) for start in (0, half))
    return waist.cast_to(times(left, gelu_of(right)), x.dtype)


@operator("GemmFastGelu", since=(1,), domain=MICROSOFT)
def gemm_fast_gelu(x: T, w: T, bias: T | None = None) -> T:
    """fast gelu(x w + bias).  Source: onnxruntime com.microsoft GemmFastGelu-1"""
    result: Tensor = fast_gelu_of(mat_mul(*widened(x, w)), *widened(bias))
    return waist.cast_to(result, x.dtype)


@operator("BiasSoftmax", since=(1,), domain=MICROSOFT)
def bias_softmax(data: T, bias: T, *, axis: int = 1, is_inner_broadcast: Flag = REQUIRED) -> T:  # type: ignore[assignment]
    """softmax(data + bias) over all axes from ``axis`` on; a bias that lacks axes lacks the first ones.

    With ``is_inner_broadcast`` it lacks those before ``axis`` that come after its own.
    Source: onnxruntime com.microsoft BiasSoftmax-1
    """
    place = normal_axis(axis, data.ndim)
    wide, extra = widened(data, bias)
    if is_inner_broadcast and extra.ndim < data.ndim:
        missing = data.ndim - extra.ndim
        lead = place - missing
        if lead < 0:
            raise ShapeError(
                f"a bias of {extra.ndim} axes is too short for softmax at axis {place}"
            )
        extra = waist.reshape(extra, (*extra.shape[:lead], *[1] * missing, *extra.shape[lead:]))
    total = plus(wide, extra)
    rows = waist.reshape(total, (product(total.shape[:place]), product(total.shape[place:])))
    result: Tensor = find("Softmax")(rows, axis=-1)
    return waist.cast_to(waist.reshape(result, total.shape), data.dtype)


# ---------------------------------------------------------------------------------------- group normalization
def _group_norm(
    x: Tensor, parts: tuple[Tensor, Tensor], how: tuple[int, float, int, int]
) -> Tensor:
    """Each group of channels less its mean over its deviation; in the compute dtype, layout as it was."""
    groups, epsilon, channels_last, activation = how
    if activation not in (0, 1):
        raise ModelError(f"activation is 0 for none or 1 for SiLU, not {activation}")
    axis = x.ndim - 1 if channels_last else 1
    channels = x.shape[axis]
    if groups < 1 or (isinstance(channels, int) and channels % groups):
        raise ShapeError(f"the channels are a multiple of the groups: {channels} and {groups}")
    split = (*x.shape[:axis], groups, channels // groups, *x.shape[axis + 1 :])
    grouped = waist.reshape(x, split)
    axes = tuple(place for place in range(1, len(split)) if place != axis)
    moved = waist.map("sub", grouped, mean_along(grouped, axes))
    spread = plus(mean_along(times(moved, moved), axes), scalar(epsilon, x))
    normal = waist.reshape(waist.map("div", moved, waist.map("sqrt", spread)), x.shape)
    column = [channels if place == axis else 1 for place in range(x.ndim)]
    gamma, beta = (waist.reshape(waist.cast_to(part, x.dtype), column) for part in parts)
    result = plus(times(normal, gamma), beta)
    if not activation:
        return result
    powers = waist.map("exp", waist.map("neg", result))
    return waist.map("div", result, plus(powers, scalar(1, result)))


@operator("GroupNorm", since=(1,), domain=MICROSOFT, ranks={"x": 4, "gamma": 1, "beta": 1})
def group_norm(
    x: T,
    gamma: M,
    beta: M,
    *,
    activation: int = REQUIRED,  # type: ignore[assignment]
    channels_last: Flag = 1,
    epsilon: float = 1e-5,
    groups: Count = REQUIRED,  # type: ignore[assignment]
) -> T:
    """Group normalization, its channels last, and SiLU with activation 1.

    Source: onnxruntime com.microsoft GroupNorm-1
    """
    (wide,) = widened(x)
    how = (groups, epsilon, channels_last, activation)
    return waist.cast_to(_group_norm(wide, (gamma, beta), how), x.dtype)


@operator(
    "SkipGroupNorm",
    since=(1,),
    domain=MICROSOFT,
    outputs=1,
    ranks={"x": 4, "gamma": 1, "beta": 1, "bias": 1},
)
def skip_group_norm(
    x: T,
    gamma: M,
    beta: M,
    skip: T,
    bias: T | None = None,
    *,
    activation: int = REQUIRED,  # type: ignore[assignment]
    channels_last: Flag = 1,
    epsilon: float = 1e-5,
    groups: Count = REQUIRED,  # type: ignore[assignment]
) -> tuple[T, T]:
    """GroupNorm of x + skip + bias, and that sum.  Source: onnxruntime com.microsoft SkipGroupNorm-1"""
    wide, other, extra = widened(x, skip, bias)
    ones = [1] * (x.ndim - 2)
    if other.ndim == 2:
        batch, channels = other.shape
        other = waist.reshape(
            other, (batch, *ones, channels) if channels_last else (batch, channels, *ones)
        )
    total = plus(wide, other)
    if extra is not None:
        last = (1, *ones, extra.shape[0]) if channels_last else (1, extra.shape[0], *ones)
        total = plus(total, waist.reshape(extra, last))
    how = (groups, epsilon, channels_last, activation)
    result = _group_norm(total, (gamma, beta), how)
    return waist.cast_to(result, x.dtype), waist.cast_to(total, x.dtype)


# ---------------------------------------------------------------------------------------- clamped gates
@operator("ScaledSiLU", since=(1,), domain=MICROSOFT)
def scaled_si_lu(x: T, scale: M | None = None, *, alpha: float = 1.0) -> T:
    """z sigmoid(z) where z is scale x, each step rounded.  Source: onnxruntime com.microsoft ScaledSiLU-1"""
    (wide,) = widened(x)
    factor = scalar(alpha, wide) if scale is None else waist.cast_to(scale, wide.dtype)
    z = waist.cast_to(times(wide, waist.reshape(factor, ())), x.dtype)
    gate = waist.map("exp", waist.map("neg", waist.cast_to(z, wide.dtype)))
    gate = waist.map("div", scalar(1, wide), plus(gate, scalar(1, wide)))
    rounded = waist.cast_to(waist.cast_to(gate, x.dtype), wide.dtype)
    return waist.cast_to(times(waist.cast_to(z, wide.dtype), rounded), x.dtype)


@operator("SwiGLU", since=(1,), domain=MICROSOFT)
def clamped_swiglu(
    gate: T,
    up: T | None = None,
    *,
    activation_alpha: float = 1.0,
    activation_beta: float = 0.0,
    limit: float = 0.0,
    round_activation: Flag = 0,
) -> T:
    """g sigmoid(alpha g) (up + beta), both cut off at ``limit``; without ``up`` the gate holds both halves.

    Source: onnxruntime com.microsoft SwiGLU-1
    """
    wide = waist.cast_to(gate, compute_dtype(gate.dtype))
    if up is None:
        axis, half = wide.ndim - 1, wide.shape[-1] // 2
        wide, other = (waist.slice_axis(wide, axis, start, half) for start in (0, half))
    else:
        other = waist.cast_to(up, wide.dtype)
    if limit > 0:
        top = scalar(limit, wide)
        wide = waist.map("min", wide, top)
        other = waist.map("max", waist.map("min", other, top), scalar(-limit, wide))
    powers = waist.map("exp", times(wide, scalar(-activation_alpha, wide)))
    active = waist.map("div", wide, plus(powers, scalar(1, wide)))
    if round_activation:
        active = waist.cast_to(waist.cast_to(active, gate.dtype), wide.dtype)
    if activation_beta != 0:
        other = plus(other, scalar(activation_beta, wide))
    return waist.cast_to(times(active, other), gate.dtype)
