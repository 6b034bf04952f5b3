"""What has no weights but scales: operators of bytes, each tensor of which has a scale and a zero point of its own."""

from __future__ import annotations

from typing import Any

from burnx import ops
from burnx.nn.module import Module
from burnx.nn.parameter import Parameter
from burnx.tensor import Tensor


def _scale() -> Parameter:
    return Parameter(init="ones")


class _OfBytes(Module):
    """An operator of tensors of bytes, ``sides``, that gives bytes; ``attributes`` are those of the operator."""

    operator = ""
    sides: tuple[str, ...] = ()

    def __init__(self, *, dtype: str = "uint8", **attributes: Any) -> None:
        for side in (*self.sides, "output"):
            setattr(self, f"{side}_scale", _scale())
            setattr(self, f"{side}_zero_point", Parameter(dtype=dtype))
        self.attributes = attributes

    def _held(self, side: str) -> tuple[Parameter, Parameter]:
        return getattr(self, f"{side}_scale"), getattr(self, f"{side}_zero_point")

    def forward(self, *given: Tensor) -> Tensor:
        call = getattr(ops, self.operator)
        pairs = zip(given, self.sides, strict=True)
        inputs = [each for x, side in pairs for each in (x, *self._held(side))]
        made: Tensor = call(*inputs, *self._held("output"), **self.attributes)
        return made


class QLinearAdd(_OfBytes):
    """The sum of two tensors of bytes."""

    operator, sides = "q_linear_add", ("left", "right")


class QLinearMul(_OfBytes):
    """The product of two tensors of bytes, element by element."""

    operator, sides = "q_linear_mul", ("left", "right")


class QLinearMatMul(_OfBytes):
    """The matrix product of two tensors of bytes."""

    operator, sides = "q_linear_mat_mul", ("left", "right")


class QLinearSigmoid(_OfBytes):
    """The sigmoid of bytes."""

    operator, sides = "q_linear_sigmoid", ("input",)


class QLinearLeakyRelu(_OfBytes):
    """LeakyRelu of bytes; its slope ``alpha`` is 0.01 if nothing else is said."""

    operator, sides = "q_linear_leaky_relu", ("input",)


class QLinearSoftmax(_OfBytes):
    """The softmax of bytes along ``axis``, the last one if nothing is said, as in ``opset`` of ONNX."""

    operator, sides = "q_linear_softmax", ("input",)


class QLinearReduceMean(_OfBytes):
    """The mean of bytes along ``axes``."""

    operator, sides = "q_linear_reduce_mean", ("input",)


class QLinearAveragePool(_OfBytes):
    """The means of windows of bytes: ``kernel_shape``, ``strides``, ``pads``."""

    operator, sides = "q_linear_average_pool", ("input",)


class QLinearGlobalAveragePool(_OfBytes):
    """The mean of each channel of bytes."""

    operator, sides = "q_linear_global_average_pool", ("input",)


class QLinearConcat(Module):
    """Tensors of bytes, ``count`` of them, joined along ``axis``; each has a scale and a zero point of its own."""

    def __init__(self, count: int, axis: int, *, dtype: str = "uint8") -> None:
        self.output_scale, self.output_zero_point = _scale(), Parameter(dtype=dtype)
        for place in range(count):
            setattr(self, f"scale_{place}", _scale())
            setattr(self, f"zero_point_{place}", Parameter(dtype=dtype))
        self.axis = axis

    def forward(self, *parts: Tensor) -> Tensor:
        given: list[Any] = []
        for place, part in enumerate(parts):
            held = getattr(self, f"scale_{place}"), getattr(self, f"zero_point_{place}")
            given += [part, *held]
        made: Tensor = ops.q_linear_concat(
            self.output_scale, self.output_zero_point, *given, axis=self.axis
        )
        return made
