"""Dimensions in the source: as expressions, and as text in comments."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from burnx.codegen.expressions import binary, call
from burnx.codegen.literal import constant
from burnx.dtype import dtype_name, float32
from burnx.shape import Atom, Dim, Expr, Symbol
from burnx.types import MapType, OptionalType, SequenceType, TensorType, Type

_OPERATORS = {"floordiv": "//", "mod": "%"}


def dim_expr(dim: Dim, symbols: Mapping[str, ast.expr]) -> ast.expr:
    """A dimension as Python, its symbols given as expressions."""
    if isinstance(dim, int):
        return constant(dim)
    total: ast.expr | None = None
    for monomial, factor in sorted(dim.terms.items(), key=lambda item: (item[1] < 0, not item[0])):
        term = _term(monomial, abs(factor), symbols)
        if total is None:
            total = term if factor > 0 else binary("*", constant(-1), term)
        else:
            total = binary("+" if factor > 0 else "-", total, term)
    assert total is not None
    return total


def _term(monomial: tuple[Atom, ...], factor: int, symbols: Mapping[str, ast.expr]) -> ast.expr:
    result: ast.expr | None = None if factor == 1 and monomial else constant(factor)
    for atom in monomial:
        part = _atom(atom, symbols)
        result = part if result is None else binary("*", result, part)
    assert result is not None
    return result


def _atom(atom: Atom, symbols: Mapping[str, ast.expr]) -> ast.expr:
    if isinstance(atom, Symbol):
        return symbols[atom.name]
    left, right = dim_expr(atom.left, symbols), dim_expr(atom.right, symbols)
    if atom.kind in _OPERATORS:
        return binary(_OPERATORS[atom.kind], left, right)
    return call(f"ops.{atom.kind}_dim", left, right)


def dim_text(dim: Dim | None) -> str:
    """A dimension in a comment; a size without a name, or none at all, is ``?``."""
    if dim is None:
        return "?"
    if not isinstance(dim, Expr):
        return str(dim)
    text = str(dim)
    return "?" if text.startswith("_") or "(_" in text or " _" in text or "*_" in text else text


def type_text(kind: Type, longest: int = 1_000_000) -> str:
    """A type in a comment: the shape, and the dtype where it is not float32; what is longer than that is ``...``."""
    if isinstance(kind, SequenceType):
        return f"list of {type_text(kind.element, longest)}"
    if isinstance(kind, OptionalType):
        return f"{type_text(kind.element, longest)} or None"
    if isinstance(kind, MapType):
        value = kind.value
        what = dtype_name(value.dtype) if isinstance(value, TensorType) else type_text(value)
        return f"map from {dtype_name(kind.key)} to {what}"
    texts = [] if kind.shape is None else [dim_text(dim) for dim in kind.shape]
    short = (text if len(text) <= longest else "..." for text in texts)
    dims = "(...)" if kind.shape is None else f"({', '.join(short)})"
    return dims if kind.dtype == float32 else f"{dims} {dtype_name(kind.dtype)}"
