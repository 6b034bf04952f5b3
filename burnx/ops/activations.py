"""Activation functions: elementwise, computed in float32 at least and rounded once."""

from __future__ import annotations

import math

import numpy as np

from burnx import waist
from burnx.dtype import float64, is_integer
from burnx.errors import ModelError
from burnx.ops.kinds import T
from burnx.ops.logic import where
from burnx.ops.operator import operator
from burnx.ops.precision import number, widen
from burnx.tensor import Tensor

_EXACT = 2.0**52  # float64 holds smaller integers, and halves beside them


def _max(x: Tensor, bound: float) -> Tensor:
    return waist.map("max", x, number(bound, x))


def _min(x: Tensor, bound: float) -> Tensor:
    return waist.map("min", x, number(bound, x))


def logistic(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x)), in the dtype of x."""
    return 1.0 / (waist.map("exp", -x) + 1.0)


@operator("Relu", since=(1, 6, 13, 14))
def relu(x: T) -> T:
    """max(x, 0); NaN stays.  Source: ONNX Relu-14"""
    return _max(x, 0)


@operator("LeakyRelu", since=(1, 6, 16))
def leaky_relu(x: T, *, alpha: float = 0.01) -> T:
    """Scale the negative elements by ``alpha``.  Source: ONNX LeakyRelu-16"""
    wide = widen(x)
    return waist.cast_to(where(wide >= 0, wide, wide * alpha), x.dtype)


@operator("PRelu", since=(1, 6, 7, 9, 16))
def prelu(x: T, slope: T) -> T:
    """Scale the negative elements by ``slope``, which broadcasts to x.  Source: ONNX PRelu-16"""
    return where(x < 0, x * slope, x)


@operator("Elu", since=(1, 6, 22), meaning=6)
def elu(x: T, *, alpha: float = 1.0) -> T:
    """x, and alpha * (exp(x) - 1) below 0.  Source: ONNX Elu-22"""
    wide = widen(x)
    below = waist.map("expm1", _min(wide, 0)) * alpha
    return waist.cast_to(where(wide > 0, wide, below), x.dtype)


@operator("Selu", since=(1, 6, 22), meaning=6)
def selu(
    x: T, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875
) -> T:
    """gamma * x, and gamma * alpha * (exp(x) - 1) below 0.  Source: ONNX Selu-22"""
    wide = widen(x)
    below = waist.map("expm1", _min(wide, 0)) * alpha
    return waist.cast_to(where(wide > 0, wide, below) * gamma, x.dtype)


@operator("Celu", since=(12, 28), meaning=12)
def celu(x: T, *, alpha: float = 1.0) -> T:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1)).  Source: ONNX Celu-28"""
    wide = widen(x)
    below = waist.map("expm1", wide / alpha) * alpha
    return waist.cast_to(_max(wide, 0) + _min(below, 0), x.dtype)


@operator("ThresholdedRelu", since=(10, 22), meaning=10)
def thresholded_relu(x: T, *, alpha: float = 1.0) -> T:
    """x where it is above ``alpha``, else 0.  Source: ONNX ThresholdedRelu-22"""
    return where(widen(x) > alpha, x, number(0, x))


@operator("Shrink", since=(9,), meaning=9)
def shrink(input: T, *, bias: float = 0.0, lambd: float = 0.5) -> T:
    """x + bias below -lambd, x - bias above lambd, 0 in between.  Source: ONNX Shrink-9"""
    wide = waist.cast_to(input, float64) if is_integer(input.dtype) else widen(input)
    inner = where(wide > lambd, wide - bias, number(0, wide))
    found = waist.cast_to(where(wide < -lambd, wide + bias, inner), input.dtype)
    if not is_integer(input.dtype) or input.dtype.itemsize < 8:
        return found
    above = where(wide > lambd, _shift(input, -math.ceil(bias)), number(0, input))
    far = where(wide < -lambd, _shift(input, math.floor(bias)), above)
    return where(waist.map("abs", wide) < _EXACT, found, far)


def _shift(x: Tensor, step: int) -> Tensor:
    """x + step in integers, which end where their dtype does."""
    limits = np.iinfo(x.dtype)
    if step < 0:
        return waist.map("max", x, waist.constant(int(limits.min) - step, x.dtype)) - -step
    return waist.map("min", x, waist.constant(int(limits.max) - step, x.dtype)) + step


@operator("HardSigmoid", since=(1, 6, 22), meaning=6)
def hard_sigmoid(x: T, *, alpha: float = 0.2, beta: float = 0.5) -> T:
    """max(0, min(1, alpha * x + beta)).  Source: ONNX HardSigmoid-22"""
    return waist.cast_to(_max(_min(widen(x) * alpha + beta, 1), 0), x.dtype)


@operator("HardSwish", since=(14, 22))
def hard_swish(x: T) -> T:
    """x * max(0, min(1, x / 6 + 0.5)).  Source: ONNX HardSwish-22"""
    wide = widen(x)
    return waist.cast_to(wide * _max(_min(wide * (1 / 6) + 0.5, 1), 0), x.dtype)


@operator("Sigmoid", since=(1, 6, 13))
def sigmoid(x: T) -> T:
    """1 / (1 + exp(-x)).  Source: ONNX Sigmoid-13"""
    return waist.cast_to(logistic(widen(x)), x.dtype)


@operator("Tanh", since=(1, 6, 13))
def tanh(input: T) -> T:
    """The hyperbolic tangent.  Source: ONNX Tanh-13"""
    return waist.map("tanh", input)


@operator("Softplus", since=(1, 22), meaning=1)
def softplus(x: T) -> T:
    """log(exp(x) + 1), also where exp(x) is too large.  Source: ONNX Softplus-22"""
    return waist.map("softplus", x)


@operator("Softsign", since=(1, 22), meaning=1)
def softsign(input: T) -> T:
    """x / (1 + |x|).  Source: ONNX Softsign-22"""
    wide = widen(input)
    return waist.cast_to(wide / (abs(wide) + 1.0), input.dtype)


@operator("Mish", since=(18, 22))
def mish(x: T) -> T:
    """x * tanh(softplus(x)).  Source: ONNX Mish-22"""
    wide = widen(x)
    return waist.cast_to(wide * waist.map("tanh", waist.map("softplus", wide)), x.dtype)


@operator("Gelu", since=(20,))
def gelu(x: T, *, approximate: str = "none") -> T:
    """x times the normal distribution function of x, exactly ("none") or by way of "tanh".  Source: ONNX Gelu-20"""
    wide = widen(x)
    if approximate == "tanh":
        cubic = (wide * wide * wide * 0.044715 + wide) * math.sqrt(2 / math.pi)
        share = waist.map("tanh", cubic)
    elif approximate == "none":
        share = waist.map("erf", wide * math.sqrt(0.5))
    else:
        raise ModelError(f'Gelu approximates by "none" or "tanh", not "{approximate}"')
    return waist.cast_to(wide * 0.5 * (share + 1.0), x.dtype)


@operator("Swish", since=(24,))
def swish(x: T, *, alpha: float = 1.0) -> T:
    """x * sigmoid(alpha * x).  Source: ONNX Swish-24"""
    wide = widen(x)
    return waist.cast_to(wide * logistic(wide * alpha), x.dtype)


@operator("SwiGLU", since=(28,))
def swiglu(a: T, b: T, *, alpha: float = 1.0) -> T:
    """a * sigmoid(alpha * a) * b.  Source: ONNX SwiGLU-28"""
    gate, linear = widen(a), widen(b)
    return waist.cast_to(gate * logistic(gate * alpha) * linear, a.dtype)
