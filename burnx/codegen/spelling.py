"""How the call of an operator reads: ``a + b``, ``x.reshape(…)``, ``ops.softmax(x, axis=1)``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from burnx.codegen.dims import dim_expr
from burnx.codegen.expressions import (
    attribute,
    binary,
    call,
    compare,
    group,
    index,
    text,
    unary,
)
from burnx.codegen.literal import constant
from burnx.dtype import dtype_name, dtype_of_code
from burnx.graph import Node, Value
from burnx.ops import find, python_name
from burnx.types import MapType, OptionalType, SequenceType, TensorType, Type

Args = Sequence[ast.expr | None]
Spelling = Callable[[Node, Args], ast.expr | None]


def spell(node: Node, args: Args, extra: Mapping[str, ast.expr] | None = None) -> ast.expr:
    """The call that records a node again; ``extra`` are attributes that are spelled elsewhere."""
    rule = _RULES.get((node.domain, node.operator))
    if rule is not None and not extra:
        found = rule(node, args)
        if found is not None:
            return found
    return plain(node, args, extra or {})


def plain(node: Node, args: Args, extra: Mapping[str, ast.expr]) -> ast.Call:
    """``ops.name(inputs, attributes)``."""
    operator = find(node.domain, node.operator)
    given = [constant(None) if arg is None else arg for arg in args]
    count = len(node.outputs)
    options = {
        key: extra[key] if key in extra else setting(value)
        for key, value in node.attributes.items()
        if not _is_default(key, value, operator.attributes.get(key))
        and (key, value) != ("num_outputs", count)  # said by the number of results
    }
    asks = count != operator.outputs_given if not operator.is_variadic else operator.takes_count
    if asks:
        options["outputs"] = constant(count)
    return call(f"ops.{python_name(operator)}", *given, **options)


# what an attribute means that is left out, where the schema leaves that to the text
_NEUTRAL = {"dilations": 1, "strides": 1, "pads": 0}


def _is_default(key: str, value: Any, default: Any) -> bool:
    if default is None and key in _NEUTRAL and isinstance(value, (list, tuple)):
        return all(each == _NEUTRAL[key] for each in value)
    if isinstance(value, np.ndarray) or isinstance(default, type):
        return False
    if isinstance(value, (list, tuple)) and isinstance(default, (list, tuple)):
        return list(value) == list(default)
    return bool(type(value) is type(default) and value == default)


def setting(value: Any) -> ast.expr:
    """An attribute's value as an expression."""
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return constant(value.tolist())
        plain_values = value.astype(np.float32) if value.dtype.kind == "V" else value
        dtype = dtype_name(value.dtype)
        options = {} if value.dtype == np.float32 else {"dtype": constant(dtype)}
        return call("ops.array", constant(plain_values), **options)
    if isinstance(value, (TensorType, SequenceType, OptionalType)):
        return _type(value)
    return constant(value, float32=True)


def _type(kind: Type) -> ast.expr:
    if isinstance(kind, SequenceType):
        return call("ops.sequence_type", _type(kind.element))
    if isinstance(kind, OptionalType):
        return call("ops.optional_type", _type(kind.element))
    assert not isinstance(kind, MapType)
    dims = () if kind.shape is None else kind.shape
    known = kind.shape is not None and all(isinstance(dim, int) for dim in dims)
    extra = (constant(tuple(dims)),) if known else ()
    return call("ops.tensor_type", constant(dtype_name(kind.dtype)), *extra)


# which inputs of operators take a tuple of sizes
_TAKES_SIZES = {
    ("Reshape", 1),
    ("Expand", 1),
    ("Tile", 1),
    ("ConstantOfShape", 0),
    ("Slice", 1),
    ("Slice", 2),
    ("Split", 1),
    ("Pad", 1),
    ("Resize", 3),
    ("CenterCropPad", 1),
    ("Col2Im", 1),
    ("Col2Im", 2),
    ("AffineGrid", 1),
}


def takes_sizes(node: Node, place: int) -> bool:
    """Whether an input of an operator takes a tuple of sizes as it is."""
    return not node.domain and (node.operator, place) in _TAKES_SIZES


def _binary(symbol: str) -> Spelling:
    def rule(node: Node, args: Args) -> ast.expr | None:
        left, right = args
        if left is None or right is None or not any(_is_tensor(arg) for arg in args):
            return None
        return binary(symbol, left, right)

    return rule


def _compare(symbol: str) -> Spelling:
    def rule(node: Node, args: Args) -> ast.expr | None:
        left, right = args
        if left is None or right is None or not _is_tensor(left):
            return None
        if isinstance(right, ast.Constant) and isinstance(right.value, bool):
            return None  # a reader would take it for a test of one truth
        return compare(symbol, left, right)

    return rule


