"""Normalizations with learned scale and shift."""

from __future__ import annotations

from burnx import ops
from burnx.nn.module import Module
from burnx.nn.parameter import Parameter
from burnx.tensor import Tensor


class LayerNorm(Module):
    """Normalize over the last axes, those of ``shape``.

    Shapes: (*b, *shape) -> (*b, *shape).
    """

    def __init__(
        self, *shape: int, eps: float = 1e-5, bias: bool = True, dtype: str = "float32"
    ) -> None:
        self.weight = Parameter(*shape, dtype=dtype, init="ones")
        self.bias = Parameter(*shape, dtype=dtype, init="zeros") if bias else None
        self.eps, self.axis = eps, -len(shape)

    def forward(self, x: Tensor) -> Tensor:
        return ops.layer_normalization(x, self.weight, self.bias, axis=self.axis, epsilon=self.eps)


class RMSNorm(Module):
    """Divide by the root of the mean square over the last axes, those of ``shape``."""

    def __init__(self, *shape: int, eps: float = 1e-5, dtype: str = "float32") -> None:
        self.weight = Parameter(*shape, dtype=dtype, init="ones")
        self.eps, self.axis = eps, -len(shape)

    def forward(self, x: Tensor) -> Tensor:
        return ops.rms_normalization(x, self.weight, axis=self.axis, epsilon=self.eps)


class BatchNorm(Module):
    """Normalize each channel by stored statistics.

    Shapes: (batch, channels, *s) -> (batch, channels, *s).
    """

    def __init__(self, channels: int, eps: float = 1e-5, dtype: str = "float32") -> None:
        self.weight = Parameter(channels, dtype=dtype, init="ones")
        self.bias = Parameter(channels, dtype=dtype, init="zeros")
        self.running_mean = Parameter(channels, dtype=dtype, init="zeros")
        self.running_var = Parameter(channels, dtype=dtype, init="ones")
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        statistics = self.running_mean, self.running_var
        return ops.batch_normalization(x, self.weight, self.bias, *statistics, epsilon=self.eps)


class InstanceNorm(Module):
    """Normalize each channel of each sample over its other axes."""

    def __init__(self, channels: int, eps: float = 1e-5, dtype: str = "float32") -> None:
        self.weight = Parameter(channels, dtype=dtype, init="ones")
        self.bias = Parameter(channels, dtype=dtype, init="zeros")
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return ops.instance_normalization(x, self.weight, self.bias, epsilon=self.eps)


class GroupNorm(Module):
    """Normalize groups of channels of each sample."""

    def __init__(
        self, groups: int, channels: int, eps: float = 1e-5, dtype: str = "float32"
    ) -> None:
        self.weight = Parameter(channels, dtype=dtype, init="ones")
        self.bias = Parameter(channels, dtype=dtype, init="zeros")
        self.groups, self.eps = groups, eps

    def forward(self, x: Tensor) -> Tensor:
        return ops.group_normalization(
            x, self.weight, self.bias, num_groups=self.groups, epsilon=self.eps
        )
