"""Type variables: the names by which the signatures of operators say which inputs and outputs share a dtype.

They are all tensors to a type checker; their names are the ones the ONNX schemas use, or those of a single dtype.
Sequences, optionals and maps have variables of their own.
"""

from __future__ import annotations

from typing import TypeAlias

from burnx.tensor import Tensor

T: TypeAlias = Tensor
T1: TypeAlias = Tensor
T2: TypeAlias = Tensor
T3: TypeAlias = Tensor
T4: TypeAlias = Tensor
T5: TypeAlias = Tensor
U: TypeAlias = Tensor
V: TypeAlias = Tensor
I: TypeAlias = Tensor  # noqa: E741
S: TypeAlias = Tensor
TS: TypeAlias = Tensor
O: TypeAlias = Tensor  # noqa: E741
B: TypeAlias = Tensor
M: TypeAlias = Tensor
Tind: TypeAlias = Tensor
Bool: TypeAlias = Tensor
Int32: TypeAlias = Tensor
Int64: TypeAlias = Tensor
UInt8: TypeAlias = Tensor
Int8: TypeAlias = Tensor
Float32: TypeAlias = Tensor
String: TypeAlias = Tensor

# attributes of a domain, which is checked before the body runs
Flag: TypeAlias = int
"""0 or 1."""
Count: TypeAlias = int
"""At least 1."""
