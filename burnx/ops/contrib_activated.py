"""com.microsoft: products and convolutions that onnxruntime's optimiser joins with what follows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from burnx import waist
from burnx.errors import ModelError
from burnx.ops.contrib_fused import MICROSOFT, find, scalar, times
from burnx.ops.kinds import Count, Flag, T
from burnx.ops.operator import operator
from burnx.tensor import Tensor

# the attributes that the numbers of an activation are, in their order
_NUMBERS: Mapping[str, tuple[str, ...]] = {
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
    "Softplus": (),
    "Softsign": (),
    "LeakyRelu": ("alpha",),
    "Elu": ("alpha",),
    "ThresholdedRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Selu": ("alpha", "gamma"),
    "ScaledTanh": ("alpha", "beta"),
    "ParametricSoftplus": ("alpha", "beta"),
}
# the standard dropped these: alpha f(beta x)
_DROPPED = {"ScaledTanh": "Tanh", "ParametricSoftplus": "Softplus"}


def _activated(x: Tensor, activation: str, given: Mapping[str, float]) -> Tensor:
    """An activation by its name, with those numbers that it has."""
    if activation not in _NUMBERS:
        known = ", ".join(sorted({*_NUMBERS, "Clip"}))
        raise ModelError(f'an activation that is joined is one of {known}, not "{activation}"')
    numbers = {name: given[name] for name in _NUMBERS[activation] if name in given}
    if activation in _DROPPED:
        inner = times(x, scalar(numbers.get("beta", 1.0), x))
        outer: Tensor = find(_DROPPED[activation])(inner)
        return times(outer, scalar(numbers.get("alpha", 1.0), x))
    result: Tensor = find(activation)(x, **numbers)
    return result


@operator("FusedConv", since=(1,), domain=MICROSOFT)
def fused_conv(
    x: T,
    w: T,
    b: T | None = None,
    z: T | None = None,
    *,
    activation: str = "",
    activation_params: Sequence[float] | None = None,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: Count = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> T:
    """activation(conv(x, w, b) + z).  Source: onnxruntime com.microsoft FusedConv-1"""
    place = {"dilations": dilations, "kernel_shape": kernel_shape, "pads": pads, "strides": strides}
    known: dict[str, Any] = {name: value for name, value in place.items() if value is not None}
    y: Tensor = find("Conv")(x, w, b, auto_pad=auto_pad, group=group, **known)
    y = y if z is None else y + z
    numbers = list(activation_params or ())
    if activation == "Clip":
        low, high = (waist.constant(number, x.dtype) for number in numbers)
        result: Tensor = find("Clip")(y, low, high)
        return result
    if not activation:
        return y
    names = _NUMBERS.get(activation, ())
    return _activated(y, activation, dict(zip(names, numbers, strict=False)))


@operator("FusedGemm", since=(1,), domain=MICROSOFT)
def fused_gemm(
    a: T,
    b: T,
    c: T | None = None,
    *,
    activation: str = "",
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: Flag = 0,
    transB: Flag = 0,
) -> T:
    """activation(alpha a b + beta c).  Source: onnxruntime com.microsoft FusedGemm-1"""
    y = find("Gemm")(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)
    if not activation:
        return y
    given = {"alpha": activation_alpha, "beta": activation_beta, "gamma": activation_gamma}
    return _activated(
        y, activation, {name: value for name, value in given.items() if value is not None}
    )
