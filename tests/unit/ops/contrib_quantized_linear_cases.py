"""Nodes of com.microsoft that compute on quantized tensors: both dtypes, zero points at their ends.

Scales are such that nothing lies halfway between two steps, since there onnxruntime's products of
ratios of scales round to either side; so everything is compared exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from tests.unit.ops.contrib_quantized_node import Array, Case, one

RNG = np.random.default_rng(17)
IN, OTHER, OUT = one(0.01317), one(0.02131), one(0.03719)


def whole(dtype: Any, *shape: int) -> Array:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, shape, dtype, endpoint=True)


def small(dtype: Any, *shape: int) -> Array:
    """Seven bits, which no processor saturates on the way in a sum of two products."""
    low = -64 if np.dtype(dtype).kind == "i" else 0
    return RNG.integers(low, low + 128, shape).astype(dtype)


def real(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def ends(dtype: Any) -> list[tuple[Array, Array, Array]]:
    """Zero points of a, b and c."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    triples = [(low, high, low), (high, low, high), (3, 100, 17)]
    return [tuple(one(each, dtype) for each in triple) for triple in triples]  # type: ignore[misc]


def binary() -> Iterator[Case]:
    shapes: Sequence[Any] = (((2, 3, 20), (3, 20)), ((4, 9), (1, 1)), ((70,), (1,)), ((2, 1), (5,)))
    for dtype in (np.uint8, np.int8):
        for zeros in ends(dtype):
            for left, right in shapes:
                for op, out in (("QLinearAdd", OUT), ("QLinearMul", one(0.117))):
                    inputs = {
                        "a": whole(dtype, *left),
                        "as": IN,
                        "az": zeros[0],
                        "b": whole(dtype, *right),
                        "bs": OTHER,
                        "bz": zeros[1],
                        "cs": out,
                        "cz": zeros[2],
                    }
                    yield Case(op, inputs, label=f"{dtype.__name__} {int(zeros[0])} {left}")


def one_by_one() -> Iterator[Case]:
    for dtype in (np.uint8, np.int8):
        for az, bz, cz in ends(dtype):
            x = {"x": whole(dtype, 4, 30), "xs": OTHER, "xz": az}
            y = {"y": whole(dtype, 1, 30), "ys": IN, "yz": bz}
            out = {"zs": OUT, "zz": cz}
            label = f"{dtype.__name__} {int(az)}"
            yield Case("QLinearSigmoid", {**x, "zs": one(1 / 256), "zz": cz}, label=label)
            for alpha in ({}, {"alpha": 0.3}, {"alpha": -1.7}):
                yield Case("QLinearLeakyRelu", {**x, **out}, alpha, label=f"{label} {alpha}")
            again = {"w": whole(dtype, 4, 7), "ws": IN, "wz": bz}
            yield Case("QLinearConcat", {**out, **x, **again}, {"axis": -1}, label=label)
            condition = {"c": RNG.random((2, 1, 30)) < 0.5}
            yield Case("QLinearWhere", {**condition, **x, **y, **out}, label=label)
            for axis in (0, 1, -1):
                for opset in (11, 13):
                    inputs = {"x": whole(dtype, 3, 4, 5), "xs": OTHER, "xz": az}
                    chosen = {"axis": axis, "opset": opset}
                    inputs |= {"zs": one(1 / 256), "zz": cz}
                    yield Case("QLinearSoftmax", inputs, chosen, label=f"{label} {axis} {opset}")


