"""What NumPy and PyTorch call things that have another name or form here, and how they are written with burnx."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import Final

from burnx.tensor import Tensor

# name elsewhere -> what to write: x and y are tensors, mask one of bools, index one of integers
SPELLINGS: Final = {
    "absolute": "ops.abs(x)",
    "adaptive_avg_pool2d": "ops.global_average_pool(x)",
    "all": "ops.reduce_min(mask.astype('int32')) > 0",
    "amax": "x.max(axis)",
    "amin": "x.min(axis)",
    "any": "ops.reduce_max(mask.astype('int32')) > 0",
    "arange": "ops.range(0, 10, 1)",
    "arccos": "ops.acos(x)",
    "arccosh": "ops.acosh(x)",
    "arcsin": "ops.asin(x)",
    "arcsinh": "ops.asinh(x)",
    "arctan": "ops.atan(x)",
    "arctanh": "ops.atanh(x)",
    "argsort": "ops.top_k(x, [size])[1]",
    "array": "x, which is a tensor already",
    "asarray": "x, which is a tensor already",
    "avg_pool2d": "ops.average_pool(x, kernel_shape=[2, 2])",
    "bmm": "x @ y",
    "bool": "x != 0",
    "broadcast_to": "ops.expand(x, sizes)",
    "byte": "x.astype('uint8')",
    "cat": "ops.concat(x, y, axis=0)",
    "chunk": "ops.split(x, num_outputs=2)",
    "clamp": "x.clip(low, high)",
    "clone": "x, which never changes",
    "concatenate": "ops.concat(x, y, axis=0)",
    "contiguous": "x, which lies as it has to",
    "conv1d": "ops.conv(x, weight, bias)",
    "conv2d": "ops.conv(x, weight, bias)",
    "conv3d": "ops.conv(x, weight, bias)",
    "copy": "x, which never changes",
    "cpu": "x: the model runs where burnx.compile and to() say",
    "cuda": "x: the model runs where burnx.compile and to() say",
    "cumprod": "ops.cum_prod(x, axis)",
    "cumsum": "ops.cum_sum(x, axis)",
    "detach": "x, which has no gradient",
    "dim": "x.ndim",
    "divide": "x / y",
    "dot": "x @ y",
    "double": "x.astype('float64')",
    "embedding": "ops.gather(x, index)",
    "eq": "x == y",
    "expand_as": "ops.expand(x, ops.shape(y))",
    "expm1": "ops.exp(x) - 1",
    "fabs": "ops.abs(x)",
    "flip": "x[::-1]",
    "float": "x.astype('float32')",
    "float16": "x.astype('float16')",
    "float32": "x.astype('float32')",
    "float64": "x.astype('float64')",
    "ge": "x >= y",
    "greater_equal": "x >= y",
    "gt": "x > y",
    "half": "x.astype('float16')",
    "hardswish": "ops.hard_swish(x)",
    "hardtanh": "x.clip(-1, 1)",
    "index_select": "ops.gather(x, index, axis=0)",
    "int": "x.astype('int32')",
    "int32": "x.astype('int32')",
    "int64": "x.astype('int64')",
    "interpolate": "ops.resize(x, sizes=sizes)",
    "invert": "~mask",
    "le": "x <= y",
    "less_equal": "x <= y",
    "log10": "ops.log(x) / 2.302585",
    "log1p": "ops.log(x + 1)",
    "log2": "ops.log(x) / 0.6931472",
    "logical_and": "mask & mask",
    "logical_not": "~mask",
    "logical_or": "mask | mask",
    "logical_xor": "mask ^ mask",
    "logsigmoid": "-ops.softplus(-x)",
    "logsumexp": "ops.reduce_log_sum_exp(x, [axis])",
    "long": "x.astype('int64')",
    "lt": "x < y",
    "masked_fill": "ops.where(mask, 0.0, x)",
    "matmul": "x @ y",
    "max_pool2d": "ops.max_pool(x, kernel_shape=[2, 2])",
    "maximum": "ops.max(x, y)",
    "minimum": "ops.min(x, y)",
    "mm": "x @ y",
    "moveaxis": "x.transpose(1, 0)",
    "multiply": "x * y",
    "narrow": "x[start:end]",
    "ne": "x != y",
    "negative": "-x",
    "norm": "ops.reduce_l2(x, [axis])",
    "numel": "ops.size(x)",
    "ones_like": "x * 0 + 1",
    "permute": "x.transpose(1, 0)",
    "power": "x ** y",
    "ravel": "x.flatten()",
    "relu6": "x.clip(0, 6)",
    "remainder": "x % y",
    "repeat": "ops.tile(x, [2, 1])",
    "rint": "ops.round(x)",
    "rms_norm": "ops.rms_normalization(x, weight)",
    "rsqrt": "1 / ops.sqrt(x)",
    "scaled_dot_product_attention": "ops.attention(query, key, value)",
    "select": "x[index]",
    "silu": "ops.swish(x)",
    "sort": "ops.top_k(x, [size])[0]",
    "square": "x * x",
    "stack": "burnx.stack([x, y])",
    "std": "ops.sqrt(((x - x.mean()) ** 2).mean())",
    "subtract": "x - y",
    "t": "x.T",
    "take": "ops.gather(x, index)",
    "take_along_axis": "ops.gather_elements(x, index)",
    "to": "x.astype('float32'); the model runs where burnx.compile and to() say",
    "tril": "ops.trilu(x, upper=0)",
    "triu": "ops.trilu(x, upper=1)",
    "true_divide": "x / y",
    "unbind": "ops.split(x, num_outputs=2)",
    "var": "((x - x.mean()) ** 2).mean()",
    "view": "x.reshape(-1, 1)",
    "view_as": "x.reshape(*y.shape)",
    "zeros_like": "x * 0",
}
METHOD_NAMES: Final = tuple(
    name for name in dir(Tensor) if not name.startswith("_") and name not in Tensor.__slots__
)


def suggestion(name: str, known: Collection[str], operators: Collection[str]) -> str:
    """The end of an error on a name that is not among ``known``: what to write, else what is spelled much like it.

    ``operators`` are the names of burnx.ops.
    """
    plain = name.rstrip("_")  # of PyTorch's that work in place
    close = _as_known(plain, known)
    if not close and (found := spelling(plain, operators)):
        return f"; write {found}"
    close = close or "".join(get_close_matches(name, known, 1))
    return f"; did you mean {close!r}?" if close else ""


def spelling(name: str, operators: Collection[str]) -> str:
    """How that which is called so elsewhere is written here; empty if nobody knows."""
    if name in SPELLINGS:
        return SPELLINGS[name]
    if method := _as_known(name, METHOD_NAMES):
        is_value = isinstance(getattr(Tensor, method), property)
        return f"x.{method}" if is_value else f"x.{method}()"
    operator = _as_known(name, operators)
    return f"ops.{operator}(x)" if operator else ""


def _as_known(name: str, known: Collection[str]) -> str:
    """The name in the case, and with the underscores, that it has here; empty if it is not there."""
    return {_folded(each): each for each in known}.get(_folded(name), "")


def _folded(name: str) -> str:
    return name.replace("_", "").lower()
