"""nn: modules and layers, what generated source is written in.

Enters: sizes and weights.  Leaves: operator calls.  May import: capture, ops and below.
Start reading at ``module.py``; the layers are in ``linear.py``, ``convolution.py``, ``normalization.py``,
``recurrent.py``.
"""

from typing import TYPE_CHECKING, Any

from burnx.nn.convolution import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from burnx.nn.linear import Embedding, Linear, PReLU
from burnx.nn.module import Container, Input, Module, ModuleList, Output, Parameter, Sequential
from burnx.nn.normalization import BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RMSNorm
from burnx.nn.recurrent import GRU, LSTM, RNN

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "BatchNorm",
    "Container",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Embedding",
    "GroupNorm",
    "Input",
    "InstanceNorm",
    "LayerNorm",
    "Linear",
    "Module",
    "ModuleList",
    "Output",
    "PReLU",
    "Parameter",
    "RMSNorm",
    "Sequential",
]


# type checkers are to see that a name is not there
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise AttributeError(
            f"burnx.nn has no {name!r}: what has no weights is a function of burnx.ops, such as ops.relu"
        )
