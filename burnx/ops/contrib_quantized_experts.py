"""com.microsoft: a mixture of experts of quantized weights."""

from __future__ import annotations

from burnx import waist
from burnx.dtype import DType, compute_dtype
from burnx.errors import ModelError
from burnx.ops.contrib_experts import (
    SPARSE_MIXER,
    Gate,
    Layer,
    bias_of,
    check_gate,
    check_routing,
    mixed,
    routes,
)
from burnx.ops.contrib_fused import MICROSOFT, times
from burnx.ops.contrib_quantized_blocks import BIT_WIDTHS, unpacked
from burnx.ops.kinds import T1, T2, T4, Flag, T
from burnx.ops.operator import operator
from burnx.ops.quantization import spread_scale
from burnx.tensor import Tensor

# weight, scales, zero points, bias
Parts = tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]


@operator("QMoE", since=(1,), domain=MICROSOFT)
def q_moe(
    input: T,
    router_probs: T,
    fc1_experts_weights: T1,
    fc1_scales: T2 | None,
    fc1_experts_bias: T | None,
    fc2_experts_weights: T1,
    fc2_scales: T2 | None = None,
    fc2_experts_bias: T | None = None,
    fc3_experts_weights: T1 | None = None,
    fc3_scales: T2 | None = None,
    fc3_experts_bias: T | None = None,
    fc1_zero_points: T1 | None = None,
    fc2_zero_points: T1 | None = None,
    fc3_zero_points: T1 | None = None,
    router_weights: T | None = None,
    fc1_global_scale: T4 | None = None,
    fc2_global_scale: T4 | None = None,
    fc1_act_scale: T4 | None = None,
    fc2_act_scale: T4 | None = None,
    fc1_act_block_scale: T2 | None = None,
    fc2_act_block_scale: T2 | None = None,
    *,
    accuracy_level: int = 0,
    activation_alpha: float = 1.0,
    activation_beta: float = 0.0,
    activation_type: str = "relu",
    block_size: int | None = None,
    expert_weight_bits: int = 4,
    fc1_expert_weight_bits: int | None = None,
    fc2_expert_weight_bits: int | None = None,
    fc3_expert_weight_bits: int | None = None,
    k: int = 1,
    normalize_routing_weights: Flag = 0,
    quant_type: str = "int",
    swiglu_fusion: int = 0,
    swiglu_limit: float | None = None,
    swiglu_limit_after_activation: int = 0,
    use_sparse_mixer: Flag = 0,
    weights_prepacked: int = -1,
) -> T:
    """MoE of weights of 2, 4 or 8 bits with a scale for each row or block of it, or of float8 ones.

    ``accuracy_level`` allows an engine to be less exact, which burnx makes no use of.  ``router_weights`` stand in
    for the shares that the router gives; who is chosen it still says.
    Shapes: as MoE; weights packed along the last axis, scales (experts, rows) or (experts, rows, blocks).
    Source: onnxruntime com.microsoft QMoE-1
    """
    check_routing(use_sparse_mixer)
    activations = (fc1_act_scale, fc2_act_scale, fc1_act_block_scale, fc2_act_block_scale)
    if quant_type not in _READERS or any(each is not None for each in activations):
        raise ModelError(
            f"QMoE takes weights of quant_type {' or '.join(_READERS)} and does not quantize "
            f'activations; here it is "{quant_type}"'
        )
    if quant_type == "int" and weights_prepacked == 1:
        raise ModelError("QMoE takes weights as they are in files, not weights_prepacked 1")
    late = bool(swiglu_limit_after_activation)
    gate = Gate(
        activation_type, swiglu_fusion, activation_alpha, activation_beta, swiglu_limit, late
    )
    check_gate(gate, fc3_experts_weights is not None)
    wide, block = compute_dtype(input.dtype), block_size or 0
    read = _READERS[quant_type]

    def layer(parts: Parts, bits: int | None, whole: Tensor | None) -> Layer:
        width = expert_weight_bits if bits is None else bits

        def of(index: Tensor) -> tuple[Tensor, Tensor | None]:
            own = read(parts, index, (width, block), whole, wide)
            return own, bias_of(parts[3], index, own)

        return of

    first = (fc1_experts_weights, fc1_scales, fc1_zero_points, fc1_experts_bias)
    second = (fc2_experts_weights, fc2_scales, fc2_zero_points, fc2_experts_bias)
    third = None
    if fc3_experts_weights is not None:
        parts = (fc3_experts_weights, fc3_scales, fc3_zero_points, fc3_experts_bias)
        third = layer(parts, fc3_expert_weight_bits, None)
    layers = (
        layer(first, fc1_expert_weight_bits, fc1_global_scale),
        layer(second, fc2_expert_weight_bits, fc2_global_scale),
        third,
    )
    shares = routes(router_probs, k, bool(normalize_routing_weights), router_weights)
    return mixed(input, shares, layers, gate)


