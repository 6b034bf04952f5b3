"""nn: modules and layers, what generated source is written in.

Enters: sizes and weights.  Leaves: operator calls.  May import: capture, ops and below.
Start reading at ``module.py``; the layers are in ``linear.py``, ``convolution.py``, ``normalization.py``,
``recurrent.py``, ``quantized.py``, ``quantized_bytes.py``, ``quantized_elements.py``.
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
from burnx.nn.quantized import (
    DynamicQuantLinear,
    DynamicQuantLSTM,
    FakeQuantize,
    LinearNBits,
    QuantConv1d,
    QuantConv2d,
    QuantConv3d,
    QuantEmbedding,
    QuantLinear,
)
from burnx.nn.quantized_bytes import (
    IntegerLinear,
    QGemm,
    QLinearConv1d,
    QLinearConv2d,
    QLinearConv3d,
)
from burnx.nn.quantized_elements import (
    QLinearAdd,
    QLinearAveragePool,
    QLinearConcat,
    QLinearGlobalAveragePool,
    QLinearLeakyRelu,
    QLinearMatMul,
    QLinearMul,
    QLinearReduceMean,
    QLinearSigmoid,
    QLinearSoftmax,
)
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
    "DynamicQuantLSTM",
    "DynamicQuantLinear",
    "Embedding",
    "FakeQuantize",
    "GroupNorm",
    "Input",
    "InstanceNorm",
    "IntegerLinear",
    "LayerNorm",
    "Linear",
    "LinearNBits",
    "Module",
    "ModuleList",
    "Output",
    "PReLU",
    "Parameter",
    "QGemm",
    "QLinearAdd",
    "QLinearAveragePool",
    "QLinearConcat",
    "QLinearConv1d",
    "QLinearConv2d",
    "QLinearConv3d",
    "QLinearGlobalAveragePool",
    "QLinearLeakyRelu",
    "QLinearMatMul",
    "QLinearMul",
    "QLinearReduceMean",
    "QLinearSigmoid",
    "QLinearSoftmax",
    "QuantConv1d",
    "QuantConv2d",
    "QuantConv3d",
    "QuantEmbedding",
    "QuantLinear",
    "RMSNorm",
    "Sequential",
]


# type checkers are to see that a name is not there
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise AttributeError(
            f"burnx.nn has no {name!r}: what has no weights is a function of burnx.ops, such as ops.relu"
        )
