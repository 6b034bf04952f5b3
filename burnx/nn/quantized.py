"""Layers with quantized weights: of floats, which are dequantized to compute, and of bytes.

``Quant…`` layers take and give floats: their weights are stored as bytes, and their results are rounded to what bytes
can say.  ``DynamicQuant…`` layers quantize what they are given by its own range.  ``QLinear…`` layers take and give
bytes; what these stand for is said by a scale and a zero point of each side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burnx import ops
from burnx.nn.convolution import Padding, Size, conv_settings, each_axis
from burnx.nn.module import Module
from burnx.nn.parameter import Parameter
from burnx.tensor import Tensor


def _scale(*shape: int, dtype: str = "float32") -> Parameter:
    return Parameter(*shape, dtype=dtype, init="ones")


class FakeQuantize(Module):
    """Round to what a dtype of few bits can say: quantize and dequantize."""

    def __init__(
        self,
        channels: int | None = None,
        axis: int = 1,
        zero_point: bool = True,
        *,
        quantized: str = "uint8",
        dtype: str = "float32",
    ) -> None:
        shape = () if channels is None else (channels,)
        self.scale = _scale(*shape, dtype=dtype)
        self.zero_point = Parameter(*shape, dtype=quantized) if zero_point else None
        self.attributes = {} if channels is None or axis == 1 else {"axis": axis}

    def forward(self, x: Tensor) -> Tensor:
        return ops.fake_quantize(x, self.scale, self.zero_point, **self.attributes)


class _Quantized(Module):
    """What layers with a quantized weight hold.

    ``per_channel``: a scale and zero point for each output; ``weight_dtype``, ``bias_dtype`` and ``output`` are the
    dtypes that they are stored in; without ``output`` results are not rounded, and a bias of floats has no scale.
    """

    weight_scale: Parameter
    weight_zero_point: Parameter | None
    bias: Parameter | None
    bias_scale: Parameter | None = None
    bias_zero_point: Parameter | None = None
    output_scale: Parameter | None = None
    output_zero_point: Parameter | None = None

    def _hold_weight(
        self, scale: Sequence[int], zero_point: Sequence[int] | None, weight_dtype: str, dtype: str
    ) -> None:
        self.weight_scale = _scale(*scale, dtype=dtype)
        held = None if zero_point is None else Parameter(*zero_point, dtype=weight_dtype)
        self.weight_zero_point = held

    def _hold_bias(
        self, size: int, scale: Sequence[int] | None, bias_dtype: str, zero_point: bool, dtype: str
    ) -> None:
        """A bias; without a scale of floats."""
        self.bias = Parameter(size, dtype=bias_dtype, init="zeros")
        if scale is not None:
            self.bias_scale = _scale(*scale, dtype=dtype)
            self.bias_zero_point = Parameter(*scale, dtype=bias_dtype) if zero_point else None

    def _hold_output(self, output: str | None, zero_point: bool, dtype: str) -> None:
        if output is not None:
            self.output_scale = _scale(dtype=dtype)
            self.output_zero_point = Parameter(dtype=output) if zero_point else None

    def _weights(self) -> tuple[Parameter | None, ...]:
        return (
            self.weight_scale,
            self.weight_zero_point,
            self.bias,
            self.bias_scale,
            self.bias_zero_point,
            self.output_scale,
            self.output_zero_point,
        )


class _QuantConv(_Quantized):
    __doc__: str | None = f"A convolution whose weight is dequantized first.  {_Quantized.__doc__}"
    axes = 0

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Padding = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        per_channel: bool = False,
        zero_point: bool = True,
        *,
        output: str | None = "uint8",
        weight_dtype: str = "int8",
        bias_dtype: str = "int32",
        dtype: str = "float32",
    ) -> None:
        kernel = each_axis(kernel_size, self.axes)
        self.weight = Parameter(out_channels, in_channels // groups, *kernel, dtype=weight_dtype)
        shape = (out_channels,) if per_channel else ()
        self._hold_weight(shape, shape if zero_point else None, weight_dtype, dtype)
        self.bias = None
        if bias:
            scale = None if bias_dtype == dtype else shape
            self._hold_bias(out_channels, scale, bias_dtype, zero_point, dtype)
        self._hold_output(output, zero_point, dtype)
        self.attributes = conv_settings(kernel, stride, padding, dilation, groups)

    def forward(self, x: Tensor) -> Tensor:
        return ops.quant_conv(x, self.weight, *self._weights(), **self.attributes)


class QuantConv1d(_QuantConv):
    __doc__: str | None = _QuantConv.__doc__
    axes = 1


class QuantConv2d(_QuantConv):
    __doc__: str | None = _QuantConv.__doc__
    axes = 2


class QuantConv3d(_QuantConv):
    __doc__: str | None = _QuantConv.__doc__
    axes = 3


class QuantLinear(_Quantized):
    __doc__: str | None = f"""x @ weight, which is dequantized first, plus bias.

    ``turned``: the weight is (out_features, in_features), and the result is rounded with the bias, not before it is
    added.  ``block_size``: a scale for so many inputs of each output.  ``scaled``: the weight is only cast and
    multiplied by its scales.  {_Quantized.__doc__}"""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        turned: bool = False,
        per_channel: bool = False,
        zero_point: bool = True,
        block_size: int = 0,
        scaled: bool = False,
        *,
        output: str | None = "uint8",
        weight_dtype: str = "int8",
        bias_dtype: str = "float32",
        dtype: str = "float32",
    ) -> None:
        size = (out_features, in_features) if turned else (in_features, out_features)
        self.weight = Parameter(*size, dtype=weight_dtype)
        one = (out_features,) if per_channel else ()
        scale = (1, out_features) if scaled else one
        if block_size:
            blocks = -(-in_features // block_size)
            scale = (out_features, blocks) if turned else (blocks, out_features)
        has_zero = zero_point and not scaled
        self._hold_weight(scale, scale if has_zero else None, weight_dtype, dtype)
        self.bias = None
        if bias:
            bias_scale = None if bias_dtype == dtype else one
            self._hold_bias(out_features, bias_scale, bias_dtype, zero_point, dtype)
        self._hold_output(output, zero_point, dtype)
        self.attributes: dict[str, Any] = {}
        for name, value in (("turned", turned), ("scaled", scaled), ("block_size", block_size)):
            self.attributes |= {name: int(value)} if value else {}

    def forward(self, x: Tensor) -> Tensor:
        return ops.quant_linear(x, self.weight, *self._weights(), **self.attributes)


class DynamicQuantLinear(_Quantized):
    """x, quantized by its own range, @ weight + bias; weight (in_features, out_features).

    ``fused``: as the one operator that onnxruntime has for it.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        per_channel: bool = False,
        zero_point: bool = True,
        fused: bool = False,
        *,
        weight_dtype: str = "int8",
        dtype: str = "float32",
    ) -> None:
        self.fused = fused
        self.weight = Parameter(in_features, out_features, dtype=weight_dtype)
        shape = (out_features,) if per_channel else ()
        self._hold_weight(shape, shape if zero_point else None, weight_dtype, dtype)
        self.bias = Parameter(out_features, dtype=dtype, init="zeros") if bias else None

    def forward(self, x: Tensor) -> Tensor:
        weights = self.weight, self.weight_scale, self.weight_zero_point, self.bias
        call = ops.dynamic_quantize_mat_mul if self.fused else ops.dynamic_quant_linear
        return call(x, *weights)


