"""The nodes that random models are made of, first part: elementwise and movement; one function, one kind of node."""

from __future__ import annotations

import numpy as np
from onnx.helper import np_dtype_to_tensor_dtype as element_type

from tests.unit.random_graphs import FLOATS, INTEGERS, NUMBERS, Maker, choice

UNARY = [
    "Abs",
    "Neg",
    "Relu",
    "Sigmoid",
    "Tanh",
    "Exp",
    "Floor",
    "Ceil",
    "Round",
    "Sin",
    "Cos",
    "Erf",
    "Softplus",
    "Softsign",
    "Elu",
    "Selu",
    "Celu",
    "LeakyRelu",
    "HardSigmoid",
    "HardSwish",
    "ThresholdedRelu",
    "Sign",
    "Sqrt",
    "Log",
    "Reciprocal",
    "Atan",
    "Identity",
    "Mish",
    "Gelu",
    "Sinh",
    "Asinh",
]
ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "PRelu")


@choice
def unary(m: Maker) -> None:
    operator = m.pick(UNARY)
    m.add(
        operator, m.take(*(NUMBERS if operator in ("Abs", "Neg", "Sign", "Identity") else FLOATS))
    )


choice(unary)


@choice
def arithmetic(m: Maker) -> None:
    left = m.take()
    m.add(m.pick(ARITHMETIC), left, m.like(left))


choice(arithmetic)


@choice
def with_constant(m: Maker) -> None:
    left = m.take()
    array = m.values[left]
    shape = array.shape[m.size(0, array.ndim) :] if m.chance(0.7) else (2, *array.shape)
    constant = m.constant(m.fill(shape, array.dtype.name))
    pair = (left, constant) if m.chance(0.7) else (constant, left)
    m.add(m.pick(ARITHMETIC), *pair)


choice(with_constant)


@choice
def integer_division(m: Maker) -> None:
    left = m.take(*INTEGERS)
    divisor = m.constant(np.array(m.size(1, 5), m.values[left].dtype))
    m.add(m.pick(["Div", "Mod"]), left, divisor)


@choice
def modulo(m: Maker) -> None:
    m.add("Mod", left := m.take(*FLOATS), m.constant(np.array(1.5, m.values[left].dtype)), fmod=1)


@choice
def compare(m: Maker) -> None:
    left = m.take()
    m.add(m.pick(["Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal"]), left, m.like(left))


@choice
def logic(m: Maker) -> None:
    left = m.take("bool")
    m.add(m.pick(["And", "Or", "Xor"]), left, m.take("bool")) if m.chance(0.7) else m.add(
        "Not", left
    )


@choice
def where(m: Maker) -> None:
    left = m.take()
    m.add("Where", m.take("bool"), left, m.like(left))


@choice
def cast(m: Maker) -> None:
    to = m.pick([*NUMBERS, "bool", "float32"])
    m.add("Cast", m.take(*NUMBERS, "bool"), to=element_type(np.dtype(to)))


@choice
def clip(m: Maker) -> None:
    name = m.take()
    low, high = (m.constant(np.array(n, m.values[name].dtype)) for n in (0, 2))
    m.add("Clip", name, m.pick([low, ""]), m.pick([high, ""]))


@choice
def many(m: Maker) -> None:
    first = m.take("float32")
    m.add(
        m.pick(["Sum", "Mean", "Max", "Min"]), first, *(m.like(first) for _ in range(m.size(0, 2)))
    )


# ------------------------------------------------------------------------------------- movement
@choice
def transpose(m: Maker) -> None:
    name = m.take(*NUMBERS, "bool", where=lambda array: array.ndim > 0)
    perm = [int(n) for n in m.random.permutation(m.values[name].ndim)]
    m.add("Transpose", name, **({"perm": perm} if m.chance(0.8) else {}))


@choice
def reshape(m: Maker) -> None:
    name = m.take(*NUMBERS, "bool")
    shape = list(m.values[name].shape)
    if len(shape) >= 2 and m.chance(0.6):
        at = m.size(0, len(shape) - 2)
        shape[at : at + 2] = [-1]
        shape[:at] = [0] * at if m.chance(0.5) else shape[:at]
    else:
        shape = m.pick([[-1], [1, -1], [-1, 1], [0, -1], [2, -1], [*shape, 1]])
    m.add("Reshape", name, m.integers(shape))


@choice
def reshape_to_shape_of(m: Maker) -> None:
    other = m.take(*NUMBERS)
    size = m.values[other].size
    name = m.take(*NUMBERS, where=lambda array: array.size == size)
    m.add("Shape", other)
    m.add(m.pick(["Reshape", "Expand"]), name, m.last)


@choice
def shape_arithmetic(m: Maker) -> None:
    """What exporters write: Shape, Gather, Unsqueeze, Concat, Reshape."""
    name = m.take(*NUMBERS, where=lambda array: array.ndim >= 2)
    m.add("Shape", name)
    m.add("Gather", m.last, m.constant(np.array(m.size(0, 1)), 0.0), axis=0)
    if m.chance(0.5):
        m.add(
            m.pick(["Mul", "Add", "Div", "Sub"]),
            m.last,
            m.constant(np.array(m.size(1, 2)), 0.0),
        )
    m.add("Unsqueeze", m.last, m.constant(np.array([0]), 0.0))
    m.add("Concat", m.last, m.integers([-1]), axis=0)
    size = m.last
    if m.chance(0.5):
        m.add("Reshape", name, size)
    else:
        m.add("ConstantOfShape", m.constant(np.array([2]), 0.0))
        m.add(
            "Slice",
            name,
            m.constant(np.array([0]), 0.0),
            list(m.values)[-5] if m.chance(0.5) else m.integers([1]),
        )


