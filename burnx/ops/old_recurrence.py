"""RNN, GRU and LSTM before opset 7: ``output_sequence`` said whether the first output is wanted, which its name says too."""

from __future__ import annotations

import inspect
from typing import Any

from burnx.ops.operator import Operator
from burnx.ops.recurrent import gru, lstm, rnn
from burnx.tensor import Tensor


def _register(entry: Operator, until: int) -> None:
    now = inspect.signature(entry.function)
    extra = inspect.Parameter("output_sequence", inspect.Parameter.KEYWORD_ONLY, default=0)

    def recurrent_1(*inputs: Tensor | None, output_sequence: int = 0, **attributes: Any) -> Any:
        return entry(*inputs, outputs=len(entry.outputs), **attributes)

    recurrent_1.__signature__ = now.replace(  # type: ignore[attr-defined]
        parameters=[*now.parameters.values(), extra]
    )
    entry.upgrade(from_version=until)(recurrent_1)


for _entry, _until in ((rnn, 6), (gru, 2), (gru, 6), (lstm, 6)):
    _register(_entry, _until)