POOLS: Sequence[dict[str, Any]] = (
    {},
    {"pads": [1, 0, 0, 1]},
    {"strides": [2, 3], "ceil_mode": 1},
    {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
    {"auto_pad": "SAME_UPPER"},
    {"auto_pad": "VALID"},
    {"count_include_pad": 1, "pads": [1, 1, 1, 1]},
    {"count_include_pad": 1, "pads": [1, 1, 1, 1], "ceil_mode": 1, "strides": [2, 2]},
)


def pools() -> Iterator[Case]:
    for dtype, last in product((np.uint8, np.int8), (0, 1)):
        for az, _, cz in ends(dtype):
            yield from _pools_of(dtype, last, {"xs": OTHER, "xz": az, "zs": OUT, "zz": cz})


def _pools_of(dtype: Any, last: int, scales: dict[str, Array]) -> Iterator[Case]:
    label = f"{dtype.__name__} {int(scales['xz'])} {last}"
    for number, options in enumerate(POOLS):
        if last and number == len(POOLS) - 1:
            continue  # onnxruntime counts what ceil_mode adds with channels first only
        inputs = {"x": whole(dtype, 2, 6, 7, 5), **scales}
        chosen = {"kernel_shape": [3, 2], "channels_last": last, **options}
        yield Case("QLinearAveragePool", inputs, chosen, label=f"{label} {number}")
    for shape, kernel in (((2, 6, 7), [3]), ((1, 3, 4, 5, 3), [2, 2, 1])):
        inputs, rank = {"x": whole(dtype, *shape), **scales}, f"{label} rank {len(shape)}"
        chosen = {"channels_last": last}
        yield Case("QLinearGlobalAveragePool", inputs, chosen, label=rank)
        chosen = {"kernel_shape": kernel, "channels_last": last}
        yield Case("QLinearAveragePool", inputs, chosen, label=rank)


CONVOLUTIONS: Sequence[dict[str, Any]] = (
    {},
    {"group": 2},
    {"pads": [1, 0, 2, 1], "strides": [2, 1]},
    {"dilations": [2, 2], "kernel_shape": [3, 2]},
    {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
)


def convolutions() -> Iterator[Case]:
    """onnxruntime has a kernel for uint8, and for int8 by int8."""
    for left, right in ((np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)):
        for last in (0, 1):
            for number, options in enumerate(CONVOLUTIONS):
                shape = (2, 7, 6, 4) if last else (2, 4, 7, 6)
                per_filter, biased = number % 2, number != 1
                inputs = {
                    "x": small(left, *shape),
                    "xs": OTHER,
                    "xz": one(7, left),
                    "w": small(right, 6, 4 // options.get("group", 1), 3, 2),
                    "ws": np.abs(real(6)) / 50 if per_filter else IN,
                    "wz": np.zeros(6, right) if per_filter else one(0, right),
                    "ys": one(0.317),
                    "yz": one(100, left),
                    "b": RNG.integers(-900, 900, 6).astype(np.int32) if biased else None,
                }
                chosen = {"channels_last": last, **options}
                label = f"{left.__name__} {right.__name__} {last} {number}"
                yield Case("QLinearConv", inputs, chosen, label=label)


def matrices() -> Iterator[Case]:
    cs: Sequence[Any] = (None, (5,), (4, 1), (1, 5), (4, 5), ())
    for left, right in ((np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)):
        for number, c in enumerate(cs):
            trans_a, trans_b, columns = number % 2, number // 2 % 2, number > 2
            inputs = {
                "a": small(left, *((33, 4) if trans_a else (4, 33))),
                "as": IN,
                "az": one(7, left),
                "b": small(right, *((5, 33) if trans_b else (33, 5))),
                "bs": np.abs(real(5)) / 10 if columns else OTHER,
                "bz": small(right, 5) if columns else one(3, right),
                "c": None if c is None else RNG.integers(-9000, 9000, c).astype(np.int32),
            }
            chosen = {"transA": trans_a, "transB": trans_b, "alpha": 0.7}
            label = f"{left.__name__} {right.__name__} {c}"
            yield Case("QGemm", inputs, chosen, label=label)
            if not (left is np.uint8 and right is np.uint8 and c == ()):
                stored = {"ys": one(0.117), "yz": one(100, left)}
                yield Case("QGemm", {**inputs, **stored}, chosen, label=f"{label} stored")


SHAPES: Sequence[Any] = (((4, 33), (33, 5)), ((2, 3, 33), (33, 5)), ((2, 3, 33), (2, 33, 5)))


def products() -> Iterator[Case]:
    dtypes = ((np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8))
    for (left, right), (a, b), columns in product(dtypes, SHAPES, (False, True)):
        shape = (*b[:-2], 1, 5) if len(b) > 2 else (5,)
        scale = np.abs(real(*shape)) if columns else OTHER
        zero = small(right, *shape) if columns else one(3, right)
        label = f"{left.__name__} {right.__name__} {a} {b} {columns}"
        inputs = {"a": small(left, *a), "b": small(right, *b), "as": IN, "bs": scale}
        rest = {"az": one(7, left), "bz": zero, "bias": real(5)}
        yield Case("MatMulIntegerToFloat", {**inputs, **rest}, label=label)
        yield Case("MatMulIntegerToFloat", inputs, label=f"{label} symmetric")
        inputs = {"a": real(*a), "b": small(right, *b), "bs": scale, "bz": zero, "bias": real(5)}
        yield Case("DynamicQuantizeMatMul", inputs, label=label)
        inputs |= {"bz": None}
        yield Case("DynamicQuantizeMatMul", inputs, label=f"{label} symmetric")


def few_bits() -> Iterator[Case]:
    """Not of 4 bits, which onnxruntime does not hand to Python."""
    for dtype in map(np.dtype, ("int8", "uint8", "int16", "uint16")):
        for kind in (np.float32, np.float16):
            for axis, count in ((None, ()), (1, (3,)), (-1, (4,))):
                scale = np.asarray(np.abs(RNG.normal(size=count)) * 0.05 + 0.02).astype(kind)
                zero = np.asarray(RNG.integers(0, 7, count)).astype(dtype)
                x, chosen = (real(2, 3, 4) * 3).astype(kind), {} if axis is None else {"axis": axis}
                label = f"{dtype.name} {kind.__name__} {axis}"
                yield Case("QuantizeLinear", {"x": x, "s": scale, "z": zero}, chosen, label=label)
                x = whole(dtype, 2, 3, 4)
                yield Case("DequantizeLinear", {"x": x, "s": scale, "z": zero}, chosen, label=label)
    x = RNG.integers(-(2**20), 2**20, (3, 4)).astype(np.int32)
    yield Case("DequantizeLinear", {"x": x, "s": one(0.01)}, label="int32")
    yield Case("QuantizeLinear", {"x": real(3, 4), "s": one(0.01)}, label="no zero point")


CASES = [
    case
    for family in (binary, one_by_one, pools, convolutions, matrices, products, few_bits)
    for case in family()
]