@choice
def flatten(m: Maker) -> None:
    name = m.take()
    m.add("Flatten", name, axis=m.size(-m.values[name].ndim, m.values[name].ndim))


@choice
def squeeze(m: Maker) -> None:
    name = m.take(*NUMBERS, "bool", where=lambda array: 1 in array.shape)
    ones = [axis for axis, size in enumerate(m.values[name].shape) if size == 1]
    m.add("Squeeze", name, *([m.integers([m.pick(ones)])] if m.chance(0.8) else []))


@choice
def unsqueeze(m: Maker) -> None:
    name = m.take(*NUMBERS, "bool")
    rank = m.values[name].ndim
    m.add("Unsqueeze", name, m.integers([m.size(-rank - 1, rank)]))


@choice
def concat(m: Maker) -> None:
    name = m.take(*NUMBERS, "bool")
    rank = m.values[name].ndim
    others = [m.like(name, where=lambda array: array.ndim == rank) for _ in range(m.size(0, 2))]
    m.add("Concat", name, *others, axis=m.axis(m.values[name]))


@choice
def split(m: Maker) -> None:
    name = m.take()
    axis = m.axis(m.values[name])
    size = m.values[name].shape[axis]
    first = m.size(0, size)
    if m.chance(0.7):
        m.add("Split", name, m.integers([first, size - first]), outputs=2, axis=axis)
    else:
        m.add("Split", name, outputs=2, axis=axis, **({"num_outputs": 2} if m.opset >= 18 else {}))


@choice
def slice_(m: Maker) -> None:
    name = m.take(*NUMBERS, "bool", where=lambda array: array.ndim > 0)
    axes = m.axes(m.values[name]) or [0]
    starts = [m.pick([0, 1, -1, -2, 5, -9]) for _ in axes]
    ends = [m.pick([1, 2, -1, 2**62, -(2**62), 9]) for _ in axes]
    steps = [m.pick([1, 1, 2, -1, -2]) for _ in axes]
    m.add("Slice", name, *map(m.integers, (starts, ends, axes, steps)))


choice(slice_)


@choice
def gather(m: Maker) -> None:
    name = m.take(*NUMBERS, "bool", where=lambda array: array.ndim > 0)
    axis = m.axis(m.values[name])
    size = m.values[name].shape[axis]
    index = m.random.integers(-size, size, m.pick([(), (1,), (3,), (2, 2), (0,)])) if size else None
    m.add(
        "Gather", name, m.constant(index.astype(m.pick(["int64", "int32"]))), axis=axis
    ) if size else None


@choice
def gather_elements(m: Maker) -> None:
    name = m.take(*NUMBERS, where=lambda array: array.ndim > 0 and array.size > 0)
    axis = m.axis(m.values[name])
    shape = list(m.values[name].shape)
    index = m.random.integers(-shape[axis], shape[axis], shape)
    if m.chance(0.5):
        m.add("GatherElements", name, m.constant(index), axis=axis)
    else:
        updates = m.constant(m.fill(shape, m.values[name].dtype.name))
        kind = m.pick(["none", "add", "mul"]) if m.opset >= 16 else "none"
        index = np.argsort(m.random.random(shape), axis)
        attributes = {} if kind == "none" else {"reduction": kind}
        m.add("ScatterElements", name, m.constant(index), updates, axis=axis, **attributes)


@choice
def gather_nd(m: Maker) -> None:
    name = m.take(*NUMBERS, where=lambda array: array.ndim > 1 and array.size > 0)
    shape = m.values[name].shape
    index = np.array([[m.size(-size, size - 1) for size in shape[:2]] for _ in range(2)])
    if m.chance(0.5):
        m.add("GatherND", name, m.constant(index))
    else:
        updates = m.constant(m.fill((1, *shape[2:]), m.values[name].dtype.name))
        m.add("ScatterND", name, m.constant(index[:1]), updates)


@choice
def expand(m: Maker) -> None:
    name = m.take(*NUMBERS, "bool")
    sizes = [m.size(0, 3) if size == 1 else m.pick([1, size]) for size in m.values[name].shape]
    m.add("Expand", name, m.integers([*([2] if m.chance(0.3) else []), *sizes]))


@choice
def tile(m: Maker) -> None:
    name = m.take(*NUMBERS, "bool")
    m.add(
        "Tile",
        name,
        m.integers([m.size(0 if m.chance(0.2) else 1, 3) for _ in m.values[name].shape]),
    )


@choice
def pad(m: Maker) -> None:
    name = m.take("float32", "int64")
    rank = m.values[name].ndim
    mode = m.pick(["constant", "edge", "reflect"])
    pads = [m.size(-1 if mode == "constant" else 0, 2) for _ in range(2 * rank)]
    fill = (
        [m.constant(np.array(2, m.values[name].dtype))]
        if m.chance(0.5) and mode == "constant"
        else []
    )
    m.add("Pad", name, m.integers(pads), *fill, mode=mode)


@choice
def trilu(m: Maker) -> None:
    m.opset >= 14 and m.add(
        "Trilu", m.take("float32", "int64"), m.constant(np.array(m.size(-2, 2))), upper=m.size(0, 1)
    )