q_moe.limit(SPARSE_MIXER, tests="moe.*sparse_mixer")
q_moe.limit(
    "quant_type fp4, nvfp4 and wfp4afp8, weights_prepacked 1, 3 bits: layouts of CUDA kernels",
    tests="qmoe.*(fp4|prepacked|3_bits)",
)


def _integers(
    parts: Parts, index: Tensor, widths: tuple[int, int], whole: Tensor | None, dtype: DType
) -> Tensor:
    """(weight - zero point) scale of one expert, the zero point in the middle unless it is given.

    Shapes: -> (rows, columns)
    """
    weight, scales, zeros, _ = parts
    bits, block = widths
    if bits not in BIT_WIDTHS:
        raise ModelError(f"QMoE takes weights of 2, 4 or 8 bits, not {bits}")
    if scales is None:
        raise ModelError("QMoE of integers needs the scales of its weights")
    numbers = waist.cast_to(unpacked(waist.take(weight, index, 0), bits), dtype)
    scale = waist.cast_to(waist.take(scales, index, 0), dtype)
    if zeros is None:
        zero = waist.constant(2 ** (bits - 1), dtype)
    else:
        own = unpacked(waist.take(zeros, index, 0), bits)
        axis = own.ndim - 1
        own = waist.slice_axis(own, axis, 0, scale.shape[axis])
        zero = _along_rows(waist.cast_to(own, dtype), numbers, block)
    moved = waist.map("sub", numbers, zero)
    return times(moved, _along_rows(scale, numbers, block))


def _along_rows(x: Tensor, numbers: Tensor, block: int) -> Tensor:
    """A number of each row, or of each block of it, so that it broadcasts."""
    if x.ndim == 1:
        return waist.reshape(x, (x.shape[0], 1))
    return spread_scale(x, numbers, 1, block) if block else x


def _float8s(
    parts: Parts, index: Tensor, widths: tuple[int, int], whole: Tensor | None, dtype: DType
) -> Tensor:
    """One expert's float8 weight times its scale: one for all of it, or one for each square block."""
    weight, scales, zeros, _ = parts
    block = widths[1]
    if zeros is not None or (scales if block > 0 else whole) is None:
        raise ModelError(
            "QMoE of float8 takes no zero points, and block scales with a block_size, else a global one"
        )
    numbers = waist.cast_to(waist.take(weight, index, 0), dtype)
    if block <= 0:
        assert whole is not None
        return times(numbers, waist.cast_to(waist.take(whole, index, 0), dtype))
    assert scales is not None
    own = waist.cast_to(waist.take(scales, index, 0), dtype)
    rows, columns = numbers.shape
    broad = waist.broadcast(
        waist.reshape(own, (own.shape[0], 1, own.shape[1], 1)),
        (own.shape[0], block, own.shape[1], block),
    )
    each = waist.reshape(broad, (own.shape[0] * block, own.shape[1] * block))
    return times(numbers, waist.slice_(each, (0, 0), (rows, columns), (1, 1)))


_READERS = {"int": _integers, "fp8": _float8s}
