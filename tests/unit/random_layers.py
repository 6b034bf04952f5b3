"""The nodes that random models are made of, second part: reductions, products, sizes by data, subgraphs."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper
from onnx.helper import np_dtype_to_tensor_dtype as element_type

from tests.unit.random_graphs import Maker, Unfit, choice

REDUCE = [
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSumExp",
    "ReduceLogSum",
]


# ----------------------------------------------------------------------------------- reductions
@choice
def reduce(m: Maker) -> None:
    operator = m.pick(REDUCE)
    name = m.take("float32", "float64", "int32", "int64")
    axes = m.axes(m.values[name])
    keep = m.size(0, 1)
    if operator == "ReduceSum" or m.opset >= 18:
        given = [m.integers(axes)] if m.chance(0.8) else []
        extra = {"noop_with_empty_axes": 1} if m.chance(0.2) else {}
        m.add(operator, name, *given, keepdims=keep, **extra)
    else:
        m.add(operator, name, keepdims=keep, **({"axes": axes} if axes else {}))


choice(reduce)


@choice
def arg(m: Maker) -> None:
    name = m.take("float32", "int32")
    axis = m.axis(m.values[name])
    m.add(
        m.pick(["ArgMax", "ArgMin"]),
        name,
        axis=axis,
        keepdims=m.size(0, 1),
        select_last_index=m.size(0, 1),
    )


@choice
def along_axis(m: Maker) -> None:
    name = m.take("float32", "float64")
    m.add(m.pick(["Softmax", "LogSoftmax", "Hardmax"]), name, axis=m.axis(m.values[name]))


@choice
def cumsum(m: Maker) -> None:
    name = m.take("float32", "int64", "int32")
    axis = m.constant(np.array(m.axis(m.values[name])))
    m.add("CumSum", name, axis, exclusive=m.size(0, 1), reverse=m.size(0, 1))


@choice
def top_k(m: Maker) -> None:
    name = m.take("float32", "int64", where=lambda array: array.ndim > 0)
    axis = m.axis(m.values[name])
    k = m.integers([m.size(0, m.values[name].shape[axis])])
    m.add("TopK", name, k, outputs=2, axis=axis, largest=m.size(0, 1))


@choice
def layer_norm(m: Maker) -> None:
    """InstanceNormalization is left out: onnxruntime crashes where an axis is empty."""
    name = m.take("float32", where=lambda array: array.ndim >= 2)
    array = m.values[name]
    axis = m.axis(array)
    if m.opset < 17:
        raise Unfit
    m.add("LayerNormalization", name, m.constant(m.fill(array.shape[axis:], "float32")), axis=axis)


@choice
def batch_norm(m: Maker) -> None:
    name = m.take("float32", where=lambda array: array.ndim >= 2)
    given = [m.constant(m.fill([m.values[name].shape[1]], "float32")) for _ in range(3)]
    variance = m.constant(np.abs(m.fill([m.values[name].shape[1]], "float32")) + 0.5)
    m.add("BatchNormalization", name, *given, variance, epsilon=0.01)


# ------------------------------------------------------------------------------------- products
@choice
def matmul(m: Maker) -> None:
    name = m.take("float32", "float64", where=lambda array: array.ndim >= 1)
    array = m.values[name]
    weight = m.constant(m.fill([array.shape[-1], m.size(1, 4)], array.dtype.name))
    m.add("MatMul", name, weight)
    if m.chance(0.4):
        m.add(
            "Add",
            m.last,
            m.constant(m.fill(m.values[m.last].shape[-1:], array.dtype.name)),
        )


choice(matmul)


@choice
def matmul_of_two(m: Maker) -> None:
    name = m.take("float32", "int32", where=lambda array: array.ndim >= 1)
    m.add("MatMul", name, m.like(name))


@choice
def gemm(m: Maker) -> None:
    name = m.take("float32", where=lambda array: array.ndim == 2)
    rows, columns = m.values[name].shape
    turned, weight_turned = m.size(0, 1), m.size(0, 1)
    inner, out = (rows if turned else columns), m.size(1, 4)
    weight = m.constant(m.fill([out, inner] if weight_turned else [inner, out], "float32"))
    bias = (
        [m.constant(m.fill(m.pick([[out], [1], [], [1, out]]), "float32"))] if m.chance(0.7) else []
    )
    m.add(
        "Gemm",
        name,
        weight,
        *bias,
        transA=turned,
        transB=weight_turned,
        alpha=m.pick([1.0, 0.5]),
        beta=m.pick([1.0, 2.0]),
    )


@choice
def einsum(m: Maker) -> None:
    name = m.take("float32", where=lambda array: array.ndim == 2)
    m.add(
        "Einsum",
        name,
        m.like(name, where=lambda array: array.ndim == 2),
        equation=m.pick(["ij,jk->ik", "ij,kj->ki", "ij,ij->", "ab,cd->acbd", "...j,...j->..."]),
    )


@choice
def conv(m: Maker) -> None:
    name = m.take("float32", where=lambda array: array.ndim in (3, 4))
    array = m.values[name]
    # a window beyond its padded input has no place by the standard, one by onnxruntime
    kernel = [m.size(1, max(1, min(3, size))) for size in array.shape[2:]]
    attributes: dict[str, Any] = {"strides": [m.size(1, 2) for _ in kernel]}
    if m.chance(0.5):
        attributes["pads"] = [m.size(0, 1) for _ in range(2 * len(kernel))]
    else:
        attributes["auto_pad"] = m.pick(["SAME_UPPER", "SAME_LOWER", "VALID"])
    operator = m.pick(["Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool"])
    if operator.startswith("Conv"):
        shape = [2, array.shape[1]] if operator == "Conv" else [array.shape[1], 2]
        bias = [m.constant(m.fill([2], "float32"))] if m.chance(0.5) else []
        m.add(
            operator,
            name,
            m.constant(m.fill([*shape, *kernel], "float32"), 0.05),
            *bias,
            **attributes,
        )
    else:
        m.add(operator, name, kernel_shape=kernel, **attributes)


@choice
def resize(m: Maker) -> None:
    name = m.take("float32", where=lambda array: array.ndim in (3, 4) and array.size > 0)
    mode = m.pick(["nearest", "linear", "cubic"])
    how = m.pick(["asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel"])
    rank = m.values[name].ndim
    attributes = {"mode": mode, "coordinate_transformation_mode": how}
    if mode == "nearest":
        attributes["nearest_mode"] = m.pick(["floor", "ceil", "round_prefer_floor"])
    factors = [1.0, 1.0, *(m.pick([2.0, 0.5, 1.5]) for _ in range(rank - 2))]
    m.add("Resize", name, "", m.constant(np.array(factors, np.float32)), **attributes)


# ------------------------------------------------------------------------ sizes that data decide
@choice
def by_data(m: Maker) -> None:
    operator = m.pick(["NonZero", "Unique", "Compress", "Size", "Shape"])
    # of a scalar onnxruntime gives NonZero another shape than the standard says
    name = m.take("float32", "int64", "bool", where=lambda array: array.ndim > 0)
    array = m.values[name]
    if operator == "Compress":
        m.add(operator, name, m.constant(m.fill([array.size], "bool"), 0.5))
    elif operator == "Shape" and m.opset >= 15:
        m.add(
            operator, name, start=m.size(-2, 1), **({"end": m.size(-2, 3)} if m.chance(0.5) else {})
        )
    else:
        m.add(operator, name)


@choice
def one_hot(m: Maker) -> None:
    m.add(
        "OneHot",
        m.take("int64", "int32"),
        m.constant(np.array(m.size(1, 4))),
        m.constant(np.array([0, 1], np.float32)),
        axis=m.pick([-1, 0]),
    )


@choice
def range_(m: Maker) -> None:
    m.add(
        "Range",
        *(
            m.constant(np.array(n, np.int64))
            for n in (m.size(-2, 2), m.size(-2, 6), m.pick([1, 2, -1]))
        ),
    )


@choice
def range_of_size(m: Maker) -> None:
    m.add("Size", m.take())
    size = m.last
    m.add("Range", m.constant(np.array(0), 0), size, m.constant(np.array(1), 0))


@choice
def constant_of_shape(m: Maker) -> None:
    value = helper.make_tensor("v", TensorProto.INT64, [1], [m.size(0, 3)])
    m.add("Shape", m.take())
    m.add("ConstantOfShape", m.last, value=value)


@choice
def quantize(m: Maker) -> None:
    name = m.take("float32")
    zero = m.constant(np.array(3, np.uint8))
    scale = m.constant(np.array(0.05, np.float32))
    m.add("QuantizeLinear", name, scale, zero)
    m.add("DequantizeLinear", m.last, scale, zero)


# ---------------------------------------------------------------------------------- subgraphs
def body(name: str, nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> Any:
    return helper.make_graph(nodes, name, inputs, outputs)


def out(name: str, dtype: Any) -> Any:
    return helper.make_tensor_value_info(name, element_type(np.dtype(dtype)), None)


@choice
def if_(m: Maker) -> None:
    condition = m.take("bool", where=lambda array: array.size == 1 and array.ndim <= 1)
    left, right = m.take("float32"), m.take("float32")
    result = f"v{len(m.values)}"
    branches = [
        body(
            "then",
            [helper.make_node("Relu", [left], [f"{result}t"])],
            [],
            [out(f"{result}t", np.float32)],
        ),
        body(
            "else",
            [helper.make_node("Neg", [right], [f"{result}e"])],
            [],
            [out(f"{result}e", np.float32)],
        ),
    ]
    node = helper.make_node(
        "If", [condition], [result], then_branch=branches[0], else_branch=branches[1]
    )
    m.append(node, [condition, left, right])


@choice
def condition(m: Maker) -> None:
    m.add("ReduceSum", m.take("float32"), keepdims=0)
    m.add("Greater", m.last, m.constant(np.array(0.1, np.float32)))
    if_(m)


@choice
def loop(m: Maker) -> None:
    name, outer = m.take("float32"), m.take("float32")
    r = f"v{len(m.values)}"
    nodes = [
        helper.make_node("Mul", [f"{r}x", outer], [f"{r}p"]),
        helper.make_node("Tanh", [f"{r}p"], [f"{r}y"]),
        helper.make_node("Cast", [f"{r}i"], [f"{r}f"], to=1),
        helper.make_node("Add", [f"{r}y", f"{r}f"], [f"{r}s"]),
        helper.make_node("Identity", [f"{r}c"], [f"{r}d"]),
    ]
    scalar = [
        helper.make_tensor_value_info(f"{r}i", 7, []),
        helper.make_tensor_value_info(f"{r}c", 9, []),
    ]
    inputs = [*scalar, out(f"{r}x", np.float32)]
    inner = body(
        "body",
        nodes,
        inputs,
        [out(f"{r}d", bool), out(f"{r}y", np.float32), out(f"{r}s", np.float32)],
    )
    trips, keep = m.constant(np.array(m.size(1, 3))), m.constant(np.array(True))
    node = helper.make_node("Loop", [trips, keep, name], [r, f"{r}scan"], body=inner)
    m.append(node, [trips, keep, name, outer])


@choice
def scan(m: Maker) -> None:
    name = m.take("float32", where=lambda array: array.ndim >= 2)
    r = f"v{len(m.values)}"
    state = m.constant(np.zeros(m.values[name].shape[1:], np.float32), 0)
    nodes = [
        helper.make_node("Add", [f"{r}s", f"{r}x"], [f"{r}t"]),
        helper.make_node("Exp", [f"{r}x"], [f"{r}y"]),
    ]
    names = [out(f"{r}{each}", np.float32) for each in "sxty"]
    node = helper.make_node(
        "Scan",
        [state, name],
        [r, f"{r}out"],
        body=body("b", nodes, names[:2], names[2:]),
        num_scan_inputs=1,
    )
    m.append(node, [state, name])


@choice
def recurrent(m: Maker) -> None:
    name = m.take("float32", where=lambda array: array.ndim == 3 and array.size > 0)
    width = m.values[name].shape[2]
    operator, gates = m.pick([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    direction, count = m.pick([("forward", 1), ("reverse", 1), ("bidirectional", 2)])
    weights = [
        m.constant(m.fill([count, gates * 2, size], "float32") * 0.5, 0) for size in (width, 2)
    ]
    bias = [m.constant(m.fill([count, gates * 4], "float32"), 0)] if m.chance(0.6) else []
    m.add(operator, name, *weights, *bias, outputs=2, hidden_size=2, direction=direction)
