"""Recurrent layers in ONNX's layout: weight (directions, gates * hidden, input), gates in ONNX's order."""

from __future__ import annotations

from typing import Any

from burnx import ops
from burnx.nn.module import Module
from burnx.nn.parameter import Parameter
from burnx.tensor import Tensor


class _Recurrent(Module):
    """A recurrent layer; ``options`` are further attributes of the ONNX operator.

    Shapes: (steps, batch, input_size) -> (steps, directions, batch, hidden_size) and the last states.
    """

    gates = 1
    operator = ""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        direction: str = "forward",
        bias: bool = True,
        dtype: str = "float32",
        **options: Any,
    ) -> None:
        directions, rows = 2 if direction == "bidirectional" else 1, self.gates * hidden_size
        self.weight = Parameter(directions, rows, input_size, dtype=dtype)
        self.recurrence = Parameter(directions, rows, hidden_size, dtype=dtype)
        self.bias = Parameter(directions, 2 * rows, dtype=dtype, init="zeros") if bias else None
        self.attributes: dict[str, Any] = {"hidden_size": hidden_size, **options}
        self.attributes |= {"direction": direction} if direction != "forward" else {}

    def forward(self, x: Tensor, *states: Tensor | None, outputs: int | None = None) -> Any:
        call = getattr(ops, self.operator)
        weights = self.weight, self.recurrence, self.bias
        return call(x, *weights, *states, outputs=outputs, **self.attributes)


class LSTM(_Recurrent):
    __doc__ = _Recurrent.__doc__
    gates, operator = 4, "lstm"


class GRU(_Recurrent):
    __doc__ = _Recurrent.__doc__
    gates, operator = 3, "gru"


class RNN(_Recurrent):
    __doc__ = _Recurrent.__doc__
    gates, operator = 1, "rnn"
