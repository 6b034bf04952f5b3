"""Linear, Embedding, PReLU."""

from __future__ import annotations

from burnx import ops
from burnx.nn.module import Module
from burnx.nn.parameter import Parameter
from burnx.tensor import Tensor


class Linear(Module):
    """x @ weight.T + bias.

    Shapes: (*b, in_features) -> (*b, out_features); weight (out_features, in_features).
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, dtype: str = "float32"
    ) -> None:
        self.weight = Parameter(out_features, in_features, dtype=dtype)
        self.bias = Parameter(out_features, dtype=dtype, init="zeros") if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return ops.linear(x, self.weight, self.bias)


class Embedding(Module):
    """Rows of a table.

    Shapes: (*b) integers -> (*b, *size); weight (count, *size).
    """

    def __init__(self, count: int, *size: int, dtype: str = "float32") -> None:
        self.weight = Parameter(count, *size, dtype=dtype)

    def forward(self, indices: Tensor) -> Tensor:
        return ops.gather(self.weight, indices)


class PReLU(Module):
    """x where positive, weight * x elsewhere; the weight broadcasts to x."""

    def __init__(self, *shape: int, dtype: str = "float32") -> None:
        self.weight = Parameter(*shape, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        return ops.prelu(x, self.weight)
