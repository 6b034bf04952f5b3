"""Which layer a handful of tensors is, by their names and shapes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from burnx.dtype import dtype_name, is_float
from burnx.tensor import Array

Arrays = Mapping[str, Array]
_EMBEDDING: Final = re.compile(r"(?i)embed|(^|\.)(wte|wpe|shared|tok|emb)\w*$|token|lookup")
_NORM: Final = re.compile(r"(?i)norm|(^|[._])ln(_|\.|\d|$)|(^|[._])n\d?$")
_STATISTICS: Final = {"weight", "bias", "running_mean", "running_var"}


def layer_expression(path: str, arrays: Arrays) -> str | None:
    """The call that makes a layer with these tensors, or None if they are none of a known kind."""
    dtypes = {array.dtype for array in arrays.values()}
    if "weight" not in arrays or len(dtypes) != 1 or not is_float(arrays["weight"].dtype):
        return None
    write = _KINDS.get(frozenset(arrays))
    found = write(path, arrays) if write is not None else None
    if found is None:
        return None
    name = dtype_name(arrays["weight"].dtype)
    return found if name == "float32" else f'{found[:-1]}, dtype="{name}")'


def _batch_norm(path: str, arrays: Arrays) -> str | None:
    shapes = {array.shape for array in arrays.values()}
    shape = shapes.pop()
    return f"nn.BatchNorm({shape[0]})" if not shapes and len(shape) == 1 else None


def _with_bias(path: str, arrays: Arrays) -> str | None:
    weight, bias = arrays["weight"].shape, arrays["bias"].shape
    if len(weight) == 1:
        return f"nn.LayerNorm({weight[0]})" if weight == bias and _NORM.search(path) else None
    return _matrix(weight, "") if bias == weight[:1] else None


def _without_bias(path: str, arrays: Arrays) -> str | None:
    shape = arrays["weight"].shape
    if len(shape) == 1:
        return f"nn.RMSNorm({shape[0]})" if _NORM.search(path) else None
    if len(shape) == 2 and _EMBEDDING.search(path):
        return f"nn.Embedding({shape[0]}, {shape[1]})"
    return _matrix(shape, ", bias=False")


def _matrix(shape: tuple[int, ...], bias: str) -> str | None:
    """A linear layer or a convolution, whose groups nothing tells."""
    if len(shape) == 2:
        return f"nn.Linear({shape[1]}, {shape[0]}{bias})"
    if len(shape) not in (3, 4, 5):
        return None
    kernel = shape[2:]
    size = str(kernel[0]) if len(set(kernel)) == 1 else str(kernel)
    return f"nn.Conv{len(kernel)}d({shape[1]}, {shape[0]}, {size}{bias})"


_KINDS: Final[Mapping[frozenset[str], Callable[[str, Arrays], str | None]]] = {
    frozenset(_STATISTICS): _batch_norm,
    frozenset({"weight", "bias"}): _with_bias,
    frozenset({"weight"}): _without_bias,
}