def _is_tensor(arg: ast.expr | None) -> bool:
    """Whether an expression is a tensor: anything but a literal."""
    if isinstance(arg, ast.Call):
        return text(arg.func) not in ("ops.array", "float")
    return not isinstance(arg, ast.Constant)


def _unary(symbol: str) -> Spelling:
    return lambda node, args: (
        unary(symbol, args[0]) if args[0] is not None and _is_tensor(args[0]) else None
    )


def _method(receiver: ast.expr | None, method: str, *args: ast.expr) -> ast.expr | None:
    if receiver is None or not _is_tensor(receiver):
        return None
    return call(attribute(receiver, method), *args)


def _reshape(node: Node, args: Args) -> ast.expr | None:
    shape = args[1]
    if shape is None:
        return None
    if not isinstance(shape, (ast.Tuple, ast.List)) or any(map(_is_zero, shape.elts)):
        return None
    return _method(args[0], "reshape", *shape.elts)


def _is_zero(item: ast.expr) -> bool:
    return isinstance(item, ast.Constant) and item.value == 0


def _transpose(node: Node, args: Args) -> ast.expr | None:
    perm = node.attributes.get("perm")
    if perm is None:
        return _method(args[0], "transpose")
    return _method(args[0], "transpose", *(constant(int(axis)) for axis in perm)) if perm else None


def _cast(node: Node, args: Args) -> ast.expr | None:
    if set(node.attributes) != {"to"} and node.attributes.get("saturate", 1) != 1:
        return None
    to = node.attributes["to"]
    return _method(
        args[0],
        "astype",
        constant(to if isinstance(to, str) else dtype_name(dtype_of_code(int(to)))),
    )


def _slice(node: Node, args: Args) -> ast.expr | None:
    """``x[:, 1:3]`` where bounds, axes and steps are known."""
    source = node.inputs[0]
    arrays = [None if value is None else value.array for value in node.inputs[1:]]
    given = node.inputs[1:]
    unknown = any(
        value is not None and array is None for value, array in zip(given, arrays, strict=True)
    )
    rank = rank_of(source.type) if source is not None else None
    if unknown or rank is None or args[0] is None or not _is_tensor(args[0]):
        return None
    numbers = [
        None if array is None else [int(each) for each in array.reshape(-1)] for array in arrays
    ]
    starts, ends = numbers[0] or [], numbers[1] or []
    axes = numbers[2] if len(numbers) > 2 and numbers[2] is not None else list(range(len(starts)))
    steps = numbers[3] if len(numbers) > 3 and numbers[3] is not None else [1] * len(starts)
    if (
        sorted(axes) != axes
        or any(axis < 0 for axis in axes)
        or len(set(axes)) != len(axes)
        or not axes
    ):
        return None
    items: list[ast.expr] = [ast.Slice() for _ in range(axes[-1] + 1)]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if step < 1 or (start == 0 and end >= 2**31 - 1 and step == 1):
            return None
        items[axis] = _bounds(start, end, step)
    return index(args[0], *items)


def _bounds(start: int, end: int, step: int) -> ast.Slice:
    return ast.Slice(
        None if start == 0 else constant(start),
        None if end >= 2**31 - 1 else constant(end),
        None if step == 1 else constant(step),
    )


def rank_of(kind: Type) -> int | None:
    return len(kind.shape) if isinstance(kind, TensorType) and kind.shape is not None else None


def sizes(node: Node, read: Callable[[str, Value, int], ast.expr]) -> ast.Tuple:
    """The dimensions of a ``Sizes`` node, which operators that take a vector of sizes take as a tuple.

    ``read`` gives the size that a symbol is, which is that of a tensor's axis.
    """
    sources: Mapping[str, str] = node.attributes["sources"]
    known = {}
    for symbol, place in sources.items():
        tensor, axis = place.split(".")
        source = node.inputs[int(tensor)]
        assert source is not None
        known[symbol] = read(symbol, source, int(axis))
    return group(dim_expr(dim, known) for dim in node.attributes["dims"])


_RULES: dict[tuple[str, str], Spelling] = {
    ("", "Add"): _binary("+"),
    ("", "Sub"): _binary("-"),
    ("", "Mul"): _binary("*"),
    ("", "Div"): _binary("/"),
    ("", "MatMul"): _binary("@"),
    ("", "Pow"): _binary("**"),
    ("", "Less"): _compare("<"),
    ("", "LessOrEqual"): _compare("<="),
    ("", "Greater"): _compare(">"),
    ("", "GreaterOrEqual"): _compare(">="),
    ("", "Equal"): _compare("=="),
    ("", "And"): _binary("&"),
    ("", "Or"): _binary("|"),
    ("", "Neg"): _unary("-"),
    ("", "Not"): _unary("~"),
    ("", "Reshape"): _reshape,
    ("", "Transpose"): _transpose,
    ("", "Cast"): _cast,
    ("", "Slice"): _slice,
}