class QuantEmbedding(Module):
    """Rows of a table of bytes, dequantized; ``scaled``: cast and multiplied by a scale of each row."""

    def __init__(
        self,
        count: int,
        *size: int,
        zero_point: bool = True,
        scaled: bool = False,
        weight_dtype: str = "uint8",
        dtype: str = "float32",
    ) -> None:
        self.weight = Parameter(count, *size, dtype=weight_dtype)
        self.scale = _scale(*((count, 1) if scaled else ()), dtype=dtype)
        has_zero = zero_point and not scaled
        self.zero_point = Parameter(dtype=weight_dtype) if has_zero else None
        self.attributes = {"scaled": 1} if scaled else {}

    def forward(self, indices: Tensor) -> Tensor:
        held = self.weight, self.scale, self.zero_point
        return ops.quant_embedding(*held, indices, **self.attributes)


class LinearNBits(Module):
    """x @ weight.T of a weight that is stored in blocks of few bits, each with a scale and a zero point.

    Shapes: weight (out_features, blocks, block_size * bits / 8), scales (out_features, blocks); zero points are packed
    like the weight.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bits: int = 4,
        block_size: int = 32,
        zero_points: bool = True,
        bias: bool = False,
        accuracy_level: int = 0,
        *,
        dtype: str = "float32",
    ) -> None:
        blocks = -(-in_features // block_size)
        self.weight = Parameter(out_features, blocks, block_size * bits // 8, dtype="uint8")
        self.scales = _scale(out_features, blocks, dtype=dtype)
        packed = -(-blocks * bits // 8)
        self.zero_points = Parameter(out_features, packed, dtype="uint8") if zero_points else None
        self.bias = Parameter(out_features, dtype=dtype, init="zeros") if bias else None
        self.attributes = {"K": in_features, "N": out_features, "block_size": block_size}
        self.attributes |= {"bits": bits} if bits != 4 else {}
        self.attributes |= {"accuracy_level": accuracy_level} if accuracy_level else {}

    def forward(self, x: Tensor) -> Tensor:
        weights = self.weight, self.scales, self.zero_points, None, self.bias
        return ops.mat_mul_n_bits(x, *weights, **self.attributes)


class DynamicQuantLSTM(Module):
    """LSTM whose input and state are quantized by their own range.

    Shapes: (steps, batch, input_size) -> (steps, directions, batch, hidden_size) and the last states.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        direction: str = "forward",
        bias: bool = True,
        *,
        weight_dtype: str = "int8",
        dtype: str = "float32",
    ) -> None:
        directions, columns = 2 if direction == "bidirectional" else 1, 4 * hidden_size
        self.weight = Parameter(directions, input_size, columns, dtype=weight_dtype)
        self.weight_scale = _scale(directions, dtype=dtype)
        self.weight_zero_point = Parameter(directions, dtype=weight_dtype)
        self.recurrence = Parameter(directions, hidden_size, columns, dtype=weight_dtype)
        self.recurrence_scale = _scale(directions, dtype=dtype)
        self.recurrence_zero_point = Parameter(directions, dtype=weight_dtype)
        self.bias = Parameter(directions, 2 * columns, dtype=dtype, init="zeros") if bias else None
        self.attributes: dict[str, Any] = {"hidden_size": hidden_size}
        self.attributes |= {"direction": direction} if direction != "forward" else {}

    def forward(self, x: Tensor, *states: Tensor | None, outputs: int | None = None) -> Any:
        weights = self.weight, self.recurrence, self.bias
        given = [*states, *[None] * (4 - len(states))]
        scales = self.weight_scale, self.weight_zero_point
        more = self.recurrence_scale, self.recurrence_zero_point
        return ops.dynamic_quantize_lstm(
            x, *weights, *given, *scales, *more, outputs=outputs, **self.attributes
        )
