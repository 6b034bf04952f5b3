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
    is_tensor,
    unary,
)
from burnx.codegen.literal import constant
from burnx.codegen.subscripts import picked, reduced, sliced, squeezed, unsqueezed
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
        if left is None or right is None or not any(is_tensor(arg) for arg in args):
            return None
        return binary(symbol, left, right)

    return rule


def _compare(symbol: str) -> Spelling:
    def rule(node: Node, args: Args) -> ast.expr | None:
        left, right = args
        if left is None or right is None or not is_tensor(left):
            return None
        if isinstance(right, ast.Constant) and isinstance(right.value, bool):
            return None  # a reader would take it for a test of one truth
        return compare(symbol, left, right)

    return rule


def _unary(symbol: str) -> Spelling:
    return lambda node, args: (
        unary(symbol, args[0]) if args[0] is not None and is_tensor(args[0]) else None
    )


def _method(receiver: ast.expr | None, method: str, *args: ast.expr) -> ast.expr | None:
    if receiver is None or not is_tensor(receiver):
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


def _filled(node: Node, args: Args) -> ast.expr | None:
    """A tensor of zeros: the value that need not be said."""
    value = node.attributes.get("value")
    is_zero = isinstance(value, np.ndarray) and value.tobytes() == bytes(4)
    if args[0] is None or value is None or not is_zero or value.dtype != np.float32:
        return None
    return call("ops.constant_of_shape", args[0])


_RULES: dict[tuple[str, str], Spelling] = {
    ("", "ConstantOfShape"): _filled,
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
    ("", "Slice"): sliced,
    ("", "Unsqueeze"): unsqueezed,
    ("", "Squeeze"): squeezed,
    ("", "Gather"): picked,
    ("", "ReduceSum"): reduced("sum"),
    ("", "ReduceMean"): reduced("mean"),
    ("", "ReduceMax"): reduced("max"),
    ("", "ReduceMin"): reduced("min"),
    ("", "ReduceProd"): reduced("prod"),
}
